//! One log of an open store, and what tests do with it.

use std::sync::Arc;

use scroll::access::LogId;
use scroll::change::{Fields, Selection, Seq, Tally};
use scroll::entity::{Answer, Command, Outcome, Refusal, Refused, Submission};
use scroll::store::{Chunk, ChunkSize, Depth, Extent, Scan, Store, StoreError};

use super::bed::{Bed, Options};
use super::commands::{batch, key, log_name, one, seq};
use super::model::{Entry, parse_page};

/// Chunks as a server asks for them.
pub const USUAL: ChunkSize = ChunkSize { lines: 5_000, bytes: 256 << 10 };

pub struct Desk {
    pub store: Arc<dyn Store>,
    pub log: LogId,
}

/// A write that was carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    pub entry: Entry,
    pub is_created: bool,
}

/// A batch that was carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenBatch {
    pub tx: Option<i64>,
    pub last: Option<i64>,
    pub entries: Vec<Entry>,
}

impl Desk {
    /// The log `default` of a database, made when it is not there.
    pub async fn at(store: Arc<dyn Store>) -> Desk {
        let name = log_name("default");
        let log = match store.log(&name).await.unwrap() {
            Some(log) => log.id,
            None => store.create_log(&name).await.unwrap().id,
        };
        Desk { store, log }
    }

    pub async fn open(bed: &Bed) -> Desk {
        Desk::at(bed.open().await).await
    }

    pub async fn open_with(bed: &Bed, options: Options) -> Desk {
        Desk::at(bed.open_with(options).await).await
    }

    /// The same database, after the store was closed and opened again.
    pub async fn reopened(self, bed: &Bed) -> Desk {
        self.reopened_with(bed, Options::default()).await
    }

    pub async fn reopened_with(self, bed: &Bed, options: Options) -> Desk {
        Bed::close(self.store).await;
        Desk::open_with(bed, options).await
    }

    pub async fn submit(&self, submission: Submission) -> Answer {
        self.store.write(self.log, submission).await.unwrap()
    }

    /// Carries out one command that must be carried out.
    pub async fn ok(&self, command: Command) -> Written {
        written(self.submit(one(command)).await)
    }

    /// The reason why one command is refused; nothing may change.
    pub async fn refused(&self, command: Command) -> Refusal {
        let before = self.head().await;
        let refused = self.submit(one(command)).await.result.unwrap_err();
        assert_eq!(refused.index, None);
        assert_eq!(self.head().await, before, "a refused write moved the head");
        refused.refusal
    }

    /// Carries out a batch that must be carried out.
    pub async fn batch(&self, commands: Vec<Command>) -> WrittenBatch {
        written_batch(self.submit(batch(commands)).await)
    }

    /// Why a batch is refused; nothing may change.
    pub async fn refused_batch(&self, commands: Vec<Command>) -> Refused {
        let before = self.lines().await;
        let refused = self.submit(batch(commands)).await.result.unwrap_err();
        assert_eq!(self.lines().await, before, "a refused batch left a line");
        refused
    }

    pub async fn head(&self) -> i64 {
        self.store.position(self.log).await.unwrap().head.get()
    }

    /// Every line of the log.
    pub async fn lines(&self) -> Vec<Entry> {
        self.scanned(self.whole().await, USUAL).await
    }

    /// The scan of the whole log.
    pub async fn whole(&self) -> Scan {
        Scan { after: Seq::ZERO, until: seq(self.head().await), selection: Selection::All, depth: Depth::All }
    }

    /// Everything that a scan shows, chunk by chunk.
    pub async fn scanned(&self, scan: Scan, size: ChunkSize) -> Vec<Entry> {
        parse_page(&self.read(scan, Fields::default(), size).await)
    }

    /// The bytes that a scan shows, chunk by chunk, until an empty one.
    pub async fn read(&self, mut scan: Scan, fields: Fields, size: ChunkSize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let chunk = self.chunk(&scan, fields, size).await;
            let Some(last) = chunk.last else {
                assert!(chunk.bytes.is_empty() && chunk.lines == 0, "an empty chunk with something in it");
                return bytes;
            };
            assert_eq!(bytecount(&chunk.bytes), chunk.lines);
            assert!(chunk.lines <= u64::from(size.lines));
            assert!(last > scan.after && last <= scan.until, "a chunk outside its scan");
            bytes.extend_from_slice(&chunk.bytes);
            scan.after = last;
        }
    }

    pub async fn chunk(&self, scan: &Scan, fields: Fields, size: ChunkSize) -> Chunk {
        self.store.chunk(self.log, scan.clone(), fields, size).await.unwrap()
    }

    pub async fn extent(&self, scan: &Scan, limit: u64) -> Extent {
        self.store.extent(self.log, scan.clone(), limit).await.unwrap()
    }

    pub async fn tally_at(&self, at: i64) -> Tally {
        self.store.tally_at(self.log, seq(at)).await.unwrap()
    }

    /// The newest line of a live entity.
    pub async fn entity(&self, resource: &str, id: &str) -> Option<Entry> {
        let found = self.store.entity(self.log, &key(resource, id)).await.unwrap();
        found.map(|(seq, line)| {
            let entry = Entry::parse(line.as_str());
            assert_eq!(entry.seq, seq.get());
            entry
        })
    }

    /// Another log of the same database.
    pub async fn neighbour(&self, name: &str) -> Desk {
        let log = self.store.create_log(&log_name(name)).await.unwrap().id;
        Desk { store: self.store.clone(), log }
    }

    /// Writes in a task of its own, for those who wait for it later.
    pub fn spawn(&self, submission: Submission) -> tokio::task::JoinHandle<Result<Answer, StoreError>> {
        let (store, log) = (self.store.clone(), self.log);
        tokio::spawn(async move { store.write(log, submission).await })
    }
}

fn bytecount(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The answer of a single write that must be carried out.
pub fn written(answer: Answer) -> Written {
    match answer.result {
        Ok(Outcome::Entity { line, seq, is_created }) => {
            let entry = Entry::parse(line.as_str());
            assert_eq!(entry.seq, seq.get(), "the answer's seq is that of its line");
            Written { entry, is_created }
        }
        other => panic!("not a single write that was carried out: {other:?}"),
    }
}

/// The answer of a batch that must be carried out.
pub fn written_batch(answer: Answer) -> WrittenBatch {
    match answer.result {
        Ok(Outcome::Batch { tx, last, lines }) => WrittenBatch {
            tx: tx.map(Seq::get),
            last: last.map(Seq::get),
            entries: lines.iter().map(|line| Entry::parse(line.as_str())).collect(),
        },
        other => panic!("not a batch that was carried out: {other:?}"),
    }
}
