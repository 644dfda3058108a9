//! PostgreSQL stops and starts under load, a foreign transaction stays open, a database moves: clear
//! refusals meanwhile, everything goes on by itself, and nothing is lost or renumbered.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::support::cluster::{Machine, Stop};
use super::support::process::{Process, assert_in_order, shown_key};
use super::support::{Bed, Entry, TestServer, at_once, eventually, model, seed};

/// How soon everything must go on once the database is back.
const GOES_ON: Duration = Duration::from_secs(10);

fn put(server: &TestServer, id: &str) -> u16 {
    let answer = server.client.put(&format!("/v1/entities/note/{id}"), r#"{"n":1}"#);
    if answer.status == 503 {
        answer.refused(503, "store-unavailable");
    }
    answer.status
}

fn restarted_under_load(how: Stop) {
    const WRITERS: usize = 6;
    let Some(mut machine) = Machine::primary(&[]) else { return };
    let server = Bed::at(machine.url()).start();
    let (goes_on, acknowledged) = (AtomicBool::new(true), Mutex::new(Vec::<Entry>::new()));
    let count = || acknowledged.lock().unwrap().len();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (server, goes_on, acknowledged) = (&server, &goes_on, &acknowledged);
            scope.spawn(move || {
                for number in 0.. {
                    let path = format!("/v1/entities/note/{writer}-{number}");
                    let answer = server.client.put(&path, r#"{"n":1}"#);
                    match answer.status {
                        201 => acknowledged.lock().unwrap().push(answer.line()),
                        503 => drop(answer.refused(503, "store-unavailable")),
                        _ => panic!("{}", answer.told()),
                    }
                    if !goes_on.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        eventually("enough is written", || count() > 50);
        machine.stop(how);
        let refused = server.client.get("/readyz");
        refused.refused(503, "store-unavailable");
        assert!(refused.header("retry-after").is_some());
        server.client.get("/healthz").expect(200);
        assert_eq!(put(&server, "meanwhile"), 503);
        let before = count();
        machine.start();
        let began = Instant::now();
        eventually("everything goes on", || count() > before + 20 && server.client.get("/readyz").status == 200);
        assert!(began.elapsed() < GOES_ON, "only after {:?}", began.elapsed());
        goes_on.store(false, Ordering::Relaxed);
    });
    let lines = server.client.all_lines();
    model::assert_dense(&lines);
    for entry in acknowledged.into_inner().unwrap() {
        assert_eq!(lines[entry.seq as usize - 1], entry, "acknowledged, then lost");
    }
    assert_eq!(server.metrics.epochs_changed.get(), 0, "the same history goes on");
    server.stop();
    assert_in_order(&machine.url());
}

#[test]
fn a_crash_of_the_database_under_load_loses_nothing_and_heals_itself() {
    restarted_under_load(Stop::Crash);
}

#[test]
fn a_restart_of_the_database_under_load_loses_nothing_and_heals_itself() {
    restarted_under_load(Stop::Fast);
}

/// The obvious design draws a number and commits later: its readers walk past it. Here the same transaction
/// holds the row of a log, and only that log waits.
#[test]
fn a_transaction_that_stays_open_costs_nothing_and_stalls_one_log() {
    let Some(machine) = Machine::primary(&[]) else { return };
    let server = Bed::at(machine.url()).start();
    server.make_log("touched");
    let touched = server.client_for("touched", &scroll::access::Scope::ALL, None);
    let shell = machine.shell();
    shell.execute("CREATE TABLE naive (id bigint GENERATED ALWAYS AS IDENTITY, what text)");
    shell.execute(
        "BEGIN; INSERT INTO naive (what) VALUES ('slow'); \
         SELECT FROM scroll.logs WHERE name = 'touched' FOR NO KEY UPDATE",
    );
    let (began, held) = (Instant::now(), Duration::from_secs(2));
    let quick = machine.shell();
    let (mut naive, mut cursor, mut seen) = (0_i64, 0, Vec::new());
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let answer = touched.put("/v1/entities/note/n", "{}").expect(201);
            assert_eq!(answer.number("scroll-seq"), 1);
            began.elapsed()
        });
        for number in 0.. {
            let asked = Instant::now();
            quick.execute("INSERT INTO naive (what) VALUES ('quick')");
            naive = quick.get(&format!("SELECT coalesce(max(id), {naive}) FROM naive WHERE id > {naive}"));
            assert_eq!(put(&server, &format!("n{number}")), 201);
            let page = server.client.get(&format!("/v1/changes?since={cursor}")).expect(200);
            cursor = page.number("scroll-next");
            seen.extend(page.lines());
            assert!(asked.elapsed() < Duration::from_secs(1), "a log that nobody touched waited");
            if began.elapsed() > held {
                break;
            }
        }
        shell.execute("COMMIT");
        waiting.join().unwrap()
    });
    assert!(waited >= held, "the lock of a log was not held");
    let missed: i64 = quick.get(&format!("SELECT count(*) FROM naive WHERE what = 'slow' AND id <= {naive}"));
    assert_eq!(missed, 1, "the obvious design has lost a row, or this test shows nothing");
    let later: i64 = quick.get(&format!("SELECT count(*) FROM naive WHERE what = 'slow' AND id > {naive}"));
    assert_eq!(later, 0);
    model::assert_dense(&seen);
    assert_eq!(seen, server.client.all_lines());
    assert_eq!(touched.all_lines().len(), 1);
}

/// Copies a database with the tools of PostgreSQL.
fn dump_into(from: &Machine, to: &Machine, name: &str) -> String {
    to.shell().execute(&format!("CREATE DATABASE {name}"));
    let url = to.url().replace("/scroll", &format!("/{name}"));
    let program = |name: &str| super::support::postgres::binaries().unwrap().join(name);
    let mut dump = Command::new(program("pg_dump")).arg(from.url()).stdout(Stdio::piped()).spawn().unwrap();
    let restored = Command::new(program("psql"))
        .args(["-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", &url])
        .stdin(dump.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(restored.success() && dump.wait().unwrap().success());
    url
}

#[test]
fn a_dump_that_is_restored_keeps_order_and_numbers_and_a_new_cluster_is_a_new_epoch() {
    let Some(machine) = Machine::primary(&[]) else { return };
    let server = Bed::at(machine.url()).start();
    let lines = seed(&server.client);
    let key = server.client.key();
    let epoch = server.client.get("/v1/changes").expect(200).must("scroll-epoch").to_owned();
    server.stop();
    let elsewhere = Machine::primary(&[]).unwrap();
    for (to, is_same) in [(&machine, true), (&elsewhere, false)] {
        let url = dump_into(&machine, to, "restored");
        assert_in_order(&url);
        let server = Bed::at(url.clone()).start();
        let client = server.client_with(&key);
        assert_eq!(client.all_lines(), lines);
        let restored = client.get("/v1/changes").expect(200).must("scroll-epoch").to_owned();
        // The dump may be an old one: nothing in another cluster can tell.
        assert_eq!(restored == epoch, is_same);
        let next = client.put("/v1/entities/note/next", "{}").expect(201);
        assert_eq!(next.number("scroll-seq"), lines.len() as u64 + 1);
        server.stop();
        assert_in_order(&url);
    }
}

/// C006, with the real program.
#[test]
fn two_processes_share_a_log_and_one_goes_on_when_the_other_is_killed() {
    const WRITERS: usize = 8;
    let Some(machine) = Machine::primary(&[]) else { return };
    let first = Process::serve(&machine.url());
    let key = shown_key(&first.greeting);
    let second = Process::serve(&machine.url());
    let survivor = second.client(&key);
    let clients = [first.client(&key), second.client(&key)];
    let (acknowledged, is_killed) = (Mutex::new(Vec::<Entry>::new()), AtomicBool::new(false));
    let count = || acknowledged.lock().unwrap().len();
    let mut first = Some(first);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let client = &clients[writer % 2];
            let (client, acknowledged, is_killed) = (client.with_key(&client.key()), &acknowledged, &is_killed);
            scope.spawn(move || {
                for number in 0..400 {
                    let id = if number % 3 == 0 { "shared".to_owned() } else { format!("{writer}-{number}") };
                    let data = format!(r#"{{"writer":{writer},"number":{number}}}"#);
                    let asked = client.ask("PUT", &format!("/v1/entities/note/{id}")).json(&data).try_send();
                    match asked {
                        Ok(answer) if answer.status < 300 => acknowledged.lock().unwrap().push(answer.line()),
                        Ok(answer) => panic!("{}", answer.told()),
                        Err(_) => {
                            assert!(is_killed.load(Ordering::SeqCst) && writer % 2 == 0, "a server broke");
                            return;
                        }
                    }
                }
            });
        }
        eventually("both have written", || count() > 200);
        let pages = clients.each_ref().map(|client| client.get("/v1/changes?since=0&limit=150").expect(200));
        assert_eq!(pages[0].body, pages[1].body, "the same range is the same bytes");
        is_killed.store(true, Ordering::SeqCst);
        first.take().unwrap().kill();
    });
    let mut acknowledged = acknowledged.into_inner().unwrap();
    acknowledged.sort_by_key(|entry| entry.seq);
    let third = Process::serve(&machine.url());
    let feeds = at_once(2, |number| if number == 0 { survivor.all_lines() } else { third.client(&key).all_lines() });
    assert_eq!(feeds[0], feeds[1]);
    model::assert_dense(&feeds[0]);
    for entry in &acknowledged {
        assert_eq!(&feeds[0][entry.seq as usize - 1], entry);
    }
    // What is in the log and was never acknowledged was on its way through the one that was killed.
    let known: std::collections::BTreeSet<u64> = acknowledged.iter().map(|entry| entry.seq).collect();
    let unknown = feeds[0].iter().filter(|entry| !known.contains(&entry.seq));
    assert!(unknown.clone().count() <= WRITERS / 2, "{} lines nobody was told of", unknown.clone().count());
    for entry in unknown {
        assert_eq!(entry.data["writer"].as_u64().unwrap() % 2, 0, "{}", entry.raw);
    }
    assert!(acknowledged.len() > WRITERS / 2 * 400);
    drop((second, third));
    assert_in_order(&machine.url());
}
