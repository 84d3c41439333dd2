//! A breadth-first search of all states that events can lead to, for explorations of protocols.
//!
//! The search remembers the states that it has visited by fingerprints of 128 bits. Only the states
//! whose successors it has not visited are in memory as a whole. These may share equal [`Parts`].

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;

use foldhash::fast;
use foldhash::quality::FixedState;

/// The number of parts that are kept before those are forgotten that no state has.
const FEW_PARTS: usize = 1024;

/// The number of states that a search visited, and the first violation that it found, with the
/// events that lead to it.
pub(crate) struct SearchResult<E, V> {
    pub(crate) states: usize,
    pub(crate) violation: Option<(V, Vec<E>)>,
}

/// Visits `start` and every state that can be reached from it, those that fewer events lead to
/// first, until a state has a violation. `successors` calls its second argument with each event
/// that can happen in a state, and the state after it, always in the same order. States with equal
/// results of `fingerprint` are one state. `violation` is also given the number of states found so
/// far; `start` is not checked.
pub(crate) fn breadth_first<S: Clone, E, V>(
    start: S,
    fingerprint: impl Fn(&S) -> u128,
    successors: impl Fn(&S, &mut dyn FnMut(E, S)),
    violation: impl Fn(&S, usize) -> Option<V>,
) -> SearchResult<E, V> {
    let mut seen = HashSet::with_hasher(fast::FixedState::default());
    // For each state that was found after `start`, the number of the state before it, and which of
    // the successors of that it is. The number of `start` is 0.
    let mut reached: Vec<(u32, u32)> = Vec::new();
    let mut level = vec![(0, start.clone())];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (number, state) in level {
            let (mut found, mut at) = (None, 0);
            successors(&state, &mut |_, after| {
                let successor = at;
                at += 1;
                if found.is_some() || !seen.insert(fingerprint(&after)) {
                    return;
                }
                reached.push((number, successor));
                found = violation(&after, reached.len() + 1);
                let to = u32::try_from(reached.len()).expect("the states fit in memory");
                next.push((to, after));
            });
            if let Some(violation) = found {
                let states = reached.len() + 1;
                let events = history(start, &reached, successors);
                return SearchResult { states, violation: Some((violation, events)) };
            }
        }
        level = next;
    }
    SearchResult { states: reached.len() + 1, violation: None }
}

/// Returns the events that lead from `start` to the state that was reached last.
fn history<S, E>(
    start: S,
    reached: &[(u32, u32)],
    successors: impl Fn(&S, &mut dyn FnMut(E, S)),
) -> Vec<E> {
    let mut path = Vec::new();
    let mut at = reached.len();
    while at != 0 {
        let (before, successor) = reached[at - 1];
        path.push(successor);
        at = before as usize;
    }
    let mut state = start;
    let step = |successor| {
        let (mut taken, mut at) = (None, 0);
        successors(&state, &mut |event, after| {
            if at == successor {
                taken = Some((event, after));
            }
            at += 1;
        });
        let (event, after) = taken.expect("a state always has the same successors");
        state = after;
        event
    };
    path.into_iter().rev().map(step).collect()
}

/// Returns a hash of 128 bits: two of 64 bits with different seeds. If hashes were random, two of
/// 100 million values would have the same one with a probability of about 10⁻²³.
pub(crate) fn fingerprint(value: &impl Hash) -> u128 {
    let hash = |seed| u128::from(FixedState::with_seed(seed).hash_one(value));
    hash(1) << 64 | hash(2)
}

/// Parts of states, of which equal ones are in memory once. Parts with equal fingerprints are
/// equal.
pub(crate) struct Parts<T> {
    parts: HashMap<u128, Rc<T>, fast::FixedState>,
    /// The number of parts at which those are forgotten that no state has.
    full: usize,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self { parts: HashMap::default(), full: FEW_PARTS }
    }
}

impl<T: Hash> Parts<T> {
    /// Returns the fingerprint of a part, and the part that is in memory.
    pub(crate) fn share(&mut self, part: T) -> (u128, Rc<T>) {
        if self.parts.len() >= self.full {
            self.parts.retain(|_, part| Rc::strong_count(part) > 1);
            self.full = FEW_PARTS.max(2 * self.parts.len());
        }
        let fingerprint = fingerprint(&part);
        let shared = self.parts.entry(fingerprint).or_insert_with(|| Rc::new(part));
        (fingerprint, Rc::clone(shared))
    }
}
