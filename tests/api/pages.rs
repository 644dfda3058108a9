//! Section 3's pages: lines, headers, forms, codings, caches.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::process::Command;

use scroll::access::Scope;
use serde_json::Value;

use super::support::{Answer, Bed, Client, Entry, Options, data, model, on_every_engine, puts, seed};

on_every_engine![
    every_page_has_the_lines_and_headers_that_the_log_demands,
    pages_of_every_limit_joined_are_the_log,
    extra_members_come_when_asked_for_and_in_their_order,
    ids_with_commas_are_split_before_they_are_decoded,
    a_filter_that_matches_nothing_moves_the_cursor,
    a_thousand_changes_of_one_moment_come_once_each,
    codings_decode_to_the_same_bytes,
    a_page_is_known_again_only_to_the_same_key_log_form_coding_and_range,
    a_page_that_reaches_the_head_has_no_tag,
    accept_chooses_the_form_or_is_refused,
    origins_that_are_named_are_let_in_and_no_others,
    numbers_go_on_past_two_to_the_thirty_first,
    head_requests_leave_nothing_open,
];

/// What a page may ask for.
#[derive(Debug, Clone)]
struct Asked {
    since: u64,
    limit: Option<u64>,
    until: Option<u64>,
    is_compact: bool,
    filter: &'static str,
}

impl Asked {
    fn target(&self) -> String {
        let mut query = format!("/v1/changes?since={}", self.since);
        self.limit.iter().for_each(|limit| query.push_str(&format!("&limit={limit}")));
        self.until.iter().for_each(|until| query.push_str(&format!("&until={until}")));
        if self.is_compact {
            query.push_str("&compact=true");
        }
        query + self.filter
    }

    fn matches(&self, entry: &Entry) -> bool {
        match self.filter {
            "" => true,
            "&resource=note" => entry.resource == "note",
            "&resource=customer,subscription" => entry.resource != "note",
            "&resource=note&id=a,c" => entry.resource == "note" && ["a", "c"].contains(&entry.id.as_str()),
            "&resource=membership" => entry.resource == "membership",
            other => panic!("{other}"),
        }
    }

    /// The lines that match in (since, until], before any limit.
    fn owed<'a>(&self, log: &'a [Entry], until: u64) -> Vec<&'a Entry> {
        let within = |entry: &&Entry| entry.seq > self.since && entry.seq <= until && self.matches(entry);
        let mut newest = BTreeMap::new();
        log.iter().filter(within).for_each(|entry| {
            newest.insert(entry.name(), entry.seq);
        });
        let is_owed = |entry: &&Entry| {
            let is_newest = newest[&entry.name()] == entry.seq;
            !self.is_compact || (is_newest && !(self.since == 0 && entry.deleted))
        };
        log.iter().filter(within).filter(is_owed).collect()
    }

    fn check(&self, log: &[Entry], epoch: &str, answer: &Answer) {
        let told = format!("{self:?}: {}", answer.told());
        let head = log.len() as u64;
        let until = self.until.unwrap_or(head);
        let owed = self.owed(log, until);
        let limit = self.limit.unwrap_or(100) as usize;
        let sent = &owed[..owed.len().min(limit)];
        let next = if owed.len() >= limit { sent.last().unwrap().seq } else { until };
        let lines: String = sent.iter().map(|entry| format!("{}\n", entry.raw)).collect();
        assert_eq!(answer.text(), lines, "{told}");
        assert_eq!(answer.number("scroll-next"), next, "{told}");
        assert_eq!(answer.number("scroll-head"), head, "{told}");
        assert_eq!(answer.must("scroll-floor"), "0", "{told}");
        assert_eq!(answer.must("scroll-epoch"), epoch, "{told}");
        assert_eq!(answer.must("scroll-up-to-date"), (next == head).to_string(), "{told}");
        let is_dense = sent.len() as u64 == next - self.since;
        assert_eq!(answer.must("scroll-dense"), is_dense.to_string(), "{told}");
        let has_checkpoint = self.filter.is_empty() && (!self.is_compact || next == until);
        let checkpoint = has_checkpoint.then(|| model::checkpoint(next, log));
        assert_eq!(answer.header("scroll-checkpoint"), checkpoint.as_deref(), "{told}");
        let is_final = next < head;
        assert_eq!(answer.must("cache-control"), if is_final { "private, no-cache" } else { "no-store" }, "{told}");
        assert_eq!(answer.header("etag").is_some(), is_final, "{told}");
        let floor = if self.since == 0 { "&floor=0" } else { "" };
        let rest = self.target().split_once('&').map_or(String::new(), |(_, rest)| format!("&{rest}"));
        assert_eq!(answer.next_link(), format!("/v1/changes?since={next}{rest}&epoch={epoch}{floor}"), "{told}");
        assert_eq!(answer.must("content-type"), "application/x-ndjson", "{told}");
    }
}

fn every_page_has_the_lines_and_headers_that_the_log_demands(bed: Bed) {
    let server = bed.start();
    let log = seed(&server.client);
    let epoch = server.client.get("/v1/log").expect(200).json()["epoch"].as_str().unwrap().to_owned();
    let filters =
        ["", "&resource=note", "&resource=customer,subscription", "&resource=note&id=a,c", "&resource=membership"];
    let mut pages = 0;
    for since in [0, 1, 4, 6, 9, 14, 15] {
        for until in [None, Some(since), Some(8.max(since)), Some(12.max(since)), Some(15)] {
            for limit in [None, Some(1), Some(2), Some(5)] {
                for is_compact in [false, true] {
                    for filter in filters {
                        let asked = Asked { since, limit, until, is_compact, filter };
                        let answer = server.client.get(&asked.target()).expect(200);
                        asked.check(&log, &epoch, &answer);
                        if pages % 3 == 0 {
                            check_head_and_json(&server.client, &asked, &answer);
                        }
                        pages += 1;
                    }
                }
            }
        }
    }
    assert!(pages > 1000);
}

/// HEAD has the headers of GET; the JSON form says the same as headers and lines.
fn check_head_and_json(client: &Client, asked: &Asked, answer: &Answer) {
    let head = client.head(&asked.target()).expect(200);
    let without_length = |answer: &Answer| {
        answer.stable_headers().into_iter().filter(|(name, _)| name != "content-length").collect::<Vec<_>>()
    };
    assert_eq!(without_length(&head), without_length(answer), "{asked:?}");
    let json = client.ask("GET", &asked.target()).header("Accept", "application/json").send().expect(200);
    let told = json.told();
    assert_eq!(json.must("content-type"), "application/json");
    let members: Vec<String> = json.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["changes", "next", "head", "floor", "up_to_date", "dense", "epoch", "checkpoint"], "{told}");
    let lines: Vec<String> = answer.lines().into_iter().map(|entry| entry.raw).collect();
    assert!(json.text().starts_with(&format!("{{\"changes\":[{}],\"next\":", lines.join(","))), "{told}");
    let page = json.json();
    for (member, header) in [
        ("next", "scroll-next"),
        ("head", "scroll-head"),
        ("floor", "scroll-floor"),
        ("up_to_date", "scroll-up-to-date"),
        ("dense", "scroll-dense"),
    ] {
        assert_eq!(page[member].to_string(), answer.must(header), "{told}");
    }
    assert_eq!(page["epoch"], answer.must("scroll-epoch"), "{told}");
    let checkpoint = match &page["checkpoint"] {
        Value::Null => None,
        checkpoint => Some(format!(
            "seq={}, count={}, fingerprint={}",
            checkpoint["seq"], checkpoint["count"], checkpoint["fingerprint"]
        )),
    };
    assert_eq!(checkpoint.as_deref(), answer.header("scroll-checkpoint"), "{told}");
}

/// Follows `Link` to the end; the lines, and how many pages there were.
pub fn follow(client: &Client, first: &str) -> (Vec<Entry>, usize) {
    let (mut lines, mut target, mut pages) = (Vec::new(), first.to_owned(), 0);
    loop {
        let answer = client.get(&target).expect(200);
        pages += 1;
        lines.extend(answer.lines());
        if answer.must("scroll-up-to-date") == "true" {
            return (lines, pages);
        }
        target = answer.next_link();
        assert!(pages < 10_000, "it does not come to an end");
    }
}

fn pages_of_every_limit_joined_are_the_log(bed: Bed) {
    let server = bed.start();
    let log = seed(&server.client);
    let live: Vec<Entry> = {
        let mut live: Vec<_> = model::fold(&log).into_values().collect();
        live.sort_by_key(|entry| entry.seq);
        live
    };
    for limit in 1..=16 {
        let (lines, pages) = follow(&server.client, &format!("/v1/changes?since=0&limit={limit}"));
        assert_eq!(lines, log, "{limit}");
        assert_eq!(pages, 15usize.div_ceil(limit), "{limit}");
        let (lines, _) = follow(&server.client, &format!("/v1/changes?compact=true&limit={limit}"));
        // A page that does not begin at 0 brings tombstones as well: the reader may hold what they end.
        assert_eq!(model::fold(&lines), model::fold(&log), "compact {limit}");
        assert_eq!(lines.into_iter().filter(|entry| !entry.deleted).collect::<Vec<_>>(), live, "compact {limit}");
        let notes: Vec<Entry> = log.iter().filter(|entry| entry.resource == "note").cloned().collect();
        assert_eq!(follow(&server.client, &format!("/v1/changes?limit={limit}&resource=note")).0, notes, "{limit}");
    }
}

fn extra_members_come_when_asked_for_and_in_their_order(bed: Bed) {
    let server = bed.start();
    let log = seed(&server.client);
    for (query, expected) in [
        ("time,prev,tx", vec!["time", "prev", "tx"]),
        ("tx,prev,time", vec!["time", "prev", "tx"]),
        ("prev", vec!["prev"]),
        ("tx,time", vec!["time", "tx"]),
    ] {
        let lines = server.client.get(&format!("/v1/changes?fields={query}")).expect(200).lines();
        assert_eq!(lines.len(), log.len());
        let mut live: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (line, plain) in lines.iter().zip(&log) {
            let members: Vec<&str> = line.value.as_object().unwrap().keys().skip(6).map(String::as_str).collect();
            assert_eq!(members, expected, "{}", line.raw);
            assert!(line.raw.starts_with(plain.raw.strip_suffix('}').unwrap()), "{}", line.raw);
            let prev = live.get(&line.name()).copied();
            if line.deleted {
                live.remove(&line.name())
            } else {
                live.insert(line.name(), line.seq)
            };
            if expected.contains(&"prev") {
                assert_eq!(line.value["prev"].as_u64(), prev, "{}", line.raw);
            }
            if expected.contains(&"tx") {
                let tx = if (9..=11).contains(&line.seq) { 9 } else { line.seq };
                assert_eq!(line.value["tx"].as_u64(), Some(tx), "{}", line.raw);
            }
            if expected.contains(&"time") {
                let time = line.value["time"].as_str().unwrap();
                assert!(time.ends_with('Z') && time.len() == "2026-01-01T00:00:00.000000Z".len(), "{time}");
                assert!(time.parse::<jiff::Timestamp>().is_ok());
            }
        }
    }
}

fn ids_with_commas_are_split_before_they_are_decoded(bed: Bed) {
    let server = bed.start();
    for id in ["a%2Cb", "a", "b", "c%20d", "e%2Bf"] {
        server.client.put(&format!("/v1/entities/note/{id}"), "{}").expect(201);
    }
    let ids = |query: &str| -> Vec<String> {
        let answer = server.client.get(&format!("/v1/changes?resource=note&id={query}")).expect(200);
        answer.lines().into_iter().map(|entry| entry.id).collect()
    };
    assert_eq!(ids("a%2Cb"), ["a,b"]);
    assert_eq!(ids("a,b"), ["a", "b"]);
    assert_eq!(ids("a%2Cb,c+d,e%2Bf"), ["a,b", "c d", "e+f"]);
    assert_eq!(ids("a,a,a"), ["a"]);
    assert!(ids("nobody").is_empty());
}

/// C026.
fn a_filter_that_matches_nothing_moves_the_cursor(bed: Bed) {
    let server = bed.start();
    let ids: Vec<String> = (0..5000).map(|id| id.to_string()).collect();
    server
        .client
        .ask("POST", "/v1/batch")
        .ndjson(&puts("invoice", ids.iter().map(String::as_str), "{}"))
        .send()
        .expect(200);
    let mut target = "/v1/changes?since=0&limit=10&resource=subscription".to_owned();
    for _ in 0..20 {
        let answer = server.client.get(&target).expect(200);
        assert!(answer.body.is_empty());
        assert_eq!((answer.number("scroll-next"), answer.must("scroll-up-to-date")), (5000, "true"));
        target = answer.next_link();
        assert!(
            target.starts_with("/v1/changes?since=5000&"),
            "the second poll begins where the first ended: {target}"
        );
    }
}

/// C147.
fn a_thousand_changes_of_one_moment_come_once_each(bed: Bed) {
    let server = bed.start();
    let ids: Vec<String> = (0..1000).map(|id| id.to_string()).collect();
    server
        .client
        .ask("POST", "/v1/batch")
        .ndjson(&puts("note", ids.iter().map(String::as_str), "{}"))
        .send()
        .expect(200);
    let all = server.client.get("/v1/changes?limit=1000&fields=time").expect(200).lines();
    let times: BTreeSet<&str> = all.iter().map(|entry| entry.value["time"].as_str().unwrap()).collect();
    assert_eq!(times.len(), 1);
    for limit in [1, 3] {
        let mut client = server.client_with(&server.client.key());
        let (mut since, mut seqs) = (0, Vec::new());
        for page in 1.. {
            if page % 10 == 0 {
                // The client starts anew with nothing but its cursor.
                client = server.client_with(&server.client.key());
            }
            let answer = client.get(&format!("/v1/changes?since={since}&limit={limit}")).expect(200);
            if answer.body.is_empty() {
                break;
            }
            seqs.extend(answer.lines().iter().map(|entry| entry.seq));
            since = answer.number("scroll-next");
        }
        assert_eq!(seqs, (1..=1000).collect::<Vec<_>>());
    }
}

fn decoded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap(),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap(),
        "zstd" => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut out).unwrap(),
        other => panic!("{other}"),
    };
    out
}

fn codings_decode_to_the_same_bytes(bed: Bed) {
    let server = bed.start();
    let text = "{\"t\":\"".to_owned() + &"ein längerer Text ".repeat(300) + "\"}";
    let ids: Vec<String> = (0..400).map(|id| id.to_string()).collect();
    server
        .client
        .ask("POST", "/v1/batch")
        .ndjson(&puts("note", ids.iter().map(String::as_str), &text))
        .send()
        .expect(200);
    for accept in ["application/x-ndjson", "application/json"] {
        let target = "/v1/changes?limit=399";
        let ask = |coding: &str| {
            server
                .client
                .ask("GET", target)
                .header("Accept", accept)
                .header("Accept-Encoding", coding)
                .send()
                .expect(200)
        };
        let plain = ask("identity");
        assert!(plain.header("content-encoding").is_none() && plain.body.len() > 2_000_000);
        for coding in ["gzip", "br", "zstd"] {
            let answer = ask(coding);
            assert_eq!(answer.must("content-encoding"), coding);
            assert!(answer.body.len() < plain.body.len() / 10);
            assert!(decoded(coding, &answer.body) == plain.body, "{coding} {accept}");
        }
        assert!(ask("deflate, compress").header("content-encoding").is_none());
        assert!(ask("gzip;q=0, *;q=0").header("content-encoding").is_none());
        assert_eq!(ask("gzip;q=0.5, br;q=0.9, zstd;q=0").must("content-encoding"), "br");
        if let Some(curl) = data::program("curl") {
            let url = format!("http://{}{target}", server.client.address());
            let auth = format!("Authorization: Bearer {}", server.client.key());
            let accept = format!("Accept: {accept}");
            let ran = Command::new(curl)
                .args(["-sS", "--fail", "--compressed", "-H", &auth, "-H", &accept, &url])
                .output()
                .unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            assert!(ran.stdout == plain.body, "curl --compressed");
        }
    }
}

/// A client, a target, headers.
type Variant<'a> = (&'a Client, &'a str, Vec<(&'a str, &'a str)>);

fn a_page_is_known_again_only_to_the_same_key_log_form_coding_and_range(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    server.make_log("other");
    let (any, other_key) = (server.key(None, &Scope::ALL, None), server.client_for("default", &Scope::ALL, None));
    let in_default = server.client_with(&any).with("Scroll-Log", "default");
    let in_other = server.client_with(&any).with("Scroll-Log", "other");
    seed(&in_other);
    let target = "/v1/changes?since=2&limit=5";
    let ask = |client: &Client, target: &str, headers: &[(&str, &str)]| {
        headers.iter().fold(client.ask("GET", target), |asking, (name, value)| asking.header(name, value)).send()
    };
    let gzip = [("Accept-Encoding", "gzip")];
    let json = [("Accept", "application/json")];
    let variants: Vec<Variant<'_>> = vec![
        (&server.client, target, vec![]),
        (&server.client, target, gzip.to_vec()),
        (&server.client, target, vec![("Accept-Encoding", "br")]),
        (&server.client, target, vec![("Accept-Encoding", "zstd")]),
        (&server.client, target, json.to_vec()),
        (&server.client, target, [gzip, json].concat()),
        (&server.client, "/v1/changes?since=2&limit=4", vec![]),
        (&server.client, "/v1/changes?since=3&limit=4", vec![]),
        (&server.client, "/v1/changes?since=2&limit=5&resource=note", vec![]),
        (&server.client, "/v1/changes?since=2&limit=5&compact=true&until=14", vec![]),
        (&server.client, "/v1/changes?since=2&limit=5&fields=tx", vec![]),
        (&server.client, "/v1/changes?since=2&limit=5&fields=time", vec![]),
        (&other_key, target, vec![]),
        (&in_default, target, vec![]),
        (&in_other, target, vec![]),
    ];
    let first: Vec<Answer> =
        variants.iter().map(|(client, target, headers)| ask(client, target, headers).expect(200)).collect();
    let tags: Vec<String> = first.iter().map(|answer| answer.must("etag").to_owned()).collect();
    assert!(tags.iter().all(|tag| tag.starts_with('"') && tag.ends_with('"') && tag.len() > 16), "{tags:?}");
    assert_eq!(tags.iter().collect::<BTreeSet<_>>().len(), tags.len(), "{tags:?}");
    // More is written meanwhile: the page below the head stays what it is.
    server.client.put("/v1/entities/note/more", "{}").expect(201);
    for (index, (client, target, headers)) in variants.iter().enumerate() {
        let is_json = headers.iter().any(|(name, _)| *name == "Accept");
        for (of, tag) in tags.iter().enumerate() {
            let held = [headers.as_slice(), &[("If-None-Match", tag.as_str())]].concat();
            let answer = ask(client, target, &held);
            // The JSON form says in its body where the log stands, so it is new after a write.
            let is_known = of == index && (!is_json || std::ptr::eq(*client, &in_other));
            assert_eq!(answer.status, if is_known { 304 } else { 200 }, "{index} {of} {}", answer.told());
            if is_known {
                assert!(answer.body.is_empty() && answer.must("etag") == tag);
                assert_eq!(answer.must("scroll-next"), first[index].must("scroll-next"));
            }
        }
    }
    let weak = format!("\"x\", W/{}", tags[0]);
    ask(&server.client, target, &[("If-None-Match", &weak)]).expect(304);
    ask(&server.client, target, &[("If-None-Match", "*")]).expect(304);
    server.client.ask("HEAD", target).header("If-None-Match", &tags[0]).send().expect(304);
    for bad in ["x", "\"", "\"a\" \"b\"", "*, \"a\""] {
        let refused = ask(&server.client, target, &[("If-None-Match", bad)]).refused(400, "malformed-header");
        assert_eq!(refused["parameter"], "If-None-Match");
    }
}

fn a_page_that_reaches_the_head_has_no_tag(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    for target in ["/v1/changes", "/v1/changes?since=15", "/v1/changes?compact=true", "/v1/changes?resource=membership"]
    {
        let answer = server.client.ask("GET", target).header("If-None-Match", "*").send().expect(200);
        assert_eq!((answer.header("etag"), answer.must("cache-control")), (None, "no-store"), "{target}");
    }
}

fn accept_chooses_the_form_or_is_refused(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let ask = |accept: &str| server.client.ask("GET", "/v1/changes?limit=1").header("Accept", accept).send();
    for (accept, form) in [
        ("*/*", "application/x-ndjson"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("application/*", "application/x-ndjson"),
        ("APPLICATION/JSON", "application/json"),
        ("text/html, application/json;q=0.2", "application/json"),
        ("application/x-ndjson;q=0, */*", "application/json"),
    ] {
        assert_eq!(ask(accept).expect(200).must("content-type"), form, "{accept}");
    }
    for accept in ["text/html", "application/xml", "text/event-stream;q=0", "application/json;q=0", "nonsense"] {
        ask(accept).refused(406, "not-acceptable");
    }
}

fn origins_that_are_named_are_let_in_and_no_others(bed: Bed) {
    let server = bed.start_with(Options { cors_origins: vec!["https://app.example".into()], ..Options::default() });
    seed(&server.client);
    let stranger = Client::new(server.client.address());
    let from = |client: &Client, method: &str, target: &str, origin: &str| {
        client.ask(method, target).header("Origin", origin).header("Access-Control-Request-Method", "GET").send()
    };
    let preflight = from(&stranger, "OPTIONS", "/v1/changes", "https://app.example").expect(204);
    assert_eq!(preflight.must("access-control-allow-origin"), "https://app.example");
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
        assert!(preflight.must("access-control-allow-methods").contains(method));
    }
    for header in ["Authorization", "If-Match", "If-None-Match", "Idempotency-Key", "Scroll-Log", "Content-Type"] {
        assert!(preflight.must("access-control-allow-headers").contains(header), "{header}");
    }
    assert!(preflight.header("access-control-allow-credentials").is_none());
    let answer = from(&server.client, "GET", "/v1/changes", "https://app.example").expect(200);
    assert_eq!(answer.must("access-control-allow-origin"), "https://app.example");
    let exposed: Vec<String> =
        answer.must("access-control-expose-headers").split(',').map(|name| name.trim().to_lowercase()).collect();
    for (name, _) in answer.headers.iter().filter(|(name, _)| name.starts_with("scroll-") || name == "link") {
        assert!(exposed.contains(name), "{name}");
    }
    assert!(answer.must("vary").contains("Origin"));
    let refused = from(&stranger, "GET", "/v1/changes", "https://app.example");
    refused.refused(401, "unauthorized");
    assert!(refused.header("access-control-allow-origin").is_some(), "a script may read why it was refused");
    for origin in ["https://app.example.evil", "http://app.example", "null", "https://APP.example"] {
        let answer = from(&server.client, "GET", "/v1/changes", origin).expect(200);
        assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("access-control")), "{origin}");
        from(&stranger, "OPTIONS", "/v1/changes", origin).refused(401, "unauthorized");
    }
    drop(server);
}

/// C009.
fn numbers_go_on_past_two_to_the_thirty_first(bed: Bed) {
    let server = bed.start();
    server.client.put("/v1/entities/note/first", "{}").expect(201);
    server.client.delete("/v1/entities/note/first").expect(200);
    server.stop();
    bed.execute(
        "DELETE FROM changes WHERE seq = 1;
         UPDATE changes SET prev = NULL, tx = 2147483646, seq = 2147483646, line = replace(line, '\"seq\":2,', '\"seq\":2147483646,');
         UPDATE logs SET purged_through = 2147483645;",
    );
    let server = bed.start();
    let client = &server.client;
    let seqs: Vec<u64> = (0..5)
        .map(|id| client.put(&format!("/v1/entities/note/{id}"), "{}").expect(201).number("scroll-seq"))
        .collect();
    assert_eq!(seqs, (2_147_483_647..=2_147_483_651).collect::<Vec<u64>>());
    let answer = client.get("/v1/changes?since=2147483648").expect(200);
    assert_eq!(answer.lines().iter().map(|entry| entry.seq).collect::<Vec<_>>(), &seqs[2..]);
    assert_eq!((answer.must("scroll-dense"), answer.number("scroll-next")), ("true", 2_147_483_651));
    let whole = client.get("/v1/changes").expect(200);
    let live = model::fold(&whole.lines());
    let expected = format!("seq=2147483651, count=5, fingerprint=\"{}\"", model::fingerprint(live.values()));
    assert_eq!(whole.must("scroll-checkpoint"), expected);
    assert_eq!(whole.must("scroll-dense"), "false");
}

/// C056 for pages.
fn head_requests_leave_nothing_open(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let before = server.client.get("/v1/changes?limit=3").expect(200).stable_headers();
    for _ in 0..300 {
        let answer = server.client.head("/v1/changes?limit=3").expect(200);
        assert_eq!(answer.stable_headers(), before);
    }
    super::support::eventually("no response is open", || server.metrics.open_responses.get() == 0);
}
