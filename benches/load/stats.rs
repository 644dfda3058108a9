//! Medians, percentiles, and how far apart the rounds were.

use std::fmt;
use std::time::Duration;

/// What one quantity was in every round.
#[derive(Debug, Clone, Default)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// Takes the value of one more round.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The one in the middle (the lower one of two); 0 when there was no round.
    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
    }

    /// Smallest and largest.
    pub fn range(&self) -> (f64, f64) {
        let sorted = self.sorted();
        (sorted.first().copied().unwrap_or(0.0), sorted.last().copied().unwrap_or(0.0))
    }

    /// This quantity by that one, round by round: what interleaving is for.
    pub fn by(&self, other: &Rounds) -> Rounds {
        Rounds(self.0.iter().zip(&other.0).map(|(mine, theirs)| mine / theirs).collect())
    }

    /// Median and range with so many decimals.
    pub fn shown(&self, decimals: usize) -> String {
        let (low, high) = self.range();
        let median = self.median();
        match self.0.len() {
            0 | 1 => format!("{median:.decimals$}"),
            _ => format!("{median:.decimals$} ({low:.decimals$}–{high:.decimals$})"),
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// Times of many requests.
#[derive(Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// From the times in any order.
    pub fn new(mut times: Vec<Duration>) -> Latencies {
        times.sort_unstable();
        Latencies(times)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Milliseconds that a share of the requests, 0 to 1, did not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let at = (share * last as f64).round() as usize;
        self.0.get(at).copied().map_or(0.0, milliseconds)
    }
}

/// A duration as tables show it.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// An integer with commas between thousands.
pub struct Thousands(pub f64);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:.0}", self.0.abs());
        if self.0 < 0.0 {
            f.write_str("-")?;
        }
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}
