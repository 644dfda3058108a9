//! Pages on the wire.

use super::wire::Served;
use crate::support::bed::Bed;
use crate::support::commands::{delete, put};
use crate::support::on_every_engine;

const LINES: &str = "Accept: application/x-ndjson\r\nAccept-Encoding: gzip\r\n";
const DOCUMENT: &str = "Accept: application/json\r\nAccept-Encoding: gzip\r\n";

async fn before_http_1_1_a_page_has_its_exact_length(bed: Bed) {
    let served = Served::start(&bed).await;
    let key = served.key(None).await;
    let note = |n: usize| put("note", &format!("n{}", n % 40), &format!(r#"{{"n":{n},"text":"{}é"}}"#, "x".repeat(n)));
    served.desk.batch((0..500).map(note).collect()).await;
    served.desk.ok(delete("note", "n7")).await;
    for query in [
        "since=0&limit=10000",
        "since=490",
        "since=3&limit=7&fields=time,prev,tx",
        "since=0&compact=true&limit=1000",
        "since=0&resource=note&limit=11",
        "since=501",
    ] {
        for form in [LINES, DOCUMENT] {
            let target = format!("/v1/changes?{query}");
            let old = served.ask(&key, &format!("GET {target} HTTP/1.0"), form, "").await;
            let plain = form.replace("gzip", "identity");
            let new = served.ask(&key, &format!("GET {target} HTTP/1.1"), &plain, "").await;
            assert_eq!((old.status, new.status), (200, 200));
            assert_eq!(old.content_length(), Some(old.body.len()), "{query}");
            assert_eq!(old.header("content-encoding"), None, "{query}");
            assert_eq!(old.header("transfer-encoding"), None, "{query}");
            assert_eq!(old.body, unchunked(&new), "{query}");
            let head = served.ask(&key, &format!("HEAD {target} HTTP/1.0"), form, "").await;
            assert_eq!((head.content_length(), head.body.len()), (old.content_length(), 0), "{query}");
        }
    }
    served.stop().await;
}

/// A body as it was before it was cut into chunks.
fn unchunked(answer: &super::wire::Answer) -> Vec<u8> {
    if answer.header("transfer-encoding").is_none() {
        return answer.body.clone();
    }
    let (mut rest, mut body) = (answer.body.as_slice(), Vec::new());
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
}

async fn a_page_that_breaks_in_the_middle_is_seen_to_be_broken(bed: Bed) {
    let served = Served::start(&bed).await;
    let key = served.key(None).await;
    served.desk.batch((0..9_000).map(|n| put("note", &format!("n{n}"), r#"{"x":1}"#)).collect()).await;
    bed.execute("DELETE FROM changes WHERE seq = 8000");
    for form in [LINES, DOCUMENT] {
        let old = served.ask(&key, "GET /v1/changes?since=0&limit=10000 HTTP/1.0", form, "").await;
        assert_eq!(old.status, 200, "the page had begun");
        let promised = old.content_length().unwrap();
        assert!(!old.body.is_empty() && old.body.len() < promised, "{} of {promised}", old.body.len());
        let new = served.ask(&key, "GET /v1/changes?since=0&limit=10000 HTTP/1.1", form, "").await;
        assert!(!new.body.ends_with(b"0\r\n\r\n"), "a broken page has no last chunk");
    }
    served.stop().await;
}

on_every_engine! {
    before_http_1_1_a_page_has_its_exact_length,
    a_page_that_breaks_in_the_middle_is_seen_to_be_broken,
}
