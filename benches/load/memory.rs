//! How much memory a process holds, and how large a file grows, watched while something else happens.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(20);

/// The largest values seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Peak {
    /// Resident memory at any look, in KiB.
    pub resident_kib: u64,
    /// The kernel's own high-water mark since the process began, in KiB, at the last look.
    pub high_water_kib: u64,
    /// Size of the watched file, in bytes.
    pub file_bytes: u64,
}

/// Looks at a process until it is told to stop.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Peak>,
}

impl Watch {
    /// Begins to look at the process `pid`, and at a file that may not be there.
    pub fn start(pid: u32, file: PathBuf) -> Watch {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut peak = Peak::default();
            loop {
                peak.look(pid, &file);
                if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return peak;
                }
            }
        });
        Watch { stop, thread }
    }

    /// Stops and tells what was seen.
    pub fn stop(self) -> Peak {
        // The thread ends either way.
        let _ = self.stop.send(());
        self.thread.join().expect("the watching thread ends well")
    }
}

impl Peak {
    fn look(&mut self, pid: u32, file: &PathBuf) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        self.resident_kib = self.resident_kib.max(kib(&status, "VmRSS:"));
        self.high_water_kib = self.high_water_kib.max(kib(&status, "VmHWM:"));
        self.file_bytes = self.file_bytes.max(std::fs::metadata(file).map_or(0, |file| file.len()));
    }

    /// One look.
    pub fn now(pid: u32) -> Peak {
        let mut peak = Peak::default();
        peak.look(pid, &PathBuf::new());
        peak
    }
}

/// A line of `/proc/<pid>/status`; 0 when it is not there, as for a process that has ended.
fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// KiB as the tables show memory.
pub fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
