//! Section 11, and what needs a process: health, metrics, the program's start and end, its log.

use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::process::{Process, assert_in_order, make_key, run, shown_key};
use super::support::{Bed, Client, Options, PATIENCE, data, eventually, on_every_engine, puts, raw, seed, tests_on};

on_every_engine![
    the_log_describes_itself,
    metrics_name_what_they_count_and_need_an_admin_key_or_their_own_listener,
    every_get_answers_head_with_the_same_headers,
    clock_steps_change_stamps_and_nothing_else,
    the_program_greets_with_lines_that_work,
    keys_stand_in_no_line_of_the_log,
    a_signal_drains_within_ten_seconds_and_what_runs_finishes,
    time_zones_change_no_byte,
];
tests_on!(
    one_machine,
    Sqlite,
    a_second_process_on_the_same_file_is_refused_with_a_sentence,
    an_answer_comes_after_the_flush
);

fn the_log_describes_itself(bed: Bed) {
    let server = bed.start();
    let lines = seed(&server.client);
    let told = server.client.get("/v1/log").expect(200).json();
    let live = super::support::fold(&lines);
    let of = |resource: &str| live.values().filter(|entry| entry.resource == resource).cloned().collect::<Vec<_>>();
    for resource in ["customer", "subscription", "note"] {
        let expected = json!({"count": of(resource).len(), "fingerprint": super::support::fingerprint(&of(resource))});
        assert_eq!(told["resources"][resource], expected, "{resource}");
    }
    assert_eq!(told["resources"].as_object().unwrap().len(), 3);
    assert_eq!(
        (&told["log"], &told["head"], &told["floor"], &told["purged_through"], &told["count"]),
        (&json!("default"), &json!(15), &json!(0), &json!(0), &json!(live.len()))
    );
    assert_eq!(told["fingerprint"], super::support::fingerprint(live.values()));
    assert_eq!(told["retention"], json!({"history_seconds": null, "tombstone_seconds": null}));
    assert!(told["server_time"].as_str().unwrap().ends_with('Z') && told["limits"].as_object().unwrap().len() >= 5);
}

fn metrics_name_what_they_count_and_need_an_admin_key_or_their_own_listener(bed: Bed) {
    let server = bed.start_with(Options { metrics_listener: true, ..Options::default() });
    seed(&server.client);
    let stranger = Client::new(server.client.address());
    stranger.get("/metrics").refused(401, "unauthorized");
    let text = server.client.get("/metrics").expect(200).text().to_owned();
    for line in [
        "scroll_writes_total{",
        "scroll_changes_total 15",
        "scroll_batch_size_count",
        "scroll_commit_seconds_sum",
        "scroll_queue_depth 0",
        "scroll_lines_sent_total 15",
        "scroll_bytes_sent_total ",
        "scroll_open_responses 0",
        "scroll_head{log=\"default\"} 15",
        "scroll_requests_total{method=\"PUT\",status=\"201\"}",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let own = Client::new(server.server().metrics_address().unwrap());
    assert!(own.get("/metrics").expect(200).text().contains("scroll_head"));
    own.get("/v1/changes").refused(404, "not-found");
}

fn every_get_answers_head_with_the_same_headers(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    for target in [
        "/v1/changes",
        "/v1/changes?limit=2",
        "/v1/changes?since=now",
        "/v1/log",
        "/v1/entities/note",
        "/v1/entities/note/a",
        "/v1/admin/logs",
        "/v1/admin/keys",
        "/openapi.yaml",
        "/docs",
        "/docs/swagger-ui.css",
        "/problems",
        "/problems/internal",
        "/healthz",
        "/readyz",
    ] {
        let get = server.client.get(target).expect(200);
        let head = server.client.head(target).expect(200);
        assert_eq!(head.stable_headers(), get.stable_headers(), "{target}");
        if let Some(length) = get.header("content-length") {
            assert_eq!(length, get.body.len().to_string(), "{target}");
        }
        let refused = server.client.get(&format!("{target}{}nonsense=1", if target.contains('?') { "&" } else { "?" }));
        refused.refused_parameter("nonsense");
        let head = server.client.head(&refused.target).expect(400);
        assert_eq!(head.stable_headers(), refused.stable_headers().into_iter().collect::<Vec<_>>(), "{target}");
    }
}

/// C144.
fn clock_steps_change_stamps_and_nothing_else(bed: Bed) {
    let server = bed.start();
    for (number, step) in [0, -3600, 3600, 3600, 300, -7200].into_iter().enumerate() {
        bed.clock.step(step);
        let answer = server
            .client
            .ask("PUT", &format!("/v1/entities/note/{number}"))
            .header("Idempotency-Key", "k")
            .json("{}")
            .send()
            .expect(201);
        assert_eq!(answer.number("scroll-seq"), number as u64 + 1);
    }
    let lines = server.client.get("/v1/changes?fields=time").expect(200).lines();
    let times: Vec<&str> = lines.iter().map(|line| line.value["time"].as_str().unwrap()).collect();
    assert!(times.windows(2).any(|pair| pair[0] > pair[1]), "the clock went back: {times:?}");
    assert_eq!(lines.iter().map(|line| line.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    let began = Instant::now();
    bed.clock.step(-3600);
    let client = server.client.clone();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.get("/v1/changes?min_head=99").refused(503, "replica-behind"));
        bed.clock.step(7200);
        waiting.join().unwrap();
    });
    assert!((4.5..15.0).contains(&began.elapsed().as_secs_f64()), "waits last as asked");
}

/// C006.
fn a_second_process_on_the_same_file_is_refused_with_a_sentence(bed: Bed) {
    let first = Process::serve(&bed.url());
    let client = first.client(&shown_key(&first.greeting));
    client.put("/v1/entities/note/a", "{}").expect(201);
    let second = run(&["serve", "--listen", "127.0.0.1:0", "--database-url", &bed.url()]);
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{told}");
    assert!(told.contains("in use by another scroll process") && told.contains(&first.id().to_string()), "{told}");
    client.put("/v1/entities/note/b", "{}").expect(201);
    assert_eq!(client.all_lines().len(), 2);
    assert_in_order(&bed.url());
    first.kill();
    // The lock goes with its process.
    let third = Process::serve(&bed.url());
    assert_eq!(third.client(&make_key(&bed.url())).all_lines().len(), 2);
}

fn the_program_greets_with_lines_that_work(bed: Bed) {
    let process = Process::serve(&bed.url());
    let Some(curl) = data::program("curl") else { return };
    let lines: Vec<&str> = process.greeting.lines().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(lines.len(), 4, "{}", process.greeting);
    let outputs: Vec<String> = lines
        .iter()
        .map(|line| {
            let ran = Command::new("sh")
                .args(["-c", &line.replacen("curl", &format!("{} --fail", curl.display()), 1)])
                .output()
                .unwrap();
            assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
            String::from_utf8(ran.stdout).unwrap()
        })
        .collect();
    assert!(outputs[1].contains("\"type\":\"created\"") && outputs[3].contains("\"deleted\":true"), "{outputs:?}");
    let key = shown_key(&process.greeting);
    process.terminate();
    let (status, log) = process.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    let again = Process::serve(&bed.url());
    assert!(!again.greeting.contains(&key) && again.greeting.contains("scroll keys create"), "{}", again.greeting);
    assert_eq!(again.client(&key).all_lines().len(), 2);
}

/// C112.
fn keys_stand_in_no_line_of_the_log(bed: Bed) {
    let process = Process::start(Process::command(&bed.url()).args(["--log-level", "debug"]));
    let key = shown_key(&process.greeting);
    let (client, stranger) = (process.client(&key), Client::new(process.address));
    for secret in [key.as_str(), "hunter2-wrong"] {
        for name in ["api_key", "access_token", "token"] {
            stranger.get(&format!("/v1/changes?{name}={secret}")).refused(401, "unauthorized");
            client.get(&format!("/v1/changes?{name}={secret}")).refused_parameter(name);
        }
        let head = format!(
            "GET http://{secret}@{}/v1/log HTTP/1.1\r\nCookie: key={secret}\r\nX-Api-Key: {secret}",
            process.address
        );
        raw::exchange(process.address, &head, b"").refused(401, "unauthorized");
        stranger.with_key(secret).with("Scroll-Log", "nobody").get("/v1/log");
        client.put("/v1/entities/note/n", &format!("{{\"secret\":\"{secret}\"}}"));
        client
            .put("/v1/entities/subscription/n", &format!("{{\"status\":\"{secret}\"}}"))
            .refused(422, "schema-violation");
    }
    process.terminate();
    let (status, log) = process.ended();
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("/v1/changes") && log.contains("\"status\":401"), "{log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
    assert!(!log.contains(&key) && !log.contains("hunter2"), "a secret in the log");
}

/// C060 for pages and writes, C150.
fn a_signal_drains_within_ten_seconds_and_what_runs_finishes(bed: Bed) {
    let process = Process::serve(&bed.url());
    let key = shown_key(&process.greeting);
    let client = process.client(&key);
    let ids: Vec<String> = (0..9000).map(|id| id.to_string()).collect();
    client
        .ask("POST", "/v1/batch")
        .ndjson(&puts("n", ids.iter().map(String::as_str), &format!("{{\"t\":\"{}\"}}", "x".repeat(1000))))
        .send()
        .expect(200);
    client.get("/readyz").expect(200);
    let expected = client.get("/v1/changes?limit=9000").expect(200).body;
    let mut page = raw::Wire::open(process.address);
    page.send(
        format!("GET /v1/changes?limit=9000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n").as_bytes(),
    );
    let (_, headers) = page.answer_head().unwrap();
    // A connection that is open already, and a write whose body is not there yet.
    let mut idle = raw::Wire::open(process.address);
    let ready = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
    idle.exchange(ready.as_bytes()).unwrap().expect(200);
    let began = Instant::now();
    process.terminate();
    eventually("it says that it drains", || process.log().contains("draining"));
    if let Some(answer) = idle.exchange(ready.as_bytes()) {
        answer.refused(503, "draining");
    }
    if let Some(answer) = idle.exchange(
        format!("DELETE /v1/entities/n/0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n").as_bytes(),
    ) {
        answer.refused(503, "draining");
    }
    drop(idle);
    let (body, end) = page.body(&headers, false);
    assert!(end == raw::End::Whole && body == expected, "the running answer finishes");
    drop(page);
    drop(client);
    let (status, log) = process.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_in_order(&bed.url());
    let again = Process::serve(&bed.url());
    assert_eq!(again.client(&key).log_head(), 9000);
}

/// C146.
fn time_zones_change_no_byte(bed: Bed) {
    let mut told = Vec::new();
    for zone in ["UTC", "America/St_Johns", "Asia/Kathmandu"] {
        let fresh = Bed::new(bed.engine);
        let process = Process::start(Process::command(&fresh.url()).env("TZ", zone));
        let client = process.client(&shown_key(&process.greeting));
        let lines = seed(&client);
        let times = client.get("/v1/changes?fields=time").expect(200).lines();
        for line in &times {
            let time = line.value["time"].as_str().unwrap();
            assert!(time.ends_with('Z'), "{time}");
            let age = jiff::Timestamp::now().as_second() - time.parse::<jiff::Timestamp>().unwrap().as_second();
            assert!((-5..600).contains(&age), "{zone}: {time}");
        }
        told.push(lines);
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]));
}

/// C088.
fn an_answer_comes_after_the_flush(bed: Bed) {
    let Some(strace) = data::program("strace") else { return };
    let process = Process::serve(&bed.url());
    let client = process.client(&shown_key(&process.greeting));
    client.put("/v1/entities/note/first", "{}").expect(201);
    let trace = bed.folder().join("trace");
    let mut tracer = Command::new(strace)
        .args([
            "-f",
            "-e",
            "trace=fsync,fdatasync,write,writev,sendto",
            "-s",
            "64",
            "-o",
            trace.to_str().unwrap(),
            "-p",
            &process.id().to_string(),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, attached) = channel();
    let stderr = std::io::BufReader::new(tracer.stderr.take().unwrap());
    let reading = std::thread::spawn(move || {
        std::io::BufRead::lines(stderr).map_while(Result::ok).for_each(|line| drop(sender.send(line)))
    });
    let first = attached.recv_timeout(PATIENCE).unwrap();
    if first.contains("Operation not permitted") {
        println!("NOT TESTED: strace may not attach here");
        tracer.wait().unwrap();
        return;
    }
    for number in 0..5 {
        client.put(&format!("/v1/entities/note/{number}"), "{}").expect(201);
    }
    process.kill();
    tracer.wait().unwrap();
    reading.join().unwrap();
    let text = std::fs::read_to_string(&trace).unwrap();
    let (mut flushes, mut answers) = (0, 0);
    for line in text.lines() {
        if line.contains("fdatasync(") || line.contains("fsync(") {
            flushes += 1;
        }
        if line.contains("HTTP/1.1 201") {
            answers += 1;
            assert!(flushes >= answers, "answer {answers} came before its flush:\n{text}");
        }
    }
    assert_eq!(answers, 5, "{text}");
}
