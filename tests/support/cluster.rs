//! PostgreSQL servers that a test may stop, crash, start, copy and promote: each in a folder of its own, on a
//! port of the loopback. As with the shared cluster, none outlives the test process.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use super::postgres::{AS_NOBODY, Shell, as_nobody, binaries, is_absent, is_root};

const PATIENCE: Duration = Duration::from_secs(60);

/// Stops the server once standard input ends, and removes the folder unless it is to be kept.
const KEEPER: &str = r#"
folder="$1"; shift
"$@" >>"$folder/log" 2>&1 &
server=$!
cat >/dev/null
# PostgreSQL ends at once with the first, pgbouncer with the second.
kill -QUIT "$server" 2>/dev/null
kill -TERM "$server" 2>/dev/null
wait "$server"
[ -e "$folder/keep" ] || { cd / && rm -rf "$folder"; }
"#;

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// As by a power cut of the database alone: it recovers when it starts.
    Crash,
    /// As an administrator does: sessions end, what is committed is flushed.
    Fast,
}

/// A PostgreSQL server.
pub struct Machine {
    folder: PathBuf,
    pub port: u16,
    settings: Vec<String>,
    running: Option<Running>,
}

/// A program that ends with the test process.
pub struct Running {
    /// Closed by the system when this process ends; then the program stops.
    lifeline: Option<ChildStdin>,
    keeper: Child,
}

impl Running {
    /// Runs a program, as an unprivileged user; what it says goes to `log` in the folder, which is removed
    /// after its end unless there is a file `keep` in it.
    pub fn start(folder: &Path, program: &Path, arguments: &[String]) -> Running {
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(folder);
        if is_root() {
            keeper.args(AS_NOBODY);
        }
        keeper.arg(program).args(arguments);
        let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Running { lifeline: keeper.stdin.take(), keeper }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        self.keeper.wait().unwrap();
    }
}

/// A folder that an unprivileged user may write to.
pub fn open_folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("scroll-pg-").tempdir().unwrap().keep();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// A port of the loopback that is free now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Machine {
    /// A server with a database `scroll`; `None`, loudly, where there is no PostgreSQL.
    pub fn primary(settings: &[&str]) -> Option<Machine> {
        let Some(binaries) = binaries() else {
            is_absent();
            return None;
        };
        let mut machine = Machine::new(settings);
        let made = as_nobody(binaries.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(machine.data())
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        machine.start();
        machine.shell_of("postgres").execute("CREATE DATABASE scroll");
        Some(machine)
    }

    /// A hot standby of this one, which has replayed everything so far.
    pub fn standby(&self) -> Machine {
        let mut standby = Machine::new(&[]);
        let source = format!("host=127.0.0.1 port={} user=postgres application_name=standby", self.port);
        let copied = as_nobody(binaries().unwrap().join("pg_basebackup"))
            .args([
                "--no-sync",
                "--checkpoint=fast",
                "--wal-method=stream",
                "--write-recovery-conf",
                "-d",
                &source,
                "-D",
            ])
            .arg(standby.data())
            .output()
            .unwrap();
        assert!(copied.status.success(), "no copy: {}", String::from_utf8_lossy(&copied.stderr));
        standby.start();
        standby.wait_for_replay_of(self);
        standby
    }

    fn new(settings: &[&str]) -> Machine {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Machine { folder: open_folder(), port: free_port(), settings, running: None }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Where a test may put files that the server reads.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The database `scroll` here.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/scroll", self.port)
    }

    /// The database `scroll` on whichever of the two takes writes.
    pub fn url_with(&self, other: &Machine) -> String {
        format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/scroll", self.port, other.port)
    }

    pub fn shell(&self) -> Shell {
        self.shell_of("scroll")
    }

    fn shell_of(&self, database: &str) -> Shell {
        Shell::connect(&format!("postgres://postgres@127.0.0.1:{}/{database}", self.port))
    }

    /// Starts it and waits until it answers.
    pub fn start(&mut self) {
        self.start_unready();
        let began = Instant::now();
        while Shell::try_connect(&format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)).is_none() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "the server does not start:\n{}", log());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Starts it and does not wait.
    pub fn start_unready(&mut self) {
        assert!(self.running.is_none(), "it runs");
        drop(std::fs::remove_file(self.folder.join("keep")));
        let usual = [
            "listen_addresses=127.0.0.1",
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=32MB",
            "max_connections=200",
            "wal_receiver_status_interval=1",
            "wal_retrieve_retry_interval=100",
            "log_min_messages=fatal",
            "lc_messages=C",
        ];
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let mut arguments = vec!["-D".to_owned(), path(&self.data()), "-k".to_owned(), path(&self.folder)];
        let port = format!("port={}", self.port);
        for setting in usual.into_iter().chain([port.as_str()]).chain(self.settings.iter().map(String::as_str)) {
            arguments.extend(["-c".to_owned(), setting.to_owned()]);
        }
        self.running = Some(Running::start(&self.folder, &binaries().unwrap().join("postgres"), &arguments));
    }

    /// Stops it and waits until it is gone; its data stays.
    pub fn stop(&mut self, how: Stop) {
        let Some(running) = self.running.take() else {
            return;
        };
        std::fs::File::create(self.folder.join("keep")).unwrap();
        let pid = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let signal = if how == Stop::Crash { "-QUIT" } else { "-INT" };
        if let Some(pid) = pid.lines().next() {
            drop(Command::new("kill").args([signal, pid]).stderr(Stdio::null()).status());
        }
        let began = Instant::now();
        while how == Stop::Fast && self.data().join("postmaster.pid").exists() && began.elapsed() < PATIENCE {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        drop(running);
    }

    /// A setting of the running server, in force when this returns.
    pub fn set(&self, name: &str, value: &str) {
        let shell = self.shell();
        shell.execute(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        shell.execute("SELECT pg_reload_conf()");
        let began = Instant::now();
        while self.shell().get::<String>(&format!("SELECT current_setting('{name}')")) != value {
            assert!(began.elapsed() < PATIENCE, "{name} does not become {value}");
        }
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        assert!(self.shell().get::<bool>("SELECT pg_promote()"), "it was not promoted");
    }

    pub fn pause_replay(&self) {
        self.shell().execute("SELECT pg_wal_replay_pause()");
        let paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'";
        self.wait_for("replay is paused", |shell| shell.get::<bool>(paused));
    }

    pub fn resume_replay(&self) {
        self.shell().execute("SELECT pg_wal_replay_resume()");
    }

    pub fn wait_for_replay_of(&self, primary: &Machine) {
        let written: String = primary.shell().get("SELECT pg_current_wal_flush_lsn()::text");
        let replayed = format!("SELECT coalesce(pg_last_wal_replay_lsn() >= '{written}', false)");
        self.wait_for("the standby has replayed", |shell| shell.get::<bool>(&replayed));
    }

    pub fn wait_for(&self, what: &str, is_so: impl Fn(&Shell) -> bool) {
        let (shell, began) = (self.shell(), Instant::now());
        while !is_so(&shell) {
            assert!(began.elapsed() < PATIENCE, "never came true: {what}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop(Stop::Crash);
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Says past the capture of the test harness that something is not tested.
pub fn say_loudly(words: &str) {
    std::io::stderr().write_all(words.as_bytes()).unwrap();
}
