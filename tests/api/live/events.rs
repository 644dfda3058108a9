//! Server-sent events, and `Last-Event-ID` (C064, C066).

use std::time::Duration;

use crate::support::raw::End;
use crate::support::stream::{Event, entry};
use crate::support::{Bed, Stream, fold, model, on_every_engine, seed};

on_every_engine![
    changes_are_events_with_their_seq_as_id,
    a_retry_time_is_told_once_and_is_not_the_same_for_all,
    only_changes_and_bookmarks_have_an_id,
    last_event_id_wins_over_since_and_an_empty_one_counts_as_absent,
    an_unusable_last_event_id_is_refused_before_any_event,
    a_limit_ends_with_an_event,
    nasty_content_stays_one_event,
];

fn changes_are_events_with_their_seq_as_id(bed: Bed) {
    let server = bed.start();
    let lines = seed(&server.client);
    let mut stream = Stream::events(&server.client, "/v1/changes", &[]);
    for line in &lines {
        let event = stream.next_event("change");
        assert_eq!(event.id, Some(line.seq.to_string()));
        assert_eq!(entry(&event.data), *line);
    }
    let bookmark = stream.next_event("bookmark");
    let live = fold(&lines);
    assert_eq!(bookmark.id.as_deref(), Some("15"));
    let expected = serde_json::json!({"control": "bookmark", "seq": 15, "up_to_date": true, "count": live.len(),
        "fingerprint": model::fingerprint(live.values())});
    assert_eq!(bookmark.json(), expected);
    server.client.put("/v1/entities/note/live", "{}").expect(201);
    let event = stream.next_event("change");
    assert_eq!((event.id.as_deref(), entry(&event.data).id.as_str()), (Some("16"), "live"));
    let mut filtered = Stream::events(&server.client, "/v1/changes?resource=customer&fields=tx", &[]);
    let event = filtered.next_event("change");
    assert_eq!(event.json()["tx"], 1);
    assert_eq!(filtered.next_event("bookmark").json().get("count"), None);
}

fn a_retry_time_is_told_once_and_is_not_the_same_for_all(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let mut times = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let mut stream = Stream::events(&server.client, "/v1/changes?limit=15", &[]);
        let first = stream.event().unwrap();
        times.insert(first.retry.unwrap());
        while let Some(event) = stream.event() {
            assert_eq!(event.retry, None);
        }
    }
    assert!(times.len() > 5, "{times:?}");
    assert!(times.iter().all(|time| (1_000..=3_000).contains(time)), "{times:?}");
}

fn only_changes_and_bookmarks_have_an_id(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let mut stream = Stream::events(&server.client, "/v1/changes?heartbeat=1&limit=20", &[]);
    let (mut events, mut written): (Vec<Event>, u64) = (Vec::new(), 0);
    while let Some(event) = stream.event() {
        if event.comments > 0 && written < 5 {
            server.client.put(&format!("/v1/entities/note/h{written}"), "{}").expect(201);
            written += 1;
        }
        events.push(event);
    }
    let mut sent = 0;
    for event in &events {
        match event.name.as_str() {
            "change" => {
                sent += 1;
                assert_eq!(event.id, Some(sent.to_string()), "each once and in order");
            }
            "bookmark" => assert_eq!(event.id, Some(sent.to_string()), "not above what was sent"),
            _ => assert_eq!(event.id, None, "{event:?}"),
        }
    }
    assert_eq!(sent, 20);
    assert!(events.iter().filter(|event| event.comments > 0).count() >= 5);
    assert_eq!(events.last().unwrap().name, "end");
}

fn last_event_id_wins_over_since_and_an_empty_one_counts_as_absent(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    for (since, last, first) in [
        ("since=3", Some("7"), 8),
        ("since=7", Some("3"), 4),
        ("since=7", Some("0"), 1),
        ("since=now", Some("14"), 15),
        ("since=7", Some(""), 8),
        ("since=7", None, 8),
        ("limit=100", Some("9"), 10),
    ] {
        let headers: Vec<_> = last.map(|last| ("Last-Event-ID", last)).into_iter().collect();
        let mut stream = Stream::events(&server.client, &format!("/v1/changes?{since}"), &headers);
        assert_eq!(stream.next_event("change").id, Some(first.to_string()), "{since} {last:?}");
    }
    // Nobody else sends it, so nobody else heeds it.
    let page = server.client.ask("GET", "/v1/changes?since=10").header("Last-Event-ID", "3").send().expect(200);
    assert_eq!(page.lines()[0].seq, 11);
}

fn an_unusable_last_event_id_is_refused_before_any_event(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    bed.execute("UPDATE logs SET floor = 9, purged_through = 9");
    let ask = |last: &str| {
        let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", last)];
        Stream::ask(&server.client, "/v1/changes?since=12", &headers).refusal()
    };
    for bad in ["abc", "-1", "+1", "5 6", "05", "1.0", "now", "99999999999999999999", "5,6"] {
        let answer = ask(bad);
        assert_eq!(answer.refused(400, "malformed-header")["parameter"], "Last-Event-ID", "{bad}");
    }
    ask("16").refused(409, "cursor-ahead");
    ask("9223372036854775807").refused(409, "cursor-ahead");
    ask("8").refused(410, "cursor-expired");
    let twice = [("Accept", "text/event-stream"), ("Last-Event-ID", "9"), ("Last-Event-ID", "9")];
    Stream::ask(&server.client, "/v1/changes", &twice).refusal().refused(400, "malformed-header");
}

fn a_limit_ends_with_an_event(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let mut stream = Stream::events(&server.client, "/v1/changes?limit=3", &[]);
    let end = stream.next_event("end");
    assert_eq!(end.id, None);
    assert_eq!(end.json(), serde_json::json!({"control": "end", "seq": 3, "reason": "limit"}));
    assert_eq!(stream.finish(), End::Whole);
}

fn nasty_content_stays_one_event(bed: Bed) {
    let server = bed.start();
    let mut stream = Stream::events(&server.client, "/v1/changes", &[]);
    stream.patience(Duration::from_secs(10));
    for text in ["\u{2028}", "\r\n", "data: x\n\n", "\nid: 99\n", "event: end\n\n", ":", "😀", "\u{85}"] {
        let body = serde_json::json!({ "t": text }).to_string();
        server.client.put("/v1/entities/note/n", &body);
        let event = stream.next_event("change");
        assert_eq!(entry(&event.data).data["t"], text);
    }
}
