//! An endless answer: history from the store, then every change as it commits (PROTOCOL section 5).
//!
//! A [`Follower`] is asked for one piece after the other. While there is nothing to say it is one parked
//! future: no task, no connection, no lines of its own. History comes through a task with a short channel
//! that ends with the history, so that whoever polls a follower never touches the database.

mod catch_up;

use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep};

use self::catch_up::{CatchUp, Caught};
use super::form::{Bookmark, End, Form, Framing};
use super::tail::{Found, Share, Subscription, Tails};
use super::{FeedError, PageRequest, page};
use crate::access::LogId;
use crate::change::{Seq, Tally};
use crate::entity::types::Catalog;
use crate::jitter;
use crate::store::{Position, Store};
use crate::tasks::Tasks;

/// How long a client is told to wait before it comes back.
const RETRY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3);

/// What a follower asks for.
#[derive(Debug, Clone)]
pub struct FollowRequest {
    /// Where it begins, what it wants, how many lines at most.
    pub page: PageRequest,
    /// How lines are framed.
    pub form: Form,
    /// Longest time without a sign of life.
    pub heartbeat: Duration,
    /// Bookmarks and the announced end.
    pub has_control: bool,
}

/// Where followers get their lines.
#[derive(Clone)]
pub struct Source {
    /// History.
    pub store: Arc<dyn Store>,
    /// What was committed a moment ago.
    pub tails: Arc<Tails>,
    /// Where history is read.
    pub tasks: Tasks,
    /// The log.
    pub log: LogId,
}

/// How long a stream may last, and what ends it before.
#[derive(Debug)]
pub struct Lifetime {
    /// When it ends by itself.
    pub until: Instant,
    /// Why it ends now, once there is a reason.
    pub ending: watch::Receiver<Option<End>>,
}

/// Some whole lines of a stream, or what stands between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// As they go out.
    pub bytes: Bytes,
    /// Changes among them.
    pub lines: u64,
    /// Everything that matches up to here was sent with it.
    pub cursor: Seq,
    /// Set on the last piece.
    pub end: Option<End>,
}

/// One reader of an endless answer.
pub struct Follower {
    source: Source,
    request: FollowRequest,
    /// Where the log stood when the reader came.
    position: Position,
    tail: Subscription,
    lifetime: Lifetime,
    cursor: Seq,
    /// Lines that may still be sent.
    owed: u64,
    /// What the tail does not reach back to, while it is read.
    history: Option<mpsc::Receiver<Result<Caught, FeedError>>>,
    /// The cursor that the last bookmark told.
    told: Seq,
    /// Lines went out, or history ended, since the last bookmark.
    has_moved: bool,
    /// When a sign of life is due.
    silent_until: Instant,
    timer: Pin<Box<Sleep>>,
    opening: Option<Bytes>,
    is_over: bool,
}

/// Lets a follower in: the checks of a page, then its place at the tail.
pub async fn open(source: Source, catalog: &Catalog, request: FollowRequest) -> Result<Place, FeedError> {
    let (position, since) = page::admit(&*source.store, catalog, source.log, &request.page).await?;
    let tail = source.tails.subscribe(source.log, &position).await?;
    Ok(Place { source, request, position, since, tail })
}

/// A follower that was let in and has not begun.
pub struct Place {
    source: Source,
    request: FollowRequest,
    /// Where the log stands.
    pub position: Position,
    since: Seq,
    tail: Subscription,
}

impl Place {
    /// Begins.
    pub fn follow(self, lifetime: Lifetime) -> Follower {
        let Place { source, request, position, since, tail } = self;
        let silent_until = Instant::now() + request.heartbeat;
        Follower {
            timer: Box::pin(tokio::time::sleep_until(silent_until.min(lifetime.until))),
            opening: request.form.framing.opening(jitter::between(&RETRY).as_millis()),
            owed: request.page.limit,
            source,
            request,
            position,
            tail,
            lifetime,
            cursor: since,
            history: None,
            told: since,
            has_moved: false,
            silent_until,
            is_over: false,
        }
    }
}

/// What ended a follower's wait.
enum Woken {
    Tail,
    History(Option<Result<Caught, FeedError>>),
    Time,
    End,
}

impl Follower {
    /// How its lines are framed.
    pub fn framing(&self) -> Framing {
        self.request.form.framing
    }

    /// True when bookmarks and the end are told.
    pub fn has_control(&self) -> bool {
        self.request.has_control
    }

    /// Everything that matches up to here was sent.
    pub fn cursor(&self) -> Seq {
        self.cursor
    }

    /// The next piece; `None` after the last one. An error means that what is owed cannot be sent any more:
    /// the answer must break off.
    pub async fn next(&mut self) -> Result<Option<Piece>, FeedError> {
        if self.is_over {
            return Ok(None);
        }
        let piece = match self.opening.take() {
            Some(bytes) => self.aside(bytes),
            None => self.piece().await?,
        };
        self.silent_until = Instant::now() + self.request.heartbeat;
        Ok(Some(piece))
    }

    async fn piece(&mut self) -> Result<Piece, FeedError> {
        loop {
            if let Some(piece) = self.at_hand()? {
                return Ok(piece);
            }
            let said = match self.wait().await {
                Woken::History(caught) => self.caught(caught)?,
                Woken::Time => self.sign_of_life(),
                Woken::Tail | Woken::End => None,
            };
            if let Some(piece) = said {
                return Ok(piece);
            }
        }
    }

    /// What can be said without waiting.
    fn at_hand(&mut self) -> Result<Option<Piece>, FeedError> {
        if let Some(end) = self.reason_to_end() {
            return Ok(Some(self.end(end)));
        }
        while self.history.is_none() {
            match self.tail.after(self.cursor) {
                Found::Older => self.history = Some(self.catch_up()),
                Found::Batch(batch) => {
                    let share = batch.share(self.cursor, self.owed, &self.request.page.selection, self.request.form);
                    if let Some(piece) = self.took(share) {
                        return Ok(Some(piece));
                    }
                }
                Found::Nothing(tally) if self.has_moved => return Ok(self.bookmark(tally)),
                Found::Nothing(_) => return Ok(None),
                Found::Elsewhere(epoch) => {
                    return Err(FeedError::EpochChanged { expected: self.position.epoch.to_string(), epoch });
                }
            }
        }
        Ok(None)
    }

    async fn wait(&mut self) -> Woken {
        let Follower { history, tail, timer, lifetime, .. } = self;
        let ended = async { lifetime.ending.wait_for(Option::is_some).await.map(drop) };
        let lines = async {
            match history {
                Some(history) => Woken::History(history.recv().await),
                None => {
                    tail.moved().await;
                    Woken::Tail
                }
            }
        };
        tokio::select! {
            // Nobody can end it any more: then only its age does.
            Ok(()) = ended => Woken::End,
            woken = lines => woken,
            () = timer.as_mut() => Woken::Time,
        }
    }

    fn reason_to_end(&self) -> Option<End> {
        let is_old = || Instant::now() >= self.lifetime.until;
        match self.owed {
            0 => Some(End::Limit),
            _ => (*self.lifetime.ending.borrow()).or_else(|| is_old().then_some(End::MaxAge)),
        }
    }

    fn end(&mut self, end: End) -> Piece {
        self.is_over = true;
        let bytes =
            if self.request.has_control { self.request.form.framing.end(self.cursor, end) } else { Bytes::new() };
        Piece { end: Some(end), ..self.aside(bytes) }
    }

    /// Something that is no change.
    fn aside(&self, bytes: Bytes) -> Piece {
        Piece { bytes, lines: 0, cursor: self.cursor, end: None }
    }

    fn took(&mut self, share: Share) -> Option<Piece> {
        let Share { bytes, lines, cursor } = share;
        self.cursor = cursor;
        self.owed = self.owed.saturating_sub(lines);
        self.has_moved |= lines > 0;
        (lines > 0).then_some(Piece { bytes, lines, cursor, end: None })
    }

    /// History is read from here to where the log is now.
    fn catch_up(&self) -> mpsc::Receiver<Result<Caught, FeedError>> {
        CatchUp {
            store: self.source.store.clone(),
            log: self.source.log,
            request: PageRequest { limit: self.owed, ..self.request.page.clone() },
            epoch: self.position.epoch.clone(),
            after: self.cursor,
        }
        .start(&self.source.tasks)
    }

    fn caught(&mut self, caught: Option<Result<Caught, FeedError>>) -> Result<Option<Piece>, FeedError> {
        match caught.unwrap_or_else(|| Err(catch_up::broke_off()))? {
            Caught::Lines { bytes, lines, cursor } => {
                let bytes = self.request.form.framing.frame(bytes);
                Ok(self.took(Share { bytes, lines, cursor }))
            }
            Caught::Up(cursor) => {
                self.history = None;
                self.has_moved |= cursor > self.cursor;
                self.cursor = cursor;
                Ok(None)
            }
        }
    }

    /// At the time for one: a bookmark where it tells something new, otherwise a heartbeat.
    fn sign_of_life(&mut self) -> Option<Piece> {
        let now = Instant::now();
        let is_due = now >= self.silent_until;
        let next = if is_due { now + self.request.heartbeat } else { self.silent_until };
        self.timer.as_mut().reset(next.min(self.lifetime.until));
        if !is_due {
            return None;
        }
        let news = match self.tail.after(self.cursor) {
            Found::Nothing(tally) if self.history.is_none() && self.cursor > self.told => self.bookmark(tally),
            _ => None,
        };
        news.or_else(|| Some(self.aside(self.request.form.framing.heartbeat())))
    }

    /// A bookmark at the end of the tail, for those who asked for bookmarks.
    fn bookmark(&mut self, tally: Tally) -> Option<Piece> {
        self.has_moved = false;
        if !self.request.has_control {
            return None;
        }
        self.told = self.cursor;
        let bookmark = Bookmark {
            seq: self.cursor,
            is_up_to_date: self.tail.is_up_to_date(self.cursor),
            tally: self.request.page.selection.is_all().then_some(tally),
        };
        Some(self.aside(self.request.form.framing.bookmark(&bookmark)))
    }
}
