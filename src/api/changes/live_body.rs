//! The body of an endless answer. The connection asks it for bytes, it asks the follower; between the two there
//! is no task and no queue.
//!
//! A client that is gone shows only when something is sent to it. So when its side of the connection closes,
//! it is sent signs of life every second: one that is gone answers the first with a reset, one that only had
//! nothing more to ask goes on reading.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;
use futures::stream::{self, LocalBoxStream, StreamExt as _};
use tokio::time::{Interval, MissedTickBehavior};

use super::body::CutOff;
use crate::api::connection::Signs;
use crate::api::extract::RequestId;
use crate::api::streams::Pass;
use crate::change::Seq;
use crate::feed::follow::{Follower, Piece};
use crate::feed::form::Framing;
use crate::feed::{End, FeedError};
use crate::metrics::Metrics;

/// Most bytes that are handed to the connection at once. It keeps a buffer as large as the largest of them for
/// as long as it lives, so this is memory of every follower that was ever behind.
const WIRE_BYTES: usize = 16 << 10;
/// How often a client that has closed its side is asked whether it is still there.
const PROBE: Duration = Duration::from_secs(1);

/// The body of a stream.
pub struct LiveBody {
    pieces: LocalBoxStream<'static, Result<Piece, FeedError>>,
    /// What is left of the last piece.
    rest: Bytes,
    framing: Framing,
    has_control: bool,
    cursor: Seq,
    end: Option<End>,
    probe: Option<Interval>,
    signs: Rc<Signs>,
    pass: Pass,
    metrics: Arc<Metrics>,
    request_id: RequestId,
}

impl LiveBody {
    /// A body that has begun.
    pub fn new(
        follower: Follower,
        pass: Pass,
        signs: Rc<Signs>,
        metrics: Arc<Metrics>,
        request_id: RequestId,
    ) -> LiveBody {
        metrics.open_responses.inc();
        let (framing, has_control, cursor) = (follower.framing(), follower.has_control(), follower.cursor());
        let pieces = stream::unfold(follower, |mut follower| async move {
            let piece = follower.next().await.transpose()?;
            Some((piece, follower))
        });
        let (pieces, rest) = (pieces.boxed_local(), Bytes::new());
        LiveBody {
            pieces,
            rest,
            framing,
            has_control,
            cursor,
            end: None,
            probe: None,
            signs,
            pass,
            metrics,
            request_id,
        }
    }

    /// What comes between two pieces.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Piece, FeedError>>> {
        if self.signs.is_slow() {
            let bytes = if self.has_control { self.framing.end(self.cursor, End::Slow) } else { Bytes::new() };
            return Poll::Ready(Some(Ok(Piece { bytes, lines: 0, cursor: self.cursor, end: Some(End::Slow) })));
        }
        if self.poll_probe(context).is_ready() {
            let bytes = self.framing.heartbeat();
            return Poll::Ready(Some(Ok(Piece { bytes, lines: 0, cursor: self.cursor, end: None })));
        }
        self.pieces.poll_next_unpin(context)
    }

    fn poll_probe(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.signs.has_closed() {
            return Poll::Pending;
        }
        let probe = self.probe.get_or_insert_with(|| {
            let mut probe = tokio::time::interval(PROBE);
            probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
            probe
        });
        probe.poll_tick(context).map(drop)
    }

    fn note(&mut self, piece: &Piece) {
        self.cursor = piece.cursor;
        self.pass.lines.inc_by(piece.lines);
        self.metrics.lines_sent.inc_by(piece.lines);
        self.metrics.bytes_sent.inc_by(u64::try_from(piece.bytes.len()).unwrap_or(0));
        if let Some(end) = piece.end {
            self.end = Some(end);
            self.pass.ended(end.as_str());
        }
    }

    fn fail(&mut self, error: &FeedError) -> CutOff {
        self.pass.ended("failed");
        tracing::warn!(request.id = %self.request_id, %error, "a stream was cut off");
        CutOff
    }
}

impl MessageBody for LiveBody {
    type Error = CutOff;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutOff>>> {
        loop {
            if !self.rest.is_empty() {
                let length = self.rest.len().min(WIRE_BYTES);
                return Poll::Ready(Some(Ok(self.rest.split_to(length))));
            }
            if self.end.is_some() {
                return Poll::Ready(None);
            }
            match ready!(self.poll_piece(context)) {
                Some(Ok(piece)) => {
                    self.note(&piece);
                    self.rest = piece.bytes;
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(self.fail(&error)))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for LiveBody {
    fn drop(&mut self) {
        if self.signs.is_slow() {
            self.pass.ended(End::Slow.as_str());
        }
        self.signs.expect_no_more();
        self.metrics.open_responses.dec();
    }
}
