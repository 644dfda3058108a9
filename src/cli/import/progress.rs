//! How far an import is: a bar on a terminal, else a line every few seconds, both on stderr.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::super::terminal;

/// The time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The bar, when the end is known.
const BAR: &str = "{bar:40} {percent}%  {msg}  {eta} left";
/// The sign of life, when it is not.
const SPINNER: &str = "{spinner} {msg}";

/// Counts, and shows the counts.
pub struct Progress {
    began: Instant,
    told: Instant,
    written: u64,
    unchanged: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins; `size_bytes` is that of the file, where it is known.
    pub fn start(size_bytes: Option<u64>) -> Progress {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| drawn(size_bytes));
        Progress { began: now, told: now, written: 0, unchanged: 0, bar }
    }

    /// A batch is in.
    pub fn advance(&mut self, written: u64, unchanged: u64, bytes: usize) {
        self.written += written;
        self.unchanged += unchanged;
        match &self.bar {
            Some(bar) => {
                bar.inc(u64::try_from(bytes).unwrap_or(0));
                bar.set_message(self.summary());
            }
            None if self.told.elapsed() >= LINE_EVERY => {
                self.told = Instant::now();
                terminal::remark(&self.summary());
            }
            None => {}
        }
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// The counts in words.
    pub fn summary(&self) -> String {
        in_words(self.written, self.unchanged, self.began.elapsed())
    }
}

fn drawn(size_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match size_bytes {
        Some(size) => (ProgressBar::new(size), BAR),
        None => (ProgressBar::new_spinner(), SPINNER),
    };
    // Both templates are constants of this file; a bar without style is still a bar.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn in_words(written: u64, unchanged: u64, elapsed: Duration) -> String {
    let entities = written + unchanged;
    let per_second = u128::from(entities) * 1000 / elapsed.as_millis().max(1);
    format!("{entities} entities are in: {written} written, {unchanged} unchanged, {per_second} entities/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_said_in_words() {
        assert_eq!(
            in_words(900, 100, Duration::from_millis(500)),
            "1000 entities are in: 900 written, 100 unchanged, 2000 entities/s"
        );
        assert!(in_words(0, 0, Duration::ZERO).ends_with("0 entities/s"));
    }
}
