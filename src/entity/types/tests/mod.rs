//! The built-in types are what the protocol says, and the catalog answers as its users rely on.

mod faults;

use super::*;
use indexmap::IndexMap;

use crate::change::json::parse;

fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn resource(name: &str) -> Resource {
    Resource::parse(name).unwrap()
}

fn builtin(name: &str) -> ResourceType {
    Catalog::builtin().get(&resource(name)).unwrap().clone()
}

fn pointers(declared: &ResourceType, data: &str) -> Vec<String> {
    let violations = declared.validate(&json(data)).err().unwrap_or_default();
    violations.into_iter().map(|violation| violation.pointer).collect()
}

#[test]
fn the_built_in_file_has_no_faults_and_declares_three_resources() {
    assert_eq!(Catalog::from_toml(BUILTIN).map(|_| ()), Ok(()));
    let catalog = Catalog::builtin();
    let names: Vec<_> = catalog.resources().map(Resource::as_str).collect();
    assert_eq!(names, ["customer", "membership", "subscription"]);
    assert!(!catalog.is_strict());
    assert!(catalog.strict(true).is_strict());
}

#[test]
fn built_in_prefixes_states_and_preconditions_are_those_of_the_protocol() {
    assert_eq!(builtin("customer").prefix.as_deref(), Some("cus_"));
    assert_eq!(builtin("subscription").prefix.as_deref(), Some("sub_"));
    assert_eq!(builtin("membership").prefix, None);
    assert_eq!(builtin("subscription").state.as_deref(), Some("status"));
    for name in ["customer", "membership", "subscription"] {
        assert!(!builtin(name).preconditions_required, "{name}");
    }
    assert_eq!(builtin("customer").actions().count() + builtin("membership").actions().count(), 0);
}

#[test]
fn built_in_actions_are_those_of_the_protocol() {
    let subscription = builtin("subscription");
    let names: Vec<_> = subscription.actions().map(|(name, _)| name).collect();
    assert_eq!(names, ["cancel", "expire", "pause", "resume"]);
    let all_but_canceled: &[&str] = &["trialing", "active", "past_due", "paused"];
    for (name, from, status, verb) in [
        ("cancel", all_but_canceled, "canceled", "canceled"),
        ("pause", &["active"], "paused", "paused"),
        ("resume", &["paused"], "active", "resumed"),
    ] {
        let action = subscription.action(name).unwrap();
        assert_eq!(action.from.as_deref().unwrap(), from, "{name}");
        assert_eq!(action.set, IndexMap::from([("status".to_owned(), Json::String(status.into()))]), "{name}");
        assert_eq!(action.verb.as_str(), verb);
        assert!(!action.deletes && !action.keep_data, "{name}");
    }
    let expire = subscription.action("expire").unwrap();
    assert_eq!((&expire.from, expire.set.len(), expire.verb.as_str()), (&None, 0, "expired"));
    assert!(expire.deletes && expire.keep_data);
    assert_eq!(subscription.action("delete"), None);
}

#[test]
fn built_in_schemas_demand_what_the_protocol_says_and_allow_further_members() {
    let (customer, subscription, membership) = (builtin("customer"), builtin("subscription"), builtin("membership"));
    assert_eq!(pointers(&customer, r#"{}"#), [""; 0]);
    assert_eq!(pointers(&customer, r#"{"name":"A","email":"a@b","x":[1]}"#), [""; 0]);
    assert_eq!(pointers(&customer, r#"{"name":1,"email":null}"#), ["/name", "/email"]);
    for status in ["trialing", "active", "past_due", "paused", "canceled"] {
        assert_eq!(pointers(&subscription, &format!(r#"{{"status":"{status}","x":1}}"#)), [""; 0]);
    }
    assert_eq!(pointers(&subscription, r#"{"plan":"basic"}"#), [""]);
    assert_eq!(pointers(&subscription, r#"{"status":"gone","plan":7}"#), ["/status", "/plan"]);
    assert_eq!(pointers(&membership, r#"{"customer":"cus_1","role":"owner","x":{}}"#), [""; 0]);
    assert_eq!(pointers(&membership, r#"{"customer":"cus_1","role":1}"#), ["/role"]);
}

#[test]
fn a_reference_is_an_id_or_absent_or_null_unless_it_is_required() {
    let (subscription, membership) = (builtin("subscription"), builtin("membership"));
    for fine in [r#"{"status":"active"}"#, r#"{"status":"active","customer":null}"#] {
        assert_eq!(subscription.validate(&json(fine)), Ok(()));
    }
    for bad in ["1", "[]", "{}", "true", r#""""#, r#""a\u0000""#, &format!("\"{}\"", "x".repeat(256))] {
        assert_eq!(pointers(&subscription, &format!(r#"{{"status":"active","customer":{bad}}}"#)), ["/customer"]);
        assert_eq!(pointers(&membership, &format!(r#"{{"customer":{bad}}}"#)), ["/customer"]);
    }
    assert_eq!(pointers(&membership, "{}"), [""]);
    assert_eq!(pointers(&membership, r#"{"customer":null}"#), ["/customer"]);
}

#[test]
fn data_that_is_no_object_is_refused_even_without_a_schema() {
    let catalog = Catalog::from_toml("[resource.note]\nprefix = \"n_\"").unwrap();
    let note = catalog.get(&resource("note")).unwrap();
    assert_eq!(pointers(note, "[]"), [""]);
    assert_eq!(note.validate(&json(r#"{"anything":1e400}"#)), Ok(()));
    assert_eq!(pointers(&builtin("customer"), "\"text\""), [""]);
}

#[test]
fn references_are_found_from_both_ends() {
    let catalog = Catalog::builtin();
    let customer = resource("customer");
    let pointing: Vec<_> = catalog
        .referrers(&customer)
        .iter()
        .map(|(from, reference)| (from.as_str(), reference.member.as_str(), reference.on_delete, reference.required))
        .collect();
    assert_eq!(
        pointing,
        [("membership", "customer", OnDelete::Restrict, true), ("subscription", "customer", OnDelete::Cascade, false),]
    );
    assert!(catalog.referrers(&resource("membership")).is_empty());
    assert!(catalog.referrers(&resource("unheard_of")).is_empty());

    let subscription = resource("subscription");
    let data = json(r#"{"customer":"cus_1"}"#);
    let held = catalog.links(&subscription, &data);
    assert_eq!(held.iter().map(|(r, id)| (r.target.as_str(), *id)).collect::<Vec<_>>(), [("customer", "cus_1")]);
    for none in [r#"{}"#, r#"{"customer":null}"#, r#"{"customer":7}"#, r#"[]"#, "null"] {
        assert!(catalog.links(&subscription, &json(none)).is_empty(), "{none}");
    }
    assert!(catalog.links(&resource("unheard_of"), &data).is_empty());
}

#[test]
fn a_resource_may_point_at_itself_and_at_what_is_declared_below() {
    let text = r#"
        [resource.folder.references.parent]
        resource = "folder"
        [resource.folder.references.owner]
        resource = "user"
        required = true
        on_delete = "cascade"
        [resource.user]
        prefix = "u_"
    "#;
    let catalog = Catalog::from_toml(text).unwrap();
    assert_eq!(catalog.referrers(&resource("folder")).len(), 1);
    assert_eq!(catalog.references_signature(), "folder.owner>user;folder.parent>folder");
    let folder = catalog.get(&resource("folder")).unwrap();
    assert_eq!(folder.references[1].on_delete, OnDelete::Restrict);
}

#[test]
fn the_signature_changes_exactly_when_references_point_elsewhere() {
    let expected = "membership.customer>customer;subscription.customer>customer";
    assert_eq!(Catalog::builtin().references_signature(), expected);
    assert_eq!(Catalog::default().references_signature(), "");
    let one = |resource: &str, member: &str, target: &str, rest: &str| {
        let text = format!(
            "[resource.a]\nprefix='a'\n[resource.'a.b']\nprefix='b'\n[resource.t]\nprefix='t'\n\
             [resource.'{resource}'.references.'{member}']\nresource='{target}'\n{rest}"
        );
        let text = text.replacen(&format!("[resource.'{resource}']\nprefix='b'\n"), "", 1);
        let text = text.replacen(&format!("[resource.{resource}]\nprefix='a'\n"), "", 1);
        Catalog::from_toml(&text).unwrap().references_signature()
    };
    assert_eq!(one("a", "m", "t", ""), one("a", "m", "t", "on_delete='cascade'\nrequired=true"));
    assert_ne!(one("a", "m", "t", ""), one("a", "n", "t", ""));
    assert_ne!(one("a", "m", "t", ""), one("a", "m", "a", ""));
    // Names hold dots, members hold anything: neither can be taken for the other.
    assert_ne!(one("a", "b.c", "t", ""), one("a.b", "c", "t", ""));
    assert_ne!(one("a", "b>t;a.c", "t", ""), one("a", "b", "t", ""));
}

#[test]
fn no_more_than_twenty_violations_are_reported() {
    let text = "[resource.list]\nschema = { properties = { items = { items = { type = \"string\" } } } }";
    let catalog = Catalog::from_toml(text).unwrap();
    let list = catalog.get(&resource("list")).unwrap();
    let numbers = |count: usize| format!(r#"{{"items":[{}]}}"#, vec!["1"; count].join(","));
    assert_eq!(pointers(list, &numbers(3)), ["/items/0", "/items/1", "/items/2"]);
    assert_eq!(pointers(list, &numbers(1_000)).len(), MAX_VIOLATIONS);
    // Very large data is told the first violation only.
    assert_eq!(pointers(list, &numbers(100_000)), ["/items/0"]);
}
