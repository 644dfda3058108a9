//! Random histories and what must hold after them.

use std::collections::BTreeMap;

use futures::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use scroll::change::{Fields, Selection, Seq};
use scroll::entity::types::Catalog;
use scroll::entity::{Answer, Command, Outcome};
use scroll::store::{ChunkSize, Depth, Scan};

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Engine};
use crate::support::commands::{
    action, batch, create, delete, entity_id, if_match, one, patch, put, remembered, resource, seq,
};
use crate::support::desk::Desk;
use crate::support::model::{Entry, naive_scan, parse_page};
use crate::support::run;

/// Histories per run; each has 8 to 20 steps of up to 12 commands.
const CASES: u32 = 40;

/// A write to one of a few entities, so that lives end, begin again and refer to each other.
#[derive(Debug, Clone)]
pub enum Write {
    Create { entity: u8, value: u8 },
    Put { entity: u8, value: u8 },
    Patch { entity: u8, value: u8 },
    Delete { entity: u8 },
    Action { entity: u8, name: u8 },
    PutIfMatch { entity: u8, value: u8, tag: u8 },
}

/// A step of a history.
#[derive(Debug, Clone)]
pub enum Step {
    One(Write),
    /// With an Idempotency-Key of a few, so that some are repeated.
    Keyed(u8, Write),
    Batch(Vec<Write>),
    /// Several clients at once; every second one sends a batch.
    Together(Vec<Vec<Write>>),
    Restart,
}

const ENTITIES: [(&str, &str); 9] = [
    ("customer", "c1"),
    ("customer", "c2"),
    ("subscription", "s1"),
    ("subscription", "s2"),
    ("subscription", "s3"),
    ("membership", "m1"),
    ("membership", "m2"),
    ("note", "n/1"),
    ("note", "ñ 2"),
];
const ACTIONS: [&str; 5] = ["cancel", "pause", "resume", "expire", "explode"];

fn name(entity: u8) -> (&'static str, &'static str) {
    ENTITIES[usize::from(entity) % ENTITIES.len()]
}

/// Data that mostly fits the schema and mostly refers to a customer of the two.
fn data(entity: u8, value: u8) -> String {
    let customer = ["c1", "c2", "c1", "c2", "c1", "c3"][usize::from(value) % 6];
    match name(entity).0 {
        "subscription" => {
            let status = ["active", "paused", "trialing", "past_due", "active", "nonsense"][usize::from(value / 3) % 6];
            let customer = if value % 4 != 3 { format!(r#","customer":"{customer}""#) } else { String::new() };
            format!(r#"{{"status":"{status}"{customer}}}"#)
        }
        "membership" => format!(r#"{{"customer":"{customer}","role":"r{}"}}"#, value % 4),
        _ => format!(r#"{{"v":{},"s":"\u2028é"}}"#, value % 3),
    }
}

impl Write {
    pub fn command(&self) -> Command {
        match *self {
            Write::Create { entity, value } => create(name(entity).0, name(entity).1, &data(entity, value)),
            Write::Put { entity, value } => put(name(entity).0, name(entity).1, &data(entity, value)),
            Write::Patch { entity, value } => {
                let members = [r#"{"v":null}"#, r#"{"x":1.0}"#, r#"{"customer":"c1"}"#, r#"{"customer":null}"#, "{}"];
                patch(name(entity).0, name(entity).1, members[usize::from(value) % members.len()])
            }
            Write::Delete { entity } => delete(name(entity).0, name(entity).1),
            Write::Action { entity, name: action_name } => {
                action(name(entity).0, name(entity).1, ACTIONS[usize::from(action_name) % ACTIONS.len()])
            }
            Write::PutIfMatch { entity, value, tag } => {
                let command = put(name(entity).0, name(entity).1, &data(entity, value));
                if_match(command, &format!("\"{}\"", tag % 32))
            }
        }
    }
}

fn write() -> impl Strategy<Value = Write> {
    let pick = || (0..ENTITIES.len() as u8, any::<u8>());
    prop_oneof![
        3 => pick().prop_map(|(entity, value)| Write::Create { entity, value }),
        7 => pick().prop_map(|(entity, value)| Write::Put { entity, value }),
        3 => pick().prop_map(|(entity, value)| Write::Patch { entity, value }),
        3 => pick().prop_map(|(entity, _)| Write::Delete { entity }),
        2 => pick().prop_map(|(entity, name)| Write::Action { entity, name }),
        1 => (pick(), any::<u8>()).prop_map(|((entity, value), tag)| Write::PutIfMatch { entity, value, tag }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let writes = |most: usize| prop::collection::vec(write(), 1..=most);
    prop_oneof![
        6 => write().prop_map(Step::One),
        1 => (0..4_u8, write()).prop_map(|(key, write)| Step::Keyed(key, write)),
        3 => writes(4).prop_map(Step::Batch),
        2 => prop::collection::vec(writes(3), 2..=4).prop_map(Step::Together),
        1 => Just(Step::Restart),
    ]
}

/// Every line that was given as an answer, by its seq.
type Answered = BTreeMap<i64, Entry>;

fn note_answer(answer: &Answer, answered: &mut Answered) {
    let lines = match &answer.result {
        Ok(Outcome::Entity { line, .. }) => std::slice::from_ref(line),
        Ok(Outcome::Batch { lines, .. }) => lines.as_slice(),
        Err(_) => &[],
    };
    for line in lines {
        let entry = Entry::parse(line.as_str());
        let known = answered.insert(entry.seq, entry.clone());
        assert!(known.is_none_or(|known| known == entry), "one seq was answered with two lines");
    }
}

/// Carries out a history and checks everything; gives back how many changes it made.
pub async fn carry_out(bed: &Bed, steps: &[Step]) -> usize {
    let catalog = Catalog::builtin();
    let (mut desk, mut answered) = (Desk::open(bed).await, Answered::new());
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::One(write) => {
                let before = desk.head().await;
                let answer = desk.submit(one(write.command())).await;
                assert!(answer.result.is_ok() || desk.head().await == before);
                note_answer(&answer, &mut answered);
            }
            Step::Keyed(key, write) => {
                let key = format!("k{key}");
                let submission = || remembered(one(write.command()), &key, &format!("{write:?}"), "r");
                let first = desk.submit(submission()).await;
                let again = desk.submit(submission()).await;
                assert_eq!(again.result, first.result, "step {number}");
                note_answer(&first, &mut answered);
            }
            Step::Batch(writes) => {
                let before = desk.head().await;
                let answer = desk.submit(batch(writes.iter().map(Write::command).collect())).await;
                assert!(answer.result.is_ok() || desk.head().await == before);
                note_answer(&answer, &mut answered);
            }
            Step::Together(clients) => {
                let clients = clients.iter().enumerate().map(|(client, writes)| {
                    let (store, log) = (desk.store.clone(), desk.log);
                    let commands = writes.iter().map(Write::command);
                    // Every second client sends a batch, so that refused ones fly beside what is carried out.
                    let submissions: Vec<_> = match client % 2 {
                        0 => commands.map(one).collect(),
                        _ => vec![batch(commands.collect())],
                    };
                    tokio::spawn(async move {
                        join_all(submissions.into_iter().map(|submission| store.write(log, submission))).await
                    })
                });
                for answers in join_all(clients.collect::<Vec<_>>()).await {
                    answers.unwrap().iter().for_each(|answer| note_answer(answer.as_ref().unwrap(), &mut answered));
                }
            }
            Step::Restart => desk = desk.reopened(bed).await,
        }
    }
    let log = check_everything(&desk, &catalog).await;
    for (seq, entry) in &answered {
        assert_eq!(log.get(*seq as usize - 1), Some(entry), "an answered line is in the log");
    }
    check_pages(&desk, &log).await;
    log.len()
}

/// Concatenated pages are the log, for several limits, filters and depths.
async fn check_pages(desk: &Desk, log: &[Entry]) {
    let head = log.len() as i64;
    let notes = Selection::entities(resource("note"), vec![entity_id("n/1"), entity_id("ñ 2")]);
    let people = Selection::resources(vec![resource("customer"), resource("membership")]);
    for (number, selection) in [Selection::All, notes, people].into_iter().enumerate() {
        for at in [head, head / 2] {
            for depth in [
                Depth::All,
                Depth::Newest { at: seq(at), skips_tombstones: true },
                Depth::Newest { at: seq(at), skips_tombstones: false },
            ] {
                let limit = [1, 3, 7][number];
                let (mut after, mut pages) = (Seq::ZERO, Vec::new());
                loop {
                    let scan = Scan { after, until: seq(at), selection: selection.clone(), depth };
                    let Some(last) = desk.extent(&scan, limit).await.last else { break };
                    let size = ChunkSize { lines: 2, bytes: 400 };
                    let page = desk.read(Scan { until: last, ..scan }, Fields::default(), size).await;
                    pages.extend(parse_page(&page));
                    after = last;
                }
                assert_eq!(pages, naive_scan(log, 0, at, &selection, depth), "{selection:?} {depth:?} {limit}");
            }
        }
    }
}

fn histories_hold(engine: Engine) {
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let changes = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(&prop::collection::vec(step(), 8..=20), |mut steps| {
            // Two customers, so that most references have a target.
            let customers = [0, 1].map(|entity| Write::Create { entity, value: 0 });
            steps.insert(0, Step::Batch(customers.to_vec()));
            let made = run(engine, |bed| async move { carry_out(&bed, &steps).await });
            changes.set(changes.get() + made);
            Ok(())
        })
        .unwrap();
    let changes = changes.get();
    assert!(changes > 8 * CASES as usize, "{CASES} histories made only {changes} changes");
}

#[test]
fn random_histories_hold_on_sqlite() {
    histories_hold(Engine::Sqlite);
}

#[test]
fn random_histories_hold_on_postgres() {
    if Engine::Postgres.is_there() {
        histories_hold(Engine::Postgres);
    }
}
