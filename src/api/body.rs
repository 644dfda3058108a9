//! Bodies that are not what they seem: the body of an answer to HEAD, and one that is watched until it ends.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;

use super::middleware::access_log::Entry;

/// The body that GET would send and HEAD leaves away, with the size that it would have.
#[derive(Debug, Clone, Copy)]
pub struct Unsent(pub BodySize);

impl MessageBody for Unsent {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        self.0
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(None)
    }
}

/// A body whose bytes are counted, and whose end is logged whichever way it comes. For HEAD it keeps its
/// headers and is never asked for a byte.
pub struct Watched {
    body: BoxBody,
    is_sent: bool,
    entry: Entry,
}

impl Watched {
    /// Watches a body; `is_sent` is false when it answers HEAD.
    pub fn new(body: BoxBody, is_sent: bool, entry: Entry) -> Watched {
        Watched { body, is_sent, entry }
    }
}

impl MessageBody for Watched {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        // A size that is promised and not kept ends the connection; the frame writes the header itself.
        if self.is_sent { self.body.size() } else { BodySize::Stream }
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if !self.is_sent {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.body).poll_next(context);
        if let Poll::Ready(Some(Ok(bytes))) = &polled {
            self.entry.count(bytes.len());
        }
        if let Poll::Ready(Some(Err(_))) = &polled {
            self.entry.cut_off();
        }
        polled
    }
}
