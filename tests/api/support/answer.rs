//! An answer, and short ways to ask what it says.

use serde_json::Value;

use super::model::{Entry, parse_lines};

#[derive(Debug, Clone)]
pub struct Answer {
    pub method: String,
    pub target: String,
    pub status: u16,
    /// Names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// What to say of it when a test fails.
    pub fn told(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let body: String = body.chars().take(600).collect();
        format!("{} {} -> {} {:?} {body}", self.method, self.target, self.status, self.headers)
    }

    /// It has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", self.told());
        self
    }

    /// It is this refusal; the document.
    #[track_caller]
    pub fn refused(&self, status: u16, slug: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.told());
        let document = self.json();
        assert_eq!(document["type"], format!("/problems/{slug}"), "{}", self.told());
        document
    }

    /// It is a refusal that names this parameter.
    #[track_caller]
    pub fn refused_parameter(&self, parameter: &str) -> Value {
        let document = self.refused(400, "invalid-parameter");
        assert_eq!(document["parameter"], parameter, "{}", self.told());
        document
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.iter().filter(|(known, _)| known == name);
        let first = lines.next().map(|(_, value)| value.as_str());
        assert!(lines.next().is_none(), "{name} stands twice: {}", self.told());
        first
    }

    /// A header that must be there.
    #[track_caller]
    pub fn must(&self, name: &str) -> &str {
        self.header(name).unwrap_or_else(|| panic!("{name} is missing: {}", self.told()))
    }

    /// A header that is a number.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        self.must(name).parse().unwrap()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.told()))
    }

    /// The body as lines of the log.
    pub fn lines(&self) -> Vec<Entry> {
        parse_lines(&self.body)
    }

    /// The body as the one line that a write or a read of an entity answers.
    pub fn line(&self) -> Entry {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{}", self.told());
        lines.remove(0)
    }

    /// The target of `Link: rel="next"`.
    pub fn next_link(&self) -> String {
        let link = self.must("link");
        let inner = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        inner.unwrap_or_else(|| panic!("{link}")).to_owned()
    }

    /// Headers without those that differ from request to request, sorted.
    pub fn stable_headers(&self) -> Vec<(String, String)> {
        let passing = ["date", "scroll-request-id", "transfer-encoding", "connection"];
        let mut headers: Vec<_> =
            self.headers.iter().filter(|(name, _)| !passing.contains(&name.as_str())).cloned().collect();
        headers.sort();
        headers
    }
}
