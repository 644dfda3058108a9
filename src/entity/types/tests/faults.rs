//! Every fault of a file is reported, each with its place, and several at once.

use super::super::Catalog;
use super::super::file::{Faults, MAX_SYNTAX_ERRORS};
use crate::change::{Json, Resource};

fn faults(text: &str) -> Vec<String> {
    Catalog::from_toml(text).expect_err(text).0
}

/// The one fault of a resource `r` with the state member `s`, a schema that lists values for it, a
/// reference `parent`, and `rest`.
fn fault(rest: &str) -> String {
    let around = r#"
        [resource.r]
        state = "s"
        schema = { type = "object", properties = { s = { enum = ["on", "off"] } } }
        references.parent.resource = "r"
    "#;
    let found = faults(&format!("{around}\n{rest}"));
    assert_eq!(found.len(), 1, "{rest}: {found:?}");
    found.into_iter().next().unwrap()
}

#[track_caller]
fn assert_fault(rest: &str, place: &str, words: &str) {
    let found = fault(rest);
    assert!(found.starts_with(&format!("{place}: ")) && found.contains(words), "{rest}: {found}");
}

#[test]
fn what_is_not_toml_is_reported_with_its_lines() {
    let found = faults("[resource.a]\nprefix = \n[resource.b]\nprefix = 'x'\nprefix = 'y'\n");
    assert!(found[0].starts_with("line 2: "), "{found:?}");
    assert!(found.iter().any(|fault| fault.starts_with("line 5: ")), "{found:?}");
    assert!(faults(&"[".repeat(100_000)).len() <= MAX_SYNTAX_ERRORS);
    assert!(!faults(&format!("a = {}", "[".repeat(100_000))).is_empty());
}

#[test]
fn a_file_that_declares_nothing_is_a_fault() {
    assert_eq!(faults(""), ["resource: is missing"]);
    assert_eq!(faults("[resource]"), ["resource: the table is empty"]);
    assert_eq!(faults("resource = 1"), ["resource: expected a table, not a number"]);
    assert_eq!(faults("[resource.a]"), ["resource.a: the table is empty"]);
}

#[test]
fn several_faults_are_reported_at_once_in_the_order_of_the_file() {
    let text = r#"
        colour = "red"
        [resource.Zebra]
        prefix = "z_"
        [resource.a]
        prefix = 1
        size = 2
        schema = { type = "array" }
        [resource.a.references.b]
        resource = "nowhere"
        on_delete = "explode"
        [resource.a.actions.go]
        from = ["x", 2]
        type = "created"
        keep_data = true
    "#;
    let found = faults(text);
    let places: Vec<_> = found.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        [
            "resource.Zebra",
            "resource.a.prefix",
            "resource.a.references.b.resource",
            "resource.a.references.b.on_delete",
            "resource.a.actions.go.from",
            "resource.a.actions.go.from[1]",
            "resource.a.actions.go.keep_data",
            "resource.a.actions.go.type",
            "resource.a.actions.go",
            "resource.a.size",
            "resource.a.schema",
            "colour",
        ]
    );
    let shown = Faults(found.clone()).to_string();
    assert_eq!(shown.lines().collect::<Vec<_>>(), found);
}

#[test]
fn members_that_nobody_knows_are_refused_at_every_level() {
    for (text, place) in [
        ("x = 1\n[resource.r]\nprefix='r'", "x"),
        ("[resource.r]\nprefix='r'\nschema_file='x'", "resource.r.schema_file"),
        ("[resource.r]\nreferences.m.resource='r'\nreferences.m.'x y'=1", "resource.r.references.m.\"x y\""),
        ("[resource.r]\nactions.go.deletes=true\nactions.go.to='x'", "resource.r.actions.go.to"),
    ] {
        let found = faults(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("{place}: unknown; ")), "{found:?}");
    }
}

#[test]
fn names_prefixes_and_words_have_their_form() {
    assert!(faults("[resource.'a b']\nprefix='x'")[0].starts_with("resource.\"a b\": expected a resource name"));
    for (line, place) in [
        ("prefix = ''", "prefix"),
        ("prefix = \"a\\u0000\"", "prefix"),
        ("prefix = \"\\u0085\"", "prefix"),
        ("prefix = [1]", "prefix"),
        (&format!("prefix = '{}'", "x".repeat(65)), "prefix"),
        ("state = ''", "state"),
        ("state = 1", "state"),
        ("preconditions = 'maybe'", "preconditions"),
        ("preconditions = true", "preconditions"),
        ("references = {}", "references"),
        ("references.m = {}", "references.m"),
        ("references.m = 'customer'", "references.m"),
        ("references.m.required = true", "references.m.resource"),
        ("references.m = { resource = 'R' }", "references.m.resource"),
        ("references.m = { resource = 'nowhere' }", "references.m.resource"),
        ("references.m = { resource = 'r', required = 'yes' }", "references.m.required"),
        ("actions = {}", "actions"),
        ("actions.go = {}", "actions.go"),
        ("actions.go = true", "actions.go"),
    ] {
        let found = faults(&format!("[resource.r]\n{line}"));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with(&format!("resource.r.{place}: ")), "{line}: {found:?}");
    }
    assert!(Catalog::from_toml(&format!("[resource.r]\nprefix = '{}'", "x".repeat(64))).is_ok());
}

#[test]
fn actions_say_only_what_is_true() {
    for name in ["Go", "'a b'", "9a", &"a".repeat(65)] {
        let place = format!("resource.r.actions.{}", name.replace('\'', "\""));
        assert_fault(&format!("actions.{name}.deletes = true"), &place, "action name");
    }
    for (action, member, words) in [
        ("deletes = true, type = 'Gone'", ".type", "change type"),
        ("deletes = true, type = 'created'", ".type", "reserved"),
        ("deletes = true, type = 'erased'", ".type", "reserved"),
        ("set = { x = 1 }, type = 'deleted'", ".type", "deletes = true"),
        ("deletes = true, type = 'updated'", ".type", "deletes"),
        ("set = { x = 1 }, keep_data = true", ".keep_data", "deletes = true"),
        ("set = { x = 1 }, deletes = 'no'", ".deletes", "true or false"),
        ("from = ['on']", "", "neither sets nor deletes"),
        ("deletes = false", "", "neither sets nor deletes"),
    ] {
        assert_fault(&format!("actions.go = {{ {action} }}"), &format!("resource.r.actions.go{member}"), words);
    }
}

#[test]
fn states_are_those_that_the_schema_lists() {
    assert_fault("actions.go = { from = ['on', 'of'], deletes = true }", "resource.r.actions.go.from[1]", "\"of\"");
    assert_fault("actions.go = { from = [], deletes = true }", "resource.r.actions.go.from", "empty");
    assert_fault("actions.go = { from = 'on', deletes = true }", "resource.r.actions.go.from", "an array");
    assert_fault("actions.go = { from = ['on', 'on'], deletes = true }", "resource.r.actions.go.from[1]", "twice");
    assert_fault("actions.go = { set = { s = 'of' } }", "resource.r.actions.go.set.s", "\"of\"");
    assert_fault("actions.go = { set = { s = 1 } }", "resource.r.actions.go.set.s", "not one of");
    let stateless = faults("[resource.r]\nactions.go = { from = ['on'], deletes = true }");
    assert_eq!(stateless.len(), 1);
    assert!(stateless[0].starts_with("resource.r.actions.go.from: the resource names no member"), "{stateless:?}");
    // Without a list in the schema every state may be named.
    let free = "[resource.r]\nstate = 's'\nactions.go = { from = ['on'], set = { s = 'x' } }";
    assert!(Catalog::from_toml(free).is_ok());
}

#[test]
fn references_are_set_to_ids_only() {
    for value in ["1", "true", "['a']", "{ a = 1 }", "''"] {
        let action = format!("actions.go = {{ set = {{ parent = {value} }} }}");
        assert_fault(&action, "resource.r.actions.go.set.parent", "is a reference");
    }
    assert_fault("actions.go = { set = {} }", "resource.r.actions.go.set", "empty");
}

#[test]
fn values_are_set_as_they_are_written_and_in_that_order() {
    let set = "z = 1, a = 1.5, big = 123456789012345678901234567890, neg = -1_000, plus = +7, hex = 0xff, \
               e = 1e5, exact = 0.1000, t = true, s = 'x', list = [1, 'a', { k = 2.0 }], empty = [], none = {}";
    let catalog = Catalog::from_toml(&format!("[resource.r]\nactions.go = {{ set = {{ {set} }} }}")).unwrap();
    let resource = Resource::parse("r").unwrap();
    let action = catalog.get(&resource).unwrap().action("go").unwrap().clone();
    assert_eq!(
        Json::Object(action.set).to_string(),
        r#"{"z":1,"a":1.5,"big":123456789012345678901234567890,"neg":-1000,"plus":7,"hex":255,"e":1e5,"exact":0.1000,"t":true,"s":"x","list":[1,"a",{"k":2.0}],"empty":[],"none":{}}"#
    );
    assert_eq!((action.verb.as_str(), action.deletes, action.from), ("updated", false, None));
}

#[test]
fn what_json_cannot_say_is_a_fault() {
    for value in ["1979-05-27T07:32:00Z", "1979-05-27", "07:32:00", "inf", "-inf", "nan", "+nan"] {
        let set = format!("actions.go = {{ set = {{ x = [1, {{ y = {value} }}] }} }}");
        assert_fault(&set, "resource.r.actions.go.set.x[1].y", "JSON has no");
    }
    let dated = faults("[resource.r]\nschema = { const = 1979-05-27 }");
    assert_eq!(dated, ["resource.r.schema.const: JSON has no dates; write a string in quotes"]);
}

#[test]
fn schemas_are_held_against_the_meta_schema() {
    for (line, place, words) in [
        ("schema = {}", "schema", "empty"),
        ("schema = 'x'", "schema", "a table"),
        ("schema = { type = 'object', required = 'status' }", "schema: /required", "array"),
        ("schema = { properties = { a = { minLength = -1 } } }", "schema: /properties/a/minLength", ""),
        ("schema = { type = 'array' }", "schema: /type", "object"),
        ("schema = { type = ['object', 'null'] }", "schema: /type", "object"),
        ("schema = { '$schema' = 'http://json-schema.org/draft-07/schema#' }", "schema: /$schema", "2020-12"),
        ("schema = { '$ref' = 'https://example.com/x' }", "schema", "example.com"),
        ("schema = { '$ref' = 'file:///etc/passwd' }", "schema", "passwd"),
        ("schema = { '$ref' = '#/$defs/none' }", "schema", "none"),
        ("schema = { properties = { a = { pattern = '(' } } }", "schema", ""),
        ("schema = { properties = { a = { pattern = '(?=a)b' } } }", "schema", ""),
        ("schema_json = '{'", "schema_json", "line 1"),
        ("schema_json = '{\"type\":\"object\",\"type\":\"object\"}'", "schema_json", "twice"),
        ("schema_json = 'true'", "schema_json", "a boolean"),
        ("schema_json = 1", "schema_json", "a string"),
        ("schema_json = '{}'\nschema = { type = 'object' }", "schema", "schema_json"),
    ] {
        let found = faults(&format!("[resource.r]\n{line}"));
        assert_eq!(found.len(), 1, "{line}: {found:#?}");
        assert!(found[0].starts_with(&format!("resource.r.{place}")), "{line}: {found:?}");
        assert!(found[0].contains(words), "{line}: {found:?}");
    }
    let several = "[resource.r]\nschema = { required = 1, properties = { a = { minLength = 'x' }, b = 7 } }";
    assert_eq!(faults(several).len(), 3, "{:#?}", faults(several));
}
