//! The rows that a table already has come into the log while applications go on writing it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use scroll::change::LogName;
use scroll::store::postgres::outbox::{Capture, Session};

use super::{application, audited, settled, told};
use crate::support::bed::Bed;
use crate::support::commands::resource;
use crate::support::desk::Desk;
use crate::support::model::fold;
use crate::support::on_engine;
use crate::support::postgres::Shell;

/// Rows of the table; `SCROLL_TEST_BACKFILL_ROWS=100000` for the size that is promised.
fn size() -> u32 {
    std::env::var("SCROLL_TEST_BACKFILL_ROWS").map_or(20_000, |rows| rows.parse().unwrap())
}

fn capture() -> Capture {
    Capture {
        table: "public.t".into(),
        resource: resource("row"),
        id: "id".into(),
        columns: None,
        log: LogName::parse("default").unwrap(),
    }
}

/// All of it, chunk by chunk; how many rows were brought.
async fn backfill(session: &mut Session, rows: u32) -> u64 {
    let (mut after, mut taken) = (None, 0);
    loop {
        let chunk = session.backfill_chunk(&capture(), after.as_deref(), rows).await.unwrap();
        taken += chunk.taken;
        for id in &chunk.busy {
            session.backfill_row(&capture(), id).await.unwrap();
            taken += 1;
        }
        match chunk.last {
            Some(last) => after = Some(last),
            None => return taken,
        }
    }
}

async fn a_backfill_under_constant_updates_has_no_seam(bed: Bed) {
    let (desk, _other) = (Desk::open(&bed).await, Desk::open(&bed).await);
    let shell = application(&bed);
    let size = size();
    shell.execute(&format!(
        "CREATE TABLE public.t (id int PRIMARY KEY, n int NOT NULL);
         INSERT INTO public.t SELECT n, 0 FROM generate_series(1, {size}) AS n"
    ));
    let mut session = Session::open(&bed.url()).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4_u32)
        .map(|writer| {
            let (url, is_done) = (bed.url(), is_done.clone());
            tokio::task::spawn_blocking(move || {
                let (shell, mut longest, mut round) = (Shell::connect(&url), Duration::ZERO, writer);
                while !is_done.load(Ordering::Relaxed) {
                    round = round.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let (one, two) = (round % size + 1, (round >> 8) % size + 1);
                    let began = Instant::now();
                    shell.execute(&match round % 7 {
                        0 => format!("DELETE FROM public.t WHERE id = {one}"),
                        1 => format!("INSERT INTO public.t VALUES ({one}, {round} % 1000) ON CONFLICT DO NOTHING"),
                        2 => format!("BEGIN; UPDATE public.t SET n = n + 1 WHERE id = {one}; ROLLBACK"),
                        _ => format!(
                            "BEGIN; UPDATE public.t SET n = n + 1 WHERE id = least({one}, {two}); \
                                      UPDATE public.t SET n = n + 1 WHERE id = greatest({one}, {two}); COMMIT"
                        ),
                    });
                    longest = longest.max(began.elapsed());
                }
                longest
            })
        })
        .collect();
    session.capture(&capture()).await.unwrap();
    let taken = backfill(&mut session, 500).await;
    is_done.store(true, Ordering::Relaxed);
    let mut longest = Duration::ZERO;
    for writer in writers {
        longest = longest.max(writer.await.unwrap());
    }
    let lines = audited(&desk, &shell).await;
    let live: BTreeMap<i64, i64> = fold(&lines)
        .into_values()
        .map(|entry| (entry.id.parse().unwrap(), entry.data["n"].as_i64().unwrap()))
        .collect();
    let rows: String = shell.get("SELECT string_agg(id || ' ' || n, ',' ORDER BY id) FROM public.t");
    let told: Vec<String> = live.iter().map(|(id, n)| format!("{id} {n}")).collect();
    assert_eq!(told.join(","), rows);
    assert!(taken > u64::from(size) / 2, "only {taken} rows were brought");
    assert!(longest < Duration::from_secs(5), "a writer was held up for {longest:?}");
    let before = lines.len();
    backfill(&mut session, 5_000).await;
    assert_eq!(audited(&desk, &shell).await.len(), before, "a second backfill changes nothing");
}

/// A row that somebody is writing is not waited for while others are locked, so that the application can never
/// be in a deadlock with a backfill; its turn comes alone.
async fn a_row_that_is_being_written_is_waited_for_alone(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let (shell, writer) = (application(&bed), application(&bed));
    shell.execute(
        "CREATE TABLE public.t (id text PRIMARY KEY, n int); INSERT INTO public.t VALUES ('', 1), ('b', 1), ('c', 1)",
    );
    let mut session = Session::open(&bed.url()).await.unwrap();
    session.capture(&capture()).await.unwrap();
    writer.execute("BEGIN; UPDATE public.t SET n = 2 WHERE id = 'b'");
    let chunk = session.backfill_chunk(&capture(), None, 10).await.unwrap();
    assert_eq!(
        (chunk.last.as_deref(), chunk.taken, chunk.busy.as_slice()),
        (Some("c"), 2, ["b".to_owned()].as_slice())
    );
    let mut waiting = std::pin::pin!(async { session.backfill_row(&capture(), "b").await });
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiting).await.is_err(), "it did not wait");
    // What it waits for did not happen.
    writer.execute("ROLLBACK");
    waiting.await.unwrap();
    let lines = settled(&desk, &shell).await;
    // An id without characters cannot be one.
    assert_eq!(told(&lines), [r#"c created {"id":"c","n":1}"#, r#"b created {"id":"b","n":1}"#]);
    let mut session = Session::open(&bed.url()).await.unwrap();
    assert_eq!(session.refused(0, 10).await.unwrap().len(), 1);
}

on_engine!(
    on_postgres,
    Postgres,
    a_backfill_under_constant_updates_has_no_seam,
    a_row_that_is_being_written_is_waited_for_alone
);
