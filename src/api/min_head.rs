//! `min_head`: read what you wrote, on any server. Waits until this one has come so far.

use std::time::Duration;

use super::App;
use super::problem::Problem;
use crate::access::LogId;
use crate::change::Seq;

/// How long a request waits for the head, as PROTOCOL section 3 says.
const PATIENCE: Duration = Duration::from_secs(5);

/// The head of the log, once it is at least `min_head`; 503 when it is not in time.
pub async fn wait_until_head(app: &App, log: LogId, min_head: Option<Seq>) -> Result<Seq, Problem> {
    let mut head = app.store.head(log).await?;
    let Some(min_head) = min_head else {
        return Ok(*head.borrow());
    };
    let reached = head.wait_for(|head| *head >= min_head);
    match tokio::time::timeout(PATIENCE, reached).await {
        Ok(Ok(head)) => Ok(*head),
        // The store is closing.
        Ok(Err(_)) => Err(Problem::Draining),
        Err(_) => Err(Problem::ReplicaBehind { min_head }),
    }
}
