//! Connections that write as fast as they are answered, and the look at what they were answered: every
//! acknowledged write has a number of its own in its log, all of them new, without a hole.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::data::{Invoice, Random};
use crate::http::{self, Connection};
use crate::stats::Latencies;

/// How many entities are written to, over all logs, so that nearly every write is an update.
pub const ENTITIES: u64 = 10_000;
/// Size of one object.
pub const DATA_BYTES: usize = 300;
/// Operations of one batch while the entities are made.
const BATCH: u64 = 2_500;
/// How long after its end a run may still wait for answers.
const GRACE: Duration = Duration::from_secs(60);

/// The logs that are written to, with a key for all of them.
pub struct Logs {
    key: Arc<str>,
    names: Arc<[String]>,
    /// The newest seq of each that was acknowledged.
    heads: Vec<u64>,
}

/// How to write.
#[derive(Clone, Copy)]
pub struct Load {
    /// Connections, shared out over the servers.
    pub connections: usize,
    /// For how long.
    pub length: Duration,
    /// Of a hundred writes, how many carry a precondition that fails.
    pub refused_percent: u64,
}

/// What came of it.
pub struct Measured {
    /// Answered writes per second, those refused as they should be included.
    pub rate: f64,
    /// Acknowledged writes.
    pub acknowledged: usize,
    /// How long each took.
    pub latencies: Latencies,
}

/// One answered write.
struct Answered {
    log: usize,
    /// `None`: refused as it should be.
    seq: Option<u64>,
    took: Duration,
}

impl Logs {
    /// Makes the entities, spread over logs that exist.
    pub async fn fill(address: SocketAddr, key: &str, names: Vec<String>) -> Outcome<Logs> {
        let mut logs = Logs { key: key.into(), heads: vec![0; names.len()], names: names.into() };
        for log in 0..logs.names.len() {
            for first in (0..logs.entities_each()).step_by(BATCH as usize) {
                logs.heads[log] = logs.make_entities(address, log, first).await?;
            }
        }
        Ok(logs)
    }

    fn entities_each(&self) -> u64 {
        ENTITIES / self.names.len() as u64
    }

    fn headers(&self, log: usize, kind: &str) -> String {
        format!("Content-Type: {kind}\r\nScroll-Log: {}\r\n", self.names[log])
    }

    /// Makes entities from `first` on in one batch; the last seq.
    async fn make_entities(&self, address: SocketAddr, log: usize, first: u64) -> Outcome<u64> {
        let mut operations = String::new();
        let numbers = first..(first + BATCH).min(self.entities_each());
        numbers.for_each(|number| Invoice { number, version: 0 }.write_operation(&mut operations, DATA_BYTES));
        let mut request = Vec::new();
        let headers = self.headers(log, "application/x-ndjson");
        http::write_request(&mut request, "POST /v1/batch", &self.key, &headers, operations.as_bytes());
        let mut connection = Connection::open(address).await?;
        let head = connection.send(&request).await?;
        let body = connection.whole().await?;
        match (head.status, head.header("scroll-seq")) {
            (200, Some(seq)) => Ok(seq.parse()?),
            (status, _) => Err(format!("a batch was answered {status}: {}", String::from_utf8_lossy(&body)).into()),
        }
    }

    /// Writes to the servers, each connection to a log picked at random every time.
    pub async fn write(&mut self, servers: &[SocketAddr], load: Load, version: &Arc<AtomicU64>) -> Outcome<Measured> {
        let begin = Instant::now();
        let writers = (0..load.connections).map(|index| {
            let random = Random((load.connections * 1_000 + index) as u64);
            let logs = Logs { key: self.key.clone(), names: self.names.clone(), heads: Vec::new() };
            let writer = Writer { logs, version: version.clone(), random, refused_percent: load.refused_percent };
            let address = servers[index % servers.len()];
            tokio::spawn(tokio::time::timeout(load.length + GRACE, writer.run(address, begin + load.length)))
        });
        let mut answered = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            answered.extend(writer.await???);
        }
        let took = begin.elapsed().as_secs_f64();
        self.check_distinct(&answered)?;
        let acknowledged = answered.iter().filter(|write| write.seq.is_some()).count();
        let latencies = Latencies::new(answered.iter().map(|write| write.took).collect());
        Ok(Measured { rate: answered.len() as f64 / took, acknowledged, latencies })
    }

    /// Nobody else writes, so the numbers of each log go on where they were.
    fn check_distinct(&mut self, answered: &[Answered]) -> Outcome<()> {
        let mut seqs: Vec<Vec<u64>> = vec![Vec::new(); self.names.len()];
        for write in answered {
            seqs[write.log].extend(write.seq);
        }
        for (seqs, head) in seqs.iter_mut().zip(&mut self.heads) {
            seqs.sort_unstable();
            if !seqs.iter().copied().eq(*head + 1..=*head + seqs.len() as u64) {
                let count = seqs.len();
                return Err(
                    format!("{count} writes after {head} were not acknowledged with {count} new numbers").into()
                );
            }
            *head += seqs.len() as u64;
        }
        Ok(())
    }
}

/// One connection.
struct Writer {
    logs: Logs,
    version: Arc<AtomicU64>,
    random: Random,
    refused_percent: u64,
}

impl Writer {
    async fn run(mut self, address: SocketAddr, end: Instant) -> Outcome<Vec<Answered>> {
        let mut connection = Connection::open(address).await?;
        let mut answered = Vec::new();
        let mut request = Vec::new();
        while Instant::now() < end {
            let (log, is_refused) = self.write_put(&mut request);
            let begin = Instant::now();
            let head = connection.send(&request).await?;
            let body = connection.whole().await?;
            let took = begin.elapsed();
            let seq = head.header("scroll-seq").and_then(|seq| seq.parse().ok());
            match (head.status, seq, is_refused) {
                (200 | 201, Some(_), false) => answered.push(Answered { log, seq, took }),
                (412, _, true) => answered.push(Answered { log, seq: None, took }),
                (status, ..) => {
                    return Err(format!("a write was answered {status}: {}", String::from_utf8_lossy(&body)).into());
                }
            }
        }
        Ok(answered)
    }

    /// The log that it goes to, and whether it will be refused.
    fn write_put(&mut self, request: &mut Vec<u8>) -> (usize, bool) {
        let log = (self.random.next() % self.logs.names.len() as u64) as usize;
        let number = self.random.next() % self.logs.entities_each();
        let is_refused = self.random.next() % 100 < self.refused_percent;
        let mut data = String::with_capacity(DATA_BYTES);
        Invoice { number, version: self.version.fetch_add(1, Ordering::Relaxed) }.write_data(&mut data, DATA_BYTES);
        request.clear();
        let target = format!("PUT /v1/entities/invoice/inv-{number}");
        let mut headers = self.logs.headers(log, "application/json");
        if is_refused {
            headers.push_str("If-Match: \"9007199254740991\"\r\n");
        }
        http::write_request(request, &target, &self.logs.key, &headers, data.as_bytes());
        (log, is_refused)
    }
}
