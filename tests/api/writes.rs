//! Section 9: writes, conditions, repeated requests, batches, declared types.

use scroll::access::Scope;
use scroll::api::Limits;
use scroll::entity::types::Catalog;
use serde_json::json;

use super::support::{Bed, Client, Options, TestServer, at_once, model, on_every_engine, puts, raw, seed};

on_every_engine![
    a_write_answers_the_line_that_the_feed_sends,
    a_write_that_changes_nothing_adds_no_line,
    deleting_twice_or_the_unknown_adds_no_line,
    ids_are_decoded_once_and_each_is_an_entity_of_its_own,
    a_server_made_id_has_the_declared_prefix_and_rises,
    merge_patch_follows_its_rfc,
    actions_follow_their_declaration,
    references_hold_restrict_and_cascade,
    data_that_breaks_its_schema_is_refused_with_pointers,
    bodies_are_strict,
    bodies_have_a_type_a_limit_and_128_levels,
    preconditions_come_in_their_order,
    of_sixteen_clients_with_one_tag_exactly_one_wins,
    a_type_may_demand_preconditions_and_a_strict_server_declarations,
    a_repeated_request_gets_its_first_answer_even_after_a_restart,
    a_key_with_another_body_is_refused_and_each_path_has_its_own,
    refusals_are_remembered_and_what_may_pass_is_not,
    of_the_same_request_at_once_one_is_carried_out,
    a_batch_is_all_or_nothing_and_names_what_was_refused,
    operations_of_a_batch_are_strict,
    a_batch_has_limits,
    a_payload_that_looks_like_a_line_stays_data,
    a_failed_write_leaves_no_hole,
];

fn entity(resource: &str, id: &str) -> String {
    format!("/v1/entities/{resource}/{id}")
}

fn a_write_answers_the_line_that_the_feed_sends(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let epoch = client.get("/v1/log").expect(200).json()["epoch"].as_str().unwrap().to_owned();
    let answers = [
        client.put(&entity("note", "a"), r#"{ "n" : 1.0, "b":[ ] }"#).expect(201),
        client.put(&entity("note", "a"), r#"{"n":1.00}"#).expect(200),
        client.patch(&entity("note", "a"), r#"{"m":null,"k":"x"}"#).expect(200),
        client.post("/v1/entities/note", r#"{"made":true}"#).expect(201),
        client.delete(&entity("note", "a")).expect(200),
        client.put(&entity("note", "a"), "{}").expect(201),
    ];
    let lines = client.all_lines();
    assert_eq!(lines.len(), answers.len());
    for (index, (answer, line)) in answers.iter().zip(&lines).enumerate() {
        let seq = index as u64 + 1;
        assert_eq!(answer.line(), *line);
        assert_eq!((answer.number("scroll-seq"), answer.must("etag")), (seq, format!("\"{seq}\"").as_str()));
        assert_eq!((answer.must("scroll-epoch"), answer.must("content-type")), (epoch.as_str(), "application/json"));
        assert_eq!(answer.header("location").is_some(), answer.status == 201);
        if let Some(place) = answer.header("location") {
            assert!(place.starts_with("/v1/entities/note/"), "{place}");
        }
    }
    let verbs: Vec<&str> = lines.iter().map(|line| line.verb.as_str()).collect();
    assert_eq!(verbs, ["created", "updated", "updated", "created", "deleted", "created"]);
    assert_eq!(lines[0].data_text(), r#"{"n":1.0,"b":[]}"#);
    assert_eq!(lines[2].data_text(), r#"{"n":1.00,"k":"x"}"#);
    assert_eq!(lines[4].raw, r#"{"seq":5,"resource":"note","id":"a","type":"deleted","deleted":true,"data":null}"#);
    let current = client.get(&entity("note", "a")).expect(200);
    assert_eq!((current.line(), current.must("etag")), (lines[5].clone(), "\"6\""));
    assert_eq!(client.head(&entity("note", "a")).expect(200).stable_headers(), current.stable_headers());
    client.ask("GET", &entity("note", "a")).header("If-None-Match", "\"6\"").send().expect(304);
    client.ask("GET", &entity("note", "a")).header("If-None-Match", "\"5\"").send().expect(200);
    let made = answers[3].must("location").to_owned();
    assert_eq!(client.get(&made).expect(200).line(), lines[3]);
}

/// C014.
fn a_write_that_changes_nothing_adds_no_line(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let first = client.put(&entity("plan", "p"), r#"{"a":1,"b":{"c":[1,2],"d":"é"}}"#).expect(201);
    for same in [r#"{"a":1,"b":{"c":[1,2],"d":"é"}}"#, r#"{"b":{"d":"\u00e9","c":[1,2]},"a":1}"#] {
        let again = client.put(&entity("plan", "p"), same).expect(200);
        assert_eq!((again.line(), again.must("etag")), (first.line(), "\"1\""));
    }
    for patch in ["{}", r#"{"a":1}"#, r#"{"x":null}"#, r#"{"b":{"d":"é"}}"#] {
        assert_eq!(client.patch(&entity("plan", "p"), patch).expect(200).line(), first.line());
    }
    assert_eq!(client.log_head(), 1);
    // Numbers are compared by their digits, arrays by their order.
    for (seq, other) in
        [r#"{"a":1.0,"b":{"c":[1,2],"d":"é"}}"#, r#"{"a":1.0,"b":{"c":[2,1],"d":"é"}}"#].iter().enumerate()
    {
        assert_eq!(client.put(&entity("plan", "p"), other).expect(200).number("scroll-seq"), seq as u64 + 2);
    }
    let batch = client
        .ask("POST", "/v1/batch")
        .ndjson(&puts("plan", ["p"], r#"{"b":{"c":[2,1],"d":"é"},"a":1.0}"#))
        .send()
        .expect(200);
    assert_eq!(batch.json()["tx"], json!(null));
    assert_eq!((batch.header("scroll-seq"), batch.header("etag")), (None, None));
    assert_eq!(batch.json()["changes"][0]["seq"], 3);
    assert_eq!(client.log_head(), 3);
}

/// C015.
fn deleting_twice_or_the_unknown_adds_no_line(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    client.put(&entity("plan", "p"), "{}").expect(201);
    client.delete(&entity("plan", "p")).expect(200);
    client.delete(&entity("plan", "p")).refused(404, "not-found");
    client.delete(&entity("plan", "never")).refused(404, "not-found");
    client.delete(&entity("never", "never")).refused(404, "not-found");
    client.patch(&entity("plan", "p"), "{}").refused(404, "not-found");
    client.get(&entity("plan", "p")).refused(404, "not-found");
    let lines = client.all_lines();
    assert_eq!(lines.iter().map(|line| line.deleted).collect::<Vec<_>>(), [false, true]);
}

/// C048.
fn ids_are_decoded_once_and_each_is_an_entity_of_its_own(bed: Bed) {
    let server = bed.start();
    let key = server.client.key();
    let long = "%C3%A4".repeat(127) + "x";
    let cases = [
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a%2Fb"),
        ("..", ".."),
        (".", "."),
        ("%2e%2e%2f", "../"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("a%3Fb%23c", "a?b#c"),
        ("%C3%A4", "ä"),
        ("a%CC%88", "a\u{308}"),
        ("%22%5C", "\"\\"),
        ("%E2%80%A8", "\u{2028}"),
        (long.as_str(), ""),
        ("null", "null"),
        ("%27%3B--", "';--"),
    ];
    let ask = |method: &str, id: &str, body: &str| {
        let typed = if body.is_empty() {
            String::new()
        } else {
            format!("\r\nContent-Type: application/json\r\nContent-Length: {}", body.len())
        };
        raw::exchange(
            server.client.address(),
            &format!("{method} /v1/entities/plan/{id} HTTP/1.1\r\nAuthorization: Bearer {key}{typed}"),
            body.as_bytes(),
        )
    };
    for (index, (raw_id, id)) in cases.iter().enumerate() {
        let line = ask("PUT", raw_id, &format!("{{\"n\":{index}}}")).expect(201).line();
        assert!(line.id == *id || id.is_empty(), "{raw_id}: {}", line.raw);
    }
    for (index, (raw_id, _)) in cases.iter().enumerate() {
        assert_eq!(ask("GET", raw_id, "").expect(200).line().data["n"], index);
    }
    assert_eq!(server.client.all_lines().len(), cases.len());
    assert_eq!(model::listed(&server.client, "plan", 4).len(), cases.len());
    for bad in ["", "%00", "a%0A", "%7F", "%C2%9F", "%", "%zz", "%FF", "%C3", "%ED%A0%80", &"x".repeat(256)] {
        ask("PUT", bad, "{}").refused_parameter("id");
    }
    assert_eq!(server.client.log_head(), cases.len() as u64);
}

fn a_server_made_id_has_the_declared_prefix_and_rises(bed: Bed) {
    let server = bed.start();
    let made = |resource: &str, data: &str| {
        server.client.post(&format!("/v1/entities/{resource}"), data).expect(201).line().id
    };
    for (resource, prefix, data) in
        [("customer", "cus_", "{}"), ("subscription", "sub_", r#"{"status":"active"}"#), ("note", "", "{}")]
    {
        let ids: Vec<String> = (0..20).map(|_| made(resource, data)).collect();
        for id in &ids {
            let uuid = uuid::Uuid::parse_str(id.strip_prefix(prefix).unwrap()).unwrap();
            assert_eq!(uuid.get_version_num(), 7, "{id}");
        }
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(unique.len(), 20);
    }
}

fn merge_patch_follows_its_rfc(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    // RFC 7396, appendix A, where the result is an object.
    for (index, (before, patch, after)) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ]
    .iter()
    .enumerate()
    {
        let target = entity("note", &index.to_string());
        client.put(&target, before).expect(201);
        assert_eq!(client.patch(&target, patch).expect(200).line().data_text(), *after, "{before} + {patch}");
    }
    let head = client.log_head();
    for patch in ["[1]", "null", "\"x\"", "1"] {
        client.patch(&entity("note", "0"), patch).refused(422, "schema-violation");
    }
    client.ask("PATCH", &entity("note", "0")).json("{}").send().refused(415, "unsupported-media-type");
    client.ask("PUT", &entity("note", "0")).merge_patch("{}").send().refused(415, "unsupported-media-type");
    assert_eq!(client.log_head(), head);
}

fn actions_follow_their_declaration(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let act = |id: &str, action: &str| client.post(&format!("/v1/entities/subscription/{id}/{action}"), "{}");
    client.put(&entity("subscription", "sub_1"), r#"{"status":"trialing","x":1}"#).expect(201);
    let refused = act("sub_1", "pause").refused(409, "transition-refused");
    assert_eq!((&refused["action"], &refused["state"]), (&json!("pause"), &json!("trialing")));
    client.patch(&entity("subscription", "sub_1"), r#"{"status":"active"}"#).expect(200);
    let paused = act("sub_1", "pause").expect(200).line();
    assert_eq!((paused.verb.as_str(), &paused.data), ("paused", &json!({"status": "paused", "x": 1})));
    act("sub_1", "pause").refused(409, "transition-refused");
    assert_eq!(act("sub_1", "resume").expect(200).line().verb, "resumed");
    assert_eq!(client.ask("POST", "/v1/entities/subscription/sub_1/cancel").send().expect(200).line().verb, "canceled");
    act("sub_1", "cancel").refused(409, "transition-refused");
    let expired = act("sub_1", "expire").expect(200).line();
    assert_eq!(
        (expired.verb.as_str(), expired.deleted, &expired.data["status"]),
        ("expired", true, &json!("canceled"))
    );
    client.get(&entity("subscription", "sub_1")).refused(404, "not-found");
    for (id, action) in [("sub_1", "cancel"), ("sub_9", "cancel")] {
        act(id, action).refused(404, "not-found");
    }
    client.put(&entity("subscription", "sub_2"), r#"{"status":"active"}"#).expect(201);
    act("sub_2", "explode").refused(404, "not-found");
    client.put(&entity("note", "n"), "{}").expect(201);
    client.post("/v1/entities/note/n/cancel", "{}").refused(404, "not-found");
    for body in ["[]", "{\"a\":1}", "null", "{"] {
        client.post("/v1/entities/subscription/sub_2/cancel", body).refused(400, "invalid-body");
    }
    client
        .ask("POST", "/v1/entities/subscription/sub_2/cancel")
        .header("If-Match", "\"99\"")
        .send()
        .refused(412, "precondition-failed");
    assert_eq!(client.log_head(), 8);
}

fn references_hold_restrict_and_cascade(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let refused = client
        .put(&entity("subscription", "s"), r#"{"status":"active","customer":"c"}"#)
        .refused(409, "reference-missing");
    assert_eq!(refused["references"][0]["target_id"], "c");
    client.put(&entity("customer", "c"), "{}").expect(201);
    client.put(&entity("subscription", "s1"), r#"{"status":"active","customer":"c"}"#).expect(201);
    client.put(&entity("subscription", "s2"), r#"{"status":"active","customer":"c"}"#).expect(201);
    client.put(&entity("membership", "m"), r#"{"customer":"c"}"#).expect(201);
    let held = client.delete(&entity("customer", "c")).refused(409, "still-referenced");
    assert_eq!((&held["references"][0]["resource"], &held["references"][0]["id"]), (&json!("membership"), &json!("m")));
    assert_eq!(client.log_head(), 4);
    client.delete(&entity("membership", "m")).expect(200);
    let deleted = client.delete(&entity("customer", "c")).expect(200).line();
    let lines = client.get("/v1/changes?since=5&fields=tx").expect(200).lines();
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line.resource.as_str(), line.id.as_str(), line.deleted, line.value["tx"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [("subscription", "s1", true, 6), ("subscription", "s2", true, 6), ("customer", "c", true, 6)]);
    assert_eq!(deleted.seq, 8);
    client.get(&entity("subscription", "s1")).refused(404, "not-found");
}

fn data_that_breaks_its_schema_is_refused_with_pointers(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    for (data, pointer) in [
        ("{}", ""),
        (r#"{"status":"asleep"}"#, "/status"),
        (r#"{"status":"active","plan":1}"#, "/plan"),
        (r#"{"status":null}"#, "/status"),
    ] {
        let refused = client.put(&entity("subscription", "s"), data).refused(422, "schema-violation");
        let errors = refused["errors"].as_array().unwrap();
        assert!(
            errors.iter().any(|error| error["pointer"] == pointer && !error["reason"].as_str().unwrap().is_empty()),
            "{refused}"
        );
    }
    client.post("/v1/entities/subscription", "{}").refused(422, "schema-violation");
    client.put(&entity("subscription", "s"), r#"{"status":"active","more":{"x":1}}"#).expect(201);
    client.patch(&entity("subscription", "s"), r#"{"status":null}"#).refused(422, "schema-violation");
    for data in ["[]", "1", "null", "\"{}\"", "true"] {
        client.put(&entity("note", "n"), data).refused(422, "schema-violation");
    }
    assert_eq!(client.log_head(), 1);
}

fn bodies_are_strict(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let bad: Vec<&[u8]> = vec![
        b"",
        b" ",
        b"{",
        b"{\"a\":}",
        b"{\"a\":1,}",
        b"{'a':1}",
        b"{\"a\":1}{}",
        b"{\"a\":1} x",
        b"{\"a\":NaN}",
        b"{\"a\":01}",
        b"{\"a\":1,\"a\":1}",
        b"{\"a\":1,\"\\u0061\":2}",
        b"{\"o\":{\"x\":1,\"x\":2}}",
        b"{\"a\":\"\\ud800\"}",
        b"{\"a\":\"\\udc00\\ud800\"}",
        b"{\"a\":\"\xff\"}",
        b"{\"a\":\"\xed\xa0\x80\"}",
        b"\xef\xbb\xbf{}",
        b"{\"a\":\"\n\"}",
        b"{\"a\":\"\\x\"}",
        b"\x00",
        b"{\"a\":tru}",
        b"{\"a\":-}",
        b"{\"a\":1.}",
        b"{\"a\":1e}",
    ];
    for body in bad {
        let told = String::from_utf8_lossy(body).into_owned();
        let typed = |method: &str, target: &str, media: &str| {
            client.ask(method, target).header("Content-Type", media).body(body).send()
        };
        for answer in [
            typed("PUT", "/v1/entities/note/n", "application/json"),
            typed("POST", "/v1/entities/note", "application/json"),
            typed("PATCH", "/v1/entities/note/n", "application/merge-patch+json"),
            typed("POST", "/v1/batch", "application/json"),
        ] {
            assert_eq!(answer.status, 400, "{told}: {}", answer.told());
            answer.refused(400, "invalid-body");
        }
    }
    assert_eq!(client.log_head(), 0);
}

fn bodies_have_a_type_a_limit_and_128_levels(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let put = |headers: &[(&str, &str)], body: &[u8]| {
        headers
            .iter()
            .fold(client.ask("PUT", "/v1/entities/note/n"), |asking, (name, value)| asking.header(name, value))
            .body(body)
            .send()
    };
    for headers in [
        vec![],
        vec![("Content-Type", "text/plain")],
        vec![("Content-Type", "application/json; charset=latin1")],
        vec![("Content-Type", "")],
        vec![("Content-Type", "application/json"), ("Content-Encoding", "gzip")],
        vec![("Content-Type", "application/json"), ("Content-Encoding", "identity")],
        vec![("Content-Type", "application/json"), ("Content-Type", "application/json")],
        vec![("Content-Type", "application/x-ndjson")],
    ] {
        put(&headers, b"{}").refused(415, "unsupported-media-type");
    }
    let nested = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    put(&[("Content-Type", "Application/JSON;charset=UTF-8")], nested(127).as_bytes()).expect(201);
    // The line has a level more than its data: it is compared as text.
    let deep = put(&[("Content-Type", "application/json")], nested(128).as_bytes()).expect(200);
    assert!(
        deep.text().ends_with(&format!(
            ",\"data\":{}}}
",
            nested(128)
        )),
        "{}",
        deep.told()
    );
    put(&[("Content-Type", "application/json")], nested(129).as_bytes()).refused(400, "invalid-body");
    put(
        &[("Content-Type", "application/json")],
        format!("{{\"a\":{}}}", "[".repeat(127) + &"]".repeat(127)).as_bytes(),
    )
    .expect(200);
    put(
        &[("Content-Type", "application/json")],
        format!("{{\"a\":{}}}", "[".repeat(128) + &"]".repeat(128)).as_bytes(),
    )
    .refused(400, "invalid-body");
    // C044: just below the limit it comes whole, above it leaves no trace.
    let sized = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    let json = [("Content-Type", "application/json")];
    let full = sized(1 << 20);
    assert_eq!(full.len(), 1 << 20);
    assert!(put(&json, full.as_bytes()).expect(200).line().data_text() == full);
    for id in 0..10 {
        client.put(&entity("small", &id.to_string()), "{}").expect(201);
    }
    let head = client.log_head();
    assert_eq!(client.lines_after(head - 11).len(), 11);
    put(&json, sized((1 << 20) + 1).as_bytes()).refused(413, "too-large");
    assert_eq!(client.log_head(), head);
    // Without an announced length, and announced but never sent: refused without reading it all.
    let key = client.key();
    let start =
        format!("PUT /v1/entities/note/n HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json");
    raw::exchange(client.address(), &format!("{start}\r\nContent-Length: 1000000000000"), b"")
        .refused(413, "too-large");
    let mut chunks = Vec::new();
    (0..17).for_each(|_| chunks.extend_from_slice(format!("10000\r\n{}\r\n", " ".repeat(0x10000)).as_bytes()));
    raw::exchange(client.address(), &format!("{start}\r\nTransfer-Encoding: chunked"), &chunks)
        .refused(413, "too-large");
    assert_eq!(client.log_head(), head);
}

fn preconditions_come_in_their_order(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let with = |method: &str, headers: &[(&str, &str)], body: &str| {
        let asking = headers
            .iter()
            .fold(client.ask(method, "/v1/entities/note/n"), |asking, (name, value)| asking.header(name, value));
        match method {
            "PATCH" => asking.merge_patch(body).send(),
            "DELETE" => asking.send(),
            _ => asking.json(body).send(),
        }
    };
    assert_eq!(with("PUT", &[("If-Match", "*")], "{}").refused(412, "precondition-failed")["current"], json!(null));
    assert_eq!(with("PUT", &[("If-Match", "\"1\"")], "{}").refused(412, "precondition-failed")["current"], json!(null));
    with("PATCH", &[("If-Match", "\"1\"")], "{}").refused(404, "not-found");
    with("DELETE", &[("If-Match", "\"1\"")], "").refused(404, "not-found");
    with("PUT", &[("If-None-Match", "*")], "{}").expect(201);
    assert_eq!(with("PUT", &[("If-None-Match", "*")], "{}").refused(412, "precondition-failed")["current"], "\"1\"");
    for method in ["PUT", "PATCH", "DELETE"] {
        for failing in ["\"2\"", "W/\"1\"", "\"01\"", "\"x\", W/\"1\"", "\"\""] {
            let refused = with(method, &[("If-Match", failing)], "{\"a\":1}").refused(412, "precondition-failed");
            assert_eq!(refused["current"], "\"1\"", "{method} {failing}");
        }
        for malformed in ["1", "\"1", "*, \"1\"", "", "\"1\" \"2\"", "w/\"1\"", ",,"] {
            let refused = with(method, &[("If-Match", malformed)], "{}").refused(400, "malformed-header");
            assert_eq!(refused["parameter"], "If-Match");
        }
        with(method, &[("If-None-Match", "\"1\"")], "{\"a\":1}").refused(412, "precondition-failed");
    }
    // A condition comes before the content; both must hold.
    with("PUT", &[("If-Match", "\"2\"")], "[]").refused(412, "precondition-failed");
    with("PUT", &[("If-Match", "\"1\""), ("If-None-Match", "*")], "{}").refused(412, "precondition-failed");
    assert_eq!(client.log_head(), 1);
    with("PUT", &[("If-Match", "\"7\", \"1\""), ("If-None-Match", "\"2\"")], "{\"a\":1}").expect(200);
    with("PATCH", &[("If-Match", "*")], "{\"a\":2}").expect(200);
    with("DELETE", &[("If-Match", "\"3\"")], "").expect(200);
    with("PUT", &[("If-Match", "\"4\"")], "{}").refused(412, "precondition-failed");
    assert_eq!(client.log_head(), 4);
}

/// C108.
fn of_sixteen_clients_with_one_tag_exactly_one_wins(bed: Bed) {
    const CLIENTS: usize = 16;
    let server = bed.start();
    let clients: Vec<Client> = (0..CLIENTS).map(|_| server.client_with(&server.client.key())).collect();
    for round in 0..16 {
        let target = entity("note", &round.to_string());
        for (method, is_create) in [("PUT", true), ("PUT", false), ("PATCH", false), ("DELETE", false)] {
            let before = server.client.log_head();
            let tag = (!is_create).then(|| server.client.get(&target).expect(200).must("etag").to_owned());
            let statuses = at_once(CLIENTS, |number| {
                let asking = clients[number].ask(method, &target);
                let asking = match &tag {
                    Some(tag) => asking.header("If-Match", tag),
                    None => asking.header("If-None-Match", "*"),
                };
                let data = format!("{{\"by\":{number},\"as\":\"{method}{is_create}\"}}");
                let answer = match method {
                    "PUT" => asking.json(&data).send(),
                    "PATCH" => asking.merge_patch(&data).send(),
                    _ => asking.send(),
                };
                (answer.status, answer)
            });
            let winners: Vec<_> = statuses.iter().filter(|(status, _)| *status < 300).collect();
            assert_eq!(winners.len(), 1, "{method} round {round}");
            let lost = if method == "DELETE" { 404 } else { 412 };
            assert_eq!(statuses.iter().filter(|(status, _)| [412, lost].contains(status)).count(), CLIENTS - 1);
            let lines = server.client.lines_after(before);
            assert_eq!(lines, [winners[0].1.line()]);
        }
    }
}

fn a_type_may_demand_preconditions_and_a_strict_server_declarations(bed: Bed) {
    let types = "[resource.account]\npreconditions = \"required\"\n";
    let catalog = Catalog::from_toml(types).unwrap().strict(true);
    let server = bed.start_with(Options { catalog, ..Options::default() });
    let client = &server.client;
    let refused = client.put(&entity("account", "a"), "{}").refused(428, "precondition-required");
    assert_eq!(refused["current"], json!(null));
    client.ask("PUT", &entity("account", "a")).header("If-None-Match", "*").json("{}").send().expect(201);
    for answer in [
        client.put(&entity("account", "a"), "{}"),
        client.patch(&entity("account", "a"), "{}"),
        client.delete(&entity("account", "a")),
    ] {
        assert_eq!(answer.refused(428, "precondition-required")["current"], "\"1\"");
    }
    client.ask("DELETE", &entity("account", "a")).header("If-Match", "\"1\"").send().expect(200);
    for answer in [
        client.put(&entity("note", "a"), "{}"),
        client.post("/v1/entities/note", "{}"),
        client.delete(&entity("note", "a")),
    ] {
        assert_eq!(answer.refused(400, "unknown-resource")["value"], "note");
    }
    let batch = client.ask("POST", "/v1/batch").ndjson(&puts("note", ["a"], "{}")).send();
    assert_eq!(batch.refused(400, "unknown-resource")["index"], 0);
    assert_eq!(client.log_head(), 2);
}

fn remembered(client: &Client, method: &str, target: &str, key: &str, body: &str) -> super::support::Answer {
    client.ask(method, target).header("Idempotency-Key", key).json(body).send()
}

/// C101.
fn a_repeated_request_gets_its_first_answer_even_after_a_restart(bed: Bed) {
    let server = bed.start();
    let first = remembered(&server.client, "POST", "/v1/entities/note", "k1", "{\"n\":1}").expect(201);
    let batch = remembered(
        &server.client,
        "POST",
        "/v1/batch",
        "k1",
        r#"[{"op":"create","resource":"note","data":{}},{"op":"put","resource":"note","id":"x","data":{}}]"#,
    )
    .expect(200);
    assert_eq!((first.header("idempotent-replayed"), batch.header("idempotent-replayed")), (None, None));
    let check = |server: &TestServer| {
        for _ in 0..3 {
            let again = remembered(&server.client, "POST", "/v1/entities/note", "k1", "{\"n\":1}").expect(201);
            assert_eq!(again.must("idempotent-replayed"), "true");
            assert_eq!(again.body, first.body);
            for name in ["etag", "scroll-seq", "location", "scroll-epoch", "content-type"] {
                assert_eq!(again.must(name), first.must(name));
            }
            let again = remembered(
                &server.client,
                "POST",
                "/v1/batch",
                "k1",
                r#"[{"op":"create","resource":"note","data":{}},{"op":"put","resource":"note","id":"x","data":{}}]"#,
            )
            .expect(200);
            assert_eq!(
                (&again.body, again.must("etag"), again.must("idempotent-replayed")),
                (&batch.body, batch.must("etag"), "true")
            );
        }
        assert_eq!(server.client.log_head(), 3);
    };
    check(&server);
    let key = server.client.key();
    server.stop();
    let server = bed.start();
    check(&server);
    // Another key of the same account is the same account; another account is not.
    let same = server.client_with(&key);
    assert_eq!(
        remembered(&same, "POST", "/v1/entities/note", "k1", "{\"n\":1}").expect(201).must("idempotent-replayed"),
        "true"
    );
    server.make_log("other");
    let other = server.client_for("other", &Scope::ALL, None);
    assert_eq!(
        remembered(&other, "POST", "/v1/entities/note", "k1", "{\"n\":1}").expect(201).header("idempotent-replayed"),
        None
    );
}

/// C102.
fn a_key_with_another_body_is_refused_and_each_path_has_its_own(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    remembered(client, "PUT", "/v1/entities/note/a", "k2", r#"{"amount":10,"x":1}"#).expect(201);
    for other in [r#"{"amount":11,"x":1}"#, r#"{"x":1,"amount":10}"#, r#"{"amount":10,"x":1} "#, "nonsense", ""] {
        let refused =
            remembered(client, "PUT", "/v1/entities/note/a", "k2", other).refused(422, "idempotency-mismatch");
        assert_eq!(refused["key"], "k2");
    }
    assert_eq!(client.log_head(), 1);
    // Another path or method is another request; so is the same path spelt otherwise.
    remembered(client, "PUT", "/v1/entities/note/b", "k2", r#"{"amount":10,"x":1}"#).expect(201);
    let deleted = client.ask("DELETE", "/v1/entities/note/a").header("Idempotency-Key", "k2").send().expect(200);
    let again = client.ask("DELETE", "/v1/entities/note/a").header("Idempotency-Key", "k2").send().expect(200);
    assert_eq!((deleted.body, again.must("idempotent-replayed")), (again.body.clone(), "true"));
    for bad in ["", "a b", "ä", "\t", &"k".repeat(256)] {
        let key = client.key();
        let answer = raw::exchange(
            client.address(),
            &format!("DELETE /v1/entities/note/b HTTP/1.1\r\nAuthorization: Bearer {key}\r\nIdempotency-Key: {bad}"),
            b"",
        );
        assert_eq!(answer.refused(400, "malformed-header")["parameter"], "Idempotency-Key", "{bad:?}");
    }
    let twice = client
        .ask("DELETE", "/v1/entities/note/b")
        .header("Idempotency-Key", "a")
        .header("Idempotency-Key", "a")
        .send();
    twice.refused(400, "malformed-header");
    assert_eq!(client.log_head(), 3);
}

/// C106.
fn refusals_are_remembered_and_what_may_pass_is_not(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    let sub = "/v1/entities/subscription/s";
    let first = remembered(client, "PUT", sub, "k6", "{}");
    first.refused(422, "schema-violation");
    let again = remembered(client, "PUT", sub, "k6", "{}");
    again.refused(422, "schema-violation");
    assert_eq!((&again.body, again.must("idempotent-replayed")), (&first.body, "true"));
    remembered(client, "PUT", sub, "k6", r#"{"status":"active"}"#).refused(422, "idempotency-mismatch");
    remembered(client, "PUT", sub, "k7", "{").refused(400, "invalid-body");
    assert_eq!(remembered(client, "PUT", sub, "k7", "{").must("idempotent-replayed"), "true");
    let late = client.ask("DELETE", sub).header("Idempotency-Key", "k8").send();
    late.refused(404, "not-found");
    client.put(sub, r#"{"status":"active"}"#).expect(201);
    let late = client.ask("DELETE", sub).header("Idempotency-Key", "k8").send();
    assert_eq!((late.status, late.must("idempotent-replayed")), (404, "true"));
    // A replay comes before preconditions.
    let done = client
        .ask("PATCH", sub)
        .header("Idempotency-Key", "k9")
        .header("If-Match", "\"1\"")
        .merge_patch(r#"{"plan":"x"}"#)
        .send()
        .expect(200);
    let replayed = client
        .ask("PATCH", sub)
        .header("Idempotency-Key", "k9")
        .header("If-Match", "\"1\"")
        .merge_patch(r#"{"plan":"x"}"#)
        .send()
        .expect(200);
    assert_eq!(done.body, replayed.body);
    // Refused before the body: not remembered.
    let reader = server.client_for("default", &[Scope::Read], None);
    remembered(&reader, "PUT", "/v1/entities/note/n", "k10", "{}").refused(403, "forbidden");
    client
        .ask("PUT", "/v1/entities/note/n")
        .header("Idempotency-Key", "k10")
        .body("{}")
        .send()
        .refused(415, "unsupported-media-type");
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    remembered(client, "PUT", "/v1/entities/note/n", "k10", &large).refused(413, "too-large");
    assert_eq!(
        remembered(client, "PUT", "/v1/entities/note/n", "k10", "{}").expect(201).header("idempotent-replayed"),
        None
    );
}

fn of_the_same_request_at_once_one_is_carried_out(bed: Bed) {
    let server = bed.start();
    let clients: Vec<Client> = (0..16).map(|_| server.client_with(&server.client.key())).collect();
    for round in 0..10 {
        let answers = at_once(16, |number| {
            remembered(&clients[number], "POST", "/v1/entities/note", &format!("k{round}"), "{\"n\":1}")
        });
        let fresh: Vec<_> = answers
            .iter()
            .filter(|answer| answer.status == 201 && answer.header("idempotent-replayed").is_none())
            .collect();
        assert_eq!(fresh.len(), 1);
        for answer in &answers {
            match answer.status {
                201 => assert_eq!(answer.body, fresh[0].body),
                _ => assert_eq!(answer.refused(409, "idempotency-in-progress")["key"], format!("k{round}")),
            }
        }
        assert_eq!(server.client.log_head(), round + 1);
    }
}

fn a_batch_is_all_or_nothing_and_names_what_was_refused(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    seed(client);
    let all = r#"[{"op":"create","resource":"note","id":"new","data":{"a":1}},{"op":"put","resource":"note","id":"a","data":{"n":2}},{"op":"patch","resource":"note","id":"b","data":{"m":1},"if_match":"\"15\""},{"op":"delete","resource":"note","id":"d","if_match":"*"},{"op":"put","resource":"subscription","id":"s","data":{"status":"active"},"if_none_match":"*"},{"op":"action","resource":"subscription","id":"s","action":"pause"}]"#;
    let lines = all[1..all.len() - 1].replace("},{\"op\"", "}\n{\"op\"");
    for refused_last in [
        r#"{"op":"delete","resource":"note","id":"nobody"}"#,
        r#"{"op":"put","resource":"subscription","id":"s","data":{}}"#,
        r#"{"op":"create","resource":"note","id":"a","data":{}}"#,
        r#"{"op":"put","resource":"note","id":"a","data":{},"if_match":"\"1\""}"#,
        r#"{"op":"action","resource":"subscription","id":"sub_1","action":"pause"}"#,
        r#"{"op":"delete","resource":"note","id":"d"}"#,
        r#"{"op":"put","resource":"membership","id":"m","data":{"customer":"nobody"}}"#,
        "{",
    ] {
        let answer = client.ask("POST", "/v1/batch").ndjson(&format!("{lines}\n{refused_last}")).send();
        assert!([400, 404, 409, 412, 422].contains(&answer.status), "{}", answer.told());
        assert_eq!(answer.json()["index"], 6, "{}", answer.told());
        assert_eq!(client.log_head(), 15, "{refused_last}");
    }
    let answer = client.post("/v1/batch", all).expect(200);
    let body = answer.json();
    assert_eq!((&body["tx"], answer.number("scroll-seq"), answer.must("etag")), (&json!(16), 20, "\"20\""));
    let fed: Vec<String> = client.lines_after(15).into_iter().map(|line| line.raw).collect();
    assert_eq!(fed.len(), 5, "the second operation changed nothing");
    let answered = answer.text();
    for line in &fed {
        assert!(answered.contains(line.as_str()), "{line}");
    }
    let seqs: Vec<u64> = body["changes"].as_array().unwrap().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [16, 7, 17, 18, 19, 20]);
    assert!(client.get("/v1/changes?since=15&fields=tx").expect(200).lines().iter().all(|line| line.value["tx"] == 16));
    // References are judged operation by operation.
    let late = client.post("/v1/batch", r#"[{"op":"put","resource":"membership","id":"m","data":{"customer":"c9"}},{"op":"put","resource":"customer","id":"c9","data":{}}]"#);
    assert_eq!(late.refused(409, "reference-missing")["index"], 0);
    client.post("/v1/batch", r#"[{"op":"put","resource":"customer","id":"c9","data":{}},{"op":"put","resource":"membership","id":"m","data":{"customer":"c9"}},{"op":"delete","resource":"membership","id":"m"},{"op":"delete","resource":"customer","id":"c9"}]"#).expect(200);
}

fn operations_of_a_batch_are_strict(bed: Bed) {
    let server = bed.start();
    let client = &server.client;
    for (bad, status) in [
        ("1", 400),
        ("null", 400),
        ("{}", 400),
        (r#"{"op":"upsert","resource":"n","id":"a","data":{}}"#, 400),
        (r#"{"op":"PUT","resource":"n","id":"a","data":{}}"#, 400),
        (r#"{"op":"put","resource":"n","id":"a","data":{},"x":1}"#, 400),
        (r#"{"op":"put","resource":"n","data":{}}"#, 400),
        (r#"{"op":"put","resource":"n","id":"a"}"#, 400),
        (r#"{"op":"put","resource":"N","id":"a","data":{}}"#, 400),
        (r#"{"op":"put","resource":"n","id":"","data":{}}"#, 400),
        (r#"{"op":"put","resource":"n","id":7,"data":{}}"#, 400),
        (r#"{"op":"delete","resource":"n","id":"a","data":{}}"#, 400),
        (r#"{"op":"action","resource":"n","id":"a"}"#, 400),
        (r#"{"op":"put","resource":"n","id":"a","data":{},"if_match":"5"}"#, 400),
        (r#"{"op":"put","resource":"n","id":"a","data":{},"if_none_match":"\"5\""}"#, 400),
        (r#"{"op":"put","resource":"n","id":"a","data":[]}"#, 422),
        (r#"{"op":"put","op":"put","resource":"n","id":"a","data":{}}"#, 400),
    ] {
        let good = r#"{"op":"put","resource":"n","id":"good","data":{}}"#;
        let answer = client.post("/v1/batch", &format!("[{good},{bad}]"));
        assert_eq!(answer.status, status, "{bad}: {}", answer.told());
        let answer = client.ask("POST", "/v1/batch").ndjson(&format!("{good}\n{bad}\n")).send();
        assert_eq!((answer.status, &answer.json()["index"]), (status, &json!(1)), "{bad}: {}", answer.told());
    }
    for body in ["[]", "[ ]"] {
        client.post("/v1/batch", body).refused(422, "schema-violation");
    }
    client.ask("POST", "/v1/batch").ndjson("\n \n").send().refused(422, "schema-violation");
    client.post("/v1/batch", "{}").refused(400, "invalid-body");
    client
        .ask("POST", "/v1/batch")
        .header("Content-Type", "text/plain")
        .body("[]")
        .send()
        .refused(415, "unsupported-media-type");
    client.post("/v1/batch?x=1", "[]").refused_parameter("x");
    assert_eq!(client.log_head(), 0);
    // Depth is counted within `data`.
    let nested = |levels: usize| {
        format!(
            "[{{\"op\":\"put\",\"resource\":\"n\",\"id\":\"a\",\"data\":{}1{}}}]",
            "{\"a\":".repeat(levels - 1),
            "}".repeat(levels - 1)
        )
    };
    client.post("/v1/batch", &nested(128)).expect(200);
    client.post("/v1/batch", &nested(129)).refused(400, "invalid-body");
}

fn a_batch_has_limits(bed: Bed) {
    let limits = Limits { batch_bytes: 4096, batch_operations: 10, body_bytes: 64, ..Limits::default() };
    let server = bed.start_with(Options { limits, ..Options::default() });
    let ids: Vec<String> = (0..11).map(|id| id.to_string()).collect();
    let batch = |count: usize, data: &str| {
        server.client.ask("POST", "/v1/batch").ndjson(&puts("n", ids[..count].iter().map(String::as_str), data)).send()
    };
    batch(11, "{}").refused(413, "too-large");
    batch(2, &format!("{{\"a\":\"{}\"}}", "x".repeat(3000))).refused(413, "too-large");
    assert_eq!(server.client.log_head(), 0);
    assert_eq!(batch(10, "{\"a\":1}").expect(200).number("scroll-seq"), 10);
    server.client.put("/v1/entities/n/x", &format!("{{\"a\":\"{}\"}}", "x".repeat(64))).refused(413, "too-large");
    let told = server.client.get("/v1/log").expect(200).json();
    assert_eq!(
        (&told["limits"]["batch_bytes"], &told["limits"]["batch_operations"], &told["limits"]["body_bytes"]),
        (&json!(4096), &json!(10), &json!(64))
    );
    assert_eq!(Limits::default().batch_operations, 10_000);
    assert_eq!((Limits::default().batch_bytes, Limits::default().body_bytes), (16 << 20, 1 << 20));
}

/// C050, C031.
fn a_payload_that_looks_like_a_line_stays_data(bed: Bed) {
    let server = bed.start();
    let data = r#"{"seq":1,"resource":"x","id":"other","type":"deleted","deleted":true,"data":null}"#;
    let line = server.client.put("/v1/entities/note/n", data).expect(201).line();
    assert_eq!((line.seq, line.deleted, line.id.as_str(), line.data_text()), (1, false, "n", data));
    assert!(line.data.is_object());
    assert_eq!(server.client.all_lines(), [line]);
}

/// C003.
fn a_failed_write_leaves_no_hole(bed: Bed) {
    let server = bed.start();
    let failed = at_once(4, |worker| {
        let client = server.client_with(&server.client.key());
        (0..250)
            .filter(|number| client.put(&format!("/v1/entities/subscription/{worker}-{number}"), "{}").status == 422)
            .count()
    });
    assert_eq!(failed.iter().sum::<usize>(), 1000);
    assert_eq!(server.client.put("/v1/entities/note/inv-9", "{}").expect(201).number("scroll-seq"), 1);
    let answer = server.client.get("/v1/changes?limit=10").expect(200);
    assert_eq!(
        (answer.lines().len(), answer.must("scroll-dense"), answer.must("scroll-up-to-date")),
        (1, "true", "true")
    );
}
