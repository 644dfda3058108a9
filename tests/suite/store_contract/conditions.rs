//! Preconditions, and the order in which a write is judged: is it there, do the conditions hold, is the
//! content right.

use scroll::entity::{Command, Refusal};

use crate::support::bed::{Bed, Options};
use crate::support::commands::{action, create, delete, if_match, if_none_match, one, patch, put};
use crate::support::desk::Desk;
use crate::support::on_every_engine;

const REQUIRED: &str = r#"
[resource.guarded]
preconditions = "required"
state = "status"
schema = { type = "object", properties = { status = { enum = ["on", "off"] } } }
[resource.guarded.actions.switch]
from = ["on"]
set = { status = "off" }
"#;

fn failed(current: Option<&str>) -> Refusal {
    Refusal::PreconditionFailed { current: current.map(str::to_owned) }
}

async fn if_match_lets_through_the_current_line_only(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("subscription", "s", r#"{"status":"active"}"#)).await;
    let writes: [fn() -> Command; 4] = [
        || put("subscription", "s", r#"{"status":"paused"}"#),
        || patch("subscription", "s", r#"{"plan":"x"}"#),
        || delete("subscription", "s"),
        || action("subscription", "s", "pause"),
    ];
    for write in writes {
        for stale in ["\"0\"", "\"2\"", "W/\"1\"", "\"01\"", "\"x\", W/\"1\""] {
            assert_eq!(desk.refused(if_match(write(), stale)).await, failed(Some("\"1\"")), "{stale}");
        }
        assert_eq!(desk.refused(if_none_match(if_match(write(), "\"1\""), "*")).await, failed(Some("\"1\"")));
    }
    assert_eq!(desk.ok(if_match(patch("subscription", "s", r#"{"n":1}"#), "\"7\", \"1\"")).await.entry.seq, 2);
    assert_eq!(desk.ok(if_match(action("subscription", "s", "pause"), "\"2\"")).await.entry.seq, 3);
    assert_eq!(desk.ok(if_match(put("subscription", "s", r#"{"status":"active"}"#), "*")).await.entry.seq, 4);
    // A write that changes nothing needs the condition too, and its ETag stays.
    let same = || put("subscription", "s", r#"{"status":"active"}"#);
    assert_eq!(desk.refused(if_match(same(), "\"3\"")).await, failed(Some("\"4\"")));
    assert_eq!(desk.ok(if_match(same(), "\"4\"")).await.entry.seq, 4);
    assert_eq!(desk.ok(if_match(delete("subscription", "s"), "\"4\"")).await.entry.seq, 5);
    // What is absent matches nothing.
    for tag in ["*", "\"5\""] {
        assert_eq!(desk.refused(if_match(same(), tag)).await, failed(None), "{tag}");
    }
}

async fn if_none_match_makes_and_never_replaces(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let make = || if_none_match(put("note", "n", "{}"), "*");
    assert!(desk.ok(make()).await.is_created);
    assert_eq!(desk.refused(make()).await, failed(Some("\"1\"")));
    assert_eq!(desk.refused(if_none_match(create("note", "n", "{}"), "*")).await, failed(Some("\"1\"")));
    assert_eq!(desk.refused(if_none_match(put("note", "n", "{}"), "W/\"1\"")).await, failed(Some("\"1\"")));
    assert_eq!(desk.ok(if_none_match(put("note", "n", r#"{"a":1}"#), "\"9\"")).await.entry.seq, 2);
    desk.ok(delete("note", "n")).await;
    assert!(desk.ok(make()).await.is_created);
}

async fn absence_comes_before_conditions_and_conditions_before_content(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let absent = Refusal::EntityNotFound { entity: "subscription/s".into() };
    for write in [patch("subscription", "s", "[]"), delete("subscription", "s"), action("subscription", "s", "cancel")]
    {
        assert_eq!(desk.refused(if_match(write, "\"1\"")).await, absent);
    }
    desk.ok(put("subscription", "s", r#"{"status":"canceled"}"#)).await;
    for write in [
        put("subscription", "s", r#"{"status":"dead"}"#),
        put("subscription", "s", r#"{"status":"active","customer":"none"}"#),
        put("subscription", "s", "[]"),
        patch("subscription", "s", r#"{"status":"dead"}"#),
        action("subscription", "s", "cancel"),
        create("subscription", "s", "[]"),
    ] {
        assert_eq!(desk.refused(if_match(write, "\"9\"")).await, failed(Some("\"1\"")));
    }
    assert!(matches!(desk.refused(create("subscription", "s", "[]")).await, Refusal::AlreadyExists { .. }));
}

async fn conditions_that_a_resource_requires_must_be_sent(bed: Bed) {
    let desk = Desk::open_with(&bed, Options::types(REQUIRED)).await;
    let required = |current: Option<&str>| Refusal::PreconditionRequired { current: current.map(str::to_owned) };
    assert_eq!(desk.refused(put("guarded", "g", r#"{"status":7}"#)).await, required(None));
    assert!(matches!(desk.refused(patch("guarded", "g", "{}")).await, Refusal::EntityNotFound { .. }));
    assert!(matches!(desk.refused(delete("guarded", "g")).await, Refusal::EntityNotFound { .. }));
    // A create names what nobody can have seen.
    desk.ok(create("guarded", "made", r#"{"status":"on"}"#)).await;
    desk.ok(if_none_match(put("guarded", "g", r#"{"status":"on"}"#), "*")).await;
    for write in [
        put("guarded", "g", r#"{"status":7}"#),
        patch("guarded", "g", r#"{"status":7}"#),
        delete("guarded", "g"),
        action("guarded", "g", "switch"),
    ] {
        assert_eq!(desk.refused(write.clone()).await, required(Some("\"2\"")));
        assert_eq!(desk.refused(if_match(write, "\"1\"")).await, failed(Some("\"2\"")));
    }
    desk.ok(if_match(action("guarded", "g", "switch"), "\"2\"")).await;
    desk.ok(if_match(delete("guarded", "g"), "\"3\"")).await;
}

/// Lost update: of many who saw the same state, one wins.
async fn of_sixteen_who_saw_the_same_line_exactly_one_writes(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    for round in 0..16_i64 {
        let tag = format!("\"{}\"", desk.entity("note", "n").await.unwrap().seq);
        let write = |client: i64| match round % 2 {
            0 => put("note", "n", &format!(r#"{{"round":{round},"client":{client}}}"#)),
            _ => patch("note", "n", &format!(r#"{{"round":{round},"client":{client}}}"#)),
        };
        let clients: Vec<_> = (0..16).map(|client| desk.spawn(one(if_match(write(client), &tag)))).collect();
        let mut won = 0;
        for client in clients {
            match client.await.unwrap().unwrap().result {
                Ok(_) => won += 1,
                Err(refused) => assert!(matches!(refused.refusal, Refusal::PreconditionFailed { .. })),
            }
        }
        assert_eq!(won, 1, "round {round}");
        assert_eq!(desk.head().await, 2 + round);
    }
    let tag = format!("\"{}\"", desk.head().await);
    let deletes: Vec<_> = (0..16).map(|_| desk.spawn(one(if_match(delete("note", "n"), &tag)))).collect();
    let creates: Vec<_> = (0..16).map(|_| desk.spawn(one(if_none_match(put("new", "n", "{}"), "*")))).collect();
    for group in [deletes, creates] {
        let mut won = 0;
        for client in group {
            won += usize::from(client.await.unwrap().unwrap().result.is_ok());
        }
        assert_eq!(won, 1);
    }
    assert_eq!(desk.head().await, 19);
}

on_every_engine! {
    if_match_lets_through_the_current_line_only,
    if_none_match_makes_and_never_replaces,
    absence_comes_before_conditions_and_conditions_before_content,
    conditions_that_a_resource_requires_must_be_sent,
    of_sixteen_who_saw_the_same_line_exactly_one_writes,
}
