//! Long-poll (PROTOCOL section 4).

use std::time::{Duration, Instant};

use crate::support::{Answer, Bed, Client, TestServer, eventually, model, on_every_engine, puts, seed};

on_every_engine![
    lines_that_are_there_are_answered_at_once,
    a_write_wakes_the_waiting_with_all_that_is_there,
    time_out_is_an_empty_page_at_the_head_of_that_moment,
    a_write_that_does_not_match_goes_on_waiting_and_is_passed_at_the_end,
    a_limit_holds_and_the_rest_comes_next,
    json_says_the_same_to_clients_that_cannot_read_headers,
    whoever_follows_the_link_misses_nothing,
    before_http_1_1_a_held_page_has_its_length,
];

fn poll(client: &Client, query: &str) -> (Answer, Duration) {
    let began = Instant::now();
    (client.get(&format!("/v1/changes?{query}")).expect(200), began.elapsed())
}

/// Waits until so many long-polls are held.
fn until_held(server: &TestServer, count: i64) {
    let held = || server.metrics.streams.with_label_values(&["long-poll"]).get();
    eventually("the requests wait", || held() == count);
}

fn lines_that_are_there_are_answered_at_once(bed: Bed) {
    let server = bed.start();
    let lines = seed(&server.client);
    let (answer, took) = poll(&server.client, "wait=30&since=4");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(answer.lines(), lines[4..]);
    assert_eq!(answer.number("scroll-next"), 15);
    assert_eq!(answer.must("scroll-checkpoint"), model::checkpoint(15, &lines));
    assert_eq!((answer.must("scroll-up-to-date"), answer.must("scroll-dense")), ("true", "true"));
    let (answer, _) = poll(&server.client, "wait=30&since=0&resource=customer");
    assert_eq!(answer.lines().len(), 1);
}

fn a_write_wakes_the_waiting_with_all_that_is_there(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    std::thread::scope(|scope| {
        let waiting =
            ["wait=30&since=15", "wait=30&since=now&resource=note", "wait=30&since=15&resource=note&id=x1,zz"];
        let waiting = waiting.map(|query| {
            let client = &server.client;
            scope.spawn(move || poll(client, query))
        });
        until_held(&server, 3);
        let ids: Vec<String> = (0..50).map(|id| format!("x{id}")).collect();
        let batch = puts("note", ids.iter().map(String::as_str), "{}");
        let began = Instant::now();
        server.client.ask("POST", "/v1/batch").ndjson(&batch).send().expect(200);
        let answers = waiting.map(|thread| thread.join().unwrap().0);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(answers[0].lines().len(), 50, "all of the batch at once");
        assert_eq!(answers[0].lines(), answers[1].lines());
        assert_eq!(answers[0].number("scroll-next"), 65);
        assert_eq!(answers[2].lines().len(), 1);
        assert_eq!(answers[2].number("scroll-next"), 65, "everything that matches up to there was sent");
        assert_eq!(answers[2].must("scroll-dense"), "false");
    });
    let ended = server.metrics.streams_ended.with_label_values(&["long-poll", "answered"]);
    eventually("they are counted", || ended.get() == 3);
    until_held(&server, 0);
}

fn time_out_is_an_empty_page_at_the_head_of_that_moment(bed: Bed) {
    let server = bed.start();
    let lines = seed(&server.client);
    let (answer, took) = poll(&server.client, "wait=1&since=15");
    assert!((1.0..3.0).contains(&took.as_secs_f64()), "{took:?}");
    assert!(answer.body.is_empty());
    assert_eq!((answer.number("scroll-next"), answer.must("scroll-up-to-date")), (15, "true"));
    assert_eq!(answer.must("scroll-checkpoint"), model::checkpoint(15, &lines));
    server.make_log("empty");
    let (empty, _) = poll(&server.client_for("empty", &[scroll::access::Scope::Read], None), "wait=1");
    assert_eq!((empty.number("scroll-next"), empty.body.len()), (0, 0));
}

fn a_write_that_does_not_match_goes_on_waiting_and_is_passed_at_the_end(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| poll(&server.client, "wait=2&since=15&resource=customer"));
        until_held(&server, 1);
        for number in 0..20 {
            server.client.put(&format!("/v1/entities/note/other{number}"), "{}").expect(201);
        }
        let (answer, took) = waiting.join().unwrap();
        assert!(took >= Duration::from_secs(2), "{took:?}");
        assert!(answer.body.is_empty());
        assert_eq!(answer.number("scroll-next"), 35, "past the lines that do not match");
        let waiting = scope.spawn(|| poll(&server.client, "wait=30&since=15&resource=customer"));
        until_held(&server, 1);
        server.client.put("/v1/entities/note/another", "{}").expect(201);
        server.client.put("/v1/entities/customer/cus_2", "{}").expect(201);
        let (answer, took) = waiting.join().unwrap();
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(answer.lines().iter().map(|line| line.seq).collect::<Vec<_>>(), [37]);
        assert_eq!(answer.number("scroll-next"), 37);
    });
}

fn a_limit_holds_and_the_rest_comes_next(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| poll(&server.client, "wait=30&since=15&limit=2&fields=tx"));
        until_held(&server, 1);
        let batch = puts("note", ["m1", "m2", "m3"], "{}");
        server.client.ask("POST", "/v1/batch").ndjson(&batch).send().expect(200);
        let (answer, _) = waiting.join().unwrap();
        assert_eq!(answer.lines().iter().map(|line| line.value["tx"].as_u64().unwrap()).collect::<Vec<_>>(), [16, 16]);
        assert_eq!((answer.number("scroll-next"), answer.must("scroll-up-to-date")), (17, "false"));
        let next = server.client.get(&answer.next_link()).expect(200);
        assert_eq!(next.lines().iter().map(|line| line.seq).collect::<Vec<_>>(), [18]);
    });
    assert_eq!(poll(&server.client, "wait=1").0.lines().len(), 18, "a page has a hundred lines by default");
}

fn json_says_the_same_to_clients_that_cannot_read_headers(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let ask = |query: &str| {
        let asking = server.client.ask("GET", &format!("/v1/changes?{query}"));
        asking.header("Accept", "application/json").send().expect(200)
    };
    let empty = ask("wait=1&since=15").json();
    assert_eq!((&empty["changes"], &empty["next"]), (&serde_json::json!([]), &15.into()));
    assert_eq!((&empty["up_to_date"], &empty["dense"]), (&true.into(), &true.into()));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask("wait=30&since=15").json());
        until_held(&server, 1);
        server.client.put("/v1/entities/note/json", "{}").expect(201);
        let answer = waiting.join().unwrap();
        assert_eq!((&answer["changes"][0]["id"], &answer["next"]), (&"json".into(), &16.into()));
        assert_eq!(answer["checkpoint"]["seq"], 16);
    });
}

fn whoever_follows_the_link_misses_nothing(bed: Bed) {
    let server = bed.start();
    let total = 200;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut link, mut seen) = ("/v1/changes?wait=5&limit=7".to_owned(), Vec::new());
            while seen.len() < total {
                let answer = server.client.get(&link).expect(200);
                seen.extend(answer.lines().iter().map(|line| line.seq));
                link = answer.next_link();
                assert!(link.contains("wait=5"), "{link}");
            }
            seen
        });
        for number in 0..total {
            server.client.put(&format!("/v1/entities/note/{number}"), "{}").expect(201);
        }
        assert_eq!(reader.join().unwrap(), (1..=total as u64).collect::<Vec<_>>());
    });
}

fn before_http_1_1_a_held_page_has_its_length(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let line =
                format!("GET /v1/changes?wait=30&since=15 HTTP/1.0\r\nAuthorization: Bearer {}", server.client.key());
            crate::support::raw::exchange(server.client.address(), &line, b"")
        });
        until_held(&server, 1);
        server.client.put("/v1/entities/note/old", "{}").expect(201);
        let answer = waiting.join().unwrap();
        assert_eq!(answer.lines().len(), 1);
        assert_eq!(answer.number("content-length") as usize, answer.body.len());
    });
}
