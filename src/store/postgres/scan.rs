//! Reads of the feed: short keyset reads in seq order, bounded in rows and bytes.
//!
//! The database cannot be told to stop after so many bytes, so each statement asks for as many lines as
//! the lines seen so far let expect; when they were longer, a second statement fetches the rest. Lines go
//! from the answer of the database straight into the buffer.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use diesel::pg::{Pg, PgValue};
use diesel::result::{Error as DieselError, QueryResult};
use diesel::row::{Field as _, Row as _};
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::{AsyncConnectionCore, AsyncPgConnection, RunQueryDsl};
use futures::StreamExt as _;

use super::candidates::Candidates;
use super::error::while_;
use super::statement::{Statement, Value};
use crate::access::LogId;
use crate::change::line::{Extras, NO_PREV, append_line, fixed_bytes};
use crate::change::{Fields, Selection, Seq, Tally, Timestamp};
use crate::store::columns::{seq_of, tally};
use crate::store::{Chunk, ChunkSize, Depth, Extent, Scan, StoreError};

const OPERATION: &str = "read changes";
/// Numbers looked up in an index for one statement. More than a chunk of ordinary lines holds would be
/// looked up in vain.
const CANDIDATES_PER_STATEMENT: i64 = 1_000;
/// Fewest lines of one statement.
const MIN_LINES: u64 = 16;
/// How long a line is expected to be before any was seen.
const FIRST_GUESS_BYTES: u64 = 256;

/// What a scan yields: number, line, time, previous, transaction.
type Columns = (BigInt, Text, BigInt, Nullable<BigInt>, BigInt);

/// How long lines have been of late, over all logs.
pub struct LineLength(AtomicU64);

impl LineLength {
    /// Nothing was read yet.
    pub fn new() -> LineLength {
        LineLength(AtomicU64::new(FIRST_GUESS_BYTES))
    }

    /// How many lines fill so many bytes, with a quarter to spare.
    fn lines_for(&self, bytes: usize) -> i64 {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let line = AtomicU64::load(&self.0, Ordering::Relaxed).max(1);
        let lines = (bytes / line).saturating_mul(5) / 4;
        i64::try_from(lines.max(MIN_LINES)).unwrap_or(i64::MAX)
    }

    fn seen(&self, lines: u64, bytes: usize) {
        let Some(line) = u64::try_from(bytes).unwrap_or(u64::MAX).checked_div(lines) else {
            return;
        };
        let before = AtomicU64::load(&self.0, Ordering::Relaxed);
        AtomicU64::store(&self.0, before.saturating_mul(3).saturating_add(line) / 4, Ordering::Relaxed);
    }
}

/// Lines in the making.
struct Lines {
    bytes: Vec<u8>,
    count: u64,
    last: Option<i64>,
    size: ChunkSize,
    fields: Fields,
}

impl Lines {
    fn new(size: ChunkSize, fields: Fields) -> Lines {
        Lines { bytes: Vec::new(), count: 0, last: None, size, fields }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.size.bytes || self.count >= u64::from(self.size.lines)
    }

    /// How many more may come.
    fn room(&self, length: &LineLength) -> i64 {
        let lines = u64::from(self.size.lines).saturating_sub(self.count);
        let bytes = self.size.bytes.saturating_sub(self.bytes.len());
        i64::try_from(lines).unwrap_or(i64::MAX).min(length.lines_for(bytes))
    }

    fn take(&mut self, row: &<AsyncPgConnection as AsyncConnectionCore>::Row<'_, '_>) -> QueryResult<()> {
        let seq: i64 = column::<BigInt, _>(row.get(0).as_ref().and_then(|field| field.value()))?;
        let field = row.get(1);
        let value = field.as_ref().and_then(|field| field.value());
        let line = value.as_ref().map(PgValue::as_bytes).unwrap_or_default();
        if self.fields.is_empty() {
            self.bytes.extend_from_slice(line);
        } else {
            let time: i64 = column::<BigInt, _>(row.get(2).as_ref().and_then(|field| field.value()))?;
            let prev: Option<i64> = column::<Nullable<BigInt>, _>(row.get(3).as_ref().and_then(|field| field.value()))?;
            let tx: i64 = column::<BigInt, _>(row.get(4).as_ref().and_then(|field| field.value()))?;
            let extras = Extras {
                time: Timestamp::from_micros(time),
                prev: prev.and_then(Seq::new),
                tx: Seq::new(tx).unwrap_or_default(),
            };
            let line = std::str::from_utf8(line).map_err(|error| DieselError::DeserializationError(error.into()))?;
            append_line(&mut self.bytes, line, self.fields, extras);
        }
        self.bytes.push(b'\n');
        self.count += 1;
        self.last = Some(seq);
        Ok(())
    }

    fn finish(self) -> Result<Chunk, StoreError> {
        let last = self.last.map(seq_of).transpose()?;
        Ok(Chunk { bytes: Bytes::from(self.bytes), lines: self.count, last })
    }
}

fn column<ST, T: diesel::deserialize::FromSql<ST, Pg>>(value: Option<PgValue<'_>>) -> QueryResult<T> {
    T::from_nullable_sql(value).map_err(DieselError::DeserializationError)
}

/// The next lines of a scan.
pub async fn chunk(
    connection: &mut AsyncPgConnection,
    log: LogId,
    scan: &Scan,
    fields: Fields,
    size: ChunkSize,
    length: &LineLength,
) -> Result<Chunk, StoreError> {
    let mut lines = Lines::new(size, fields);
    let mut scan = scan.clone();
    while !lines.is_full() {
        let (before, limit) = (lines.count, lines.room(length).min(i64::from(size.lines)));
        let limit = fetch(connection, log, &scan, limit, &mut lines).await?;
        let came = i64::try_from(lines.count - before).unwrap_or(i64::MAX);
        if came < limit {
            break;
        }
        scan.after = lines.last.map(seq_of).transpose()?.unwrap_or(scan.after);
    }
    length.seen(lines.count, lines.bytes.len());
    lines.finish()
}

/// One statement; how many lines it could have brought at most.
async fn fetch(
    connection: &mut AsyncPgConnection,
    log: LogId,
    scan: &Scan,
    limit: i64,
    lines: &mut Lines,
) -> Result<i64, StoreError> {
    let failed = while_(OPERATION);
    let is_plain = scan.selection == Selection::All && scan.depth == Depth::All;
    let limit = if is_plain { limit } else { limit.min(CANDIDATES_PER_STATEMENT) };
    let statement =
        if is_plain { plain(log, scan, limit, lines.fields) } else { selected(connection, log, scan, limit).await? };
    let mut rows = AsyncConnectionCore::load(connection, statement).await.map_err(&failed)?;
    while let Some(row) = rows.next().await {
        lines.take(&row.map_err(&failed)?).map_err(&failed)?;
        if lines.is_full() {
            // What is still on its way is thrown away by the connection.
            return Ok(limit);
        }
    }
    Ok(limit)
}

/// Every line as it is stored.
fn plain<'a>(log: LogId, scan: &Scan, limit: i64, fields: Fields) -> Statement<'a, Columns> {
    let columns = if fields.is_empty() { "seq, line" } else { "seq, line, time, prev, tx" };
    let sql =
        format!("SELECT {columns} FROM scroll.changes WHERE log_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?");
    Statement::new(sql, vec![log.0.into(), scan.after.get().into(), scan.until.get().into(), limit.into()])
}

/// The lines whose numbers an index gives.
async fn selected<'a>(
    connection: &mut AsyncPgConnection,
    log: LogId,
    scan: &'a Scan,
    limit: i64,
) -> Result<Statement<'a, Columns>, StoreError> {
    let (sql, mut values) = Candidates::find(connection, log, scan, limit).await?.into_parts();
    let sql = format!(
        "SELECT c.seq, c.line, c.time, c.prev, c.tx FROM ({sql}) AS k \
         CROSS JOIN LATERAL (SELECT seq, line, time, prev, tx FROM scroll.changes \
         WHERE log_id = ? AND seq = k.seq LIMIT 1) AS c ORDER BY k.seq"
    );
    values.push(Value::Integer(log.0));
    Ok(Statement::new(sql, values))
}

/// How far `limit` matching lines reach: counted in an index, no line is read.
pub async fn extent(
    connection: &mut AsyncPgConnection,
    log: LogId,
    scan: &Scan,
    limit: u64,
) -> Result<Extent, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let (sql, values) = Candidates::find(connection, log, scan, limit).await?.into_parts();
    let sql = format!("SELECT count(*), max(seq) FROM ({sql}) AS k");
    let statement: Statement<'_, (BigInt, Nullable<BigInt>)> = Statement::new(sql, values);
    let (matched, last): (i64, Option<i64>) =
        statement.get_result(connection).await.map_err(while_("measure a page"))?;
    Ok(Extent { matched: u64::try_from(matched).unwrap_or(0), last: last.map(seq_of).transpose()? })
}

/// The bytes of the lines of a scan: added up from their sizes, no line is sent.
pub async fn length(
    connection: &mut AsyncPgConnection,
    log: LogId,
    scan: &Scan,
    fields: Fields,
) -> Result<u64, StoreError> {
    let (sql, mut values) = Candidates::find(connection, log, scan, i64::MAX).await?.into_parts();
    let sql = format!(
        "SELECT coalesce(sum({}), 0)::bigint FROM ({sql}) AS k \
         CROSS JOIN LATERAL (SELECT line, prev, tx FROM scroll.changes WHERE log_id = ? AND seq = k.seq LIMIT 1) AS c",
        bytes_of_a_line(fields)
    );
    values.push(Value::Integer(log.0));
    let statement: Statement<'_, BigInt> = Statement::new(sql, values);
    let bytes: i64 = statement.get_result(connection).await.map_err(while_("add up a page"))?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// As SQL, what [`append_line`] and the line feed come to for the change `c`.
fn bytes_of_a_line(fields: Fields) -> String {
    let mut sql = format!("octet_length(c.line) + {}", fixed_bytes(fields) + 1);
    if fields.prev {
        sql.push_str(&format!(" + length(coalesce(c.prev::text, '{NO_PREV}'))"));
    }
    if fields.tx {
        sql.push_str(" + length(c.tx::text)");
    }
    sql
}

/// The tally after the change at `at`.
pub async fn tally_at(connection: &mut AsyncPgConnection, log: LogId, at: Seq) -> Result<Tally, StoreError> {
    if at == Seq::ZERO {
        return Ok(Tally::default());
    }
    let sql = "SELECT count, fingerprint FROM scroll.changes WHERE log_id = ? AND seq = ?";
    let statement: Statement<'_, (BigInt, BigInt)> = Statement::new(sql, vec![log.0.into(), at.get().into()]);
    statement.get_result(connection).await.map(tally).map_err(while_("read a checkpoint"))
}
