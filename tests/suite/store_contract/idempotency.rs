//! Remembered answers: written with their effect, given again to the letter, forgotten in time.

use std::time::Duration;

use scroll::entity::types::Catalog;
use scroll::entity::{Answer, IdempotentRequest, Refusal, RequestKey, Submission, Work};

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Engine};
use crate::support::commands::{batch, create, delete, if_match, one, patch, put, remembered, submission};
use crate::support::desk::{Desk, written};
use crate::support::on_every_engine;

fn replayed(first: &Answer) -> Answer {
    Answer { is_replayed: true, ..first.clone() }
}

async fn an_answer_is_given_again_to_the_letter_also_after_a_restart(bed: Bed) {
    let mut desk = Desk::open(&bed).await;
    let make =
        |request: &str| remembered(one(create("note", "n", r#"{"s":"\u2028 é","n":1.0}"#)), "k1", "body", request);
    let first = desk.submit(make("r1")).await;
    assert!(!first.is_replayed && first.result.is_ok());
    assert_eq!(first.request_id, "r1");
    desk.ok(delete("note", "n")).await;
    for round in 0..3 {
        assert_eq!(desk.submit(make(&format!("again {round}"))).await, replayed(&first));
        desk = desk.reopened(&bed).await;
    }
    assert_eq!(desk.head().await, 2, "one effect");
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn another_body_under_the_same_key_is_refused_and_changes_nothing(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let first = desk.submit(remembered(one(put("note", "n", r#"{"amount":10}"#)), "k2", "ten", "r1")).await;
    let other = desk.submit(remembered(one(put("note", "n", r#"{"amount":11}"#)), "k2", "eleven", "r2")).await;
    assert_eq!(other.request_id, "r2");
    assert!(!other.is_replayed);
    assert_eq!(other.result.unwrap_err().refusal, Refusal::IdempotencyMismatch { key: "k2".into() });
    // The first one is still what is remembered.
    let again = desk.submit(remembered(one(put("note", "n", r#"{"amount":10}"#)), "k2", "ten", "r3")).await;
    assert_eq!(again, replayed(&first));
    assert_eq!(desk.head().await, 1);
}

async fn a_refusal_is_remembered_although_its_reason_is_gone(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let change = || remembered(one(patch("note", "n", r#"{"a":1}"#)), "k3", "b", "r1");
    let first = desk.submit(change()).await;
    assert!(matches!(first.result.as_ref().unwrap_err().refusal, Refusal::EntityNotFound { .. }));
    assert_eq!(desk.head().await, 0);
    desk.ok(put("note", "n", "{}")).await;
    assert_eq!(desk.submit(change()).await, replayed(&first));
    let desk = desk.reopened(&bed).await;
    assert_eq!(desk.submit(change()).await, replayed(&first));
    assert_eq!(desk.head().await, 1);
}

async fn what_was_refused_before_it_was_a_command_is_remembered_too(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let refused = Refusal::InvalidBody { detail: "no JSON".into() }.at(3);
    let bad = || remembered(submission(Work::Refused(refused.clone())), "k4", "bad", "r1");
    let first = desk.submit(bad()).await;
    assert_eq!(first.result, Err(refused.clone()));
    assert_eq!(desk.submit(bad()).await, replayed(&first));
    let good = desk.submit(remembered(one(put("note", "n", "{}")), "k4", "good", "r2")).await;
    assert!(matches!(good.result.unwrap_err().refusal, Refusal::IdempotencyMismatch { .. }));
    // And the other way: what was carried out is given again before anybody looks at the body.
    let done = desk.submit(remembered(one(put("note", "n", "{}")), "k5", "good", "r3")).await;
    let again = desk.submit(remembered(submission(Work::Refused(refused)), "k5", "good", "r4")).await;
    assert_eq!(again, replayed(&done));
}

async fn the_same_key_twice_in_one_flight_has_one_effect(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", r#"{"n":0}"#)).await;
    // Everything waits until the lock is given back, so it flies together.
    let blocked = bed.hold_write_lock();
    let ahead = desk.spawn(one(put("note", "ahead", "{}")));
    let same: Vec<_> = (0..20)
        .map(|n| desk.spawn(remembered(one(create("note", "made", "{}")), "k6", "b", &format!("r{n}"))))
        .collect();
    let other = desk.spawn(remembered(one(create("note", "elsewhere", "{}")), "k6", "c", "other"));
    drop(blocked);
    ahead.await.unwrap().unwrap();
    let mut answers = Vec::new();
    for answer in same {
        answers.push(answer.await.unwrap().unwrap());
    }
    let other_won = other.await.unwrap().unwrap().result.is_ok();
    let first: Vec<_> = answers.iter().filter(|answer| !answer.is_replayed && answer.result.is_ok()).collect();
    if other_won {
        assert!(first.is_empty());
    } else {
        assert_eq!(first.len(), 1, "carried out once");
        assert!(answers.iter().all(|answer| answer == first[0] || *answer == replayed(first[0])));
    }
    assert_eq!(desk.head().await, 3);
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_batch_is_given_again_whole(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let many = || {
        remembered(batch(vec![put("note", "a", "{}"), put("note", "b", "{}"), put("note", "a", "{}")]), "k7", "b", "r")
    };
    let first = desk.submit(many()).await;
    desk.ok(delete("note", "a")).await;
    let desk = desk.reopened(&bed).await;
    assert_eq!(desk.submit(many()).await, replayed(&first));
    let refused = || remembered(batch(vec![put("note", "c", "{}"), delete("note", "x")]), "k8", "b", "r");
    let first = desk.submit(refused()).await;
    assert_eq!(first.result.as_ref().unwrap_err().index, Some(1));
    assert_eq!(desk.submit(refused()).await, replayed(&first));
    assert_eq!(desk.head().await, 3);
}

async fn a_replay_comes_before_conditions(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", r#"{"n":0}"#)).await;
    let change = || remembered(one(if_match(put("note", "n", r#"{"n":1}"#), "\"1\"")), "k9", "b", "r");
    let first = desk.submit(change()).await;
    assert_eq!(written(first.clone()).entry.seq, 2);
    desk.ok(put("note", "n", r#"{"n":2}"#)).await;
    assert_eq!(desk.submit(change()).await, replayed(&first));
}

async fn keys_belong_to_a_log_a_method_and_a_path(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let other = desk.neighbour("other").await;
    let request = |method: &str, path: &str, key: &str, id: &str| {
        let key = RequestKey { method: method.into(), path: path.into(), key: key.into() };
        let idempotency = Some(IdempotentRequest { key, body_hash: vec![1] });
        Submission { idempotency, ..one(create("note", id, "{}")) }
    };
    let desks = [
        (&desk, "POST", "/a", "k", "1"),
        (&other, "POST", "/a", "k", "1"),
        (&desk, "PUT", "/a", "k", "2"),
        (&desk, "POST", "/a?x=1", "k", "3"),
        (&desk, "POST", "/a", "K", "4"),
    ];
    for (desk, method, path, key, id) in desks {
        let answer = desk.submit(request(method, path, key, id)).await;
        assert!(!answer.is_replayed && answer.result.is_ok(), "{method} {path} {key}");
    }
    for (desk, method, path, key, id) in desks {
        assert!(desk.submit(request(method, path, key, id)).await.is_replayed, "{method} {path} {key}");
    }
    assert_eq!((desk.head().await, other.head().await), (4, 1));
}

async fn a_write_without_a_key_is_never_remembered(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", r#"{"n":0}"#)).await;
    assert!(!desk.submit(one(put("note", "n", r#"{"n":0}"#))).await.is_replayed);
    assert_eq!(bed.number("SELECT count(*) AS number FROM idempotency"), 0);
}

const HOUR: Duration = Duration::from_secs(3_600);

async fn answers_are_kept_for_a_day_whatever_the_clock_does_and_then_forgotten(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let make = || remembered(one(create("note", "n", "{}")), "k10", "b", "r");
    let first = desk.submit(make()).await;
    bed.clock.step(24 * HOUR);
    desk.ok(put("note", "other", r#"{"n":1}"#)).await;
    assert_eq!(desk.submit(make()).await, replayed(&first), "promised for 24 hours");
    // An hour forward and back again loses nothing.
    bed.clock.step(HOUR);
    desk.ok(put("note", "other", r#"{"n":2}"#)).await;
    bed.clock.step_back(2 * HOUR);
    desk.ok(put("note", "other", r#"{"n":3}"#)).await;
    assert_eq!(desk.submit(make()).await, replayed(&first));
    bed.clock.step(30 * HOUR);
    desk.ok(put("note", "other", r#"{"n":4}"#)).await;
    // The answers are forgotten after a write; whoever comes next is carried out again.
    let late = desk.submit(make()).await;
    assert!(matches!(late.result.unwrap_err().refusal, Refusal::AlreadyExists { .. }));
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn forgetting_keeps_up_with_any_number_of_answers(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let log = desk.log.0;
    let hash = if bed.engine == Engine::Sqlite { "x'01'" } else { "'\\x01'::bytea" };
    bed.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
         INSERT INTO idempotency SELECT {log}, 'POST', '/a', 'k' || i, {hash}, '{{}}', 0 FROM n"
    ));
    bed.clock.step(HOUR);
    for n in 0..4 {
        desk.ok(put("note", "n", &format!(r#"{{"n":{n}}}"#))).await;
    }
    // The writer forgets between two flights: the sign of life comes after the last of it.
    desk.store.ready().await.unwrap();
    assert_eq!(bed.number("SELECT count(*) AS number FROM idempotency"), 0);
}

on_every_engine! {
    an_answer_is_given_again_to_the_letter_also_after_a_restart,
    another_body_under_the_same_key_is_refused_and_changes_nothing,
    a_refusal_is_remembered_although_its_reason_is_gone,
    what_was_refused_before_it_was_a_command_is_remembered_too,
    the_same_key_twice_in_one_flight_has_one_effect,
    a_batch_is_given_again_whole,
    a_replay_comes_before_conditions,
    keys_belong_to_a_log_a_method_and_a_path,
    a_write_without_a_key_is_never_remembered,
    answers_are_kept_for_a_day_whatever_the_clock_does_and_then_forgotten,
    forgetting_keeps_up_with_any_number_of_answers,
}
