//! `decide`: each refusal, each effect, and what it asks for.

use super::*;

fn state(entities: Vec<(EntityKey, Option<Arc<Live>>)>, referrers: Vec<(EntityKey, Option<Vec<Link>>)>) -> State {
    let mut state = State::new(catalog());
    state.learn(entities, referrers);
    state
}

fn refusal(state: &State, command: Command) -> Refusal {
    match decide(state, &command, &Bounds::default()) {
        Err(Undecided::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn needs(state: &State, command: Command) -> Needs {
    match decide(state, &command, &Bounds::default()) {
        Err(Undecided::Unknown(needs)) => *needs,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_known_is_asked_for() {
    let nothing = state(vec![], vec![]);
    let entity = Needs { entities: [key("note", "n")].into(), ..Needs::default() };
    for operation in
        [Operation::Create(json("{}")), Operation::Put(json("{}")), Operation::Patch(json("{}")), Operation::Delete]
    {
        assert_eq!(needs(&nothing, command("note", "n", operation)), entity);
    }
    let child = state(vec![absent("folder", "f")], vec![]);
    let parent = Needs { entities: [key("folder", "p")].into(), ..Needs::default() };
    assert_eq!(needs(&child, put("folder", "f", r#"{"parent":"p"}"#)), parent);
    let root = state(vec![live("folder", "f", 1, "{}")], vec![]);
    let children = Needs { referrers: [key("folder", "f")].into(), ..Needs::default() };
    let asked = needs(&root, delete("folder", "f"));
    assert_eq!((asked.entities, asked.referrers), (children.entities, children.referrers));
}

#[test]
fn each_refusal_has_its_cause() {
    let known = state(
        vec![
            absent("note", "gone"),
            live("note", "n", 3, "{}"),
            live("guarded", "g", 5, r#"{"status":"off"}"#),
            absent("guarded", "none"),
            absent("folder", "none"),
            absent("file", "f"),
            live("folder", "held", 6, "{}"),
        ],
        vec![(
            key("folder", "held"),
            Some(vec![Link { to: key("folder", "held"), from: key("file", "x"), member: "folder".into() }]),
        )],
    );
    let act = |resource: &str, id: &str, name: &str| command(resource, id, Operation::Action(name.into()));
    let five = || Some("\"5\"".to_owned());
    let cases = [
        (command("note", "n", Operation::Create(json("{}"))), Refusal::AlreadyExists { entity: "note/n".into() }),
        (delete("note", "gone"), Refusal::EntityNotFound { entity: "note/gone".into() }),
        (command("note", "gone", Operation::Patch(json("{}"))), Refusal::EntityNotFound { entity: "note/gone".into() }),
        (act("note", "n", "x"), Refusal::ActionNotFound { resource: "note".into(), action: "x".into() }),
        (act("guarded", "none", "switch"), Refusal::EntityNotFound { entity: "guarded/none".into() }),
        (put("guarded", "none", r#"{"status":1}"#), Refusal::PreconditionRequired { current: None }),
        (put("guarded", "g", "[]"), Refusal::PreconditionRequired { current: five() }),
        (with_if_match(put("guarded", "g", "[]"), "\"4\""), Refusal::PreconditionFailed { current: five() }),
        (with_if_match(put("note", "gone", "{}"), "*"), Refusal::PreconditionFailed { current: None }),
        (
            with_if_match(act("guarded", "g", "switch"), "\"5\""),
            Refusal::TransitionRefused { action: "switch".into(), state: Some("off".into()), from: vec!["on".into()] },
        ),
    ];
    for (command, expected) in cases {
        assert_eq!(refusal(&known, command), expected);
    }
    let broken = refusal(&known, with_if_match(put("guarded", "g", r#"{"status":1}"#), "\"5\""));
    assert!(matches!(broken, Refusal::SchemaViolation { errors } if errors[0].pointer == "/status"));
    let missing = refusal(&known, put("file", "f", r#"{"folder":"none"}"#));
    assert!(matches!(missing, Refusal::ReferenceMissing { references } if references[0].target_id == "none"));
    let held = refusal(&known, delete("folder", "held"));
    assert!(matches!(held, Refusal::StillReferenced { references } if references[0].id == "x"));
    let mut strict = State::new(Arc::new(Catalog::builtin().strict(true)));
    strict.learn(vec![], vec![]);
    assert_eq!(refusal(&strict, put("note", "n", "{}")), Refusal::UnknownResource { resource: "note".into() });
}

#[test]
fn too_many_referrers_refuse_the_delete() {
    let known = state(vec![live("folder", "p", 1, "{}")], vec![(key("folder", "p"), None)]);
    assert_eq!(refusal(&known, delete("folder", "p")), Refusal::CascadeTooLarge { limit: MAX_CASCADE });
}

#[test]
fn a_family_that_is_known_to_be_too_large_needs_nothing_more() {
    let children = |parent: &str| (0..6_000).map(|n| link(&format!("{parent}{n}"), parent)).collect::<Vec<_>>();
    let known = state(
        vec![live("folder", "r", 1, "{}"), live("folder", "a", 2, "{}"), live("folder", "b", 3, "{}")],
        vec![
            (key("folder", "r"), Some(vec![link("a", "r"), link("b", "r")])),
            (key("folder", "a"), Some(children("a"))),
            (key("folder", "b"), Some(children("b"))),
        ],
    );
    assert_eq!(refusal(&known, delete("folder", "r")), Refusal::CascadeTooLarge { limit: MAX_CASCADE });
}

#[test]
fn a_state_that_grows_piece_by_piece_has_a_limit() {
    let known = state(
        vec![live("note", "n", 3, r#"{"a":"0123456789"}"#), live("guarded", "g", 5, r#"{"status":"on"}"#)],
        vec![],
    );
    let within = |limit| Bounds { state_bytes: Some(limit), ..Bounds::default() };
    let grow = command("note", "n", Operation::Patch(json(r#"{"b":"\u2028"}"#)));
    let size = r#"{"a":"0123456789","b":"\u2028"}"#.len();
    assert!(decide(&known, &grow, &within(size)).is_ok());
    let too_large = Undecided::Refused(Refusal::StateTooLarge { limit: size - 1 });
    assert_eq!(decide(&known, &grow, &within(size - 1)).unwrap_err(), too_large);
    let same = command("note", "n", Operation::Patch(json("{}")));
    assert!(decide(&known, &same, &within(1)).is_ok(), "what changes nothing grows nothing");
    let switch = with_if_match(command("guarded", "g", Operation::Action("switch".into())), "\"5\"");
    assert!(decide(&known, &switch, &within(16)).is_ok());
    assert!(decide(&known, &switch, &within(15)).is_err());
}

#[test]
fn what_changes_nothing_has_no_effect() {
    let known = state(vec![live("note", "n", 3, r#"{"a":1,"b":[1,{"c":2,"d":3}]}"#)], vec![]);
    let effects = |data: &str| decide(&known, &put("note", "n", data), &Bounds::default()).unwrap().effects.len();
    assert_eq!(effects(r#"{"b":[1,{"d":3,"c":2}],"a":1}"#), 0);
    assert_eq!(effects(r#"{"b":[{"d":3,"c":2},1],"a":1}"#), 1);
    assert_eq!(effects(r#"{"a":1.0,"b":[1,{"c":2,"d":3}]}"#), 1);
}

#[test]
fn children_go_before_their_parents_each_once() {
    let known = state(
        vec![live("folder", "r", 1, "{}"), live("folder", "a", 2, "{}"), live("folder", "b", 3, "{}")],
        vec![
            (key("folder", "r"), Some(vec![link("a", "r"), link("b", "r")])),
            (key("folder", "a"), Some(vec![link("b", "a")])),
            // A ring back to the root.
            (key("folder", "b"), Some(vec![link("r", "b")])),
        ],
    );
    let decision = decide(&known, &delete("folder", "r"), &Bounds::default()).unwrap();
    let order: Vec<_> = decision.effects.iter().map(|effect| effect.key.id.as_str()).collect();
    assert_eq!(order, ["b", "a", "r"]);
    assert!(decision.effects.iter().all(|effect| effect.after == After::Gone { kept: None }));
}

#[test]
fn an_action_that_deletes_keeps_what_it_declares() {
    let known = state(vec![live("guarded", "g", 5, r#"{"x":1.0,"status":"on"}"#)], vec![]);
    let act = |name: &str| with_if_match(command("guarded", "g", Operation::Action(name.into())), "\"5\"");
    let dropped = decide(&known, &act("drop"), &Bounds::default()).unwrap().effects.remove(0);
    assert_eq!(dropped.verb.as_str(), "dropped");
    assert_eq!(dropped.after, After::Gone { kept: Some(r#"{"x":1.0,"status":"off"}"#.into()) });
    let switched = decide(&known, &act("switch"), &Bounds::default()).unwrap().effects.remove(0);
    assert_eq!(
        (switched.verb.as_str(), switched.after),
        ("switched", After::Live(json(r#"{"x":1.0,"status":"off"}"#)))
    );
}

fn record(resource: &str, id: &str, data: Option<&str>, verb: Option<&str>) -> Command {
    let verb = verb.map(|verb| Verb::parse(verb).unwrap());
    command(resource, id, Operation::Record(Record { data: data.map(json), verb }))
}

fn effects(state: &State, command: Command) -> Vec<(String, bool)> {
    let decided = decide(state, &command, &Bounds::default()).unwrap();
    let told = |effect: Effect| (effect.verb.to_string(), matches!(effect.after, After::Live(_)));
    decided.effects.into_iter().map(told).collect()
}

#[test]
fn what_an_application_did_is_written_down_and_only_its_form_is_judged() {
    let known = state(
        vec![
            absent("file", "f"),
            absent("note", "none"),
            live("folder", "held", 6, "{}"),
            live("guarded", "g", 5, r#"{"status":"off"}"#),
        ],
        vec![],
    );
    let was = |verb: &str, is_live: bool| vec![(verb.to_owned(), is_live)];
    // Neither missing references, nor those that point to it, nor preconditions: nothing of them is even known.
    assert_eq!(effects(&known, record("file", "f", Some(r#"{"folder":"nowhere"}"#), None)), was("created", true));
    assert_eq!(effects(&known, record("folder", "held", None, None)), was("deleted", false));
    assert_eq!(effects(&known, record("guarded", "g", Some(r#"{"status":"on"}"#), None)), was("updated", true));
    assert_eq!(effects(&known, record("folder", "held", None, Some("expired"))), was("expired", false));
    assert_eq!(effects(&known, record("guarded", "g", Some(r#"{"status":"off"}"#), Some("again"))), vec![]);
    let schema = |data| refusal(&known, record("guarded", "g", Some(data), None));
    assert!(matches!(schema(r#"{"status":"broken"}"#), Refusal::SchemaViolation { .. }));
    assert!(matches!(schema("[]"), Refusal::SchemaViolation { .. }));
    assert!(matches!(refusal(&known, record("note", "none", None, None)), Refusal::EntityNotFound { .. }));
}
