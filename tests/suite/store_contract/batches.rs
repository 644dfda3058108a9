//! Atomic batches: consecutive numbers and one `tx`, or nothing at all.

use scroll::change::Seq;
use scroll::entity::types::Catalog;
use scroll::entity::{Command, Refusal};

use crate::support::audit::check_everything;
use crate::support::bed::Bed;
use crate::support::commands::{action, create, delete, if_match, patch, put};
use crate::support::desk::Desk;
use crate::support::on_every_engine;

async fn a_batch_has_consecutive_numbers_and_one_tx(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("note", "old", "{}")).await;
    let written = desk
        .batch(vec![
            create("subscription", "s", r#"{"status":"active"}"#),
            patch("subscription", "s", r#"{"plan":"pro"}"#),
            put("note", "old", "{}"),
            action("subscription", "s", "cancel"),
            delete("note", "old"),
        ])
        .await;
    assert_eq!((written.tx, written.last), (Some(2), Some(5)));
    let seqs: Vec<_> = written.entries.iter().map(|entry| (entry.seq, entry.verb.as_str())).collect();
    assert_eq!(seqs, [(2, "created"), (3, "updated"), (1, "created"), (4, "canceled"), (5, "deleted")]);
    let txs: Vec<_> = desk.store.audit_changes(desk.log, Seq::ZERO, 10).await.unwrap();
    assert_eq!(txs.iter().map(|change| change.tx.get()).collect::<Vec<_>>(), [1, 2, 2, 2, 2]);
    assert_eq!(desk.ok(put("note", "new", "{}")).await.entry.seq, 6);
    check_everything(&desk, &Catalog::builtin()).await;
}

/// A command that is refused, and how.
type Case = (fn() -> Command, fn(&Refusal) -> bool);

async fn a_refused_operation_undoes_the_whole_batch_and_names_its_index(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("customer", "c", r#"{"name":"A"}"#)).await;
    desk.ok(put("subscription", "s", r#"{"status":"active","customer":"c"}"#)).await;
    let bad: [Case; 6] = [
        (|| create("customer", "c", "{}"), |r| matches!(r, Refusal::AlreadyExists { .. })),
        (|| patch("customer", "none", "{}"), |r| matches!(r, Refusal::EntityNotFound { .. })),
        (|| put("customer", "c", r#"{"name":1}"#), |r| matches!(r, Refusal::SchemaViolation { .. })),
        (|| if_match(delete("customer", "c"), "\"9\""), |r| matches!(r, Refusal::PreconditionFailed { .. })),
        (|| action("subscription", "s", "resume"), |r| matches!(r, Refusal::TransitionRefused { .. })),
        (|| put("membership", "m", r#"{"customer":"x"}"#), |r| matches!(r, Refusal::ReferenceMissing { .. })),
    ];
    for (command, is_it) in &bad {
        for index in 0..3 {
            let mut commands = vec![put("note", "a", r#"{"new":true}"#), delete("subscription", "s")];
            commands.insert(index.min(1), command());
            if index == 2 {
                commands = vec![put("note", "a", "{}"), put("customer", "new", "{}"), command()];
            }
            let refused = desk.refused_batch(commands).await;
            assert_eq!(refused.index, Some(index), "{refused:?}");
            assert!(is_it(&refused.refusal), "{refused:?}");
        }
    }
    assert_eq!(desk.entity("note", "a").await, None);
    // What a refused batch did is not seen by the next one either.
    assert_eq!(desk.ok(put("note", "a", "{}")).await.entry.seq, 3);
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn references_are_judged_operation_by_operation(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let child = || create("subscription", "s", r#"{"status":"active","customer":"c"}"#);
    let refused = desk.refused_batch(vec![child(), create("customer", "c", "{}")]).await;
    assert_eq!(refused.index, Some(0));
    assert!(matches!(refused.refusal, Refusal::ReferenceMissing { .. }));
    let written = desk.batch(vec![create("customer", "c", "{}"), child()]).await;
    assert_eq!((written.tx, written.last), (Some(1), Some(2)));
    // The target goes and comes back within one batch: its child went with it.
    let written = desk.batch(vec![delete("customer", "c"), create("customer", "c", "{}")]).await;
    assert_eq!((written.tx, written.last), (Some(3), Some(5)));
    assert_eq!(desk.entity("subscription", "s").await, None);
    let refused = desk.refused_batch(vec![delete("customer", "c"), child()]).await;
    assert_eq!(refused.index, Some(1));
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_batch_may_make_children_and_delete_their_parent(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(create("customer", "c", "{}")).await;
    desk.ok(create("customer", "d", "{}")).await;
    desk.ok(create("subscription", "old", r#"{"status":"active","customer":"c"}"#)).await;
    desk.ok(create("subscription", "moved", r#"{"status":"active","customer":"c"}"#)).await;
    let written = desk
        .batch(vec![
            create("subscription", "new", r#"{"status":"active","customer":"c"}"#),
            patch("subscription", "moved", r#"{"customer":"d"}"#),
            delete("customer", "c"),
        ])
        .await;
    assert_eq!(written.entries.len(), 3, "one line per operation");
    let lines = desk.lines().await;
    let tail: Vec<_> = lines[4..].iter().map(|e| (e.id.as_str(), e.verb.as_str())).collect();
    let expected = [("new", "created"), ("moved", "updated"), ("new", "deleted"), ("old", "deleted"), ("c", "deleted")];
    assert_eq!(tail, expected);
    assert_eq!((written.tx, written.last), (Some(5), Some(9)));
    assert!(desk.entity("subscription", "moved").await.is_some());
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_batch_that_changes_nothing_has_no_tx(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let line = desk.ok(put("note", "n", r#"{"a":1}"#)).await.entry;
    let same = desk.batch(vec![put("note", "n", r#"{"a":1}"#), patch("note", "n", "{}")]).await;
    assert_eq!((same.tx, same.last, same.entries), (None, None, vec![line.clone(), line]));
    assert_eq!(desk.head().await, 1);
    // There and back again are two lines.
    let back = desk.batch(vec![put("note", "n", r#"{"a":2}"#), put("note", "n", r#"{"a":1}"#)]).await;
    assert_eq!((back.tx, back.last), (Some(2), Some(3)));
}

async fn a_life_may_begin_and_end_within_one_batch(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let written = desk
        .batch(vec![
            create("note", "n", "{}"),
            delete("note", "n"),
            create("note", "n", r#"{"life":2}"#),
            delete("note", "n"),
        ])
        .await;
    assert_eq!((written.tx, written.last), (Some(1), Some(4)));
    let changes = desk.store.audit_changes(desk.log, Seq::ZERO, 10).await.unwrap();
    assert_eq!(changes.iter().map(|c| c.prev.map(Seq::get)).collect::<Vec<_>>(), [None, Some(1), None, Some(3)]);
    check_everything(&desk, &Catalog::builtin()).await;
}

async fn a_batch_of_ten_thousand_is_one_transaction(bed: Bed) {
    let desk = Desk::open(&bed).await;
    let mut head = desk.store.head(desk.log).await.unwrap();
    let commands = (0..10_000).map(|n| put("invoice", &format!("inv-{n}"), &format!(r#"{{"n":{n}}}"#))).collect();
    let writing = desk.spawn(crate::support::commands::batch(commands));
    head.changed().await.unwrap();
    assert_eq!(head.borrow().get(), 10_000, "no part of it was ever the head");
    let written = crate::support::desk::written_batch(writing.await.unwrap().unwrap());
    assert_eq!((written.tx, written.last, written.entries.len()), (Some(1), Some(10_000), 10_000));
    assert_eq!(desk.lines().await, written.entries);
}

on_every_engine! {
    a_batch_has_consecutive_numbers_and_one_tx,
    a_refused_operation_undoes_the_whole_batch_and_names_its_index,
    references_are_judged_operation_by_operation,
    a_batch_may_make_children_and_delete_their_parent,
    a_batch_that_changes_nothing_has_no_tx,
    a_life_may_begin_and_end_within_one_batch,
    a_batch_of_ten_thousand_is_one_transaction,
}
