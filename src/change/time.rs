//! Commit times: informative only, never an order and never a cursor.

use std::fmt;

/// Microseconds since 1970-01-01 UTC; written as RFC 3339 with `Z` and six decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the Unix epoch.
    pub fn from_micros(micros: i64) -> Timestamp {
        Timestamp(micros)
    }

    /// Microseconds since the Unix epoch.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Reads RFC 3339 with any offset; `None` when it is not that.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let parsed: jiff::Timestamp = text.parse().ok()?;
        Some(Timestamp(parsed.as_microsecond()))
    }

    /// This moment moved by a duration into the future.
    pub fn after(self, duration: std::time::Duration) -> Timestamp {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(micros))
    }

    /// This moment moved by a duration into the past.
    pub fn before(self, duration: std::time::Duration) -> Timestamp {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_sub(micros))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => f.write_str("1970-01-01T00:00:00.000000Z"),
        }
    }
}

/// Where the time comes from, so that tests decide it.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_microsecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_six_decimals() {
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::from_micros(1_700_000_000_000_001).to_string(), "2023-11-14T22:13:20.000001Z");
        let parsed = Timestamp::parse("2023-11-14T23:13:20.000001+01:00");
        assert_eq!(parsed, Some(Timestamp::from_micros(1_700_000_000_000_001)));
    }
}
