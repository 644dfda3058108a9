//! Section 10: keys, scopes, logs; and what one account may learn of another.

use std::collections::BTreeSet;

use scroll::access::Scope;
use serde_json::{Value, json};

use super::support::{Bed, Client, TestServer, model, on_every_engine, raw, seed};

on_every_engine![
    only_a_bearer_key_in_the_header_opens,
    wrong_keys_of_every_length_are_refused_alike,
    scopes_are_apart_from_each_other,
    a_key_of_some_resources_sees_and_writes_those_only,
    a_key_for_all_logs_names_one,
    accounts_see_nothing_of_each_other,
    keys_are_made_listed_and_revoked,
    forms_of_keys_and_logs_are_strict,
    an_expired_key_opens_no_more,
];

fn only_a_bearer_key_in_the_header_opens(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    let (key, address) = (server.client.key(), server.client.address());
    let ask = |head: &str| raw::exchange(address, &format!("GET /v1/log HTTP/1.1{head}"), b"");
    for accepted in
        [format!("Bearer {key}"), format!("bearer {key}"), format!("BEARER   {key}  "), format!("  Bearer {key}")]
    {
        ask(&format!("\r\nAuthorization: {accepted}")).expect(200);
    }
    for refused in [
        String::new(),
        "\r\nAuthorization: Bearer".into(),
        "\r\nAuthorization: Bearer ".into(),
        "\r\nAuthorization: Bearer x".into(),
        format!("\r\nAuthorization: {key}"),
        format!("\r\nAuthorization: Basic {key}"),
        format!("\r\nAuthorization: Bearer {key} {key}"),
        format!("\r\nAuthorization: Bearer {key}\r\nAuthorization: Bearer {key}"),
        format!("\r\nCookie: key={key}; token={key}"),
        format!("\r\nX-Api-Key: {key}"),
        format!("\r\nProxy-Authorization: Bearer {key}"),
        format!("\r\nAuthorization: Bearer \"{key}\""),
    ] {
        ask(&refused).refused(401, "unauthorized");
    }
    // C112: with a key in the query the answer is 401 without the header and 400 with it, never its value.
    for name in ["api_key", "access_token", "token", "key"] {
        for value in [key.as_str(), "wrong"] {
            let target = format!("/v1/changes?{name}={value}");
            let answer = Client::new(address).get(&target);
            answer.refused(401, "unauthorized");
            assert!(!answer.text().contains(value));
            let answer = server.client.get(&target);
            assert!(answer.refused_parameter(name).get("value").is_none() && !answer.text().contains(&key));
        }
    }
    raw::exchange(address, &format!("GET http://{key}@{address}/v1/log HTTP/1.1"), b"").refused(401, "unauthorized");
}

/// C116.
fn wrong_keys_of_every_length_are_refused_alike(bed: Bed) {
    let server = bed.start();
    let key = server.client.key();
    let flipped = |at: usize| {
        let mut bytes = key.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    let long = "x".repeat(20_000);
    for wrong in [
        "x",
        &key[..key.len() - 1],
        &format!("{key}x"),
        &flipped(7),
        &flipped(key.len() - 2),
        &key.to_uppercase(),
        &long,
        "scroll_",
        "%",
        "'; --",
    ] {
        let answer = Client::new(server.client.address()).with_key(wrong).get("/v1/log");
        assert_eq!(answer.refused(401, "unauthorized").as_object().unwrap().len(), 5);
    }
    // So long that the server does not read it: refused, and never a fault of its own.
    let huge = "x".repeat(100_000);
    let mut wire = raw::Wire::open(server.client.address());
    wire.send(format!("GET /v1/log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {huge}\r\n\r\n").as_bytes());
    if let Some((status, _)) = wire.answer_head() {
        assert!([400, 401, 431].contains(&status), "{status}");
    }
    server.client.get("/v1/log").expect(200);
}

fn scopes_are_apart_from_each_other(bed: Bed) {
    let server = bed.start();
    server.client.put("/v1/entities/note/n", "{}").expect(201);
    let [read, write, admin] = Scope::ALL.map(|scope| server.client_for("default", &[scope], None));
    let cases: [(&str, &str, &str, &Client); 14] = [
        ("GET", "/v1/changes", "read", &read),
        ("HEAD", "/v1/changes", "read", &read),
        ("GET", "/v1/log", "read", &read),
        ("GET", "/v1/entities/note", "read", &read),
        ("GET", "/v1/entities/note/n", "read", &read),
        ("PUT", "/v1/entities/note/n", "write", &write),
        ("POST", "/v1/entities/note", "write", &write),
        ("DELETE", "/v1/entities/note/n", "write", &write),
        ("POST", "/v1/entities/note/n/x", "write", &write),
        ("POST", "/v1/batch", "write", &write),
        ("GET", "/v1/admin/keys", "admin", &admin),
        ("GET", "/v1/admin/logs", "admin", &admin),
        ("GET", "/metrics", "admin", &admin),
        ("POST", "/v1/admin/keys", "admin", &admin),
    ];
    for (method, target, scope, right) in cases {
        for client in [&read, &write, &admin] {
            let answer = match method {
                "PUT" | "POST" => client.ask(method, target).json("{}").send(),
                _ => client.ask(method, target).send(),
            };
            if std::ptr::eq(client, right) {
                assert_ne!(answer.status, 403, "{}", answer.told());
            } else if method == "HEAD" {
                assert_eq!(answer.status, 403);
            } else {
                assert_eq!(answer.refused(403, "forbidden")["scope"], scope);
            }
        }
    }
    let left = server.client.log_head();
    write.patch("/v1/entities/note/n", "{}").refused(404, "not-found");
    read.patch("/v1/entities/note/n", "{}").refused(403, "forbidden");
    assert_eq!(server.client.log_head(), left);
    server
        .client_for("default", &[Scope::Admin], None)
        .post("/v1/admin/logs", r#"{"name":"x"}"#)
        .refused(403, "forbidden");
}

fn a_key_of_some_resources_sees_and_writes_those_only(bed: Bed) {
    let server = bed.start();
    let log = seed(&server.client);
    let notes = server.client_for("default", &[Scope::Read, Scope::Write], Some(&["note"]));
    let visible: Vec<_> = log.iter().filter(|line| line.resource == "note").cloned().collect();
    let answer = notes.get("/v1/changes").expect(200);
    assert_eq!(answer.lines(), visible);
    assert_eq!(
        (answer.header("scroll-checkpoint"), answer.number("scroll-next"), answer.must("scroll-dense")),
        (None, 15, "false")
    );
    let json =
        notes.ask("GET", "/v1/changes?compact=true").header("Accept", "application/json").send().expect(200).json();
    assert_eq!(json["checkpoint"], Value::Null);
    assert!(json["changes"].as_array().unwrap().iter().all(|line| line["resource"] == "note"));
    for target in [
        "/v1/changes?resource=customer",
        "/v1/changes?resource=note,customer",
        "/v1/changes?resource=customer&id=cus_1",
        "/v1/entities/customer",
        "/v1/entities/customer/cus_1",
        "/v1/entities/nothing",
    ] {
        assert!(notes.get(target).refused(403, "forbidden").get("scope").is_none(), "{target}");
    }
    for answer in [
        notes.put("/v1/entities/customer/x", "{}"),
        notes.delete("/v1/entities/customer/cus_1"),
        notes.post("/v1/entities/customer", "{}"),
        notes.patch("/v1/entities/customer/cus_1", "{}"),
        notes.post("/v1/entities/subscription/sub_1/expire", "{}"),
    ] {
        answer.refused(403, "forbidden");
    }
    let batch =
        r#"[{"op":"put","resource":"note","id":"z","data":{}},{"op":"put","resource":"customer","id":"z","data":{}}]"#;
    notes.post("/v1/batch", batch).refused(403, "forbidden");
    assert_eq!(server.client.log_head(), 15);
    let told = notes.get("/v1/log").expect(200).json();
    assert_eq!(told["resources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["note"]);
    assert_eq!((&told["count"], &told["fingerprint"]), (&Value::Null, &Value::Null));
    notes.put("/v1/entities/note/z", "{}").expect(201);
    // Its own keys reach no further.
    let admin = server.client_for("default", &[Scope::Admin], Some(&["note"]));
    admin.post("/v1/admin/keys", r#"{"log":"default","scopes":["read"]}"#).refused(403, "forbidden");
    admin
        .post("/v1/admin/keys", r#"{"log":"default","scopes":["read"],"resources":["note","customer"]}"#)
        .refused(403, "forbidden");
    admin.post("/v1/admin/keys", r#"{"log":"default","scopes":["read"],"resources":["note"]}"#).expect(201);
}

fn a_key_for_all_logs_names_one(bed: Bed) {
    let server = bed.start();
    seed(&server.client);
    server.make_log("Acme-1.x_y");
    let all = server.client_with(&server.key(None, &Scope::ALL, None));
    for target in ["/v1/changes", "/v1/log", "/v1/entities/note/a"] {
        assert_eq!(all.get(target).refused(400, "malformed-header")["parameter"], "Scroll-Log");
    }
    let named = |name: &str| all.clone().with("Scroll-Log", name);
    assert_eq!(named("default").get("/v1/changes").expect(200).lines().len(), 15);
    assert_eq!(named("Acme-1.x_y").get("/v1/log").expect(200).json()["head"], 0);
    named("Acme-1.x_y").put("/v1/entities/note/a", "{}").expect(201);
    for unknown in ["nobody", "DEFAULT", "-x", "a b", &"x".repeat(65), "../default", "*"] {
        named(unknown).get("/v1/changes").refused(404, "not-found");
    }
    named("").get("/v1/changes").refused(400, "malformed-header");
    named("default").with("Scroll-Log", "default").get("/v1/changes").refused(400, "malformed-header");
    // A key of one log: its own name, and for every other the answer of a log that is not there.
    server.client.clone().with("Scroll-Log", "default").get("/v1/changes").expect(200);
    let foreign = server.client.clone().with("Scroll-Log", "Acme-1.x_y").get("/v1/changes").refused(404, "not-found");
    let absent = server.client.clone().with("Scroll-Log", "Acme-9").get("/v1/changes").refused(404, "not-found");
    assert_eq!(
        foreign["detail"].as_str().unwrap().replace("Acme-1.x_y", "N"),
        absent["detail"].as_str().unwrap().replace("Acme-9", "N")
    );
}

/// C110.
fn accounts_see_nothing_of_each_other(bed: Bed) {
    let server = bed.start();
    server.make_log("b");
    let (a, b) = (&server.client, server.client_for("b", &Scope::ALL, None));
    for number in 0..30 {
        a.put(&format!("/v1/entities/secret.a/{number}"), "{}").expect(201);
        if number % 2 == 0 {
            b.put(&format!("/v1/entities/note/{number}"), "{}").expect(201);
        }
    }
    let own = b.all_lines();
    model::assert_dense(&own);
    assert_eq!(own.len(), 15);
    for since in 0..=15u64 {
        let answer = b.get(&format!("/v1/changes?since={since}")).expect(200);
        assert_eq!(answer.lines(), own[since as usize..]);
        assert_eq!(
            (answer.number("scroll-head"), answer.must("scroll-checkpoint")),
            (15, model::checkpoint(15, &own).as_str())
        );
    }
    for since in 16..=100 {
        assert_eq!(b.get(&format!("/v1/changes?since={since}")).refused(409, "cursor-ahead")["head"], 15);
    }
    b.get("/v1/entities/secret.a/0").refused(404, "not-found");
    b.get("/v1/entities/secret.a").refused(400, "unknown-resource");
    b.get("/v1/changes?tenant=a").refused_parameter("tenant");
    let named = b.clone().with("X-Tenant", "default").with("X-Scroll-Log", "default").get("/v1/changes").expect(200);
    assert_eq!(named.lines(), own);
    assert_ne!(a.get("/v1/log").expect(200).json()["epoch"], b.get("/v1/log").expect(200).json()["epoch"]);
    let answer = b.get("/v1/log").expect(200);
    assert!(!answer.text().contains("secret.a"));
    let metrics = b.get("/metrics").expect(200);
    assert!(
        metrics.text().contains("scroll_head{log=\"b\"} 15") && !metrics.text().contains("default"),
        "{}",
        metrics.text()
    );
    assert!(!metrics.text().contains("scroll_changes_total"), "a sum over all accounts");
    // The same id, ETag and Idempotency-Key in both.
    let ask = |client: &Client| {
        client
            .ask("PUT", "/v1/entities/note/same")
            .header("Idempotency-Key", "k")
            .header("If-None-Match", "*")
            .json("{}")
            .send()
            .expect(201)
    };
    assert_eq!((ask(a).number("scroll-seq"), ask(&b).number("scroll-seq")), (31, 16));
}

fn keys_are_made_listed_and_revoked(bed: Bed) {
    let server = bed.start();
    server.make_log("other");
    let all = server.client_with(&server.key(None, &Scope::ALL, None));
    let made = server.client.post("/v1/admin/keys", r#"{"log":"default","scopes":["read","write"],"name":"worker","resources":["note"],"expires_at":"2999-01-01T00:00:00+01:00"}"#).expect(201).json();
    assert_eq!(
        (&made["scopes"], &made["resources"], &made["name"], &made["expires_at"]),
        (&json!(["read", "write"]), &json!(["note"]), &json!("worker"), &json!("2998-12-31T23:00:00.000000Z"))
    );
    let secret = made["key"].as_str().unwrap();
    let client = server.client_with(secret);
    client.put("/v1/entities/note/n", "{}").expect(201);
    let ids = |client: &Client| -> BTreeSet<String> {
        let answer = client.get("/v1/admin/keys").expect(200);
        assert!(!answer.text().contains(secret) && !answer.text().contains("hash"));
        answer.json()["keys"].as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap().to_owned()).collect()
    };
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(ids(&server.client).contains(&id) && ids(&all).len() == ids(&server.client).len() + 1);
    // Another account's admin does not see it, cannot revoke it, and makes none for this log.
    let other = server.client_for("other", &[Scope::Admin], None);
    assert!(!ids(&other).contains(&id));
    other.delete(&format!("/v1/admin/keys/{id}")).refused(404, "not-found");
    other.post("/v1/admin/keys", r#"{"log":"default","scopes":["read"]}"#).refused(404, "not-found");
    other.post("/v1/admin/keys", r#"{"log":"*","scopes":["read"]}"#).refused(404, "not-found");
    other.post("/v1/admin/keys", r#"{"log":"nobody","scopes":["read"]}"#).refused(404, "not-found");
    other.post("/v1/admin/logs", r#"{"name":"mine"}"#).refused(403, "forbidden");
    assert_eq!(other.get("/v1/admin/logs").expect(200).json()["logs"].as_array().unwrap().len(), 1);
    client.get("/v1/log").expect(200);
    let gone = server.client.delete(&format!("/v1/admin/keys/{id}")).expect(204);
    assert!(gone.body.is_empty());
    client.get("/v1/log").refused(401, "unauthorized");
    client.put("/v1/entities/note/n2", "{}").refused(401, "unauthorized");
    server.client.delete("/v1/admin/keys/nobody").refused(404, "not-found");
    // Logs.
    let log = all.post("/v1/admin/logs", r#"{"name":"Third.1"}"#).expect(201).json();
    assert_eq!(log["name"], "Third.1");
    all.post("/v1/admin/logs", r#"{"name":"Third.1"}"#).refused(409, "already-exists");
    let logs = all.get("/v1/admin/logs").expect(200).json();
    let names: Vec<&str> = logs["logs"].as_array().unwrap().iter().map(|log| log["name"].as_str().unwrap()).collect();
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["Third.1", "default", "other"]));
    let star = all.post("/v1/admin/keys", r#"{"log":"*","scopes":["admin"]}"#).expect(201).json();
    assert_eq!(star["log"], "*");
}

fn forms_of_keys_and_logs_are_strict(bed: Bed) {
    let server = bed.start();
    let all = server.client_with(&server.key(None, &Scope::ALL, None));
    let before = all.get("/v1/admin/keys").expect(200).json();
    for (target, body, status, slug) in [
        ("keys", "{", 400, "invalid-body"),
        ("keys", r#"{"log":"default","scopes":["read"],"more":1}"#, 400, "invalid-body"),
        ("keys", r#"{"log":"default","log":"default","scopes":["read"]}"#, 400, "invalid-body"),
        ("keys", "[]", 422, "schema-violation"),
        ("keys", "{}", 422, "schema-violation"),
        ("keys", r#"{"log":"default"}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"default","scopes":[]}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"default","scopes":["root"]}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"default","scopes":["read","read"]}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"default","scopes":"read"}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"default","scopes":["read"],"resources":[]}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"default","scopes":["read"],"resources":["Note"]}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"default","scopes":["read"],"expires_at":"tomorrow"}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"a b","scopes":["read"]}"#, 422, "schema-violation"),
        ("keys", r#"{"log":"default","scopes":["read"],"name":""}"#, 422, "schema-violation"),
        ("logs", "{}", 422, "schema-violation"),
        ("logs", r#"{"name":"-x"}"#, 422, "schema-violation"),
        ("logs", r#"{"name":""}"#, 422, "schema-violation"),
        ("logs", r#"{"name":"*"}"#, 422, "schema-violation"),
        ("logs", r#"{"name":"x","y":1}"#, 400, "invalid-body"),
    ] {
        all.post(&format!("/v1/admin/{target}"), body).refused(status, slug);
    }
    all.post("/v1/admin/logs", &format!("{{\"name\":\"{}\"}}", "x".repeat(65))).refused(422, "schema-violation");
    all.ask("POST", "/v1/admin/logs")
        .header("Content-Type", "text/plain")
        .body("{}")
        .send()
        .refused(415, "unsupported-media-type");
    all.get("/v1/admin/keys?x=1").refused_parameter("x");
    assert_eq!(all.get("/v1/admin/keys").expect(200).json(), before);
    assert_eq!(all.get("/v1/admin/logs").expect(200).json()["logs"].as_array().unwrap().len(), 1);
}

fn an_expired_key_opens_no_more(bed: Bed) {
    let server: TestServer = bed.start();
    let end = scroll::change::time::Clock::now(&*bed.clock).after(std::time::Duration::from_mins(10));
    let made = server
        .client
        .post("/v1/admin/keys", &format!(r#"{{"log":"default","scopes":["read"],"expires_at":"{end}"}}"#))
        .expect(201)
        .json();
    let client = server.client_with(made["key"].as_str().unwrap());
    client.get("/v1/log").expect(200);
    bed.clock.step(599);
    client.get("/v1/log").expect(200);
    bed.clock.step(2);
    client.get("/v1/log").refused(401, "unauthorized");
    server.client.get("/v1/log").expect(200);
}
