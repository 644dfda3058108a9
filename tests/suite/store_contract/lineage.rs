//! A database that goes back under a running server: the log gets a new epoch before anything is written on
//! top of it. (A failover to a standby is in tests/api/failover.rs.)

use std::sync::Arc;

use scroll::metrics::Metrics;

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::commands::{one, put, seq};
use crate::support::desk::{Desk, written};
use crate::support::on_engine;

/// Takes the newest changes away, as a copy of the disk that is put back does.
fn set_back(bed: &Bed, desk: &Desk, head: i64) {
    for table in ["changes", "entities"] {
        bed.execute(&format!("DELETE FROM {table} WHERE log_id = {} AND seq > {head}", desk.log.0));
    }
}

/// Ends every connection of the servers.
fn cut(bed: &Bed) {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(bed.number(sql) > 0);
}

async fn open(bed: &Bed) -> (Desk, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new().unwrap());
    let desk = Desk::open_with(bed, Options { metrics: metrics.clone(), ..Options::default() }).await;
    for number in 1..=5 {
        desk.ok(put("note", &format!("n{number}"), "{}")).await;
    }
    (desk, metrics)
}

async fn epoch(desk: &Desk) -> String {
    desk.store.position(desk.log).await.unwrap().epoch.0.to_string()
}

/// Until the store has compared the histories, as it does once a second.
async fn compared(desk: &Desk, histories: u64) {
    while desk.store.histories() == histories {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn a_log_that_went_back_gets_a_new_epoch_before_the_next_write(bed: Bed) {
    let (desk, metrics) = open(&bed).await;
    let neighbour = desk.neighbour("neighbour").await;
    neighbour.ok(put("note", "n", "{}")).await;
    let (old, untouched) = (epoch(&desk).await, epoch(&neighbour).await);
    set_back(&bed, &desk, 3);
    let written = desk.ok(put("note", "other", "{}")).await;
    assert_eq!(written.entry.seq, 4);
    assert_ne!(epoch(&desk).await, old);
    assert_eq!(epoch(&neighbour).await, untouched, "nothing of this log is lost");
    assert_eq!(metrics.epochs_changed.get(), 1);
    check_everything(&desk, &scroll::entity::types::Catalog::builtin()).await;
}

async fn a_head_that_went_back_is_found_without_a_write_and_shown_lower(bed: Bed) {
    let (desk, metrics) = open(&bed).await;
    let mut head = desk.store.head(desk.log).await.unwrap();
    assert_eq!(*head.borrow_and_update(), seq(5));
    let (old, histories) = (epoch(&desk).await, desk.store.histories());
    set_back(&bed, &desk, 2);
    head.wait_for(|head| *head == seq(2)).await.unwrap();
    compared(&desk, histories).await;
    assert_ne!(epoch(&desk).await, old);
    assert_eq!(metrics.epochs_changed.get(), 1);
}

/// Somebody else was faster and wrote another change under the lost number.
async fn a_number_that_was_given_to_another_change_is_found_when_servers_reconnect(bed: Bed) {
    let (desk, _) = open(&bed).await;
    let (old, histories) = (epoch(&desk).await, desk.store.histories());
    bed.execute(&format!("UPDATE changes SET time = time + 1 WHERE log_id = {} AND seq = 5", desk.log.0));
    cut(&bed);
    compared(&desk, histories).await;
    assert_ne!(epoch(&desk).await, old);
    written(desk.store.write(desk.log, one(put("note", "n", "{}"))).await.unwrap());
}

async fn a_change_that_was_purged_is_not_a_lost_one(bed: Bed) {
    let (desk, metrics) = open(&bed).await;
    let mut head = desk.store.head(desk.log).await.unwrap();
    let old = epoch(&desk).await;
    let other = Desk::open(&bed).await;
    other.ok(put("note", "n5", r#"{"newer":true}"#)).await;
    bed.execute("DELETE FROM changes WHERE seq = 5; UPDATE logs SET purged_through = 5");
    cut(&bed);
    // The connection that hears of this compares histories first.
    other.ok(put("note", "n", "{}")).await;
    head.wait_for(|head| *head == seq(7)).await.unwrap();
    assert!(metrics.listen_reconnects.get() > 0);
    assert_eq!((epoch(&desk).await, metrics.epochs_changed.get()), (old, 0));
}

on_engine!(
    on_postgres,
    Postgres,
    a_log_that_went_back_gets_a_new_epoch_before_the_next_write,
    a_head_that_went_back_is_found_without_a_write_and_shown_lower,
    a_number_that_was_given_to_another_change_is_found_when_servers_reconnect,
    a_change_that_was_purged_is_not_a_lost_one
);
