//! What stands on the wire: framing, cut answers, odd requests, clients that vanish, a database that is
//! held or gone.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scroll::api::Limits;

use super::support::{
    Bed, Client, Engine, Options, at_once, contract, data, eventually, model, on_every_engine, puts, raw, seed,
};

on_every_engine![
    a_page_begins_with_a_brace_and_ends_every_line_with_one_line_feed,
    a_page_that_fails_in_the_middle_is_cut_and_not_ended,
    clients_that_vanish_leave_nothing_open,
    a_client_that_stands_still_holds_neither_lock_nor_snapshot,
    requests_behind_one_another_are_answered_in_order,
    every_path_and_method_answers_or_refuses_as_a_document,
    what_is_too_long_is_refused,
    a_body_that_breaks_off_writes_nothing,
    deep_and_many_bodies_hurt_nobody,
    writes_wait_for_an_external_lock_or_are_refused_without_effect,
    every_problem_has_a_page_that_explains_it,
];

/// C030, C046.
fn a_page_begins_with_a_brace_and_ends_every_line_with_one_line_feed(bed: Bed) {
    let server = bed.start();
    server.client.put("/v1/entities/note/a", "{\"t\":\"\\r\\n\\u0085\\u2028\u{2029}\u{85}\u{feff}\"}").expect(201);
    seed_many(&server.client, 300);
    for target in ["/v1/changes?limit=1000", "/v1/changes?limit=1", "/v1/changes?compact=true&limit=1000"] {
        let body = server.client.get(target).expect(200).body;
        assert_eq!((body[0], *body.last().unwrap()), (b'{', b'\n'));
        assert!(
            !body.contains(&b'\r')
                && !body.windows(2).any(|pair| pair == b"\n\n")
                && !body.starts_with(b"\xef\xbb\xbf")
        );
        let text = String::from_utf8(body).unwrap();
        assert!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}']));
        assert_eq!(text.matches('\n').count(), text.split_inclusive('\n').filter(|line| line.ends_with("}\n")).count());
    }
    for empty in ["/v1/changes?since=now", "/v1/changes?until=0", "/v1/changes?resource=membership"] {
        let answer = server.client.get(empty).expect(200);
        assert!(answer.body.is_empty() && answer.must("content-length") == "0", "{}", answer.told());
    }
}

fn seed_many(client: &Client, count: usize) {
    let ids: Vec<String> = (0..count).map(|id| id.to_string()).collect();
    client
        .ask("POST", "/v1/batch")
        .ndjson(&puts("many", ids.iter().map(String::as_str), &format!("{{\"t\":\"{}\"}}", "x".repeat(1000))))
        .send()
        .expect(200);
}

/// C051.
fn a_page_that_fails_in_the_middle_is_cut_and_not_ended(bed: Bed) {
    let server = bed.start();
    seed_many(&server.client, 9000);
    // Somebody takes a line away past the server: the page cannot be what its headers promised.
    bed.execute("DELETE FROM changes WHERE seq = 8000");
    let target = "/v1/changes?limit=9000";
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", server.client.key());
    for form in ["application/x-ndjson", "application/json"] {
        let mut wire = raw::Wire::open(server.client.address());
        wire.send(request.replace("Host: x", &format!("Host: x\r\nAccept: {form}")).as_bytes());
        let (status, headers) = wire.answer_head().unwrap();
        assert_eq!(status, 200);
        let (body, end) = wire.body(&headers, false);
        assert_eq!(end, raw::End::CutOff, "{form}");
        assert!(body.len() > 1_000_000 && body.len() < 9_500_000, "{}", body.len());
        if form == "application/x-ndjson" {
            // What came with its line feed is good, and the client goes on from there.
            let whole = body.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
            model::assert_dense(&model::parse_lines(&body[..whole]));
        } else {
            assert!(!String::from_utf8_lossy(&body).contains("up_to_date"));
        }
    }
    assert!(server.client.ask("GET", target).try_send().is_err());
    if let Some(curl) = data::program("curl") {
        let url = format!("http://{}{target}", server.client.address());
        for options in [vec!["-sS"], vec!["-sS", "--compressed"]] {
            let ran = Command::new(&curl)
                .args(options)
                .args(["-o", "/dev/null", "-H", &format!("Authorization: Bearer {}", server.client.key()), &url])
                .output()
                .unwrap();
            assert_eq!(ran.status.code(), Some(18), "{}", String::from_utf8_lossy(&ran.stderr));
        }
    }
    eventually("no response is open", || server.metrics.open_responses.get() == 0);
    server.client.get("/v1/changes?limit=10").expect(200);
}

/// C057 for pages.
fn clients_that_vanish_leave_nothing_open(bed: Bed) {
    const CLIENTS: usize = 60;
    let server = bed.start();
    seed_many(&server.client, 9000);
    let request = format!(
        "GET /v1/changes?limit=9000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        server.client.key()
    );
    let open: Vec<raw::Wire> = (0..CLIENTS)
        .map(|_| {
            let mut wire = raw::Wire::open(server.client.address());
            wire.send(request.as_bytes());
            assert_eq!(wire.answer_head().unwrap().0, 200);
            wire
        })
        .collect();
    assert_eq!(server.metrics.open_responses.get(), CLIENTS as i64, "bodies of 10 MB do not fit into socket buffers");
    drop(open);
    eventually("no response is open", || server.metrics.open_responses.get() == 0);
    eventually("no page is produced", || server.metrics.tasks.with_label_values(&["page"]).get() == 0);
}

fn a_client_that_stands_still_holds_neither_lock_nor_snapshot(bed: Bed) {
    let server = bed.start();
    seed_many(&server.client, 9000);
    let request = format!(
        "GET /v1/changes?limit=9000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        server.client.key()
    );
    let mut still: Vec<_> = (0..8)
        .map(|_| {
            let mut wire = raw::Wire::open(server.client.address());
            wire.send(request.as_bytes());
            let (_, headers) = wire.answer_head().unwrap();
            (wire, headers)
        })
        .collect();
    // More stand still than there are connections for reading; others read and write as before.
    let expected = server.client.get("/v1/changes?limit=9000").expect(200).body;
    server.client.put("/v1/entities/note/a", "{}").expect(201);
    match bed.engine {
        Engine::Sqlite => {
            // A snapshot that somebody holds would keep the log from being cut back to nothing.
            bed.execute("PRAGMA wal_checkpoint(TRUNCATE);");
            let wal = std::fs::metadata(format!("{}-wal", bed.path().display())).unwrap().len();
            assert_eq!(wal, 0, "the write-ahead log could not be reset");
        }
        Engine::Postgres => {
            let held = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                        AND pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR state LIKE 'idle in%')";
            assert_eq!(bed.number(held), 0, "a snapshot is held");
        }
    }
    for (wire, headers) in &mut still {
        let (body, end) = wire.body(headers, false);
        assert!(end == raw::End::Whole && body == expected);
    }
}

fn requests_behind_one_another_are_answered_in_order(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let ask = |method: &str, target: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", server.client.key())
    };
    let requests = [
        ask("HEAD", "/v1/changes?limit=3"),
        ask("GET", "/v1/changes?limit=3"),
        ask("HEAD", "/v1/entities/note"),
        ask("GET", "/v1/entities/note/a"),
        ask("GET", "/v1/changes?limit=0"),
        ask("HEAD", "/v1/nothing"),
        ask("DELETE", "/v1/entities/note/e"),
        ask("GET", "/v1/changes?since=now"),
        ask("GET", "/v1/entities/note"),
    ];
    let mut wire = raw::Wire::open(server.client.address());
    wire.send(requests.concat().as_bytes());
    let answers: Vec<_> = requests.iter().map(|request| wire.answer_to(request.as_bytes()).unwrap()).collect();
    assert_eq!(
        answers.iter().map(|answer| answer.status).collect::<Vec<_>>(),
        [200, 200, 200, 200, 400, 404, 200, 200, 200]
    );
    assert_eq!(answers[1].lines().len(), 3);
    assert_eq!(answers[7].number("scroll-next"), 16);
    // HTTP/1.0 knows no chunks: the end of the connection is the end of the body.
    let mut wire = raw::Wire::open(server.client.address());
    let request = ask("GET", "/v1/changes").replace("HTTP/1.1", "HTTP/1.0");
    let answer = wire.exchange(request.as_bytes()).unwrap();
    assert!(answer.header("transfer-encoding").is_none());
    assert_eq!(answer.lines().len(), 16);
}

/// C029.
fn every_path_and_method_answers_or_refuses_as_a_document(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let mut refused = 0;
    for path in contract::DOCUMENT["paths"].as_object().unwrap().keys() {
        let target = path
            .replace("{resource}", "note")
            .replace("{id}", "a")
            .replace("{action}", "x")
            .replace("{file}", "swagger-ui.css")
            .replace("{slug}", "internal");
        let known: Vec<&str> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
            .into_iter()
            .filter(|method| contract::documented(method, &target).is_some())
            .collect();
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "NONSENSE"] {
            let request = format!("{method} {target} HTTP/1.1\r\nAuthorization: Bearer {}", server.client.key());
            if !known.contains(&method) {
                let answer = raw::exchange(server.client.address(), &request, b"");
                if method == "HEAD" {
                    assert_eq!(answer.status, 405);
                } else {
                    answer.refused(405, "method-not-allowed");
                }
                let allow: Vec<&str> = answer.must("allow").split(", ").collect();
                assert_eq!(
                    allow.iter().collect::<std::collections::BTreeSet<_>>(),
                    known.iter().collect(),
                    "{method} {path}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 100);
    for target in [
        "/",
        "/v1",
        "/v1/",
        "/v1/changes/",
        "/v1/Changes",
        "/V1/changes",
        "//v1/changes",
        "/v1//changes",
        "/v1/changes.json",
        "/v1/entities",
        "/v1/entities/note/a/x/y",
        "/v2/changes",
        "/nonsense",
        "/v1/log/",
        "/favicon.ico",
    ] {
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            let answer = raw::exchange(
                server.client.address(),
                &format!("{method} {target} HTTP/1.1\r\nAuthorization: Bearer {}", server.client.key()),
                b"",
            );
            if method == "HEAD" { drop(answer.expect(404)) } else { drop(answer.refused(404, "not-found")) }
        }
    }
}

fn what_is_too_long_is_refused(bed: Bed) {
    let limits = Limits::default();
    let server = bed.start();
    seed(&server.client);
    let key = server.client.key();
    let long = |bytes: usize| {
        let start = "/v1/changes?resource=note&id=".to_owned();
        let rest = bytes - start.len();
        start + &"a,".repeat(rest / 2) + if rest % 2 == 1 { "a" } else { "" }
    };
    server.client.get(&long(limits.uri_bytes + 1)).refused(414, "uri-too-long");
    server.client.get(&long(20_000)).refused(414, "uri-too-long");
    assert_ne!(server.client.get(&long(limits.uri_bytes)).status, 414);
    let padded = |bytes: usize| {
        raw::exchange(
            server.client.address(),
            &format!("GET /v1/log HTTP/1.1\r\nAuthorization: Bearer {key}\r\nX-Pad: {}", "x".repeat(bytes)),
            b"",
        )
    };
    padded(limits.header_bytes - 500).expect(200);
    padded(limits.header_bytes + 1).refused(431, "headers-too-large");
    Client::new(server.client.address())
        .get(&format!("/healthz?{}", "x".repeat(limits.uri_bytes)))
        .refused(414, "uri-too-long");
}

fn a_body_that_breaks_off_writes_nothing(bed: Bed) {
    let server = bed.start();
    let start = format!(
        "PUT /v1/entities/note/n HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
        server.client.key()
    );
    for request in [
        format!("{start}Content-Length: 100\r\n\r\n{{\"a\":1}}"),
        format!("{start}Transfer-Encoding: chunked\r\n\r\n7\r\n{{\"a\":1}}\r\n"),
        format!("{start}Content-Length: 7\r\n"),
    ] {
        let mut wire = raw::Wire::open(server.client.address());
        wire.send(request.as_bytes());
        wire.stream.shutdown(std::net::Shutdown::Write).unwrap();
        if let Some((status, _)) = wire.answer_head() {
            assert_eq!(status, 400);
        }
    }
    for malformed in [
        "GET\r\n\r\n",
        "GET /v1/log HTTP/9.9\r\n\r\n",
        "\x16\x03\x01\x02",
        "GET /v1/log HTTP/1.1\r\nA B: c\r\n\r\n",
        "PUT /v1/entities/note/n HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "PUT /v1/entities/note/n HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    ] {
        let mut wire = raw::Wire::open(server.client.address());
        wire.send(malformed.as_bytes());
        let _ = wire.stream.shutdown(std::net::Shutdown::Write);
        if let Some((status, _)) = wire.answer_head() {
            assert!((400..500).contains(&status) || status == 505, "{malformed:?}: {status}");
        }
    }
    assert_eq!(server.client.log_head(), 0);
    // A trailing chunk makes the same body whole.
    let whole =
        format!("{start}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{{\"a\r\n4\r\n\":1}}\r\n0\r\n\r\n");
    raw::Wire::open(server.client.address()).exchange(whole.as_bytes()).unwrap().expect(201);
}

/// C040.
fn deep_and_many_bodies_hurt_nobody(bed: Bed) {
    let server = bed.start();
    let bodies = [
        "[".repeat(100_000),
        "{\"a\":".repeat(10_000),
        format!("{{\"a\":{}", "[{\"b\":".repeat(20_000)),
        format!("{{{}\"z\":1}}", "\"k\":1,".repeat(10_000)),
    ];
    at_once(20, |number| {
        let client = server.client_with(&server.client.key());
        for body in &bodies {
            client.put(&format!("/v1/entities/note/{number}"), body).refused(400, "invalid-body");
            client.put(&format!("/v1/entities/fine/{number}"), "{}").status.checked_sub(200).unwrap();
        }
    });
    assert_eq!(server.client.log_head(), 20);
}

/// C085.
fn writes_wait_for_an_external_lock_or_are_refused_without_effect(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let is_done = AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !is_done.load(Ordering::SeqCst) {
                server.client_with(&server.client.key()).get("/v1/changes?limit=5").expect(200);
                reads += 1;
            }
            reads
        });
        let lock = bed.hold_write_lock();
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let client = server.client_with(&server.client.key());
                scope.spawn(move || {
                    (0..5)
                        .filter(|number| {
                            let answer = client.put(&format!("/v1/entities/note/{writer}-{number}"), "{}");
                            if answer.status != 201 {
                                assert!(
                                    ["busy", "store-unavailable"].iter().any(|slug| answer.text().contains(slug)),
                                    "{}",
                                    answer.told()
                                );
                            }
                            answer.status == 201
                        })
                        .count()
                })
            })
            .collect();
        let (_never, quiet) = std::sync::mpsc::channel::<()>();
        // As long as a person at a shell holds it.
        let _ = quiet.recv_timeout(Duration::from_secs(2));
        drop(lock);
        let acknowledged: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        is_done.store(true, Ordering::SeqCst);
        assert!(reader.join().unwrap() > 10, "reading goes on");
        acknowledged
    });
    let lines = server.client.all_lines();
    model::assert_dense(&lines);
    assert_eq!(lines.len(), 15 + acknowledged);
    assert!(acknowledged > 0);
}

fn every_problem_has_a_page_that_explains_it(bed: Bed) {
    let server = bed.start_with(Options::default());
    let stranger = Client::new(server.client.address());
    let index = stranger.get("/problems").expect(200);
    for (slug, status, required, _) in contract::PROBLEMS {
        let page = stranger.get(&format!("/problems/{slug}")).expect(200);
        assert!(page.must("content-type").starts_with("text/html"));
        assert!(page.text().contains(slug) && page.text().contains(&status.to_string()), "{slug}");
        required.iter().for_each(|member| assert!(page.text().contains(member), "{slug}: {member}"));
        assert!(index.text().contains(&format!("/problems/{slug}")), "{slug}");
        assert_eq!(stranger.head(&format!("/problems/{slug}")).expect(200).stable_headers(), page.stable_headers());
    }
    stranger.get("/problems/nonsense").refused(404, "not-found");
    let docs = stranger.get("/docs").expect(200);
    assert!(
        docs.must("content-type").starts_with("text/html") && !docs.text().contains("https://"),
        "the page works offline"
    );
}
