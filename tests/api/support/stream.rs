//! An answer without an end, read as it comes: bytes, chunks, lines, events.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::raw::End;
use super::{Answer, Client, Entry, PATIENCE, contract, parse_lines};

/// An open answer.
pub struct Stream {
    socket: TcpStream,
    /// Bytes of the connection that are no body yet.
    raw: Vec<u8>,
    body: Vec<u8>,
    is_chunked: bool,
    end: Option<End>,
    /// Status and headers, without a body.
    pub head: Answer,
}

/// A server-sent event, or a comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub id: Option<String>,
    pub data: String,
    pub retry: Option<u64>,
    pub comments: usize,
}

impl Event {
    /// What its data says.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Stream {
    /// Asks, and reads the head of the answer.
    pub fn ask(client: &Client, target: &str, headers: &[(&str, &str)]) -> Stream {
        Stream::ask_as(client, &format!("GET {target} HTTP/1.1"), headers)
    }

    /// The same with a request line of one's own.
    pub fn ask_as(client: &Client, request_line: &str, headers: &[(&str, &str)]) -> Stream {
        let socket = TcpStream::connect(client.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        (&socket).write_all(request_text(client, request_line, headers).as_bytes()).unwrap();
        Stream::on(socket, request_line)
    }

    /// The answer to what was asked on a connection.
    pub fn on(socket: TcpStream, request_line: &str) -> Stream {
        let mut words = request_line.split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        let head = Answer { method, target, status: 0, headers: Vec::new(), body: Vec::new() };
        let (raw, body) = (Vec::new(), Vec::new());
        let mut stream = Stream { socket, raw, body, is_chunked: false, end: None, head };
        stream.read_head();
        stream
    }

    /// Asks for a stream that must begin.
    #[track_caller]
    pub fn open(client: &Client, target: &str) -> Stream {
        Stream::open_with(client, target, &[])
    }

    #[track_caller]
    pub fn open_with(client: &Client, target: &str, headers: &[(&str, &str)]) -> Stream {
        let stream = Stream::ask(client, target, headers);
        assert_eq!(stream.head.status, 200, "{}", stream.head.told());
        contract::check(&stream.head);
        stream
    }

    /// Asks for server-sent events.
    #[track_caller]
    pub fn events(client: &Client, target: &str, headers: &[(&str, &str)]) -> Stream {
        let all: Vec<_> = [("Accept", "text/event-stream")].iter().chain(headers).copied().collect();
        Stream::open_with(client, target, &all)
    }

    fn read_head(&mut self) {
        let end = loop {
            if let Some(end) = self.raw.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            assert!(self.fill(), "the connection ended before the answer");
        };
        let head = String::from_utf8(self.raw.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        self.head.status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let split = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        self.head.headers = lines.map(|line| split(line).unwrap()).collect();
        self.is_chunked = self.head.header("transfer-encoding") == Some("chunked");
    }

    /// The refusal that came instead of a stream.
    pub fn refusal(mut self) -> Answer {
        let length: usize = self.head.must("content-length").parse().unwrap();
        while self.raw.len() < length {
            assert!(self.fill());
        }
        self.head.body = self.raw.drain(..length).collect();
        contract::check(&self.head);
        self.head.clone()
    }

    /// How long to wait for more before a test fails.
    pub fn patience(&self, patience: Duration) {
        self.socket.set_read_timeout(Some(patience)).unwrap();
    }

    /// True when nothing comes for so long.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let mut byte = [0];
        let read = self.socket.read(&mut byte);
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        match read {
            Ok(count) => {
                self.raw.extend_from_slice(&byte[..count]);
                false
            }
            Err(error) => {
                assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
                true
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.raw.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing came in time: {error}; so far {:?}", String::from_utf8_lossy(&self.body)),
        }
    }

    /// The next chunk as it was sent; `None` at the end of the body.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        if self.end.is_some() {
            return None;
        }
        if !self.is_chunked {
            if self.raw.is_empty() && !self.fill() {
                self.end = Some(End::Whole);
                return None;
            }
            return Some(std::mem::take(&mut self.raw));
        }
        loop {
            if let Some(at) = self.raw.windows(2).position(|window| window == b"\r\n") {
                let length = usize::from_str_radix(std::str::from_utf8(&self.raw[..at]).unwrap(), 16).unwrap();
                if self.raw.len() >= at + 2 + length + 2 {
                    let chunk = self.raw[at + 2..at + 2 + length].to_vec();
                    self.raw.drain(..at + 2 + length + 2);
                    if length == 0 {
                        self.end = Some(End::Whole);
                        return None;
                    }
                    return Some(chunk);
                }
            }
            if !self.fill() {
                self.end = Some(End::CutOff);
                return self.part_of_a_chunk();
            }
        }
    }

    /// What of the last chunk arrived before the cut: whole lines in it count.
    fn part_of_a_chunk(&mut self) -> Option<Vec<u8>> {
        let at = self.raw.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&self.raw[..at]).unwrap(), 16).unwrap();
        let part: Vec<u8> = self.raw.drain(..).skip(at + 2).take(length).collect();
        (!part.is_empty()).then_some(part)
    }

    /// The next line without its line feed; `None` at the end. What came after the last line feed is dropped,
    /// as every client must.
    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.body.iter().position(|byte| *byte == b'\n') {
                let line = self.body.drain(..=at).collect();
                let line = String::from_utf8(line).unwrap();
                return Some(line.trim_end_matches('\n').to_owned());
            }
            let chunk = self.chunk()?;
            self.body.extend_from_slice(&chunk);
        }
    }

    /// The next line that is no sign of life.
    pub fn told(&mut self) -> Option<String> {
        loop {
            match self.line()? {
                line if line.is_empty() => {}
                line => return Some(line),
            }
        }
    }

    /// The next line as a change; control lines and signs of life are passed over.
    #[track_caller]
    pub fn change(&mut self) -> Entry {
        self.try_change().expect("the stream ended")
    }

    /// The same; `None` at the end.
    pub fn try_change(&mut self) -> Option<Entry> {
        loop {
            let line = self.told()?;
            if !line.starts_with("{\"control\"") {
                return Some(entry(&line));
            }
        }
    }

    /// So many changes.
    #[track_caller]
    pub fn changes(&mut self, count: usize) -> Vec<Entry> {
        (0..count).map(|_| self.change()).collect()
    }

    /// The next control line.
    #[track_caller]
    pub fn control(&mut self) -> Value {
        loop {
            let line = self.told().expect("the stream ended");
            if line.starts_with("{\"control\"") {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    /// The next event or comment; `None` at the end.
    pub fn event(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                None if line.is_empty() => return Some(event),
                Some(("", _)) => event.comments += 1,
                Some(("event", name)) => event.name = name.trim_start().to_owned(),
                Some(("id", id)) => event.id = Some(id.trim_start().to_owned()),
                Some(("retry", time)) => event.retry = Some(time.trim().parse().unwrap()),
                Some(("data", data)) => {
                    assert!(event.data.is_empty(), "one line of data is enough");
                    event.data = data.trim_start().to_owned();
                }
                _ => panic!("no line of an event: {line:?}"),
            }
        }
    }

    /// The next event of this name; others are passed over.
    #[track_caller]
    pub fn next_event(&mut self, name: &str) -> Event {
        loop {
            let event = self.event().expect("the stream ended");
            if event.name == name {
                return event;
            }
        }
    }

    /// Reads to the end; how it ended.
    pub fn finish(&mut self) -> End {
        while self.chunk().is_some() {}
        self.end.unwrap()
    }

    /// Reads until the connection ends; how many bytes came.
    pub fn close_and_count(&mut self) -> usize {
        while self.fill() {}
        self.raw.len()
    }

    /// Closes only the side that sends.
    pub fn close_sending_side(&self) {
        self.socket.shutdown(std::net::Shutdown::Write).unwrap();
    }
}

/// The text of a GET.
pub fn request(client: &Client, target: &str, headers: &[(&str, &str)]) -> String {
    request_text(client, &format!("GET {target} HTTP/1.1"), headers)
}

fn request_text(client: &Client, request_line: &str, headers: &[(&str, &str)]) -> String {
    let mut request = format!("{request_line}\r\nHost: x\r\nAuthorization: Bearer {}\r\n", client.key());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{request}\r\n")
}

/// A line as a change.
#[track_caller]
pub fn entry(line: &str) -> Entry {
    parse_lines(format!("{line}\n").as_bytes()).remove(0)
}
