//! What people see: lines and tables on stdout, words on stderr. A reader that goes away (`| head`) is
//! no fault and no panic.

use std::io::Write as _;

use super::CliError;

/// Writes a line to stdout.
pub fn say(line: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::Io { what: "stdout cannot be written".into(), source: error })
        }
        _ => Ok(()),
    }
}

/// Writes words to stderr; that they cannot be written is no reason to stop.
pub fn remark(words: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}

/// The text with its control characters written out: to a terminal they would be commands.
pub fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, character| {
        if character.is_control() {
            out.extend(character.escape_default())
        } else {
            out.push(character)
        }
        out
    })
}

/// Columns aligned by their widest cell; the last one is left as it is.
pub fn table<const COLUMNS: usize>(heads: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let rows: Vec<_> = rows.iter().map(|row| row.each_ref().map(|cell| printable(cell))).collect();
    let mut widths = heads.map(|head| head.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; COLUMNS]| {
        let padded: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let lines = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(line(heads)).chain(lines).collect::<Vec<_>>().join("\n")
}

/// A word as a shell reads it back.
pub fn shell_word(text: &str) -> String {
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&b));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a".into(), "é".into()], ["long".into(), "b".into()]];
        assert_eq!(table(["ID", "NAME"], &rows), "ID    NAME\na     é\nlong  b");
    }

    #[test]
    fn a_cell_never_commands_the_terminal() {
        let rows = [["\u{1b}[2J\n".into(), "b".into()]];
        assert_eq!(table(["ID", "NAME"], &rows), "ID           NAME\n\\u{1b}[2J\\n  b");
    }

    #[test]
    fn shell_words_survive_the_shell() {
        assert_eq!(shell_word("sqlite:scroll.db"), "sqlite:scroll.db");
        assert_eq!(shell_word("sqlite:a b's.db"), r"'sqlite:a b'\''s.db'");
    }
}
