//! Closing: what was accepted is answered, what comes later is refused, and nothing is lost.

use std::time::Duration;

use futures::future::join_all;
use scroll::entity::types::Catalog;
use scroll::store::StoreError;

use crate::support::audit::check_everything;
use crate::support::bed::Bed;
use crate::support::commands::{key, log_name, one, put};
use crate::support::desk::{Desk, written};
use crate::support::on_every_engine;

async fn what_was_accepted_is_answered_and_kept(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let blocked = bed.hold_write_lock();
    let mut accepted: Vec<_> =
        (0..100).map(|n| Box::pin(desk.store.write(desk.log, one(put("note", &format!("n{n}"), "{}"))))).collect();
    for write in &mut accepted {
        assert!(futures::poll!(write).is_pending());
    }
    let mut closing = Box::pin(desk.store.close(Duration::from_secs(30)));
    assert!(futures::poll!(&mut closing).is_pending());
    let late = desk.store.write(desk.log, one(put("note", "late", "{}"))).await;
    assert!(matches!(late, Err(StoreError::Draining { .. })), "{late:?}");
    drop(blocked);
    let (answers, ()) = tokio::join!(join_all(accepted), closing);
    let mut seqs: Vec<i64> = answers.into_iter().map(|answer| written(answer.unwrap()).entry.seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=100).collect::<Vec<_>>());
    drop(desk);
    let desk = Desk::open(&bed).await;
    assert_eq!(check_everything(&desk, &Catalog::builtin()).await.len(), 100);
}

async fn a_closed_store_refuses_everything_as_draining(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    let (store, log) = (&desk.store, desk.log);
    store.close(Duration::from_secs(10)).await;
    let is_draining = |result: Option<StoreError>| matches!(result, Some(StoreError::Draining { .. }));
    assert!(is_draining(store.write(log, one(put("note", "n", "{}"))).await.err()));
    assert!(is_draining(store.create_log(&log_name("new")).await.err()));
    assert!(is_draining(store.position(log).await.err()));
    assert!(is_draining(store.entity(log, &key("note", "n")).await.err()));
    assert!(is_draining(store.ready().await.err()));
    store.close(Duration::from_secs(10)).await;
}

async fn a_store_is_ready_only_when_it_can_write(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.store.ready().await.unwrap();
    let blocked = bed.hold_write_lock();
    let asked = tokio::time::timeout(Duration::from_millis(100), desk.store.ready()).await;
    assert!(asked.is_err(), "ready although nothing can be written");
    drop(blocked);
    desk.store.ready().await.unwrap();
}

on_every_engine! {
    what_was_accepted_is_answered_and_kept,
    a_closed_store_refuses_everything_as_draining,
    a_store_is_ready_only_when_it_can_write,
}
