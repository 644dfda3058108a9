//! `scroll import` of a large file: entities a second and peak memory, then the same file once more, which
//! must change nothing.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;

use crate::data::Invoice;
use crate::folder::Common;
use crate::memory::{Peak, Watch, mib};
use crate::server::{run, scroll};
use crate::stats::{Rounds, Thousands};
use crate::table::Table;
use crate::{Outcome, machine};

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    /// Entities in the file.
    #[arg(long, default_value_t = 1_000_000)]
    entities: u64,
    /// Bytes of each object.
    #[arg(long, default_value_t = 300)]
    bytes: usize,
    #[command(flatten)]
    common: Common,
}

/// What was measured of the first or of the second run.
#[derive(Default)]
struct Cell {
    rate: Rounds,
    seconds: Rounds,
    peak_mib: Rounds,
}

/// Measures and prints.
pub fn measure(options: &Options) -> Outcome<()> {
    let folder = options.common.folder()?;
    let file = folder.scratch().join("import.ndjson");
    write_file(&file, options)?;
    let (mut first, mut second, mut flushes) = (Cell::default(), Cell::default(), Rounds::default());
    let mut size = 0;
    for round in 1..=options.common.rounds {
        let database = folder.scratch().join(format!("import-{round}.db"));
        for (name, cell) in [("first", &mut first), ("second", &mut second)] {
            flushes.push(machine::flush_rate(folder.scratch())?);
            import(&database, &file, options.entities, cell)?;
            eprintln!("round {round}, {name} run: {} entities/s", cell.rate.shown(0));
        }
        size = std::fs::metadata(&database)?.len();
        remove(&database)?;
    }
    let mut table = Table::new(&["run", "entities/s", "seconds", "peak memory MiB"]);
    for (name, cell) in [("first", &first), ("second, nothing changes", &second)] {
        let rate = Thousands(cell.rate.median()).to_string();
        table.row(&[name.to_owned(), rate, cell.seconds.shown(1), cell.peak_mib.shown(1)]);
    }
    let file = format!(
        "{} entities of {} bytes, file of {:.0} MB, database of {:.0} MB, medians of {} rounds.",
        Thousands(options.entities as f64),
        options.bytes,
        std::fs::metadata(&file)?.len() as f64 / 1e6,
        size as f64 / 1e6,
        options.common.rounds,
    );
    table.print("Import", &[machine::sentence(folder.scratch(), &flushes), file]);
    Ok(())
}

fn write_file(path: &Path, options: &Options) -> Outcome<()> {
    eprintln!("writing {} lines to {}", options.entities, path.display());
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut line = String::new();
    for number in 0..options.entities {
        line.clear();
        Invoice { number, version: 0 }.write_import(&mut line, options.bytes);
        file.write_all(line.as_bytes())?;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}

fn import(database: &Path, file: &Path, entities: u64, cell: &mut Cell) -> Outcome<()> {
    let said = File::create(database.with_extension("err"))?;
    let mut command = scroll(database);
    command.arg("import").arg(file).stdout(Stdio::null()).stderr(said);
    let begin = Instant::now();
    let mut child = command.spawn()?;
    let watch = Watch::start(child.id(), PathBuf::new());
    let status = child.wait()?;
    let took = begin.elapsed().as_secs_f64();
    let Peak { high_water_kib, .. } = watch.stop();
    if !status.success() {
        let said = std::fs::read_to_string(database.with_extension("err"))?;
        return Err(format!("the import ended with {status}: {said}").into());
    }
    check(database, entities)?;
    cell.rate.push(entities as f64 / took);
    cell.seconds.push(took);
    cell.peak_mib.push(mib(high_water_kib));
    Ok(())
}

/// One line for each entity, whichever run it was.
fn check(database: &Path, entities: u64) -> Outcome<()> {
    let counts =
        "select (select count(*) from changes), (select count(*) from entities), (select max(seq) from changes)";
    let found = run(Command::new("sqlite3").arg("-batch").arg(database).arg(counts))?;
    if found != format!("{entities}|{entities}|{entities}") {
        return Err(format!("changes|entities|head should be {entities} each and are {found}").into());
    }
    Ok(())
}

fn remove(database: &Path) -> Outcome<()> {
    let beside = std::fs::read_dir(database.parent().unwrap_or(database))?;
    let stem = database.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in beside {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&stem) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
