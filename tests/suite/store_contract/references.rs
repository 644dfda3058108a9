//! References: targets that must live, cascades, restrictions, and their bounds.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use scroll::change::Seq;
use scroll::entity::types::Catalog;
use scroll::entity::{Command, MAX_CASCADE, Refusal};

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::commands::{action, batch, create, delete, patch, put};
use crate::support::desk::Desk;
use crate::support::on_every_engine;

/// A tree that points to itself, a diamond (`leaf` under `left` and `right` under `top`), and what holds.
const TYPES: &str = r#"
[resource.folder.references.parent]
resource = "folder"
on_delete = "cascade"

[resource.top]
schema = { type = "object" }

[resource.left.references.top]
resource = "top"
on_delete = "cascade"

[resource.right.references.top]
resource = "top"
on_delete = "cascade"

[resource.leaf.references.left]
resource = "left"
on_delete = "cascade"

[resource.leaf.references.right]
resource = "right"
on_delete = "cascade"

[resource.lock.references.leaf]
resource = "leaf"
on_delete = "restrict"

[resource.lock.references.top]
resource = "top"
on_delete = "cascade"

[resource.lock.actions.drop]
deletes = true

[resource.note.references.about]
resource = "note"
on_delete = "restrict"
"#;

fn catalog() -> Catalog {
    Catalog::from_toml(TYPES).unwrap()
}

async fn open(bed: &Bed) -> Desk {
    Desk::open_with(bed, Options::types(TYPES)).await
}

async fn fill(desk: &Desk, commands: Vec<Command>) {
    desk.batch(commands).await;
}

async fn verbs_after(desk: &Desk, seq: i64) -> Vec<(String, String)> {
    let lines = desk.lines().await;
    lines.into_iter().filter(|entry| entry.seq > seq).map(|entry| (entry.id, entry.verb)).collect()
}

fn holders(refusal: &Refusal) -> BTreeSet<(String, String, String)> {
    let (Refusal::StillReferenced { references } | Refusal::ReferenceMissing { references }) = refusal else {
        panic!("{refusal:?}")
    };
    references.iter().map(|r| (format!("{}/{}", r.resource, r.id), r.member.clone(), r.target_id.clone())).collect()
}

fn named(from: &str, member: &str, target: &str) -> (String, String, String) {
    (from.into(), member.into(), target.into())
}

async fn a_reference_must_point_to_what_lives(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(create("customer", "gone", "{}")).await;
    desk.ok(delete("customer", "gone")).await;
    for id in ["never", "gone"] {
        let data = serde_json::json!({"status": "active", "customer": id}).to_string();
        for command in [create("subscription", "s", &data), put("subscription", "s", &data)] {
            let refusal = desk.refused(command).await;
            assert_eq!(holders(&refusal), [named("subscription/s", "customer", id)].into());
        }
    }
    for no_id in ["", "\u{1}", &"x".repeat(256)] {
        let data = serde_json::json!({"status": "active", "customer": no_id}).to_string();
        let refusal = desk.refused(put("subscription", "s", &data)).await;
        assert!(matches!(refusal, Refusal::SchemaViolation { errors } if errors[0].pointer == "/customer"));
    }
    desk.ok(put("subscription", "s", r#"{"status":"active"}"#)).await;
    let refusal = desk.refused(patch("subscription", "s", r#"{"customer":"gone"}"#)).await;
    assert!(matches!(refusal, Refusal::ReferenceMissing { .. }));
    assert!(matches!(desk.refused(put("membership", "m", "{}")).await, Refusal::SchemaViolation { .. }));
    desk.ok(create("customer", "gone", "{}")).await;
    desk.ok(patch("subscription", "s", r#"{"customer":"gone"}"#)).await;
    desk.ok(patch("subscription", "s", r#"{"customer":null}"#)).await;
    desk.ok(delete("customer", "gone")).await;
    assert!(desk.entity("subscription", "s").await.is_some(), "a link that was taken back does not cascade");
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_cascade_writes_the_children_before_their_parents(bed: Bed) {
    let desk = open(&bed).await;
    fill(
        &desk,
        vec![
            create("folder", "root", "{}"),
            create("folder", "a", r#"{"parent":"root"}"#),
            create("folder", "b", r#"{"parent":"root"}"#),
            create("folder", "aa", r#"{"parent":"a"}"#),
            create("folder", "aaa", r#"{"parent":"aa"}"#),
            create("folder", "other", "{}"),
        ],
    )
    .await;
    let written = desk.ok(delete("folder", "root")).await;
    assert_eq!((written.entry.seq, written.entry.id.as_str()), (11, "root"), "the answer is the parent's tombstone");
    let gone: Vec<String> = verbs_after(&desk, 6).await.into_iter().map(|(id, _)| id).collect();
    let place = |id: &str| gone.iter().position(|other| other == id).unwrap();
    assert_eq!(gone.len(), 5);
    assert!(place("aaa") < place("aa") && place("aa") < place("a") && place("a") < place("root"));
    assert!(place("b") < place("root"));
    let changes = desk.store.audit_changes(desk.log, Seq::new(6).unwrap(), 10).await.unwrap();
    assert!(changes.iter().all(|change| change.tx.get() == 7), "one transaction");
    check_everything(&desk, &catalog()).await;
}

async fn in_a_diamond_every_entity_goes_once_and_before_both_parents(bed: Bed) {
    let desk = open(&bed).await;
    fill(
        &desk,
        vec![
            create("top", "t", "{}"),
            create("left", "l", r#"{"top":"t"}"#),
            create("right", "r", r#"{"top":"t"}"#),
            create("leaf", "x", r#"{"left":"l","right":"r"}"#),
        ],
    )
    .await;
    desk.ok(delete("top", "t")).await;
    let gone: Vec<String> = verbs_after(&desk, 4).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!((gone.len(), gone[0].as_str(), gone[3].as_str()), (4, "x", "t"));
    check_everything(&desk, &catalog()).await;
}

async fn a_restriction_refuses_the_delete_and_names_the_holders(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(create("customer", "c", "{}")).await;
    desk.ok(create("membership", "m1", r#"{"customer":"c"}"#)).await;
    desk.ok(create("membership", "m2", r#"{"customer":"c"}"#)).await;
    let refusal = desk.refused(delete("customer", "c")).await;
    let expected = [named("membership/m1", "customer", "c"), named("membership/m2", "customer", "c")];
    assert_eq!(holders(&refusal), expected.into());
    desk.ok(delete("membership", "m1")).await;
    desk.refused(delete("customer", "c")).await;
    desk.batch(vec![delete("membership", "m2"), delete("customer", "c")]).await;
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_restriction_deep_in_a_cascade_refuses_all_of_it(bed: Bed) {
    let desk = open(&bed).await;
    fill(
        &desk,
        vec![
            create("top", "t", "{}"),
            create("left", "l", r#"{"top":"t"}"#),
            create("leaf", "x", r#"{"left":"l"}"#),
            create("lock", "held", r#"{"leaf":"x"}"#),
        ],
    )
    .await;
    let refusal = desk.refused(delete("top", "t")).await;
    assert_eq!(holders(&refusal), [named("lock/held", "leaf", "x")].into());
    // When the holder goes with the family it holds nothing.
    desk.ok(patch("lock", "held", r#"{"top":"t"}"#)).await;
    desk.ok(delete("top", "t")).await;
    assert_eq!(desk.store.audit_entities(desk.log, None, 10).await.unwrap(), []);
    check_everything(&desk, &catalog()).await;
}

async fn an_action_that_deletes_obeys_references_too(bed: Bed) {
    let desk = open(&bed).await;
    desk.ok(create("lock", "k", "{}")).await;
    desk.ok(action("lock", "k", "drop")).await;
    let types = r#"
[resource.parent.actions.close]
deletes = true
keep_data = true
type = "closed"
[resource.child.references.parent]
resource = "parent"
on_delete = "cascade"
[resource.guard.references.parent]
resource = "parent"
"#;
    let desk = desk.reopened_with(&bed, Options::types(types)).await;
    desk.ok(create("parent", "p", r#"{"x":1}"#)).await;
    desk.ok(create("child", "c", r#"{"parent":"p"}"#)).await;
    desk.ok(create("guard", "g", r#"{"parent":"p"}"#)).await;
    assert!(matches!(desk.refused(action("parent", "p", "close")).await, Refusal::StillReferenced { .. }));
    desk.ok(delete("guard", "g")).await;
    let before = desk.head().await;
    desk.ok(action("parent", "p", "close")).await;
    let expected = [("c", "deleted"), ("p", "closed")].map(|(id, verb)| (id.to_owned(), verb.to_owned()));
    assert_eq!(verbs_after(&desk, before).await, expected);
}

async fn an_entity_may_point_to_itself_and_go(bed: Bed) {
    let desk = open(&bed).await;
    desk.ok(create("folder", "f", r#"{"parent":"f"}"#)).await;
    desk.ok(create("note", "n", r#"{"about":"n"}"#)).await;
    desk.ok(delete("folder", "f")).await;
    desk.ok(delete("note", "n")).await;
    assert_eq!(desk.head().await, 4);
    // A ring goes whole.
    desk.ok(create("folder", "a", "{}")).await;
    desk.ok(create("folder", "b", r#"{"parent":"a"}"#)).await;
    desk.ok(put("folder", "a", r#"{"parent":"b"}"#)).await;
    desk.ok(delete("folder", "a")).await;
    assert_eq!(verbs_after(&desk, 7).await.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ["b", "a"]);
    check_everything(&desk, &catalog()).await;
}

async fn a_long_chain_of_parents_goes_with_its_root(bed: Bed) {
    let desk = open(&bed).await;
    let mut commands = vec![create("folder", "f0", "{}")];
    commands.extend((1..300).map(|n| create("folder", &format!("f{n}"), &format!(r#"{{"parent":"f{}"}}"#, n - 1))));
    fill(&desk, commands).await;
    let written = desk.ok(delete("folder", "f0")).await;
    assert_eq!(written.entry.seq, 600);
    let lines = desk.lines().await;
    assert_eq!(lines[300].id, "f299", "the last of the chain goes first");
    assert_eq!(live_count(&desk).await, 0);
}

/// How many entities live.
async fn live_count(desk: &Desk) -> u64 {
    desk.store.position(desk.log).await.unwrap().tally.count
}

/// `count` folders under `parent`, in batches.
async fn many_children(desk: &Desk, parent: &str, count: usize) {
    let child = |n: usize| create("folder", &format!("{parent}-{n:05}"), &format!(r#"{{"parent":"{parent}"}}"#));
    for from in (0..count).step_by(5_000) {
        fill(desk, (from..count.min(from + 5_000)).map(child).collect()).await;
    }
}

async fn a_cascade_takes_ten_thousand_children_and_not_one_more(bed: Bed) {
    let desk = open(&bed).await;
    desk.ok(create("folder", "p", "{}")).await;
    many_children(&desk, "p", MAX_CASCADE + 1).await;
    let head = desk.head().await;
    assert_eq!(desk.refused(delete("folder", "p")).await, Refusal::CascadeTooLarge { limit: MAX_CASCADE });
    let in_a_batch = batch(vec![put("top", "t", "{}"), delete("folder", "p")]);
    assert_eq!(desk.submit(in_a_batch).await.result.unwrap_err().index, Some(1));
    assert_eq!(live_count(&desk).await, 10_002);
    desk.ok(delete("folder", "p-00000")).await;
    let written = desk.ok(delete("folder", "p")).await;
    assert_eq!(written.entry.seq, head + 1 + 10_001);
    assert_eq!(live_count(&desk).await, 0);
}

/// The limit holds for the whole family, and finding out must not take longer than carrying it out: one
/// writer serves every log.
async fn a_family_of_several_levels_that_is_too_large_is_refused_at_once(bed: Bed) {
    let desk = open(&bed).await;
    desk.ok(create("folder", "root", "{}")).await;
    for parent in ["p1", "p2", "p3"] {
        desk.ok(create("folder", parent, r#"{"parent":"root"}"#)).await;
        many_children(&desk, parent, 4_000).await;
    }
    let begun = Instant::now();
    assert_eq!(desk.refused(delete("folder", "root")).await, Refusal::CascadeTooLarge { limit: MAX_CASCADE });
    assert!(begun.elapsed() < Duration::from_secs(10), "refused after {:?}", begun.elapsed());
    assert_eq!(live_count(&desk).await, 12_004);
}

on_every_engine! {
    a_reference_must_point_to_what_lives,
    a_cascade_writes_the_children_before_their_parents,
    in_a_diamond_every_entity_goes_once_and_before_both_parents,
    a_restriction_refuses_the_delete_and_names_the_holders,
    a_restriction_deep_in_a_cascade_refuses_all_of_it,
    an_action_that_deletes_obeys_references_too,
    an_entity_may_point_to_itself_and_go,
    a_long_chain_of_parents_goes_with_its_root,
    a_cascade_takes_ten_thousand_children_and_not_one_more,
    a_family_of_several_levels_that_is_too_large_is_refused_at_once,
}
