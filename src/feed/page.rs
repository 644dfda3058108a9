//! One page, fixed before its first byte.

use std::time::Duration;

use tokio::sync::watch;

use super::{FeedError, lagging};
use crate::access::LogId;
use crate::change::{Epoch, Fields, Resource, Selection, Seq, Tally};
use crate::entity::types::Catalog;
use crate::store::{Depth, Position, Scan, Store, StoreError};

/// How long a reader may wait for a head that this server has not reached.
pub const MIN_HEAD_WAIT: Duration = Duration::from_secs(5);

/// Where a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// At the head.
    Now,
    /// After this seq.
    After(Seq),
}

/// What a reader asks for.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// Exclusive lower bound.
    pub since: Since,
    /// Inclusive upper bound; the head when the request starts by default.
    pub until: Option<Seq>,
    /// At most so many lines.
    pub limit: u64,
    /// The filter.
    pub selection: Selection,
    /// The resources that the reader names: each must be known. What a key alone narrows the selection to
    /// may not exist yet.
    pub named: Vec<Resource>,
    /// Only the newest line of each entity.
    pub is_compact: bool,
    /// Extra members.
    pub fields: Fields,
    /// The epoch that the client holds.
    pub epoch: Option<String>,
    /// The head that this server must have reached.
    pub min_head: Option<Seq>,
    /// The floor that was true when the client's copy was begun at 0.
    pub floor: Option<Seq>,
}

/// All live entities at a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The cursor.
    pub seq: Seq,
    /// How many, and their fingerprint.
    pub tally: Tally,
}

/// A page that can be sent: everything but the lines is known.
#[derive(Debug, Clone)]
pub struct Page {
    /// Where the log stood when the page was fixed.
    pub position: Position,
    /// Where the reader begins.
    pub since: Seq,
    /// The cursor after the page: everything that matches in (since, next] is in it.
    pub next: Seq,
    /// How many lines the page has.
    pub lines: u64,
    /// True when no seq in (since, next] is left out.
    pub is_dense: bool,
    /// The checkpoint at `next`, where one is promised.
    pub checkpoint: Option<Checkpoint>,
    /// What the producer walks.
    pub scan: Scan,
    /// Extra members.
    pub fields: Fields,
}

impl Page {
    /// True when there was nothing newer when the page was fixed.
    pub fn is_up_to_date(&self) -> bool {
        self.next == self.position.head
    }
}

/// Fixes a page.
pub async fn open(store: &dyn Store, catalog: &Catalog, log: LogId, request: &PageRequest) -> Result<Page, FeedError> {
    let (position, since) = admit(store, catalog, log, request).await?;
    let upper = request.until.unwrap_or(position.head);
    Stretch { request, since, scanned: since, upper }.measure(store, log, position).await
}

/// Lets a reader in, whatever it then reads: where the log stands, and where the reader begins. The checks
/// come in the order of PROTOCOL section 3: parameters, epoch, `min_head`, cursor ahead, cursor expired.
pub async fn admit(
    store: &dyn Store,
    catalog: &Catalog,
    log: LogId,
    request: &PageRequest,
) -> Result<(Position, Seq), FeedError> {
    if let (Since::After(since), Some(until)) = (request.since, request.until)
        && until < since
    {
        return Err(FeedError::UntilBelowSince { until, since });
    }
    for resource in &request.named {
        require_known(store, catalog, log, resource).await?;
    }
    match stand(store, log, request).await {
        Err(refusal) if store.may_lag() => lagging::admit(store, log, request, refusal).await,
        stands => stands,
    }
}

/// Where the log stands and where the reader begins, when it may have what it asks for.
async fn stand(store: &dyn Store, log: LogId, request: &PageRequest) -> Result<(Position, Seq), FeedError> {
    let position = position_at(store, log, request.epoch.as_deref(), request.min_head).await?;
    let since = check_cursor(&position, request)?;
    Ok((position, since))
}

/// A resource that is declared, or that the log ever had a line of.
pub async fn require_known(
    store: &dyn Store,
    catalog: &Catalog,
    log: LogId,
    resource: &Resource,
) -> Result<(), FeedError> {
    if catalog.get(resource).is_some() || store.has_resource(log, resource).await? {
        return Ok(());
    }
    Err(FeedError::UnknownResource { resource: resource.to_string() })
}

/// Where the log stands, once this server has reached `min_head` in the history that the client holds.
pub async fn position_at(
    store: &dyn Store,
    log: LogId,
    epoch: Option<&str>,
    min_head: Option<Seq>,
) -> Result<Position, FeedError> {
    // Subscribed before the head is read, so that no commit falls between.
    let mut head = store.head(log).await?;
    let position = store.position(log).await?;
    check_epoch(&position, epoch)?;
    let Some(min_head) = min_head.filter(|min_head| position.head < *min_head) else {
        return Ok(position);
    };
    head_reaching(&mut head, min_head).await?;
    // The epoch may have changed while this waited, and the head gone back with it.
    let position = store.position(log).await?;
    check_epoch(&position, epoch)?;
    if position.head < min_head { Err(FeedError::Behind { min_head }) } else { Ok(position) }
}

/// The client holds the history that is here.
pub fn check_epoch(position: &Position, epoch: Option<&str>) -> Result<(), FeedError> {
    match epoch {
        Some(expected) if *expected != *position.epoch.0 => {
            Err(FeedError::EpochChanged { expected: expected.to_owned(), epoch: position.epoch.clone() })
        }
        _ => Ok(()),
    }
}

/// The head of a log once it is at least `min_head`.
pub async fn head_reaching(head: &mut watch::Receiver<Seq>, min_head: Seq) -> Result<Seq, FeedError> {
    let reached = tokio::time::timeout(MIN_HEAD_WAIT, head.wait_for(|head| *head >= min_head)).await;
    // What was seen is a lock on the head: held while the store is asked again, nobody could move the head.
    match reached.map(|seen| seen.map(|head| *head)) {
        Ok(Ok(head)) => Ok(head),
        Ok(Err(_)) => Err(StoreError::Draining { operation: "wait for a head" }.into()),
        Err(_) => Err(FeedError::Behind { min_head }),
    }
}

/// The cursor lies in what is here, and nothing that its reader must hear of is gone.
pub fn check_cursor(position: &Position, request: &PageRequest) -> Result<Seq, FeedError> {
    let since = match request.since {
        Since::Now => position.head,
        Since::After(since) => since,
    };
    let ahead = [Some(since), request.until].into_iter().flatten().find(|cursor| *cursor > position.head);
    if let Some(since) = ahead {
        return Err(FeedError::CursorAhead { since, head: position.head, epoch: position.epoch.clone() });
    }
    if let Some(until) = request.until.filter(|until| *until < since) {
        return Err(FeedError::UntilBelowSince { until, since });
    }
    check_floor(position, since, request.floor)?;
    Ok(since)
}

/// A reader that stays meets what happens to the log meanwhile: it must still be the same history, and no
/// delete may have been purged that the reader has not seen.
pub fn check_still(position: &Position, epoch: &Epoch, cursor: Seq, floor: Option<Seq>) -> Result<(), FeedError> {
    check_epoch(position, Some(&epoch.0))?;
    check_floor(position, cursor, floor)
}

/// A cursor below the floor may belong to a copy that holds what was deleted; `floor` is what its reader says
/// of how that copy began.
pub fn check_floor(position: &Position, since: Seq, floor: Option<Seq>) -> Result<(), FeedError> {
    if Seq::ZERO < since && since < position.floor && floor != Some(position.floor) {
        let (floor, head) = (position.floor, position.head);
        return Err(FeedError::CursorExpired { since, floor, head, epoch: position.epoch.clone() });
    }
    Ok(())
}

/// A whole bootstrap in one page has as many lines as entities live. Where the indexes of the database are
/// damaged it would not, and a copy that lacks something is worse than no answer.
fn check_bootstrap(scan: &Scan, upper: Seq, lines: u64, checkpoint: Option<Checkpoint>) -> Result<(), StoreError> {
    let is_bootstrap = matches!(scan.depth, Depth::Newest { skips_tombstones: true, .. }) && scan.until == upper;
    match checkpoint {
        Some(Checkpoint { tally, .. }) if is_bootstrap && tally.count != lines => {
            let detail = format!("{lines} entities are found at {upper}, but {} live", tally.count);
            Err(StoreError::Corrupt { operation: "measure a page", detail })
        }
        _ => Ok(()),
    }
}

/// How far the page reaches, and what can be promised of it.
/// A part of a log that is about to become a page.
pub struct Stretch<'a> {
    /// What is wanted of it; its own bounds were judged before.
    pub request: &'a PageRequest,
    /// Exclusive lower bound.
    pub since: Seq,
    /// Nothing in (since, scanned] matches; that is known and not looked up again.
    pub scanned: Seq,
    /// Inclusive upper bound, not above the head.
    pub upper: Seq,
}

impl Stretch<'_> {
    /// Finds out how far a page reaches and what its headers say.
    pub async fn measure(&self, store: &dyn Store, log: LogId, position: Position) -> Result<Page, FeedError> {
        let Stretch { request, since, upper, .. } = *self;
        let mut scan = self.scan();
        let (next, lines) = self.reach(store, log, &position, &scan).await?;
        scan.until = next;
        let has_checkpoint =
            scan.selection.is_all() && next >= position.purged_through && (!request.is_compact || next == upper);
        let checkpoint = match has_checkpoint {
            true if next == position.head => Some(Checkpoint { seq: next, tally: position.tally }),
            true => Some(Checkpoint { seq: next, tally: store.tally_at(log, next).await? }),
            false => None,
        };
        check_bootstrap(&scan, upper, lines, checkpoint)?;
        let is_dense = lines == next.distance_from(since);
        Ok(Page { position, since, next, lines, is_dense, checkpoint, scan, fields: request.fields })
    }

    fn scan(&self) -> Scan {
        let depth = if self.request.is_compact {
            Depth::Newest { at: self.upper, skips_tombstones: self.since == Seq::ZERO }
        } else {
            Depth::All
        };
        Scan { after: self.scanned, until: self.upper, selection: self.request.selection.clone(), depth }
    }

    /// The cursor after the page, and how many lines it has.
    async fn reach(
        &self,
        store: &dyn Store,
        log: LogId,
        position: &Position,
        scan: &Scan,
    ) -> Result<(Seq, u64), FeedError> {
        let (limit, upper) = (self.request.limit, self.upper);
        let is_plain = scan.selection.is_all() && scan.depth == Depth::All && scan.after >= position.purged_through;
        if is_plain {
            let next = scan.after.forward(limit).min(upper);
            return Ok((next, next.distance_from(scan.after)));
        }
        if scan.after == upper {
            return Ok((upper, 0));
        }
        let extent = store.extent(log, scan.clone(), limit).await?;
        let is_full = extent.matched == limit;
        Ok((extent.last.filter(|_| is_full).unwrap_or(upper), extent.matched))
    }
}
