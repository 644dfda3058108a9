//! Is there room on the disk again? Once a write met a full disk, only a write that succeeds says so.

use std::sync::atomic::{AtomicBool, Ordering};

use diesel::SqliteConnection;
use diesel::prelude::*;

use super::error::while_;
use super::schema::settings;
use crate::store::StoreError;

/// The setting that is written to find out.
const PROBE: &str = "room";

/// Whether the last that was heard of the disk is that it is full.
#[derive(Debug, Default)]
pub struct Room(AtomicBool);

impl Room {
    /// A write failed. A log that has no numbers left says nothing of the disk.
    pub fn note(&self, error: &StoreError) {
        if matches!(error, StoreError::Full { source: Some(_), .. }) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// True from a write that met a full disk until one succeeds.
    pub fn is_short(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A write succeeded.
    pub fn is_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Writes a row that nobody reads.
pub fn try_write(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let row = (settings::name.eq(PROBE), settings::value.eq("tried"));
    diesel::replace_into(settings::table).values(row).execute(connection).map(drop).map_err(while_("answer"))
}
