//! One flight: rows of the outbox become changes and are gone, or are set aside, in one transaction under the
//! lock of their log.

use std::time::Duration;

use diesel::sql_types::{BigInt, Bool, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::super::error::{Trouble, while_};
use super::super::readers::work;
use super::super::statement::{Statement, Value};
use super::super::transaction::{Failed, Transaction};
use super::Drains;
use super::row::{Fate, MAX_ROW_BYTES, Row, in_words};
use crate::access::LogId;
use crate::change::Seq;
use crate::entity::{Outcome, Refusal};
use crate::store::StoreError;
use crate::store::columns::{corrupt, rows_limit};
use crate::store::flights::Decided;

/// How long a flight waits for the lock of its log. Shorter than a write of a client does: nobody waits for the
/// answer, and the other logs are to have their turn.
const LOCK: Duration = Duration::from_secs(1);

/// Rows by their numbers, in order, as far as they are still there. Every one is looked up through its key.
const ROWS: &str = "SELECT o.outbox_id, o.resource, o.id, o.op, o.type, \
     CASE WHEN octet_length(o.data) <= ? THEN o.data END, coalesce(octet_length(o.data), 0)::bigint, \
     o.unless_changed_since IS NOT NULL AND EXISTS (SELECT FROM scroll.changes AS c WHERE c.log_id = ? \
     AND c.resource = o.resource AND c.id = o.id AND c.seq > o.unless_changed_since) \
     FROM unnest(?) WITH ORDINALITY AS k (outbox_id, nth) \
     CROSS JOIN LATERAL (SELECT * FROM scroll.outbox WHERE outbox_id = k.outbox_id LIMIT 1) AS o ORDER BY k.nth";

const TAKE_AWAY: &str = "DELETE FROM scroll.outbox WHERE outbox_id = ANY (?)";

/// Moves rows to those that were refused: numbers, heads and reasons side by side.
const SET_ASIDE: &str = "WITH gone AS (DELETE FROM scroll.outbox WHERE outbox_id = ANY (?) RETURNING *) \
     INSERT INTO scroll.outbox_refused (outbox_id, log, resource, id, op, type, data, written_at, head, reason) \
     SELECT g.outbox_id, g.log, g.resource, g.id, g.op, g.type, g.data, g.written_at, k.head, k.reason \
     FROM gone AS g JOIN unnest(?, ?, ?) AS k (outbox_id, head, reason) ON k.outbox_id = g.outbox_id";

type Columns = (BigInt, Text, Nullable<Text>, Text, Nullable<Text>, Nullable<Text>, BigInt, Bool);
type Loaded = (i64, String, Option<String>, String, Option<String>, Option<String>, i64, bool);

/// A row that is set aside, where the log then stood, and why.
struct Aside {
    outbox_id: i64,
    head: Seq,
    reason: String,
}

/// Carries out the rows of these numbers.
pub async fn fly(drains: &Drains, log: LogId, ids: Vec<i64>) -> Result<(), StoreError> {
    let begun = Transaction::begin_within(&drains.pool, log, LOCK).await;
    let mut transaction = begun.map_err(Failed::into_error)?;
    match carry_out(drains, &mut transaction, log, ids).await {
        Ok((decided, taken, refused)) => {
            let decided = transaction.commit(&drains.writer.lineage, decided).await.map_err(Failed::into_error)?;
            land(drains, log, decided, taken, refused);
            Ok(())
        }
        Err(failed) => Err(transaction.roll_back(failed).await.into_error()),
    }
}

/// How many rows were carried out, and how many set aside.
async fn carry_out(
    drains: &Drains,
    transaction: &mut Transaction,
    log: LogId,
    ids: Vec<i64>,
) -> Result<(Decided, usize, usize), Failed> {
    let rows = load(transaction.connection()?, log, ids).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.outbox_id).collect();
    let fates: Vec<Fate> = rows.into_iter().map(Row::fate).collect();
    let submissions = fates.iter().filter_map(|fate| match fate {
        Fate::Submit(submission) => Some(submission.as_ref()),
        Fate::Refuse(_) | Fate::Drop => None,
    });
    let decided = transaction.write(drains.writer.grounds(), submissions.collect()).await?;
    let aside = set_aside(&ids, fates, &decided);
    let refused = aside.len();
    let taken: Vec<i64> = ids.into_iter().filter(|id| !aside.iter().any(|row| row.outbox_id == *id)).collect();
    let count = taken.len();
    take_away(transaction.connection()?, taken, aside).await?;
    Ok((decided, count, refused))
}

async fn load(connection: &mut AsyncPgConnection, log: LogId, ids: Vec<i64>) -> Result<Vec<Row>, Trouble> {
    let values = vec![Value::Integer(rows_limit(MAX_ROW_BYTES)), Value::Integer(log.0), Value::Integers(ids)];
    let statement: Statement<'_, Columns> = Statement::new(ROWS, values);
    let loaded: Vec<Loaded> = statement.load(connection).await?;
    let row = |(outbox_id, resource, id, op, verb, data, bytes, is_overtaken): Loaded| Row {
        outbox_id,
        resource,
        id,
        op,
        verb,
        data,
        size_bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        is_overtaken,
    };
    Ok(loaded.into_iter().map(row).collect())
}

/// What is set aside: rows without the form of a change, and those that the rules refuse. Each remembers where
/// the log stood when it was its turn.
fn set_aside(ids: &[i64], fates: Vec<Fate>, decided: &Decided) -> Vec<Aside> {
    let written = i64::try_from(decided.writes.changes.len()).unwrap_or(i64::MAX);
    let mut head = Seq::new(decided.head.get().saturating_sub(written)).unwrap_or_default();
    let mut answers = decided.answers.iter();
    let mut aside = Vec::new();
    for (outbox_id, fate) in ids.iter().zip(fates) {
        let reason = match fate {
            Fate::Refuse(reason) => Some(reason),
            Fate::Drop => None,
            Fate::Submit(_) => match answers.next().map(|answer| &answer.result) {
                Some(Ok(Outcome::Entity { seq, .. })) => {
                    head = head.max(*seq);
                    None
                }
                // An entity is gone that never came: a refused row, or one that came and went unseen.
                Some(Err(refused)) if matches!(refused.refusal, Refusal::EntityNotFound { .. }) => None,
                Some(Err(refused)) => Some(in_words(&refused.refusal)),
                Some(Ok(Outcome::Batch { .. })) | None => None,
            },
        };
        aside.extend(reason.map(|reason| Aside { outbox_id: *outbox_id, head, reason }));
    }
    aside
}

/// Every row that was loaded is gone after this, or the flight has not happened.
async fn take_away(connection: &mut AsyncPgConnection, taken: Vec<i64>, aside: Vec<Aside>) -> Result<(), Trouble> {
    let due = taken.len() + aside.len();
    let statement: Statement<'_, BigInt> = Statement::new(TAKE_AWAY, vec![Value::Integers(taken)]);
    let mut gone = statement.execute(connection).await?;
    if !aside.is_empty() {
        let ids: Vec<i64> = aside.iter().map(|row| row.outbox_id).collect();
        let heads = aside.iter().map(|row| row.head.get()).collect();
        let reasons = Value::texts(aside.iter().map(|row| row.reason.as_str()));
        let values = vec![Value::Integers(ids.clone()), Value::Integers(ids), Value::Integers(heads), reasons];
        let statement: Statement<'_, BigInt> = Statement::new(SET_ASIDE, values);
        gone += statement.execute(connection).await?;
    }
    if gone == due {
        return Ok(());
    }
    // Somebody deleted by hand what was about to be written.
    Err(corrupt("drain the outbox", format!("{gone} rows were there at the end instead of {due}")).into())
}

fn land(drains: &Drains, log: LogId, decided: Decided, taken: usize, refused: usize) {
    let metrics = &drains.writer.metrics;
    let changes = u64::try_from(decided.writes.changes.len()).unwrap_or(0);
    if changes > 0 {
        metrics.changes.inc_by(changes);
        drains.writer.notices.committed(log, decided.head, decided.writes.changes);
    }
    metrics.outbox_drained.inc_by(u64::try_from(taken).unwrap_or(0));
    metrics.outbox_refused.inc_by(u64::try_from(refused).unwrap_or(0));
    if refused > 0 {
        tracing::warn!(log.id = log.0, rows = refused, "rows of the outbox cannot become changes; they were set aside");
    }
}

/// Sets rows aside that name a log which is not there. There is no lock to take, and none is needed: each row is
/// deleted once.
pub async fn refuse_without_log(drains: &Drains, ids: Vec<i64>) -> Result<(), StoreError> {
    let operation = "set rows of the outbox aside";
    let refusing = work(move |connection| {
        let ids = ids.clone();
        Box::pin(async move {
            let heads = vec![0; ids.len()];
            let reasons = Value::texts(ids.iter().map(|_| "log: there is none of this name"));
            let values = vec![Value::Integers(ids.clone()), Value::Integers(ids), Value::Integers(heads), reasons];
            let statement: Statement<'_, BigInt> = Statement::new(SET_ASIDE, values);
            statement.execute(connection).await.map_err(while_(operation))
        })
    });
    let refused = drains.readers.change(operation, refusing).await?;
    drains.writer.metrics.outbox_refused.inc_by(u64::try_from(refused).unwrap_or(0));
    tracing::warn!(rows = refused, "rows of the outbox name a log that is not there; they were set aside");
    Ok(())
}
