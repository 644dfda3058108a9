//! A PostgreSQL of this test run's own: one cluster for the binary, one database for each test, cloned from
//! a template that was migrated once.
//!
//! The cluster lives in a temporary folder and listens on a Unix socket there. It cannot outlive the test
//! process: a small shell, which is its parent, watches a pipe whose other end only this process holds, and
//! stops the cluster and removes the folder when that end closes, however the process ended.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use scroll::change::time::SystemClock;
use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::store::{OpenMode, OpenSettings, PostgresSettings, open};
use tokio_postgres::NoTls;

const TEMPLATE: &str = "scroll_template";
const START: Duration = Duration::from_secs(60);

/// The cluster of this run.
pub struct Cluster {
    folder: PathBuf,
    /// Closed by the system when this process ends; then the cluster stops.
    _lifeline: ChildStdin,
    _keeper: Child,
    next: AtomicUsize,
}

/// The cluster, started by whoever asks first; `None`, loudly, where there is no PostgreSQL.
pub fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| match binaries() {
        Some(binaries) => Some(Cluster::start(&binaries)),
        None => {
            is_absent();
            None
        }
    });
    cluster.as_ref()
}

/// Says loudly that PostgreSQL is not there; fails where it must be.
pub fn is_absent() {
    let required = std::env::var_os("SCROLL_TEST_REQUIRE_POSTGRES").is_some_and(|value| value == "1");
    assert!(!required, "PostgreSQL is required, and neither PATH nor /usr/lib/postgresql has initdb");
    let words = "!!! POSTGRESQL IS ABSENT: nothing is tested on it (set SCROLL_TEST_REQUIRE_POSTGRES=1 to fail)\n";
    // Past the capture of the test harness.
    std::io::stderr().write_all(words.as_bytes()).unwrap();
}

/// The folder with `initdb` and `postgres`: the newest of those installed.
pub fn binaries() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    folders.sort();
    let installed = folders.into_iter().rev().map(|(_, folder)| folder);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = installed.chain(std::env::split_paths(&path));
    all.find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

/// Stops the cluster and removes its folder once standard input ends.
const KEEPER: &str = r#"
$3 "$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c full_page_writes=off \
    -c synchronous_commit=on -c max_connections=400 -c shared_buffers=64MB -c autovacuum_naptime=10 \
    -c max_wal_size=2GB -c log_min_messages=fatal -c lc_messages=C >"$2/log" 2>&1 &
server=$!
cat >/dev/null
kill -QUIT "$server"
wait "$server"
cd / && rm -rf "$2"
"#;

impl Cluster {
    fn start(binaries: &Path) -> Cluster {
        let folder = tempfile::Builder::new().prefix("scroll-pg-").tempdir().unwrap().keep();
        // The server refuses to run as root, and another user must reach the folder.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let made = as_nobody(binaries.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(folder.join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        let mut keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(binaries)
            .arg(&folder)
            .arg(if is_root() { AS_NOBODY.join(" ") } else { String::new() })
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lifeline = keeper.stdin.take().unwrap();
        let cluster = Cluster { folder, _lifeline: lifeline, _keeper: keeper, next: AtomicUsize::new(0) };
        on_a_thread_of_its_own(cluster.prepare());
        cluster
    }

    /// Waits until the server answers, and migrates the template.
    async fn prepare(&self) {
        let deadline = Instant::now() + START;
        while let Err(error) = tokio_postgres::connect(&self.url("postgres"), NoTls).await {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the cluster does not start: {error}\n{}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        run(&self.url("postgres"), &format!("CREATE DATABASE {TEMPLATE}")).await;
        let settings = OpenSettings {
            url: self.url(TEMPLATE),
            max_batch: 1,
            mode: OpenMode::Exclusive,
            postgres: PostgresSettings { accepts_data_loss: true, ..PostgresSettings::default() },
        };
        let (catalog, metrics) = (Arc::new(Catalog::builtin()), Arc::new(Metrics::new().unwrap()));
        let store = open(settings, catalog, Arc::new(SystemClock), metrics).await.unwrap();
        store.close(Duration::from_secs(10)).await;
        drop(store);
        // A template is copied only while nobody is in it.
        run(&self.url("postgres"), &format!("ALTER DATABASE {TEMPLATE} ALLOW_CONNECTIONS false")).await;
        let gone = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{TEMPLATE}'");
        run(&self.url("postgres"), &gone).await;
    }

    /// A database of one's own, with the schema in it.
    pub fn database(&'static self) -> String {
        let name = self.name();
        let sql = format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY");
        let path = format!("ALTER DATABASE {name} SET search_path TO scroll, public");
        on_a_thread_of_its_own(async move {
            run(&self.url("postgres"), &sql).await;
            run(&self.url("postgres"), &path).await;
        });
        self.url(&name)
    }

    /// An empty database.
    pub fn empty_database(&'static self) -> String {
        let name = self.name();
        let sql = format!("CREATE DATABASE {name}");
        on_a_thread_of_its_own(async move { run(&self.url("postgres"), &sql).await });
        self.url(&name)
    }

    fn name(&self) -> String {
        format!("scroll_{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn url(&self, database: &str) -> String {
        let folder = self.folder.to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{folder}/{database}")
    }
}

/// How an unprivileged user runs a program.
pub const AS_NOBODY: [&str; 5] = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"];

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// As an unprivileged user where we are root: the server refuses to run as root.
pub fn as_nobody(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new(AS_NOBODY[0]);
    command.args(&AS_NOBODY[1..]).arg(program).current_dir("/");
    command
}

/// Tests run inside a runtime; what must be done before one goes on has its own.
fn on_a_thread_of_its_own<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
        });
        thread.join().unwrap()
    })
}

async fn run(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    drop(client);
    // Gone before the next one comes.
    drop(driver.await);
}

/// A connection past the store, for tests: blocking, and outside their runtime.
pub struct Shell {
    runtime: Option<tokio::runtime::Runtime>,
    client: tokio_postgres::Client,
}

impl Shell {
    pub fn connect(url: &str) -> Shell {
        Shell::try_connect(url).unwrap()
    }

    /// `None` when nobody answers there.
    pub fn try_connect(url: &str) -> Option<Shell> {
        let url = url.to_owned();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let client = runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await.ok()?;
                tokio::spawn(connection);
                Some(client)
            })?;
            Some(Shell { runtime: Some(runtime), client })
        })
        .join()
        .unwrap()
    }

    pub fn execute(&self, sql: &str) {
        self.block_on(self.client.batch_execute(sql)).unwrap();
    }

    /// What the database says when it refuses something.
    pub fn refused(&self, sql: &str) -> String {
        let error = self.block_on(self.client.batch_execute(sql)).expect_err("it was to be refused");
        error.as_db_error().expect("the database was to answer").message().to_owned()
    }

    /// The only column of the only row.
    pub fn get<T: for<'a> tokio_postgres::types::FromSql<'a> + Send>(&self, sql: &str) -> T {
        self.block_on(self.client.query_one(sql, &[])).unwrap().get(0)
    }

    fn block_on<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        let runtime = self.runtime.as_ref().unwrap();
        std::thread::scope(|scope| scope.spawn(|| runtime.block_on(work)).join().unwrap())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // A runtime must not be waited for inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
