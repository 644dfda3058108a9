//! Starts, asks and ends the program that is measured, always by its own process.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, http};

/// How long a server may take to be ready, or to drain.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks while waiting.
const PERIOD: Duration = Duration::from_millis(20);

/// A database of either engine.
#[derive(Debug, Clone)]
pub struct Place {
    /// What `--database-url` takes.
    pub url: String,
    /// The file of SQLite; of PostgreSQL a path of that name. What a server says goes beside it.
    pub path: PathBuf,
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Place {
        Place { url: format!("sqlite:{}", path.display()), path: path.to_owned() }
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Place {
        Place::from(path.as_path())
    }
}

/// A running `scroll serve`. It is killed when this value goes.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its database.
    pub place: Place,
}

/// `scroll` with nothing of the caller's own settings.
pub fn scroll(place: impl Into<Place>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scroll"));
    let settings = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCROLL_"));
    for (name, _) in settings {
        command.env_remove(name);
    }
    command.env("SCROLL_DATABASE_URL", place.into().url).stdin(Stdio::null());
    command
}

/// Runs a short command to its end; its stdout, trimmed.
pub fn run(command: &mut Command) -> Outcome<String> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

impl Server {
    /// Starts a server and waits until it is ready. What it says goes to files beside its database.
    pub async fn start(place: impl Into<Place>, arguments: &[&str]) -> Outcome<Server> {
        let (place, address) = (place.into(), free_address()?);
        let beside = |ending: &str| place.path.with_extension(format!("{}.{ending}", address.port()));
        let mut command = scroll(place.clone());
        command.args(["serve", "--listen", &address.to_string()]).args(arguments);
        command.stdout(File::create(beside("out"))?);
        let said = beside("err");
        command.stderr(File::create(&said)?);
        let mut server = Server { child: command.spawn()?, address, place };
        let begin = Instant::now();
        while http::fetch(address, "GET /readyz", "none").await.is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("the server ended: {status}: {}", std::fs::read_to_string(said)?).into());
            }
            if begin.elapsed() > PATIENCE {
                return Err("the server is not ready".into());
            }
            tokio::time::sleep(PERIOD).await;
        }
        Ok(server)
    }

    /// Makes the database with its first log, as the first start of a server does.
    pub async fn make_database(database: &Path) -> Outcome<()> {
        Server::start(database, &[]).await?.stop().await
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes a key that may do everything in a log.
    pub fn key(&self, log: &str) -> Outcome<String> {
        let scopes = ["--scope", "read", "--scope", "write", "--scope", "admin"];
        run(scroll(self.place.clone()).args(["keys", "create", "--log", log]).args(scopes))
    }

    /// The write-ahead log beside the database.
    pub fn wal(&self) -> PathBuf {
        let mut name = self.place.path.clone().into_os_string();
        name.push("-wal");
        name.into()
    }

    /// Asks it to drain and waits for that; it must end well.
    pub async fn stop(mut self) -> Outcome<()> {
        run(Command::new("kill").args(["-TERM", &self.pid().to_string()]))?;
        let begin = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the server ended with {status}").into()),
                None if begin.elapsed() > PATIENCE => return Err("the server did not drain".into()),
                None => tokio::time::sleep(PERIOD).await,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address on the loopback device that nobody listens at.
fn free_address() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
