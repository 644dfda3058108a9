//! The real program, as a process.

use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use super::{Client, PATIENCE, POLL};

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_scroll");

/// A command of the program, untouched by the environment of the tests.
pub fn scroll(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SCROLL_") {
            command.env_remove(name);
        }
    }
    // The cluster of the tests does not flush.
    command.env("SCROLL_ACCEPT_DATA_LOSS", "true").args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn run(arguments: &[&str]) -> Output {
    scroll(arguments).output().unwrap()
}

/// `scroll check` finds nothing wrong.
#[track_caller]
pub fn assert_in_order(url: &str) {
    let checked = run(&["check", "--database-url", url, "--log-level", "warn"]);
    let told = String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    assert_eq!(checked.status.code(), Some(0), "{told}");
}

/// A key, made beside whatever runs.
pub fn make_key(url: &str) -> String {
    let made = run(&[
        "keys",
        "create",
        "--log",
        "default",
        "--scope",
        "read",
        "--scope",
        "write",
        "--scope",
        "admin",
        "--database-url",
        url,
    ]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim_end().to_owned()
}

/// `scroll serve` on a free port.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
    pub greeting: String,
    /// What it wrote to stderr so far.
    log: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    pub fn serve(url: &str) -> Process {
        Process::start(&mut Process::command(url))
    }

    /// The command that serves a database.
    pub fn command(url: &str) -> Command {
        scroll(&["serve", "--listen", "127.0.0.1:0", "--database-url", url, "--log-format", "json"])
    }

    /// Starts a command that serves, and waits until it says where.
    pub fn start(command: &mut Command) -> Process {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut stderr = child.stderr.take().unwrap();
        let kept = log.clone();
        let readers = vec![
            std::thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))),
            std::thread::spawn(move || {
                let mut buffer = [0; 8 << 10];
                while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                    kept.lock().unwrap().extend_from_slice(&buffer[..count]);
                }
            }),
        ];
        let greeting = greeting(&lines).unwrap_or_else(|| {
            let _ = child.kill();
            panic!("it does not serve: {}", String::from_utf8_lossy(&log.lock().unwrap()))
        });
        let address = greeting.split("http://").nth(1).unwrap().split([' ', '/']).next().unwrap().parse().unwrap();
        Process { child, address, greeting, log, readers }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn client(&self, key: &str) -> Client {
        Client::new(self.address).with_key(key)
    }

    /// Everything that it said on stderr so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().unwrap()).into_owned()
    }

    /// Asks it to end, as a supervisor does.
    pub fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; the status and everything on stderr.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::park_timeout(POLL);
        };
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        (status, self.log())
    }

    /// Ends it as a power cut would end it.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first lines on stdout: where it serves, and on the first start the lines with the key.
fn greeting(lines: &Receiver<String>) -> Option<String> {
    let mut greeting = lines.recv_timeout(PATIENCE).ok()?;
    while !greeting.contains("Another key:") && !greeting.contains("Ctrl-C stops") {
        greeting.push('\n');
        greeting.push_str(&lines.recv_timeout(PATIENCE).ok()?);
    }
    Some(greeting)
}

/// The key that the first start shows.
pub fn shown_key(greeting: &str) -> String {
    greeting.split("Bearer ").nth(1).unwrap().split('\'').next().unwrap().to_owned()
}
