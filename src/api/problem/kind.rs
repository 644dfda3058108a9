//! The kinds of problem: one entry per slug of PROTOCOL section 6, with the words that its page shows.
//! A slug never changes; the words may.

/// What is common to every problem of one slug.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The last part of `type`.
    pub slug: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// A short name for people.
    pub title: &'static str,
    /// When it is said.
    pub when: &'static str,
    /// What the client should do.
    pub remedy: &'static str,
    /// The members beyond those of RFC 9457, with their meaning.
    pub members: &'static [(&'static str, &'static str)],
}

macro_rules! kinds {
    ($($name:ident = $status:literal $slug:literal, $title:literal;
        when $when:literal;
        remedy $remedy:literal;
        members [$(($member:literal, $meaning:literal)),* $(,)?];)*) => {
        $(
            #[doc = concat!("`", $slug, "`")]
            pub const $name: Kind = Kind {
                slug: $slug,
                status: $status,
                title: $title,
                when: $when,
                remedy: $remedy,
                members: &[$(($member, $meaning)),*],
            };
        )*
        /// Every kind, in the order of their status.
        pub const ALL: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    INVALID_PARAMETER = 400 "invalid-parameter", "Invalid parameter";
        when "A query parameter or a part of the path is unknown, repeated, badly encoded, out of its range, or does not go with the others. Nothing is clamped or ignored in silence.";
        remedy "Read `parameter` and `expected`, correct the request, send it again. Sending it unchanged fails again.";
        members [("parameter", "the parameter it is about"), ("value", "what was sent; left out for unknown parameters, which may hold a secret"), ("expected", "the form that is accepted")];
    UNKNOWN_RESOURCE = 400 "unknown-resource", "Unknown resource";
        when "A resource name is neither declared nor was it ever seen in this log, or the server accepts declared resources only.";
        remedy "Check the spelling; GET /v1/log lists the resources of the log.";
        members [("parameter", "where the name stood"), ("value", "the name"), ("expected", "what is accepted")];
    INVALID_BODY = 400 "invalid-body", "Invalid body";
        when "The body is not strict JSON (also: a key twice in one object, half a surrogate pair, invalid UTF-8, more than 128 levels), or its envelope has a wrong or unknown member.";
        remedy "Correct the body at the place that `detail` names.";
        members [("index", "in a batch: the operation, counted from 0")];
    MALFORMED_HEADER = 400 "malformed-header", "Malformed header";
        when "A header such as If-Match, Idempotency-Key or Scroll-Log is missing where it is needed, malformed, or repeated.";
        remedy "Correct the header that `parameter` names.";
        members [("parameter", "the header"), ("expected", "the form that is accepted")];
    UNAUTHORIZED = 401 "unauthorized", "Unauthorized";
        when "There is no key in `Authorization: Bearer <key>`, or it is unknown, expired or revoked. A key anywhere else does not count.";
        remedy "Send a valid key in the Authorization header. A key that stopped working was revoked or has expired: ask whoever gave it to you.";
        members [];
    FORBIDDEN = 403 "forbidden", "Forbidden";
        when "The key is valid but lacks the scope, or is limited to other resources than those the request reaches.";
        remedy "Use a key with the scope that `scope` names, or one that covers the resource.";
        members [("scope", "the scope that is missing; absent when the key is limited to other resources or to one log")];
    NOT_FOUND = 404 "not-found", "Not found";
        when "There is no such path, log, entity, action or key, or it is not yours to see: both are answered alike.";
        remedy "Check the path. A deleted entity is absent; its history is in the log.";
        members [("index", "in a batch: the operation, counted from 0")];
    METHOD_NOT_ALLOWED = 405 "method-not-allowed", "Method not allowed";
        when "The path exists, the method does not.";
        remedy "Use a method that the Allow header lists.";
        members [];
    NOT_ACCEPTABLE = 406 "not-acceptable", "Not acceptable";
        when "The Accept header leaves out every form in which this can be answered.";
        remedy "Ask for a form that `detail` names, or leave Accept away.";
        members [];
    REQUEST_TIMEOUT = 408 "request-timeout", "Request timeout";
        when "No byte of the announced body arrived for 30 seconds.";
        remedy "Send the request again, with an Idempotency-Key if it writes.";
        members [];
    CURSOR_AHEAD = 409 "cursor-ahead", "Cursor ahead of the log";
        when "A cursor is larger than the newest seq. It belongs to another log, the log was restored, or it is mistyped. This is never answered with an empty page.";
        remedy "Compare `epoch` with the one you hold. If it differs, begin again at 0; if not, find out where the cursor came from.";
        members [("since", "the cursor that was sent"), ("head", "the newest seq"), ("epoch", "the identity of the log")];
    EPOCH_CHANGED = 409 "epoch-changed", "Epoch changed";
        when "The `epoch` that was sent is not that of the log: it went back to an earlier state, so cursors of before mean nothing now.";
        remedy "Begin again at since=0 with the new epoch, and replace your copy.";
        members [("expected", "the epoch that was sent"), ("epoch", "the epoch of the log")];
    ALREADY_EXISTS = 409 "already-exists", "Already exists";
        when "A create met a live entity or a log of the same name.";
        remedy "Use PUT to replace an entity, or choose another id.";
        members [("index", "in a batch: the operation, counted from 0")];
    TRANSITION_REFUSED = 409 "transition-refused", "Transition refused";
        when "The action is not allowed from the state that the entity is in.";
        remedy "Read the entity; decide anew from its state.";
        members [("action", "the action"), ("state", "the state that the entity is in"), ("index", "in a batch: the operation, counted from 0")];
    REFERENCE_MISSING = 409 "reference-missing", "Reference missing";
        when "The data names an entity that does not live.";
        remedy "Create the entity that is referred to first, or correct the reference.";
        members [("references", "the references that point to nothing"), ("index", "in a batch: the operation, counted from 0")];
    STILL_REFERENCED = 409 "still-referenced", "Still referenced";
        when "An entity cannot be deleted while others that must not lose it point to it, or a delete would take more entities with it than one transaction carries.";
        remedy "Delete or change what points to it first, then delete it.";
        members [("references", "some of the references that hold it"), ("index", "in a batch: the operation, counted from 0")];
    IDEMPOTENCY_IN_PROGRESS = 409 "idempotency-in-progress", "Idempotency key in use";
        when "A request with the same Idempotency-Key is being carried out at this moment.";
        remedy "Wait as long as Retry-After says and send the same request again: it gets the answer of the first.";
        members [("key", "the Idempotency-Key")];
    CURSOR_EXPIRED = 410 "cursor-expired", "Cursor expired";
        when "Deletes after this cursor were purged, so a copy that stands there could keep what is gone.";
        remedy "Follow `restart` and replace your copy by what it gives.";
        members [("since", "the cursor that was sent"), ("floor", "the smallest cursor that can be resumed"), ("head", "the newest seq"), ("epoch", "the identity of the log"), ("restart", "a URL that works")];
    PRECONDITION_FAILED = 412 "precondition-failed", "Precondition failed";
        when "If-Match or If-None-Match does not hold: somebody else wrote in between.";
        remedy "Read the entity again, decide anew, send its new ETag.";
        members [("current", "the ETag of the entity as it is, null when it is absent"), ("index", "in a batch: the operation, counted from 0")];
    TOO_LARGE = 413 "too-large", "Too large";
        when "The body, the number of operations in a batch, or the state that a PATCH or an action leads to is over the limit.";
        remedy "Send less at once; `detail` names the limit.";
        members [];
    URI_TOO_LONG = 414 "uri-too-long", "URI too long";
        when "Path and query together are over the limit.";
        remedy "Ask for fewer ids at once.";
        members [];
    UNSUPPORTED_MEDIA_TYPE = 415 "unsupported-media-type", "Unsupported media type";
        when "The body has no Content-Type, one that this does not read, a charset other than UTF-8, or a Content-Encoding.";
        remedy "Send the Content-Type that `detail` names, uncompressed.";
        members [];
    SCHEMA_VIOLATION = 422 "schema-violation", "Schema violation";
        when "The data is not an object, or breaks the schema that is declared for its resource; or a batch is empty.";
        remedy "Correct the places that `errors` names.";
        members [("errors", "where (a JSON Pointer) and why"), ("index", "in a batch: the operation, counted from 0")];
    IDEMPOTENCY_MISMATCH = 422 "idempotency-mismatch", "Idempotency key reused";
        when "This Idempotency-Key was sent before, with another body.";
        remedy "Use a new key for a new request.";
        members [("key", "the Idempotency-Key")];
    PRECONDITION_REQUIRED = 428 "precondition-required", "Precondition required";
        when "The resource is declared so that it is written only with If-Match or If-None-Match, and there is none.";
        remedy "Read the entity and send its ETag in If-Match, or If-None-Match: * to create it.";
        members [("current", "the ETag of the entity as it is, null when it is absent"), ("index", "in a batch: the operation, counted from 0")];
    HEADERS_TOO_LARGE = 431 "headers-too-large", "Headers too large";
        when "All headers together are over the limit.";
        remedy "Send fewer or shorter headers.";
        members [];
    INTERNAL = 500 "internal", "Internal error";
        when "Something went wrong inside the server. Its log has the cause under the request id that `instance` names.";
        remedy "Try again later. If it stays, give `instance` to whoever runs the server.";
        members [];
    REPLICA_BEHIND = 503 "replica-behind", "Not there yet";
        when "This server did not reach the seq that `min_head` asks for, or the cursor, within five seconds: it may read from a standby that lags.";
        remedy "Wait as long as Retry-After says and ask again.";
        members [];
    TOO_MANY_STREAMS = 503 "too-many-streams", "Too many streams";
        when "The server, or the key that asks, has as many open streams and waiting requests as it may have. Those that run go on unharmed.";
        remedy "Wait as long as Retry-After says and ask again, or read page by page meanwhile: nothing is missed by that.";
        members [];
    STORE_UNAVAILABLE = 503 "store-unavailable", "Store unavailable";
        when "The database cannot be reached. A write may or may not have happened.";
        remedy "Try again after Retry-After; with an Idempotency-Key a write cannot happen twice.";
        members [];
    BUSY = 503 "busy", "Busy";
        when "More is waiting than the server takes on. Nothing was done.";
        remedy "Try again after Retry-After.";
        members [];
    DRAINING = 503 "draining", "Draining";
        when "The server finishes what it has begun and takes nothing new. Nothing was done.";
        remedy "Try again after Retry-After; another server, or this one restarted, will answer.";
        members [];
    STORAGE_FULL = 507 "storage-full", "Storage full";
        when "The database has no room left. Nothing was written; reading works.";
        remedy "Whoever runs the server has to make room.";
        members [];
}

impl Kind {
    /// The kind of this slug.
    pub fn of(slug: &str) -> Option<&'static Kind> {
        ALL.iter().copied().find(|kind| kind.slug == slug)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn slugs_are_kebab_case_and_each_stands_once() {
        let slugs: BTreeSet<&str> = ALL.iter().map(|kind| kind.slug).collect();
        assert_eq!(slugs.len(), ALL.len());
        for slug in slugs {
            assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{slug}");
            assert_eq!(Kind::of(slug).unwrap().slug, slug);
        }
        assert_eq!(Kind::of("nonsense"), None);
    }

    #[test]
    fn every_kind_says_what_to_do() {
        for kind in ALL {
            assert!(!kind.title.is_empty() && !kind.when.is_empty() && !kind.remedy.is_empty(), "{}", kind.slug);
            assert!((400..=599).contains(&kind.status), "{}", kind.slug);
        }
    }
}
