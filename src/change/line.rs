//! The line of a change: rendered once in its life, at commit (PROTOCOL section 2).
//!
//! The same bytes answer the write, are stored, and go to every reader. Nothing on the way out parses
//! them as JSON; extra members are spliced in before the last brace.

use std::fmt::Write as _;

use super::json::write_string;
use super::{EntityKey, Fields, Seq, Timestamp, Verb};

/// The finished bytes of one change, without the line feed that ends it on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line(std::sync::Arc<str>);

impl Line {
    /// Renders a change. `data` is compact JSON (an object), or `None` where the line says `null`.
    pub fn render(seq: Seq, key: &EntityKey, verb: &Verb, deleted: bool, data: Option<&str>) -> Line {
        let data = data.unwrap_or("null");
        let mut text = String::with_capacity(96 + key.id.as_str().len() + data.len());
        // Writing into a String cannot fail.
        let _ = write!(text, r#"{{"seq":{seq},"resource":"{}","id":"#, key.resource);
        write_string(&mut text, key.id.as_str());
        let _ = write!(text, r#","type":"{verb}","deleted":{deleted},"data":{data}}}"#);
        Line(text.into())
    }

    /// Takes a line that this module rendered earlier, from the store.
    pub fn from_stored(text: &str) -> Line {
        Line(text.into())
    }

    /// The bytes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The `data` of the line as it stands there: an object or `null`. `None` if this is no line.
    pub fn data(&self) -> Option<&str> {
        data_of(&self.0)
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The `data` slice of a rendered line. Only `id` can hold a quote, so the members before `data` are
/// found by skipping one JSON string; no other part of the prefix varies in form.
fn data_of(line: &str) -> Option<&str> {
    let (_, after_id_name) = line.split_once(r#","id":""#)?;
    let id_end = end_of_string(after_id_name)?;
    let (_, data) = after_id_name.get(id_end..)?.split_once(r#","data":"#)?;
    data.strip_suffix('}')
}

/// Index just past the closing quote of a JSON string whose opening quote was already taken.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// The seq of a rendered line; `None` if this is no line.
pub fn seq_of(line: &[u8]) -> Option<Seq> {
    let digits = line.strip_prefix(br#"{"seq":"#)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    Seq::parse(std::str::from_utf8(digits.get(..end)?).ok()?)
}

/// What [`append_line`] may add to a line.
#[derive(Debug, Clone, Copy)]
pub struct Extras {
    /// Commit time.
    pub time: Timestamp,
    /// The entity's previous live line.
    pub prev: Option<Seq>,
    /// First seq of the transaction.
    pub tx: Seq,
}

const TIME: &str = r#","time":"#;
const PREV: &str = r#","prev":"#;
const TX: &str = r#","tx":"#;
/// What `prev` says where there is none.
pub const NO_PREV: &str = "null";
/// A time in its quotes: all of them are equally long (years 0000 to 9999).
const QUOTED_TIME_BYTES: usize = r#""1970-01-01T00:00:00.000000Z""#.len();

/// Appends a stored line with the asked-for extra members, without a line feed.
pub fn append_line(out: &mut Vec<u8>, line: &str, fields: Fields, extras: Extras) {
    let body = line.strip_suffix('}').unwrap_or(line);
    let mut members = String::new();
    // Writing into a String cannot fail.
    if fields.time {
        let _ = write!(members, r#"{TIME}"{}""#, extras.time);
    }
    if fields.prev {
        members.push_str(PREV);
        match extras.prev {
            Some(prev) => drop(write!(members, "{prev}")),
            None => members.push_str(NO_PREV),
        }
    }
    if fields.tx {
        let _ = write!(members, "{TX}{}", extras.tx);
    }
    out.extend_from_slice(body.as_bytes());
    out.extend_from_slice(members.as_bytes());
    out.push(b'}');
}

/// The bytes that [`append_line`] adds to every line whatever its values. The digits of `prev` (without one
/// those of [`NO_PREV`]) and of `tx` come on top where they are asked for. So a database can add up the
/// length of many lines without handing one over.
pub fn fixed_bytes(fields: Fields) -> usize {
    let time = if fields.time { TIME.len() + QUOTED_TIME_BYTES } else { 0 };
    let prev = if fields.prev { PREV.len() } else { 0 };
    let tx = if fields.tx { TX.len() } else { 0 };
    time + prev + tx
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{EntityId, Resource};

    fn key(id: &str) -> EntityKey {
        EntityKey { resource: Resource::parse("subscription").unwrap(), id: EntityId::parse(id).unwrap() }
    }

    #[test]
    fn lines_have_exactly_the_members_of_the_protocol_in_their_order() {
        let seq = Seq::new(42).unwrap();
        let line =
            Line::render(seq, &key("sub_1"), &Verb::updated(), false, Some(r#"{"id":"sub_1","status":"active"}"#));
        assert_eq!(
            line.as_str(),
            r#"{"seq":42,"resource":"subscription","id":"sub_1","type":"updated","deleted":false,"data":{"id":"sub_1","status":"active"}}"#
        );
        let tombstone = Line::render(seq, &key("sub_1"), &Verb::deleted(), true, None);
        assert_eq!(
            tombstone.as_str(),
            r#"{"seq":42,"resource":"subscription","id":"sub_1","type":"deleted","deleted":true,"data":null}"#
        );
    }

    #[test]
    fn the_seq_of_a_line_is_read_back() {
        let line = Line::render(Seq::MAX, &key("1"), &Verb::created(), true, None);
        assert_eq!(seq_of(line.as_str().as_bytes()), Some(Seq::MAX));
        for bad in ["", "{}", "{\"seq\":}", "{\"seq\":-1}", "{\"control\":\"end\",\"seq\":1}"] {
            assert_eq!(seq_of(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn data_is_found_whatever_the_id_holds() {
        let data = r#"{"a":"\",\"data\":1"}"#;
        for id in ["x", r#"","data":{}"#, r#"\"#, r#"\","id":""#, "\u{2028}"] {
            let line = Line::render(Seq::MAX, &key(id), &Verb::created(), false, Some(data));
            assert_eq!(line.data(), Some(data), "{id:?}");
            assert!(!line.as_str().contains('\u{2028}'));
        }
    }

    #[test]
    fn the_length_of_extra_members_is_their_fixed_part_and_their_digits() {
        let line = r#"{"data":{"x":"é"}}"#;
        for number in 0..8 {
            let fields = Fields { time: number & 1 > 0, prev: number & 2 > 0, tx: number & 4 > 0 };
            for (prev, tx) in [(None, Seq::new(1)), (Seq::new(99), Seq::new(100)), (Some(Seq::MAX), Some(Seq::MAX))] {
                for micros in [0, 1_700_000_000_000_001, 253_402_300_799_999_999] {
                    let extras = Extras { time: Timestamp::from_micros(micros), prev, tx: tx.unwrap() };
                    let prev = prev.map_or(NO_PREV.to_owned(), |prev| prev.to_string());
                    let digits = if fields.prev { prev.len() } else { 0 };
                    let digits = digits + if fields.tx { extras.tx.to_string().len() } else { 0 };
                    let mut out = Vec::new();
                    append_line(&mut out, line, fields, extras);
                    assert_eq!(out.len(), line.len() + fixed_bytes(fields) + digits, "{fields:?} {extras:?}");
                }
            }
        }
    }

    #[test]
    fn extra_members_stand_after_data() {
        let extras = Extras { time: Timestamp::from_micros(0), prev: None, tx: Seq::MAX };
        let mut out = Vec::new();
        append_line(&mut out, r#"{"data":{}}"#, Fields { time: true, prev: true, tx: true }, extras);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"data":{},"time":"1970-01-01T00:00:00.000000Z","prev":null,"tx":9007199254740991}"#
        );
    }
}
