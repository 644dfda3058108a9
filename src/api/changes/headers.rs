//! What the headers of a page say. All of it is known before the first byte.

use actix_web::HttpResponseBuilder;
use actix_web::http::header;
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};

use super::NDJSON;
use super::encoding::Coding;
use crate::access::LogId;
use crate::change::Seq;
use crate::feed::{Checkpoint, Page, PageRequest, Since};

/// Tells a proxy that keeps answers back (nginx does by default) to hand every byte on at once.
pub const UNBUFFERED: (&str, &str) = ("X-Accel-Buffering", "no");

/// What makes two answers the same answer to a cache, beside the page itself.
pub struct Variant<'a> {
    /// The id of the key that asks.
    pub key: &'a str,
    /// The log.
    pub log: LogId,
    /// The media type.
    pub form: &'a str,
    /// The content coding.
    pub coding: Coding,
}

/// The ETag of a page that ends below the head: its lines never change. `None` for a page that reaches
/// the head, which is a different page a moment later.
pub fn etag(page: &Page, variant: &Variant<'_>) -> Option<String> {
    if page.is_up_to_date() {
        return None;
    }
    let mut identity = format!(
        "{}\n{}\n{}\n{}\n{:?}\n{}\n{}\n{:?}\n{:?}\n{:?}",
        variant.key,
        variant.log.0,
        page.position.epoch,
        variant.form,
        variant.coding,
        page.since,
        page.next,
        page.scan.selection,
        page.scan.depth,
        page.fields,
    );
    if variant.form != NDJSON {
        // This form says in its body where the log stands.
        identity.push_str(&format!("\n{}\n{}", page.position.head, page.position.floor));
    }
    let digest = Sha256::digest(identity.as_bytes());
    let opaque: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Some(opaque)
}

/// Puts the headers of a page on an answer.
pub fn describe(response: &mut HttpResponseBuilder, page: &Page, link: &str, etag: Option<&str>) {
    let position = &page.position;
    response
        .insert_header(("Scroll-Next", page.next.to_string()))
        .insert_header(("Scroll-Head", position.head.to_string()))
        .insert_header(("Scroll-Floor", position.floor.to_string()))
        .insert_header(("Scroll-Epoch", position.epoch.to_string()))
        .insert_header(("Scroll-Up-To-Date", page.is_up_to_date().to_string()))
        .insert_header(("Scroll-Dense", page.is_dense.to_string()))
        .insert_header((header::LINK, format!("<{link}>; rel=\"next\"")))
        .insert_header((header::VARY, "Authorization, Accept, Accept-Encoding"));
    if let Some(Checkpoint { seq, tally }) = page.checkpoint {
        let checkpoint = format!("seq={seq}, count={}, fingerprint=\"{}\"", tally.count, tally.fingerprint);
        response.insert_header(("Scroll-Checkpoint", checkpoint));
    }
    match etag {
        Some(opaque) => response
            .insert_header((header::CACHE_CONTROL, "private, no-cache"))
            .insert_header((header::ETAG, format!("\"{opaque}\""))),
        None => response.insert_header((header::CACHE_CONTROL, "no-store")),
    };
}

/// The same request with the new cursor, `epoch` and `floor`: whoever follows it does everything right.
/// The floor is that of the answer with which a copy was begun at 0, so a later page hands on what it was
/// given.
pub fn next_link(path: &str, query: &str, request: &PageRequest, page: &Page) -> String {
    let kept = query.split('&').filter(|pair| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        let name = percent_decode_str(name).decode_utf8_lossy();
        !pair.is_empty() && !["since", "epoch", "floor"].contains(&name.as_ref())
    });
    let mut link = format!("{path}?since={}", page.next);
    for pair in kept {
        link.push('&');
        link.push_str(pair);
    }
    link.push_str(&format!("&epoch={}", page.position.epoch));
    let floor = match request.since {
        Since::After(Seq::ZERO) => Some(page.position.floor),
        _ => request.floor,
    };
    if let Some(floor) = floor {
        link.push_str(&format!("&floor={floor}"));
    }
    link
}

/// What stands before and after the lines in the JSON form.
pub fn json_frame(page: &Page) -> (String, String) {
    let position = &page.position;
    let checkpoint = match page.checkpoint {
        None => "null".to_owned(),
        Some(Checkpoint { seq, tally }) => {
            format!(r#"{{"seq":{seq},"count":{},"fingerprint":"{}"}}"#, tally.count, tally.fingerprint)
        }
    };
    let after = format!(
        r#"],"next":{},"head":{},"floor":{},"up_to_date":{},"dense":{},"epoch":"{}","checkpoint":{checkpoint}}}"#,
        page.next,
        position.head,
        position.floor,
        page.is_up_to_date(),
        page.is_dense,
        position.epoch,
    );
    (r#"{"changes":["#.to_owned(), after + "\n")
}
