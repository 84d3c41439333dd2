//! What a write does: the rules between what is there and what somebody wants.

use std::sync::Arc;

use crate::Resource;
use crate::object::{Draft, Key, Object, text};
use crate::server::Shared;
use crate::status::{self, Refused};
use crate::store::{Current, Store};

/// What only the server writes.
const KEPT: [&str; 4] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";
/// Of generated names, the real server's: no vowels, so no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Now, as objects say it.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Shared {
    /// Calls `act` with the store, locked, and what `key` is. The user's function, if objects are
    /// generated, runs before that, with nothing locked.
    pub(crate) fn with_current<R>(
        &self,
        place: usize,
        key: &Key,
        act: impl FnOnce(&mut Store, Option<Current>) -> R,
    ) -> R {
        let done = loop {
            let generators = Arc::clone(&self.store.lock().collections[place].generators);
            let (parts, born) = (generators.parts.len(), generators.find(key));
            // Or hiding a generated object would copy what else is hidden.
            drop(generators);
            let mut store = self.store.lock();
            let collection = &store.collections[place];
            // It may be one of those that came meanwhile.
            if collection.generators.parts.len() == parts {
                let current = collection.current(key, born);
                break act(&mut store, current);
            }
        };
        // A write ends the watches that are too far behind.
        self.pulse();
        done
    }

    /// Where a new object goes: by its metadata, and by the namespace that was asked for, if one
    /// was.
    pub(crate) fn key_of(
        &self,
        draft: &Draft,
        resource: &Resource,
        asked: Option<&str>,
    ) -> Refused<Key> {
        let said = text(&draft.metadata, "namespace");
        let namespace = match asked {
            _ if !resource.is_namespaced() => "",
            Some(asked) => asked,
            None if said.is_empty() => "default",
            None => said,
        };
        if !said.is_empty() && said != namespace {
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

/// Five letters, others for each number.
fn suffix(mut number: usize) -> String {
    let letter = |_| {
        let letter = LETTERS[number % LETTERS.len()];
        number /= LETTERS.len();
        char::from(letter)
    };
    (0..5).map(letter).collect()
}

/// A new object.
pub(crate) fn create(store: &mut Store, place: usize, key: Key, mut draft: Draft) -> Arc<Object> {
    draft.begin(store.version + 1, &now());
    store.put(place, key, None, draft)
}

/// The object becomes the draft. Nothing is written when it is that already; it is deleted when it
/// only waited for its last finalizer to go.
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

/// Deletes the object, or notes that it goes when its finalizers are gone. Says whether it is gone.
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

/// Refuses a draft of another object.
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

/// Refuses when the object is not the one, or not the version, that somebody means. `""` means any.
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
