//! Many at once: every submission gets its own answer, in the order of the log, and nobody pays for a
//! neighbour.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use scroll::access::LogId;
use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::store::StoreError;

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::commands::{batch, create, delete, one, patch, put, seq};
use crate::support::desk::{Desk, written, written_batch};
use crate::support::on_every_engine;

async fn everybody_is_answered_with_their_own_line(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let others = [desk.neighbour("a").await, desk.neighbour("b").await];
    let desks = [&desk, &others[0], &others[1]];
    let blocked = bed.hold_write_lock();
    let mut waiting = Vec::new();
    for number in 0..300 {
        let desk = desks[number % 3];
        let data = format!(r#"{{"n":{number}}}"#);
        waiting.push((number, desk.spawn(one(put("note", &format!("n{}", number % 30), &data)))));
    }
    drop(blocked);
    let mut answered = [Vec::new(), Vec::new(), Vec::new()];
    for (number, answer) in waiting {
        let entry = written(answer.await.unwrap().unwrap()).entry;
        assert_eq!(entry.data["n"].as_u64(), Some(number as u64));
        assert_eq!(entry.id, format!("n{}", number % 30));
        answered[number % 3].push(entry);
    }
    for (desk, mut answered) in desks.into_iter().zip(answered) {
        answered.sort_by_key(|entry| entry.seq);
        assert_eq!(check_everything(desk, &Catalog::builtin()).await, answered, "the log is the answers");
    }
}

async fn what_waits_together_commits_together(bed: Bed) {
    let metrics = Arc::new(Metrics::new().unwrap());
    let desk = Desk::open_with(&bed, Options { metrics: metrics.clone(), ..Options::default() }).await;
    let flights = metrics.batch_size.get_sample_count();
    let blocked = bed.hold_write_lock();
    let writes: Vec<_> = (0..400).map(|n| desk.spawn(one(put("note", &format!("n{n}"), "{}")))).collect();
    // All of them have arrived, in the first flight or in the queue, before any can be written.
    while metrics.batch_size.get_sample_sum() + (metrics.queue_depth.get() as f64) < 400.0 {
        tokio::task::yield_now().await;
    }
    drop(blocked);
    for write in join_all(writes).await {
        write.unwrap().unwrap();
    }
    let flights = metrics.batch_size.get_sample_count() - flights;
    assert!((2..=4).contains(&flights), "{flights} commits for 400 writes");
    assert_eq!(metrics.changes.get(), 400);
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_batch_limit_of_one_commits_each_alone(bed: Bed) {
    let metrics = Arc::new(Metrics::new().unwrap());
    let desk = Desk::open_with(&bed, Options { metrics: metrics.clone(), max_batch: 1, ..Options::default() }).await;
    let writes = (0..40).map(|n| desk.submit(one(put("note", &format!("n{n}"), "{}"))));
    join_all(writes).await;
    assert_eq!((metrics.batch_size.get_sample_count(), metrics.batch_size.get_sample_sum()), (40, 40.0));
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn when_all_are_answered_nothing_waits(bed: Bed) {
    let metrics = Arc::new(Metrics::new().unwrap());
    let desk = Desk::open_with(&bed, Options { metrics: metrics.clone(), ..Options::default() }).await;
    for round in 0..50 {
        let writes: Vec<_> =
            (0..8).map(|n| desk.spawn(one(put("note", &format!("n{n}"), &format!(r#"{{"r":{round}}}"#))))).collect();
        join_all(writes).await;
        assert_eq!(metrics.queue_depth.get(), 0, "round {round}");
    }
}

async fn a_later_submission_sees_what_an_earlier_one_of_its_flight_did(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(create("customer", "c", "{}")).await;
    let blocked = bed.hold_write_lock();
    // One task, so that they queue in this order.
    let writes = [
        one(create("subscription", "s", r#"{"status":"active","customer":"c"}"#)),
        one(patch("subscription", "s", r#"{"plan":"a"}"#)),
        batch(vec![patch("subscription", "s", r#"{"plan":"b"}"#), delete("subscription", "never")]),
        one(delete("customer", "c")),
        one(patch("subscription", "s", "{}")),
        one(create("customer", "c", r#"{"life":2}"#)),
    ];
    let answers = join_all(writes.into_iter().map(|write| desk.store.write(desk.log, write)));
    let (answers, ()) = tokio::join!(answers, async {
        tokio::task::yield_now().await;
        drop(blocked);
    });
    let ok: Vec<bool> = answers.iter().map(|answer| answer.as_ref().unwrap().result.is_ok()).collect();
    assert_eq!(ok, [true, true, false, true, false, true]);
    let lines = check_everything(&desk, &Catalog::builtin()).await;
    let story: Vec<_> = lines.iter().map(|entry| (entry.id.as_str(), entry.verb.as_str())).collect();
    assert_eq!(
        story,
        [("c", "created"), ("s", "created"), ("s", "updated"), ("s", "deleted"), ("c", "deleted"), ("c", "created")]
    );
}

async fn one_that_cannot_be_written_does_not_harm_its_neighbours(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let nowhere = LogId(desk.log.0 + 100);
    let blocked = bed.hold_write_lock();
    let mut waiting = Vec::new();
    for number in 0..60 {
        let log = if number % 20 == 7 { nowhere } else { desk.log };
        let submission = one(put("note", &format!("n{number}"), "{}"));
        let store = desk.store.clone();
        waiting.push((number, tokio::spawn(async move { store.write(log, submission).await })));
    }
    drop(blocked);
    for (number, answer) in waiting {
        let answer = answer.await.unwrap();
        match number % 20 {
            7 => assert!(matches!(answer, Err(StoreError::NotFound { .. })), "{number}: {answer:?}"),
            _ => assert_eq!(written(answer.unwrap()).entry.id, format!("n{number}")),
        }
    }
    assert_eq!(check_everything(&desk, &Catalog::builtin()).await.len(), 57);
}

async fn many_writers_of_one_entity_leave_a_log_that_is_its_state(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("subscription", "sub-1", r#"{"status":"active"}"#)).await;
    let clients = (0..40).map(|client| {
        let desk = &desk;
        async move {
            let mut seqs = Vec::new();
            for round in 0..10 {
                let data = format!(r#"{{"n":{client},"round":{round}}}"#);
                seqs.push(desk.ok(patch("subscription", "sub-1", &data)).await.entry.seq);
            }
            assert!(seqs.is_sorted(), "a client's own writes are in its order");
            seqs
        }
    });
    let mut seqs: Vec<i64> = join_all(clients).await.concat();
    seqs.sort_unstable();
    assert_eq!(seqs, (2..=401).collect::<Vec<_>>());
    let lines = check_everything(&desk, &Catalog::builtin()).await;
    assert_eq!(desk.entity("subscription", "sub-1").await.as_ref(), lines.last());
}

async fn the_head_moves_after_the_commit_and_before_the_answer(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let mut head = desk.store.head(desk.log).await.unwrap();
    for expected in 1..=20 {
        let blocked = bed.hold_write_lock();
        let write = desk.spawn(one(put("note", "n", &format!(r#"{{"n":{expected}}}"#))));
        let early = tokio::time::timeout(Duration::from_millis(10), head.changed()).await;
        assert!(early.is_err(), "the head moved while nothing could be committed");
        drop(blocked);
        head.changed().await.unwrap();
        assert_eq!(head.borrow_and_update().get(), expected);
        // Whoever is woken finds the line.
        assert_eq!(desk.lines().await.len() as i64, expected);
        write.await.unwrap().unwrap();
    }
    for expected in 21..=60 {
        let answered = desk.ok(put("note", "n", &format!(r#"{{"n":{expected}}}"#))).await;
        assert_eq!(answered.entry.seq, expected);
        assert!(head.borrow().get() >= expected, "an answer came before its head");
    }
}

async fn a_refusal_or_a_write_that_changes_nothing_wakes_nobody(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    let mut head = desk.store.head(desk.log).await.unwrap();
    head.mark_unchanged();
    desk.refused(delete("note", "x")).await;
    desk.ok(put("note", "n", "{}")).await;
    assert!(!head.has_changed().unwrap());
    desk.neighbour("other").await.ok(put("note", "n", "{}")).await;
    assert!(!head.has_changed().unwrap(), "the heads of two logs are two heads");
}

/// Nobody is told an older head than the one the database had when they asked.
async fn a_head_is_never_older_than_the_question(bed: Bed) {
    let mut desk = Desk::open(&bed).await;
    desk.batch((0..50).map(|n| put("note", &format!("n{n}"), "{}")).collect()).await;
    for round in 0..5 {
        desk = desk.reopened(&bed).await;
        let ask = || {
            let (store, log) = (desk.store.clone(), desk.log);
            tokio::spawn(async move { store.head(log).await.unwrap().borrow().get() })
        };
        // Others ask while the first one's answer is being found.
        let mut asked = vec![ask()];
        while !asked[0].is_finished() && asked.len() < 500 {
            asked.push(ask());
            tokio::task::yield_now().await;
        }
        for head in join_all(asked).await {
            assert_eq!(head.unwrap(), 50, "round {round}");
        }
    }
}

async fn a_dropped_question_does_not_take_the_write_back(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let mut head = desk.store.head(desk.log).await.unwrap();
    let blocked = bed.hold_write_lock();
    {
        let mut write = desk.store.write(desk.log, one(put("note", "n", "{}")));
        assert!(futures::poll!(&mut write).is_pending());
    }
    drop(blocked);
    head.wait_for(|head| *head == seq(1)).await.unwrap();
    check_everything(&desk, &Catalog::builtin()).await;
}

/// While a large batch is being written, readers see all of it or nothing.
async fn readers_see_a_transaction_whole_or_not_at_all(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let writer = async {
        for round in 0..20 {
            let commands = (0..50).map(|n| put("note", &format!("n{n}"), &format!(r#"{{"r":{round}}}"#))).collect();
            written_batch(desk.submit(batch(commands)).await);
        }
    };
    let reader = async {
        let mut seen = 0;
        while seen < 1_000 {
            let (head, lines) = (desk.head().await, desk.lines().await);
            assert_eq!(head % 50, 0);
            assert!(lines.len() as i64 >= head && lines.len() % 50 == 0);
            seen = head;
        }
    };
    tokio::join!(writer, reader);
}

on_every_engine! {
    everybody_is_answered_with_their_own_line,
    what_waits_together_commits_together,
    a_batch_limit_of_one_commits_each_alone,
    when_all_are_answered_nothing_waits,
    a_later_submission_sees_what_an_earlier_one_of_its_flight_did,
    one_that_cannot_be_written_does_not_harm_its_neighbours,
    many_writers_of_one_entity_leave_a_log_that_is_its_state,
    the_head_moves_after_the_commit_and_before_the_answer,
    a_refusal_or_a_write_that_changes_nothing_wakes_nobody,
    a_head_is_never_older_than_the_question,
    a_dropped_question_does_not_take_the_write_back,
    readers_see_a_transaction_whole_or_not_at_all,
}
