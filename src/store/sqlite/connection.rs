//! Connections, with the settings that make SQLite durable and quick, and the lock that keeps a second
//! server out.
//!
//! `synchronous=FULL` is not an option that could be forgotten: with `NORMAL` a power cut takes back
//! commits whose numbers readers have already seen, and gives the numbers to other changes. Group commit
//! makes it affordable.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, SqliteConnection};

use super::owner;
use crate::store::OpenError;

/// Holds while another process has the write lock; then the write is refused as busy.
const BUSY_TIMEOUT_MS: u32 = 10_000;
/// Every write touches a random page of three indexes, and a touched page goes to the log whole: pages of
/// 16 KiB cost a third of the throughput of 4 KiB, and those make lines above 1 KB overflow.
const PAGE_BYTES: u32 = 8_192;
/// The write-ahead log is copied back after so many pages, 16 MiB: the same pages are often touched again.
const CHECKPOINT_PAGES: u32 = 2_000;
/// Page cache of the writer, in KiB: the upper pages of every index.
const WRITER_CACHE_KIB: u32 = 16_384;
/// Page cache of one reader, in KiB: a scan needs little, and there are several readers.
const READER_CACHE_KIB: u32 = 2_048;
/// The write-ahead log is cut back to this after a checkpoint.
const WAL_LIMIT_BYTES: u32 = 64 << 20;

/// Opens the connection that writes, making the file when it is not there. Somebody else's database is left
/// as it was.
pub fn open_writer(path: &Path) -> Result<SqliteConnection, OpenError> {
    let mut connection = establish(path)?;
    owner::refuse_foreign(&mut connection, path)?;
    // The page size holds only if it is set before the first page is written.
    let settings = format!(
        "PRAGMA busy_timeout={BUSY_TIMEOUT_MS}; PRAGMA page_size={PAGE_BYTES}; PRAGMA journal_mode=WAL; \
         PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}; \
         PRAGMA synchronous=FULL; PRAGMA cache_size=-{WRITER_CACHE_KIB}; \
         PRAGMA journal_size_limit={WAL_LIMIT_BYTES}; PRAGMA temp_store=MEMORY;"
    );
    connection.batch_execute(&settings).map_err(|error| unusable(path, error))?;
    check_durability(&mut connection, path)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub fn open_reader(path: &Path) -> Result<SqliteConnection, OpenError> {
    let mut connection = establish(path)?;
    let settings = format!(
        "PRAGMA busy_timeout={BUSY_TIMEOUT_MS}; PRAGMA query_only=ON; \
         PRAGMA cache_size=-{READER_CACHE_KIB}; PRAGMA temp_store=MEMORY;"
    );
    connection.batch_execute(&settings).map_err(|error| unusable(path, error))?;
    Ok(connection)
}

fn establish(path: &Path) -> Result<SqliteConnection, OpenError> {
    let text = path
        .to_str()
        .ok_or_else(|| OpenError::BadUrl { url: path.display().to_string(), reason: "the path is not UTF-8".into() })?;
    SqliteConnection::establish(text).map_err(|error| unusable(path, error))
}

/// The error of a file that cannot be used.
pub fn unusable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> OpenError {
    OpenError::Unusable { path: path.display().to_string(), source: Box::new(error) }
}

#[derive(diesel::QueryableByName)]
struct Durability {
    #[diesel(sql_type = diesel::sql_types::Text)]
    journal_mode: String,
    #[diesel(sql_type = diesel::sql_types::Integer)]
    synchronous: i32,
}

/// Asks SQLite what is in force, since a pragma that is refused stays silent.
fn check_durability(connection: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    use diesel::RunQueryDsl as _;
    let sql = "SELECT journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous";
    let durability: Durability =
        diesel::sql_query(sql).get_result(connection).map_err(|error| unusable(path, error))?;
    // 2 is FULL.
    if durability.journal_mode == "wal" && durability.synchronous == 2 {
        return Ok(());
    }
    Err(OpenError::NotDurable {
        path: path.display().to_string(),
        found: format!("journal_mode={}, synchronous={}", durability.journal_mode, durability.synchronous),
    })
}

/// Held while a server or an import works on the file; released by the system when the process ends,
/// however it ends.
#[derive(Debug)]
pub struct ProcessLock {
    _file: File,
}

impl ProcessLock {
    /// Takes the lock, or says who has it. It lies beside the file itself, whatever links lead there, so that
    /// every way to the file meets the same lock.
    pub fn take(database: &Path) -> Result<ProcessLock, OpenError> {
        let path = lock_path(&resolved(database).map_err(|error| unusable(database, error))?);
        let unusable = |error| unusable(&path, error);
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(unusable)?;
        if file.try_lock().is_err() {
            let mut holder = String::new();
            // Only for the message: the holder's number may not be written yet.
            let _ = file.read_to_string(&mut holder);
            return Err(OpenError::InUse { path: database.display().to_string(), holder: holder.trim().to_owned() });
        }
        file.set_len(0).map_err(unusable)?;
        file.rewind().map_err(unusable)?;
        writeln!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(ProcessLock { _file: file })
    }
}

/// The path without links; the file itself need not be there yet.
fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        found => return found,
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.canonicalize()?,
        _ => std::env::current_dir()?,
    };
    // A link to what is not there; links in a circle were another error.
    if let Ok(target) = std::fs::read_link(path) {
        return resolved(&folder.join(target));
    }
    Ok(path.file_name().map_or_else(|| folder.clone(), |name| folder.join(name)))
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
