//! What only an embedded file can break: two processes on it, a shell that holds its lock, its settings.

use std::time::Duration;

use scroll::access::{NewKey, Scope};
use scroll::entity::types::Catalog;
use scroll::feed::{FeedError, page};
use scroll::store::{OpenError, OpenMode, StoreError};

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::commands::{log_name, one, put, whole_page};
use crate::support::desk::{Desk, written};
use crate::support::on_engine;

fn beside() -> Options {
    Options { mode: OpenMode::Beside, ..Options::default() }
}

async fn a_second_server_on_the_file_is_refused_and_told_why(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    let refused = bed.try_open(Options::default()).await.err().unwrap();
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    let words = refused.to_string();
    let path = bed.path().display().to_string();
    let process = format!("(process {})", std::process::id());
    for part in [path.as_str(), "in use", process.as_str(), "HTTP API"] {
        assert!(words.contains(part), "{part:?} is not in {words:?}");
    }
    desk.ok(put("note", "m", "{}")).await;
    check_everything(&desk, &Catalog::builtin()).await;
    Bed::close(desk.store).await;
    bed.open().await;
}

async fn a_command_beside_a_server_makes_keys_that_the_server_knows(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let command = bed.open_with(beside()).await;
    let new = NewKey {
        log: Some(log_name("default")),
        scopes: [Scope::Read].into(),
        resources: None,
        name: None,
        expires_at: None,
    };
    let (key, secret) = command.create_key(new).await.unwrap();
    assert_eq!(desk.store.key(secret.hash()).await.unwrap(), Some(key.clone()));
    command.create_log(&log_name("second")).await.unwrap();
    assert!(desk.store.log(&log_name("second")).await.unwrap().is_some());
    desk.ok(put("note", "n", "{}")).await;
    assert!(command.revoke_key(&key.id, None).await.unwrap());
    assert!(desk.store.key(secret.hash()).await.unwrap().unwrap().revoked_at.is_some());
    Bed::close(command).await;
    // The lock is still the server's.
    assert!(matches!(bed.try_open(Options::default()).await.err(), Some(OpenError::InUse { .. })));
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_command_alone_leaves_the_file_to_the_server(bed: Bed) {
    let command = bed.open_with(beside()).await;
    command.create_log(&log_name("default")).await.unwrap();
    let server = bed.open().await;
    assert_eq!(server.logs().await.unwrap().len(), 1);
    command.create_log(&log_name("second")).await.unwrap();
    assert_eq!(server.logs().await.unwrap().len(), 2);
}

async fn a_command_beside_an_older_server_does_not_touch_the_schema(bed: Bed) {
    let server = bed.open().await;
    bed.execute("DELETE FROM __diesel_schema_migrations");
    let refused = bed.try_open(beside()).await.err().unwrap();
    assert!(matches!(refused, OpenError::OlderSchema), "{refused}");
    drop(server);
}

async fn a_write_waits_for_a_shell_that_holds_the_lock(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "before", "{}")).await;
    for round in 0..2 {
        let shell = bed.hold_write_lock();
        let mut writes: Vec<_> =
            (0..32).map(|n| desk.spawn(one(put("note", &format!("n{n}"), &format!(r#"{{"r":{round}}}"#))))).collect();
        let early = tokio::time::timeout(Duration::from_millis(700), &mut writes[0]).await;
        assert!(early.is_err(), "answered although nothing can be committed");
        // A read never waits for a writer.
        let head = tokio::time::timeout(Duration::from_secs(5), desk.head()).await.unwrap();
        assert_eq!(desk.lines().await.len() as i64, head);
        drop(shell);
        for write in writes {
            written(write.await.unwrap().unwrap());
        }
    }
    assert_eq!(check_everything(&desk, &Catalog::builtin()).await.len(), 65);
}

async fn the_file_is_written_ahead_with_large_pages(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    assert_eq!(bed.text("SELECT journal_mode AS text FROM pragma_journal_mode"), "wal");
    assert_eq!(bed.number("SELECT page_size AS number FROM pragma_page_size"), 8_192);
    assert_eq!(bed.text("SELECT integrity_check AS text FROM pragma_integrity_check"), "ok");
}

async fn a_url_without_a_place_for_a_durable_file_is_refused(bed: Bed) {
    let missing = bed.path().join("no-such-folder/scroll.db");
    for url in ["sqlite::memory:", "sqlite:", "mysql://x", &format!("sqlite:{}", missing.display())] {
        let settings = scroll::store::OpenSettings {
            url: url.to_owned(),
            max_batch: 1,
            mode: OpenMode::Exclusive,
            postgres: Default::default(),
        };
        let options = Options::default();
        let opened = scroll::store::open(settings, options.catalog, bed.clock.clone(), options.metrics).await;
        let refused = opened.err().unwrap();
        assert!(matches!(refused, OpenError::BadUrl { .. } | OpenError::Unusable { .. }), "{url}: {refused}");
    }
}

async fn a_file_that_is_no_database_is_refused_and_left_alone(bed: Bed) {
    let text = "this is a letter, not a database\n".repeat(1_000);
    std::fs::write(bed.path(), &text).unwrap();
    let refused = bed.try_open(Options::default()).await.err().unwrap();
    assert!(refused.to_string().contains("scroll.db"), "{refused}");
    assert_eq!(std::fs::read_to_string(bed.path()).unwrap(), text);
}

/// Leaves the index of the compact bootstrap without the entity `note/lost`: while that is written, the
/// index covers nothing.
async fn lose_an_index_entry(bed: &Bed) -> Desk {
    let index = |condition: &str| {
        bed.execute(&format!(
            "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = \
             'CREATE INDEX entities_by_seq ON entities (log_id, seq){condition}' WHERE name = 'entities_by_seq'"
        ));
    };
    let desk = Desk::open(bed).await;
    desk.ok(put("note", "kept", "{}")).await;
    Bed::close(desk.store).await;
    index(" WHERE seq < 0");
    let desk = Desk::open(bed).await;
    desk.ok(put("note", "lost", "{}")).await;
    Bed::close(desk.store).await;
    index("");
    Desk::open(bed).await
}

async fn damage_of_the_file_is_found(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    assert_eq!(desk.store.audit_storage().await.unwrap(), Vec::<String>::new());
    Bed::close(desk.store).await;
    let desk = lose_an_index_entry(&bed).await;
    bed.execute("INSERT INTO links VALUES (77, 'a', 'b', 'c', 'd', 'e')");
    let found = desk.store.audit_storage().await.unwrap();
    assert!(found.iter().any(|said| said.contains("entities_by_seq")), "{found:?}");
    assert!(found.iter().any(|said| said.contains("links belong to log 77")), "{found:?}");
}

async fn a_bootstrap_that_would_lack_an_entity_is_refused(bed: Bed) {
    let desk = lose_an_index_entry(&bed).await;
    let mut request = whole_page(true);
    let refused = page::open(&*desk.store, &Catalog::builtin(), desk.log, &request).await.unwrap_err();
    assert!(matches!(refused, FeedError::Store(StoreError::Corrupt { .. })), "{refused}");
    request.is_compact = false;
    assert_eq!(page::open(&*desk.store, &Catalog::builtin(), desk.log, &request).await.unwrap().lines, 2);
    bed.execute("REINDEX");
    request.is_compact = true;
    assert_eq!(page::open(&*desk.store, &Catalog::builtin(), desk.log, &request).await.unwrap().lines, 2);
}

async fn nothing_is_written_into_a_file_that_was_moved_away_or_replaced(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", "{}")).await;
    let (path, aside) = (bed.path(), bed.path().with_extension("aside"));
    std::fs::rename(&path, &aside).unwrap();
    for is_replaced in [false, true] {
        if is_replaced {
            std::fs::copy(&aside, &path).unwrap();
        }
        let refused = desk.store.write(desk.log, one(put("note", "m", "{}"))).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
        let refused = desk.store.ready().await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
        assert!(desk.store.create_log(&log_name("second")).await.is_err());
    }
    std::fs::rename(&aside, &path).unwrap();
    desk.store.ready().await.unwrap();
    desk.ok(put("note", "m", "{}")).await;
    assert_eq!(check_everything(&desk, &Catalog::builtin()).await.len(), 2);
}

/// Every way to the file meets the same lock, also when the link was there before the file.
async fn the_lock_holds_through_a_link(bed: Bed) {
    let link = bed.path().with_file_name("link.db");
    std::os::unix::fs::symlink("scroll.db", &link).unwrap();
    let open = async |path: &std::path::Path| {
        let url = format!("sqlite:{}", path.display());
        let settings =
            scroll::store::OpenSettings { url, max_batch: 1, mode: OpenMode::Exclusive, postgres: Default::default() };
        let options = Options::default();
        scroll::store::open(settings, options.catalog, bed.clock.clone(), options.metrics).await
    };
    for (first, second) in [(&link, &bed.path()), (&bed.path(), &link)] {
        let server = open(first).await.unwrap();
        let refused = open(second).await.err().unwrap();
        assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
        Bed::close(server).await;
    }
}

async fn a_database_of_something_else_is_refused_and_left_alone(bed: Bed) {
    for sql in ["CREATE TABLE music (title TEXT)", "PRAGMA application_id=7", "CREATE TABLE logs (line TEXT)"] {
        bed.execute(sql);
        let before = std::fs::read(bed.path()).unwrap();
        for mode in [OpenMode::Exclusive, OpenMode::Beside] {
            let refused = bed.try_open(Options { mode, ..Options::default() }).await.err().unwrap();
            assert!(matches!(refused, OpenError::NotOurs { .. }), "{sql}: {refused}");
        }
        assert!(std::fs::read(bed.path()).unwrap() == before, "{sql}: something was written");
        std::fs::remove_file(bed.path()).unwrap();
    }
    Bed::close(bed.open().await).await;
    let id = "SELECT application_id AS number FROM pragma_application_id";
    assert_eq!(bed.number(id), 0x5343_524c);
    // A file of before the id was written is ours, and gets it.
    bed.execute("PRAGMA application_id=0");
    Bed::close(bed.open().await).await;
    assert_eq!(bed.number(id), 0x5343_524c);
}

/// A full disk lets the write lock be taken, so only a write that succeeds says that there is room again.
async fn after_a_full_disk_the_store_is_ready_when_a_write_succeeds(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.store.ready().await.unwrap();
    for table in ["changes", "settings"] {
        bed.execute(&format!(
            "CREATE TRIGGER full_{table} BEFORE INSERT ON {table} \
             BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        ));
    }
    desk.store.ready().await.unwrap();
    let refused = desk.store.write(desk.log, one(put("note", "n", "{}"))).await.unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    for _ in 0..2 {
        let refused = desk.store.ready().await.unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    }
    bed.execute("DROP TRIGGER full_changes; DROP TRIGGER full_settings");
    desk.store.ready().await.unwrap();
    desk.ok(put("note", "n", "{}")).await;
    check_everything(&desk, &Catalog::builtin()).await;
}

on_engine!(
    on_sqlite,
    Sqlite,
    a_second_server_on_the_file_is_refused_and_told_why,
    a_command_beside_a_server_makes_keys_that_the_server_knows,
    a_command_alone_leaves_the_file_to_the_server,
    a_command_beside_an_older_server_does_not_touch_the_schema,
    a_write_waits_for_a_shell_that_holds_the_lock,
    the_file_is_written_ahead_with_large_pages,
    a_url_without_a_place_for_a_durable_file_is_refused,
    a_file_that_is_no_database_is_refused_and_left_alone,
    nothing_is_written_into_a_file_that_was_moved_away_or_replaced,
    the_lock_holds_through_a_link,
    a_database_of_something_else_is_refused_and_left_alone,
    after_a_full_disk_the_store_is_ready_when_a_write_succeeds,
    damage_of_the_file_is_found,
    a_bootstrap_that_would_lack_an_entity_is_refused
);
