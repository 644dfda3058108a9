//! Is the file still where it was opened? SQLite goes on writing into a file that was moved away or
//! replaced, and the next start would not find what it acknowledged.

use std::path::{Path, PathBuf};

use crate::store::StoreError;

/// The path of the database, and which file stood there when it was opened.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    file: Option<FileId>,
}

impl Place {
    /// The file that stands there now.
    pub fn of(path: &Path) -> std::io::Result<Place> {
        Ok(Place { path: path.to_path_buf(), file: file_id(path)? })
    }

    /// Refuses to go on when another file stands there, or none.
    pub fn check(&self, operation: &'static str) -> Result<(), StoreError> {
        let unavailable = |source| StoreError::Unavailable { operation, source };
        match file_id(&self.path) {
            Ok(found) if found == self.file => Ok(()),
            Ok(_) => Err(unavailable("another file stands in the place of the database that was opened".into())),
            Err(error) => Err(unavailable(format!("the database is no longer where it was opened: {error}").into())),
        }
    }
}

/// Device and inode.
type FileId = (u64, u64);

#[cfg(unix)]
fn file_id(path: &Path) -> std::io::Result<Option<FileId>> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map(|found| Some((found.dev(), found.ino())))
}

/// Elsewhere an open file cannot be moved away or replaced.
#[cfg(not(unix))]
fn file_id(path: &Path) -> std::io::Result<Option<FileId>> {
    std::fs::metadata(path).map(|_| None)
}
