//! The garbage collector, and the deletion of the contents of namespaces.
//!
//! Both work as the controllers of a real cluster do, but as a part of the write that gives them
//! work: [`Store::record`](crate::store::Store) notes it, and [`run`] does it before the lock of
//! the store is released. So their result is there when the response to the write arrives, and
//! their order depends on nothing but the order of writes. Each of their steps is a write of its
//! own, with a version and a change that watches get.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::Resource;
use crate::change;
use crate::delete::{self, Deletion, FOREGROUND, ORPHAN, Propagation, spec_finalizers};
use crate::object::{Draft, Fields, Key, Object, is_own_uid, text};
use crate::steps::Counted;
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
    /// The dependents whose reference blocks the deletion of an owner, by the owner's uid. Without
    /// them, the end of each dependent would need a search among all others.
    blockers: HashMap<String, BTreeSet<Id>>,
    /// The namespaces that are being deleted, with the index of their collection.
    terminating: BTreeMap<String, usize>,
    /// The objects that are being deleted and wait for their dependents, by their uids.
    waiting: HashMap<String, Id>,
    pending: VecDeque<(Task, Id)>,
    /// The number of objects that were examined.
    #[cfg(test)]
    examined: usize,
}

/// The work that a change has caused, for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Examine an object that has owners.
    Examine,
    /// Begin with the dependents of an object that waits for them.
    Begin,
    /// End the deletion of an object that waits for its dependents, if none blocks it.
    End,
    /// Delete the objects in a namespace.
    Empty,
    /// Delete an object in a namespace that is being deleted.
    Delete,
    /// End the deletion of a namespace, if it is empty.
    Finish,
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
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        let id = (place, key.clone());
        let is_deleting = after.is_some_and(|object| object.draft.is_deleting());
        let mut begins = false;
        if resource.is_namespace() && is_deleting {
            begins = self.terminating.insert(key.name.clone(), place).is_none();
        } else if resource.is_namespace() {
            self.terminating.remove(&key.name);
        }
        if !self.is_on {
            return;
        }
        let uid = after.or(before).map_or("", |object| object.uid());
        let waits_for = |object: Option<&Arc<Object>>| object.and_then(|known| waits(&known.draft));
        if let Some(finalizer) = waits_for(after) {
            self.waiting.insert(uid.to_owned(), id.clone());
            if waits_for(before) != Some(finalizer) {
                self.pending.push_back((Task::Begin, id.clone()));
            }
        } else if !self.waiting.is_empty() {
            self.waiting.remove(uid);
        }
        if after.is_none() {
            let dependents = self.dependents.get(uid).into_iter().flatten();
            self.pending.extend(dependents.map(|id| (Task::Examine, id.clone())));
        }
        self.note_owners(&id, change);
        if let Some(place) = self.terminating.get(&key.namespace) {
            self.pending.push_back(match after {
                Some(_) => (Task::Delete, id.clone()),
                None => (Task::Finish, (*place, namespace_key(&key.namespace))),
            });
        }
        if resource.is_namespace() && is_deleting {
            self.pending.push_back((if begins { Task::Empty } else { Task::Finish }, id));
        }
    }

    /// Records the owners of a changed object.
    fn note_owners(&mut self, id: &Id, change: &Change) {
        let (before, now) = (references(change.before.as_ref()), references(change.after.as_ref()));
        for (uid, blocks) in &before {
            self.pending.extend(self.waiting.get(uid).map(|id| (Task::End, id.clone())));
            if !now.contains_key(uid) {
                remove(&mut self.dependents, uid, id);
            }
            if *blocks && now.get(uid) != Some(&true) {
                remove(&mut self.blockers, uid, id);
            }
        }
        for (uid, blocks) in &now {
            self.dependents.entry(uid.clone()).or_default().insert(id.clone());
            if *blocks {
                self.blockers.entry(uid.clone()).or_default().insert(id.clone());
            }
        }
        if !now.is_empty() {
            self.pending.push_back((Task::Examine, id.clone()));
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<Id> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }
}

/// Returns the uids of an object's owners, with whether the object blocks their deletion.
fn references(object: Option<&Arc<Object>>) -> BTreeMap<String, bool> {
    let mut references = BTreeMap::new();
    for owner in object.into_iter().flat_map(|object| owners(&object.draft)) {
        let blocks = owner.get("blockOwnerDeletion") == Some(&Value::Bool(true));
        *references.entry(text(owner, "uid").to_owned()).or_default() |= blocks;
    }
    references
}

/// Removes an object from the set of an owner, and the set if it is empty.
fn remove(sets: &mut HashMap<String, BTreeSet<Id>>, uid: &str, id: &Id) {
    if let Some(set) = sets.get_mut(uid) {
        set.remove(id);
        if set.is_empty() {
            sets.remove(uid);
        }
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

/// Returns the finalizer of the collector for which an object that is being deleted waits.
fn waits(draft: &Draft) -> Option<&'static str> {
    let finalizer = [ORPHAN, FOREGROUND].into_iter().find(|name| draft.has_finalizer(name));
    finalizer.filter(|_| draft.is_deleting())
}

/// Does the work that the last write has caused, until there is no more. Takes time in proportion
/// to the number of changes and of the dependents and contents of deleted objects.
pub(crate) fn run(store: &mut Store) {
    while let Some((task, (place, key))) = store.collector.pending.pop_front() {
        let Some(object) = store.collections[place].stored.get(&key).map(Arc::clone) else {
            continue;
        };
        match (task, waits(&object.draft)) {
            (Task::Examine, _) => examine(store, place, &object),
            (Task::Begin, Some(ORPHAN)) => orphan_dependents(store, place, &object),
            (Task::Begin, Some(_)) => delete_dependents(store, place, &object),
            (Task::End, Some(FOREGROUND)) => end_foreground(store, place, &object),
            (Task::Begin | Task::End, _) => {}
            (Task::Empty, _) => empty_namespace(store, place, &key),
            (Task::Delete, _) => delete_content(store, place, &key),
            (Task::Finish, _) => finish_namespace(store, place, &key),
        }
    }
}

/// Deletes the objects in a namespace.
fn empty_namespace(store: &mut Store, place: usize, key: &Key) {
    for other in 0..store.collections.len() {
        let inside: Vec<Key> = contents(store, other, &key.name).cloned().collect();
        for inside in inside {
            delete_content(store, other, &inside);
        }
    }
    finish_namespace(store, place, key);
}

/// Returns the keys of the objects of one collection in a namespace.
fn contents<'a>(store: &'a Store, place: usize, name: &'a str) -> impl Iterator<Item = &'a Key> {
    let collection = &store.collections[place];
    let first = Key { namespace: name.to_owned(), name: String::new() };
    let inside = collection.stored.range(first..).map(|(key, _)| key);
    inside.take_while(move |key| key.namespace == name)
}

/// Deletes an object in a namespace that is being deleted.
fn delete_content(store: &mut Store, place: usize, key: &Key) {
    #[cfg(test)]
    {
        store.collector.examined += 1;
    }
    // A grace period is not cut short, as in the real server.
    let current = store.collections[place].stored(key);
    if let Some(current) = current.filter(|current| !current.object.draft.is_deleting()) {
        delete::delete(store, place, current, Deletion::default());
    }
}

/// Removes the finalizers from the specification of a namespace that is being deleted, if it is
/// empty.
fn finish_namespace(store: &mut Store, place: usize, key: &Key) {
    let is_empty = |other| contents(store, other, &key.name).next().is_none();
    if !(0..store.collections.len()).all(is_empty) {
        return;
    }
    let Some(current) = store.collections[place].stored(key) else { return };
    let mut draft = current.object.draft.clone();
    if !draft.is_deleting() {
        return;
    }
    if !spec_finalizers(&draft).is_empty()
        && let Some(Value::Object(spec)) = draft.rest.get_mut("spec")
    {
        spec.remove("finalizers");
    }
    change::put(store, place, current, draft);
}

/// Removes an object from the owners of its dependents, and then its finalizer.
fn orphan_dependents(store: &mut Store, place: usize, owner: &Object) {
    for (other, key) in store.collector.dependents_of(owner.uid()) {
        keep_owners(store, other, &key, |reference| text(reference, "uid") != owner.uid());
    }
    remove_finalizer(store, place, &owner.key, ORPHAN);
}

/// Deletes the dependents of an object, and ends its deletion if none is left that blocks it.
fn delete_dependents(store: &mut Store, place: usize, owner: &Object) {
    for (other, key) in store.collector.dependents_of(owner.uid()) {
        if let Some(dependent) = store.collections[other].stored.get(&key).map(Arc::clone) {
            examine(store, other, &dependent);
        }
    }
    end_foreground(store, place, owner);
}

/// Removes the finalizer of an object that waits for its dependents, if none blocks its deletion.
fn end_foreground(store: &mut Store, place: usize, owner: &Object) {
    if !store.collector.blockers.contains_key(owner.uid()) {
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
    #[cfg(test)]
    {
        store.collector.examined += 1;
    }
    let draft = &object.draft;
    if draft.is_deleting() {
        return;
    }
    let states: Vec<(String, Owner)> = owners(draft)
        .map(|owner| (text(owner, "uid").to_owned(), state(store, object, owner)))
        .collect();
    let has = |one: Owner| states.iter().any(|(_, state)| *state == one);
    if has(Owner::Exists) {
        if has(Owner::Gone) || has(Owner::Waits) {
            let existing = states.iter().filter(|(_, state)| *state == Owner::Exists);
            let existing: HashSet<Counted<&str>> =
                existing.map(|(uid, _)| Counted(uid.as_str())).collect();
            keep_owners(store, place, &object.key, |reference| {
                existing.contains(&Counted(text(reference, "uid")))
            });
        }
        return;
    }
    if states.is_empty() {
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
        None if collection.generators.all.is_empty() && is_own_uid(uid, store.version) => {
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

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::{Value, json};

    use crate::request::Request;
    use crate::steps::assert_linear;
    use crate::{ApiServer, Resource, answer};

    const COUNT: usize = 100;

    fn map(name: &str, metadata: &Value) -> Value {
        let mut map = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata });
        map["metadata"]["name"] = name.into();
        map
    }

    fn server() -> ApiServer {
        let maps = [Resource::config_maps(), Resource::namespaces()];
        ApiServer::builder().resources(maps).controllers(true).build()
    }

    fn name(number: usize) -> String {
        format!("{number:03}")
    }

    fn examined(server: &ApiServer) -> usize {
        server.state.store.lock().collector.examined
    }

    /// Deletes an object, and lets it wait for its dependents.
    fn delete(server: &ApiServer, path: &str) {
        let (parts, ()) = http::Request::delete(path).body(()).unwrap().into_parts();
        let options = json!({ "propagationPolicy": "Foreground" }).to_string();
        let answer = answer::answer(&server.state, &Request::read(&parts), options.as_bytes(), 0);
        assert_eq!(answer.status(), StatusCode::OK);
    }

    /// Removes the finalizers of all objects, one after the other.
    fn release(server: &ApiServer, namespace: &str, metadata: &Value) {
        for number in 0..COUNT {
            let mut metadata = metadata.clone();
            metadata["namespace"] = namespace.into();
            metadata["finalizers"] = Value::Null;
            server.apply(map(&name(number), &metadata)).unwrap();
        }
    }

    #[test]
    fn dependents_with_finalizers_are_examined_a_few_times_each() {
        let server = server();
        let finalizers = json!(["example.com/a"]);
        let maps = Resource::config_maps();
        server.apply(map("owner", &json!({}))).unwrap();
        let owner = server.get(&maps, "default", "owner").unwrap();
        let owners = json!([{
            "kind": "ConfigMap", "apiVersion": "v1", "name": "owner",
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
        }]);
        let metadata = json!({ "ownerReferences": owners, "finalizers": finalizers });
        for number in 0..COUNT {
            server.apply(map(&name(number), &metadata)).unwrap();
        }
        delete(&server, "/api/v1/namespaces/default/configmaps/owner");
        let dependent = server.get(&maps, "default", &name(COUNT - 1)).unwrap();
        assert!(dependent["metadata"]["deletionTimestamp"].is_string());
        release(&server, "default", &metadata);
        assert!(server.get(&maps, "default", "owner").is_none());
        assert!(examined(&server) <= 5 * COUNT, "{}", examined(&server));
    }

    #[test]
    fn references_to_owners_are_compared_a_few_times_each() {
        let server = server();
        let maps = Resource::config_maps();
        server.apply(map("owner", &json!({}))).unwrap();
        let owner = server.get(&maps, "default", "owner").unwrap();
        let reference = |uid: &Value| json!({ "kind": "ConfigMap", "apiVersion": "v1", "name": "owner", "uid": uid });
        // The server has not given these uids, so their owners count as existing.
        let mut owners: Vec<Value> =
            (0..COUNT).map(|number| reference(&name(number).into())).collect();
        owners.push(reference(&owner["metadata"]["uid"]));
        server.apply(map("dependent", &json!({ "ownerReferences": owners }))).unwrap();
        assert_linear(COUNT, || {
            server.delete(&maps, "default", "owner").unwrap();
        });
        let left = server.get(&maps, "default", "dependent").unwrap();
        assert_eq!(left["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(COUNT));
    }

    #[test]
    fn contents_of_a_namespace_are_examined_a_few_times_each() {
        let server = server();
        let namespace = json!({
            "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": "shop" },
            "spec": { "finalizers": ["kubernetes"] },
        });
        server.apply(namespace).unwrap();
        let metadata = json!({ "namespace": "shop", "finalizers": ["example.com/a"] });
        for number in 0..COUNT {
            server.apply(map(&name(number), &metadata)).unwrap();
        }
        delete(&server, "/api/v1/namespaces/shop");
        release(&server, "shop", &metadata);
        assert!(server.get(&Resource::namespaces(), "", "shop").is_none());
        assert!(examined(&server) <= 5 * COUNT, "{}", examined(&server));
    }
}
