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

/// Appends a stored line with the asked-for extra members, without a line feed.
pub fn append_line(out: &mut Vec<u8>, line: &str, fields: Fields, extras: Extras) {
    let body = line.strip_suffix('}').unwrap_or(line);
    let mut members = String::new();
    // Writing into a String cannot fail.
    if fields.time {
        let _ = write!(members, r#","time":"{}""#, extras.time);
    }
    if fields.prev {
        match extras.prev {
            Some(prev) => drop(write!(members, r#","prev":{prev}"#)),
            None => members.push_str(r#","prev":null"#),
        }
    }
    if fields.tx {
        let _ = write!(members, r#","tx":{}"#, extras.tx);
    }
    out.extend_from_slice(body.as_bytes());
    out.extend_from_slice(members.as_bytes());
    out.push(b'}');
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
    fn data_is_found_whatever_the_id_holds() {
        let data = r#"{"a":"\",\"data\":1"}"#;
        for id in ["x", r#"","data":{}"#, r#"\"#, r#"\","id":""#, "\u{2028}"] {
            let line = Line::render(Seq::MAX, &key(id), &Verb::created(), false, Some(data));
            assert_eq!(line.data(), Some(data), "{id:?}");
            assert!(!line.as_str().contains('\u{2028}'));
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
