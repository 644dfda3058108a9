//! The number of a change, which is also the cursor of a consumer.

use std::fmt;

/// A position in a log: 0 is before the first change, N is just after change N.
///
/// A cursor that a client sends may be anything up to 2^63−1 (it is then simply ahead of the head);
/// a committed change never has a number above [`Seq::MAX`], so that every JSON reader keeps it exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(i64);

impl Seq {
    /// The cursor of a consumer that holds nothing.
    pub const ZERO: Seq = Seq(0);
    /// The largest number that a change may have: 2^53−1.
    pub const MAX: Seq = Seq((1 << 53) - 1);

    /// A position, or `None` for a negative number.
    pub fn new(value: i64) -> Option<Seq> {
        (value >= 0).then_some(Seq(value))
    }

    /// Digits as PROTOCOL section 3 wants them: ASCII, no sign, no blanks, no leading zero, at most 2^63−1.
    pub fn parse(text: &str) -> Option<Seq> {
        let plain =
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
        if !plain {
            return None;
        }
        text.parse().ok().map(Seq)
    }

    /// The number itself.
    pub fn get(self) -> i64 {
        self.0
    }

    /// The number of the change after this one; `None` when numbers are used up.
    pub fn next(self) -> Option<Seq> {
        (self < Seq::MAX).then(|| Seq(self.0 + 1))
    }

    /// This position moved forward by `count` changes, stopping at the largest integer.
    pub fn forward(self, count: u64) -> Seq {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        Seq(self.0.saturating_add(count))
    }

    /// How many numbers lie in (`earlier`, self]; 0 when `earlier` is not earlier.
    pub fn distance_from(self, earlier: Seq) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_strictly() {
        for good in ["0", "1", "42", "9223372036854775807"] {
            assert_eq!(Seq::parse(good).map(|s| s.to_string()).as_deref(), Some(good));
        }
        for bad in [
            "",
            "-1",
            "+1",
            " 1",
            "1 ",
            "01",
            "00",
            "1.5",
            "1e3",
            "abc",
            "٣",
            "9223372036854775808",
            "18446744073709551616",
        ] {
            assert_eq!(Seq::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn numbers_end_at_two_to_the_fifty_third() {
        assert_eq!(Seq::MAX.get(), 9_007_199_254_740_991);
        assert_eq!(Seq::MAX.next(), None);
        assert_eq!(Seq::ZERO.next(), Seq::new(1));
    }
}
