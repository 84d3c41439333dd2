//! A test of random histories against a plain model of a queue with scopes.

use std::collections::{HashMap, HashSet};

use super::rig::{Fifo, fused, object};
use deltafifo::{DeltaObject, DeltaType, KeyScope, RelistError};

/// The cause of a deletion, in ascending order: if a key is deleted several times in a row, the
/// deletion with the greatest cause is handed out.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    ScopeRemoved,
    Unlisted,
    Watched,
}

/// A plain model of a queue with scopes.
#[derive(Default)]
struct Model {
    /// The objects that are stored once everything is handled.
    stored: HashMap<String, u64>,
    /// The keys that are stored now.
    handled: HashSet<String>,
    /// The keys with pending deltas, each with the cause of its deletion, or with `None` if its
    /// newest delta is not a deletion.
    pending: HashMap<String, Option<Cause>>,
    /// The open relists by scope, each with the keys that it has listed or that were written since
    /// it began.
    open: HashMap<usize, HashSet<String>>,
}

impl Model {
    fn write(&mut self, scope: usize, key: &str, version: u64) {
        self.stored.insert(key.to_owned(), version);
        self.pending.insert(key.to_owned(), None);
        if let Some(listed) = self.open.get_mut(&scope) {
            listed.insert(key.to_owned());
        }
    }

    fn delete(&mut self, key: &str, cause: Cause) {
        if !self.exists(key) {
            return;
        }
        self.stored.remove(key);
        let newest = self.pending.entry(key.to_owned()).or_default();
        *newest = (*newest).max(Some(cause));
    }

    fn exists(&self, key: &str) -> bool {
        self.handled.contains(key) || self.pending.contains_key(key)
    }

    /// Deletes the keys of a scope that are not listed. Returns their number.
    fn sweep(&mut self, scope: usize, listed: &HashSet<String>, cause: Cause) -> usize {
        let keys = NAMES.map(|name| format!("{}/{name}", NAMESPACES[scope]));
        let swept = |key: &&String| self.exists(key) && !listed.contains(*key);
        let swept: Vec<_> = keys.iter().filter(swept).cloned().collect();
        for key in &swept {
            self.delete(key, cause);
        }
        swept.len()
    }

    fn commit(&mut self, scope: usize) -> usize {
        let listed = self.open.remove(&scope).expect("the relist is open");
        self.sweep(scope, &listed, Cause::Unlisted)
    }

    fn remove(&mut self, scope: usize) -> usize {
        self.open.remove(&scope);
        self.sweep(scope, &HashSet::new(), Cause::ScopeRemoved)
    }

    /// Handles all pending deltas. Returns the handled keys, each with the cause of its deletion,
    /// or with `None` if its newest delta is not a deletion.
    fn handle(&mut self) -> HashMap<String, Option<Cause>> {
        self.handled = self.stored.keys().cloned().collect();
        std::mem::take(&mut self.pending)
    }
}

/// Handles all pending deltas. Returns the handled keys, each with the cause of its deletion, or
/// with `None` if its newest delta is not a deletion.
fn drain_causes(fifo: &Fifo) -> HashMap<String, Option<Cause>> {
    let mut popped = HashMap::new();
    while let Some(mut item) = fifo.try_pop() {
        let newest = item.deltas().newest().unwrap();
        let cause = match &newest.object {
            _ if newest.kind != DeltaType::Deleted => None,
            DeltaObject::Object(_) => Some(Cause::Watched),
            DeltaObject::Tombstone(last) if last.scope_removed => Some(Cause::ScopeRemoved),
            DeltaObject::Tombstone(_) => Some(Cause::Unlisted),
        };
        popped.insert(item.key().to_owned(), cause);
        item.apply(|_| ()).unwrap();
    }
    popped
}

const NAMESPACES: [&str; 3] = ["blue", "green", "red"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn random_histories_of_three_scopes_match_the_model() {
    let mut causes = HashSet::new();
    for seed in 1..=if cfg!(miri) { 2 } else { 600 } {
        let mut state = seed;
        let mut random = move |below: u64| {
            state = u64::wrapping_mul(state, 6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((state >> 33) % below).unwrap()
        };
        let fifo = fused();
        let mut scopes = NAMESPACES.map(|name| fifo.add_scope(KeyScope::namespace(name)).unwrap());
        let mut relists: [Option<_>; 3] = [None, None, None];
        let mut model = Model::default();
        for version in 1..120 {
            let (scope, name) = (random(3), NAMES[random(5)]);
            let key = format!("{}/{name}", NAMESPACES[scope]);
            match random(11) {
                0 | 1 => {
                    // Supersedes the open relist, whose listed keys no longer count.
                    relists[scope] = Some(fifo.begin_replace_in(&scopes[scope]));
                    model.open.insert(scope, HashSet::new());
                }
                2 | 3 => {
                    if let Some(relist) = &mut relists[scope] {
                        let page = vec![object(NAMESPACES[scope], name, version)];
                        assert!(relist.offer(page).unwrap().is_empty());
                        model.write(scope, &key, version);
                    }
                }
                4 => {
                    if let Some(relist) = relists[scope].take() {
                        let committed = relist.commit(&version.to_string()).unwrap();
                        assert_eq!(committed.deleted, model.commit(scope), "seed {seed}");
                    }
                }
                5 => {
                    if relists[scope].take().is_some() {
                        model.open.remove(&scope);
                    }
                }
                6 | 7 => {
                    fifo.update(object(NAMESPACES[scope], name, version)).unwrap();
                    model.write(scope, &key, version);
                }
                8 => {
                    fifo.delete(object(NAMESPACES[scope], name, version)).unwrap();
                    model.delete(&key, Cause::Watched);
                }
                // Seldom, because it deletes everything.
                9 if random(3) == 0 => {
                    let removed = fifo.remove_scope(&scopes[scope]).unwrap();
                    assert_eq!(removed.deleted, model.remove(scope), "seed {seed}");
                    if let Some(relist) = relists[scope].take() {
                        assert!(matches!(relist.commit("1"), Err(RelistError::Superseded)));
                    }
                    scopes[scope] = fifo.add_scope(KeyScope::namespace(NAMESPACES[scope])).unwrap();
                }
                _ => {
                    let popped = drain_causes(&fifo);
                    causes.extend(popped.values().flatten().copied());
                    assert_eq!(popped, model.handle(), "seed {seed}");
                }
            }
        }
        drop(relists);
        assert_eq!(drain_causes(&fifo), model.handle(), "seed {seed}");
        let stored = fifo.store().list();
        let stored: HashMap<_, _> = stored
            .iter()
            .map(|object| {
                (
                    format!("{}/{}", object.namespace, object.name),
                    object.version.parse::<u64>().unwrap(),
                )
            })
            .collect();
        assert_eq!(stored, model.stored, "seed {seed}");
    }
    assert!(cfg!(miri) || causes.len() == 3, "every cause occurs");
}
