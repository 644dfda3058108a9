//! How lines stand in an endless answer: as they are, or as server-sent events; and everything that stands
//! between them: signs of life, bookmarks, the end (PROTOCOL section 5).
//!
//! A line never holds a line feed, so an event needs one `data:` and nothing is escaped. Only changes and
//! bookmarks have an `id`: what a browser sends back as `Last-Event-ID` is always a cursor.

use bytes::Bytes;

use crate::change::line::{Extras, append_line, seq_of};
use crate::change::{Change, Fields, Seq, Tally};

/// How lines are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Each line ended by a line feed.
    Lines,
    /// Server-sent events.
    Events,
}

/// The framing, and the extra members: what makes the bytes of one follower the bytes of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// How lines are framed.
    pub framing: Framing,
    /// Extra members.
    pub fields: Fields,
}

impl Form {
    /// How many there are.
    pub const COUNT: usize = 16;

    /// A number of its own for each, below [`Form::COUNT`].
    pub fn index(self) -> usize {
        let Fields { time, prev, tx } = self.fields;
        let bits = [time, prev, tx, self.framing == Framing::Events];
        bits.into_iter().fold(0, |index, bit| index * 2 + usize::from(bit))
    }

    /// Appends a change.
    pub fn append(self, out: &mut Vec<u8>, change: &Change) {
        self.framing.open(out, change.seq);
        if self.fields.is_empty() {
            out.extend_from_slice(change.line.as_str().as_bytes());
        } else {
            let extras = Extras { time: change.time, prev: change.prev, tx: change.tx };
            append_line(out, change.line.as_str(), self.fields, extras);
        }
        self.framing.close(out);
    }
}

/// Where a reader stands, told between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bookmark {
    /// Everything that matches up to here was sent.
    pub seq: Seq,
    /// Nothing newer is known.
    pub is_up_to_date: bool,
    /// All live entities at `seq`, where that is promised.
    pub tally: Option<Tally>,
}

/// Why a stream ends, in the order of the words of PROTOCOL section 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server goes down.
    Drain,
    /// It lasted as long as a stream may.
    MaxAge,
    /// The key was revoked or has expired.
    Key,
    /// As many lines as were asked for.
    Limit,
    /// The client takes nothing.
    Slow,
}

impl End {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            End::Drain => "drain",
            End::MaxAge => "max-age",
            End::Key => "key",
            End::Limit => "limit",
            End::Slow => "slow",
        }
    }
}

impl Framing {
    fn open(self, out: &mut Vec<u8>, seq: Seq) {
        if self == Framing::Events {
            out.extend_from_slice(format!("event: change\nid: {seq}\ndata: ").as_bytes());
        }
    }

    fn close(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Framing::Lines => b"\n",
            Framing::Events => b"\n\n",
        });
    }

    /// Frames whole lines as the store hands them over.
    pub fn frame(self, lines: Bytes) -> Bytes {
        if self == Framing::Lines {
            return lines;
        }
        let mut out = Vec::with_capacity(lines.len() * 2);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.open(&mut out, seq_of(line).unwrap_or_default());
            out.extend_from_slice(line);
            self.close(&mut out);
        }
        out.into()
    }

    /// What a stream begins with, if anything: how long a client waits before it comes back.
    pub fn opening(self, retry_ms: u128) -> Option<Bytes> {
        (self == Framing::Events).then(|| format!("retry: {retry_ms}\n\n").into())
    }

    /// A sign of life.
    pub fn heartbeat(self) -> Bytes {
        Bytes::from_static(match self {
            Framing::Lines => b"\n",
            Framing::Events => b":\n\n",
        })
    }

    /// A bookmark.
    pub fn bookmark(self, bookmark: &Bookmark) -> Bytes {
        let Bookmark { seq, is_up_to_date, tally } = bookmark;
        let checkpoint =
            tally.map(|tally| format!(r#","count":{},"fingerprint":"{}""#, tally.count, tally.fingerprint));
        let checkpoint = checkpoint.unwrap_or_default();
        let line = format!(r#"{{"control":"bookmark","seq":{seq},"up_to_date":{is_up_to_date}{checkpoint}}}"#);
        match self {
            Framing::Lines => line + "\n",
            Framing::Events => format!("event: bookmark\nid: {seq}\ndata: {line}\n\n"),
        }
        .into()
    }

    /// The announced end at a cursor.
    pub fn end(self, seq: Seq, end: End) -> Bytes {
        let line = format!(r#"{{"control":"end","seq":{seq},"reason":"{}"}}"#, end.as_str());
        match self {
            Framing::Lines => line + "\n",
            Framing::Events => format!("event: end\ndata: {line}\n\n"),
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(number: i64) -> Seq {
        Seq::new(number).unwrap()
    }

    #[test]
    fn every_form_has_a_number_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..8 {
            let fields = Fields { time: number & 1 > 0, prev: number & 2 > 0, tx: number & 4 > 0 };
            for framing in [Framing::Lines, Framing::Events] {
                seen.insert(Form { framing, fields }.index());
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), (0..Form::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn lines_become_events_with_their_seq_as_id() {
        let lines = Bytes::from_static(b"{\"seq\":7,\"x\":1}\n{\"seq\":9}\n");
        assert_eq!(Framing::Lines.frame(lines.clone()), lines);
        let events = "event: change\nid: 7\ndata: {\"seq\":7,\"x\":1}\n\nevent: change\nid: 9\ndata: {\"seq\":9}\n\n";
        assert_eq!(Framing::Events.frame(lines), events);
    }

    #[test]
    fn control_is_said_in_the_words_of_the_protocol() {
        let tally = Some(Tally::default());
        let whole = Bookmark { seq: seq(4), is_up_to_date: true, tally };
        let line = r#"{"control":"bookmark","seq":4,"up_to_date":true,"count":0,"fingerprint":"0000000000000000"}"#;
        assert_eq!(Framing::Lines.bookmark(&whole), format!("{line}\n"));
        assert_eq!(Framing::Events.bookmark(&whole), format!("event: bookmark\nid: 4\ndata: {line}\n\n"));
        let filtered = Bookmark { seq: seq(4), is_up_to_date: false, tally: None };
        let line = "{\"control\":\"bookmark\",\"seq\":4,\"up_to_date\":false}\n";
        assert_eq!(Framing::Lines.bookmark(&filtered), line);
        let line = r#"{"control":"end","seq":4,"reason":"max-age"}"#;
        assert_eq!(Framing::Lines.end(seq(4), End::MaxAge), format!("{line}\n"));
        let event = Framing::Events.end(seq(4), End::MaxAge);
        assert_eq!(event, format!("event: end\ndata: {line}\n\n"), "an end has no id");
    }
}
