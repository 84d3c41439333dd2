//! The garbage collector, and the deletion of the contents of namespaces.
//!
//! Both work as the controllers of a real cluster do, but as a part of the write that gives them
//! work: [`Store::record`](crate::store::Store) notes it, and [`run`] does it before the lock of
//! the store is released. So their result is there when the response to the write arrives, and
//! their order depends on nothing but the order of writes. Each of their steps is a write of its
//! own, with a version and a change that watches get.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::Resource;
use crate::change;
use crate::delete::{self, Deletion, FOREGROUND, ORPHAN, Propagation, spec_finalizers};
use crate::object::{Draft, Fields, Key, Object, is_own_uid, text};
use crate::store::{Change, Store};

const OWNERS: &str = "ownerReferences";

/// An object: the index of its collection in the store, and its key.
type Id = (usize, Key);

/// The relations of stored objects, and the objects that the collector has to examine.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    is_on: bool,
    /// The objects that have a reference to an owner, by the owner's uid. The order of a set makes
    /// the order of deletions the same in each run.
    dependents: HashMap<String, BTreeSet<Id>>,
    /// The namespaces that are being deleted, with the index of their collection.
    terminating: BTreeMap<String, usize>,
    /// The objects that are being deleted and wait for their dependents, by their uids.
    waiting: HashMap<String, Id>,
    pending: VecDeque<Id>,
}

impl Collector {
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Returns whether the collector deletes objects. If not, it only knows the namespaces that
    /// are being deleted.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(crate) fn is_terminating(&self, namespace: &str) -> bool {
        self.terminating.contains_key(namespace)
    }

    /// Records a change, and the work that follows from it.
    pub(crate) fn note(&mut self, place: usize, resource: &Resource, change: &Change) {
        let key = &change.key;
        let after = change.after.as_ref();
        if resource.is_namespace() {
            if after.is_some_and(|namespace| namespace.draft.is_deleting()) {
                self.terminating.insert(key.name.clone(), place);
            } else {
                self.terminating.remove(&key.name);
            }
        }
        if !self.is_on {
            return;
        }
        let id = (place, key.clone());
        let uid = after.or(change.before.as_ref()).map_or("", |object| object.uid());
        if after.is_some_and(|object| object.draft.is_deleting() && waits(&object.draft)) {
            self.waiting.insert(uid.to_owned(), id.clone());
            self.pending.push_back(id.clone());
        } else if !self.waiting.is_empty() {
            self.waiting.remove(uid);
        }
        if after.is_none() {
            self.pending.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        }
        self.note_owners(&id, change);
        if let Some(place) = self.terminating.get(&key.namespace) {
            self.pending.push_back((*place, namespace_key(&key.namespace)));
        }
        if resource.is_namespace() && self.terminating.contains_key(&key.name) {
            self.pending.push_back(id);
        }
    }

    /// Records the owners of a changed object.
    fn note_owners(&mut self, id: &Id, change: &Change) {
        let uids = |object: &Option<Arc<Object>>| -> Vec<String> {
            let owners = object.iter().flat_map(|object| owners(&object.draft));
            owners.map(|owner| text(owner, "uid").to_owned()).collect()
        };
        let (before, now) = (uids(&change.before), uids(&change.after));
        for uid in &before {
            self.pending.extend(self.waiting.get(uid).cloned());
            if !now.contains(uid)
                && let Some(dependents) = self.dependents.get_mut(uid)
            {
                dependents.remove(id);
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in &now {
            self.dependents.entry(uid.clone()).or_default().insert(id.clone());
        }
        if !now.is_empty() {
            self.pending.push_back(id.clone());
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<Id> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }
}

fn namespace_key(name: &str) -> Key {
    Key { namespace: String::new(), name: name.to_owned() }
}

/// Returns the references to owners.
fn owners(draft: &Draft) -> impl Iterator<Item = &Fields> {
    let all = draft.metadata.get(OWNERS).and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_object)
}

/// Returns whether an object that is being deleted has a finalizer of the collector.
fn waits(draft: &Draft) -> bool {
    draft.has_finalizer(FOREGROUND) || draft.has_finalizer(ORPHAN)
}

/// Does the work that the last write has caused, until there is no more.
pub(crate) fn run(store: &mut Store) {
    while let Some((place, key)) = store.collector.pending.pop_front() {
        let Some(object) = store.collections[place].stored.get(&key).map(Arc::clone) else {
            continue;
        };
        let draft = &object.draft;
        if draft.is_deleting() && store.collections[place].resource.is_namespace() {
            empty_namespace(store, place, &key);
        } else if draft.is_deleting() && draft.has_finalizer(ORPHAN) {
            orphan_dependents(store, place, &object);
        } else if draft.is_deleting() && draft.has_finalizer(FOREGROUND) {
            delete_dependents(store, place, &object);
        } else {
            examine(store, place, &object);
        }
    }
}

/// Deletes the objects in a namespace, and the namespace when it is empty.
fn empty_namespace(store: &mut Store, place: usize, key: &Key) {
    let mut is_empty = true;
    for other in 0..store.collections.len() {
        if !store.collections[other].resource.is_namespaced() {
            continue;
        }
        let first = Key { namespace: key.name.clone(), name: String::new() };
        let inside = store.collections[other].stored.range(first..);
        let inside = inside.take_while(|(inside, _)| inside.namespace == key.name);
        let inside: Vec<(Key, bool)> =
            inside.map(|(key, object)| (key.clone(), object.draft.is_deleting())).collect();
        for (inside, is_deleting) in inside {
            // A grace period is not cut short, as in the real server.
            if !is_deleting && let Some(current) = store.collections[other].stored(&inside) {
                delete::delete(store, other, current, Deletion::default());
            }
            is_empty &= store.collections[other].stored(&inside).is_none();
        }
    }
    if is_empty && let Some(current) = store.collections[place].stored(key) {
        let mut draft = current.object.draft.clone();
        if !spec_finalizers(&draft).is_empty()
            && let Some(Value::Object(spec)) = draft.rest.get_mut("spec")
        {
            spec.remove("finalizers");
        }
        change::put(store, place, current, draft);
    }
}

/// Removes an object from the owners of its dependents, and then its finalizer.
fn orphan_dependents(store: &mut Store, place: usize, owner: &Object) {
    for (other, key) in store.collector.dependents_of(owner.uid()) {
        keep_owners(store, other, &key, |reference| text(reference, "uid") != owner.uid());
    }
    remove_finalizer(store, place, &owner.key, ORPHAN);
}

/// Deletes the dependents of an object, and removes its finalizer when none is left that blocks
/// its deletion.
fn delete_dependents(store: &mut Store, place: usize, owner: &Object) {
    let mut is_blocked = false;
    for (other, key) in store.collector.dependents_of(owner.uid()) {
        let Some(dependent) = store.collections[other].stored.get(&key).map(Arc::clone) else {
            continue;
        };
        examine(store, other, &dependent);
        let is_left = store.collections[other].stored.get(&key).is_some_and(|dependent| {
            owners(&dependent.draft).any(|reference| {
                text(reference, "uid") == owner.uid()
                    && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
            })
        });
        is_blocked |= is_left;
    }
    if !is_blocked {
        remove_finalizer(store, place, &owner.key, FOREGROUND);
    }
}

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It exists, or the server cannot know whether it does.
    Exists,
    /// It is being deleted and waits for its dependents.
    Waits,
    /// It does not exist.
    Gone,
}

/// Deletes an object whose owners are all gone or wait for it. If only some are, removes them from
/// its owners.
fn examine(store: &mut Store, place: usize, object: &Object) {
    let draft = &object.draft;
    if draft.is_deleting() && !draft.has_finalizer(FOREGROUND) {
        return;
    }
    let states: Vec<(String, Owner)> = owners(draft)
        .map(|owner| (text(owner, "uid").to_owned(), state(store, object, owner)))
        .collect();
    let has = |one: Owner| states.iter().any(|(_, state)| *state == one);
    if has(Owner::Exists) {
        if has(Owner::Gone) || has(Owner::Waits) {
            keep_owners(store, place, &object.key, |reference| {
                let uid = text(reference, "uid");
                states.iter().any(|(known, state)| known == uid && *state == Owner::Exists)
            });
        }
        return;
    }
    if states.is_empty() || draft.is_deleting() {
        return;
    }
    let dependents = store.collector.dependents_of(object.uid());
    let deletion = if has(Owner::Waits) && !dependents.is_empty() {
        let is_circle = dependents.iter().any(|(other, key)| {
            let dependent = store.collections[*other].stored.get(key);
            dependent.is_some_and(|dependent| dependent.draft.is_deleting())
        });
        if is_circle {
            unblock_owners(store, place, &object.key);
        }
        Deletion::with(Propagation::Foreground)
    } else {
        // Finalizers of the collector decide, otherwise the dependents follow in the background,
        // even those of a kind whose dependents a client's deletion keeps.
        Deletion::with(if draft.has_finalizer(ORPHAN) {
            Propagation::Orphan
        } else if draft.has_finalizer(FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        })
    };
    if let Some(current) = store.collections[place].stored(&object.key) {
        delete::delete(store, place, current, deletion);
    }
}

/// Returns the state of an owner of an object. An owner of a kind that is not served, a generated
/// object, and a uid that this server has not given count as existing.
fn state(store: &Store, object: &Object, owner: &Fields) -> Owner {
    let Some(place) = store.place_of_kind(text(owner, "kind"), text(owner, "apiVersion")) else {
        return Owner::Exists;
    };
    let collection = &store.collections[place];
    let is_namespaced = collection.resource.is_namespaced();
    if is_namespaced && object.key.namespace.is_empty() {
        return Owner::Exists;
    }
    let namespace = if is_namespaced { object.key.namespace.clone() } else { String::new() };
    let key = Key { namespace, name: text(owner, "name").to_owned() };
    let uid = text(owner, "uid");
    match collection.stored.get(&key).filter(|known| known.uid() == uid) {
        Some(known) if known.draft.is_deleting() && known.draft.has_finalizer(FOREGROUND) => {
            Owner::Waits
        }
        None if collection.generators.parts.is_empty() && is_own_uid(uid, store.version) => {
            Owner::Gone
        }
        Some(_) | None => Owner::Exists,
    }
}

/// Keeps only the references to owners for which `keeps` returns true.
fn keep_owners(store: &mut Store, place: usize, key: &Key, keeps: impl Fn(&Fields) -> bool) {
    edit_owners(store, place, key, |references| {
        references.retain(|reference| reference.as_object().is_some_and(&keeps));
    });
}

/// Lets the owners of an object be deleted before it.
fn unblock_owners(store: &mut Store, place: usize, key: &Key) {
    edit_owners(store, place, key, |references| {
        for reference in references.iter_mut().filter_map(Value::as_object_mut) {
            reference.insert("blockOwnerDeletion".to_owned(), false.into());
        }
    });
}

fn edit_owners(store: &mut Store, place: usize, key: &Key, edit: impl FnOnce(&mut Vec<Value>)) {
    let Some(current) = store.collections[place].stored(key) else { return };
    let mut draft = current.object.draft.clone();
    if let Some(Value::Array(references)) = draft.metadata.get_mut(OWNERS) {
        edit(references);
        if references.is_empty() {
            draft.metadata.remove(OWNERS);
        }
    }
    change::put(store, place, current, draft);
}

fn remove_finalizer(store: &mut Store, place: usize, key: &Key, finalizer: &str) {
    let Some(current) = store.collections[place].stored(key) else { return };
    let mut draft = current.object.draft.clone();
    let others: Vec<String> =
        draft.finalizers().filter(|name| *name != finalizer).map(str::to_owned).collect();
    draft.set_finalizers(others.iter().map(String::as_str));
    change::put(store, place, current, draft);
}
