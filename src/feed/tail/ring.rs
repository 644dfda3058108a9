//! The newest changes of a log, bounded in lines and bytes; what was there longest goes first.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::Batch;
use crate::change::{Change, Epoch, Seq, Tally};

/// Most lines, and most bytes of lines, that a tail keeps: what a full-speed writer commits in about a
/// second. A follower that falls behind it reads the store, as everybody did before.
const MAX_LINES: usize = 16_384;
const MAX_BYTES: usize = 4 << 20;

/// Batches without a hole between them.
#[derive(Debug)]
pub struct Ring {
    batches: VecDeque<Arc<Batch>>,
    /// Everything after this is here.
    start: Seq,
    end: Seq,
    /// All live entities at `end`.
    tally: Tally,
    lines: usize,
    bytes: usize,
    /// The history that the log has instead of this one.
    other: Option<Epoch>,
}

/// What there is after a cursor.
#[derive(Debug)]
pub enum Found {
    /// Nothing: the reader has everything. All live entities at its cursor.
    Nothing(Tally),
    /// The batch that goes on after the cursor, or holds it.
    Batch(Arc<Batch>),
    /// The cursor is older than the tail: the store has what comes next.
    Older,
    /// The log has another history now: nothing goes on after the cursor.
    Elsewhere(Epoch),
}

impl Ring {
    /// Empty, at a position.
    pub fn new(end: Seq, tally: Tally) -> Ring {
        Ring { batches: VecDeque::new(), start: end, end, tally, lines: 0, bytes: 0, other: None }
    }

    /// The newest seq.
    pub fn end(&self) -> Seq {
        self.end
    }

    /// True when it is not the log any more.
    pub fn is_abandoned(&self) -> bool {
        self.other.is_some()
    }

    /// Takes those changes that go on where it ends; those it has, and those after a hole, are left out.
    pub fn take(&mut self, changes: Vec<Change>) {
        let before = self.end;
        let mut end = before;
        let next = changes.into_iter().filter(|change| {
            let goes_on = end.next() == Some(change.seq);
            if goes_on {
                end = change.seq;
            }
            goes_on
        });
        let next = next.collect();
        if let Some(batch) = Batch::new(before, next) {
            self.push(batch);
        }
    }

    fn push(&mut self, batch: Batch) {
        let (lines, bytes) = batch.size();
        (self.end, self.tally) = (batch.last(), batch.tally());
        self.lines += lines;
        self.bytes += bytes;
        self.batches.push_back(Arc::new(batch));
        while self.lines > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.batches.pop_front() else { break };
            let (lines, bytes) = oldest.size();
            self.start = oldest.last();
            self.lines = self.lines.saturating_sub(lines);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// The database went back and on from there: what is here is not the log any more.
    pub fn abandon(&mut self, other: Epoch) {
        *self = Ring { other: Some(other), ..Ring::new(self.end, self.tally) };
    }

    /// What there is after a cursor.
    pub fn after(&self, cursor: Seq) -> Found {
        if let Some(other) = &self.other {
            return Found::Elsewhere(other.clone());
        }
        if cursor >= self.end {
            return Found::Nothing(self.tally);
        }
        if cursor < self.start {
            return Found::Older;
        }
        let at = self.batches.partition_point(|batch| batch.last() <= cursor);
        self.batches.get(at).map_or(Found::Older, |batch| Found::Batch(batch.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{EntityId, EntityKey, Fields, Line, Resource, Selection, Timestamp, Verb};
    use crate::feed::form::{Form, Framing};

    const LINES: Form = Form { framing: Framing::Lines, fields: Fields { time: false, prev: false, tx: false } };

    fn seq(number: i64) -> Seq {
        Seq::new(number).unwrap()
    }

    fn change(number: i64, bytes: usize) -> Change {
        let resource = Resource::parse(if number % 2 == 0 { "even" } else { "odd" }).unwrap();
        let key = EntityKey { resource, id: EntityId::parse(&number.to_string()).unwrap() };
        let data = format!("{{\"t\":\"{}\"}}", "x".repeat(bytes));
        Change {
            line: Line::render(seq(number), &key, &Verb::created(), false, Some(&data)),
            seq: seq(number),
            key,
            deleted: false,
            time: Timestamp::from_micros(0),
            prev: None,
            tx: seq(number),
            log_after: Tally { count: u64::try_from(number).unwrap(), ..Tally::default() },
            resource_after: Tally::default(),
        }
    }

    fn changes(numbers: std::ops::RangeInclusive<i64>) -> Vec<Change> {
        numbers.map(|number| change(number, 0)).collect()
    }

    /// The seqs of all shares after a cursor, at most `limit` lines each.
    fn read(ring: &Ring, mut cursor: Seq, limit: u64, selection: &Selection) -> Vec<i64> {
        let mut seqs = Vec::new();
        while let Found::Batch(batch) = ring.after(cursor) {
            let share = batch.share(cursor, limit, selection, LINES);
            assert!(share.cursor > cursor && share.lines <= limit);
            let lines = share.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            seqs.extend(lines.map(|line| crate::change::line::seq_of(line).unwrap().get()));
            cursor = share.cursor;
        }
        assert_eq!(cursor, ring.end());
        seqs
    }

    #[test]
    fn every_cursor_reads_on_without_a_hole() {
        let mut ring = Ring::new(seq(10), Tally::default());
        ring.take(changes(11..=14));
        ring.take(changes(15..=15));
        ring.take(changes(16..=30));
        for from in 10..=30 {
            for limit in [1, 2, 7, u64::MAX] {
                let all: Vec<i64> = (from + 1..=30).collect();
                assert_eq!(read(&ring, seq(from), limit, &Selection::All), all, "{from} {limit}");
                let even = Selection::resources(vec![Resource::parse("even").unwrap()]);
                let expected: Vec<i64> = all.into_iter().filter(|number| number % 2 == 0).collect();
                assert_eq!(read(&ring, seq(from), limit, &even), expected, "{from} {limit}");
            }
        }
        assert!(matches!(ring.after(seq(9)), Found::Older));
        assert!(matches!(ring.after(seq(30)), Found::Nothing(tally) if tally.count == 30));
    }

    #[test]
    fn what_it_has_and_what_comes_after_a_hole_is_left_out() {
        let mut ring = Ring::new(seq(10), Tally::default());
        ring.take(changes(9..=12));
        assert_eq!(ring.end(), seq(12));
        ring.take(changes(14..=20));
        assert_eq!(ring.end(), seq(12), "13 is missing");
        ring.take(changes(1..=5));
        ring.take(Vec::new());
        ring.take(changes(13..=13));
        assert_eq!(read(&ring, seq(10), u64::MAX, &Selection::All), [11, 12, 13]);
    }

    #[test]
    fn it_is_bounded_in_lines_and_bytes() {
        let mut ring = Ring::new(Seq::ZERO, Tally::default());
        let most = i64::try_from(MAX_LINES).unwrap();
        for start in 0..4 {
            ring.take(changes(start * most / 2 + 1..=(start + 1) * most / 2));
        }
        assert!(ring.lines <= MAX_LINES && ring.start > Seq::ZERO && ring.end() == seq(2 * most));
        let mut ring = Ring::new(Seq::ZERO, Tally::default());
        for number in 1..=10 {
            ring.take(vec![change(number, MAX_BYTES / 3)]);
        }
        assert!(ring.bytes <= MAX_BYTES, "{}", ring.bytes);
        assert_eq!(read(&ring, ring.start, u64::MAX, &Selection::All), [9, 10]);
        ring.take(vec![change(11, 2 * MAX_BYTES)]);
        assert!(ring.batches.is_empty() && ring.end() == seq(11), "what is too large alone is for the store");
        assert!(matches!(ring.after(seq(10)), Found::Older));
    }

    #[test]
    fn a_form_is_rendered_once_for_all_who_ask() {
        let mut ring = Ring::new(Seq::ZERO, Tally::default());
        ring.take(changes(1..=3));
        let Found::Batch(batch) = ring.after(Seq::ZERO) else { panic!("a batch") };
        let events = Form { framing: Framing::Events, ..LINES };
        let first = batch.share(Seq::ZERO, u64::MAX, &Selection::All, events).bytes;
        let second = batch.share(seq(1), u64::MAX, &Selection::All, events).bytes;
        assert!(first.ends_with(&second));
        assert_eq!(first.as_ptr_range().end, second.as_ptr_range().end, "the same bytes, not equal ones");
    }

    #[test]
    fn what_is_of_another_history_is_not_gone_on_with() {
        let mut ring = Ring::new(seq(2), Tally::default());
        ring.take(changes(3..=5));
        ring.abandon(Epoch("other".into()));
        ring.take(changes(6..=7));
        for cursor in [1, 3, 5, 7] {
            assert!(matches!(ring.after(seq(cursor)), Found::Elsewhere(Epoch(other)) if &*other == "other"));
        }
    }
}
