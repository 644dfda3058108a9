//! A clock that stands still until a test moves it.

use std::sync::Mutex;
use std::time::Duration;

use scroll::change::Timestamp;
use scroll::change::time::Clock;

/// 2023-11-14T22:13:20Z.
pub const START: i64 = 1_700_000_000_000_000;

#[derive(Debug)]
pub struct TestClock(Mutex<Timestamp>);

impl Default for TestClock {
    fn default() -> TestClock {
        TestClock(Mutex::new(Timestamp::from_micros(START)))
    }
}

impl TestClock {
    pub fn step(&self, duration: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.after(duration);
    }

    pub fn step_back(&self, duration: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.before(duration);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}
