//! Long-poll: a page that waits for a line, at most so long (PROTOCOL section 4).

use std::time::Duration;

use actix_web::HttpResponse;

use super::page::{self, Kind};
use super::{Reading, problem};
use crate::api::connection::Signs;
use crate::api::problem::Problem;
use crate::api::streams::Mode;
use crate::feed::wait::Waiting;
use crate::feed::{End, Page, PageRequest, page as feed_page};

/// Answers as soon as there is a line, and at last when the time is over. HEAD never waits.
pub async fn answer(reading: Reading, asked: PageRequest, wait: Duration) -> Result<HttpResponse, Problem> {
    let (app, log) = (&reading.app, reading.log.id);
    let page = feed_page::open(&*app.store, &app.catalog, log, &asked).await.map_err(problem)?;
    let page = if page.lines > 0 || reading.is_head() { page } else { held(&reading, &asked, page, wait).await? };
    page::send(reading, &asked, page, Kind::Held).await
}

/// The page after an empty one. A client that closes its side waits no longer: it gets what there is.
async fn held(reading: &Reading, asked: &PageRequest, empty: Page, wait: Duration) -> Result<Page, Problem> {
    let app = &reading.app;
    let mut pass = app.streams.admit(&reading.caller, Mode::LongPoll)?;
    let waiting = Waiting { store: &*app.store, tails: &app.tails, log: reading.log.id, request: asked };
    let signs = reading.signs();
    let page = tokio::select! {
        page = waiting.for_lines(empty.clone(), wait, pass.ending.clone()) => page.map_err(problem)?,
        () = closed(&signs) => return Ok(empty),
    };
    if *pass.ending.borrow() == Some(End::Key) {
        pass.ended(End::Key.as_str());
        return Err(Problem::Unauthorized);
    }
    pass.lines.inc_by(page.lines);
    pass.ended("answered");
    Ok(page)
}

/// Ends when the client has closed its side. The connection wakes whoever answers on it, so to look each time
/// is enough.
fn closed(signs: &Signs) -> impl Future<Output = ()> {
    std::future::poll_fn(move |_| match signs.has_closed() {
        true => std::task::Poll::Ready(()),
        false => std::task::Poll::Pending,
    })
}
