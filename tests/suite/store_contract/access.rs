//! Logs and keys: made, found, listed, revoked, each only where it may be.

use std::collections::BTreeSet;
use std::time::Duration;

use scroll::access::{Coverage, Key, KeyHash, NewKey, Scope};
use scroll::change::time::Clock as _;
use scroll::store::StoreError;

use crate::support::bed::Bed;
use crate::support::commands::{log_name, resource};
use crate::support::desk::Desk;
use crate::support::on_every_engine;

fn wanted(log: Option<&str>) -> NewKey {
    NewKey { log: log.map(log_name), scopes: [Scope::Read].into(), resources: None, name: None, expires_at: None }
}

fn ids(keys: &[Key]) -> BTreeSet<&str> {
    keys.iter().map(|key| key.id.as_str()).collect()
}

async fn a_log_is_made_once_and_found_by_its_name(bed: Bed) {
    let store = bed.open().await;
    assert_eq!(store.log(&log_name("acme")).await.unwrap(), None);
    let made = store.create_log(&log_name("acme")).await.unwrap();
    assert_eq!((made.name.as_str(), made.head.get(), made.created_at), ("acme", 0, bed.clock.now()));
    assert!(matches!(store.create_log(&log_name("acme")).await, Err(StoreError::Conflict { .. })));
    let upper = store.create_log(&log_name("ACME")).await.unwrap();
    assert_ne!((&upper.id, &upper.epoch), (&made.id, &made.epoch), "names differ by every byte");
    assert_eq!(store.log(&log_name("acme")).await.unwrap(), Some(made.clone()));
    store.create_log(&log_name("b")).await.unwrap();
    let names: Vec<_> = store.logs().await.unwrap().into_iter().map(|log| log.name.to_string()).collect();
    assert_eq!(names, ["ACME", "acme", "b"]);
    Bed::close(store).await;
    assert_eq!(bed.open().await.log(&log_name("acme")).await.unwrap(), Some(made));
}

async fn a_key_is_found_by_its_hash_and_only_by_it(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let expires_at = Some(bed.clock.now().after(Duration::from_secs(60)));
    let new = NewKey {
        log: Some(log_name("default")),
        scopes: [Scope::Write, Scope::Admin].into(),
        resources: Some(vec![resource("note"), resource("a.b")]),
        name: Some("billing, of 2024 é".into()),
        expires_at,
    };
    let (key, secret) = desk.store.create_key(new.clone()).await.unwrap();
    assert_eq!(key.coverage, Coverage::One(desk.log, log_name("default")));
    assert_eq!((&key.scopes, &key.resources, &key.name), (&new.scopes, &new.resources, &new.name));
    assert_eq!((key.created_at, key.expires_at, key.revoked_at), (bed.clock.now(), expires_at, None));
    assert_eq!(desk.store.key(secret.hash()).await.unwrap(), Some(key.clone()));
    for wrong in ["", "x", &secret.reveal()[1..], &format!("{}x", secret.reveal()), &secret.reveal().to_uppercase()] {
        assert_eq!(desk.store.key(KeyHash::of(wrong)).await.unwrap(), None);
    }
    // The secret itself is nowhere in the file.
    let secret_text = secret.reveal().to_owned();
    let desk = desk.reopened(&bed).await;
    assert_eq!(desk.store.key(KeyHash::of(&secret_text)).await.unwrap(), Some(key.clone()));
    Bed::close(desk.store).await;
    let file = bed.stored_keys();
    assert!(!file.windows(secret_text.len()).any(|window| window == secret_text.as_bytes()));
    assert!(file.windows(key.id.len()).any(|window| window == key.id.as_bytes()), "the search finds what is there");
}

async fn an_expired_key_is_still_found_and_says_when_it_ended(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let expires_at = Some(bed.clock.now().after(Duration::from_secs(60)));
    let (_, secret) = desk.store.create_key(NewKey { expires_at, ..wanted(None) }).await.unwrap();
    let valid = async || desk.store.key(secret.hash()).await.unwrap().unwrap().is_valid_at(bed.clock.now());
    assert!(valid().await);
    bed.clock.step(Duration::from_secs(60));
    assert!(!valid().await);
}

async fn a_key_of_a_log_that_is_not_there_is_not_made(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let made = desk.store.create_key(wanted(Some("nowhere"))).await;
    assert!(matches!(made, Err(StoreError::NotFound { .. })));
    assert_eq!(desk.store.keys(None).await.unwrap(), []);
}

async fn keys_are_listed_and_revoked_within_their_log_only(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let other = desk.neighbour("other").await.log;
    let store = &desk.store;
    let (own, own_secret) = store.create_key(wanted(Some("default"))).await.unwrap();
    let (theirs, _) = store.create_key(wanted(Some("other"))).await.unwrap();
    let (all, all_secret) = store.create_key(wanted(None)).await.unwrap();
    assert_eq!(all.coverage, Coverage::All);
    assert_eq!(ids(&store.keys(Some(desk.log)).await.unwrap()), [own.id.as_str()].into());
    assert_eq!(ids(&store.keys(Some(other)).await.unwrap()), [theirs.id.as_str()].into());
    assert_eq!(ids(&store.keys(None).await.unwrap()), ids(&[own.clone(), theirs.clone(), all.clone()]));
    for foreign in [&theirs, &all] {
        assert!(!store.revoke_key(&foreign.id, Some(desk.log)).await.unwrap());
    }
    assert!(!store.revoke_key("key_never", None).await.unwrap());
    assert!(store.keys(None).await.unwrap().iter().all(|key| key.revoked_at.is_none()));
    let first = bed.clock.now();
    assert!(store.revoke_key(&own.id, Some(desk.log)).await.unwrap());
    bed.clock.step(Duration::from_secs(5));
    assert!(store.revoke_key(&own.id, None).await.unwrap(), "revoked again it is still found");
    let revoked = store.key(own_secret.hash()).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(first), "and stays revoked since the first time");
    assert!(!revoked.is_valid_at(bed.clock.now()));
    assert!(store.revoke_key(&all.id, None).await.unwrap());
    assert!(!store.key(all_secret.hash()).await.unwrap().unwrap().is_valid_at(bed.clock.now()));
    assert_eq!(store.key(own_secret.hash()).await.unwrap().unwrap().id, own.id);
}

on_every_engine! {
    a_log_is_made_once_and_found_by_its_name,
    a_key_is_found_by_its_hash_and_only_by_it,
    an_expired_key_is_still_found_and_says_when_it_ended,
    a_key_of_a_log_that_is_not_there_is_not_made,
    keys_are_listed_and_revoked_within_their_log_only,
}
