//! A client's connection, and what it shows of the client beside requests: whether it still takes what is sent,
//! and whether it has closed its side.
//!
//! The framework asks a body for nothing while earlier bytes wait for the client, so a body cannot see that a
//! client stands still. The connection can: it counts the time in which not one byte was taken, and breaks off
//! when whoever answers has said how long that may be.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// How long a client that was found to be slow may still take the announced end.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection with its signs.
pub struct Connection {
    stream: TcpStream,
    signs: Rc<Signs>,
    /// Runs while the client takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
}

/// What the answering side and the connection tell each other. Both live on one thread.
#[derive(Debug, Default)]
pub struct Signs {
    patience: Cell<Option<Duration>>,
    is_leaving: Cell<bool>,
    is_slow: Cell<bool>,
    has_closed: Cell<bool>,
}

impl Signs {
    /// From now on the client may take nothing for so long; then the connection breaks off.
    pub fn expect(&self, patience: Duration) {
        self.patience.set(Some(patience));
        self.is_leaving.set(false);
    }

    /// The patience holds until what was written is taken, and no longer.
    pub fn expect_no_more(&self) {
        self.is_leaving.set(true);
    }

    /// The client has taken nothing for as long as it may.
    pub fn is_slow(&self) -> bool {
        self.is_slow.get()
    }

    /// The client has closed its side. It may be gone, or only have nothing more to ask.
    pub fn has_closed(&self) -> bool {
        self.has_closed.get()
    }
}

impl Connection {
    /// A connection that has just been accepted.
    pub fn new(stream: TcpStream) -> Connection {
        Connection { stream, signs: Rc::default(), stall: None }
    }

    /// What it shows.
    pub fn signs(&self) -> Rc<Signs> {
        self.signs.clone()
    }

    /// The client takes nothing: the error once that has lasted too long.
    fn stand_still(&mut self, context: &mut Context<'_>) -> Option<io::Error> {
        let patience = self.signs.patience.get()?;
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        if stall.as_mut().poll(context).is_pending() {
            return None;
        }
        if self.signs.is_slow.replace(true) {
            return Some(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing"));
        }
        stall.as_mut().reset(Instant::now() + FAREWELL);
        // Whoever answers may have room for an end: it is asked once more.
        context.waker().wake_by_ref();
        None
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() == before && buffer.remaining() > 0 {
            self.signs.has_closed.set(true);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Pending => self.stand_still(context).map_or(Poll::Pending, |error| Poll::Ready(Err(error))),
            written => {
                self.stall = None;
                self.signs.is_slow.set(false);
                written
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Reached only when every byte was taken.
        if self.signs.is_leaving.take() {
            self.signs.patience.set(None);
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn pair() -> (Connection, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Connection::new(listener.accept().await.unwrap().0), client)
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_slow_and_then_cut() {
        let (mut connection, _client) = pair().await;
        let signs = connection.signs();
        signs.expect(Duration::from_millis(50));
        let began = Instant::now();
        let error = connection.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(signs.is_slow());
        assert!(began.elapsed() >= FAREWELL, "it had a moment to take the end");
    }

    #[tokio::test]
    async fn a_client_that_takes_a_little_is_not_slow() {
        let (mut connection, mut client) = pair().await;
        let signs = connection.signs();
        signs.expect(Duration::from_millis(400));
        let taking = tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 20];
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(40)).await;
                client.read_exact(&mut buffer).await.unwrap();
            }
        });
        connection.write_all(&vec![0; 20 << 20]).await.unwrap();
        assert!(!signs.is_slow());
        taking.await.unwrap();
    }

    #[tokio::test]
    async fn nobody_is_slow_before_or_after_somebody_expects() {
        let (mut connection, mut client) = pair().await;
        let signs = connection.signs();
        signs.expect(Duration::from_millis(10));
        signs.expect_no_more();
        connection.flush().await.unwrap();
        let written = tokio::time::timeout(Duration::from_millis(200), connection.write_all(&vec![0; 64 << 20])).await;
        assert!(written.is_err(), "it still waits");
        assert!(!signs.has_closed());
        drop(connection);
        let mut all = Vec::new();
        // The rest may be cut off by a reset.
        let _ = client.read_to_end(&mut all).await;
    }

    #[tokio::test]
    async fn the_end_of_the_clients_side_is_seen() {
        let (mut connection, mut client) = pair().await;
        client.write_all(b"a").await.unwrap();
        client.shutdown().await.unwrap();
        let mut all = Vec::new();
        connection.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"a");
        assert!(connection.signs().has_closed());
    }
}
