//! A network that fails in the middle of commits: acknowledged is in the log once, refused is in it once or
//! not at all, and an Idempotency-Key finds out which.

use std::time::{Duration, Instant};

use super::support::cluster::Machine;
use super::support::process::assert_in_order;
use super::support::proxy::{Fault, Proxy};
use super::support::{Answer, Bed, TestServer, at_once, eventually, model};

/// A server with a bad network before its database.
struct Line {
    machine: Machine,
    proxy: Proxy,
    server: TestServer,
}

impl Line {
    fn new() -> Option<Line> {
        let machine = Machine::primary(&[])?;
        let proxy = Proxy::before(machine.port);
        let server = Bed::at(format!("postgres://postgres@127.0.0.1:{}/scroll", proxy.port)).start();
        Some(Line { machine, proxy, server })
    }

    fn put(&self, id: &str) -> Answer {
        let asked = self.server.client.ask("PUT", &format!("/v1/entities/note/{id}"));
        asked.header("Idempotency-Key", id).json(&format!(r#"{{"n":"{id}"}}"#)).send()
    }

    /// A new entity, without anything to tell a repetition by.
    fn post(&self, name: &str) -> Answer {
        self.server.client.post("/v1/entities/note", &format!(r#"{{"n":"{name}"}}"#))
    }
}

#[test]
fn what_is_acknowledged_through_a_failing_network_is_in_the_log_exactly_once() {
    const WRITERS: usize = 8;
    const FAULTS: usize = 40;
    let Some(line) = Line::new() else { return };
    let faults = [Fault::CutBefore, Fault::CutAfter, Fault::HalfClose, Fault::Delay(Duration::from_millis(30))];
    let met = || line.proxy.faults();
    let acknowledged = at_once(WRITERS + 1, |writer| {
        let mut acknowledged = Vec::new();
        if writer == WRITERS {
            for number in 0..FAULTS {
                line.proxy.fail_next(faults[number % faults.len()]);
                eventually("a commit met the fault", || met() > number);
            }
            return acknowledged;
        }
        let mut number = 0;
        while met() < FAULTS {
            let id = format!("{writer}-{number}");
            let has_key = writer % 2 == 0;
            let answer = if has_key { line.put(&id) } else { line.post(&id) };
            match answer.status {
                201 => acknowledged.push(answer.line()),
                // It happened or not; the same key asks again, and without one the next is written.
                503 if has_key => {
                    answer.refused(503, "store-unavailable");
                    continue;
                }
                503 => drop(answer.refused(503, "store-unavailable")),
                _ => panic!("{}", answer.told()),
            }
            number += 1;
        }
        acknowledged
    });
    let mut acknowledged = acknowledged.concat();
    acknowledged.sort_by_key(|entry| entry.seq);
    let lines = line.server.client.all_lines();
    model::assert_dense(&lines);
    let names: std::collections::BTreeSet<&str> = lines.iter().map(|entry| entry.data["n"].as_str().unwrap()).collect();
    assert_eq!(names.len(), lines.len(), "a write happened twice");
    for entry in &acknowledged {
        assert_eq!(&lines[entry.seq as usize - 1], entry, "acknowledged, and not what the log has");
    }
    assert!(acknowledged.len() > FAULTS, "only {} came through", acknowledged.len());
    drop(line.server);
    assert_in_order(&line.machine.url());
}

/// The database cannot be asked what became of a commit whose answer was lost.
fn unknown_outcome(fault: Fault, is_committed: bool) {
    let Some(line) = Line::new() else { return };
    line.put("before").expect(201);
    line.proxy.break_down_at(fault);
    let began = Instant::now();
    let refused = line.put("unknown");
    refused.refused(503, "store-unavailable");
    assert!(refused.header("retry-after").is_some());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let found: i64 = line.machine.shell().get("SELECT count(*) FROM scroll.changes WHERE id = 'unknown'");
    assert_eq!(found, i64::from(is_committed));
    line.server.client.get("/readyz").refused(503, "store-unavailable");
    line.proxy.heal();
    eventually("the same key gets an answer", || {
        let answer = line.put("unknown");
        if answer.status == 201 {
            assert_eq!(answer.header("idempotent-replayed").is_some(), is_committed);
            assert_eq!(answer.number("scroll-seq"), 2);
        }
        answer.status == 201
    });
    let ids: Vec<String> = line.server.client.all_lines().into_iter().map(|entry| entry.id).collect();
    assert_eq!(ids, ["before", "unknown"]);
}

#[test]
fn an_unknown_outcome_that_happened_is_503_and_its_key_gives_the_answer() {
    unknown_outcome(Fault::CutAfter, true);
}

#[test]
fn an_unknown_outcome_that_did_not_happen_is_503_and_its_key_makes_it_happen() {
    unknown_outcome(Fault::CutBefore, false);
}
