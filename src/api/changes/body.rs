//! The body of a page: a producer fills a bounded channel, the connection drains it.
//!
//! The body never touches the store. When the client is gone the channel closes and the producer stops; when
//! the producer fails the body fails, and actix ends the connection without the final chunk, so that a
//! half-sent page cannot be taken for a whole one. HTTP/1.0 knows no chunks; there a page has its exact size.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

use super::encoding::{Coding, Encoder};
use crate::access::LogId;
use crate::feed::lines::{Lines, pieces};
use crate::feed::{FeedError, Page};
use crate::metrics::Metrics;
use crate::store::Store;

/// Pieces that may wait for a slow client: a quarter of a MiB.
const WAITING_PIECES: usize = 4;
/// A client that takes nothing for so long has gone without saying so. A person reading through a pager
/// has time to read.
const MAX_STALL: Duration = Duration::from_mins(5);

/// Why a body ended before its end. Said to nobody but the connection, which is cut.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut off")]
pub struct CutOff;

/// The receiving end, as actix takes it.
pub struct PageBody {
    pieces: mpsc::Receiver<Result<Bytes, CutOff>>,
    size: BodySize,
    metrics: Arc<Metrics>,
}

impl MessageBody for PageBody {
    type Error = CutOff;

    fn size(&self) -> BodySize {
        self.size
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutOff>>> {
        self.pieces.poll_recv(context)
    }
}

/// The size of a page whose lines, each with its line feed, have so many bytes.
pub fn size_of(frame: &Frame, line_bytes: u64) -> BodySize {
    BodySize::Sized(match frame {
        Frame::Ndjson => line_bytes,
        Frame::Json { before, after } => {
            let around = u64::try_from(before.len() + after.len()).unwrap_or(0);
            // The line feeds become commas, and none stands after the last item.
            line_bytes.saturating_sub(1) + around
        }
    })
}

impl Drop for PageBody {
    fn drop(&mut self) {
        self.metrics.open_responses.dec();
    }
}

/// How the lines of a page are framed.
#[derive(Debug, Clone)]
pub enum Frame {
    /// Each line ended by a line feed.
    Ndjson,
    /// Items of one JSON array; the text that stands before and after them.
    Json {
        /// Up to and with the opening bracket.
        before: String,
        /// From the closing bracket on.
        after: String,
    },
}

/// What the producer works with.
pub struct Producer {
    /// Where the lines come from.
    pub store: Arc<dyn Store>,
    /// Whose they are.
    pub log: LogId,
    /// Which they are.
    pub page: Page,
    /// How they are framed.
    pub frame: Frame,
    /// How they are compressed.
    pub coding: Coding,
    /// What the body is announced to have.
    pub size: BodySize,
    /// Counts what is sent.
    pub metrics: Arc<Metrics>,
    /// Names the answer in the log.
    pub request_id: String,
}

/// The body, and the work that fills it.
pub fn channel(producer: Producer) -> (PageBody, impl Future<Output = ()> + Send + 'static) {
    let (sender, pieces) = mpsc::channel(WAITING_PIECES);
    producer.metrics.open_responses.inc();
    let body = PageBody { pieces, size: producer.size, metrics: producer.metrics.clone() };
    (body, producer.run(sender))
}

/// Why the producer stopped.
enum Stopped {
    /// The client has gone, or stands still.
    NobodyListens,
    /// The page cannot be finished.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl From<FeedError> for Stopped {
    fn from(error: FeedError) -> Stopped {
        Stopped::Failed(Box::new(error))
    }
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Stopped {
        Stopped::Failed(Box::new(error))
    }
}

impl Producer {
    async fn run(self, sender: mpsc::Sender<Result<Bytes, CutOff>>) {
        let request_id = self.request_id.clone();
        match self.produce(&sender).await {
            Ok(()) => {}
            Err(Stopped::NobodyListens) => tracing::debug!(request.id = %request_id, "the client left before the end"),
            Err(Stopped::Failed(cause)) => {
                tracing::error!(request.id = %request_id, error = %cause, "a page was cut off");
                // The client may be gone as well.
                let _ = sender.send(Err(CutOff)).await;
            }
        }
    }

    async fn produce(self, sender: &mpsc::Sender<Result<Bytes, CutOff>>) -> Result<(), Stopped> {
        let mut encoder = Encoder::new(self.coding)?;
        if let Frame::Json { before, .. } = &self.frame {
            hand_over(sender, encoder.piece(before.clone().into())?).await?;
        }
        let mut owed = self.page.lines;
        let mut lines = Lines::new(self.store, self.log, self.page);
        while let Some(chunk) = lines.next().await? {
            owed -= chunk.lines;
            self.metrics.lines_sent.inc_by(chunk.lines);
            self.metrics.bytes_sent.inc_by(u64::try_from(chunk.bytes.len()).unwrap_or(0));
            let bytes = match &self.frame {
                Frame::Ndjson => chunk.bytes,
                Frame::Json { .. } => as_items(chunk.bytes, owed == 0),
            };
            for piece in pieces(bytes) {
                hand_over(sender, encoder.piece(piece)?).await?;
            }
        }
        if let Frame::Json { after, .. } = &self.frame {
            hand_over(sender, encoder.piece(after.clone().into())?).await?;
        }
        hand_over(sender, encoder.finish()?).await
    }
}

async fn hand_over(sender: &mpsc::Sender<Result<Bytes, CutOff>>, piece: Bytes) -> Result<(), Stopped> {
    if piece.is_empty() {
        return Ok(());
    }
    match tokio::time::timeout(MAX_STALL, sender.send(Ok(piece))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Stopped::NobodyListens),
    }
}

/// Lines as items of an array. A line feed stands only at the end of a line, so it becomes the comma.
fn as_items(lines: Bytes, is_last: bool) -> Bytes {
    let mut items = BytesMut::from(lines);
    items.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b',');
    if is_last {
        items.truncate(items.len().saturating_sub(1));
    }
    items.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_items() {
        assert_eq!(as_items(Bytes::from_static(b"{}\n{\"a\":1}\n"), false), "{},{\"a\":1},");
        assert_eq!(as_items(Bytes::from_static(b"{}\n{\"a\":1}\n"), true), "{},{\"a\":1}");
    }
}
