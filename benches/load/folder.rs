//! Where the databases of a figure live: a folder that is named and kept, or one that goes away.

use std::path::{Path, PathBuf};

use clap::Args;
use tempfile::TempDir;

use crate::Outcome;

/// What every figure understands.
#[derive(Args, Clone)]
pub struct Common {
    /// Rounds of every run; tables show medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Folder for the databases; its file system matters. A log that takes long to build is kept in it for
    /// the next time. Without it: a folder under target/ that is removed at the end.
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

/// The folder of one run of the program.
pub struct Folder {
    kept: PathBuf,
    scratch: TempDir,
}

impl Common {
    /// Makes the folders.
    pub fn folder(&self) -> Outcome<Folder> {
        let base = self.dir.clone().unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
        std::fs::create_dir_all(&base)?;
        let scratch = tempfile::Builder::new().prefix("load-").tempdir_in(base.canonicalize()?)?;
        let kept = if self.dir.is_some() { base.canonicalize()? } else { scratch.path().to_owned() };
        Ok(Folder { kept, scratch })
    }
}

impl Folder {
    /// Where things stay that the next run can use.
    pub fn kept(&self) -> &Path {
        &self.kept
    }

    /// Where everything else goes; removed at the end.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }
}
