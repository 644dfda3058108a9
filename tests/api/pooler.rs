//! Behind a pooler in transaction mode, where every transaction may be in another session.

use std::time::{Duration, Instant};

use scroll::store::{Pooler, PostgresSettings};

use super::support::cluster::Machine;
use super::support::pgbouncer::Pgbouncer;
use super::support::process::run;
use super::support::{Bed, Entry, Options, TestServer, at_once, eventually, model, seed};

/// A database with a pooler before it.
struct Pooled {
    pgbouncer: Pgbouncer,
    machine: Machine,
}

impl Pooled {
    fn new() -> Option<Pooled> {
        let machine = Machine::primary(&[])?;
        let pgbouncer = Pgbouncer::before(&machine)?;
        Some(Pooled { pgbouncer, machine })
    }

    fn start(&self, listen_url: Option<String>) -> TestServer {
        let pooler = Pooler::Transaction;
        let postgres = PostgresSettings { accepts_data_loss: true, pooler, listen_url, ..PostgresSettings::default() };
        Bed::at(self.pgbouncer.url()).start_with(Options { postgres, ..Options::default() })
    }
}

#[test]
fn two_servers_share_the_sessions_of_a_pooler() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 8;
    let Some(pooled) = Pooled::new() else { return };
    let servers = [pooled.start(None), pooled.start(None)];
    let seeded = seed(&servers[0].client);
    let written = at_once(CLIENTS, |number| {
        let client = &servers[number % 2].client;
        let mut written: Vec<Entry> = Vec::new();
        for round in 0..ROUNDS {
            let path = format!("/v1/entities/customer/{number}-{}", round % 7);
            let asked = client.ask("PUT", &path).header("Idempotency-Key", &format!("{number}-{round}"));
            let answer = asked.json(&format!(r#"{{"name":"{round}"}}"#)).send();
            assert!(answer.status < 300, "{}", answer.told());
            let line = answer.line();
            // Another server has it within a second, without anybody telling.
            let other = &servers[(number + 1) % 2].client;
            let page = other.get(&format!("/v1/changes?since={}&limit=1&min_head={}", line.seq - 1, line.seq));
            assert_eq!(page.expect(200).lines(), std::slice::from_ref(&line));
            other.get("/v1/entities/customer?limit=3").expect(200);
            other.get("/v1/changes?since=0&compact=true&resource=customer").expect(200);
            written.push(line);
        }
        written
    });
    let mut expected: Vec<Entry> = seeded.into_iter().chain(written.concat()).collect();
    expected.sort_by_key(|entry| entry.seq);
    for server in &servers {
        assert_eq!(server.client.all_lines(), expected);
        server.client.get("/readyz").expect(200);
        assert_eq!(server.metrics.listen_reconnects.get(), 0, "the exchange of heads broke");
    }
    model::assert_dense(&expected);
    let arguments = ["check", "--database-url", &pooled.pgbouncer.url(), "--database-pooler", "transaction"];
    let checked = run(&arguments);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// What a session keeps, the next one to get it would meet.
#[test]
fn nothing_of_ours_stays_in_a_session_of_the_pooler() {
    let Some(pooled) = Pooled::new() else { return };
    let server = pooled.start(None);
    seed(&server.client);
    server.client.get("/v1/changes?since=0&compact=true").expect(200);
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'scroll' AND pid <> pg_backend_pid()";
    assert!(pooled.machine.shell().get::<i64>(sql) >= 1);
    let left = "SELECT (SELECT count(*) FROM pg_prepared_statements WHERE statement NOT LIKE '%pg_prepared%')::text \
                || current_setting('enable_seqscan') || current_setting('statement_timeout')";
    for _ in 0..20 {
        let shell = super::support::postgres::Shell::connect(&pooled.pgbouncer.url());
        shell.execute("BEGIN");
        assert_eq!(shell.get::<String>(left), "0on0");
        shell.execute("COMMIT");
    }
}

/// The limits of a transaction come with it: whoever waits for a lock is refused in time.
#[test]
fn a_lock_that_is_held_is_waited_for_as_long_as_without_a_pooler() {
    let Some(pooled) = Pooled::new() else { return };
    let server = pooled.start(None);
    let shell = pooled.machine.shell();
    shell.execute("BEGIN; SELECT FROM scroll.logs FOR UPDATE");
    let began = Instant::now();
    server.client.put("/v1/entities/note/n", "{}").refused(503, "busy");
    assert!((Duration::from_secs(9)..Duration::from_secs(14)).contains(&began.elapsed()), "{:?}", began.elapsed());
    shell.execute("COMMIT");
    server.client.put("/v1/entities/note/n", "{}").expect(201);
}

#[test]
fn a_way_past_the_pooler_makes_heads_heard_at_once() {
    let Some(pooled) = Pooled::new() else { return };
    let direct = Some(pooled.machine.url());
    let (here, there) = (pooled.start(direct.clone()), pooled.start(direct));
    let mut quickest = Duration::MAX;
    for number in 1..=20 {
        let seq = here.client.put(&format!("/v1/entities/note/{number}"), "{}").expect(201).number("scroll-seq");
        let began = Instant::now();
        there.client.get(&format!("/v1/changes?since=0&limit=1&min_head={seq}")).expect(200);
        quickest = quickest.min(began.elapsed());
    }
    assert!(quickest < Duration::from_millis(90), "only the poll was heard: {quickest:?}");
}

#[test]
fn what_applications_append_is_drained_behind_a_pooler() {
    const ROWS: u64 = 60;
    let Some(pooled) = Pooled::new() else { return };
    let servers = [pooled.start(None), pooled.start(None)];
    let shell = pooled.machine.shell();
    for row in 1..=ROWS {
        shell.execute(&format!("SELECT scroll.append('default', 'note', 'n{row}', '{{\"n\":{row}}}')"));
    }
    shell.execute("SELECT scroll.append('nowhere', 'note', 'n', '{}')");
    eventually("everything is drained", || servers[0].client.log_head() == ROWS);
    let lines = servers[1].client.all_lines();
    let written: Vec<String> = lines.iter().map(|line| line.id.clone()).collect();
    assert_eq!(written, (1..=ROWS).map(|row| format!("n{row}")).collect::<Vec<_>>());
    eventually("the row without a log is set aside", || {
        shell.get::<i64>("SELECT count(*) FROM scroll.outbox_refused") == 1
    });
}
