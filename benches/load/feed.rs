//! The long log that the reading figures share: many changes of fewer entities, built once by `scroll import`.
//!
//! First every entity is made, then the rest of the changes go to entities picked evenly at random, so that
//! the newest lines lie scattered over the log as they do in real ones.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;

use crate::Outcome;
use crate::data::{Invoice, Random};
use crate::server::{Place, Server, scroll};

/// Bytes of one object: with its envelope a line of about 470 bytes.
const DATA_BYTES: usize = 376;

/// The shape of the log.
#[derive(Args, Clone, Copy)]
pub struct Shape {
    /// Changes in the log.
    #[arg(long, default_value_t = 1_000_000)]
    pub changes: u64,
    /// Live entities in the log.
    #[arg(long, default_value_t = 100_000)]
    pub entities: u64,
}

impl Shape {
    /// The database file, built if it is not there yet.
    pub async fn database(self, folder: &Path) -> Outcome<PathBuf> {
        let path = folder.join(format!("feed-{}-{}.db", self.changes, self.entities));
        let finished = path.with_extension("finished");
        if finished.exists() {
            eprintln!("using {}", path.display());
            return Ok(path);
        }
        if path.exists() {
            return Err(format!("{} was left unfinished; remove it", path.display()).into());
        }
        eprintln!("building {}", path.display());
        Server::make_database(&path).await?;
        self.import(path.as_path())?;
        std::fs::write(finished, "")?;
        Ok(path)
    }

    /// Writes the changes into an empty log.
    pub fn import(self, place: impl Into<Place>) -> Outcome<()> {
        let place = place.into();
        let mut command = scroll(place.clone());
        command.args(["import", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let said = place.path.with_extension("err");
        command.stderr(File::create(&said)?);
        let mut child = command.spawn()?;
        let written = self.write_changes(child.stdin.take().ok_or("no stdin")?);
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("the import ended with {status}: {}", std::fs::read_to_string(said)?).into());
        }
        written
    }

    fn write_changes(self, import: impl Write) -> Outcome<()> {
        let mut import = BufWriter::with_capacity(1 << 20, import);
        let mut random = Random(1);
        let mut line = String::new();
        for version in 0..self.changes {
            let number = if version < self.entities { version } else { random.next() % self.entities };
            line.clear();
            Invoice { number, version }.write_import(&mut line, DATA_BYTES);
            import.write_all(line.as_bytes())?;
        }
        import.flush()?;
        Ok(())
    }
}
