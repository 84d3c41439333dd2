//! A breadth-first search of all states that events can lead to, for explorations of protocols.

use std::collections::HashSet;

/// The number of states that a search visited, and the first violation that it found, with the
/// events that lead to it.
pub(crate) struct SearchResult<E, V> {
    pub(crate) states: usize,
    pub(crate) violation: Option<(V, Vec<E>)>,
}

/// Visits `start` and every state that can be reached from it, those that fewer events lead to
/// first, until a state has a violation. `successors` calls its second argument with each event
/// that can happen in a state, and the state after it. States with equal results of `fingerprint`
/// are one state. `violation` is also given the number of states found so far; `start` is not
/// checked.
pub(crate) fn breadth_first<S, E: Copy, V>(
    start: S,
    fingerprint: impl Fn(&S) -> u64,
    successors: impl Fn(&S, &mut dyn FnMut(E, S)),
    violation: impl Fn(&S, usize) -> Option<V>,
) -> SearchResult<E, V> {
    let mut seen = HashSet::with_hasher(foldhash::fast::FixedState::default());
    // For each state that was found after `start`, the number of the state before it, and the
    // event. The number of `start` is 0.
    let mut reached: Vec<(u32, E)> = Vec::new();
    let mut level = vec![(0, start)];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (number, state) in level {
            let mut found = None;
            successors(&state, &mut |event, after| {
                if found.is_some() || !seen.insert(fingerprint(&after)) {
                    return;
                }
                reached.push((number, event));
                found = violation(&after, reached.len() + 1);
                let to = u32::try_from(reached.len()).expect("the states fit in memory");
                next.push((to, after));
            });
            if let Some(violation) = found {
                let mut events = Vec::new();
                let mut at = reached.len();
                while at != 0 {
                    let (before, event) = reached[at - 1];
                    events.push(event);
                    at = before as usize;
                }
                events.reverse();
                let states = reached.len() + 1;
                return SearchResult { states, violation: Some((violation, events)) };
            }
        }
        level = next;
    }
    SearchResult { states: reached.len() + 1, violation: None }
}
