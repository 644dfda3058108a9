//! The lines of a fixed page, in short reads.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::{FeedError, Page};
use crate::access::LogId;
use crate::change::Seq;
use crate::store::{Chunk, ChunkSize, Depth, Scan, Store, StoreError};

/// One read: large enough that its fixed cost does not show, small enough that fifty stalled readers are
/// a few megabytes.
const CHUNK: ChunkSize = ChunkSize { lines: 5_000, bytes: 256 << 10 };

/// The lines of a page, chunk by chunk, each chunk a short read of its own. The next read is under way
/// while a chunk is on its way to the client, one ahead and no more.
pub struct Lines {
    store: Arc<dyn Store>,
    log: LogId,
    page: Page,
    cursor: Seq,
    owed: u64,
    ahead: Option<JoinHandle<Result<Chunk, StoreError>>>,
}

impl Lines {
    /// Begins before the first line.
    pub fn new(store: Arc<dyn Store>, log: LogId, page: Page) -> Lines {
        Lines { cursor: page.scan.after, owed: page.lines, ahead: None, store, log, page }
    }

    /// The next lines, each ended by a line feed; `None` once the page is whole.
    pub async fn next(&mut self) -> Result<Option<Chunk>, FeedError> {
        if self.owed == 0 {
            return Ok(None);
        }
        let read = self.ahead.take().unwrap_or_else(|| self.read());
        let chunk = read
            .await
            .map_err(|error| StoreError::Unavailable { operation: "read changes", source: Box::new(error) })??;
        self.cursor = check_whole(&self.page, self.cursor, self.owed, &chunk)?;
        self.owed -= chunk.lines;
        if self.owed > 0 {
            self.ahead = Some(self.read());
        }
        Ok(Some(chunk))
    }

    /// Begins the next read. It is short and ends by itself when nobody waits for it any more.
    fn read(&self) -> JoinHandle<Result<Chunk, StoreError>> {
        let (store, log, fields) = (self.store.clone(), self.log, self.page.fields);
        let scan = Scan { after: self.cursor, ..self.page.scan.clone() };
        let lines = CHUNK.lines.min(u32::try_from(self.owed).unwrap_or(u32::MAX));
        let size = ChunkSize { lines, ..CHUNK };
        tokio::spawn(async move { store.chunk(log, scan, fields, size).await })
    }
}

/// A page is never short and never has a hole: what the headers promised is what was found. Anything else
/// is an error that ends the answer.
fn check_whole(page: &Page, cursor: Seq, owed: u64, chunk: &Chunk) -> Result<Seq, StoreError> {
    let broken = |detail: String| StoreError::Corrupt { operation: "read changes", detail };
    let Some(last) = chunk.last else {
        return Err(broken(format!("{owed} lines are missing after {cursor}")));
    };
    let is_in_order = cursor < last && last <= page.next && chunk.lines <= owed;
    let must_be_dense = page.is_dense && page.scan.depth == Depth::All;
    if !is_in_order || (must_be_dense && last.distance_from(cursor) != chunk.lines) {
        return Err(broken(format!("{} lines stand in ({cursor}, {last}]", chunk.lines)));
    }
    Ok(last)
}

/// Numbers that one read of [`byte_length`] spans, so that adding up a whole log holds no reading thread for
/// long.
const SPAN: u64 = 250_000;

/// How many bytes the lines of a page have, line feeds included: for a client that cannot see the end of a
/// body otherwise. Nothing that is written meanwhile changes it.
pub async fn byte_length(store: &dyn Store, log: LogId, page: &Page) -> Result<u64, FeedError> {
    let (mut after, mut bytes) = (page.since, 0_u64);
    while page.lines > 0 && after < page.next {
        let until = after.forward(SPAN).min(page.next);
        let scan = Scan { after, until, ..page.scan.clone() };
        bytes = bytes.saturating_add(store.length(log, scan, page.fields).await?);
        after = until;
    }
    Ok(bytes)
}

/// Largest piece that one write to a connection takes.
pub const PIECE_BYTES: usize = 64 << 10;

/// Cuts a chunk into pieces without copying.
pub fn pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(PIECE_BYTES))))
}
