//! How streams end: by age, by the key, by a shutdown, by a client that stands still or leaves.

use std::io::Read as _;
use std::time::{Duration, Instant};

use scroll::access::Scope;
use scroll::api::StreamTimes;

use crate::support::process::{Process, make_key};
use crate::support::raw::End;
use crate::support::{Bed, Options, Stream, TestServer, eventually, on_every_engine, seed};

on_every_engine![
    a_stream_ends_by_age_and_says_so,
    a_revoked_key_ends_its_streams_and_no_others,
    a_key_that_expires_or_is_revoked_elsewhere_ends_its_streams,
    a_shutdown_ends_every_stream_cleanly_within_ten_seconds,
    a_client_that_takes_nothing_is_cut_off_and_others_go_on,
    vanished_clients_leave_nothing_behind,
    a_history_that_breaks_is_cut_off_and_never_looks_whole,
];

fn with_times(change: impl FnOnce(&mut StreamTimes)) -> Options {
    let mut stream_times = StreamTimes::default();
    change(&mut stream_times);
    Options { stream_times, ..Options::default() }
}

fn open_streams(server: &TestServer) -> i64 {
    ["long-poll", "continuous", "sse"].iter().map(|mode| server.metrics.streams.with_label_values(&[mode]).get()).sum()
}

fn ended(server: &TestServer, mode: &str, reason: &str) -> u64 {
    server.metrics.streams_ended.with_label_values(&[mode, reason]).get()
}

fn a_stream_ends_by_age_and_says_so(bed: Bed) {
    let age = Duration::from_millis(300)..=Duration::from_millis(1_500);
    let server = bed.start_with(with_times(|times| times.max_age = age));
    seed(&server.client);
    let began = Instant::now();
    let mut ends = std::thread::scope(|scope| {
        let followers: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = Stream::open(&server.client, "/v1/changes?feed=continuous&control=true");
                    assert_eq!(stream.changes(15).len(), 15);
                    let end =
                        std::iter::repeat_with(|| stream.control()).find(|line| line["control"] == "end").unwrap();
                    assert_eq!((&end["reason"], &end["seq"]), (&"max-age".into(), &15.into()));
                    assert_eq!(stream.finish(), End::Whole);
                    began.elapsed()
                })
            })
            .collect();
        followers.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    ends.sort();
    assert!(ends[11] - ends[0] > Duration::from_millis(200), "spread: {ends:?}");
    let mut events = Stream::events(&server.client, "/v1/changes", &[]);
    assert_eq!(events.next_event("end").json()["reason"], "max-age");
    assert_eq!(events.finish(), End::Whole);
    eventually("all are closed", || open_streams(&server) == 0);
    assert_eq!((ended(&server, "continuous", "max-age"), ended(&server, "sse", "max-age")), (12, 1));
}

/// C072.
fn a_revoked_key_ends_its_streams_and_no_others(bed: Bed) {
    let server = bed.start();
    let made = server.client.post("/v1/admin/keys", r#"{"log":"default","scopes":["read"]}"#).expect(201).json();
    let (id, revoked) = (made["id"].as_str().unwrap(), server.client_with(made["key"].as_str().unwrap()));
    let mut streams: Vec<Stream> =
        (0..3).map(|_| Stream::open(&revoked, "/v1/changes?feed=continuous&control=true")).collect();
    let mut events = Stream::events(&revoked, "/v1/changes", &[]);
    let mut other = Stream::open(&server.client, "/v1/changes?feed=continuous");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| revoked.get("/v1/changes?wait=55"));
        eventually("all are open", || open_streams(&server) == 6);
        server.client.delete(&format!("/v1/admin/keys/{id}")).expect(204);
        let began = Instant::now();
        for stream in &mut streams {
            assert_eq!(stream.control()["reason"], "key");
            assert_eq!(stream.finish(), End::Whole);
        }
        assert_eq!(events.next_event("end").json()["reason"], "key");
        waiting.join().unwrap().refused(401, "unauthorized");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    });
    Stream::ask(&revoked, "/v1/changes?feed=continuous", &[]).refusal().refused(401, "unauthorized");
    server.client.put("/v1/entities/note/after", "{}").expect(201);
    assert_eq!(other.change().seq, 1);
    eventually("one is left", || open_streams(&server) == 1);
    assert_eq!(ended(&server, "continuous", "key"), 3);
}

fn a_key_that_expires_or_is_revoked_elsewhere_ends_its_streams(bed: Bed) {
    let server = bed.start_with(with_times(|times| times.key_check = Duration::from_millis(100)));
    let expires = jiff::Timestamp::now() + Duration::from_secs(3_600);
    let body = format!(r#"{{"log":"default","scopes":["read"],"expires_at":"{expires}"}}"#);
    let made = server.client.post("/v1/admin/keys", &body).expect(201).json();
    let expiring = server.client_with(made["key"].as_str().unwrap());
    let elsewhere = server.client_for("default", &[Scope::Read], None);
    let target = "/v1/changes?feed=continuous&control=true";
    let mut stream = Stream::open(&expiring, target);
    let mut other = Stream::open(&elsewhere, target);
    assert!(stream.is_silent_for(Duration::from_millis(500)), "a valid key goes on");
    bed.clock.step(3_601);
    assert_eq!(stream.control()["reason"], "key");
    // Past the server, as the command line beside it or another server does it.
    bed.execute("UPDATE keys SET revoked_at = 1");
    assert_eq!(other.control()["reason"], "key");
    assert_eq!((stream.finish(), other.finish()), (End::Whole, End::Whole));
    eventually("nobody looks keys up any more", || server.metrics.tasks.with_label_values(&["stream-keys"]).get() == 0);
}

/// C060, with the real program.
fn a_shutdown_ends_every_stream_cleanly_within_ten_seconds(bed: Bed) {
    let process = Process::serve(&bed.url());
    let client = process.client(&make_key(&bed.url()));
    client.put("/v1/entities/note/n", "{}").expect(201);
    let mut lines: Vec<Stream> =
        (0..25).map(|_| Stream::open(&client, "/v1/changes?feed=continuous&control=true")).collect();
    let mut events: Vec<Stream> = (0..25).map(|_| Stream::events(&client, "/v1/changes", &[])).collect();
    lines.iter_mut().for_each(|stream| assert_eq!(stream.change().seq, 1));
    events.iter_mut().for_each(|stream| assert_eq!(stream.next_event("change").id.as_deref(), Some("1")));
    let (status, log) = std::thread::scope(|scope| {
        let polls: Vec<_> = (0..5).map(|_| scope.spawn(|| client.get("/v1/changes?since=1&wait=55"))).collect();
        // A key of the only log sees all figures.
        let waiting = || client.get("/metrics").expect(200).text().contains("scroll_streams{mode=\"long-poll\"} 5");
        eventually("the polls wait", waiting);
        let began = Instant::now();
        process.terminate();
        for stream in &mut lines {
            let end = std::iter::repeat_with(|| stream.control()).find(|line| line["control"] == "end").unwrap();
            assert_eq!((&end["reason"], &end["seq"]), (&"drain".into(), &1.into()));
            assert_eq!(stream.finish(), End::Whole);
        }
        for stream in &mut events {
            assert_eq!(stream.next_event("end").json()["reason"], "drain");
            assert_eq!(stream.finish(), End::Whole);
        }
        for poll in polls {
            let answer = poll.join().unwrap().expect(200);
            assert_eq!((answer.body.len(), answer.number("scroll-next")), (0, 1));
        }
        let ended = process.ended();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        ended
    });
    assert_eq!(status.code(), Some(0), "{log}");
}

fn a_client_that_takes_nothing_is_cut_off_and_others_go_on(bed: Bed) {
    let server = bed.start_with(with_times(|times| times.max_stall = Duration::from_millis(500)));
    let text = format!(r#"{{"t":"{}"}}"#, "x".repeat(200_000));
    let standing = Stream::open(&server.client, "/v1/changes?feed=continuous");
    let mut taking = Stream::open(&server.client, "/v1/changes?feed=continuous");
    let mut written = 0;
    eventually("the one that stands still is ended", || {
        written += 1;
        server.client.put(&format!("/v1/entities/note/{written}"), &text).expect(201);
        assert_eq!(taking.change().seq, written);
        ended(&server, "continuous", "slow") == 1
    });
    assert_eq!(open_streams(&server), 1);
    // What had been sent is there; the end is not.
    let mut standing = standing;
    assert_eq!(standing.finish(), End::CutOff);
    server.client.put("/v1/entities/note/last", "{}").expect(201);
    assert_eq!(taking.change().id, "last");
}

/// C057.
fn vanished_clients_leave_nothing_behind(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let tasks = |name: &str| server.metrics.tasks.with_label_values(&[name]).get();
    let open = |count: usize| {
        let mut sockets = Vec::new();
        for number in 0..count {
            let (target, headers): (&str, &[(&str, &str)]) = match number % 3 {
                0 => ("/v1/changes?feed=continuous", &[]),
                1 => ("/v1/changes?since=now", &[("Accept", "text/event-stream")]),
                _ => ("/v1/changes?since=now&wait=55", &[]),
            };
            let request = crate::support::stream::request(&server.client, target, headers);
            let mut socket = std::net::TcpStream::connect(server.client.address()).unwrap();
            std::io::Write::write_all(&mut socket, request.as_bytes()).unwrap();
            if number % 3 != 2 {
                socket.read_exact(&mut [0; 12]).unwrap();
            }
            sockets.push(socket);
        }
        sockets
    };
    let sockets = open(90);
    eventually("all are open", || open_streams(&server) == 90);
    assert_eq!((tasks("tail"), tasks("stream-keys")), (1, 1), "no task for each of them");
    let began = Instant::now();
    // As their processes end: the sockets close, nobody says goodbye, and nothing is written.
    drop(sockets);
    eventually("none is open", || open_streams(&server) == 0);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    eventually("no task is left", || tasks("tail") + tasks("stream-keys") + tasks("catch-up") == 0);
    eventually("no response is left", || server.metrics.open_responses.get() == 0);
    assert_eq!(ended(&server, "continuous", "left"), 30);
    assert_eq!(ended(&server, "sse", "left"), 30);
}

/// C051, live: what a running answer owes is gone, so it breaks off.
fn a_history_that_breaks_is_cut_off_and_never_looks_whole(bed: Bed) {
    let server = bed.start();
    let ids: Vec<String> = (0..9_000).map(|id| id.to_string()).collect();
    let batch = crate::support::puts("note", ids.iter().map(String::as_str), r#"{"x":1}"#);
    server.client.ask("POST", "/v1/batch").ndjson(&batch).send().expect(200);
    bed.execute("DELETE FROM changes WHERE seq = 8000");
    for headers in [&[] as &[(&str, &str)], &[("Accept", "text/event-stream")]] {
        let target = if headers.is_empty() { "/v1/changes?feed=continuous&control=true" } else { "/v1/changes" };
        let mut stream = Stream::open_with(&server.client, target, headers);
        assert_eq!(stream.finish(), End::CutOff, "a broken stream has no last chunk");
    }
    eventually("they are counted", || {
        ended(&server, "continuous", "failed") == 1 && ended(&server, "sse", "failed") == 1
    });
}
