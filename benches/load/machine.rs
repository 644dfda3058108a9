//! The state the machine is in: cores, file system, and how fast the disk flushes right now.
//!
//! Disks with burst credits are many times faster for some seconds than afterwards, so the flush rate is
//! probed before every run and shown beside the figures.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::stats::Rounds;

/// How long one probe writes. Long enough for an average, short enough not to eat the credits.
const PROBE: Duration = Duration::from_millis(300);
/// One write of a probe: about what a small commit appends to a write-ahead log.
const PROBE_BYTES: usize = 8 << 10;

/// Flushes per second of the file system that holds `folder`: 8 KiB written, then fdatasync.
pub fn flush_rate(folder: &Path) -> Outcome<f64> {
    let path = folder.join("flush-probe");
    let file = File::create(&path)?;
    let block = [0x5c; PROBE_BYTES];
    file.write_all_at(&block, 0)?;
    file.sync_all()?;
    let begin = Instant::now();
    let mut flushes = 0.0;
    while begin.elapsed() < PROBE {
        file.write_all_at(&block, 0)?;
        file.sync_data()?;
        flushes += 1.0;
    }
    let rate = flushes / begin.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// One sentence about the machine for the head of a table.
pub fn sentence(folder: &Path, flushes: &Rounds) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let system = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!(
        "{cores} cores, Linux {}, {} at {}; before the runs {} flushes/s; load average {load} at the end.",
        system.trim(),
        file_system(folder),
        folder.display(),
        flushes.shown(0),
    )
}

/// The type of the file system that holds `folder`: that of the longest mount point above it.
fn file_system(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let above = mounts.lines().filter_map(|mount| {
        let mut words = mount.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        folder.starts_with(point).then_some((point.len(), kind))
    });
    above
        .max_by_key(|(length, _)| *length)
        .map_or_else(|| "an unknown file system".to_owned(), |(_, kind)| kind.to_owned())
}
