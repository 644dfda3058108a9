//! What every answer of every test is held against: the statuses that openapi.yaml documents for the
//! operation, the headers that all answers have, and the form of a refusal (PROTOCOL section 6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

use super::Answer;

pub const TEXT: &str = include_str!("../../../openapi.yaml");

/// openapi.yaml.
pub static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_yaml_ng::from_str(TEXT).unwrap());

/// Section 6, by hand: slug, statuses, members that must be there, members that may be.
#[rustfmt::skip]
pub const PROBLEMS: &[(&str, u16, &[&str], &[&str])] = &[
    ("invalid-parameter", 400, &["parameter", "expected"], &["value", "index"]),
    ("unknown-resource", 400, &["parameter", "value", "expected"], &["index"]),
    ("invalid-body", 400, &[], &["index"]),
    ("malformed-header", 400, &["parameter", "expected"], &[]),
    ("unauthorized", 401, &[], &[]),
    ("forbidden", 403, &[], &["scope"]),
    ("not-found", 404, &[], &["index"]),
    ("method-not-allowed", 405, &[], &[]),
    ("not-acceptable", 406, &[], &[]),
    ("request-timeout", 408, &[], &[]),
    ("cursor-ahead", 409, &["since", "head", "epoch"], &[]),
    ("epoch-changed", 409, &["expected", "epoch"], &[]),
    ("already-exists", 409, &[], &["index"]),
    ("transition-refused", 409, &["action", "state"], &["index"]),
    ("reference-missing", 409, &["references"], &["index"]),
    ("still-referenced", 409, &["references"], &["index"]),
    ("idempotency-in-progress", 409, &["key"], &[]),
    ("cursor-expired", 410, &["since", "floor", "head", "epoch", "restart"], &[]),
    ("precondition-failed", 412, &["current"], &["index"]),
    ("too-large", 413, &[], &[]),
    ("uri-too-long", 414, &[], &[]),
    ("unsupported-media-type", 415, &[], &[]),
    ("schema-violation", 422, &["errors"], &["index"]),
    ("idempotency-mismatch", 422, &["key"], &[]),
    ("precondition-required", 428, &["current"], &["index"]),
    ("headers-too-large", 431, &[], &[]),
    ("internal", 500, &[], &[]),
    ("replica-behind", 503, &[], &[]),
    ("too-many-streams", 503, &[], &[]),
    ("store-unavailable", 503, &[], &[]),
    ("busy", 503, &[], &[]),
    ("draining", 503, &[], &[]),
    ("storage-full", 507, &[], &[]),
];

/// Every documented operation: the parts of its path, and the statuses by method.
type Operations = Vec<(Vec<String>, BTreeMap<String, BTreeSet<u16>>)>;
static OPERATIONS: LazyLock<Operations> = LazyLock::new(|| {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let parts = |path: &str| path.split('/').map(str::to_owned).collect();
    paths.iter().map(|(path, item)| (parts(path), statuses_by_method(item))).collect()
});

fn statuses_by_method(item: &Value) -> BTreeMap<String, BTreeSet<u16>> {
    let mut methods = BTreeMap::new();
    for (name, operation) in item.as_object().unwrap() {
        if let Some(responses) = operation.get("responses").and_then(Value::as_object) {
            let statuses = responses.keys().map(|status| status.parse().unwrap()).collect();
            methods.insert(name.to_uppercase(), statuses);
        }
    }
    if let (Some(get), false) = (methods.get("GET").cloned(), methods.contains_key("HEAD")) {
        methods.insert("HEAD".to_owned(), get);
    }
    methods
}

/// The documented statuses of a request; `None` for a path or a method that is not documented.
pub fn documented(method: &str, target: &str) -> Option<BTreeSet<u16>> {
    let path = target.split('?').next().unwrap();
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &[String]| {
        template.len() == parts.len()
            && template.iter().zip(&parts).all(|(known, part)| known.starts_with('{') || known == part)
    };
    // A template without variables wins.
    let found = OPERATIONS.iter().filter(|(template, _)| fits(template));
    let found = found.min_by_key(|(template, _)| template.iter().filter(|part| part.starts_with('{')).count())?;
    found.1.get(method).cloned()
}

fn is_known_path(target: &str) -> bool {
    ["GET", "POST", "PUT", "PATCH", "DELETE"].iter().any(|method| documented(method, target).is_some())
}

/// Holds an answer against the contract.
pub fn check(answer: &Answer) {
    match documented(&answer.method, &answer.target) {
        Some(statuses) => {
            assert!(statuses.contains(&answer.status), "a status that openapi.yaml does not know: {}", answer.told());
        }
        None if answer.method == "OPTIONS" && answer.status == 204 => {}
        None => {
            let expected: &[u16] = if is_known_path(&answer.target) { &[401, 405] } else { &[401, 404, 414, 431] };
            assert!(expected.contains(&answer.status), "an operation that is not documented: {}", answer.told());
        }
    }
    check_common(answer);
    if answer.status >= 400 {
        check_refusal(answer);
    }
    if answer.method == "HEAD" {
        assert!(answer.body.is_empty(), "{}", answer.told());
    }
}

fn check_common(answer: &Answer) {
    let id = answer.must("scroll-request-id");
    assert!(uuid::Uuid::parse_str(id).is_ok(), "{}", answer.told());
    let varied: Vec<&str> = answer.must("vary").split(',').map(str::trim).collect();
    for name in ["Authorization", "Accept", "Accept-Encoding"] {
        assert!(varied.contains(&name), "{}", answer.told());
    }
    assert!(answer.header("cache-control").is_some(), "{}", answer.told());
    assert!(answer.header("server").is_none(), "{}", answer.told());
}

fn check_refusal(answer: &Answer) {
    let told = answer.told();
    assert_eq!(answer.must("content-type"), "application/problem+json", "{told}");
    assert_eq!(answer.must("cache-control"), "no-store", "{told}");
    assert!(answer.header("etag").is_none(), "{told}");
    assert_eq!(answer.header("retry-after").is_some(), answer.status == 503 || told.contains("in-progress"), "{told}");
    assert_eq!(answer.header("www-authenticate"), (answer.status == 401).then_some("Bearer"), "{told}");
    assert_eq!(answer.header("allow").is_some(), answer.status == 405, "{told}");
    if answer.method != "HEAD" {
        check_document(answer);
    }
}

fn check_document(answer: &Answer) {
    let told = answer.told();
    let document = answer.json();
    let members: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(&members[..5], ["type", "title", "status", "detail", "instance"], "{told}");
    let slug = document["type"].as_str().unwrap().strip_prefix("/problems/").unwrap();
    let known = PROBLEMS.iter().find(|(known, ..)| *known == slug);
    let (_, status, required, allowed) = known.unwrap_or_else(|| panic!("no such problem: {told}"));
    assert_eq!((answer.status, document["status"].as_u64()), (*status, Some(u64::from(*status))), "{told}");
    for text in ["title", "detail"] {
        assert!(!document[text].as_str().unwrap().is_empty(), "{told}");
    }
    let own = &members[5..];
    required.iter().for_each(|member| assert!(own.contains(member), "{member} is missing: {told}"));
    own.iter().for_each(|member| assert!(required.contains(member) || allowed.contains(member), "{member}: {told}"));
    let instance = document["instance"].as_str().unwrap().strip_prefix("urn:uuid:").unwrap();
    assert!(uuid::Uuid::parse_str(instance).is_ok(), "{told}");
    if answer.header("idempotent-replayed").is_none() {
        assert_eq!(answer.must("scroll-request-id"), instance, "{told}");
    }
    let words = format!("{} {}", document["title"], document["detail"]).to_lowercase();
    for leak in [
        "sqlite",
        "diesel",
        "select ",
        "insert into",
        "panicked",
        "src/",
        ".rs:",
        "backtrace",
        "/tmp/",
        "<html",
        "<!doctype",
    ] {
        assert!(!words.contains(leak), "{leak:?} leaks: {told}");
    }
}
