//! Reads and parses batches on a thread of its own, a little ahead of the writer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::PathBuf;

use tokio::sync::mpsc;

use super::super::CliError;
use super::line;
use crate::entity::Command;

/// Longest line, in bytes: as much as a whole batch over HTTP.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// A batch ends once it holds so many bytes of lines.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that are read at once.
const READ_BYTES: usize = 256 * 1024;

/// Where the lines come from.
pub enum Input {
    /// `-`
    Stdin,
    /// A file.
    File(PathBuf),
}

/// Lines that can be read on another thread.
pub type Text = Box<dyn BufRead + Send>;

impl Input {
    /// From the argument.
    pub fn named(path: PathBuf) -> Input {
        if path.as_os_str() == "-" { Input::Stdin } else { Input::File(path) }
    }

    /// The text, and how many bytes it has, where that is known.
    pub fn open(&self) -> Result<(Text, Option<u64>), CliError> {
        let Input::File(path) = self else {
            return Ok((Box::new(BufReader::with_capacity(READ_BYTES, io::stdin())), None));
        };
        let failed = |source| CliError::Io { what: format!("{} cannot be read", path.display()), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let size_bytes = metadata.is_file().then_some(metadata.len());
        Ok((Box::new(BufReader::with_capacity(READ_BYTES, file)), size_bytes))
    }
}

/// The lines of one transaction.
#[derive(Debug, Default)]
pub struct Batch {
    /// What they ask for.
    pub commands: Vec<Command>,
    /// Where each of them stands in the file.
    pub line_numbers: Vec<u64>,
    /// How many bytes they have.
    pub size_bytes: usize,
}

/// Begins to read. The channel ends after the last batch, or after the fault that stopped the reading.
pub fn read_ahead(
    text: Text,
    batch_lines: usize,
    batches_ahead: usize,
) -> Result<mpsc::Receiver<Result<Batch, String>>, CliError> {
    let (sender, receiver) = mpsc::channel(batches_ahead);
    let read = move || {
        let mut batches = Batches { text, batch_lines, line_number: 0, buffer: Vec::new() };
        while let Some(batch) = batches.next_batch().transpose() {
            let is_last = batch.is_err();
            // The writer is gone when it met a refusal; then nobody needs more.
            if sender.blocking_send(batch).is_err() || is_last {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("import-reader".into()).spawn(read);
    started.map_err(|source| CliError::Io { what: "the reading thread cannot be started".into(), source })?;
    Ok(receiver)
}

struct Batches {
    text: Text,
    batch_lines: usize,
    line_number: u64,
    buffer: Vec<u8>,
}

impl Batches {
    /// The next batch, `None` at the end.
    fn next_batch(&mut self) -> Result<Option<Batch>, String> {
        let mut batch = Batch::default();
        while batch.commands.len() < self.batch_lines && batch.size_bytes < MAX_BATCH_BYTES {
            if !self.next_line()? {
                break;
            }
            batch.size_bytes += self.buffer.len();
            if self.buffer.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let command = line::parse(&self.buffer).map_err(|why| self.at_line(&why))?;
            batch.commands.push(command);
            batch.line_numbers.push(self.line_number);
        }
        Ok((!batch.commands.is_empty()).then_some(batch))
    }

    /// Reads one line into the buffer; false at the end.
    fn next_line(&mut self) -> Result<bool, String> {
        self.buffer.clear();
        self.line_number += 1;
        let limit = u64::try_from(MAX_LINE_BYTES + 1).unwrap_or(u64::MAX);
        let read = self.text.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
        let count = read.map_err(|error| self.at_line(&format!("cannot be read: {error}")))?;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        }
        if self.buffer.len() > MAX_LINE_BYTES {
            return Err(self.at_line(&format!("longer than {MAX_LINE_BYTES} bytes")));
        }
        Ok(count > 0)
    }

    fn at_line(&self, why: &str) -> String {
        format!("line {}: {why}; nothing of its batch was written", self.line_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(text: impl Into<Vec<u8>>, batch_lines: usize) -> Vec<Result<Batch, String>> {
        let text = Box::new(io::Cursor::new(text.into()));
        let mut receiver = read_ahead(text, batch_lines, 1).unwrap();
        std::iter::from_fn(|| receiver.blocking_recv()).collect()
    }

    fn line(id: &str) -> String {
        format!(r#"{{"resource":"note","id":"{id}","data":{{}}}}"#)
    }

    #[test]
    fn lines_come_in_batches_and_know_their_numbers() {
        let text = format!("{}\n\n{}\r\n{}", line("a"), line("b"), line("c"));
        let numbers: Vec<_> = batches(text, 2).into_iter().map(|batch| batch.unwrap().line_numbers).collect();
        assert_eq!(numbers, [vec![1, 3], vec![4]]);
        assert!(batches("", 2).is_empty() && batches("\n \n", 2).is_empty());
    }

    #[test]
    fn the_first_bad_line_ends_the_reading_and_its_batch() {
        let text = format!("{}\n{}\n{}\nnonsense\n{}\n", line("a"), line("b"), line("c"), line("d"));
        let read = batches(text, 2);
        assert_eq!(read.len(), 2);
        assert!(read.last().unwrap().as_ref().unwrap_err().starts_with("line 4: "), "{read:?}");
    }

    #[test]
    fn batches_are_bounded_by_bytes() {
        let data = "x".repeat(MAX_BATCH_BYTES / 2);
        let long = format!(r#"{{"resource":"note","id":"a","data":{{"x":"{data}"}}}}"#);
        let sizes: Vec<_> =
            batches([long.as_str(); 5].join("\n"), 1000).into_iter().map(|b| b.unwrap().commands.len()).collect();
        assert_eq!(sizes, [2, 2, 1]);
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let read = batches(vec![b'x'; MAX_LINE_BYTES + 10], 10);
        assert!(read.first().unwrap().as_ref().unwrap_err().contains("longer than"), "{read:?}");
    }
}
