//! What only an embedded file can break: two processes on it, a shell that holds its lock, its settings.

use std::time::Duration;

use scroll::access::{NewKey, Scope};
use scroll::entity::types::Catalog;
use scroll::store::{OpenError, OpenMode};

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::commands::{log_name, one, put};
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
    assert_eq!(bed.number("SELECT page_size AS number FROM pragma_page_size"), 16_384);
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
    a_file_that_is_no_database_is_refused_and_left_alone
);
