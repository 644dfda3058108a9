//! Times spread at random, so that those who were sent away together do not come back together.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A time between two bounds; the longer one where the system has no randomness.
pub fn between(bounds: &RangeInclusive<Duration>) -> Duration {
    let mut random = [0; 4];
    let share = match getrandom::fill(&mut random) {
        Ok(()) => f64::from(u32::from_ne_bytes(random)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    };
    *bounds.start() + bounds.end().saturating_sub(*bounds.start()).mul_f64(share)
}

/// A time within a fifth of another, either way.
pub fn around(time: Duration) -> Duration {
    between(&(time.mul_f64(0.8)..=time.mul_f64(1.2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_within_their_bounds() {
        let bounds = Duration::from_secs(5)..=Duration::from_secs(15);
        let times: Vec<Duration> = (0..1_000).map(|_| between(&bounds)).collect();
        assert!(times.iter().all(|time| bounds.contains(time)));
        let early = times.iter().filter(|time| **time < Duration::from_secs(10)).count();
        assert!((300..700).contains(&early), "{early}");
        assert_eq!(between(&(Duration::ZERO..=Duration::ZERO)), Duration::ZERO);
        assert!((8.0..=12.0).contains(&around(Duration::from_secs(10)).as_secs_f64()));
    }
}
