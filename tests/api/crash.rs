//! C011: `kill -9` under load, again and again. What was acknowledged is there, nothing is half.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::support::process::{Process, assert_in_order, shown_key};
use super::support::{Bed, Client, model, on_every_engine};

on_every_engine![nothing_acknowledged_is_lost_and_nothing_is_half_after_kill_nine_under_load];

const WRITERS: usize = 8;
/// Rounds that share a database; then a new one keeps the audit after each round short.
const ROUNDS_PER_DATABASE: usize = 10;
const OPERATIONS_IN_BATCH: usize = 3;

/// One database that is killed several times.
struct Victim {
    bed: Bed,
    key: Option<String>,
    /// Every line that was acknowledged, by seq.
    acknowledged: BTreeMap<u64, String>,
}

fn nothing_acknowledged_is_lost_and_nothing_is_half_after_kill_nine_under_load(bed: Bed) {
    let rounds = std::env::var("SCROLL_TEST_CRASH_ROUNDS").map_or(50, |rounds| rounds.parse().unwrap());
    let mut acknowledged = 0;
    for first in (0..rounds).step_by(ROUNDS_PER_DATABASE) {
        let mut victim = Victim { bed: Bed::new(bed.engine), key: None, acknowledged: BTreeMap::new() };
        for round in first..rounds.min(first + ROUNDS_PER_DATABASE) {
            victim.round(round);
        }
        victim.restart_and_compare().kill();
        acknowledged += victim.acknowledged.len();
    }
    assert!(acknowledged > rounds * 10, "only {acknowledged} writes were acknowledged in {rounds} rounds");
}

impl Victim {
    /// Starts the server on what the last round left and compares.
    fn restart_and_compare(&mut self) -> Process {
        let process = Process::serve(&self.bed.url());
        if self.key.is_none() {
            self.key = Some(shown_key(&process.greeting));
        }
        assert_in_order(&self.bed.url());
        let lines = process.client(self.key.as_ref().unwrap()).all_lines();
        model::assert_dense(&lines);
        for (seq, line) in &self.acknowledged {
            assert_eq!(lines.get(*seq as usize - 1).map(|entry| &entry.raw), Some(line), "acknowledged, then lost");
        }
        let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
        lines.iter().filter_map(|entry| entry.data["batch"].as_str()).for_each(|name| {
            *parts.entry(name).or_default() += 1;
        });
        assert!(parts.values().all(|count| *count == OPERATIONS_IN_BATCH), "half a batch: {parts:?}");
        process
    }

    fn round(&mut self, round: usize) {
        let process = self.restart_and_compare();
        let client = process.client(self.key.as_ref().unwrap());
        let acknowledged = Mutex::new(Vec::new());
        let (begun, first_write) = channel();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (client, acknowledged, begun) = (client.with_key(&client.key()), &acknowledged, begun.clone());
                scope.spawn(move || {
                    for number in 0.. {
                        let Some(lines) = write(&client, round, writer, number) else { return };
                        acknowledged.lock().unwrap().extend(lines);
                        let _ = begun.send(());
                    }
                });
            }
            first_write.recv_timeout(super::support::PATIENCE).unwrap();
            // The moment of the crash: spread over 0 to 300 ms.
            let moment = Duration::from_millis((round as u64 * 97 + 13) % 300);
            let (_never, quiet) = channel::<()>();
            let _ = quiet.recv_timeout(moment);
            process.kill();
        });
        for (seq, line) in acknowledged.into_inner().unwrap() {
            assert_eq!(self.acknowledged.insert(seq, line), None, "seq {seq} was given twice");
        }
    }
}

/// One write; the lines that it was answered with, or `None` when the server is gone.
fn write(client: &Client, round: usize, writer: usize, number: usize) -> Option<Vec<(u64, String)>> {
    let own = format!("/v1/entities/note/{writer}-{}", number % 5);
    let data = format!(r#"{{"round":{round},"writer":{writer},"number":{number}}}"#);
    let asked = match number % 4 {
        0 => client.ask("PUT", &own).json(&data),
        1 => client.ask("PUT", "/v1/entities/note/shared").json(&data),
        2 => {
            let operation = |part: usize| {
                let name = format!("{round}-{writer}-{number}");
                format!(
                    r#"{{"op":"put","resource":"part","id":"{writer}-{part}","data":{{"batch":"{name}","part":{part}}}}}"#
                )
            };
            client
                .ask("POST", "/v1/batch")
                .ndjson(&(0..OPERATIONS_IN_BATCH).map(operation).collect::<Vec<_>>().join("\n"))
        }
        _ => client.ask("DELETE", &format!("/v1/entities/note/{writer}-{}", (number - 3) % 5)),
    };
    let answer = asked.try_send().ok()?;
    match answer.status {
        200 | 201 if answer.target == "/v1/batch" => {
            let text = answer.text();
            let lines = text.split_once('[').unwrap().1.strip_suffix("]}\n").unwrap();
            let lines = lines.replace("}},{\"seq\"", "}}\n{\"seq\"") + "\n";
            Some(model::parse_lines(lines.as_bytes()).into_iter().map(|entry| (entry.seq, entry.raw)).collect())
        }
        200 | 201 => {
            let entry = answer.line();
            Some(vec![(entry.seq, entry.raw)])
        }
        404 => Some(Vec::new()),
        _ => panic!("{}", answer.told()),
    }
}
