//! What goes with a deleted entity: everything that refers to it with `cascade`, and what refers to
//! that. One reference with `restrict` from an entity that would stay refuses the whole delete.

use std::collections::BTreeSet;

use super::decide::{After, Effect};
use super::refusal::{Reference as NamedReference, Refusal};
use super::state::{Link, Needs, State, Undecided};
use super::types::OnDelete;
use crate::change::{EntityKey, Verb};

/// Most entities that one delete takes with it: as many as a batch may name, so that a transaction
/// stays bounded. Larger families are deleted child by child.
pub const MAX_CASCADE: usize = 10_000;

/// Most references that a refusal names.
const MAX_NAMED: usize = 10;

/// The tombstones of everything that goes with `root`, children before their parents, without `root`'s own.
pub fn children_first(state: &State, root: &EntityKey) -> Result<Vec<Effect>, Undecided> {
    if state.catalog().referrers(&root.resource).is_empty() {
        return Ok(Vec::new());
    }
    let order = family(state, root)?;
    refuse_when_held(state, &order)?;
    let children = order.into_iter().filter(|key| key != root);
    Ok(children.map(|key| Effect { key, verb: Verb::deleted(), after: After::Gone { kept: None } }).collect())
}

/// What of `root`'s family is not known yet, as far as the known part shows it: level by level, so that a
/// family costs one load for each generation. A family that is known to be too large needs nothing more:
/// it would be refused, and loading the rest of it could take the writer minutes.
pub fn unknown_family(state: &State, root: &EntityKey) -> Result<Needs, Refusal> {
    let mut needs = Needs::default();
    let mut seen = BTreeSet::from([root.clone()]);
    let mut waiting = vec![root.clone()];
    while let Some(key) = waiting.pop() {
        if !state.knows_entity(&key) {
            needs.entities.insert(key.clone());
        }
        needs.tallies.insert(key.resource.clone());
        match state.referrers(&key) {
            Ok(links) => {
                for link in links.iter().filter(|link| cascades(state, link)) {
                    if seen.insert(link.from.clone()) {
                        waiting.push(link.from.clone());
                    }
                }
                // One more than the limit, because `root` itself does not count.
                if seen.len() > MAX_CASCADE + 1 {
                    return Err(Refusal::CascadeTooLarge { limit: MAX_CASCADE });
                }
            }
            Err(Undecided::Unknown(more)) => needs.add(*more),
            Err(Undecided::Refused(refusal)) => return Err(refusal),
        }
    }
    Ok(needs)
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

fn refuse_when_held(state: &State, family: &[EntityKey]) -> Result<(), Undecided> {
    let going: BTreeSet<&EntityKey> = family.iter().collect();
    let mut references = Vec::new();
    for key in family {
        for link in state.referrers(key)? {
            let holds = on_delete(state, link) == Some(OnDelete::Restrict) && !going.contains(&link.from);
            if holds && references.len() < MAX_NAMED {
                let to = &link.to;
                references.push(NamedReference::new(&link.from, &link.member, to.resource.as_str(), to.id.as_str()));
            }
        }
    }
    if references.is_empty() { Ok(()) } else { Err(Refusal::StillReferenced { references }.into()) }
}

fn on_delete(state: &State, link: &Link) -> Option<OnDelete> {
    let declared = state.catalog().referrers(&link.to.resource).iter();
    let mut matching =
        declared.filter(|(from, reference)| *from == link.from.resource && reference.member == link.member);
    matching.next().map(|(_, reference)| reference.on_delete)
}
