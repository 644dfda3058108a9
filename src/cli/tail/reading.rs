//! One answer of a server, read line by line on a thread of its own, so that silence is noticed.

use std::io::{BufRead as _, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::change::Seq;
use crate::change::line::seq_of;
use crate::cli::terminal::printable;

/// How long connecting, and then the head of the answer, may take.
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(30);
/// Seconds between two signs of life, and after how long a connection without one is dead.
const HEARTBEAT_SECONDS: u32 = 15;
const SILENCE: Duration = Duration::from_secs(45);
/// Lines that were read and not shown yet.
const WAITING_LINES: usize = 256;
/// Longest refusal that is read.
const MAX_REFUSAL_BYTES: u64 = 64 << 10;

/// What is asked for, and where to go on.
pub struct Query {
    /// Scheme, host, perhaps a path in front.
    pub server: String,
    /// The key.
    pub key: String,
    /// The log, for a key of all logs.
    pub log: Option<String>,
    /// The cursor, or `now`.
    pub since: String,
    /// The epoch of the first answer: a log that went back is not gone on with.
    pub epoch: Option<String>,
    /// Only these.
    pub resources: Vec<String>,
    /// Only these.
    pub ids: Vec<String>,
    /// Lines that are still to come.
    pub left: Option<u64>,
}

/// Why a reading ended.
pub enum Ended {
    /// There is nothing more to show.
    Done,
    /// It makes no sense to try again.
    Refused(String),
    /// Trying again will help.
    Passing {
        /// In words.
        why: String,
        /// How long the server asks to wait.
        at_least: Duration,
    },
}

/// What came.
pub enum Arrived {
    /// A change.
    Change {
        /// Its number.
        seq: Seq,
        /// As it came, without its line feed.
        line: String,
    },
    /// The cursor moves.
    Bookmark(Seq),
    /// Nothing new.
    SignOfLife,
    /// No more.
    End(Ended),
}

/// An open answer.
pub struct Reading {
    lines: Receiver<Result<String, String>>,
    head: Option<String>,
    epoch: Option<String>,
}

impl Query {
    fn url(&self) -> String {
        let server = &self.server;
        let mut url = format!("{server}/v1/changes?feed=continuous&control=true&heartbeat={HEARTBEAT_SECONDS}");
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let list = |items: &[String]| items.iter().map(|item| encoded(item)).collect::<Vec<_>>().join(",");
        url.push_str(&format!("&since={}", encoded(&self.since)));
        let lists = [("resource", list(&self.resources)), ("id", list(&self.ids))];
        let others = [("limit", self.left.map(|left| left.to_string())), ("epoch", self.epoch.clone())];
        let others = others.into_iter().map(|(name, value)| (name, value.unwrap_or_default()));
        for (name, value) in lists.into_iter().chain(others).filter(|(_, value)| !value.is_empty()) {
            url.push_str(&format!("&{name}={value}"));
        }
        url
    }
}

impl Reading {
    /// Asks.
    pub fn begin(query: &Query) -> Result<Reading, Ended> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .user_agent(concat!("scroll/", env!("CARGO_PKG_VERSION")));
        let agent = config.build().new_agent();
        let mut request = agent.get(query.url()).header("Authorization", format!("Bearer {}", query.key));
        if let Some(log) = &query.log {
            request = request.header("Scroll-Log", log);
        }
        let response = request.call().map_err(|error| passing(format!("the server cannot be reached: {error}")))?;
        if response.status() != 200 {
            return Err(refused(response));
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (head, epoch) = (header("scroll-head"), header("scroll-epoch"));
        let (sender, lines) = sync_channel(WAITING_LINES);
        std::thread::spawn(move || read(response.into_body(), &sender));
        Ok(Reading { lines, head, epoch })
    }

    /// Puts the query where this answer begins, so that the next one goes on there.
    pub fn place(&self, query: &mut Query) {
        if let (Some(head), "now") = (&self.head, query.since.as_str()) {
            query.since = head.clone();
        }
        if query.epoch.is_none() {
            query.epoch = self.epoch.clone();
        }
    }

    /// What comes next.
    pub fn next(&mut self) -> Arrived {
        match self.lines.recv_timeout(SILENCE) {
            Ok(Ok(line)) if line.is_empty() => Arrived::SignOfLife,
            Ok(Ok(line)) => arrived(line),
            Ok(Err(why)) => Arrived::End(passing(why)),
            Err(RecvTimeoutError::Timeout) => Arrived::End(passing("the server is silent".to_owned())),
            Err(RecvTimeoutError::Disconnected) => Arrived::End(passing("the server ended the stream".to_owned())),
        }
    }
}

/// Hands over whole lines until the answer ends, or nobody listens.
fn read(body: Body, sender: &SyncSender<Result<String, String>>) {
    let mut body = BufReader::new(body.into_reader());
    loop {
        let mut line = Vec::new();
        let read = match body.read_until(b'\n', &mut line) {
            // A line without its line feed was cut: it comes again.
            Ok(_) if line.pop() != Some(b'\n') => return,
            Ok(_) => String::from_utf8(line).map_err(|_| "the server sent what is no text".to_owned()),
            Err(error) => Err(format!("the connection broke off: {error}")),
        };
        if sender.send(read).is_err() {
            return;
        }
    }
}

fn arrived(line: String) -> Arrived {
    if let Some(seq) = seq_of(line.as_bytes()) {
        return Arrived::Change { seq, line };
    }
    let control: Value = serde_json::from_str(&line).unwrap_or_default();
    let seq = control.get("seq").and_then(Value::as_i64).and_then(Seq::new);
    match (control.get("control").and_then(Value::as_str), seq) {
        (Some("bookmark"), Some(seq)) => Arrived::Bookmark(seq),
        (Some("end"), _) => {
            let reason = control.get("reason").and_then(Value::as_str).unwrap_or_default();
            Arrived::End(passing(format!("the server ended the stream ({})", printable(reason))))
        }
        // Something newer than this program.
        _ => Arrived::SignOfLife,
    }
}

fn passing(why: String) -> Ended {
    Ended::Passing { why, at_least: Duration::ZERO }
}

/// What a refusal says: the server's own words where it has some.
fn refused(mut response: Response<Body>) -> Ended {
    let status = response.status();
    let seconds = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let body = response.body_mut().with_config().limit(MAX_REFUSAL_BYTES).read_to_string().unwrap_or_default();
    let problem: Value = serde_json::from_str(&body).unwrap_or_default();
    let said = |member: &str| problem.get(member).and_then(Value::as_str).map(printable);
    let words = match (said("title"), said("detail")) {
        (Some(title), Some(detail)) => format!("{title}: {detail} ({status})"),
        _ => format!("the server answered {status}"),
    };
    if status.is_server_error() || status == 429 {
        return Ended::Passing { why: words, at_least: Duration::from_secs(seconds.unwrap_or(0)) };
    }
    Ended::Refused(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_written_as_the_server_reads_it() {
        let query = Query {
            server: "http://x".into(),
            key: "k".into(),
            log: None,
            since: "7".into(),
            epoch: Some("e".into()),
            resources: vec!["note".into(), "plan".into()],
            ids: vec!["a,b".into(), "c d".into()],
            left: Some(3),
        };
        let common = "http://x/v1/changes?feed=continuous&control=true&heartbeat=15&since=7";
        assert_eq!(query.url(), format!("{common}&resource=note,plan&id=a%2Cb,c%20d&limit=3&epoch=e"));
    }

    #[test]
    fn lines_are_told_apart() {
        assert!(matches!(arrived(r#"{"seq":7,"resource":"note"}"#.into()), Arrived::Change { .. }));
        assert!(matches!(arrived(r#"{"control":"bookmark","seq":7}"#.into()), Arrived::Bookmark(_)));
        assert!(matches!(arrived(r#"{"control":"end","seq":7,"reason":"drain"}"#.into()), Arrived::End(_)));
        assert!(matches!(arrived(r#"{"control":"something","new":1}"#.into()), Arrived::SignOfLife));
    }
}
