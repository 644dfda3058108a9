//! What is known of the entities while a flight is decided: a small part of the database, loaded under
//! the lock, moved forward in memory by every decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::cascade::MAX_CASCADE;
use super::types::Catalog;
use super::{After, Effect, Refusal, RequestKey};
use crate::change::{EntityId, EntityKey, Json, Line, Resource, Seq, Tally, json};
use crate::entity::Remembered;

/// A live entity: its newest line.
#[derive(Debug)]
pub struct Live {
    /// Seq of the line.
    pub seq: Seq,
    /// The line, whose `data` is the entity's state.
    pub line: Line,
    data: OnceLock<Arc<Json>>,
}

impl Live {
    /// From what is stored; its state is parsed when a decision first asks for it.
    pub fn stored(seq: Seq, line: Line) -> Live {
        Live { seq, line, data: OnceLock::new() }
    }

    /// The state. Stored lines are our own, so an unreadable one counts as an object without members:
    /// the audit of `scroll check` names it.
    pub fn data(&self) -> &Arc<Json> {
        self.data.get_or_init(|| {
            let text = self.line.data().unwrap_or("{}");
            Arc::new(json::parse(text.as_bytes()).unwrap_or_else(|_| Json::Object(Default::default())))
        })
    }

    /// True when this is the state already. Equal values are rendered with the same bytes, at most in
    /// another order, and nearly every write changes one: so the stored text is seldom parsed for it.
    pub fn holds(&self, data: &Json) -> bool {
        let (known, new) = (self.line.data().unwrap_or("{}"), data.to_string());
        known == new || (is_perhaps_reordered(known, &new) && **self.data() == *data)
    }
}

/// False when one text cannot be the other with its members in another order.
fn is_perhaps_reordered(one: &str, other: &str) -> bool {
    let sum = |text: &str| text.bytes().map(u64::from).sum::<u64>();
    one.len() == other.len() && sum(one) == sum(other)
}

/// A reference that is held: the entity `from` points to `to` in its member `member`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// What it points to.
    pub to: EntityKey,
    /// Who points.
    pub from: EntityKey,
    /// In which member.
    pub member: String,
}

/// What a decision asks to be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// The newest live line of these entities.
    pub entities: BTreeSet<EntityKey>,
    /// Every link that points to these entities.
    pub referrers: BTreeSet<EntityKey>,
    /// Count and fingerprint of these resources.
    pub tallies: BTreeSet<Resource>,
    /// The remembered answers of these requests.
    pub requests: BTreeSet<RequestKey>,
}

impl Needs {
    /// Asks for everything that `more` asks for, too.
    pub fn add(&mut self, more: Needs) {
        self.entities.extend(more.entities);
        self.referrers.extend(more.referrers);
        self.tallies.extend(more.tallies);
        self.requests.extend(more.requests);
    }

    /// True when nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.entities.is_empty() && self.referrers.is_empty() && self.tallies.is_empty() && self.requests.is_empty()
    }
}

/// What a store loaded for [`Needs`]: an answer for each of them, also where there is nothing.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The newest live line of an entity, `None` when it is absent or deleted.
    pub entities: Vec<(EntityKey, Option<Arc<Live>>)>,
    /// Every link that points to an entity; `None` when there are more than [`MAX_CASCADE`].
    pub referrers: Vec<(EntityKey, Option<Vec<Link>>)>,
    /// Count and fingerprint of a resource; the default when it has no line yet.
    pub tallies: Vec<(Resource, Tally)>,
    /// The remembered answer of a request.
    pub requests: Vec<(RequestKey, Option<Remembered>)>,
}

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undecided {
    /// It is not allowed.
    Refused(Refusal),
    /// Something is not known yet.
    Unknown(Box<Needs>),
}

impl From<Refusal> for Undecided {
    fn from(refusal: Refusal) -> Undecided {
        Undecided::Refused(refusal)
    }
}

/// The known part of the database.
#[derive(Debug, Clone)]
pub struct State {
    catalog: Arc<Catalog>,
    entities: BTreeMap<EntityKey, Option<Arc<Live>>>,
    /// As it was when it was first written in this flight.
    before: BTreeMap<EntityKey, Option<Arc<Live>>>,
    referrers: BTreeMap<EntityKey, Option<BTreeSet<Link>>>,
}

impl State {
    /// Knows nothing yet.
    pub fn new(catalog: Arc<Catalog>) -> State {
        State { catalog, entities: BTreeMap::new(), before: BTreeMap::new(), referrers: BTreeMap::new() }
    }

    /// The declared types.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The live entity of this name, if there is one.
    pub fn live(&self, key: &EntityKey) -> Result<Option<&Arc<Live>>, Undecided> {
        match self.entities.get(key) {
            Some(known) => Ok(known.as_ref()),
            None => Err(missing(|needs| needs.entities.insert(key.clone()))),
        }
    }

    /// Every link that points to this entity now. Too many of them are a refusal: whoever asks wants to
    /// remove the entity.
    pub fn referrers(&self, key: &EntityKey) -> Result<&BTreeSet<Link>, Undecided> {
        match self.referrers.get(key) {
            Some(Some(links)) => Ok(links),
            Some(None) => Err(Refusal::CascadeTooLarge { limit: MAX_CASCADE }.into()),
            None => Err(missing(|needs| needs.referrers.insert(key.clone()))),
        }
    }

    /// True when the entity was loaded or written.
    pub fn knows_entity(&self, key: &EntityKey) -> bool {
        self.entities.contains_key(key)
    }

    /// True when the links that point to the entity were loaded.
    pub fn knows_referrers(&self, key: &EntityKey) -> bool {
        self.referrers.contains_key(key)
    }

    /// Takes what was loaded. What this flight already moved forward stays as it is.
    pub fn learn(
        &mut self,
        entities: Vec<(EntityKey, Option<Arc<Live>>)>,
        referrers: Vec<(EntityKey, Option<Vec<Link>>)>,
    ) {
        for (key, live) in entities {
            self.entities.entry(key).or_insert(live);
        }
        for (to, links) in referrers {
            if self.referrers.contains_key(&to) {
                continue;
            }
            let current = links.map(|links| {
                let untouched = links.into_iter().filter(|link| !self.before.contains_key(&link.from));
                untouched.chain(self.links_written_to(&to)).collect()
            });
            self.referrers.insert(to, current);
        }
    }

    /// Moves one entity forward.
    pub fn apply(&mut self, effect: &Effect, seq: Seq, line: &Line) {
        let after = match &effect.after {
            After::Live(data) => Some(Arc::new(Live { seq, line: line.clone(), data: data.clone().into() })),
            After::Gone { .. } => None,
        };
        let before = self.entities.insert(effect.key.clone(), after.clone()).flatten();
        for link in self.links_of(&effect.key, before.as_ref()) {
            if let Some(Some(links)) = self.referrers.get_mut(&link.to) {
                links.remove(&link);
            }
        }
        for link in self.links_of(&effect.key, after.as_ref()) {
            if let Some(Some(links)) = self.referrers.get_mut(&link.to) {
                links.insert(link);
            }
        }
        self.before.entry(effect.key.clone()).or_insert(before);
    }

    /// The entities that were written, with their newest seq (`None`: gone).
    pub fn written(&self) -> impl Iterator<Item = (&EntityKey, Option<Seq>)> {
        self.before.keys().map(|key| {
            let live = self.entities.get(key).and_then(Option::as_ref);
            (key, live.map(|live| live.seq))
        })
    }

    /// The links that went, and those that came.
    pub fn links_moved(&self) -> (Vec<Link>, Vec<Link>) {
        let (mut gone, mut come) = (BTreeSet::new(), BTreeSet::new());
        for (key, before) in &self.before {
            let now = self.entities.get(key).and_then(Option::as_ref);
            let (old, new) = (self.links_of(key, before.as_ref()), self.links_of(key, now));
            gone.extend(old.difference(&new).cloned());
            come.extend(new.difference(&old).cloned());
        }
        (gone.into_iter().collect(), come.into_iter().collect())
    }

    fn links_written_to<'a>(&'a self, to: &'a EntityKey) -> impl Iterator<Item = Link> + 'a {
        let written = self.before.keys();
        let links = written.flat_map(|key| self.links_of(key, self.entities.get(key).and_then(Option::as_ref)));
        links.filter(move |link| link.to == *to)
    }

    /// The links that a live entity holds.
    pub fn links_held(catalog: &Catalog, key: &EntityKey, live: &Live) -> BTreeSet<Link> {
        links(catalog, key, live.data())
    }

    fn links_of(&self, key: &EntityKey, live: Option<&Arc<Live>>) -> BTreeSet<Link> {
        match live {
            Some(live) if self.catalog.get(&key.resource).is_some_and(|t| !t.references.is_empty()) => {
                State::links_held(&self.catalog, key, live)
            }
            _ => BTreeSet::new(),
        }
    }
}

/// The links that an entity with this state holds. A member that cannot be the id of anything links to
/// nothing.
pub fn links(catalog: &Catalog, from: &EntityKey, data: &Json) -> BTreeSet<Link> {
    let held = catalog.links(&from.resource, data).into_iter();
    held.filter_map(|(reference, id)| {
        let to = EntityKey { resource: reference.target.clone(), id: EntityId::parse(id).ok()? };
        Some(Link { to, from: from.clone(), member: reference.member.clone() })
    })
    .collect()
}

fn missing(fill: impl FnOnce(&mut Needs) -> bool) -> Undecided {
    let mut needs = Needs::default();
    fill(&mut needs);
    Undecided::Unknown(Box::new(needs))
}
