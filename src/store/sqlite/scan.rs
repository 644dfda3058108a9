//! Reads of the feed: short keyset reads in seq order, bounded in rows and bytes.
//!
//! A plain scan walks the primary key and stops when its buffer is full. Every other scan first finds the
//! matching numbers in an index ([`Candidates`]) and then fetches those lines, so a rare resource costs
//! what it holds and not what the log holds.

use bytes::Bytes;
use diesel::SqliteConnection;
use diesel::connection::DefaultLoadingMode;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::candidates::Candidates;
use super::error::while_;
use super::schema::changes;
use crate::access::LogId;
use crate::change::line::{Extras, NO_PREV, append_line, fixed_bytes};
use crate::change::{Fields, Selection, Seq, Timestamp};
use crate::store::columns::{seq_of, tally};
use crate::store::{Chunk, ChunkSize, Depth, Extent, Scan, StoreError};

/// Numbers looked up in an index for one chunk. More than a chunk of ordinary lines holds would be looked
/// up in vain.
const CANDIDATES_PER_CHUNK: i64 = 1_000;

#[derive(QueryableByName)]
struct LineRow {
    #[diesel(sql_type = BigInt)]
    seq: i64,
    #[diesel(sql_type = Text)]
    line: String,
    #[diesel(sql_type = BigInt)]
    time: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    prev: Option<i64>,
    #[diesel(sql_type = BigInt)]
    tx: i64,
}

#[derive(QueryableByName)]
struct ExtentRow {
    #[diesel(sql_type = BigInt)]
    matched: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    last: Option<i64>,
}

#[derive(QueryableByName)]
struct LengthRow {
    #[diesel(sql_type = BigInt)]
    bytes: i64,
}

/// Lines in the making.
struct Lines {
    bytes: Vec<u8>,
    count: u64,
    last: Option<i64>,
    size: ChunkSize,
}

impl Lines {
    fn new(size: ChunkSize) -> Lines {
        // Lines are seldom longer than a few KiB; the buffer grows for one that is.
        Lines { bytes: Vec::with_capacity(size.bytes + (4 << 10)), count: 0, last: None, size }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.size.bytes || self.count >= u64::from(self.size.lines)
    }

    fn end_line(&mut self, seq: i64) {
        self.bytes.push(b'\n');
        self.count += 1;
        self.last = Some(seq);
    }

    fn finish(self) -> Result<Chunk, StoreError> {
        let last = self.last.map(seq_of).transpose()?;
        Ok(Chunk { bytes: Bytes::from(self.bytes), lines: self.count, last })
    }
}

/// The next lines of a scan.
pub fn chunk(
    connection: &mut SqliteConnection,
    log: LogId,
    scan: &Scan,
    fields: Fields,
    size: ChunkSize,
) -> Result<Chunk, StoreError> {
    if scan.selection == Selection::All && scan.depth == Depth::All && fields.is_empty() {
        return plain(connection, log, scan, size);
    }
    let mut lines = Lines::new(size);
    let candidates = Candidates::find(connection, log, scan)?;
    let limit = i64::from(size.lines).min(CANDIDATES_PER_CHUNK);
    let sql = format!(
        "SELECT c.seq, c.line, c.time, c.prev, c.tx FROM ({} ORDER BY seq LIMIT ?) AS k \
         CROSS JOIN changes AS c ON c.log_id = ? AND c.seq = k.seq ORDER BY k.seq",
        candidates.sql()
    );
    let query = candidates.bind(sql_query(sql).into_boxed()).bind::<BigInt, _>(limit).bind::<BigInt, _>(log.0);
    let failed = while_("read changes");
    for row in query.load_iter::<LineRow, DefaultLoadingMode>(connection).map_err(&failed)? {
        let row = row.map_err(&failed)?;
        if fields.is_empty() {
            lines.bytes.extend_from_slice(row.line.as_bytes());
        } else {
            let prev = row.prev.map(seq_of).transpose()?;
            let extras = Extras { time: Timestamp::from_micros(row.time), prev, tx: seq_of(row.tx)? };
            append_line(&mut lines.bytes, &row.line, fields, extras);
        }
        lines.end_line(row.seq);
        if lines.is_full() {
            break;
        }
    }
    lines.finish()
}

/// Every line as it is stored: the statement is prepared once, and rows go straight into the buffer until
/// it is full. No LIMIT: a bound one makes SQLite plan the statement anew each time.
fn plain(connection: &mut SqliteConnection, log: LogId, scan: &Scan, size: ChunkSize) -> Result<Chunk, StoreError> {
    let mut lines = Lines::new(size);
    let query = changes::table
        .filter(changes::log_id.eq(log.0))
        .filter(changes::seq.gt(scan.after.get()).and(changes::seq.le(scan.until.get())))
        .order(changes::seq)
        .select((changes::seq, changes::line));
    let failed = while_("read changes");
    for row in query.load_iter::<(i64, String), DefaultLoadingMode>(connection).map_err(&failed)? {
        let (seq, line) = row.map_err(&failed)?;
        lines.bytes.extend_from_slice(line.as_bytes());
        lines.end_line(seq);
        if lines.is_full() {
            break;
        }
    }
    lines.finish()
}

/// How far `limit` matching lines reach: counted in an index, no line is read.
pub fn extent(connection: &mut SqliteConnection, log: LogId, scan: &Scan, limit: u64) -> Result<Extent, StoreError> {
    let candidates = Candidates::find(connection, log, scan)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = format!("SELECT count(*) AS matched, max(seq) AS last FROM ({} ORDER BY seq LIMIT ?)", candidates.sql());
    let query = candidates.bind(sql_query(sql).into_boxed()).bind::<BigInt, _>(limit);
    let row: ExtentRow = query.get_result(connection).map_err(while_("measure a page"))?;
    let last = row.last.map(seq_of).transpose()?;
    Ok(Extent { matched: u64::try_from(row.matched).unwrap_or(0), last })
}

/// The bytes of the lines of a scan: added up from their sizes, no line is read.
pub fn length(connection: &mut SqliteConnection, log: LogId, scan: &Scan, fields: Fields) -> Result<u64, StoreError> {
    let candidates = Candidates::find(connection, log, scan)?;
    let sql = format!(
        "SELECT coalesce(sum({}), 0) AS bytes FROM ({}) AS k \
         CROSS JOIN changes AS c ON c.log_id = ? AND c.seq = k.seq",
        bytes_of_a_line(fields),
        candidates.sql()
    );
    let query = candidates.bind(sql_query(sql).into_boxed()).bind::<BigInt, _>(log.0);
    let row: LengthRow = query.get_result(connection).map_err(while_("add up a page"))?;
    Ok(u64::try_from(row.bytes).unwrap_or(0))
}

/// As SQL, what [`append_line`] and the line feed come to for the change `c`.
fn bytes_of_a_line(fields: Fields) -> String {
    let mut sql = format!("octet_length(c.line) + {}", fixed_bytes(fields) + 1);
    if fields.prev {
        sql.push_str(&format!(" + length(coalesce(c.prev, '{NO_PREV}'))"));
    }
    if fields.tx {
        sql.push_str(" + length(c.tx)");
    }
    sql
}

/// The tally after the change at `at`.
pub fn tally_at(connection: &mut SqliteConnection, log: LogId, at: Seq) -> Result<crate::change::Tally, StoreError> {
    if at == Seq::ZERO {
        return Ok(Default::default());
    }
    let row: (i64, i64) = changes::table
        .find((log.0, at.get()))
        .select((changes::count, changes::fingerprint))
        .get_result(connection)
        .map_err(while_("read a checkpoint"))?;
    Ok(tally(row))
}
