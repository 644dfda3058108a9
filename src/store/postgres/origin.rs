//! Where the history of a database comes from: its system and its timeline, as they are and as the database
//! remembers them.

use diesel::prelude::{ExpressionMethods as _, OptionalExtension as _, QueryDsl as _};
use diesel::sql_types::Text;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::error::while_;
use super::schema::settings;
use super::statement::Statement;
use crate::store::StoreError;

const OPERATION: &str = "find out where a history comes from";
/// The setting that remembers where the database was last seen.
const SETTING: &str = "lineage";

/// Where a history comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    system: String,
    /// The timeline, as the names of its log files begin.
    pub timeline: String,
    /// Commits wait until a standby has flushed them.
    pub is_synchronous: bool,
}

impl Origin {
    /// As it is now. The timeline is that of the log being written: the control file lags behind a promotion.
    pub async fn read(connection: &mut AsyncPgConnection) -> Result<Origin, StoreError> {
        let sql = "SELECT system_identifier::text, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), \
                   (current_setting('synchronous_standby_names') <> '' \
                    AND current_setting('synchronous_commit') IN ('on', 'remote_apply'))::text \
                   FROM pg_control_system()";
        let statement: Statement<'_, (Text, Text, Text)> = Statement::new(sql, Vec::new());
        let (system, timeline, synchronous): (String, String, String) =
            statement.get_result(connection).await.map_err(while_(OPERATION))?;
        Ok(Origin { system, timeline, is_synchronous: synchronous == "true" })
    }

    fn parse(text: &str) -> Option<Origin> {
        let mut parts = text.split('/').map(str::to_owned);
        let (system, timeline, synchronous) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Origin { system, timeline, is_synchronous: synchronous == "synchronous" })
    }

    fn to_text(&self) -> String {
        let synchronous = if self.is_synchronous { "synchronous" } else { "asynchronous" };
        format!("{}/{}/{synchronous}", self.system, self.timeline)
    }

    /// The same unbroken history.
    pub fn continues(&self, before: &Origin) -> bool {
        self.system == before.system && self.timeline == before.timeline
    }
}

/// As the database was last seen; `None` before the first time.
pub async fn stored_origin(connection: &mut AsyncPgConnection) -> Result<Option<Origin>, StoreError> {
    let stored = settings::table.find(SETTING).select(settings::value).first::<String>(connection).await;
    Ok(stored.optional().map_err(while_(OPERATION))?.as_deref().and_then(Origin::parse))
}

/// Remembers it.
pub async fn store_origin(connection: &mut AsyncPgConnection, origin: &Origin) -> Result<(), StoreError> {
    let row = (settings::name.eq(SETTING), settings::value.eq(origin.to_text()));
    let upsert = diesel::insert_into(settings::table).values(row).on_conflict(settings::name);
    let upsert = upsert.do_update().set(settings::value.eq(origin.to_text()));
    upsert.execute(connection).await.map(drop).map_err(while_(OPERATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_as_it_was_written() {
        for is_synchronous in [true, false] {
            let origin = Origin { system: "7".into(), timeline: "0000000A".into(), is_synchronous };
            assert_eq!(Origin::parse(&origin.to_text()).as_ref(), Some(&origin));
            let other = Origin { is_synchronous: !is_synchronous, ..origin.clone() };
            assert!(origin.continues(&other));
            assert!(!origin.continues(&Origin { timeline: "0000000B".into(), ..origin.clone() }));
        }
        assert_eq!(Origin::parse("7"), None);
    }
}
