//! The effects of writes: how the next stored object follows from the current one and the
//! requested one.

use std::sync::Arc;

use crate::Resource;
use crate::object::{Draft, Key, Object, text};
use crate::server::Shared;
use crate::status::{self, Refused};
use crate::store::{Current, Store};

/// The metadata fields that only the server writes. An update keeps their values.
const KEPT: [&str; 4] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
/// The message of the refusal of an object whose namespace is not that of the request.
const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";
/// The letters of generated names, as in the real server. There are no vowels, so that the names
/// contain no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the current time in the format of object timestamps.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Shared {
    /// Calls `act` with the locked store and the current state of `key`. If the resource has
    /// generated objects, the user's function that produces them runs first, with no lock held.
    pub(crate) fn with_current<R>(
        &self,
        place: usize,
        key: &Key,
        act: impl FnOnce(&mut Store, Option<Current>) -> R,
    ) -> R {
        let done = loop {
            let generators = Arc::clone(&self.store.lock().collections[place].generators);
            let (parts, generated) = (generators.parts.len(), generators.find(key));
            // This reference is released before `act` runs. While there is a second reference,
            // `hide` has to copy the map of hidden objects.
            drop(generators);
            let mut store = self.store.lock();
            let collection = &store.collections[place];
            // The key may belong to a generator that was added while the lock was released. In
            // that case the search is repeated.
            if collection.generators.parts.len() == parts {
                let current = collection.current(key, generated);
                break act(&mut store, current);
            }
        };
        // The write may have ended watches that are too far behind.
        self.pulse();
        done
    }

    /// Returns the key of a new object, from its metadata and, if the request has one, the
    /// namespace of the request.
    pub(crate) fn key_of(
        &self,
        draft: &Draft,
        resource: &Resource,
        requested: Option<&str>,
    ) -> Refused<Key> {
        let named = text(&draft.metadata, "namespace");
        let namespace = match requested {
            _ if !resource.is_namespaced() => "",
            Some(requested) => requested,
            None if named.is_empty() => "default",
            None => named,
        };
        if !named.is_empty() && named != namespace {
            return Err(Box::new(status::bad_request(OTHER_NAMESPACE)));
        }
        let name = match (text(&draft.metadata, "name"), text(&draft.metadata, "generateName")) {
            ("", "") => {
                let fault = "Required value: name or generateName is required";
                return Err(Box::new(status::invalid(resource, "", "metadata.name", fault)));
            }
            ("", prefix) => format!("{prefix}{}", suffix(self.store.lock().next_name())),
            (name, _) => name.to_owned(),
        };
        for part in [name.as_str(), namespace] {
            if part.contains(['/', '%']) || part == "." || part == ".." || part.len() > 253 {
                let fault = format!(
                    "Invalid value: {part:?}: must have at most 253 characters, none of them '/' or '%'"
                );
                return Err(Box::new(status::invalid(resource, &name, "metadata.name", &fault)));
            }
        }
        Ok(Key { namespace: namespace.to_owned(), name })
    }
}

/// Returns a text of five of the [`LETTERS`], which is different for each number below 27^5.
fn suffix(mut number: usize) -> String {
    let letter = |_| {
        let letter = LETTERS[number % LETTERS.len()];
        number /= LETTERS.len();
        char::from(letter)
    };
    (0..5).map(letter).collect()
}

/// Stores a new object.
pub(crate) fn create(store: &mut Store, place: usize, key: Key, mut draft: Draft) -> Arc<Object> {
    draft.stamp(store.version + 1, &now());
    store.put(place, key, None, draft)
}

/// Replaces the object with the draft. Writes nothing if they are equal. Deletes the object if the
/// draft removes the last finalizer that delayed its deletion.
pub(crate) fn replace(
    store: &mut Store,
    place: usize,
    current: Current,
    mut draft: Draft,
) -> Arc<Object> {
    let before = Arc::clone(&current.object);
    for field in KEPT {
        match before.draft.metadata.get(field) {
            Some(value) => draft.metadata.insert(field.to_owned(), value.clone()),
            None => draft.metadata.remove(field),
        };
    }
    let same = draft.clone().seal(before.key.clone(), before.version);
    if same.draft == before.draft {
        return before;
    }
    if draft.metadata.contains_key("deletionTimestamp") && !draft.has_finalizers() {
        return store.remove(place, current);
    }
    store.put(place, before.key.clone(), Some(current), draft)
}

/// Deletes the object, or marks it for deletion if it has finalizers. Returns its last or current
/// state, and whether it is deleted.
pub(crate) fn delete(store: &mut Store, place: usize, current: Current) -> (Arc<Object>, bool) {
    let before = Arc::clone(&current.object);
    if !before.draft.has_finalizers() {
        return (store.remove(place, current), true);
    }
    if before.draft.metadata.contains_key("deletionTimestamp") {
        return (before, false);
    }
    let mut draft = before.draft.clone();
    draft.metadata.insert("deletionTimestamp".to_owned(), now().into());
    draft.metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
    (store.put(place, before.key.clone(), Some(current), draft), false)
}

/// Refuses a draft whose name or namespace is not the key's.
pub(crate) fn check_name(key: &Key, draft: &Draft) -> Refused<()> {
    let (name, namespace) = (text(&draft.metadata, "name"), text(&draft.metadata, "namespace"));
    if name != key.name {
        let known = &key.name;
        let message =
            format!("the name of the object ({name}) does not match the name on the URL ({known})");
        return Err(Box::new(status::bad_request(&message)));
    }
    if !namespace.is_empty() && namespace != key.namespace {
        return Err(Box::new(status::bad_request(OTHER_NAMESPACE)));
    }
    Ok(())
}

/// Refuses the write if the object's uid or version is not the one that the request expects. An
/// empty string matches any.
pub(crate) fn check_same(
    resource: &Resource,
    current: &Object,
    uid: &str,
    version: &str,
) -> Refused<()> {
    let name = &current.key.name;
    if !uid.is_empty() && uid != current.uid() {
        let known = current.uid();
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {known}");
        return Err(Box::new(status::conflict_because(resource, name, &why)));
    }
    if !version.is_empty() && version != current.version.to_string() {
        return Err(Box::new(status::conflict(resource, name)));
    }
    Ok(())
}
