//! The continuous feed: history, then every change as it commits.

use std::time::{Duration, Instant};

use crate::support::raw::End;
use crate::support::{Bed, Stream, TestServer, fold, model, on_every_engine, puts, seed};

on_every_engine![
    history_comes_first_and_then_every_change_once_and_in_order,
    a_live_line_has_the_bytes_that_a_page_has,
    changes_of_one_batch_leave_in_one_chunk,
    filters_and_extra_members_hold_live_as_in_history,
    a_limit_ends_the_stream_after_so_many_lines,
    a_sign_of_life_is_an_empty_line_and_only_in_silence,
    bookmarks_carry_the_checkpoint_and_move_a_filtered_reader,
    a_follower_that_falls_behind_the_tail_reads_the_store_again,
    a_naive_reader_of_json_lines_copes_with_signs_of_life,
    a_client_that_closed_its_sending_side_goes_on_reading,
    before_http_1_1_a_stream_ends_with_its_connection,
];

fn put(server: &TestServer, id: &str) {
    server.client.put(&format!("/v1/entities/note/{id}"), r#"{"n":1}"#);
}

fn history_comes_first_and_then_every_change_once_and_in_order(bed: Bed) {
    let server = bed.start();
    let history = seed(&server.client);
    for since in [0, 7, 15] {
        let mut stream = Stream::open(&server.client, &format!("/v1/changes?feed=continuous&since={since}"));
        assert_eq!(stream.changes(history.len() - since), history[since..]);
        assert!(stream.is_silent_for(Duration::from_millis(50)));
    }
    let mut streams: Vec<Stream> = ["since=0", "since=15", "since=now"]
        .map(|since| Stream::open(&server.client, &format!("/v1/changes?feed=continuous&{since}")))
        .into();
    assert_eq!(streams[0].changes(15), history);
    for number in 0..30 {
        let began = Instant::now();
        put(&server, &format!("live{number}"));
        for stream in &mut streams {
            assert_eq!(stream.change().seq, 16 + number);
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    let (_, all) = (streams.pop(), server.client.all_lines());
    let mut whole = Stream::open(&server.client, "/v1/changes?feed=continuous");
    assert_eq!(whole.changes(all.len()), all);
}

fn a_live_line_has_the_bytes_that_a_page_has(bed: Bed) {
    let server = bed.start();
    let mut live = Stream::open(&server.client, "/v1/changes?feed=continuous");
    let mut with_fields = Stream::open(&server.client, "/v1/changes?feed=continuous&fields=tx,time,prev");
    let lines = seed(&server.client);
    assert_eq!(live.changes(15), lines);
    let page = server.client.get("/v1/changes?fields=time,prev,tx").expect(200).lines();
    let streamed = with_fields.changes(15);
    assert_eq!(streamed, page);
    let mut history = Stream::open(&server.client, "/v1/changes?feed=continuous&fields=time,prev,tx");
    assert_eq!(history.changes(15), page);
}

fn changes_of_one_batch_leave_in_one_chunk(bed: Bed) {
    let server = bed.start();
    let mut live = Stream::open(&server.client, "/v1/changes?feed=continuous");
    let mut events = Stream::events(&server.client, "/v1/changes", &[]);
    assert_eq!(events.chunk().unwrap().split(|byte| *byte == b'\n').next().unwrap().get(..6), Some(&b"retry:"[..]));
    let ids: Vec<String> = (0..60).map(|id| id.to_string()).collect();
    let batch = puts("note", ids.iter().map(String::as_str), r#"{"n":1}"#);
    server.client.ask("POST", "/v1/batch").ndjson(&batch).send().expect(200);
    let chunk = live.chunk().unwrap();
    assert_eq!(crate::support::parse_lines(&chunk).len(), 60, "{}", String::from_utf8_lossy(&chunk));
    let chunk = String::from_utf8(events.chunk().unwrap()).unwrap();
    assert_eq!(chunk.matches("event: change\n").count(), 60, "{chunk}");
}

fn filters_and_extra_members_hold_live_as_in_history(bed: Bed) {
    let server = bed.start();
    let queries = [
        "resource=note",
        "resource=customer,subscription",
        "resource=note&id=a,c",
        "resource=note&id=nobody",
        "resource=subscription&fields=prev",
    ];
    server.client.put("/v1/entities/note/first", "{}").expect(201);
    let open =
        |query: &&str| Stream::open(&server.client, &format!("/v1/changes?feed=continuous&control=true&{query}"));
    let mut live: Vec<Stream> = queries.iter().map(open).collect();
    seed_after(&server);
    for (query, live) in queries.iter().zip(&mut live) {
        let expected = server.client.get(&format!("/v1/changes?{query}")).expect(200).lines();
        assert_eq!(live.changes(expected.len()), expected, "{query}");
        let mut history = open(query);
        assert_eq!(history.changes(expected.len()), expected, "{query}");
        assert_eq!(history.control()["seq"], 16, "{query}");
    }
}

/// The lines of [`seed`] behind one that is there.
fn seed_after(server: &TestServer) {
    server.client.put("/v1/entities/customer/cus_1", "{}").expect(201);
    server.client.put("/v1/entities/subscription/s", r#"{"status":"active","customer":"cus_1"}"#).expect(201);
    for id in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        put(server, id);
    }
    server.client.delete("/v1/entities/note/a").expect(200);
    server.client.patch("/v1/entities/subscription/s", r#"{"plan":"x"}"#).expect(200);
    // Takes the subscription along.
    server.client.delete("/v1/entities/customer/cus_1").expect(200);
}

fn a_limit_ends_the_stream_after_so_many_lines(bed: Bed) {
    let server = bed.start();
    let lines = seed(&server.client);
    for limit in [1, 7, 15] {
        let target = format!("/v1/changes?feed=continuous&control=true&limit={limit}");
        let mut stream = Stream::open(&server.client, &target);
        assert_eq!(stream.changes(limit), lines[..limit]);
        let end = stream.control();
        assert_eq!(end, serde_json::json!({"control": "end", "seq": limit, "reason": "limit"}));
        assert_eq!(stream.finish(), End::Whole);
    }
    let mut across = Stream::open(&server.client, "/v1/changes?feed=continuous&limit=17&since=14");
    let mut filtered =
        Stream::open(&server.client, "/v1/changes?feed=continuous&limit=2&since=15&resource=note&id=y5,y9");
    let batch = puts("note", ["y1", "y2", "y3", "y4", "y5", "y6", "y7", "y8", "y9", "z1", "z2", "z3"], "{}");
    server.client.ask("POST", "/v1/batch").ndjson(&batch).send().expect(200);
    put(&server, "a1");
    for id in ["a2", "a3", "a4", "a5"] {
        put(&server, id);
    }
    let seqs: Vec<u64> = across.changes(17).iter().map(|line| line.seq).collect();
    assert_eq!(seqs, (15..=31).collect::<Vec<_>>());
    assert_eq!((across.try_change(), across.finish()), (None, End::Whole));
    assert_eq!(filtered.changes(2).iter().map(|line| line.id.clone()).collect::<Vec<_>>(), ["y5", "y9"]);
    assert_eq!((filtered.told(), filtered.finish()), (None, End::Whole), "nothing is announced that was not asked for");
    let ended = server.metrics.streams_ended.with_label_values(&["continuous", "limit"]);
    assert_eq!(ended.get(), 5);
}

fn a_sign_of_life_is_an_empty_line_and_only_in_silence(bed: Bed) {
    let server = bed.start();
    let mut stream = Stream::open(&server.client, "/v1/changes?feed=continuous&heartbeat=1");
    let began = Instant::now();
    for beat in 1..=3 {
        assert_eq!(stream.line().unwrap(), "");
        let silence = began.elapsed().as_secs_f64();
        assert!((f64::from(beat) - 0.2..f64::from(beat) + 0.9).contains(&silence), "{beat}: {silence}");
    }
    // While lines come there is no need for more.
    for number in 0..15 {
        put(&server, &number.to_string());
        assert_ne!(stream.line().unwrap(), "");
        std::thread::park_timeout(Duration::from_millis(100));
    }
    let mut silent = Stream::open(&server.client, "/v1/changes?feed=continuous&since=now&heartbeat=60");
    assert!(silent.is_silent_for(Duration::from_secs(2)));
}

fn bookmarks_carry_the_checkpoint_and_move_a_filtered_reader(bed: Bed) {
    let server = bed.start();
    let lines = seed(&server.client);
    let mut whole = Stream::open(&server.client, "/v1/changes?feed=continuous&control=true&heartbeat=1");
    let mut filtered =
        Stream::open(&server.client, "/v1/changes?feed=continuous&control=true&heartbeat=1&resource=customer");
    assert_eq!(whole.changes(15), lines);
    let bookmark = whole.control();
    let expected = |lines: &[model::Entry], seq: u64| {
        let live = fold(lines.iter());
        serde_json::json!({"control": "bookmark", "seq": seq, "up_to_date": true, "count": live.len(),
            "fingerprint": model::fingerprint(live.values())})
    };
    assert_eq!(bookmark, expected(&lines, 15));
    assert_eq!(filtered.changes(1).len(), 1);
    assert_eq!(filtered.control(), serde_json::json!({"control": "bookmark", "seq": 15, "up_to_date": true}));
    put(&server, "one");
    put(&server, "two");
    let mut told = 0;
    while told < 17 {
        let bookmark = whole.control();
        told = bookmark["seq"].as_u64().unwrap();
        assert_eq!(bookmark["count"], fold(&server.client.all_lines()[..told as usize]).len());
    }
    // Nothing matched; the cursor still moves, with the next sign of life.
    let moved = filtered.control();
    assert_eq!((&moved["seq"], moved.get("count")), (&17.into(), None));
    // Nothing new: signs of life are empty lines again.
    assert_eq!((filtered.line().unwrap(), whole.line().unwrap()), (String::new(), String::new()));
}

fn a_follower_that_falls_behind_the_tail_reads_the_store_again(bed: Bed) {
    let server = bed.start();
    let mut stream = Stream::open(&server.client, "/v1/changes?feed=continuous&control=true");
    // Far more than a tail keeps and sockets hold, before a single byte is taken.
    let text = format!(r#"{{"t":"{}"}}"#, "x".repeat(100_000));
    let ids: Vec<String> = (0..100).map(|id| id.to_string()).collect();
    let batch = puts("note", ids.iter().map(String::as_str), &text);
    for _ in 0..2 {
        server.client.ask("POST", "/v1/batch").ndjson(&batch).send().expect(200);
        let same = puts("note", ids.iter().map(String::as_str), "{}");
        server.client.ask("POST", "/v1/batch").ndjson(&same).send().expect(200);
    }
    let seqs: Vec<u64> = stream.changes(400).iter().map(|line| line.seq).collect();
    assert_eq!(seqs, (1..=400).collect::<Vec<_>>());
    put(&server, "after");
    assert_eq!(stream.change().seq, 401);
}

/// C069.
fn a_naive_reader_of_json_lines_copes_with_signs_of_life(bed: Bed) {
    let server = bed.start();
    let mut stream = Stream::open(&server.client, "/v1/changes?feed=continuous&control=true&heartbeat=1");
    let (mut beats, mut positions) = (0, Vec::new());
    while positions.is_empty() {
        match stream.line().unwrap() {
            line if line.is_empty() => {
                beats += 1;
                if beats == 2 {
                    put(&server, "n");
                }
            }
            line => {
                let value: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert!(value.get("control").is_none(), "nothing is told above what was sent: {line}");
                positions.push(value["seq"].as_u64().unwrap());
            }
        }
    }
    assert!(beats >= 2, "the write came after two of them");
    assert_eq!(positions, [1]);
}

fn a_client_that_closed_its_sending_side_goes_on_reading(bed: Bed) {
    let server = bed.start();
    let mut stream = Stream::open(&server.client, "/v1/changes?feed=continuous&heartbeat=60");
    stream.close_sending_side();
    // It is asked whether it is there, often.
    assert_eq!((stream.line().unwrap(), stream.line().unwrap()), (String::new(), String::new()));
    put(&server, "n");
    assert_eq!(stream.change().seq, 1);
}

fn before_http_1_1_a_stream_ends_with_its_connection(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let line = "GET /v1/changes?feed=continuous&control=true&limit=16 HTTP/1.0";
    let mut stream = Stream::ask_as(&server.client, line, &[]);
    assert_eq!((stream.head.status, stream.head.header("transfer-encoding")), (200, None));
    assert_eq!(stream.changes(15).len(), 15);
    put(&server, "n");
    assert_eq!(stream.change().seq, 16);
    assert_eq!(stream.control()["reason"], "limit");
    assert_eq!(stream.finish(), End::Whole);
}
