//! Consecutive changes as the bytes that followers take. They are rendered once in each form that anybody
//! asks for; after that a follower's share is a slice.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};

use crate::change::{Change, Selection, Seq, Tally};
use crate::feed::form::Form;

/// Changes without a hole, oldest first, at least one.
#[derive(Debug)]
pub struct Batch {
    before: Seq,
    last: Seq,
    tally: Tally,
    bytes: usize,
    changes: Vec<Change>,
    rendered: [OnceLock<Rendered>; Form::COUNT],
}

/// All changes of a batch in one form.
#[derive(Debug)]
struct Rendered {
    bytes: Bytes,
    /// Where each of them ends.
    ends: Vec<usize>,
}

/// What a follower takes of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// The lines, framed.
    pub bytes: Bytes,
    /// How many.
    pub lines: u64,
    /// Everything that matches up to here is taken.
    pub cursor: Seq,
}

impl Batch {
    /// A batch that follows on `before`; the changes must have no hole. `None` when there is none.
    pub fn new(before: Seq, changes: Vec<Change>) -> Option<Batch> {
        let newest = changes.last()?;
        let (last, tally) = (newest.seq, newest.log_after);
        let bytes = changes.iter().map(|change| change.line.as_str().len()).sum();
        Some(Batch { before, last, tally, bytes, changes, rendered: Default::default() })
    }

    /// The seq just before it.
    pub fn before(&self) -> Seq {
        self.before
    }

    /// Its last seq.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// All live entities after it.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Lines, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.changes.len(), self.bytes)
    }

    /// True when a line after the cursor matches.
    pub fn has_match(&self, cursor: Seq, selection: &Selection) -> bool {
        let after = self.changes.iter().filter(|change| change.seq > cursor);
        after.into_iter().any(|change| selection.includes(&change.key))
    }

    /// At most `limit` matching lines after the cursor.
    pub fn share(&self, cursor: Seq, limit: u64, selection: &Selection, form: Form) -> Share {
        let first = usize::try_from(cursor.distance_from(self.before)).unwrap_or(usize::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if selection.is_all() {
            let end = first.saturating_add(limit).min(self.changes.len());
            return self.run(first..end, form);
        }
        let wanted = self.changes.iter().enumerate().skip(first).filter(|(_, change)| selection.includes(&change.key));
        let wanted: Vec<usize> = wanted.map(|(index, _)| index).take(limit).collect();
        let mut share = Share { cursor: self.last, ..Share::default() };
        let mut bytes = BytesMut::new();
        for index in &wanted {
            let one = self.run(*index..index + 1, form);
            bytes.extend_from_slice(&one.bytes);
            share.lines += one.lines;
            if wanted.len() == limit {
                share.cursor = one.cursor;
            }
        }
        Share { bytes: bytes.freeze(), ..share }
    }

    /// Some of the lines, without copying.
    fn run(&self, range: Range<usize>, form: Form) -> Share {
        let Some(rendered) = self.rendered.get(form.index()).map(|cell| cell.get_or_init(|| self.render(form))) else {
            return Share::default();
        };
        let end_of =
            |index: usize| index.checked_sub(1).and_then(|index| rendered.ends.get(index)).copied().unwrap_or(0);
        let last = range.end.checked_sub(1).and_then(|index| self.changes.get(index));
        Share {
            bytes: rendered.bytes.slice(end_of(range.start).min(end_of(range.end))..end_of(range.end)),
            lines: u64::try_from(range.len()).unwrap_or(0),
            cursor: last.map_or(self.before, |change| change.seq),
        }
    }

    fn render(&self, form: Form) -> Rendered {
        let mut bytes = Vec::with_capacity(self.bytes + self.changes.len());
        let append = |change: &Change| {
            form.append(&mut bytes, change);
            bytes.len()
        };
        let ends = self.changes.iter().map(append).collect();
        Rendered { bytes: bytes.into(), ends }
    }
}
