//! The history that a follower is behind: read as a page is, handed over through a short channel in pieces of
//! whole lines.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::access::LogId;
use crate::change::line::seq_of;
use crate::change::{Epoch, Seq};
use crate::feed::lines::Lines;
use crate::feed::page::{self, Stretch};
use crate::feed::{FeedError, PageRequest};
use crate::store::{Store, StoreError};
use crate::tasks::Tasks;

/// Bytes of whole lines that one piece has at least, unless the history ends; a longer line comes alone.
const PIECE_BYTES: usize = 16 << 10;
/// Pieces that may wait for a slow client.
const WAITING_PIECES: usize = 4;

/// What a follower is behind.
pub struct CatchUp {
    /// Where it is read.
    pub store: Arc<dyn Store>,
    /// Whose it is.
    pub log: LogId,
    /// What is wanted of it, and how many lines at most.
    pub request: PageRequest,
    /// The history that the follower began with.
    pub epoch: Epoch,
    /// Where the follower is.
    pub after: Seq,
}

/// What comes of it.
pub enum Caught {
    /// Whole lines.
    Lines {
        /// Each ended by a line feed.
        bytes: Bytes,
        /// How many.
        lines: u64,
        /// The seq of the last one.
        cursor: Seq,
    },
    /// That was all of it, up to here.
    Up(Seq),
}

/// Where the pieces go; nobody may be listening any more.
type Sender = mpsc::Sender<Result<Caught, FeedError>>;

/// The error of a follower whose history ended without its end.
pub fn broke_off() -> FeedError {
    StoreError::Unavailable { operation: "catch up", source: "the reading task is gone".into() }.into()
}

impl CatchUp {
    /// Reads in a task of its own, which ends with the history or with its reader.
    pub fn start(self, tasks: &Tasks) -> mpsc::Receiver<Result<Caught, FeedError>> {
        let (sender, receiver) = mpsc::channel(WAITING_PIECES);
        tasks.spawn("catch-up", async move {
            if let Err(error) = self.run(&sender).await {
                // The reader may be gone as well.
                let _ = sender.send(Err(error)).await;
            }
        });
        receiver
    }

    async fn run(self, sender: &Sender) -> Result<(), FeedError> {
        let position = self.store.position(self.log).await?;
        page::check_still(&position, &self.epoch, self.after, self.request.floor)?;
        let (since, upper) = (self.after, position.head);
        let stretch = Stretch { request: &self.request, since, scanned: since, upper };
        let page = stretch.measure(&*self.store, self.log, position).await?;
        let next = page.next;
        let mut lines = Lines::new(self.store, self.log, page);
        while let Some(chunk) = lines.next().await? {
            for piece in pieces(chunk.bytes) {
                if sender.send(piece).await.is_err() {
                    return Ok(());
                }
            }
        }
        // The reader may be gone by now.
        let _ = sender.send(Ok(Caught::Up(next))).await;
        Ok(())
    }
}

/// Cuts a chunk behind line feeds, without copying.
fn pieces(mut chunk: Bytes) -> impl Iterator<Item = Result<Caught, FeedError>> {
    std::iter::from_fn(move || {
        let least = chunk.get(PIECE_BYTES..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n'));
        let end = least.map_or(chunk.len(), |at| PIECE_BYTES + at + 1);
        (end > 0).then(|| described(chunk.split_to(end)))
    })
}

fn described(bytes: Bytes) -> Result<Caught, FeedError> {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let last = bytes.strip_suffix(b"\n").and_then(|lines| lines.rsplit(|byte| *byte == b'\n').next());
    let cursor = last.and_then(seq_of).ok_or_else(|| StoreError::Corrupt {
        operation: "catch up",
        detail: "a stored line does not begin with its seq".to_owned(),
    })?;
    Ok(Caught::Lines { lines: u64::try_from(lines).unwrap_or(0), cursor, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(lines: &[String]) -> Vec<(usize, u64, Seq)> {
        let chunk: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let described = pieces(chunk.clone().into()).map(|piece| match piece.unwrap() {
            Caught::Lines { bytes, lines, cursor } => (bytes, lines, cursor),
            Caught::Up(_) => panic!("no lines"),
        });
        let pieces: Vec<_> = described.collect();
        let whole: Vec<u8> = pieces.iter().flat_map(|(bytes, ..)| bytes.to_vec()).collect();
        assert_eq!(whole, chunk.as_bytes(), "nothing is lost");
        pieces.into_iter().map(|(bytes, lines, cursor)| (bytes.len(), lines, cursor)).collect()
    }

    #[test]
    fn pieces_are_whole_lines_and_know_their_last_seq() {
        let line = |seq: usize, bytes: usize| format!("{{\"seq\":{seq},\"x\":\"{}\"}}", "x".repeat(bytes));
        let seq = |number| Seq::new(number).unwrap();
        assert!(cut(&[]).is_empty());
        assert_eq!(cut(&[line(7, 0)]), [(line(7, 0).len() + 1, 1, seq(7))]);
        let many: Vec<String> = (1..=1_000).map(|number| line(number, 100)).collect();
        let pieces = cut(&many);
        assert!(pieces.len() > 5 && pieces.iter().all(|(bytes, ..)| *bytes <= PIECE_BYTES + 200), "{pieces:?}");
        assert_eq!(pieces.iter().map(|(_, lines, _)| lines).sum::<u64>(), 1_000);
        assert_eq!(pieces.last().unwrap().2, seq(1_000));
        let long = cut(&[line(1, 10), line(2, 3 * PIECE_BYTES), line(3, 10)]);
        assert_eq!(
            long.iter().map(|(_, lines, cursor)| (*lines, *cursor)).collect::<Vec<_>>(),
            [(2, seq(2)), (1, seq(3))]
        );
    }
}
