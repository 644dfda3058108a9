//! A real pgbouncer in transaction mode before a database, with fewer sessions than its clients want.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::cluster::{Machine, Running, free_port, open_folder, say_loudly};
use super::postgres::Shell;

/// Sessions that all clients share.
pub const SESSIONS: usize = 3;

pub struct Pgbouncer {
    port: u16,
    _running: Running,
}

impl Pgbouncer {
    /// Before this machine; `None`, loudly, where there is no pgbouncer.
    pub fn before(machine: &Machine) -> Option<Pgbouncer> {
        let Some(program) = program() else {
            let required = std::env::var_os("SCROLL_TEST_REQUIRE_PGBOUNCER").is_some_and(|value| value == "1");
            assert!(!required, "pgbouncer is required, and it is not in PATH");
            say_loudly(
                "!!! PGBOUNCER IS ABSENT: nothing is tested behind it (SCROLL_TEST_REQUIRE_PGBOUNCER=1 fails)\n",
            );
            return None;
        };
        let (folder, port) = (open_folder(), free_port());
        let settings = format!(
            "[databases]\nscroll = host=127.0.0.1 port={} dbname=scroll user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = {SESSIONS}\nmax_client_conn = 500\n",
            machine.port
        );
        std::fs::write(folder.join("pgbouncer.ini"), settings).unwrap();
        let arguments = [folder.join("pgbouncer.ini").to_str().unwrap().to_owned()];
        let running = Running::start(&folder, &program, &arguments);
        let pgbouncer = Pgbouncer { port, _running: running };
        let began = Instant::now();
        while Shell::try_connect(&pgbouncer.url()).is_none() {
            let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(30), "pgbouncer does not start:\n{}", log());
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Some(pgbouncer)
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/scroll", self.port)
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.exists())
}
