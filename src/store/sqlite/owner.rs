//! Whose database is this? A mistyped path must not turn another program's file into a log.

use std::path::Path;

use diesel::SqliteConnection;
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer};

use super::connection::unusable;
use crate::store::OpenError;

/// `SCRL`: what stands in the header of our files, where `file` and others look for it.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"SCRL");
/// Tables that every version has. A file of before the id was written is known by them.
const OUR_TABLES: &str = "'logs', 'changes', 'entities'";
const OUR_TABLES_COUNT: i64 = 3;

#[derive(QueryableByName)]
struct OwnerRow {
    #[diesel(sql_type = Integer)]
    application_id: i32,
    #[diesel(sql_type = BigInt)]
    tables: i64,
    #[diesel(sql_type = BigInt)]
    ours: i64,
}

/// Goes on with a file of ours and with an empty one.
pub fn refuse_foreign(connection: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    let owner = look(connection, path)?;
    let found = match owner.application_id {
        APPLICATION_ID => return Ok(()),
        0 if owner.tables == 0 || owner.ours == OUR_TABLES_COUNT => return Ok(()),
        0 => format!("it has {} tables of something else", owner.tables),
        other => format!("its application id is {other:#010x}"),
    };
    Err(OpenError::NotOurs { path: path.display().to_string(), found })
}

/// Writes the id into a file that has none.
pub fn mark(connection: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    if look(connection, path)?.application_id == APPLICATION_ID {
        return Ok(());
    }
    let pragma = format!("PRAGMA application_id={APPLICATION_ID}");
    connection.batch_execute(&pragma).map_err(|error| unusable(path, error))
}

fn look(connection: &mut SqliteConnection, path: &Path) -> Result<OwnerRow, OpenError> {
    let sql = format!(
        "SELECT application_id, (SELECT count(*) FROM sqlite_schema WHERE type = 'table') AS tables, \
         (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ({OUR_TABLES})) AS ours \
         FROM pragma_application_id"
    );
    diesel::sql_query(sql).get_result(connection).map_err(|error| unusable(path, error))
}
