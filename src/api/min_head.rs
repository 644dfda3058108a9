//! `min_head`: read what you wrote, on any server. Waits until this one has come so far.

use super::App;
use super::changes::problem;
use super::problem::Problem;
use crate::access::LogId;
use crate::change::Seq;
use crate::feed::page;

/// The head of the log, once it is at least `min_head`; 503 when it is not in time.
pub async fn wait_until_head(app: &App, log: LogId, min_head: Option<Seq>) -> Result<Seq, Problem> {
    let mut head = app.store.head(log).await?;
    page::head_reaching(&mut head, min_head.unwrap_or(Seq::ZERO)).await.map_err(problem)
}
