//! Requests as bytes, for what a proper client would not send, and answers as they stand on the wire.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Answer, PATIENCE, contract};

/// A connection that is written to and read from by hand.
pub struct Wire {
    pub stream: TcpStream,
    pending: Vec<u8>,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As its framing promised.
    Whole,
    /// The connection ended before.
    CutOff,
}

impl Wire {
    pub fn open(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Wire { stream, pending: Vec::new() }
    }

    /// Sends bytes; the server may have closed already.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn more(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.pending.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no answer in time: {error}"),
        }
    }

    /// The head of the next answer: status and headers. `None` when the connection ended.
    pub fn answer_head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let end = loop {
            if let Some(end) = self.pending.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if !self.more() {
                return None;
            }
        };
        let head = String::from_utf8(self.pending.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let split = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Some((status, lines.map(|line| split(line).unwrap()).collect()))
    }

    fn exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.pending.len() < count {
            if !self.more() {
                return None;
            }
        }
        Some(self.pending.drain(..count).collect())
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.pending.windows(2).position(|window| window == b"\r\n") {
                let line = self.pending.drain(..end + 2).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// The rest of a body, and how it ended.
    pub fn body(&mut self, headers: &[(String, String)], is_head: bool) -> (Vec<u8>, End) {
        let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        if is_head {
            return (Vec::new(), End::Whole);
        }
        if let Some(length) = find("content-length") {
            let length = length.parse().unwrap();
            return match self.exactly(length) {
                Some(body) => (body, End::Whole),
                None => (std::mem::take(&mut self.pending), End::CutOff),
            };
        }
        if find("transfer-encoding") != Some("chunked") {
            while self.more() {}
            return (std::mem::take(&mut self.pending), End::Whole);
        }
        let mut body = Vec::new();
        loop {
            let Some(length) = self.line().map(|line| usize::from_str_radix(&line, 16).unwrap()) else {
                return (body, End::CutOff);
            };
            let Some(chunk) = self.exactly(length + 2) else {
                body.append(&mut self.pending);
                return (body, End::CutOff);
            };
            body.extend_from_slice(&chunk[..length]);
            if length == 0 {
                return (body, End::Whole);
            }
        }
    }

    /// Sends a request and reads its answer, held against the contract.
    pub fn exchange(&mut self, request: &[u8]) -> Option<Answer> {
        self.send(request);
        self.answer_to(request)
    }

    /// Reads the answer to a request that was sent.
    pub fn answer_to(&mut self, request: &[u8]) -> Option<Answer> {
        let start = String::from_utf8_lossy(request).into_owned();
        let mut words = start.lines().next().unwrap().split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap_or_default().to_owned());
        let (status, headers) = self.answer_head()?;
        let (body, end) = self.body(&headers, method == "HEAD" || status == 304 || status == 204);
        let answer = Answer { method, target, status, headers, body };
        assert_eq!(end, End::Whole, "{}", answer.told());
        contract::check(&answer);
        Some(answer)
    }
}

/// One request on a connection of its own. `head` is everything before the empty line, with `\r\n`.
pub fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut request = format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n").into_bytes();
    request.extend_from_slice(body);
    Wire::open(address).exchange(&request).unwrap_or_else(|| panic!("no answer to {head:?}"))
}
