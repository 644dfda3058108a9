//! A client of HTTP/1.1, as small as it can be, so that what is measured is the server: one connection that
//! is kept, one request at a time, bodies by Content-Length or in chunks.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Outcome;

/// Room for one read from the socket.
const READ_BYTES: usize = 64 << 10;
/// Longer heads, and longer lines before a chunk, are not HTTP.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// A connection that is kept.
pub struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
    body: Body,
}

/// What is still to come of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Done,
    Bytes(usize),
    ChunkHead,
    Chunk(usize),
}

/// Status and headers of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status code.
    pub status: u16,
    text: String,
}

impl Head {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    fn parse(text: &[u8]) -> Outcome<Head> {
        let text = String::from_utf8(text.to_vec())?;
        let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| format!("not an answer of HTTP/1.1: {text:?}"))?;
        Ok(Head { status, text })
    }

    fn body(&self) -> Outcome<Body> {
        if self.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            return Ok(Body::ChunkHead);
        }
        match self.header("content-length").map(str::parse).transpose()?.unwrap_or(0) {
            0 => Ok(Body::Done),
            length => Ok(Body::Bytes(length)),
        }
    }
}

/// Appends a request to `out`; `more` is further header lines, each ended by CR LF.
pub fn write_request(out: &mut Vec<u8>, method_and_target: &str, key: &str, more: &str, body: &[u8]) {
    out.extend_from_slice(method_and_target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(more.as_bytes());
    if !body.is_empty() {
        out.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Outcome<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: BytesMut::new(), body: Body::Done })
    }

    /// Sends a whole request and waits for the head of the answer. The body of the answer before must have
    /// been read to its end.
    pub async fn send(&mut self, request: &[u8]) -> Outcome<Head> {
        if self.body != Body::Done {
            return Err("the body of the last answer was not read".into());
        }
        self.stream.write_all(request).await?;
        let text = self.take_through(b"\r\n\r\n").await?;
        let head = Head::parse(&text)?;
        self.body = head.body()?;
        Ok(head)
    }

    /// The next piece of the body, as it arrived; `None` at its end.
    pub async fn piece(&mut self) -> Outcome<Option<Bytes>> {
        loop {
            match self.body {
                Body::Done => return Ok(None),
                Body::Bytes(left) => return self.some_of(left, Body::Bytes, Body::Done).await,
                Body::Chunk(0) => {
                    self.take_through(b"\r\n").await?;
                    self.body = Body::ChunkHead;
                }
                Body::Chunk(left) => return self.some_of(left, Body::Chunk, Body::Chunk(0)).await,
                Body::ChunkHead => self.body = self.chunk_head().await?,
            }
        }
    }

    /// The whole body.
    pub async fn whole(&mut self) -> Outcome<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    async fn some_of(&mut self, left: usize, more: fn(usize) -> Body, end: Body) -> Outcome<Option<Bytes>> {
        if self.buffer.is_empty() {
            self.fill().await?;
        }
        let piece = self.buffer.split_to(left.min(self.buffer.len())).freeze();
        self.body = if piece.len() == left { end } else { more(left - piece.len()) };
        Ok(Some(piece))
    }

    async fn chunk_head(&mut self) -> Outcome<Body> {
        let line = self.take_through(b"\r\n").await?;
        let size = usize::from_str_radix(std::str::from_utf8(&line)?.trim(), 16)?;
        if size > 0 {
            return Ok(Body::Chunk(size));
        }
        self.take_through(b"\r\n").await?;
        Ok(Body::Done)
    }

    async fn take_through(&mut self, end: &[u8]) -> Outcome<BytesMut> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|window| window == end) {
                return Ok(self.buffer.split_to(at + end.len()));
            }
            if self.buffer.len() > MAX_HEAD_BYTES {
                return Err("a head that does not end".into());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Outcome<()> {
        self.buffer.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection in the middle of an answer".into()),
            _ => Ok(()),
        }
    }
}

/// One request on a connection of its own, with its whole answer; anything but 2xx is an error.
pub async fn fetch(address: SocketAddr, method_and_target: &str, key: &str) -> Outcome<(Head, Vec<u8>)> {
    let mut request = Vec::new();
    write_request(&mut request, method_and_target, key, "", b"");
    let mut connection = Connection::open(address).await?;
    let head = connection.send(&request).await?;
    let body = connection.whole().await?;
    match head.status {
        200..300 => Ok((head, body)),
        status => Err(format!("{method_and_target}: {status} {}", String::from_utf8_lossy(&body)).into()),
    }
}
