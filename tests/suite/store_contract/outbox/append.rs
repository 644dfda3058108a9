//! `scroll.append` and `scroll.append_delete`, called in an application's transaction.

use std::time::{Duration, Instant};

use scroll::entity::types::Catalog;

use super::{application, drained, settled, told};
use crate::support::audit::check_everything;
use crate::support::bed::Bed;
use crate::support::commands::{put, seq};
use crate::support::desk::Desk;
use crate::support::on_engine;
use crate::support::postgres::Shell;

async fn what_is_appended_becomes_lines_as_it_was_written(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute(
        r#"SELECT scroll.append('default', 'note', 'a', '{ "z": 1.50, "a": 1e400, "t": "\u0000\u2028 😀" }');
           SELECT scroll.append('default', 'note', 'b', '{"n":1}'::json, 'opened');
           SELECT scroll.append('default', 'note', 'c', '{"n":1}'::jsonb);
           SELECT scroll.append('default', 'note', 'a', '{"a":1e400,"z":1.50,"t":"\u0000\u2028 😀"}');
           SELECT scroll.append(log => 'default', resource => 'note', id => 'b', data => '{"n":2}');
           SELECT scroll.append_delete('default', 'note', 'never');
           SELECT scroll.append_delete('default', 'note', 'b', 'expired');
           SELECT scroll.append_delete('default', 'note', 'c')"#,
    );
    let lines = settled(&desk, &shell).await;
    assert_eq!(
        told(&lines),
        [
            r#"a created {"z":1.50,"a":1e400,"t":"\u0000\u2028 😀"}"#,
            r#"b opened {"n":1}"#,
            r#"c created {"n":1}"#,
            r#"b updated {"n":2}"#,
            "b expired null",
            "c deleted null",
        ]
    );
}

async fn what_is_rolled_back_never_was(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let shell = application(&bed);
    shell.execute("BEGIN; SELECT scroll.append('default', 'note', 'a', '{}'); ROLLBACK");
    shell.execute(
        "BEGIN; SELECT scroll.append('default', 'note', 'b', '{}');
         SAVEPOINT s; SELECT scroll.append('default', 'note', 'c', '{}'); ROLLBACK TO s;
         SAVEPOINT t; SELECT scroll.append('default', 'note', 'd', '{}'); RELEASE t; COMMIT",
    );
    assert_eq!(told(&settled(&desk, &shell).await), ["b created {}", "d created {}"]);
}

/// An append takes no lock that anybody waits for, and one that commits late is not lost: the reader of the naive
/// design, which remembers the highest number it saw, loses it (below).
async fn a_transaction_that_is_held_open_stalls_nobody_and_is_not_lost(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let (slow, quick) = (application(&bed), application(&bed));
    slow.execute("CREATE TABLE naive (n bigint GENERATED ALWAYS AS IDENTITY, who text)");
    slow.execute(
        "BEGIN; SELECT scroll.append('default', 'note', 'slow', '{}'); INSERT INTO naive (who) VALUES ('slow')",
    );
    let began = Instant::now();
    let (mut naive_cursor, mut naive_seen, mut rounds) = (0, 0, 0);
    while began.elapsed() < Duration::from_secs(2) {
        rounds += 1;
        quick.execute(&format!(
            "BEGIN; SELECT scroll.append('default', 'note', 'quick', '{{\"n\":{rounds}}}');
             INSERT INTO naive (who) VALUES ('quick'); COMMIT"
        ));
        desk.ok(put("note", "http", &format!(r#"{{"n":{rounds}}}"#))).await;
        let mut head = desk.store.head(desk.log).await.unwrap();
        let appended_and_put = seq(2 * rounds);
        head.wait_for(|head| *head >= appended_and_put).await.unwrap();
        naive_seen += quick.get::<i64>(&format!("SELECT count(*) FROM naive WHERE n > {naive_cursor}"));
        naive_cursor = quick.get::<i64>("SELECT max(n) FROM naive");
    }
    assert!(rounds >= 5, "only {rounds} rounds in 2 s");
    slow.execute("COMMIT");
    let lines = settled(&desk, &quick).await;
    assert_eq!(lines.len() as i64, 2 * rounds + 1);
    assert_eq!(told(&lines[2 * rounds as usize..]), ["slow created {}"]);
    naive_seen += quick.get::<i64>(&format!("SELECT count(*) FROM naive WHERE n > {naive_cursor}"));
    assert_eq!(naive_seen, rounds, "the naive reader was to lose exactly the slow row");
}

async fn a_lock_on_one_log_holds_up_no_other(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let neighbours = [desk.neighbour("x").await, desk.neighbour("y").await, desk.neighbour("z").await];
    let (shell, holder) = (application(&bed), application(&bed));
    let mut head = desk.store.head(desk.log).await.unwrap();
    holder.execute("BEGIN; SELECT FROM scroll.logs WHERE name IN ('x', 'y', 'z') FOR UPDATE");
    for log in ["x", "y", "z", "x", "default"] {
        shell.execute(&format!("SELECT scroll.append('{log}', 'note', 'n', '{{}}')"));
    }
    head.wait_for(|head| *head == seq(1)).await.unwrap();
    holder.execute("COMMIT");
    drained(&shell).await;
    for neighbour in &neighbours {
        assert_eq!(neighbour.lines().await.len(), 1);
    }
}

/// Dead rows that a snapshot keeps are not walked over again by every question: those that were drained before cost
/// nothing any more.
async fn a_long_snapshot_does_not_slow_the_drain_down(bed: Bed) {
    const ROWS: i64 = 20_000;
    const READ: &str = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'outbox'";
    const ASKED: &str = "SELECT sum(idx_scan)::bigint FROM pg_stat_user_indexes WHERE relname = 'outbox'";
    let desk = Desk::open(&bed).await;
    let (shell, dump) = (application(&bed), application(&bed));
    dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM scroll.outbox");
    shell.execute(&format!(
        "SELECT scroll.append('default', 'note', n::text, '{{}}') FROM generate_series(1, {ROWS}) AS n"
    ));
    drained(&shell).await;
    // The figures come with a delay: those of the backlog are in once questions are counted after it.
    let asked = |shell: &Shell| shell.get::<i64>(ASKED);
    let before = asked(&shell);
    let mut rounds = 0;
    while asked(&shell) < before + 100 {
        rounds += 1;
        shell.execute("SELECT scroll.append('default', 'note', 'late', '{}')");
        drained(&shell).await;
    }
    let (asked_before, read_before) = (asked(&shell), shell.get::<i64>(READ));
    while asked(&shell) < asked_before + 200 {
        rounds += 1;
        shell.execute(&format!("SELECT scroll.append('default', 'note', 'late', '{{\"n\":{rounds}}}')"));
        drained(&shell).await;
    }
    let read = shell.get::<i64>(READ) - read_before;
    let questions = asked(&shell) - asked_before;
    assert!(read / questions < 200, "{questions} questions read {read} rows, with {ROWS} dead ones kept");
    assert!(desk.head().await > ROWS);
    dump.execute("ROLLBACK");
}

/// Two servers, connections that are cut in the middle of their work, and a server that is taken down: every row
/// is a change once.
async fn rows_become_changes_exactly_once_whatever_breaks(bed: Bed) {
    const CUT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = \
                       current_database() AND application_name = 'scroll'";
    let (desk, other) = (Desk::open(&bed).await, Desk::open(&bed).await);
    let third = bed.open().await;
    let (shell, cutter) = (application(&bed), application(&bed));
    let url = bed.url();
    let writing = tokio::task::spawn_blocking(move || {
        Shell::connect(&url).execute(
            "DO $$ BEGIN FOR n IN 1..3000 LOOP
                 PERFORM scroll.append('default', 'note', 'n' || n % 60, json_build_object('n', n)::text);
                 PERFORM pg_sleep(0.0005);
                 COMMIT;
             END LOOP; END $$",
        );
    });
    let (mut cuts, mut third) = (0, Some(third));
    while !writing.is_finished() {
        tokio::time::sleep(Duration::from_millis(150)).await;
        cuts += cutter.get::<i64>(CUT);
        if let Some(third) = third.take_if(|_| cuts > 4) {
            Bed::close(third).await;
        }
    }
    writing.await.unwrap();
    assert!(cuts > 4 && third.is_none(), "only {cuts} connections were cut");
    let lines = settled(&desk, &shell).await;
    assert_eq!(lines.len(), 3_000);
    for id in 0..60 {
        let of_one: Vec<i64> = lines
            .iter()
            .filter(|entry| entry.id == format!("n{id}"))
            .map(|entry| entry.data["n"].as_i64().unwrap())
            .collect();
        assert!(of_one.is_sorted(), "n{id} went back in time: {of_one:?}");
    }
    assert_eq!(other.lines().await, lines);
    check_everything(&other, &Catalog::builtin()).await;
}

on_engine!(
    on_postgres,
    Postgres,
    what_is_appended_becomes_lines_as_it_was_written,
    what_is_rolled_back_never_was,
    a_transaction_that_is_held_open_stalls_nobody_and_is_not_lost,
    a_lock_on_one_log_holds_up_no_other,
    a_long_snapshot_does_not_slow_the_drain_down,
    rows_become_changes_exactly_once_whatever_breaks
);
