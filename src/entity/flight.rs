//! One transaction of one log, decided in memory: whatever waited while the previous commit was on its
//! way to disk, in order, each submission seeing what the ones before it did.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cascade;
use super::decide::{After, Decision, Effect, decide};
use super::state::{Facts, Link, Needs, State, Undecided};
use super::types::Catalog;
use super::{
    Answer, Bounds, Command, Operation, Outcome, Refusal, Refused, Remembered, RequestKey, Submission, Work, state,
};
use crate::change::{Change, EntityKey, Json, Line, Resource, Seq, Tally, Timestamp};

/// The working set of one transaction.
#[derive(Debug, Clone)]
pub struct Flight {
    now: Timestamp,
    head: Seq,
    tally: Tally,
    resources: BTreeMap<Resource, Tally>,
    state: State,
    requests: BTreeMap<RequestKey, Option<Remembered>>,
    changes: Vec<Change>,
    remembered: Vec<(RequestKey, Remembered)>,
}

/// What a flight writes down, all in one transaction.
#[derive(Debug)]
pub struct Writes {
    /// New lines, in order.
    pub changes: Vec<Change>,
    /// Every entity that was written: its newest seq, or `None` when it is gone.
    pub entities: Vec<(EntityKey, Option<Seq>)>,
    /// Links that went.
    pub links_gone: Vec<Link>,
    /// Links that came.
    pub links_come: Vec<Link>,
    /// Answers to remember.
    pub remembered: Vec<(RequestKey, Remembered)>,
}

impl Writes {
    /// True when there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.remembered.is_empty()
    }
}

impl Flight {
    /// Begins on top of the newest change of a log, read under its lock.
    pub fn new(catalog: Arc<Catalog>, now: Timestamp, head: Seq, tally: Tally) -> Flight {
        Flight {
            now,
            head,
            tally,
            resources: BTreeMap::new(),
            state: State::new(catalog),
            requests: BTreeMap::new(),
            changes: Vec::new(),
            remembered: Vec::new(),
        }
    }

    /// The newest seq, those of this flight included.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// What these submissions will most likely ask for and this flight does not know yet, so that it can be
    /// loaded in one go. What is learned may show more to ask for (the targets of a reference, the children
    /// of children): ask again until nothing is missing.
    pub fn foresee<'a>(&self, submissions: impl IntoIterator<Item = &'a Submission>) -> Needs {
        let mut needs = Needs::default();
        for submission in submissions {
            if let Some(request) = &submission.idempotency {
                needs.requests.insert(request.key.clone());
            }
            for command in submission.work.commands() {
                self.foresee_command(command, &mut needs);
            }
        }
        needs.entities.retain(|key| !self.state.knows_entity(key));
        needs.referrers.retain(|key| !self.state.knows_referrers(key));
        needs.tallies.retain(|resource| !self.resources.contains_key(resource));
        needs.requests.retain(|key| !self.requests.contains_key(key));
        needs
    }

    fn foresee_command(&self, command: &Command, needs: &mut Needs) {
        let (catalog, key) = (self.state.catalog(), &command.key);
        needs.entities.insert(key.clone());
        needs.tallies.insert(key.resource.clone());
        let Some(declared) = catalog.get(&key.resource) else {
            return;
        };
        let mut points_to = |data: &Json| {
            needs.entities.extend(state::links(catalog, key, data).into_iter().map(|link| link.to));
        };
        let current = self.state.live(key).ok().flatten();
        let is_delete = match &command.operation {
            Operation::Create(data) | Operation::Put(data) => {
                points_to(data);
                false
            }
            Operation::Patch(patch) => {
                points_to(patch);
                current.into_iter().for_each(|live| points_to(live.data()));
                false
            }
            Operation::Action(name) => {
                let action = declared.action(name);
                action.into_iter().for_each(|action| points_to(&Json::Object(action.set.clone())));
                current.into_iter().for_each(|live| points_to(live.data()));
                action.is_some_and(|action| action.deletes)
            }
            Operation::Delete => true,
            // It takes nothing with it, and its references are not looked up.
            Operation::Record(_) => false,
        };
        if is_delete && !catalog.referrers(&key.resource).is_empty() {
            // What will be refused needs nothing.
            needs.add(cascade::unknown_family(&self.state, key).unwrap_or_default());
        }
    }

    /// Takes what was loaded.
    pub fn learn(&mut self, facts: Facts) {
        self.state.learn(facts.entities, facts.referrers);
        for (resource, tally) in facts.tallies {
            self.resources.entry(resource).or_insert(tally);
        }
        for (key, remembered) in facts.requests {
            self.requests.entry(key).or_insert(remembered);
        }
    }

    /// Decides one submission and moves the flight forward, or says what must be loaded first; then
    /// nothing has moved.
    pub fn take(&mut self, submission: &Submission) -> Result<Answer, Box<Needs>> {
        if let Some(request) = &submission.idempotency {
            let Some(known) = self.requests.get(&request.key) else {
                let requests = [request.key.clone()].into();
                return Err(Box::new(Needs { requests, ..Needs::default() }));
            };
            if let Some(remembered) = known {
                return Ok(replay(submission, request.key.key.as_str(), &request.body_hash, remembered));
            }
        }
        let result = match &submission.work {
            Work::One(command) => self.take_one(command, &submission.bounds)?,
            Work::Batch(commands) => self.take_batch(commands, &submission.bounds)?,
            Work::Refused(refused) => Err(refused.clone()),
        };
        let answer = Answer { request_id: submission.request_id.clone(), result, is_replayed: false };
        self.remember(submission, &answer);
        Ok(answer)
    }

    fn take_one(&mut self, command: &Command, bounds: &Bounds) -> Result<Result<Outcome, Refused>, Box<Needs>> {
        let tx = self.head.forward(1);
        match self.carry_out(command, bounds, tx) {
            Ok((line, seq, is_created)) => Ok(Ok(Outcome::Entity { line, seq, is_created })),
            Err(Undecided::Refused(refusal)) => Ok(Err(refusal.into())),
            Err(Undecided::Unknown(needs)) => Err(needs),
        }
    }

    /// All or nothing: the commands work on this flight, and what they did is dropped when one is refused
    /// or asks for more.
    fn take_batch(&mut self, commands: &[Command], bounds: &Bounds) -> Result<Result<Outcome, Refused>, Box<Needs>> {
        let kept = self.mark();
        let tx = self.head.forward(1);
        let mut lines = Vec::with_capacity(commands.len());
        for (index, command) in commands.iter().enumerate() {
            match self.carry_out(command, bounds, tx) {
                Ok((line, _, _)) => lines.push(line),
                Err(undecided) => {
                    self.back_to(kept);
                    return match undecided {
                        Undecided::Refused(refusal) => Ok(Err(refusal.at(index))),
                        Undecided::Unknown(needs) => Err(needs),
                    };
                }
            }
        }
        let wrote = self.head >= tx;
        Ok(Ok(Outcome::Batch { tx: wrote.then_some(tx), last: wrote.then_some(self.head), lines }))
    }

    fn carry_out(&mut self, command: &Command, bounds: &Bounds, tx: Seq) -> Result<(Line, Seq, bool), Undecided> {
        let decision = decide(&self.state, command, bounds)?;
        self.check_tallies(&decision)?;
        let mut last = None;
        for effect in &decision.effects {
            last = Some(self.write(effect, tx)?);
        }
        match last {
            Some((line, seq)) => Ok((line, seq, decision.is_created)),
            None => {
                let unchanged = self.state.live(&command.key)?;
                let unchanged = unchanged.ok_or_else(|| Refusal::EntityNotFound { entity: command.key.to_string() })?;
                Ok((unchanged.line.clone(), unchanged.seq, false))
            }
        }
    }

    /// Every tally that the effects move is known, so that writing them cannot stop half-way.
    fn check_tallies(&self, decision: &Decision) -> Result<(), Undecided> {
        let resources = decision.effects.iter().map(|effect| &effect.key.resource);
        let tallies = resources.filter(|resource| !self.resources.contains_key(resource)).cloned().collect();
        let needs = Needs { tallies, ..Needs::default() };
        if needs.is_empty() { Ok(()) } else { Err(Undecided::Unknown(Box::new(needs))) }
    }

    fn write(&mut self, effect: &Effect, tx: Seq) -> Result<(Line, Seq), Undecided> {
        let seq = self.head.forward(1);
        let prev = self.state.live(&effect.key)?.map(|live| live.seq);
        let (is_deleted, data) = match &effect.after {
            After::Live(data) => (false, Some(data.to_string())),
            After::Gone { kept } => (true, kept.clone()),
        };
        let line = Line::render(seq, &effect.key, &effect.verb, is_deleted, data.as_deref());
        let now_live = (!is_deleted).then_some(seq);
        self.tally = self.tally.moved(&effect.key, prev, now_live);
        let resource_tally = self.resources.entry(effect.key.resource.clone()).or_default();
        *resource_tally = resource_tally.moved(&effect.key, prev, now_live);
        self.changes.push(Change {
            seq,
            key: effect.key.clone(),
            deleted: is_deleted,
            line: line.clone(),
            time: self.now,
            prev,
            tx,
            log_after: self.tally,
            resource_after: *resource_tally,
        });
        self.state.apply(effect, seq, &line);
        self.head = seq;
        Ok((line, seq))
    }

    fn remember(&mut self, submission: &Submission, answer: &Answer) {
        let is_remembered = answer.result.as_ref().err().is_none_or(|refused| refused.refusal.is_remembered());
        let Some(request) = submission.idempotency.as_ref().filter(|_| is_remembered) else {
            return;
        };
        let remembered = Remembered { body_hash: request.body_hash.clone(), answer: answer.clone() };
        self.requests.insert(request.key.clone(), Some(remembered.clone()));
        self.remembered.push((request.key.clone(), remembered));
    }

    /// What to write down.
    pub fn finish(self) -> Writes {
        let entities = self.state.written().map(|(key, seq)| (key.clone(), seq)).collect();
        let (links_gone, links_come) = self.state.links_moved();
        Writes { changes: self.changes, entities, links_gone, links_come, remembered: self.remembered }
    }

    fn mark(&self) -> Mark {
        Mark {
            head: self.head,
            tally: self.tally,
            resources: self.resources.clone(),
            state: self.state.clone(),
            changes: self.changes.len(),
        }
    }

    fn back_to(&mut self, mark: Mark) {
        self.head = mark.head;
        self.tally = mark.tally;
        self.resources = mark.resources;
        self.state = mark.state;
        self.changes.truncate(mark.changes);
    }
}

/// What a batch may change in a flight before it is known to be accepted.
struct Mark {
    head: Seq,
    tally: Tally,
    resources: BTreeMap<Resource, Tally>,
    state: State,
    changes: usize,
}

fn replay(submission: &Submission, key: &str, body_hash: &[u8], remembered: &Remembered) -> Answer {
    if remembered.body_hash == body_hash {
        return Answer { is_replayed: true, ..remembered.answer.clone() };
    }
    let result = Err(Refusal::IdempotencyMismatch { key: key.to_owned() }.into());
    Answer { request_id: submission.request_id.clone(), result, is_replayed: false }
}
