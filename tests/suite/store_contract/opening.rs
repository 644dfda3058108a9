//! Opening: what another version or another declaration left behind is noticed.

use scroll::change::Seq;
use scroll::entity::Refusal;
use scroll::entity::types::Catalog;
use scroll::store::OpenError;

use crate::support::audit::check_everything;
use crate::support::bed::{Bed, Options};
use crate::support::commands::{create, delete, put};
use crate::support::desk::Desk;
use crate::support::on_every_engine;

const NO_REFERENCES: &str = "[resource.child]\nschema = { type = \"object\" }";
const CASCADE: &str = "[resource.parent]\nprefix = \"p\"\n\
    [resource.child.references.parent]\nresource = \"parent\"\non_delete = \"cascade\"";
const RESTRICT: &str = "[resource.parent]\nprefix = \"p\"\n\
    [resource.child.references.parent]\nresource = \"parent\"\non_delete = \"restrict\"";
const OTHER_MEMBER: &str = "[resource.parent]\nprefix = \"p\"\n\
    [resource.child.references.owner]\nresource = \"parent\"\non_delete = \"cascade\"";

async fn the_schema_of_a_newer_version_is_refused(bed: Bed) {
    Bed::close(bed.open().await).await;
    bed.execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('9999')");
    let refused = bed.try_open(Options::default()).await.err().unwrap();
    assert!(matches!(&refused, OpenError::NewerSchema { version } if version == "9999"), "{refused}");
    assert!(refused.to_string().contains("newer version"));
    bed.execute("DELETE FROM __diesel_schema_migrations WHERE version = '9999'");
    bed.open().await;
}

async fn links_are_made_anew_when_the_declared_references_change(bed: Bed) {
    let desk = Desk::open_with(&bed, Options::types(NO_REFERENCES)).await;
    desk.ok(create("parent", "p1", "{}")).await;
    desk.ok(create("parent", "p2", "{}")).await;
    let many = (0..1_050).map(|n| put("child", &format!("c{n}"), r#"{"parent":"p1","owner":"p2"}"#)).collect();
    desk.batch(many).await;
    desk.ok(put("child", "dangling", r#"{"parent":"never"}"#)).await;
    assert_eq!(desk.store.audit_links(desk.log, None, usize::MAX).await.unwrap(), []);
    let desk = desk.reopened_with(&bed, Options::types(RESTRICT)).await;
    assert_eq!(desk.store.audit_links(desk.log, None, usize::MAX).await.unwrap().len(), 1_051);
    assert!(matches!(desk.refused(delete("parent", "p1")).await, Refusal::StillReferenced { .. }));
    let desk = desk.reopened_with(&bed, Options::types(OTHER_MEMBER)).await;
    check_everything(&desk, &Catalog::from_toml(OTHER_MEMBER).unwrap()).await;
    desk.ok(delete("parent", "p1")).await;
    // Only what on_delete says has changed: the links stay, the rule is the new one.
    let desk = desk.reopened_with(&bed, Options::types(CASCADE)).await;
    desk.ok(create("parent", "p1", "{}")).await;
    let before = desk.head().await;
    desk.ok(delete("parent", "p1")).await;
    assert_eq!(desk.head().await, before + 1_051);
    check_everything(&desk, &Catalog::from_toml(CASCADE).unwrap()).await;
}

async fn opening_again_changes_nothing(bed: Bed) {
    let desk = Desk::open(&bed).await;
    desk.ok(put("customer", "c", "{}")).await;
    desk.ok(put("membership", "m", r#"{"customer":"c"}"#)).await;
    let (lines, position) = (desk.lines().await, desk.store.position(desk.log).await.unwrap());
    let desk = desk.reopened(&bed).await.reopened(&bed).await;
    assert_eq!((desk.lines().await, desk.store.position(desk.log).await.unwrap()), (lines, position.clone()));
    assert_eq!((position.floor, position.purged_through), (Seq::ZERO, Seq::ZERO));
    check_everything(&desk, &Catalog::builtin()).await;
}

on_every_engine! {
    the_schema_of_a_newer_version_is_refused,
    links_are_made_anew_when_the_declared_references_change,
    opening_again_changes_nothing,
}
