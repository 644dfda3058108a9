//! What each operation does, against the built-in types.

use scroll::change::Resource;
use scroll::entity::types::Catalog;
use scroll::entity::{Outcome, Refusal};
use scroll::store::StoreError;
use serde_json::json;

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::commands::{action, create, delete, key, one, patch, put};
use crate::support::desk::Desk;
use crate::support::on_every_engine;

async fn a_create_writes_the_first_line(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let written = desk.ok(create("subscription", "sub_1", r#"{ "status": "active", "id": "sub_1" }"#)).await;
    assert!(written.is_created);
    assert_eq!(
        written.entry.raw,
        r#"{"seq":1,"resource":"subscription","id":"sub_1","type":"created","deleted":false,"data":{"status":"active","id":"sub_1"}}"#
    );
    assert_eq!(desk.lines().await, std::slice::from_ref(&written.entry));
    assert_eq!(desk.entity("subscription", "sub_1").await, Some(written.entry));
}

async fn a_create_of_what_lives_is_refused_and_of_what_is_gone_is_a_new_life(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(create("customer", "cus_1", r#"{"name":"A"}"#)).await;
    let refusal = desk.refused(create("customer", "cus_1", r#"{"name":"A"}"#)).await;
    assert_eq!(refusal, Refusal::AlreadyExists { entity: "customer/cus_1".into() });
    desk.ok(delete("customer", "cus_1")).await;
    let again = desk.ok(create("customer", "cus_1", r#"{"name":"B"}"#)).await;
    assert_eq!((again.entry.seq, again.entry.verb.as_str(), again.is_created), (3, "created", true));
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_put_makes_and_replaces(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let made = desk.ok(put("customer", "cus_1", r#"{"name":"A","vip":true}"#)).await;
    assert_eq!((made.entry.verb.as_str(), made.is_created), ("created", true));
    let replaced = desk.ok(put("customer", "cus_1", r#"{"name":"B"}"#)).await;
    assert_eq!((replaced.entry.verb.as_str(), replaced.is_created), ("updated", false));
    assert_eq!(replaced.entry.data, json!({"name": "B"}));
    desk.ok(delete("customer", "cus_1")).await;
    let made = desk.ok(put("customer", "cus_1", r#"{"name":"B"}"#)).await;
    assert_eq!((made.entry.verb.as_str(), made.is_created), ("created", true));
}

async fn a_patch_merges_and_never_makes(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let absent = Refusal::EntityNotFound { entity: "customer/cus_1".into() };
    assert_eq!(desk.refused(patch("customer", "cus_1", "{}")).await, absent);
    desk.ok(put("customer", "cus_1", r#"{"name":"A","tags":{"a":1,"b":2},"n":1.50}"#)).await;
    let merged = desk.ok(patch("customer", "cus_1", r#"{"tags":{"a":null,"c":3},"name":"B","x":null}"#)).await;
    let raw = merged.entry.raw.split_once(r#""data":"#).unwrap().1;
    assert_eq!(raw, r#"{"name":"B","tags":{"b":2,"c":3},"n":1.50}}"#);
    assert_eq!((merged.entry.verb.as_str(), merged.is_created), ("updated", false));
    desk.ok(delete("customer", "cus_1")).await;
    assert_eq!(desk.refused(patch("customer", "cus_1", "{}")).await, absent);
}

async fn a_state_that_is_no_object_or_breaks_the_schema_is_refused(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let pointers = |refusal: Refusal| match refusal {
        Refusal::SchemaViolation { errors } => errors.into_iter().map(|error| error.pointer).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    for no_object in ["[]", "null", "1", "\"x\"", "true"] {
        assert_eq!(pointers(desk.refused(put("anything", "x", no_object)).await), [""], "{no_object}");
        assert_eq!(pointers(desk.refused(create("customer", "x", no_object)).await), [""], "{no_object}");
    }
    assert_eq!(pointers(desk.refused(put("subscription", "s", "{}")).await).len(), 1);
    assert_eq!(pointers(desk.refused(put("subscription", "s", r#"{"status":"dead"}"#)).await), ["/status"]);
    assert_eq!(pointers(desk.refused(put("customer", "c", r#"{"name":1,"email":2}"#)).await).len(), 2);
    desk.ok(put("customer", "c", r#"{"name":"A"}"#)).await;
    assert_eq!(pointers(desk.refused(patch("customer", "c", r#"{"name":5}"#)).await), ["/name"]);
    assert_eq!(pointers(desk.refused(patch("customer", "c", "[1]")).await), [""]);
    assert_eq!(desk.entity("customer", "c").await.unwrap().data, json!({"name": "A"}));
}

async fn a_state_may_be_nested_as_deep_as_the_limit(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let nested = |levels: usize, inner: &str| r#"{"a":"#.repeat(levels - 1) + inner + &"}".repeat(levels - 1);
    for (write, data) in [
        (put("note", "n", &nested(128, "{}")), nested(128, "{}")),
        (patch("note", "n", &nested(127, r#"{"b":1}"#)), nested(127, r#"{"a":{},"b":1}"#)),
    ] {
        let answer = desk.submit(one(write)).await.result.unwrap();
        let Outcome::Entity { line, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(line.data(), Some(data.as_str()));
    }
    assert!(scroll::change::json::parse(nested(129, "{}").as_bytes()).is_err());
}

async fn actions_follow_their_declaration(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(create("subscription", "s", r#"{"plan":"pro","status":"active"}"#)).await;
    for (name, verb, status) in
        [("pause", "paused", "paused"), ("resume", "resumed", "active"), ("cancel", "canceled", "canceled")]
    {
        let written = desk.ok(action("subscription", "s", name)).await;
        assert_eq!((written.entry.verb.as_str(), written.is_created, written.entry.deleted), (verb, false, false));
        assert_eq!(written.entry.data, json!({"plan": "pro", "status": status}));
    }
    let refusal = desk.refused(action("subscription", "s", "cancel")).await;
    let from = ["trialing", "active", "past_due", "paused"].map(String::from).to_vec();
    let state = Some("canceled".to_owned());
    assert_eq!(refusal, Refusal::TransitionRefused { action: "cancel".into(), state, from });
    assert!(matches!(
        desk.refused(action("subscription", "s", "pause")).await,
        Refusal::TransitionRefused { state: Some(state), .. } if state == "canceled"
    ));
    let expired = desk.ok(action("subscription", "s", "expire")).await.entry;
    assert_eq!((expired.verb.as_str(), expired.deleted), ("expired", true));
    assert_eq!(expired.data, json!({"plan": "pro", "status": "canceled"}), "the tombstone keeps the data");
    assert_eq!(desk.entity("subscription", "s").await, None);
    assert!(matches!(desk.refused(action("subscription", "s", "expire")).await, Refusal::EntityNotFound { .. }));
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn actions_that_nobody_declared_are_not_found(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("subscription", "s", r#"{"status":"active"}"#)).await;
    desk.ok(put("note", "n", "{}")).await;
    for (resource, id, name) in [("subscription", "s", "explode"), ("note", "n", "cancel"), ("customer", "c", "x")] {
        let refusal = desk.refused(action(resource, id, name)).await;
        assert_eq!(refusal, Refusal::ActionNotFound { resource: resource.into(), action: name.into() });
    }
}

async fn undeclared_resources_are_accepted_unless_the_catalog_is_strict(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "n", r#"{"anything":[1]}"#)).await;
    let strict = Options { catalog: Catalog::builtin().strict(true).into(), ..Options::default() };
    let desk = desk.reopened_with(&bed, strict).await;
    let unknown = Refusal::UnknownResource { resource: "note".into() };
    for command in [put("note", "n", "{}"), create("note", "m", "{}"), patch("note", "n", "{}"), delete("note", "n")] {
        assert_eq!(desk.refused(command).await, unknown);
    }
    desk.ok(put("customer", "c", "{}")).await;
    assert!(desk.entity("note", "n").await.is_some(), "what is there can still be read");
}

async fn resources_are_known_by_their_lines_also_when_nothing_lives(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let knows = async |name: &str| desk.store.has_resource(desk.log, &Resource::parse(name).unwrap()).await.unwrap();
    assert!(!knows("note").await);
    assert_eq!(desk.store.resources(desk.log).await.unwrap(), []);
    desk.ok(put("note", "n", "{}")).await;
    desk.ok(delete("note", "n")).await;
    assert!(knows("note").await);
    assert!(!knows("not").await && !knows("notes").await);
    let other = desk.neighbour("other").await;
    assert!(!other.store.has_resource(other.log, &Resource::parse("note").unwrap()).await.unwrap());
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn entities_come_in_pages_in_the_byte_order_of_their_ids(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let ids = ["b", "a/b", "a%2Fb", "..", "A", "a", "ä", "z", "a b", "a+b", "😀", "\u{e000}", "10", "9"];
    for id in ids {
        desk.ok(put("note", id, r#"{"n":1}"#)).await;
    }
    desk.ok(put("notes", "zz", "{}")).await;
    desk.ok(delete("note", "b")).await;
    let mut expected: Vec<&str> = ids.into_iter().filter(|id| *id != "b").collect();
    expected.sort_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
    for limit in [1, 2, 5, expected.len(), 100] {
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let resource = Resource::parse("note").unwrap();
            let page = desk.store.entities(desk.log, &resource, after.clone(), limit).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            assert!(page.len() <= limit);
            after = Some(last.clone());
            found.extend(page.iter().map(|(id, _)| id.to_string()));
        }
        assert_eq!(found, expected, "limit {limit}");
    }
}

async fn what_is_asked_of_a_log_that_is_not_there_is_not_found(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let nowhere = scroll::access::LogId(desk.log.0 + 1);
    let store = &desk.store;
    assert!(matches!(store.write(nowhere, one(put("note", "n", "{}"))).await, Err(StoreError::NotFound { .. })));
    assert!(matches!(store.position(nowhere).await, Err(StoreError::NotFound { .. })));
    assert!(matches!(store.head(nowhere).await, Err(StoreError::NotFound { .. })));
    assert!(store.entity(nowhere, &key("note", "n")).await.unwrap().is_none());
}

on_every_engine! {
    a_create_writes_the_first_line,
    a_create_of_what_lives_is_refused_and_of_what_is_gone_is_a_new_life,
    a_put_makes_and_replaces,
    a_patch_merges_and_never_makes,
    a_state_that_is_no_object_or_breaks_the_schema_is_refused,
    a_state_may_be_nested_as_deep_as_the_limit,
    actions_follow_their_declaration,
    actions_that_nobody_declared_are_not_found,
    undeclared_resources_are_accepted_unless_the_catalog_is_strict,
    resources_are_known_by_their_lines_also_when_nothing_lives,
    entities_come_in_pages_in_the_byte_order_of_their_ids,
    what_is_asked_of_a_log_that_is_not_there_is_not_found,
}
