//! Section 3's parameters: every kind of bad value, and which check comes first.

use scroll::access::Scope;

use super::support::{Answer, Bed, Client, TestServer, on_every_engine, raw, seed};

on_every_engine![
    every_bad_number_is_refused_by_name,
    every_bad_word_and_list_is_refused_by_name,
    a_resource_never_seen_is_refused_and_a_seen_or_declared_one_is_not,
    unknown_parameters_are_named_and_their_values_never_repeated,
    a_parameter_that_stands_twice_is_refused_however_it_is_spelt,
    limits_are_taken_in_full_and_never_cut_to_fewer_bits,
    a_cursor_ahead_of_the_head_is_refused_at_once_with_the_real_head,
    an_upper_bound_is_judged_against_since_and_head,
    now_is_the_head,
    min_head_waits_for_the_head_and_gives_up_after_five_seconds,
    another_epoch_is_refused_and_the_same_one_is_not,
    of_two_faults_the_earlier_check_wins,
    parameters_of_lists_are_as_strict,
    badly_encoded_queries_are_refused_on_the_wire,
];

const BAD_NUMBERS: [&str; 21] = [
    "",
    "-1",
    "-0",
    "+1",
    "%2B1",
    "1.5",
    "1e3",
    "abc",
    "01",
    "00",
    "%201",
    "1%20",
    "1+",
    "0x10",
    "1_000",
    "9223372036854775808",
    "18446744073709551616",
    "99999999999999999999",
    "-9223372036854775808",
    "%D9%A1",
    "1%00",
];

fn page(client: &Client, query: &str) -> Answer {
    client.get(&format!("/v1/changes?{query}"))
}

fn seeded(bed: &Bed) -> TestServer {
    let server = bed.start();
    seed(&server.client);
    server
}

fn every_bad_number_is_refused_by_name(bed: Bed) {
    let server = seeded(&bed);
    for name in ["since", "until", "limit", "min_head", "floor"] {
        for bad in BAD_NUMBERS.into_iter().chain(["%zz", "%ff", "%"]) {
            let target = format!("{name}={bad}");
            if !bad.contains('%') || bad.len() > 1 {
                let refused = page(&server.client, &target).refused_parameter(name);
                assert!(refused["expected"].as_str().is_some_and(|expected| !expected.is_empty()), "{target}");
                server.client.head(&format!("/v1/changes?{target}")).expect(400);
            }
        }
    }
    for query in ["limit=0", "limit=now", "until=now", "since=NOW", "since=latest", "since=0,1"] {
        let name = query.split('=').next().unwrap();
        let refused = page(&server.client, query).refused_parameter(name);
        assert_eq!(refused["value"], query.split('=').nth(1).unwrap());
    }
    page(&server.client, "since").refused_parameter("since");
}

fn every_bad_word_and_list_is_refused_by_name(bed: Bed) {
    let server = seeded(&bed);
    let ids = |count: usize| (0..count).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let cases = [
        (
            "compact",
            vec!["", "TRUE", "True", "1", "0", "yes", "true%20", "true,false"].into_iter().map(str::to_owned).collect(),
        ),
        (
            "resource",
            ["", "Note", "note,", ",note", "note,,note", "1note", "note%2C", "note%20", "%ff", "-x", "_x"]
                .into_iter()
                .map(str::to_owned)
                .chain([format!("a{}", "b".repeat(64))])
                .collect::<Vec<_>>(),
        ),
        (
            "fields",
            ["", "time,", ",tx", "data", "TIME", "time%2C", "time prev".replace(' ', "%20").as_str()]
                .map(str::to_owned)
                .to_vec(),
        ),
        ("epoch", vec![String::new()]),
    ];
    for (name, values) in cases {
        for value in values {
            page(&server.client, &format!("{name}={value}")).refused_parameter(name);
        }
    }
    for value in ["", "a,", ",a", "a,,b", "a%00", "a%0Ab", "%7F", "%C2%85", "%ff", &"x".repeat(256), &ids(101)] {
        page(&server.client, &format!("resource=note&id={value}")).refused_parameter("id");
    }
    // Names hold no comma, so an encoded one parts them as well; that is how many clients write a list.
    let plain = page(&server.client, "resource=note,customer&fields=time,tx").expect(200);
    assert!(!plain.body.is_empty());
    assert_eq!(plain.body, page(&server.client, "resource=note%2Ccustomer&fields=time%2Ctx").expect(200).body);
    // A list of ids needs exactly one resource.
    for query in ["id=a", "id=a&resource=note,customer", "resource=note,customer&id=a"] {
        page(&server.client, query).refused_parameter("id");
    }
    assert_eq!(page(&server.client, &format!("resource=note&id={},a", ids(99))).expect(200).lines().len(), 3);
}

fn a_resource_never_seen_is_refused_and_a_seen_or_declared_one_is_not(bed: Bed) {
    let server = seeded(&bed);
    for query in ["resource=nothing", "resource=note,nothing", "resource=nothing&id=a"] {
        let refused = page(&server.client, query).refused(400, "unknown-resource");
        assert_eq!((&refused["parameter"], &refused["value"]), (&"resource".into(), &"nothing".into()));
    }
    // Declared, never written.
    assert!(page(&server.client, "resource=membership").expect(200).body.is_empty());
    // Seen, and all of it deleted.
    server.client.put("/v1/entities/gone/1", "{}").expect(201);
    server.client.delete("/v1/entities/gone/1").expect(200);
    assert_eq!(page(&server.client, "resource=gone").expect(200).lines().len(), 2);
    // Seen in another log only.
    server.make_log("other");
    let other = server.client_for("other", &Scope::ALL, None);
    page(&other, "resource=note").refused(400, "unknown-resource");
}

fn unknown_parameters_are_named_and_their_values_never_repeated(bed: Bed) {
    let server = seeded(&bed);
    for name in [
        "sincce",
        "cursor",
        "Since",
        "SINCE",
        "since[]",
        "since%5B%5D",
        "tenant",
        "api_key",
        "access_token",
        "token",
        "key",
        "_",
        "limit.",
        "",
        "l%C3%ADmit",
    ] {
        for query in [format!("{name}=hunter2"), format!("since=0&{name}=hunter2"), format!("{name}=hunter2&limit=0")] {
            let answer = page(&server.client, &query);
            let refused = answer.refused(400, "invalid-parameter");
            let decoded = percent_encoding::percent_decode_str(name).decode_utf8().unwrap().into_owned();
            assert_eq!(refused["parameter"], decoded, "{query}");
            assert!(refused.get("value").is_none() && !answer.text().contains("hunter2"), "{}", answer.told());
        }
    }
}

fn a_parameter_that_stands_twice_is_refused_however_it_is_spelt(bed: Bed) {
    let server = seeded(&bed);
    for query in [
        "since=5&since=0",
        "since=5&since=5",
        "limit=1&limit=500",
        "since=5&%73ince=5",
        "compact=true&limit=1&compact=true",
        "fields=time&fields=tx",
        "resource=note&resource=customer",
        "resource=note&id=a&id=b",
    ] {
        let name = query.rsplit('&').next().unwrap().split('=').next().unwrap().replace("%73", "s");
        page(&server.client, query).refused_parameter(&name);
    }
    // Empty pairs are no parameters.
    assert_eq!(page(&server.client, "&&since=0&&limit=2&").expect(200).lines().len(), 2);
}

fn limits_are_taken_in_full_and_never_cut_to_fewer_bits(bed: Bed) {
    let server = bed.start();
    let ids: Vec<String> = (0..1200).map(|id| id.to_string()).collect();
    let body = super::support::puts("note", ids.iter().map(String::as_str), "{}");
    server.client.ask("POST", "/v1/batch").ndjson(&body).send().expect(200);
    for (limit, count) in [
        ("1", 1),
        ("1000", 1000),
        ("1001", 1001),
        ("1200", 1200),
        ("2147483648", 1200),
        ("4294967297", 1200),
        ("9223372036854775807", 1200),
    ] {
        let answer = page(&server.client, &format!("limit={limit}")).expect(200);
        assert_eq!((answer.lines().len(), answer.number("scroll-next")), (count, count as u64), "{limit}");
        let compact = page(&server.client, &format!("limit={limit}&compact=true")).expect(200);
        assert_eq!(compact.lines().len(), count, "compact {limit}");
        let listed = server.client.get(&format!("/v1/entities/note?limit={limit}")).expect(200).json();
        assert_eq!(listed["entities"].as_array().unwrap().len(), count, "list {limit}");
        assert_eq!(listed["next"].is_null(), count == 1200);
    }
    assert_eq!(page(&server.client, "").expect(200).lines().len(), 100);
}

fn a_cursor_ahead_of_the_head_is_refused_at_once_with_the_real_head(bed: Bed) {
    let server = seeded(&bed);
    let answer = page(&server.client, "since=15").expect(200);
    assert!(answer.body.is_empty());
    assert_eq!((answer.must("scroll-next"), answer.must("scroll-up-to-date")), ("15", "true"));
    let epoch = answer.must("scroll-epoch").to_owned();
    for cursor in [16u64, 1_000_000, 9_223_372_036_854_775_807] {
        for query in [
            format!("since={cursor}"),
            format!("since={cursor}&compact=true&resource=note"),
            format!("until={cursor}"),
            format!("since={cursor}&until={cursor}"),
        ] {
            let refused = page(&server.client, &query).refused(409, "cursor-ahead");
            assert_eq!(refused["since"].as_u64(), Some(cursor), "{query}");
            assert_eq!(refused["head"].as_u64(), Some(15), "{query}");
            assert_eq!(refused["epoch"], epoch, "{query}");
            server.client.head(&format!("/v1/changes?{query}")).expect(409);
        }
    }
}

fn an_upper_bound_is_judged_against_since_and_head(bed: Bed) {
    let server = seeded(&bed);
    page(&server.client, "since=5&until=4").refused_parameter("until");
    page(&server.client, "since=now&until=14").refused_parameter("until");
    // Below since is a fault of the request whatever the head is.
    page(&server.client, "since=99&until=98").refused_parameter("until");
    assert!(page(&server.client, "since=5&until=5").expect(200).body.is_empty());
    let answer = page(&server.client, "since=5&until=7").expect(200);
    assert_eq!(answer.lines().iter().map(|entry| entry.seq).collect::<Vec<_>>(), [6, 7]);
    assert_eq!((answer.number("scroll-next"), answer.must("scroll-up-to-date")), (7, "false"));
    assert!(page(&server.client, "until=0").expect(200).body.is_empty());
}

fn now_is_the_head(bed: Bed) {
    let server = seeded(&bed);
    let answer = page(&server.client, "since=now").expect(200);
    assert!(answer.body.is_empty());
    assert_eq!((answer.number("scroll-next"), answer.must("scroll-dense")), (15, "true"));
    assert!(answer.next_link().starts_with("/v1/changes?since=15&epoch="), "{}", answer.next_link());
}

fn min_head_waits_for_the_head_and_gives_up_after_five_seconds(bed: Bed) {
    let server = seeded(&bed);
    page(&server.client, "min_head=15&limit=1").expect(200);
    page(&server.client, "min_head=0&limit=1").expect(200);
    let client = server.client.clone();
    std::thread::scope(|scope| {
        let waiting = [
            scope.spawn(|| page(&client, "since=15&min_head=16").expect(200)),
            scope.spawn(|| client.get("/v1/entities/note/late?min_head=16").expect(200)),
            scope.spawn(|| client.get("/v1/entities/note?min_head=16").expect(200)),
        ];
        let given_up = scope.spawn(|| {
            let began = std::time::Instant::now();
            // `min_head` is judged before the cursor.
            page(&client, "since=99&min_head=99").refused(503, "replica-behind");
            began.elapsed()
        });
        client.put("/v1/entities/note/late", "{}").expect(201);
        for answer in waiting.map(|thread| thread.join().unwrap()) {
            assert!(answer.number("scroll-head") >= 16 && answer.text().contains("\"late\""), "{}", answer.told());
        }
        let waited = given_up.join().unwrap().as_secs_f64();
        assert!((4.9..9.0).contains(&waited), "{waited}");
    });
}

fn another_epoch_is_refused_and_the_same_one_is_not(bed: Bed) {
    let server = seeded(&bed);
    let epoch = page(&server.client, "limit=1").expect(200).must("scroll-epoch").to_owned();
    assert!(uuid::Uuid::parse_str(&epoch).is_ok());
    page(&server.client, &format!("epoch={epoch}&floor=0")).expect(200);
    for held in
        ["x".to_owned(), epoch.to_uppercase(), format!("{epoch}%20"), "00000000-0000-0000-0000-000000000000".to_owned()]
    {
        let refused = page(&server.client, &format!("epoch={held}")).refused(409, "epoch-changed");
        assert_eq!(
            (&refused["epoch"], &refused["expected"]),
            (&epoch.as_str().into(), &held.replace("%20", " ").into())
        );
    }
}

fn of_two_faults_the_earlier_check_wins(bed: Bed) {
    let server = seeded(&bed);
    let stranger = Client::new(server.client.address());
    let writer = server.client_for("default", &[Scope::Write], None);
    let limited = server.client_for("default", &[Scope::Read], Some(&["note"]));
    // 401 before 404, 405, 406 and 400.
    stranger.get("/v1/nothing").refused(401, "unauthorized");
    stranger.delete("/v1/changes").refused(401, "unauthorized");
    stranger.ask("GET", "/v1/changes?limit=0").header("Accept", "text/html").send().refused(401, "unauthorized");
    stranger.put("/v1/entities/Note/x", "nonsense").refused(401, "unauthorized");
    // 404 before 405; 405 before 403 and 400.
    writer.delete("/v1/nothing?x=1").refused(404, "not-found");
    writer.delete("/v1/changes?limit=0").refused(405, "method-not-allowed");
    // 403 before 406 and 400.
    writer.ask("GET", "/v1/changes?limit=0").header("Accept", "text/html").send().refused(403, "forbidden");
    writer.get("/v1/changes?sincce=0").refused(403, "forbidden");
    limited.get("/v1/changes?resource=customer&limit=0").refused(403, "forbidden");
    limited.get("/v1/entities/customer?limit=0").refused(403, "forbidden");
    // 406 before 400.
    let html =
        |query: &str| server.client.ask("GET", &format!("/v1/changes?{query}")).header("Accept", "text/html").send();
    html("limit=0").refused(406, "not-acceptable");
    html("epoch=x&since=99").refused(406, "not-acceptable");
    // 400 before epoch-changed, min_head and cursor-ahead; a name before a value.
    page(&server.client, "epoch=x&limit=0").refused_parameter("limit");
    page(&server.client, "epoch=x&resource=nothing").refused(400, "unknown-resource");
    page(&server.client, "min_head=99&limit=0").refused_parameter("limit");
    page(&server.client, "since=99&compact=maybe").refused_parameter("compact");
    page(&server.client, "limit=0&sincce=1").refused_parameter("sincce");
    let malformed = server.client.ask("GET", "/v1/changes?epoch=x").header("If-None-Match", "x").send();
    malformed.refused(400, "malformed-header");
    // epoch-changed before min_head (at once) and cursor-ahead.
    page(&server.client, "epoch=x&min_head=99").refused(409, "epoch-changed");
    page(&server.client, "epoch=x&since=99").refused(409, "epoch-changed");
    // cursor-ahead before 304.
    let known = server.client.ask("GET", "/v1/changes?since=99").header("If-None-Match", "*").send();
    known.refused(409, "cursor-ahead");
}

fn parameters_of_lists_are_as_strict(bed: Bed) {
    let server = seeded(&bed);
    let list = |query: &str| server.client.get(&format!("/v1/entities/note?{query}"));
    for bad in BAD_NUMBERS.into_iter().chain(["0", "now"]) {
        list(&format!("limit={bad}")).refused_parameter("limit");
        if bad != "0" {
            list(&format!("min_head={bad}")).refused_parameter("min_head");
            server.client.get(&format!("/v1/entities/note/a?min_head={bad}")).refused_parameter("min_head");
        }
    }
    for bad in ["", "%00", "%7f", "%ff", &"x".repeat(256)] {
        list(&format!("after={bad}")).refused_parameter("after");
    }
    list("after=a&after=b").refused_parameter("after");
    list("since=0").refused_parameter("since");
    server.client.get("/v1/entities/nothing").refused(400, "unknown-resource");
    server.client.get("/v1/entities/Note").refused_parameter("resource");
    // A cursor need not exist.
    let listed = list("after=bb&limit=1").expect(200).json();
    assert_eq!((&listed["entities"][0]["id"], &listed["next"]), (&"d".into(), &"d".into()));
    assert_eq!(list("after=zz").expect(200).json(), serde_json::json!({"entities": [], "next": null}));
    let empty = server.client.get("/v1/entities/membership").expect(200).json();
    assert_eq!(empty, serde_json::json!({"entities": [], "next": null}));
}

fn badly_encoded_queries_are_refused_on_the_wire(bed: Bed) {
    let server = seeded(&bed);
    let key = server.client.key();
    let ask = |target: &str| {
        raw::exchange(server.client.address(), &format!("GET {target} HTTP/1.1\r\nAuthorization: Bearer {key}"), b"")
    };
    ask("/v1/changes?since=%").refused_parameter("since");
    ask("/v1/changes?since=%1").refused_parameter("since");
    ask("/v1/changes?%=1").refused_parameter("");
    ask("/v1/changes?%ff=1").refused_parameter("");
    ask("/v1/entities/note/%").refused_parameter("id");
    ask("/v1/entities/note/%ff").refused_parameter("id");
    ask("/v1/entities/%zz/a").refused_parameter("resource");
    ask("/v1/entities/note/").refused_parameter("id");
    ask("/v1/entities//a").refused_parameter("resource");
}
