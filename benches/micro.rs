//! Where the time of one write and of one read goes, without disk and network.
//!
//! `cargo bench --bench micro`. These are for finding out what a change to the hot path did; what a user sees
//! is measured by the load program.

#![allow(missing_docs, reason = "criterion's macros make public functions")]
#![allow(clippy::unwrap_used, reason = "fixed inputs")]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use scroll::change::line::{Extras, append_line};
use scroll::change::{EntityId, EntityKey, Fields, Json, Line, Resource, Seq, Tally, Timestamp, Verb, json};
use scroll::entity::types::Catalog;
use scroll::entity::{Bounds, Command, Facts, Flight, Live, Operation, Preconditions, Submission, Work};
use scroll::feed::lines::pieces;

/// Submissions of one flight: the default of `--max-batch`.
const FLIGHT: i64 = 256;
/// Lines of one chunk: about 256 KiB.
const CHUNK_LINES: i64 = 560;

/// An object of 300 bytes.
fn body(version: i64) -> String {
    let head =
        format!(r#"{{"id":"inv-1","version":{version},"status":"open","amount":12345.67,"lines":[1,2,3],"note":""#);
    let filling = "x".repeat(298 - head.len());
    format!(r#"{head}{filling}"}}"#)
}

fn key(number: i64) -> EntityKey {
    EntityKey { resource: Resource::parse("invoice").unwrap(), id: EntityId::parse(&format!("inv-{number}")).unwrap() }
}

fn seq(value: i64) -> Seq {
    Seq::new(value).unwrap()
}

fn line(number: i64) -> Line {
    Line::render(seq(number), &key(number), &Verb::updated(), false, Some(&body(number)))
}

fn one_body(criterion: &mut Criterion) {
    let text = body(7);
    let mut group = criterion.benchmark_group("body of 300 bytes");
    group.throughput(Throughput::Bytes(300));
    group.bench_function("parse", |bench| bench.iter(|| json::parse(black_box(text.as_bytes())).unwrap()));
    let parsed = json::parse(text.as_bytes()).unwrap();
    group.bench_function("write", |bench| bench.iter(|| black_box(&parsed).to_string()));
    let (key, verb) = (key(1), Verb::updated());
    group.bench_function("render the line", |bench| {
        bench.iter(|| Line::render(seq(1_000_000), black_box(&key), &verb, false, Some(black_box(&text))));
    });
    group.finish();
}

fn fingerprint(criterion: &mut Criterion) {
    let key = key(1);
    criterion.bench_function("fingerprint moved by an update", |bench| {
        bench.iter(|| Tally::default().moved(black_box(&key), Some(seq(999_999)), Some(seq(1_000_000))));
    });
}

/// What a store loads for a flight of updates.
fn facts() -> Facts {
    let live = |number| (key(number), Some(Arc::new(Live::stored(seq(number), line(number)))));
    let tally = Tally { count: 256, ..Tally::default() };
    let tallies = vec![(Resource::parse("invoice").unwrap(), tally)];
    Facts { entities: (1..=FLIGHT).map(live).collect(), tallies, ..Facts::default() }
}

fn put(number: i64) -> Submission {
    let data: Arc<Json> = json::parse(body(number + 1_000).as_bytes()).unwrap().into();
    let command =
        Command { key: key(number), operation: Operation::Put(data), preconditions: Preconditions::default() };
    Submission {
        request_id: number.to_string(),
        idempotency: None,
        work: Work::One(command),
        size_bytes: 300,
        bounds: Bounds::default(),
    }
}

fn flight(criterion: &mut Criterion) {
    let catalog = Arc::new(Catalog::builtin());
    let puts: Vec<Submission> = (1..=FLIGHT).map(put).collect();
    let mut group = criterion.benchmark_group("flight");
    group.throughput(Throughput::Elements(256));
    group.bench_function("256 updates decided in memory", |bench| {
        let begin =
            || (Flight::new(catalog.clone(), Timestamp::from_micros(0), seq(FLIGHT), Tally::default()), facts());
        bench.iter_batched(
            begin,
            |(mut flight, facts)| {
                flight.learn(facts);
                puts.iter().for_each(|put| drop(flight.take(put).unwrap()));
                flight.finish()
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn chunk(criterion: &mut Criterion) {
    let stored: Vec<Line> = (1..=CHUNK_LINES).map(line).collect();
    let bytes = stored.iter().map(|line| line.as_str().len() + 1).sum::<usize>();
    let mut group = criterion.benchmark_group("chunk of 256 KiB");
    group.throughput(Throughput::Bytes(bytes.try_into().unwrap()));
    for (name, has_extras) in [("as stored", false), ("with time, prev and tx", true)] {
        let fields = Fields { time: has_extras, prev: has_extras, tx: has_extras };
        group.bench_function(name, |bench| {
            bench.iter(|| pieces(framed(&stored, fields)).map(|piece| piece.len()).sum::<usize>())
        });
    }
    group.finish();
}

fn framed(stored: &[Line], fields: Fields) -> Bytes {
    let extras = Extras { time: Timestamp::from_micros(1_700_000_000_000_000), prev: Some(seq(1)), tx: seq(2) };
    let mut chunk = Vec::with_capacity(320 << 10);
    for line in stored {
        append_line(&mut chunk, black_box(line.as_str()), fields, extras);
        chunk.push(b'\n');
    }
    Bytes::from(chunk)
}

criterion_group!(micro, one_body, fingerprint, flight, chunk);
criterion_main!(micro);
