//! A PostgreSQL of the figure's own: flushing for real, on a Unix socket in a folder that goes away, under an
//! unprivileged user when the program runs as root.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::server::{Place, run};

/// How long the cluster may take to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks while waiting.
const PERIOD: Duration = Duration::from_millis(50);
/// What a database server of this size is given; everything about durability stays as it comes.
const SETTINGS: [&str; 6] = [
    "listen_addresses=",
    "max_connections=400",
    "shared_buffers=1GB",
    "max_wal_size=8GB",
    "checkpoint_timeout=30min",
    "track_io_timing=off",
];

/// A running cluster. It is stopped when this value goes.
pub struct Cluster {
    folder: PathBuf,
    binaries: PathBuf,
    child: Child,
}

impl Cluster {
    /// Makes and starts a cluster in a folder inside `folder`.
    pub fn start(folder: &Path) -> Outcome<Cluster> {
        let binaries = binaries().ok_or("no PostgreSQL: neither PATH nor /usr/lib/postgresql has initdb")?;
        let folder = folder.join("cluster");
        std::fs::create_dir_all(&folder)?;
        for above in folder.ancestors().take(2) {
            std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o777))?;
        }
        let data = folder.join("data");
        run(unprivileged(&binaries.join("initdb"))
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data))?;
        let mut server = unprivileged(&binaries.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(&folder);
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        let log = File::create(folder.join("log"))?;
        let child = server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let cluster = Cluster { folder, binaries, child };
        let begin = Instant::now();
        while let Err(error) = cluster.psql("postgres", "SELECT 1") {
            if begin.elapsed() > PATIENCE {
                return Err(error);
            }
            std::thread::park_timeout(PERIOD);
        }
        Ok(cluster)
    }

    /// Makes a database.
    pub fn database(&self, name: &str) -> Outcome<Place> {
        self.psql("postgres", &format!("CREATE DATABASE {name}"))?;
        let host = self.folder.display().to_string().replace('/', "%2F");
        Ok(Place { url: format!("postgres://postgres@{host}/{name}"), path: self.folder.with_file_name(name) })
    }

    /// What a statement says, as text without decoration.
    pub fn psql(&self, database: &str, sql: &str) -> Outcome<String> {
        run(self.client("psql", database).args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql]))
    }

    /// A client program, told where the cluster is.
    pub fn client(&self, program: &str, database: &str) -> Command {
        let mut command = Command::new(self.binaries.join(program));
        command.args(["-h".as_ref(), self.folder.as_os_str(), "-U".as_ref(), "postgres".as_ref()]);
        // pgbench takes the database as its last argument, psql anywhere: the environment serves both.
        command.env("PGDATABASE", database).stdin(Stdio::null());
        command
    }

    /// How often the write-ahead log was flushed so far.
    pub fn flushes(&self) -> Outcome<f64> {
        Ok(self.psql("postgres", "SELECT wal_sync FROM pg_stat_wal")?.parse()?)
    }

    /// Writes everything to disk and resets what the last run left to do, so that each run begins alike.
    pub fn settle(&self) -> Outcome<()> {
        self.psql("postgres", "CHECKPOINT").map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A fast stop, by its own id.
        let _ = run(Command::new("kill").args(["-INT", &self.child.id().to_string()]));
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::park_timeout(PERIOD);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder with the newest installed server.
fn binaries() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = folders.into_iter().rev().map(|(_, folder)| folder);
    installed.chain(std::env::split_paths(&path)).find(|folder| folder.join("initdb").exists())
}

/// A program under an unprivileged user where we are root: the server refuses to run as root.
fn unprivileged(program: &Path) -> Command {
    if !std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]).arg(program).current_dir("/");
    command
}
