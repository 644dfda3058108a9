//! A running server, and requests byte by byte: a client that hides nothing.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use scroll::access::{NewKey, Scope};
use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::server::{Server, ServerSettings};

use crate::support::bed::Bed;
use crate::support::commands::{log_name, resource};
use crate::support::desk::Desk;

pub struct Served {
    pub desk: Desk,
    server: Server,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Served {
    /// A server with the built-in types.
    pub async fn start(bed: &Bed) -> Served {
        let desk = Desk::open(bed).await;
        let settings =
            ServerSettings { listen: SocketAddr::from(([127, 0, 0, 1], 0)), workers: 1, ..ServerSettings::default() };
        let (catalog, metrics) = (Arc::new(Catalog::builtin()), Arc::new(Metrics::new().unwrap()));
        let started = Server::start(settings, desk.store.clone(), catalog, bed.clock.clone(), metrics).await;
        Served { desk, server: started.unwrap() }
    }

    /// A key for everything in the log, or for these resources only.
    pub async fn key(&self, resources: Option<&[&str]>) -> String {
        let new = NewKey {
            log: Some(log_name("default")),
            scopes: Scope::ALL.into(),
            resources: resources.map(|names| names.iter().map(|name| resource(name)).collect()),
            name: None,
            expires_at: None,
        };
        self.desk.store.create_key(new).await.unwrap().1.reveal().to_owned()
    }

    /// Sends a request line with this key, further header lines and a body, and reads to the end.
    pub async fn ask(&self, key: &str, line: &str, headers: &str, body: &str) -> Answer {
        let request = format!(
            "{line}\r\nHost: scroll\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let address = self.server.address();
        tokio::task::spawn_blocking(move || Answer::to(address, &request)).await.unwrap()
    }

    /// A GET with this key.
    pub async fn get(&self, key: &str, target: &str) -> Answer {
        self.ask(key, &format!("GET {target} HTTP/1.1"), "", "").await
    }

    /// A request with a JSON body.
    pub async fn send(&self, key: &str, method: &str, target: &str, body: &str) -> Answer {
        let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let header = format!("Content-Type: {media_type}\r\n");
        self.ask(key, &format!("{method} {target} HTTP/1.1"), &header, body).await
    }

    /// Takes the server down.
    pub async fn stop(self) {
        self.server.drain().await;
    }
}

impl Answer {
    fn to(address: SocketAddr, request: &str) -> Answer {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // A connection that is cut may end with a reset; what came until then counts.
        let _ = socket.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, body: bytes[end + 4..].to_vec(), head }
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// What the header promises of the body.
    pub fn content_length(&self) -> Option<usize> {
        self.header("content-length").map(|digits| digits.parse().unwrap())
    }

    /// The slug of a problem.
    pub fn slug(&self) -> String {
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        document["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned()
    }
}
