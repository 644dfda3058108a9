//! How long to wait before trying again: longer each time, spread, never shorter than the server asks for.

use std::time::Duration;

use crate::jitter;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// The waits of one tail.
#[derive(Debug)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff(FIRST)
    }
}

impl Backoff {
    /// The next wait; `at_least` is what the server asked for.
    pub fn next(&mut self, at_least: Duration) -> Duration {
        let wait = at_least + jitter::between(&(self.0 / 2..=self.0));
        self.0 = (self.0 * 2).min(LONGEST);
        wait
    }

    /// A line arrived: the next trouble is a new one.
    pub fn succeeded(&mut self) {
        self.0 = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_are_spread_and_never_shorter_than_asked_for() {
        let asked = Duration::from_secs(5);
        let mut firsts: Vec<Duration> = (0..200).map(|_| Backoff::default().next(Duration::ZERO)).collect();
        firsts.sort();
        assert!(firsts[0] >= FIRST / 2 && firsts[199] <= FIRST && firsts[199] - firsts[0] > FIRST / 4);
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..10).map(|_| backoff.next(asked)).collect();
        assert!(waits.iter().all(|wait| *wait > asked && *wait <= asked + LONGEST));
        assert!(waits[9] > asked + LONGEST / 3);
        backoff.succeeded();
        assert!(backoff.next(Duration::ZERO) <= FIRST);
    }
}
