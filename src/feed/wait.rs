//! Long-poll: a page that is held back until it has a line (PROTOCOL section 4).
//!
//! What was scanned is not scanned again: a wake-up looks at the new changes in memory, and only one that
//! matches goes back to the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::page::{self, Stretch};
use super::tail::{Found, Subscription, Tails};
use super::{End, FeedError, Page, PageRequest};
use crate::access::LogId;
use crate::change::Seq;
use crate::store::Store;

/// What a held page is made of.
pub struct Waiting<'a> {
    /// Where the lines are.
    pub store: &'a dyn Store,
    /// What is in memory.
    pub tails: &'a Arc<Tails>,
    /// The log.
    pub log: LogId,
    /// What is asked for.
    pub request: &'a PageRequest,
}

/// Why a page is held no longer.
enum Woken {
    /// There may be a line.
    Lines,
    /// No more waiting.
    Time,
}

impl Waiting<'_> {
    /// A page after an empty one: as soon as there is a line, and at last when the time is over or the answer
    /// has to end. Then it says where the log stands at that moment.
    pub async fn for_lines(
        &self,
        empty: Page,
        wait: Duration,
        mut ending: watch::Receiver<Option<End>>,
    ) -> Result<Page, FeedError> {
        let deadline = Instant::now() + wait;
        let mut tail = self.tails.subscribe(self.log, &empty.position).await?;
        let mut scanned = empty.next;
        loop {
            let woken = tokio::select! {
                () = self.matching(&mut tail, &mut scanned) => Woken::Lines,
                () = tokio::time::sleep_until(deadline) => Woken::Time,
                // Nobody can end it any more: then only the time does.
                Ok(_) = ending.wait_for(Option::is_some) => Woken::Time,
            };
            let page = self.page_after(&empty, scanned).await?;
            if page.lines > 0 || matches!(woken, Woken::Time) {
                return Ok(page);
            }
            scanned = page.next;
        }
    }

    /// Ends when a line after what was scanned matches, or when only the store can tell.
    async fn matching(&self, tail: &mut Subscription, scanned: &mut Seq) {
        loop {
            match tail.after(*scanned) {
                Found::Older | Found::Elsewhere(_) => return,
                Found::Batch(batch) if batch.has_match(*scanned, &self.request.selection) => return,
                Found::Batch(batch) => *scanned = batch.last(),
                Found::Nothing(_) => tail.moved().await,
            }
        }
    }

    /// The page as it is now, knowing that nothing up to `scanned` matches.
    async fn page_after(&self, empty: &Page, scanned: Seq) -> Result<Page, FeedError> {
        let position = self.store.position(self.log).await?;
        page::check_still(&position, &empty.position.epoch, empty.since, self.request.floor)?;
        let stretch = Stretch { request: self.request, since: empty.since, scanned, upper: position.head };
        stretch.measure(self.store, self.log, position).await
    }
}
