//! A follower as small as it can be, so that ten thousand of them fit beside the server that is measured. It
//! asks in HTTP/1.0, so that nothing but lines comes after the head.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Outcome;

/// Room for one read of a follower.
const READ_BYTES: usize = 16 << 10;
/// Room for the head of an answer.
const HEAD_BYTES: usize = 4 << 10;

/// An open stream.
pub struct Follower {
    stream: TcpStream,
    /// Lines that came with the head.
    early: u64,
}

impl Follower {
    /// Follows with this query.
    pub async fn open(address: SocketAddr, key: &str, query: &str) -> Outcome<Follower> {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET /v1/changes?{query} HTTP/1.0\r\nAuthorization: Bearer {key}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let end = loop {
            if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut head).await? == 0 {
                return Err("a follower was sent away".into());
            }
        };
        if !head.starts_with(b"HTTP/1.0 200") {
            return Err(format!("a follower was refused: {}", String::from_utf8_lossy(&head)).into());
        }
        Ok(Follower { stream, early: lines(&head[end..]) })
    }

    /// Takes so many lines; when each of them was whole.
    pub async fn times(mut self, count: usize) -> Outcome<Vec<Instant>> {
        let mut times = vec![Instant::now(); self.early as usize];
        let mut buffer = vec![0; READ_BYTES];
        while times.len() < count {
            let read = self.stream.read(&mut buffer).await?;
            if read == 0 {
                return Err(format!("a stream ended after {} lines", times.len()).into());
            }
            times.resize(times.len() + lines(&buffer[..read]) as usize, Instant::now());
        }
        Ok(times)
    }

    /// Takes lines until the stream ends, and counts them where others look.
    pub async fn count(mut self, counter: Arc<AtomicU64>) -> Outcome<u64> {
        let (mut buffer, mut bytes) = (vec![0; READ_BYTES], 0);
        counter.fetch_add(self.early, Ordering::Relaxed);
        loop {
            let read = self.stream.read(&mut buffer).await?;
            if read == 0 {
                return Ok(bytes);
            }
            bytes += read as u64;
            counter.fetch_add(lines(&buffer[..read]), Ordering::Relaxed);
        }
    }
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
