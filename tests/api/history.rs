//! Random histories over HTTP: several writers, batches with refusals, a restart in between; then the log
//! is dense, folds to the entities, and its pages of every small limit are the log.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::pages::follow;
use super::support::{Bed, Client, Engine, at_once, fold, model, process};

const WRITERS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Put {
        id: u8,
        value: u8,
    },
    Patch {
        id: u8,
        value: u8,
    },
    Delete {
        id: u8,
    },
    Cancel {
        id: u8,
    },
    /// Puts, the last of them refused when `is_refused`.
    Batch {
        ids: Vec<u8>,
        value: u8,
        is_refused: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0u8..6;
    prop_oneof![
        3 => (id.clone(), 0u8..4).prop_map(|(id, value)| Step::Put { id, value }),
        2 => (id.clone(), 0u8..4).prop_map(|(id, value)| Step::Patch { id, value }),
        2 => id.clone().prop_map(|id| Step::Delete { id }),
        1 => id.clone().prop_map(|id| Step::Cancel { id }),
        2 => (prop::collection::vec(id, 1..4), 0u8..4, any::<bool>()).prop_map(|(ids, value, is_refused)| Step::Batch { ids, value, is_refused }),
    ]
}

/// Carries a step out; the seqs that it was told.
fn carry_out(client: &Client, step: &Step) -> Vec<u64> {
    let target = |id: &u8| format!("/v1/entities/subscription/{id}");
    let answer = match step {
        Step::Put { id, value } => client.put(&target(id), &format!("{{\"status\":\"active\",\"v\":{value}}}")),
        Step::Patch { id, value } => client.patch(&target(id), &format!("{{\"v\":{value}}}")),
        Step::Delete { id } => client.delete(&target(id)),
        Step::Cancel { id } => client.post(&format!("{}/cancel", target(id)), "{}"),
        Step::Batch { ids, value, is_refused } => {
            let operation = |id: &u8| {
                format!("{{\"op\":\"put\",\"resource\":\"note\",\"id\":\"{id}\",\"data\":{{\"v\":{value}}}}}")
            };
            let mut lines: Vec<String> = ids.iter().map(operation).collect();
            if *is_refused {
                lines.push("{\"op\":\"delete\",\"resource\":\"note\",\"id\":\"nobody\"}".to_owned());
            }
            client.ask("POST", "/v1/batch").ndjson(&lines.join("\n")).send()
        }
    };
    match (answer.status, step) {
        (200, Step::Batch { is_refused: false, .. }) => {
            let body = answer.json();
            body["changes"].as_array().unwrap().iter().map(|line| line["seq"].as_u64().unwrap()).collect()
        }
        (404, Step::Batch { is_refused: true, .. }) => Vec::new(),
        (200 | 201, Step::Put { .. } | Step::Patch { .. } | Step::Delete { .. } | Step::Cancel { .. }) => {
            vec![answer.number("scroll-seq")]
        }
        (404, Step::Patch { .. } | Step::Delete { .. } | Step::Cancel { .. }) | (409, Step::Cancel { .. }) => {
            Vec::new()
        }
        _ => panic!("{step:?}: {}", answer.told()),
    }
}

fn check(client: &Client) -> Vec<super::support::Entry> {
    let log = client.all_lines();
    model::assert_dense(&log);
    let live = fold(&log);
    for resource in ["subscription", "note"] {
        let of_log: Vec<String> =
            live.values().filter(|entry| entry.resource == resource).map(|entry| entry.raw.clone()).collect();
        if resource == "subscription" || log.iter().any(|entry| entry.resource == resource) {
            assert_eq!(model::listed(client, resource, 2), of_log);
        }
    }
    for limit in [1, 2, 3, 7] {
        assert_eq!(follow(client, &format!("/v1/changes?limit={limit}")).0, log, "limit {limit}");
    }
    let compact = client.get("/v1/changes?compact=true&limit=1000").expect(200);
    assert_eq!(fold(&compact.lines()), live);
    assert_eq!(compact.must("scroll-checkpoint"), model::checkpoint(log.len() as u64, &log));
    log
}

#[test]
fn random_histories_are_dense_fold_to_the_entities_and_survive_a_restart() {
    let mut runner =
        TestRunner::new(Config { cases: 8, max_shrink_iters: 40, failure_persistence: None, ..Config::default() });
    let histories = prop::collection::vec(prop::collection::vec(step(), 8..25), WRITERS * 2);
    runner
        .run(&histories, |histories| {
            let bed = Bed::new(Engine::Sqlite);
            let mut before = Vec::new();
            for phase in histories.chunks(WRITERS) {
                let server = bed.start();
                let told = at_once(phase.len(), |writer| {
                    let client = server.client_with(&server.client.key());
                    phase[writer].iter().flat_map(|step| carry_out(&client, step)).collect::<Vec<_>>()
                });
                let log = check(&server.client);
                assert_eq!(log[..before.len()], before[..], "what was there stays");
                assert!(told.into_iter().flatten().all(|seq| seq >= 1 && seq <= log.len() as u64));
                before = log;
                server.stop();
            }
            assert!(!before.is_empty());
            process::assert_in_order(&bed.url());
            Ok(())
        })
        .unwrap();
}
