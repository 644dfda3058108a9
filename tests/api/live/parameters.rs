//! The live columns of the parameter table, cell by cell, and the headers of each mode.

use scroll::access::Scope;

use crate::support::{Answer, Bed, Client, Stream, on_every_engine, seed};

on_every_engine![
    what_does_not_go_with_a_mode_is_refused_by_name_whatever_its_value,
    what_goes_with_a_mode_is_taken,
    values_of_live_parameters_are_judged_like_all_others,
    the_form_decides_and_an_unknown_one_is_refused_before_any_parameter,
    the_headers_of_each_mode_are_those_of_the_contract,
    head_has_the_headers_of_every_mode_and_never_waits,
    checks_come_in_the_order_of_the_contract_in_every_mode,
    a_cursor_is_answered_exactly_or_refused_in_every_mode,
];

const EVENTS: &[(&str, &str)] = &[("Accept", "text/event-stream")];

/// The three modes: what asks for each.
fn modes() -> [(&'static str, &'static [(&'static str, &'static str)]); 3] {
    [("wait=1", &[]), ("feed=continuous", &[]), ("heartbeat=15", EVENTS)]
}

fn refused(client: &Client, query: &str, headers: &[(&str, &str)]) -> Answer {
    Stream::ask(client, &format!("/v1/changes?{query}"), headers).refusal()
}

fn what_does_not_go_with_a_mode_is_refused_by_name_whatever_its_value(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    for (query, headers, names) in [
        (
            "since=0",
            &[] as &[(&str, &str)],
            &["heartbeat=5", "heartbeat=x", "control=true", "control=false"] as &[&str],
        ),
        ("wait=0", &[], &["heartbeat=5", "control=false"]),
        (
            "wait=5",
            &[],
            &["until=9", "until=x", "compact=true", "compact=false", "heartbeat=5", "control=true", "control=false"],
        ),
        ("feed=continuous", &[], &["until=9", "until=x", "compact=false", "compact=x", "wait=0", "wait=5", "wait=x"]),
        (
            "since=0",
            EVENTS,
            &[
                "until=9",
                "compact=false",
                "wait=0",
                "wait=5",
                "feed=continuous",
                "feed=x",
                "control=false",
                "control=x",
            ],
        ),
    ] {
        for parameter in names {
            let answer = refused(&server.client, &format!("{query}&{parameter}"), headers);
            let document = answer.refused_parameter(parameter.split('=').next().unwrap());
            assert!(document["expected"].as_str().is_some_and(|expected| !expected.is_empty()));
        }
    }
}

fn what_goes_with_a_mode_is_taken(bed: Bed) {
    let server = bed.start();
    let last = seed(&server.client).last().unwrap().seq;
    let epoch = server.client.get("/v1/changes?since=now").must("scroll-epoch").to_owned();
    for (query, headers) in modes() {
        for more in [
            "since=0".to_owned(),
            format!("since={last}"),
            "since=now".to_owned(),
            "since=0&limit=3".to_owned(),
            "resource=note,customer".to_owned(),
            "resource=note&id=a,b".to_owned(),
            format!("min_head={last}"),
            format!("epoch={epoch}"),
            "floor=0".to_owned(),
            "fields=time,prev,tx".to_owned(),
        ] {
            let stream = Stream::open_with(&server.client, &format!("/v1/changes?{query}&{more}"), headers);
            assert_eq!(stream.head.status, 200, "{query} {more}");
        }
    }
    for query in ["feed=continuous&heartbeat=1", "feed=continuous&heartbeat=60", "feed=continuous&control=false"] {
        Stream::open(&server.client, &format!("/v1/changes?{query}"));
    }
    Stream::events(&server.client, "/v1/changes?control=true&heartbeat=1", &[]);
    // Zero seconds are a page, with everything that a page has.
    let page = server.client.get("/v1/changes?wait=0&until=3&compact=true").expect(200);
    assert!(!page.body.is_empty() && page.header("etag").is_some(), "{}", page.told());
}

fn values_of_live_parameters_are_judged_like_all_others(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    for bad in ["", "-1", "+1", "1.5", "01", "56", "60", "9223372036854775808", "abc", "true", "%201", "5s"] {
        refused(&server.client, &format!("wait={bad}"), &[]).refused_parameter("wait");
    }
    for bad in ["", "0", "-1", "61", "1.5", "01", "abc", "5s", "99999999999999999999"] {
        refused(&server.client, &format!("feed=continuous&heartbeat={bad}"), &[]).refused_parameter("heartbeat");
        refused(&server.client, &format!("heartbeat={bad}"), EVENTS).refused_parameter("heartbeat");
    }
    for bad in ["", "live", "Continuous", "continuous,", "longpoll", "true"] {
        refused(&server.client, &format!("feed={bad}"), &[]).refused_parameter("feed");
    }
    for bad in ["", "TRUE", "1", "yes"] {
        refused(&server.client, &format!("feed=continuous&control={bad}"), &[]).refused_parameter("control");
    }
    for (query, headers) in modes() {
        for bad in ["limit=0", "limit=x", "since=x", "resource=Note", "fields=data", "floor=x", "min_head=x", "epoch="]
        {
            let name = bad.split('=').next().unwrap();
            refused(&server.client, &format!("{query}&{bad}"), headers).refused_parameter(name);
        }
        let twice = refused(&server.client, &format!("{query}&since=1&since=1"), headers);
        twice.refused_parameter("since");
        let unknown = refused(&server.client, &format!("{query}&token=hunter2"), headers);
        assert!(unknown.refused_parameter("token").get("value").is_none() && !unknown.text().contains("hunter2"));
        refused(&server.client, &format!("{query}&resource=nothing"), headers).refused(400, "unknown-resource");
        refused(&server.client, &format!("{query}&id=a"), headers).refused_parameter("id");
    }
}

fn the_form_decides_and_an_unknown_one_is_refused_before_any_parameter(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let accept =
        |query: &str, accept: &str| Stream::ask(&server.client, &format!("/v1/changes?{query}"), &[("Accept", accept)]);
    for (query, form, expected) in [
        ("feed=continuous", "*/*", "application/x-ndjson"),
        ("feed=continuous", "application/x-ndjson", "application/x-ndjson"),
        ("feed=continuous", "application/json, application/x-ndjson;q=0.1", "application/x-ndjson"),
        ("since=0", "text/event-stream", "text/event-stream"),
        ("since=0", "text/*", "text/event-stream"),
        ("wait=1", "application/json", "application/json"),
        ("wait=1", "*/*", "application/x-ndjson"),
    ] {
        let stream = accept(query, form);
        assert_eq!((stream.head.status, stream.head.header("content-type")), (200, Some(expected)), "{query} {form}");
    }
    for (query, form) in [
        ("feed=continuous", "application/json"),
        ("feed=continuous&limit=0", "application/json"),
        ("feed=nonsense", "application/json"),
        ("wait=1", "text/html"),
        ("wait=x", "text/html"),
    ] {
        accept(query, form).refusal().refused(406, "not-acceptable");
    }
}

fn the_headers_of_each_mode_are_those_of_the_contract(bed: Bed) {
    let server = bed.start();
    let last = seed(&server.client).last().unwrap().seq;
    let epoch = server.client.get("/v1/changes?since=now").must("scroll-epoch").to_owned();
    for (query, headers) in modes() {
        let asked: Vec<_> = headers.iter().chain(&[("Accept-Encoding", "gzip, br, zstd")]).copied().collect();
        let head = Stream::open_with(&server.client, &format!("/v1/changes?since=3&{query}"), &asked).head.clone();
        assert_eq!(head.number("scroll-head"), last);
        assert_eq!((head.must("scroll-floor"), head.must("scroll-epoch")), ("0", epoch.as_str()));
        assert_eq!(head.header("content-encoding"), None, "{}", head.told());
        assert_eq!(head.must("x-accel-buffering"), "no");
        assert_eq!(head.header("etag"), None);
        let is_endless = query != "wait=1";
        for name in ["scroll-next", "scroll-up-to-date", "scroll-dense", "scroll-checkpoint", "link"] {
            assert_eq!(head.header(name).is_none(), is_endless, "{name}: {}", head.told());
        }
        assert_eq!(head.must("cache-control"), if is_endless { "no-store, no-transform" } else { "no-store" });
    }
}

fn head_has_the_headers_of_every_mode_and_never_waits(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let began = std::time::Instant::now();
    for _ in 0..30 {
        for (query, headers) in [("wait=55&since=now", &[] as &[(&str, &str)]), ("feed=continuous", &[]), ("", EVENTS)]
        {
            let request = format!("HEAD /v1/changes?{query} HTTP/1.1");
            let all: Vec<_> = headers.iter().chain(&[("Connection", "close")]).copied().collect();
            let mut answered = Stream::ask_as(&server.client, &request, &all);
            assert_eq!(answered.head.status, 200);
            let form = if headers.is_empty() { "application/x-ndjson" } else { "text/event-stream" };
            assert_eq!(answered.head.must("content-type"), form);
            // The connection ends, so a byte of a body would show.
            assert_eq!(answered.close_and_count(), 0);
        }
    }
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    for mode in ["long-poll", "continuous", "sse"] {
        assert_eq!(server.metrics.streams_ended.with_label_values(&[mode, "left"]).get(), 0);
        assert_eq!(server.metrics.streams.with_label_values(&[mode]).get(), 0);
    }
    crate::support::eventually("no task is left", || server.metrics.tasks.with_label_values(&["tail"]).get() == 0);
}

fn checks_come_in_the_order_of_the_contract_in_every_mode(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let writer = server.client_for("default", &[Scope::Write], None);
    let limited = server.client_for("default", &[Scope::Read], Some(&["note"]));
    for (query, headers) in modes() {
        let ask = |client: &Client, more: &str| refused(client, &format!("{query}&{more}"), headers);
        let nobody = server.client_with("scroll_nobody");
        ask(&nobody, "limit=0").refused(401, "unauthorized");
        ask(&writer, "limit=0").refused(403, "forbidden");
        ask(&limited, "resource=customer&limit=0").refused(403, "forbidden");
        ask(&server.client, "epoch=x&limit=0").refused_parameter("limit");
        ask(&server.client, "epoch=x&min_head=99").refused(409, "epoch-changed");
        ask(&server.client, "epoch=x&since=99").refused(409, "epoch-changed");
        ask(&server.client, "since=99").refused(409, "cursor-ahead");
    }
    let (query, headers) = modes()[1];
    refused(&server.client, &format!("{query}&min_head=99&since=99"), headers).refused(503, "replica-behind");
}

fn a_cursor_is_answered_exactly_or_refused_in_every_mode(bed: Bed) {
    let server = bed.start();
    let last = seed(&server.client).last().unwrap().seq;
    bed.execute("UPDATE logs SET floor = 9, purged_through = 9");
    for (query, headers) in modes() {
        let ask = |more: &str| refused(&server.client, &format!("{query}&{more}"), headers);
        let ahead = ask(&format!("since={}", last + 1)).refused(409, "cursor-ahead");
        assert_eq!((ahead["since"].as_u64(), ahead["head"].as_u64()), (Some(last + 1), Some(last)));
        let expired = ask("since=8").refused(410, "cursor-expired");
        assert_eq!((expired["since"].as_u64(), expired["floor"].as_u64()), (Some(8), Some(9)));
        ask("since=8&floor=8").refused(410, "cursor-expired");
        for good in ["since=8&floor=9", "since=9", "since=0"] {
            let target = format!("/v1/changes?{query}&{good}&limit=1");
            assert_eq!(Stream::ask(&server.client, &target, headers).head.status, 200, "{good}");
        }
    }
}
