//! Numbers are dense, rise across restarts, go past 2^31 and end at 2^53−1.

use scroll::change::Seq;
use scroll::entity::Refusal;
use scroll::store::StoreError;

use crate::support::bed::Bed;
use crate::support::commands::{batch, create, delete, one, patch, put};
use crate::support::desk::{Desk, written, written_batch};
use crate::support::on_every_engine;

fn seqs(entries: &[crate::support::model::Entry]) -> Vec<i64> {
    entries.iter().map(|entry| entry.seq).collect()
}

async fn refusals_leave_no_hole(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("invoice", "inv-1", "{}")).await;
    let refused = (0..1_000).map(|_| desk.spawn(one(delete("invoice", "inv-none")))).collect::<Vec<_>>();
    for answer in refused {
        assert!(answer.await.unwrap().unwrap().result.is_err());
    }
    let batch = vec![put("invoice", "inv-2", "{}"), create("invoice", "inv-1", "{}")];
    assert_eq!(desk.refused_batch(batch).await.index, Some(1));
    assert_eq!(desk.ok(put("invoice", "inv-9", "{}")).await.entry.seq, 2);
    assert_eq!(seqs(&desk.lines().await), [1, 2]);
}

async fn numbers_go_on_after_a_restart(bed: Bed) {
    let mut desk = Desk::open(&bed).await;
    let epoch = desk.store.position(desk.log).await.unwrap().epoch;
    for round in 1..=5 {
        let written = desk.ok(put("invoice", "inv-1", &format!(r#"{{"round":{round}}}"#))).await;
        assert_eq!(written.entry.seq, 2 * round - 1);
        assert!(written.is_created);
        assert_eq!(desk.ok(delete("invoice", "inv-1")).await.entry.seq, 2 * round);
        desk = desk.reopened(&bed).await;
        let position = desk.store.position(desk.log).await.unwrap();
        assert_eq!((position.head.get(), position.floor, &position.epoch), (2 * round, Seq::ZERO, &epoch));
        assert_eq!(desk.store.head(desk.log).await.unwrap().borrow().get(), 2 * round);
    }
    assert_eq!(seqs(&desk.lines().await), (1..=10).collect::<Vec<_>>());
}

async fn each_log_counts_for_itself(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let other = desk.neighbour("other").await;
    for number in 1..=3 {
        let data = format!(r#"{{"n":{number}}}"#);
        assert_eq!(desk.ok(put("invoice", "inv-1", &data)).await.entry.seq, number);
        assert_eq!(other.ok(put("invoice", "inv-1", &data)).await.entry.seq, number);
    }
    other.ok(delete("invoice", "inv-1")).await;
    assert_eq!(desk.lines().await.len(), 3);
    assert!(desk.entity("invoice", "inv-1").await.is_some());
    assert_eq!(other.entity("invoice", "inv-1").await, None);
}

/// Puts the head of the only log at `head`: everything below counts as purged.
fn set_head(bed: &Bed, desk: &Desk, head: i64) {
    let log = desk.log.0;
    let line = format!(r#"{{"seq":{head},"resource":"old","id":"x","type":"deleted","deleted":true,"data":null}}"#);
    bed.execute(&format!(
        "INSERT INTO changes (log_id, seq, resource, id, deleted, time, prev, tx, count, fingerprint, \
         resource_count, resource_fingerprint, line) \
         VALUES ({log}, {head}, 'old', 'x', TRUE, 0, NULL, {head}, 0, 0, 0, 0, '{line}'); \
         UPDATE logs SET purged_through = {head} - 1 WHERE log_id = {log};"
    ));
}

async fn numbers_go_past_two_to_the_thirty_first(bed: Bed) {
    const EDGE: i64 = i32::MAX as i64;
    let desk = Desk::open(&bed).await;
    set_head(&bed, &desk, EDGE - 1);
    for number in 0..5 {
        let written = desk.ok(put("invoice", "inv-1", &format!(r#"{{"n":{number}}}"#))).await;
        assert_eq!(written.entry.seq, EDGE + number);
    }
    let desk = desk.reopened(&bed).await;
    let position = desk.store.position(desk.log).await.unwrap();
    assert_eq!((position.head.get(), position.purged_through.get()), (EDGE + 4, EDGE - 2));
    let mut scan = desk.whole().await;
    scan.after = Seq::new(EDGE + 1).unwrap();
    assert_eq!(seqs(&desk.scanned(scan, crate::support::desk::USUAL).await), [EDGE + 2, EDGE + 3, EDGE + 4]);
    let stored = desk.store.audit_changes(desk.log, Seq::new(EDGE).unwrap(), 10).await.unwrap();
    let previous: Vec<_> = stored.iter().map(|change| change.prev.map(Seq::get)).collect();
    assert_eq!(previous, [Some(EDGE), Some(EDGE + 1), Some(EDGE + 2), Some(EDGE + 3)]);
    assert_eq!(desk.ok(delete("invoice", "inv-1")).await.entry.seq, EDGE + 5);
}

async fn numbers_end_at_two_to_the_fifty_third(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let neighbour = desk.neighbour("neighbour").await;
    set_head(&bed, &desk, Seq::MAX.get() - 2);
    let full = desk
        .store
        .write(desk.log, batch(vec![put("invoice", "a", "{}"), put("invoice", "b", "{}"), put("invoice", "c", "{}")]));
    assert!(matches!(full.await, Err(StoreError::Full { .. })));
    assert_eq!(desk.head().await, Seq::MAX.get() - 2);
    let two = written_batch(desk.submit(batch(vec![put("invoice", "a", "{}"), put("invoice", "b", "{}")])).await);
    assert_eq!(two.last, Some(Seq::MAX.get()));
    // Used up: a write of something new fails, what changes nothing is answered, neighbours do not notice.
    let blocked = bed.hold_write_lock();
    let new = desk.spawn(one(put("invoice", "c", "{}")));
    let same = desk.spawn(one(put("invoice", "a", "{}")));
    let elsewhere = neighbour.spawn(one(put("invoice", "c", "{}")));
    drop(blocked);
    assert!(matches!(new.await.unwrap(), Err(StoreError::Full { .. })));
    assert_eq!(written(same.await.unwrap().unwrap()).entry.seq, Seq::MAX.get() - 1);
    assert_eq!(written(elsewhere.await.unwrap().unwrap()).entry.seq, 1);
    assert_eq!(desk.entity("invoice", "c").await, None);
}

async fn what_changes_nothing_takes_no_number(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let first = desk.ok(put("plan", "plan-1", r#"{"a":1,"b":{"c":[1,2],"d":"x"}}"#)).await;
    assert!(first.is_created);
    for same in [r#"{"a":1,"b":{"c":[1,2],"d":"x"}}"#, r#"{"b":{"d":"x","c":[1,2]},"a":1}"#] {
        let again = desk.ok(put("plan", "plan-1", same)).await;
        assert_eq!((again.entry, again.is_created), (first.entry.clone(), false), "{same}");
    }
    for same in ["{}", r#"{"a":1}"#, r#"{"b":{"d":"x"}}"#, r#"{"z":null}"#] {
        assert_eq!(desk.ok(patch("plan", "plan-1", same)).await.entry, first.entry, "{same}");
    }
    assert_eq!(desk.head().await, 1);
    // Numbers are equal by their digits, arrays by their order.
    for other in [r#"{"a":1.0,"b":{"c":[1,2],"d":"x"}}"#, r#"{"a":1.0,"b":{"c":[2,1],"d":"x"}}"#] {
        let before = desk.head().await;
        let written = desk.ok(put("plan", "plan-1", other)).await.entry;
        assert_eq!((written.seq, written.verb.as_str()), (before + 1, "updated"), "{other}");
    }
}

async fn a_delete_of_what_is_gone_or_never_was_adds_no_line(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(create("plan", "plan-1", r#"{"a":1}"#)).await;
    let gone = desk.ok(delete("plan", "plan-1")).await.entry;
    let tombstone = r#"{"seq":2,"resource":"plan","id":"plan-1","type":"deleted","deleted":true,"data":null}"#;
    assert_eq!(gone.raw, tombstone);
    for id in ["plan-1", "plan-never"] {
        let refusal = desk.refused(delete("plan", id)).await;
        assert_eq!(refusal, Refusal::EntityNotFound { entity: format!("plan/{id}") });
    }
    assert_eq!(desk.head().await, 2);
}

on_every_engine! {
    refusals_leave_no_hole,
    numbers_go_on_after_a_restart,
    each_log_counts_for_itself,
    numbers_go_past_two_to_the_thirty_first,
    numbers_end_at_two_to_the_fifty_third,
    what_changes_nothing_takes_no_number,
    a_delete_of_what_is_gone_or_never_was_adds_no_line,
}
