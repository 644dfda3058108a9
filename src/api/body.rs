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
    /// Its size as announced; what is left of it shrinks.
    size: BodySize,
    is_sent: bool,
    entry: Entry,
}

impl Watched {
    /// Watches a body; `is_sent` is false when it answers HEAD.
    pub fn new(body: BoxBody, is_sent: bool, mut entry: Entry) -> Watched {
        let size = body.size();
        // An empty body is never asked for anything.
        if !is_sent || matches!(size, BodySize::None | BodySize::Sized(0)) {
            entry.ended();
        }
        Watched { body, size, is_sent, entry }
    }

    /// A body of a known size has ended with its last byte, whether or not it is asked again.
    fn note(&mut self, polled: &Poll<Option<Result<Bytes, Box<dyn std::error::Error>>>>) {
        match polled {
            Poll::Ready(Some(Ok(bytes))) => {
                self.entry.count(bytes.len());
                if self.size == BodySize::Sized(self.entry.bytes()) {
                    self.entry.ended();
                }
            }
            Poll::Ready(None) if !matches!(self.size, BodySize::Sized(_)) => self.entry.ended(),
            _ => {}
        }
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
        self.note(&polled);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::extract::RequestId;
    use actix_web::body::BodyStream;
    use actix_web::http::{Method, StatusCode};
    use futures::{FutureExt as _, stream};
    use std::time::Instant;

    /// Takes at most so many pieces of a body; true when it counts as cut off then.
    fn is_cut_off(body: BoxBody, is_sent: bool, pieces: usize) -> bool {
        let (id, path) = (RequestId::generate(), "/".to_owned());
        let entry = Entry::new(Instant::now(), id, Method::GET, path, StatusCode::OK);
        let mut watched = Watched::new(body, is_sent, entry);
        for _ in 0..pieces {
            let taken = std::future::poll_fn(|context| Pin::new(&mut watched).poll_next(context)).now_or_never();
            assert!(taken.is_some());
        }
        watched.entry.is_cut_off()
    }

    fn streamed(pieces: [Result<&'static str, std::io::Error>; 2]) -> BoxBody {
        BodyStream::new(stream::iter(pieces.map(|piece| piece.map(Bytes::from)))).boxed()
    }

    #[test]
    fn a_body_that_did_not_come_to_its_end_was_cut_off() {
        let two = || streamed([Ok("a"), Ok("b")]);
        assert!(is_cut_off(two(), true, 0));
        assert!(is_cut_off(two(), true, 2), "the client left before the end was seen");
        assert!(!is_cut_off(two(), true, 3));
        assert!(is_cut_off(streamed([Ok("a"), Err(std::io::Error::other("x"))]), true, 2));
        assert!(!is_cut_off(two(), false, 0), "HEAD");
        assert!(!is_cut_off("four".boxed(), true, 1));
        assert!(is_cut_off("four".boxed(), true, 0));
        assert!(!is_cut_off(BoxBody::new(()), true, 0));
    }
}
