//! A client over a real socket. Every answer that it gets is held against openapi.yaml and against what
//! every answer must have.

use std::net::SocketAddr;
use std::time::Duration;

use ureq::Agent;
use ureq::http::Request;

use super::Answer;
use super::contract;

#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    agent: Agent,
    headers: Vec<(String, String)>,
}

/// A request that is being put together.
pub struct Asking<'a> {
    client: &'a Client,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Client {
    /// Without a key.
    pub fn new(address: SocketAddr) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .allow_non_standard_methods(true)
            .timeout_global(Some(Duration::from_secs(120)))
            .proxy(None)
            .build();
        Client { address, agent: config.new_agent(), headers: Vec::new() }
    }

    /// The same with a key; its connections are its own.
    pub fn with_key(&self, key: &str) -> Client {
        Client::new(self.address).with("Authorization", &format!("Bearer {key}"))
    }

    /// The same with another header on every request.
    pub fn with(mut self, name: &str, value: &str) -> Client {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key that it sends.
    pub fn key(&self) -> String {
        let line = self.headers.iter().find(|(name, _)| name == "Authorization").map(|(_, value)| value.clone());
        line.unwrap().split(' ').next_back().unwrap().to_owned()
    }

    pub fn ask(&self, method: &str, target: &str) -> Asking<'_> {
        let (method, target) = (method.to_owned(), target.to_owned());
        Asking { client: self, method, target, headers: Vec::new(), body: None }
    }

    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target).send()
    }

    pub fn head(&self, target: &str) -> Answer {
        self.ask("HEAD", target).send()
    }

    pub fn put(&self, target: &str, data: &str) -> Answer {
        self.ask("PUT", target).json(data).send()
    }

    pub fn post(&self, target: &str, data: &str) -> Answer {
        self.ask("POST", target).json(data).send()
    }

    pub fn patch(&self, target: &str, data: &str) -> Answer {
        self.ask("PATCH", target).merge_patch(data).send()
    }

    pub fn delete(&self, target: &str) -> Answer {
        self.ask("DELETE", target).send()
    }

    /// The newest seq.
    pub fn log_head(&self) -> u64 {
        self.head("/v1/changes?since=now").expect(200).number("scroll-head")
    }

    /// Every line after a cursor.
    pub fn lines_after(&self, since: u64) -> Vec<super::Entry> {
        self.get(&format!("/v1/changes?since={since}&limit=9223372036854775807")).expect(200).lines()
    }

    /// Every line.
    pub fn all_lines(&self) -> Vec<super::Entry> {
        self.lines_after(0)
    }
}

impl Asking<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = Some(bytes.into());
        self
    }

    pub fn json(self, text: &str) -> Self {
        self.header("Content-Type", "application/json").body(text)
    }

    pub fn ndjson(self, text: &str) -> Self {
        self.header("Content-Type", "application/x-ndjson").body(text)
    }

    pub fn merge_patch(self, text: &str) -> Self {
        self.header("Content-Type", "application/merge-patch+json").body(text)
    }

    /// Sends it; the answer must arrive whole.
    pub fn send(self) -> Answer {
        let named = format!("{} {}", self.method, self.target);
        self.try_send().unwrap_or_else(|error| panic!("{named}: {error}"))
    }

    /// Sends it; the error says that no whole answer came.
    pub fn try_send(self) -> Result<Answer, String> {
        let mut request = Request::builder()
            .method(self.method.as_str())
            .uri(format!("http://{}{}", self.client.address, self.target));
        for (name, value) in self.client.headers.iter().chain(&self.headers) {
            request = request.header(name, value);
        }
        // Without a body these still say that its length is 0.
        let has_length = ["POST", "PUT", "PATCH"].contains(&self.method.as_str());
        let response = match self.body.or(has_length.then(Vec::new)) {
            Some(body) => self.client.agent.run(request.body(body).unwrap()),
            None => self.client.agent.run(request.body(()).unwrap()),
        };
        let (parts, body) = response.map_err(|error| error.to_string())?.into_parts();
        let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        let body = body.into_with_config().limit(u64::MAX).read_to_vec().map_err(|error| error.to_string())?;
        let answer = Answer { method: self.method, target: self.target, status: parts.status.as_u16(), headers, body };
        contract::check(&answer);
        Ok(answer)
    }
}
