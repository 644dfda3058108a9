//! Writers beside the followers: at a steady rate, or as fast as they can.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::data::Invoice;
use crate::http::{self, Connection};

/// Size of one object: with its envelope a line of about 400 bytes.
const DATA_BYTES: usize = 300;
/// Entities that are written to.
const ENTITIES: u64 = 1_000;

/// Versions, so that no write is equal to the one before.
#[derive(Clone, Default)]
pub struct Versions(Arc<AtomicU64>);

/// One connection that writes.
struct Writer {
    connection: Connection,
    key: Arc<str>,
    versions: Versions,
}

impl Writer {
    async fn write(&mut self) -> Outcome<()> {
        let version = self.versions.0.fetch_add(1, Ordering::Relaxed) + 1;
        let invoice = Invoice { number: version % ENTITIES, version };
        let (mut data, mut request) = (String::new(), Vec::new());
        invoice.write_data(&mut data, DATA_BYTES);
        let target = format!("PUT /v1/entities/invoice/{}", invoice.number);
        http::write_request(&mut request, &target, &self.key, "Content-Type: application/json\r\n", data.as_bytes());
        let head = self.connection.send(&request).await?;
        self.connection.whole().await?;
        match head.status {
            200 | 201 => Ok(()),
            status => Err(format!("a write was answered {status}").into()),
        }
    }
}

/// So many writes at a steady rate; when each was sent, and when it was answered.
pub async fn steadily(
    address: SocketAddr,
    key: &Arc<str>,
    versions: &Versions,
    count: usize,
    rate: f64,
) -> Outcome<Vec<(Instant, Instant)>> {
    let connection = Connection::open(address).await?;
    let mut writer = Writer { connection, key: key.clone(), versions: versions.clone() };
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        ticks.tick().await;
        let sent = Instant::now();
        writer.write().await?;
        times.push((sent, Instant::now()));
    }
    Ok(times)
}

/// Writes a second of so many connections, for so long.
pub async fn at_full_speed(
    address: SocketAddr,
    key: &Arc<str>,
    versions: &Versions,
    connections: usize,
    time: Duration,
) -> Outcome<f64> {
    let begin = Instant::now();
    let mut writers = Vec::new();
    for _ in 0..connections {
        let connection = Connection::open(address).await?;
        let mut writer = Writer { connection, key: key.clone(), versions: versions.clone() };
        writers.push(tokio::spawn(async move {
            let mut count = 0_u64;
            while begin.elapsed() < time {
                writer.write().await?;
                count += 1;
            }
            Outcome::Ok(count)
        }));
    }
    let mut count = 0;
    for writer in writers {
        count += writer.await??;
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}
