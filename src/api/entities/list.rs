//! `GET /v1/entities/{resource}`: the entities of a resource in id order.
//!
//! A list may be asked for with any limit, so it is read in short reads that grow and shrink with the size
//! of the entities, and memory stays bounded. The first read comes before the headers: what goes wrong then
//! is still a problem document. What goes wrong later cuts the answer off.

use std::sync::Arc;

use actix_web::body::BodySize;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt as _;
use tokio::sync::mpsc;

use crate::access::{LogId, Scope};
use crate::api::answer::{SCROLL_EPOCH, SCROLL_HEAD};
use crate::api::body::Unsent;
use crate::api::extract::{Caller, Query, Segments};
use crate::api::problem::Problem;
use crate::api::{App, wait_until_head};
use crate::change::{EntityId, Line, Resource, json};
use crate::entity::Refusal;
use crate::store::{Store, StoreError};

const DEFAULT_LIMIT: u64 = 100;
/// Entities of the first read. Nothing is known of their size yet; a state has at most 1 MiB by default.
const FIRST_READ: u64 = 32;
/// Most entities of one read.
const MAX_READ: u64 = 4096;
/// What one read should bring, in bytes.
const READ_BYTES: usize = 256 << 10;
/// Reads that may wait for a slow client.
const WAITING_READS: usize = 2;

/// Answers a part of the list.
pub async fn list(app: web::Data<App>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Read)?;
    let resource = Segments::of(&request).resource()?;
    caller.require_resource(&resource)?;
    let params = Query::of(&request).only(&["after", "limit", "min_head"])?;
    let after = params.parsed("after", EntityId::EXPECTED, |text| EntityId::parse(text).ok())?;
    let limit = params.limit("limit")?.unwrap_or(DEFAULT_LIMIT);
    let min_head = params.seq("min_head")?;
    let log = caller.log()?.id;
    let head = wait_until_head(&app, log, min_head).await?;
    if app.catalog.get(&resource).is_none() && !app.store.has_resource(log, &resource).await? {
        return Err(Refusal::UnknownResource { resource: resource.to_string() }.into());
    }
    let epoch = app.epoch(log).await?;
    let mut reader = Reader { store: app.store.clone(), log, resource, after, owed: limit, next_read: FIRST_READ };
    let first = reader.next().await?;

    let mut response = HttpResponse::Ok();
    response.content_type("application/json");
    response.insert_header((SCROLL_HEAD, head.to_string())).insert_header((SCROLL_EPOCH, epoch.to_string()));
    if request.method() == actix_web::http::Method::HEAD {
        return Ok(response.body(Unsent(BodySize::Stream)));
    }
    let (sender, pieces) = mpsc::channel(WAITING_READS);
    app.tasks.spawn("list", reader.send(first, sender));
    let pieces = futures::stream::unfold(pieces, |mut pieces| async move { Some((pieces.recv().await?, pieces)) });
    Ok(response.streaming(pieces.map(|piece| piece.map_err(Problem::from))))
}

/// Where a list stands.
struct Reader {
    store: Arc<dyn Store>,
    log: LogId,
    resource: Resource,
    after: Option<EntityId>,
    /// Entities that the client still wants.
    owed: u64,
    next_read: u64,
}

impl Reader {
    /// The next entities, none at the end.
    async fn next(&mut self) -> Result<Vec<(EntityId, Line)>, StoreError> {
        let limit = usize::try_from(self.next_read.min(self.owed)).unwrap_or(usize::MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let found = self.store.entities(self.log, &self.resource, self.after.clone(), limit).await?;
        self.owed = self.owed.saturating_sub(u64::try_from(found.len()).unwrap_or(u64::MAX));
        if let Some((id, _)) = found.last() {
            self.after = Some(id.clone());
        }
        let bytes = found.iter().map(|(_, line)| line.as_str().len()).sum::<usize>();
        self.next_read =
            if bytes > READ_BYTES { (self.next_read / 2).max(1) } else { (self.next_read * 2).min(MAX_READ) };
        Ok(found)
    }

    /// Sends the whole list; ends early when nobody takes it.
    async fn send(mut self, first: Vec<(EntityId, Line)>, sender: mpsc::Sender<Result<Bytes, StoreError>>) {
        let mut chunk = first;
        let mut is_first = true;
        while !chunk.is_empty() {
            if sender.send(Ok(rendered(&chunk, is_first))).await.is_err() {
                return;
            }
            is_first = false;
            chunk = match self.next().await {
                Ok(next) => next,
                Err(error) => return self.cut_off(error, &sender).await,
            };
        }
        match self.has_more().await {
            // Nobody takes it any more when this fails.
            Ok(has_more) => drop(sender.send(Ok(self.end(is_first, has_more))).await),
            Err(error) => self.cut_off(error, &sender).await,
        }
    }

    async fn cut_off(&self, error: StoreError, sender: &mpsc::Sender<Result<Bytes, StoreError>>) {
        tracing::error!(resource = %self.resource, error = %error, "a list was cut off");
        // The client may be gone as well.
        let _ = sender.send(Err(error)).await;
    }

    async fn has_more(&self) -> Result<bool, StoreError> {
        if self.owed > 0 {
            return Ok(false);
        }
        let more = self.store.entities(self.log, &self.resource, self.after.clone(), 1).await?;
        Ok(!more.is_empty())
    }

    fn end(&self, is_empty: bool, has_more: bool) -> Bytes {
        let mut next = String::new();
        match self.after.as_ref().filter(|_| has_more) {
            Some(id) => json::write_string(&mut next, id.as_str()),
            None => next.push_str("null"),
        }
        let start = if is_empty { r#"{"entities":["# } else { "" };
        Bytes::from(format!("{start}],\"next\":{next}}}\n"))
    }
}

fn rendered(chunk: &[(EntityId, Line)], is_first: bool) -> Bytes {
    let length = chunk.iter().map(|(_, line)| line.as_str().len() + 1).sum::<usize>();
    let mut bytes = BytesMut::with_capacity(length + 16);
    for (index, (_, line)) in chunk.iter().enumerate() {
        match (is_first, index) {
            (true, 0) => bytes.put_slice(br#"{"entities":["#),
            _ => bytes.put_u8(b','),
        }
        bytes.put_slice(line.as_str().as_bytes());
    }
    bytes.freeze()
}
