//! A row of the outbox as a write, or the reason why it cannot be one.

use std::sync::Arc;

use crate::change::{EntityId, EntityKey, Json, Resource, Verb, json};
use crate::entity::{Bounds, Command, Operation, Preconditions, Record, Refusal, Submission, Work};

/// Largest data of one row, in bytes as it was written: as much as the body of a single write may have by
/// default. A larger row is not even loaded.
pub const MAX_ROW_BYTES: usize = 1 << 20;
/// Violations of a schema that a reason names.
const MAX_NAMED: usize = 5;

/// A row as it is stored.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Its place in the order.
    pub outbox_id: i64,
    /// What the application calls the resource.
    pub resource: String,
    /// What the application calls the entity, if anything.
    pub id: Option<String>,
    /// `put` or `delete`.
    pub op: String,
    /// What the line is to say, if anything special.
    pub verb: Option<String>,
    /// The state, unless it is too large.
    pub data: Option<String>,
    /// How large the state is.
    pub size_bytes: usize,
    /// It was set aside once and is tried again, and its entity has changed in between.
    pub is_overtaken: bool,
}

/// What becomes of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is decided like any write.
    Submit(Box<Submission>),
    /// It is set aside for this reason.
    Refuse(String),
    /// It is too late: the log has something newer.
    Drop,
}

impl Row {
    /// What becomes of it, as far as the row itself tells.
    pub fn fate(self) -> Fate {
        if self.is_overtaken {
            return Fate::Drop;
        }
        match self.submission() {
            Ok(submission) => Fate::Submit(Box::new(submission)),
            Err(reason) => Fate::Refuse(reason),
        }
    }

    fn submission(self) -> Result<Submission, String> {
        let key = self.key()?;
        let verb = self.verb.as_deref().map(Verb::parse).transpose().map_err(|error| format!("type: {error}"))?;
        let data = match self.op.as_str() {
            "put" => Some(self.data()?),
            "delete" => None,
            _ => return Err("op: it is neither put nor delete".into()),
        };
        let operation = Operation::Record(Record { data, verb });
        Ok(Submission {
            request_id: format!("outbox-{}", self.outbox_id),
            idempotency: None,
            work: Work::One(Command { key, operation, preconditions: Preconditions::default() }),
            size_bytes: self.size_bytes,
            bounds: Bounds::default(),
        })
    }

    fn key(&self) -> Result<EntityKey, String> {
        let resource = Resource::parse(&self.resource).map_err(|error| format!("resource: {error}"))?;
        let id = self.id.as_deref().ok_or("id: there is none")?;
        let id = EntityId::parse(id).map_err(|error| format!("id: {error}"))?;
        Ok(EntityKey { resource, id })
    }

    fn data(&self) -> Result<Arc<Json>, String> {
        if self.size_bytes > MAX_ROW_BYTES {
            return Err(format!("data: it has {} bytes, and {MAX_ROW_BYTES} are the most", self.size_bytes));
        }
        let text = self.data.as_deref().ok_or("data: there is none")?;
        json::parse(text.as_bytes()).map(Arc::new).map_err(|malformed| format!("data: {malformed}"))
    }
}

/// Why the rules refuse a row, in words.
pub fn in_words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::SchemaViolation { errors } => {
            let named: Vec<_> =
                errors.iter().take(MAX_NAMED).map(|error| format!("data{}: {}", error.pointer, error.reason)).collect();
            named.join("; ")
        }
        Refusal::UnknownResource { resource } => {
            format!("resource: {resource} is not declared, and the server takes declared ones only")
        }
        other => format!("it was refused: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            outbox_id: 1,
            resource: "note".into(),
            id: Some("n".into()),
            op: "put".into(),
            data: Some("{}".into()),
            size_bytes: 2,
            ..Row::default()
        }
    }

    fn reason(row: Row) -> String {
        match row.fate() {
            Fate::Refuse(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_row_that_cannot_be_a_change_says_which_part_is_wrong() {
        for (bad, part) in [
            (Row { resource: "Note".into(), ..row() }, "resource: "),
            (Row { id: None, ..row() }, "id: "),
            (Row { id: Some(String::new()), ..row() }, "id: "),
            (Row { id: Some("x".repeat(256)), ..row() }, "id: "),
            (Row { op: "truncate".into(), ..row() }, "op: "),
            (Row { verb: Some("Canceled".into()), ..row() }, "type: "),
            (Row { data: None, ..row() }, "data: "),
            (Row { data: Some("{".into()), ..row() }, "data: "),
            (Row { data: Some(r#"{"a":1,"a":2}"#.into()), ..row() }, "data: "),
            (Row { data: Some(format!("{}{}", "[".repeat(129), "]".repeat(129))), ..row() }, "data: "),
            (Row { data: None, size_bytes: MAX_ROW_BYTES + 1, ..row() }, "data: it has 1048577 bytes"),
        ] {
            let said = reason(bad.clone());
            assert!(said.starts_with(part), "{bad:?}: {said}");
        }
        assert!(matches!(row().fate(), Fate::Submit(_)));
        assert!(matches!(Row { op: "delete".into(), data: None, ..row() }.fate(), Fate::Submit(_)));
        assert_eq!(Row { is_overtaken: true, ..row() }.fate(), Fate::Drop);
    }
}
