//! Requests with an Idempotency-Key that are being carried out by this server. A second one of the same
//! key is told to come back, instead of waiting for the first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::problem::Problem;
use crate::access::LogId;
use crate::entity::{IdempotentRequest, Refusal, RequestKey};

type Requests = Arc<Mutex<HashMap<(LogId, RequestKey), Vec<u8>>>>;

/// The requests that run, with the hashes of their bodies. Bounded by the requests that a server holds.
#[derive(Debug, Default)]
pub struct Running(Requests);

/// One request that runs, until this is dropped.
#[derive(Debug)]
pub struct Turn {
    requests: Requests,
    request: (LogId, RequestKey),
}

impl Running {
    /// Begins a request; 409 when the same one runs already, 422 when one with another body does.
    pub fn begin(&self, log: LogId, request: &IdempotentRequest) -> Result<Turn, Problem> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (log, request.key.clone());
        let key = request.key.key.clone();
        match running.get(&name) {
            Some(hash) if *hash == request.body_hash => Err(Problem::IdempotencyInProgress { key }),
            Some(_) => Err(Refusal::IdempotencyMismatch { key }.into()),
            None => {
                running.insert(name.clone(), request.body_hash.clone());
                Ok(Turn { requests: self.0.clone(), request: name })
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, body: u8) -> IdempotentRequest {
        let key = RequestKey { method: "POST".into(), path: path.into(), key: "k".into() };
        IdempotentRequest { key, body_hash: vec![body] }
    }

    #[test]
    fn a_key_runs_once_at_a_time() {
        let running = Running::default();
        let turn = running.begin(LogId(1), &request("/a", 1)).unwrap();
        let again = running.begin(LogId(1), &request("/a", 1)).unwrap_err();
        assert_eq!(again.kind().slug, "idempotency-in-progress");
        let other = running.begin(LogId(1), &request("/a", 2)).unwrap_err();
        assert_eq!(other.kind().slug, "idempotency-mismatch");
        assert!(running.begin(LogId(2), &request("/a", 1)).is_ok());
        assert!(running.begin(LogId(1), &request("/b", 1)).is_ok());
        drop(turn);
        assert!(running.begin(LogId(1), &request("/a", 2)).is_ok());
    }
}
