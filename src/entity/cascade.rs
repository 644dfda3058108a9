//! What goes with a deleted entity: everything that refers to it with `cascade`, and what refers to
//! that. One reference with `restrict` from an entity that would stay refuses the whole delete.

use std::collections::BTreeSet;

use super::Bounds;
use super::decide::{After, Effect};
use super::refusal::{Reference as NamedReference, Refusal};
use super::state::{Link, Needs, State, Undecided};
use super::types::OnDelete;
use crate::change::{EntityKey, Verb};

/// Most entities that one delete takes with it: as many as a batch may name, so that a transaction
/// stays bounded. Larger families are deleted child by child.
pub const MAX_CASCADE: usize = 10_000;

/// Most generations of such a family. Each costs a load under the lock of the log, and only a resource that
/// refers to itself can have more of them than there are declared types.
pub const MAX_GENERATIONS: usize = 100;

/// Most references that a refusal names.
const MAX_NAMED: usize = 10;

/// The tombstones of everything that goes with `root`, children before their parents, without `root`'s own.
pub fn children_first(state: &State, root: &EntityKey, bounds: &Bounds) -> Result<Vec<Effect>, Undecided> {
    if state.catalog().referrers(&root.resource).is_empty() {
        return Ok(Vec::new());
    }
    let order = family(state, root)?;
    if !order.iter().all(|key| bounds.covers(&key.resource)) {
        return Err(Refusal::OutsideKey.into());
    }
    refuse_when_held(state, &order, bounds)?;
    let children = order.into_iter().filter(|key| key != root);
    Ok(children.map(|key| Effect { key, verb: Verb::deleted(), after: After::Gone { kept: None } }).collect())
}

/// What of `root`'s family is not known yet, as far as the known part shows it: generation by generation,
/// so that a family costs one load for each. A family that is known to be too large needs nothing more: it
/// would be refused, and loading the rest of it could take the writer minutes.
pub fn unknown_family(state: &State, root: &EntityKey) -> Result<Needs, Refusal> {
    let mut needs = Needs::default();
    let mut seen = BTreeSet::from([root.clone()]);
    let mut generation = vec![root.clone()];
    for _ in 0..=MAX_GENERATIONS {
        let mut children = Vec::new();
        for key in &generation {
            children.extend(known_children(state, key, &mut needs)?.into_iter().filter(|key| seen.insert(key.clone())));
            // One more than the limit, because `root` itself does not count.
            if seen.len() > MAX_CASCADE + 1 {
                return Err(too_large());
            }
        }
        if children.is_empty() {
            return Ok(needs);
        }
        generation = children;
    }
    Err(too_large())
}

/// The children of `key` that are known; what is not known of it is added to `needs`.
fn known_children(state: &State, key: &EntityKey, needs: &mut Needs) -> Result<Vec<EntityKey>, Refusal> {
    if !state.knows_entity(key) {
        needs.entities.insert(key.clone());
    }
    needs.tallies.insert(key.resource.clone());
    match state.referrers(key) {
        Ok(links) => Ok(links.iter().filter(|link| cascades(state, link)).map(|link| link.from.clone()).collect()),
        Err(Undecided::Unknown(more)) => {
            needs.add(*more);
            Ok(Vec::new())
        }
        Err(Undecided::Refused(refusal)) => Err(refusal),
    }
}

fn too_large() -> Refusal {
    Refusal::CascadeTooLarge { limit: MAX_CASCADE }
}

/// `root` and everything that cascades from it, each once, every child before its parents. The walk keeps
/// its own stack, so a long chain of parents cannot exhaust the thread's.
fn family(state: &State, root: &EntityKey) -> Result<Vec<EntityKey>, Undecided> {
    let unknown = unknown_family(state, root)?;
    if !unknown.entities.is_empty() || !unknown.referrers.is_empty() {
        return Err(Undecided::Unknown(Box::new(unknown)));
    }
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    let mut stack = vec![(root.clone(), false)];
    while let Some((key, is_expanded)) = stack.pop() {
        if is_expanded {
            order.push(key);
            continue;
        }
        if !seen.insert(key.clone()) {
            continue;
        }
        stack.push((key.clone(), true));
        for link in state.referrers(&key)?.iter().rev().filter(|link| cascades(state, link)) {
            if !seen.contains(&link.from) && state.live(&link.from)?.is_some() {
                stack.push((link.from.clone(), false));
            }
        }
    }
    Ok(order)
}

fn cascades(state: &State, link: &Link) -> bool {
    on_delete(state, link) == Some(OnDelete::Cascade)
}

/// Entities that the key does not cover hold as well as others, and are not named.
fn refuse_when_held(state: &State, family: &[EntityKey], bounds: &Bounds) -> Result<(), Undecided> {
    let going: BTreeSet<&EntityKey> = family.iter().collect();
    let (mut is_held, mut references) = (false, Vec::new());
    for key in family {
        for link in state.referrers(key)? {
            let holds = on_delete(state, link) == Some(OnDelete::Restrict) && !going.contains(&link.from);
            is_held |= holds;
            if holds && references.len() < MAX_NAMED && bounds.covers(&link.from.resource) {
                let to = &link.to;
                references.push(NamedReference::new(&link.from, &link.member, to.resource.as_str(), to.id.as_str()));
            }
        }
    }
    if is_held { Err(Refusal::StillReferenced { references }.into()) } else { Ok(()) }
}

fn on_delete(state: &State, link: &Link) -> Option<OnDelete> {
    let declared = state.catalog().referrers(&link.to.resource).iter();
    let mut matching =
        declared.filter(|(from, reference)| *from == link.from.resource && reference.member == link.member);
    matching.next().map(|(_, reference)| reference.on_delete)
}
