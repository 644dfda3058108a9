//! Answers that are given again: an Idempotency-Key, what it belongs to, and the form in which a store
//! keeps its answer, written in the same transaction as the effect.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Answer, Outcome, Refused};
use crate::change::{Line, Seq};

/// What an Idempotency-Key belongs to, within one log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    /// HTTP method.
    pub method: String,
    /// Path with query, as sent.
    pub path: String,
    /// The key.
    pub key: String,
}

/// A remembered answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// SHA-256 of the body that it answered.
    pub body_hash: Vec<u8>,
    /// The answer that is given again.
    pub answer: Answer,
}

/// SHA-256 of a body: two requests with one key are the same request when method, path with query and
/// body bytes are.
pub fn hash_body(body: &[u8]) -> Vec<u8> {
    Sha256::digest(body).to_vec()
}

#[derive(Serialize, Deserialize)]
struct StoredAnswer {
    request_id: String,
    result: StoredResult,
}

#[derive(Serialize, Deserialize)]
enum StoredResult {
    Entity { line: String, seq: i64, is_created: bool },
    Batch { tx: Option<i64>, last: Option<i64>, lines: Vec<String> },
    Refused(Refused),
}

/// Writes an answer down.
pub fn encode(answer: &Answer) -> Result<String, serde_json::Error> {
    let result = match &answer.result {
        Ok(Outcome::Entity { line, seq, is_created }) => {
            StoredResult::Entity { line: line.to_string(), seq: seq.get(), is_created: *is_created }
        }
        Ok(Outcome::Batch { tx, last, lines }) => StoredResult::Batch {
            tx: tx.map(Seq::get),
            last: last.map(Seq::get),
            lines: lines.iter().map(Line::to_string).collect(),
        },
        Err(refused) => StoredResult::Refused(refused.clone()),
    };
    serde_json::to_string(&StoredAnswer { request_id: answer.request_id.clone(), result })
}

/// Reads a stored answer; `None` when the text is not one that [`encode`] wrote.
pub fn decode(text: &str) -> Option<Answer> {
    let stored: StoredAnswer = serde_json::from_str(text).ok()?;
    let result = match stored.result {
        StoredResult::Entity { line, seq, is_created } => {
            Ok(Outcome::Entity { line: Line::from_stored(&line), seq: Seq::new(seq)?, is_created })
        }
        StoredResult::Batch { tx, last, lines } => Ok(Outcome::Batch {
            tx: tx.and_then(Seq::new),
            last: last.and_then(Seq::new),
            lines: lines.iter().map(|line| Line::from_stored(line)).collect(),
        }),
        StoredResult::Refused(refused) => Err(refused),
    };
    Some(Answer { request_id: stored.request_id, result, is_replayed: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::Refusal;

    #[test]
    fn answers_survive_being_stored() {
        let line = Line::from_stored(r#"{"seq":7,"data":{"n":1.0,"s":"\u2028\"é"}}"#);
        let seq = Seq::new(7).unwrap();
        for result in [
            Ok(Outcome::Entity { line: line.clone(), seq, is_created: true }),
            Ok(Outcome::Batch { tx: Some(seq), last: Some(seq), lines: vec![line.clone(), line] }),
            Ok(Outcome::Batch { tx: None, last: None, lines: vec![] }),
            Err(Refusal::PreconditionFailed { current: Some("\"7\"".into()) }.at(3)),
        ] {
            let answer = Answer { request_id: "r".into(), result, is_replayed: true };
            assert_eq!(decode(&encode(&answer).unwrap()), Some(answer));
        }
        assert_eq!(decode("{}"), None);
    }
}
