//! The primary dies and a standby takes over, while clients write and read. What was acknowledged is there,
//! or the log says that it is another one now: never silence.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::support::cluster::{Machine, Stop};
use super::support::process::assert_in_order;
use super::support::{Answer, Bed, Entry, TestServer, eventually, model};

const WRITERS: usize = 6;
/// Acknowledged writes before the primary dies, and after it did.
const ENOUGH: usize = 60;

fn put(server: &TestServer, id: &str) -> Answer {
    server.client.put(&format!("/v1/entities/note/{id}"), r#"{"n":1}"#)
}

fn epoch(server: &TestServer) -> String {
    server.client.get("/v1/changes?since=0&limit=1").expect(200).must("scroll-epoch").to_owned()
}

/// Writes until it gets through; everything before must be a clear refusal.
fn put_until_acknowledged(server: &TestServer, id: &str) -> Answer {
    let mut done = None;
    eventually("a write gets through again", || {
        let answer = put(server, id);
        match answer.status {
            201 => done = Some(answer),
            503 => assert_eq!(answer.refused(503, "store-unavailable")["status"], 503),
            _ => panic!("{}", answer.told()),
        }
        done.is_some()
    });
    done.unwrap()
}

/// Many clients that write, one that reads, and what they were told.
struct Load {
    goes_on: AtomicBool,
    acknowledged: Mutex<BTreeMap<u64, String>>,
}

impl Load {
    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    fn is_on(&self) -> bool {
        self.goes_on.load(Ordering::Relaxed)
    }

    fn write(&self, server: &TestServer, writer: usize) {
        for number in 0.. {
            let answer = put(server, &format!("{writer}-{number}"));
            match answer.status {
                201 => {
                    let line = answer.line();
                    let before = self.acknowledged.lock().unwrap().insert(line.seq, line.raw);
                    assert_eq!(before, None, "a number was given twice");
                }
                503 => {}
                _ => panic!("{}", answer.told()),
            }
            if !self.is_on() {
                return;
            }
        }
    }

    /// Follows the feed from cursor to cursor.
    fn read(&self, server: &TestServer) -> Vec<Entry> {
        let (mut lines, mut cursor) = (Vec::new(), 0);
        while self.is_on() {
            let answer = server.client.get(&format!("/v1/changes?since={cursor}&limit=1000"));
            if answer.status == 503 {
                continue;
            }
            let answer = answer.expect(200);
            cursor = answer.number("scroll-next");
            lines.extend(answer.lines());
        }
        lines
    }
}

#[test]
fn a_synchronous_failover_under_load_loses_nothing_and_keeps_the_epoch() {
    let Some(mut primary) = Machine::primary(&[]) else { return };
    let standby = primary.standby();
    primary.set("synchronous_standby_names", "standby");
    let bed = Bed::at(primary.url_with(&standby));
    let server = bed.start();
    let epoch_before = epoch(&server);
    let load = Load { goes_on: AtomicBool::new(true), acknowledged: Mutex::default() };
    let seen = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (load, server) = (&load, &server);
            scope.spawn(move || load.write(server, writer));
        }
        let reader = scope.spawn(|| load.read(&server));
        eventually("enough is written", || load.count() > ENOUGH);
        primary.stop(Stop::Crash);
        let before = load.count();
        standby.promote();
        eventually("everything goes on by itself", || load.count() > before + ENOUGH);
        load.goes_on.store(false, Ordering::Relaxed);
        reader.join().unwrap()
    });
    let lines = server.client.all_lines();
    model::assert_dense(&lines);
    for (seq, line) in load.acknowledged.into_inner().unwrap() {
        assert_eq!(lines[seq as usize - 1].raw, line, "acknowledged, then lost");
    }
    assert_eq!(seen, lines[..seen.len()], "what a reader saw is gone");
    assert_eq!(epoch(&server), epoch_before);
    assert_eq!(server.metrics.epochs_changed.get(), 0);
    server.stop();
    assert_in_order(&standby.url());
}

#[test]
fn a_server_that_starts_after_a_synchronous_failover_keeps_the_epoch() {
    let Some(mut primary) = Machine::primary(&[]) else { return };
    let standby = primary.standby();
    primary.set("synchronous_standby_names", "standby");
    let server = Bed::at(primary.url()).start();
    put(&server, "a").expect(201);
    let (before, lines) = (epoch(&server), server.client.all_lines());
    server.stop();
    primary.stop(Stop::Crash);
    standby.promote();
    let server = Bed::at(standby.url()).start();
    assert_eq!((epoch(&server), server.client.all_lines()), (before, lines));
    // From now on nothing waits for a standby, and that is known.
    let origin: String = standby.shell().get("SELECT value FROM scroll.settings WHERE name = 'lineage'");
    assert!(origin.ends_with("/00000002/asynchronous"), "{origin}");
}

/// A primary that has acknowledged 5 writes which its standby has, and 4 which it has not.
struct Lossy {
    primary: Machine,
    standby: Machine,
}

impl Lossy {
    fn new() -> Option<Lossy> {
        let primary = Machine::primary(&[])?;
        let standby = primary.standby();
        Some(Lossy { primary, standby })
    }

    fn bed(&self) -> Bed {
        Bed::at(self.primary.url_with(&self.standby))
    }

    fn write(&mut self, server: &TestServer) {
        for number in 1..=5 {
            put(server, &format!("kept{number}")).expect(201);
        }
        self.standby.wait_for_replay_of(&self.primary);
        self.standby.stop(Stop::Fast);
        for number in 6..=9 {
            assert_eq!(put(server, &format!("lost{number}")).expect(201).number("scroll-seq"), number);
        }
    }

    fn fail_over(&mut self) {
        self.primary.stop(Stop::Crash);
        self.standby.start();
        self.standby.promote();
    }
}

#[test]
fn a_failover_that_lost_commits_is_never_silent() {
    let Some(mut pair) = Lossy::new() else { return };
    let bed = pair.bed();
    let (server, other) = (bed.start(), bed.start());
    server.make_log("neighbour");
    pair.write(&server);
    let old = epoch(&server);
    assert_eq!(other.client.get("/v1/changes?since=0&min_head=9").expect(200).lines().len(), 9);
    let entity = other.client.get("/v1/entities/note/kept1").expect(200);
    assert_eq!(entity.must("scroll-epoch"), old);
    pair.fail_over();
    // The first write that gets through is the next one of another history.
    let answer = put_until_acknowledged(&server, "new6");
    assert_eq!(answer.number("scroll-seq"), 6);
    let new = answer.must("scroll-epoch").to_owned();
    assert_ne!(new, old);
    for server in [&server, &other] {
        eventually("this server knows the new history", || {
            let answer = server.client.get("/v1/entities/note/kept1");
            answer.status == 200 && answer.must("scroll-epoch") == new
        });
        let changed = server.client.get(&format!("/v1/changes?since=5&epoch={old}")).refused(409, "epoch-changed");
        assert_eq!((&changed["expected"], &changed["epoch"]), (&old.as_str().into(), &new.as_str().into()));
        let ahead = server.client.get("/v1/changes?since=9").refused(409, "cursor-ahead");
        assert_eq!((&ahead["head"], &ahead["epoch"]), (&6.into(), &new.as_str().into()));
        // A head that was lost is waited for like any that is not there yet.
        server.client.get("/v1/changes?since=0&min_head=8").refused(503, "replica-behind");
        let lines = server.client.all_lines();
        model::assert_dense(&lines);
        assert_eq!(lines.iter().map(|line| line.id.as_str()).collect::<Vec<_>>()[4..], ["kept5", "new6"]);
    }
    // Each log got one new epoch, whoever of the servers gave it.
    let renewed = server.metrics.epochs_changed.get() + other.metrics.epochs_changed.get();
    assert_eq!(renewed, 2);
    assert_eq!(epoch(&other), new);
    server.stop();
    other.stop();
    assert_in_order(&pair.standby.url());
}

#[test]
fn a_server_that_starts_after_a_failover_which_may_have_lost_commits_gives_new_epochs() {
    let Some(mut pair) = Lossy::new() else { return };
    let server = pair.bed().start();
    pair.write(&server);
    let old = epoch(&server);
    server.stop();
    pair.fail_over();
    let server = Bed::at(pair.standby.url()).start();
    assert_ne!(epoch(&server), old);
    server.client.get(&format!("/v1/changes?since=9&epoch={old}")).refused(409, "epoch-changed");
    // Another start on the same timeline changes nothing more.
    let new = epoch(&server);
    server.stop();
    assert_eq!(epoch(&Bed::at(pair.standby.url()).start()), new);
}
