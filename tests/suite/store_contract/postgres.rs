//! What only a database server can do: serve several of us at once, refuse to be durable, break a
//! connection, restart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use scroll::change::Seq;
use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::store::{OpenError, OpenMode, OpenSettings, PostgresSettings, Store, StoreError, open};

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::commands::{log_name, one, put, seq};
use crate::support::desk::{Desk, written};
use crate::support::{on_engine, postgres};

fn settings(url: String, accepts_data_loss: bool) -> OpenSettings {
    let postgres = PostgresSettings { accepts_data_loss, ..PostgresSettings::default() };
    OpenSettings { url, max_batch: 256, mode: OpenMode::Exclusive, postgres }
}

async fn open_at(bed: &Bed, url: String) -> Result<Arc<dyn Store>, OpenError> {
    let options = Options::default();
    open(settings(url, true), options.catalog, bed.clock.clone(), options.metrics).await
}

async fn several_servers_that_start_at_once_on_an_empty_database_all_come_up(bed: Bed) {
    let url = postgres::cluster().unwrap().empty_database();
    let servers = join_all((0..4).map(|_| open_at(&bed, url.clone()))).await;
    let servers: Vec<_> = servers.into_iter().map(Result::unwrap).collect();
    let log = servers[0].create_log(&log_name("default")).await.unwrap();
    for server in &servers {
        assert_eq!(server.log(&log_name("default")).await.unwrap().unwrap().id, log.id);
        written(server.write(log.id, one(put("note", "n", "{}"))).await.unwrap());
    }
}

async fn a_database_that_is_not_durable_is_refused_unless_told(bed: Bed) {
    let options = Options::default();
    let opened = open(settings(bed.url(), false), options.catalog, bed.clock.clone(), options.metrics).await;
    let refused = opened.err().unwrap();
    assert!(matches!(&refused, OpenError::NotDurable { found, .. } if found.contains("fsync=off")), "{refused}");
    assert!(open_at(&bed, bed.url()).await.is_ok());
}

async fn a_database_that_is_not_there_is_refused_without_its_password(bed: Bed) {
    let url = "postgres://scroll:hunter2@127.0.0.1:1/none".to_owned();
    let refused = open_at(&bed, url).await.err().unwrap();
    let words = refused.to_string();
    assert!(matches!(refused, OpenError::Unusable { .. }) && words.contains("127.0.0.1:1/none"), "{words}");
    assert!(!words.contains("hunter2"), "{words}");
}

/// The union of what two servers acknowledged is the log, and both show the same bytes.
async fn two_servers_write_one_log_in_one_order(bed: Bed) {
    let (here, there) = (Desk::open(&bed).await, Desk::open(&bed).await);
    assert_eq!(here.log, there.log);
    let mut waiting = Vec::new();
    for number in 0..600 {
        let desk = if number % 2 == 0 { &here } else { &there };
        let data = format!(r#"{{"n":{number}}}"#);
        waiting.push(desk.spawn(one(put("note", &format!("n{}", number % 50), &data))));
        if number % 20 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let mut answered = Vec::new();
    for answer in waiting {
        answered.push(written(answer.await.unwrap().unwrap()).entry);
    }
    answered.sort_by_key(|entry| entry.seq);
    assert_eq!(check_everything(&here, &Catalog::builtin()).await, answered);
    assert_eq!(there.lines().await, answered);
}

async fn a_head_that_another_server_moved_is_heard_of(bed: Bed) {
    let (here, there) = (Desk::open(&bed).await, Desk::open(&bed).await);
    let mut head = there.store.head(there.log).await.unwrap();
    let mut quickest = Duration::MAX;
    for number in 1..=20 {
        let written = here.ok(put("note", "n", &format!(r#"{{"n":{number}}}"#))).await;
        let began = Instant::now();
        head.wait_for(|head| head.get() == written.entry.seq).await.unwrap();
        quickest = quickest.min(began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(3), "heard of only after {:?}", began.elapsed());
    }
    assert!(quickest < Duration::from_millis(500), "only the poll was heard: {quickest:?}");
}

/// Whoever writes past every server is found by the poll.
async fn a_head_that_nobody_told_of_is_found(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    let mut head = desk.store.head(desk.log).await.unwrap();
    bed.execute(&format!(
        "INSERT INTO changes SELECT log_id, 2, resource, id, deleted, time, prev, 2, count, fingerprint, \
         resource_count, resource_fingerprint, line FROM changes WHERE log_id = {}",
        desk.log.0
    ));
    head.wait_for(|head| *head == seq(2)).await.unwrap();
}

const CUT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";

async fn reads_writes_and_heads_survive_cut_connections(bed: Bed) {
    let metrics = Arc::new(Metrics::new().unwrap());
    let desk = Desk::open_with(&bed, Options { metrics: metrics.clone(), ..Options::default() }).await;
    let other = Desk::open(&bed).await;
    let mut head = other.store.head(other.log).await.unwrap();
    for round in 1..=5 {
        assert!(bed.number(CUT) > 0);
        assert_eq!(desk.head().await, round - 1);
        let answered = desk.ok(put("note", "n", &format!(r#"{{"n":{round}}}"#))).await;
        assert_eq!(answered.entry.seq, round);
        head.wait_for(|head| head.get() == round).await.unwrap();
    }
    assert!(metrics.listen_reconnects.get() > 0);
    check_everything(&desk, &Catalog::builtin()).await;
}

/// Connections are cut all the time while many write: what was answered is in the log, nothing is in it
/// twice, and what was not answered was refused as unavailable.
async fn what_is_acknowledged_under_cut_connections_is_in_the_log_once(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let cutter = async {
        for _ in 0..25 {
            tokio::time::sleep(Duration::from_millis(40)).await;
            bed.number(CUT);
        }
    };
    let clients = (0..16).map(|client| {
        let desk = &desk;
        async move {
            let mut acknowledged = Vec::new();
            for round in 0..60 {
                let data = format!(r#"{{"n":{round}}}"#);
                match desk.store.write(desk.log, one(put("note", &format!("c{client}"), &data))).await {
                    Ok(answer) => acknowledged.push(written(answer).entry),
                    Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            acknowledged
        }
    });
    let (acknowledged, ()) = tokio::join!(join_all(clients), cutter);
    let acknowledged: Vec<_> = acknowledged.concat();
    let lines = check_everything(&desk, &Catalog::builtin()).await;
    assert!(acknowledged.len() > 100, "only {} of 960 came through", acknowledged.len());
    for entry in &acknowledged {
        assert_eq!(&lines[entry.seq as usize - 1], entry);
    }
    let mut names: Vec<_> = lines.iter().map(|entry| (entry.id.clone(), entry.data.to_string())).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), lines.len(), "a write happened twice");
}

/// A foreign transaction that holds a snapshot, or writes elsewhere, stalls nobody.
async fn an_open_transaction_elsewhere_stalls_nothing(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let neighbour = desk.neighbour("neighbour").await;
    let shell = postgres::Shell::connect(&bed.url());
    shell.execute(&format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM scroll.changes; \
         SELECT FROM scroll.logs WHERE log_id = {} FOR UPDATE; CREATE TABLE scroll.elsewhere (x int)",
        neighbour.log.0
    ));
    let began = Instant::now();
    for number in 0..20 {
        desk.ok(put("note", "n", &format!(r#"{{"n":{number}}}"#))).await;
    }
    assert_eq!(desk.lines().await.len(), 20);
    assert!(began.elapsed() < Duration::from_secs(8));
    shell.execute("ROLLBACK");
    neighbour.ok(put("note", "n", "{}")).await;
}

async fn a_long_path_can_be_remembered(bed: Bed) {
    use scroll::entity::{IdempotentRequest, RequestKey};
    let desk = Desk::open(&bed).await;
    let random: String =
        (0..6_000_u32).map(|n| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 27) as u8 % 26)).collect();
    let request = |last: char| {
        let key = RequestKey { method: "POST".into(), path: format!("/{random}{last}"), key: "k".into() };
        let idempotency = Some(IdempotentRequest { key, body_hash: vec![1] });
        scroll::entity::Submission { idempotency, ..one(put("note", &last.to_string(), "{}")) }
    };
    for last in ['a', 'b'] {
        assert!(!desk.submit(request(last)).await.is_replayed);
    }
    for last in ['a', 'b'] {
        assert!(desk.submit(request(last)).await.is_replayed);
    }
    assert_eq!(desk.store.position(desk.log).await.unwrap().head, Seq::new(2).unwrap());
}

/// A write is sent before the lock is known to be held, so it carries the transaction that took it.
async fn a_flight_outside_the_transaction_that_holds_the_lock_is_not_written(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    let shell = postgres::Shell::connect(&bed.url());
    let flight = |xid: &str| {
        format!(
            "SELECT scroll.write_flight({}, {xid}, 2, 0, '{{note}}', '{{m}}', '{{f}}', '{{NULL}}', '{{2}}', '{{2}}', \
             '{{0}}', '{{2}}', '{{0}}', '{{x}}', '{{1}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', \
             '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')",
            desk.log.0
        )
    };
    let refused = shell.refused(&flight("'3'"));
    assert!(refused.contains("transaction that holds the lock"), "{refused}");
    assert_eq!(desk.head().await, 1);
    shell.execute(&format!("BEGIN; {}; ROLLBACK", flight("pg_current_xact_id()::text")));
}

on_engine!(
    on_postgres,
    Postgres,
    a_flight_outside_the_transaction_that_holds_the_lock_is_not_written,
    several_servers_that_start_at_once_on_an_empty_database_all_come_up,
    a_database_that_is_not_durable_is_refused_unless_told,
    a_database_that_is_not_there_is_refused_without_its_password,
    two_servers_write_one_log_in_one_order,
    a_head_that_another_server_moved_is_heard_of,
    a_head_that_nobody_told_of_is_found,
    reads_writes_and_heads_survive_cut_connections,
    what_is_acknowledged_under_cut_connections_is_in_the_log_once,
    an_open_transaction_elsewhere_stalls_nothing,
    a_long_path_can_be_remembered
);
