//! How a change looks in a terminal.

use std::io::{ErrorKind, Write as _};

use serde_json::Value;

use crate::cli::CliError;
use crate::cli::terminal::printable;

/// How lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Byte for byte.
    AsItIs,
    /// For people.
    Plain,
    /// For people at a terminal.
    Coloured,
}

const DIM: &str = "\x1b[2m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

impl Style {
    /// Shows a line; false when nobody looks any more.
    pub fn show(self, line: &str) -> Result<bool, CliError> {
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{}", self.dress(line)).and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(source) => Err(CliError::Io { what: "stdout cannot be written".into(), source }),
        }
    }

    fn dress(self, line: &str) -> String {
        let change: Value = match self {
            Style::AsItIs => return line.to_owned(),
            Style::Plain | Style::Coloured => serde_json::from_str(line).unwrap_or_default(),
        };
        let text = |name: &str| printable(change.get(name).and_then(Value::as_str).unwrap_or_default());
        let seq = change.get("seq").map(Value::to_string).unwrap_or_default();
        let (verb, name) = (text("type"), format!("{}/{}", text("resource"), text("id")));
        let data = change.get("data").filter(|data| !data.is_null()).map(|data| printable(&data.to_string()));
        let data = data.unwrap_or_default();
        if self == Style::Plain {
            return format!("{seq:>8}  {verb:<10}  {name}  {data}").trim_end().to_owned();
        }
        let is_deleted = change.get("deleted").and_then(Value::as_bool).unwrap_or(false);
        let colour = match verb.as_str() {
            _ if is_deleted => RED,
            "created" => GREEN,
            _ => YELLOW,
        };
        format!("{DIM}{seq:>8}{RESET}  {colour}{verb:<10}{RESET}  {BOLD}{name}{RESET}  {DIM}{data}{RESET}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        r#"{"seq":7,"resource":"note","id":"\u001b[2Jé","type":"created","deleted":false,"data":{"n":1.50}}"#;

    #[test]
    fn people_see_the_parts_and_programs_the_bytes() {
        assert_eq!(Style::AsItIs.dress(LINE), LINE);
        assert_eq!(Style::Plain.dress(LINE), "       7  created     note/\\u{1b}[2Jé  {\"n\":1.50}");
        let tombstone = r#"{"seq":8,"resource":"note","id":"a","type":"deleted","deleted":true,"data":null}"#;
        assert_eq!(Style::Plain.dress(tombstone), "       8  deleted     note/a");
        assert!(Style::Coloured.dress(tombstone).contains(RED));
        assert!(!Style::Coloured.dress(LINE).contains("\x1b[2J"), "content never commands the terminal");
    }
}
