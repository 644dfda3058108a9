//! `Flight`: what is missing is asked for before anything moves, and looking ahead comes to an end.

use std::collections::BTreeMap;

use super::*;
use crate::entity::idempotency::hash_body;

/// What a database would hold.
#[derive(Default)]
struct Stored {
    entities: BTreeMap<EntityKey, Arc<Live>>,
    links: Vec<Link>,
    loads: usize,
}

impl Stored {
    fn folder(mut self, id: &str, parent: Option<&str>) -> Stored {
        let data = parent.map_or("{}".to_owned(), |parent| format!(r#"{{"parent":"{parent}"}}"#));
        let at = i64::try_from(self.entities.len()).unwrap() + 1;
        let (key, live) = live("folder", id, at, &data);
        self.entities.insert(key, live.unwrap());
        self.links.extend(parent.map(|parent| link(id, parent)));
        self
    }

    fn load(&mut self, needs: &Needs) -> Facts {
        self.loads += 1;
        let links_to = |to: &EntityKey| self.links.iter().filter(|link| link.to == *to).cloned().collect();
        Facts {
            entities: needs.entities.iter().map(|key| (key.clone(), self.entities.get(key).cloned())).collect(),
            referrers: needs.referrers.iter().map(|key| (key.clone(), Some(links_to(key)))).collect(),
            tallies: needs.tallies.iter().map(|resource| (resource.clone(), Tally::default())).collect(),
            requests: needs.requests.iter().map(|key| (key.clone(), None)).collect(),
        }
    }

    fn flight(&self) -> Flight {
        let head = i64::try_from(self.entities.len()).unwrap();
        Flight::new(catalog(), Timestamp::from_micros(7), seq(head), Tally::default())
    }

    /// Looks ahead until nothing is missing, as a store does.
    fn foresee(&mut self, flight: &mut Flight, submissions: &[Submission]) {
        for _ in 0..100 {
            let needs = flight.foresee(submissions);
            if needs.is_empty() {
                return;
            }
            let facts = self.load(&needs);
            flight.learn(facts);
        }
        panic!("looking ahead does not end");
    }
}

/// As a store does: whatever is asked for is loaded, until there is an answer.
fn take(stored: &mut Stored, flight: &mut Flight, submission: &Submission) -> Answer {
    for _ in 0..50 {
        match flight.take(submission) {
            Ok(answer) => return answer,
            Err(needs) => {
                let facts = stored.load(&needs);
                flight.learn(facts);
            }
        }
    }
    panic!("it asks for ever");
}

/// Everything that can be seen of a flight.
fn everything(flight: &Flight) -> String {
    format!("{flight:?}")
}

#[test]
fn a_flight_that_asks_has_not_moved() {
    let mut stored = Stored::default().folder("r", None).folder("a", Some("r")).folder("b", Some("a"));
    let submission = submission(Work::Batch(vec![
        put("note", "n", "{}"),
        put("folder", "new", r#"{"parent":"b"}"#),
        delete("folder", "r"),
        put("note", "n", r#"{"after":true}"#),
    ]));
    let mut flight = stored.flight();
    let mut asked = 0;
    let answer = loop {
        let before = everything(&flight);
        match flight.take(&submission) {
            Ok(answer) => break answer,
            Err(needs) => {
                assert!(!needs.is_empty());
                assert_eq!(everything(&flight), before, "asked for {needs:?} with something half done");
                asked += 1;
                assert!(asked < 50, "it asks for ever");
                let facts = stored.load(&needs);
                flight.learn(facts);
            }
        }
    };
    assert!(asked > 5, "asked {asked} times");
    let Ok(Outcome::Batch { tx, last, lines }) = answer.result else { panic!("{answer:?}") };
    assert_eq!((tx, last, lines.len()), (Some(seq(4)), Some(seq(10)), 4));
    let writes = flight.finish();
    let order: Vec<_> = writes.changes.iter().map(|change| change.key.id.as_str()).collect();
    assert_eq!(order, ["n", "new", "new", "b", "a", "r", "n"]);
    assert_eq!(writes.entities.iter().filter(|(_, seq)| seq.is_some()).count(), 1);
    assert_eq!((writes.links_gone.len(), writes.links_come.len()), (2, 0));
}

#[test]
fn looking_ahead_loads_a_family_level_by_level_and_then_decides_without_asking() {
    let mut stored = Stored::default().folder("r", None);
    for child in 0..20 {
        stored = stored.folder(&format!("c{child}"), Some("r"));
        stored = stored.folder(&format!("g{child}"), Some(&format!("c{child}")));
    }
    let submissions = [submission(Work::One(delete("folder", "r")))];
    let mut flight = stored.flight();
    stored.foresee(&mut flight, &submissions);
    assert!(stored.loads <= 4, "{} loads for three generations", stored.loads);
    assert!(flight.take(&submissions[0]).unwrap().result.is_ok());
    assert_eq!(flight.finish().changes.len(), 41);
}

#[test]
fn looking_ahead_foresees_every_kind_of_write() {
    let mut stored = Stored::default().folder("p", None).folder("q", None).folder("c", Some("p"));
    let (guarded, live) = live("guarded", "g", 9, r#"{"status":"on"}"#);
    stored.entities.insert(guarded, live.unwrap());
    let key = RequestKey { method: "POST".into(), path: "/".into(), key: "k".into() };
    let idempotency = Some(IdempotentRequest { key, body_hash: hash_body(b"x") });
    let act = |name: &str| with_if_match(command("guarded", "g", Operation::Action(name.into())), "*");
    let submissions = [
        Submission { idempotency, ..submission(Work::One(put("folder", "c", r#"{"parent":"q"}"#))) },
        submission(Work::One(command("folder", "c", Operation::Patch(json(r#"{"parent":"p"}"#))))),
        submission(Work::One(command("file", "f", Operation::Create(json(r#"{"folder":"c"}"#))))),
        submission(Work::One(act("switch"))),
        submission(Work::One(act("drop"))),
        submission(Work::One(delete("folder", "q"))),
        submission(Work::Refused(Refusal::InvalidBody { detail: "x".into() }.into())),
    ];
    let mut flight = stored.flight();
    stored.foresee(&mut flight, &submissions);
    let answers: Vec<_> =
        submissions.iter().map(|submission| flight.take(submission).unwrap().result.is_ok()).collect();
    assert_eq!(answers, [true, true, true, true, true, true, false]);
}

#[test]
fn a_refused_batch_is_as_if_it_had_never_been() {
    let mut stored = Stored::default().folder("p", None);
    let mut flight = stored.flight();
    let batch = |last: Command| {
        submission(Work::Batch(vec![put("folder", "c", r#"{"parent":"p"}"#), delete("folder", "p"), last]))
    };
    let (bad, good) = (batch(delete("note", "none")), batch(put("note", "n", "{}")));
    let refused = take(&mut stored, &mut flight, &bad).result.unwrap_err();
    assert_eq!(refused.index, Some(2));
    let before = everything(&flight);
    flight.take(&bad).unwrap().result.unwrap_err();
    assert_eq!(everything(&flight), before);
    assert!(take(&mut stored, &mut flight, &good).result.is_ok());
    let writes = flight.finish();
    assert_eq!(writes.changes.iter().map(|change| change.seq.get()).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert!(writes.changes.iter().all(|change| change.tx == seq(2) && change.time == Timestamp::from_micros(7)));
}

#[test]
fn a_link_that_came_and_went_in_one_flight_is_not_written() {
    let mut stored = Stored::default().folder("p", None).folder("q", None).folder("c", Some("p"));
    let submissions = [
        submission(Work::One(put("folder", "c", r#"{"parent":"q"}"#))),
        submission(Work::One(put("folder", "c", r#"{"parent":"p"}"#))),
        submission(Work::One(put("folder", "d", r#"{"parent":"q"}"#))),
        submission(Work::One(delete("folder", "d"))),
        submission(Work::One(delete("folder", "q"))),
    ];
    let mut flight = stored.flight();
    stored.foresee(&mut flight, &submissions);
    for submission in &submissions {
        assert!(flight.take(submission).unwrap().result.is_ok());
    }
    let writes = flight.finish();
    assert_eq!((writes.links_gone, writes.links_come), (vec![], vec![]));
    assert_eq!(writes.changes.len(), 5);
}

#[test]
fn links_learned_after_a_write_of_this_flight_do_not_bring_the_old_ones_back() {
    let mut stored = Stored::default().folder("p", None).folder("q", None).folder("c", Some("p"));
    let moved = submission(Work::One(put("folder", "c", r#"{"parent":"q"}"#)));
    let mut flight = stored.flight();
    stored.foresee(&mut flight, std::slice::from_ref(&moved));
    flight.take(&moved).unwrap().result.unwrap();
    // Only now does the flight ask who points to p and q; the database still says p.
    for (parent, lines) in [("p", 1), ("q", 2)] {
        let gone = submission(Work::One(delete("folder", parent)));
        stored.foresee(&mut flight, std::slice::from_ref(&gone));
        let before = flight.head();
        flight.take(&gone).unwrap().result.unwrap();
        assert_eq!(flight.head().distance_from(before), lines, "{parent}");
    }
}

#[test]
fn a_remembered_answer_is_given_before_anything_is_asked() {
    let key = RequestKey { method: "POST".into(), path: "/".into(), key: "k".into() };
    let idempotency = Some(IdempotentRequest { key: key.clone(), body_hash: hash_body(b"x") });
    let write = Submission { idempotency, ..submission(Work::One(put("note", "n", "{}"))) };
    let mut flight = Stored::default().flight();
    let needs = flight.take(&write).unwrap_err();
    assert_eq!(*needs, Needs { requests: [key.clone()].into(), ..Needs::default() });
    let result = Err(Refusal::InvalidBody { detail: "then".into() }.into());
    let answer = Answer { request_id: "first".into(), result, is_replayed: false };
    let known = Remembered { body_hash: hash_body(b"x"), answer: answer.clone() };
    flight.learn(Facts { requests: vec![(key, Some(known))], ..Facts::default() });
    assert_eq!(flight.take(&write), Ok(Answer { is_replayed: true, ..answer }));
    assert!(flight.finish().is_empty());
}
