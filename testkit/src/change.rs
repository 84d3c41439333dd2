//! The effects of writes: how the next stored object follows from the current one and the
//! requested one.

use std::sync::Arc;

use kube::core::Status;
use kube::core::response::reason;
use serde_json::{Value, json};

use crate::author::{Author, WritablePart};
use crate::known::Trait;
use crate::object::{Draft, Key, Object, text};
use crate::server::ServerState;
use crate::status::{self, Refused};
use crate::store::{Current, Store};
use crate::{Resource, apply, collect, definitions, delete, validate};

/// The metadata fields that only the server writes. An update keeps their values.
const KEPT: [&str; 4] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
/// The message of the refusal of an object whose namespace is not that of the request.
const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";
/// The largest number of bytes of a generated name that are from its prefix, as in the real server.
const LONGEST_PREFIX: usize = 58;
/// The letters of generated names, as in the real server. There are no vowels, so that the names
/// contain no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the current time in the format of object timestamps.
pub(crate) fn now() -> String {
    format(jiff::Timestamp::now())
}

/// Returns a time in the format of object timestamps.
pub(crate) fn format(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl ServerState {
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
            let (count, generated) = (generators.all.len(), generators.find(key));
            // This reference is released before `act` runs. While there is a second reference,
            // `hide` has to copy the map of hidden objects.
            drop(generators);
            let mut store = self.store.lock();
            let collection = &store.collections[place];
            // The key may belong to a generator that was added while the lock was released. In
            // that case the search is repeated.
            if collection.generators.all.len() == count {
                let current = collection.current(key, generated);
                let done = act(&mut store, current);
                collect::run(&mut store);
                definitions::register(&mut store, place);
                break done;
            }
        };
        // The write may have ended watches that are too far behind.
        self.pulse();
        done
    }

    /// Calls `create` with the key of a new object, and again with another one as long as its name
    /// is generated and another object has it. Only an object that is made uses up a generated
    /// name: `is_dry` says that none is.
    pub(crate) fn with_new_key<R>(
        &self,
        draft: &Draft,
        resource: &Resource,
        requested: Option<&str>,
        is_dry: bool,
        mut create: impl FnMut(&Key) -> Refused<R>,
    ) -> Refused<R> {
        if !text(&draft.metadata, "name").is_empty() {
            let key = key_of(draft, resource, requested, 0)?;
            let has_prefix = !text(&draft.metadata, "generateName").is_empty();
            let is_taken = |status: &Status| status.reason == reason::ALREADY_EXISTS;
            return create(&key).map_err(|refusal| {
                if has_prefix && is_taken(&refusal) {
                    Box::new(status::not_unique(*refusal))
                } else {
                    refusal
                }
            });
        }
        let mut number = self.store.lock().next_name();
        loop {
            match create(&key_of(draft, resource, requested, number)?) {
                Err(status) if status.reason == reason::ALREADY_EXISTS => number += 1,
                Ok(made) if !is_dry => {
                    self.store.lock().use_name(number);
                    return Ok(made);
                }
                made => return made,
            }
        }
    }
}

/// Returns the key of a new object, from its metadata and, if the request has one, the namespace of
/// the request. `number` is that of a generated name.
fn key_of(
    draft: &Draft,
    resource: &Resource,
    requested: Option<&str>,
    number: usize,
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
            let (reason, field) = ("FieldValueRequired", "metadata.name");
            return Err(Box::new(status::invalid_because(reason, resource, "", field, fault)));
        }
        ("", prefix) => {
            let mut ends = (0..=prefix.len().min(LONGEST_PREFIX)).rev();
            let end = ends.find(|end| prefix.is_char_boundary(*end)).unwrap_or_default();
            format!("{}{}", &prefix[..end], suffix(number))
        }
        (name, _) => name.to_owned(),
    };
    for part in [name.as_str(), namespace] {
        if part.contains(['/', '%']) || part == "." || part == ".." {
            let fault =
                format!("Invalid value: {part:?}: must not be '.' or '..', or contain '/' or '%'");
            return Err(Box::new(status::invalid(resource, &name, "metadata.name", &fault)));
        }
    }
    Ok(Key { namespace: namespace.to_owned(), name })
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

/// Stores a new object. Refuses an object whose namespace is being deleted, that is invalid, or
/// that exists: `current` is its state then. The order of these checks is the real server's.
pub(crate) fn create(
    store: &mut Store,
    place: usize,
    key: Key,
    current: Option<&Current>,
    mut draft: Draft,
    author: &Author<'_>,
) -> Refused<Arc<Object>> {
    let resource = Arc::clone(&store.collections[place].resource);
    if author.is_client() && store.collector.is_terminating(&key.namespace) {
        let refusal = status::namespace_terminating(&resource, &key.name, &key.namespace);
        return Err(Box::new(refusal));
    }
    if resource.is_definition() {
        definitions::check(&resource, &draft)?;
    }
    if author.is_client() {
        draft.normalize();
        validate::check_new(&resource, &key.name, &draft)?;
    }
    match current {
        None => {}
        Some(current) if current.object.draft.is_deleting() => {
            return Err(Box::new(status::being_deleted(&resource, &key.name)));
        }
        Some(_) => return Err(Box::new(status::already_exists(&resource, &key.name))),
    }
    draft.stamp(store.next_version(), &now());
    if author.is_client() {
        if resource.has_status() {
            draft.rest.remove("status");
        }
        if resource.is_namespace() {
            add_label(&key, &mut draft);
        }
    }
    let is_given = !author.is_client() && draft.metadata.contains_key("generation");
    if resource.has(Trait::Generation) && !is_given {
        draft.metadata.insert("generation".to_owned(), 1.into());
    }
    // An applied configuration has its managers already.
    if store.tracks_fields && author.is_client() && !draft.metadata.contains_key("managedFields") {
        apply::track(&resource, None, &mut draft, author);
    }
    // No manager has this part of the first state.
    if author.is_client() && resource.is_pod() {
        draft.rest.insert("status".to_owned(), json!({ "phase": "Pending" }));
    }
    if author.is_client() && resource.is_namespace() {
        draft.rest.insert("status".to_owned(), json!({ "phase": "Active" }));
        draft.rest.insert("spec".to_owned(), json!({ "finalizers": ["kubernetes"] }));
    }
    Ok(store.put(place, key, None, draft))
}

/// Adds the label that each namespace of a client has.
fn add_label(key: &Key, draft: &mut Draft) {
    let labels = draft.metadata.entry("labels").or_insert_with(|| json!({}));
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".to_owned(), key.name.as_str().into());
    }
}

/// Replaces the object with the parts of the draft that the author may write. Writes nothing if
/// they are equal. Deletes the object if the draft removes the last finalizer that delayed its
/// deletion.
pub(crate) fn replace(
    store: &mut Store,
    place: usize,
    current: Current,
    mut draft: Draft,
    author: &Author<'_>,
) -> Refused<Arc<Object>> {
    let resource = Arc::clone(&store.collections[place].resource);
    let before = &current.object.draft;
    if author.is_client() {
        draft.normalize();
    }
    keep_unwritable(&resource, before, &mut draft, author.part);
    // As in the real server, an object without managers gets none until it is applied.
    if before.metadata.contains_key("managedFields") {
        apply::track(&resource, Some(before), &mut draft, author);
    } else if author.is_client() {
        draft.metadata.remove("managedFields");
    }
    replace_with_managers(store, place, current, draft, author)
}

/// Replaces the object with a draft whose managers of fields are set.
pub(crate) fn replace_with_managers(
    store: &mut Store,
    place: usize,
    current: Current,
    mut draft: Draft,
    author: &Author<'_>,
) -> Refused<Arc<Object>> {
    let resource = Arc::clone(&store.collections[place].resource);
    if resource.is_definition() {
        definitions::check(&resource, &draft)?;
    }
    let before = Arc::clone(&current.object);
    if author.is_client() {
        // As in the real server, another timestamp is ignored while the object is being deleted.
        if !before.draft.is_deleting() {
            check_kept(&resource, &before, &draft, "deletionTimestamp")?;
        }
        check_kept(&resource, &before, &draft, "deletionGracePeriodSeconds")?;
    }
    for field in KEPT {
        keep(&before.draft, &mut draft, field);
    }
    if author.is_client() {
        validate::check(&resource, &before.key.name, &before.draft.metadata, &draft)?;
        delete::check_finalizers(&resource, &before, &draft)?;
    }
    if resource.has(Trait::Generation) {
        set_generation(&resource, &before.draft, &mut draft, author);
    } else if author.is_client() {
        keep(&before.draft, &mut draft, "generation");
    }
    Ok(put(store, place, current, draft))
}

/// Gives the draft the value of a metadata field of the object before.
fn keep(before: &Draft, draft: &mut Draft, field: &str) {
    match before.metadata.get(field) {
        Some(value) => draft.metadata.insert(field.to_owned(), value.clone()),
        None => draft.metadata.remove(field),
    };
}

/// Refuses a draft that changes a metadata field. A draft without the field, or with null or an
/// empty string, does not.
pub(crate) fn check_kept(
    resource: &Resource,
    before: &Object,
    draft: &Draft,
    field: &str,
) -> Refused<()> {
    let known = before.draft.metadata.get(field);
    match draft.metadata.get(field) {
        Some(given) if !given.is_null() && *given != "" && Some(given) != known => {
            let fault = format!("Invalid value: {given}: field is immutable");
            let field = format!("metadata.{field}");
            Err(Box::new(status::invalid(resource, &before.key.name, &field, &fault)))
        }
        _ => Ok(()),
    }
}

/// Replaces the object with a draft whose fields the server has chosen.
pub(crate) fn put(store: &mut Store, place: usize, current: Current, draft: Draft) -> Arc<Object> {
    let before = Arc::clone(&current.object);
    let same = draft.clone().seal(before.key.clone(), before.version);
    if same.draft == before.draft {
        return before;
    }
    if delete::is_due(&store.collections[place].resource, &draft) {
        let gone = store.remove(place, current);
        // The writer gets the object that it has written, and watches get the state before.
        return Arc::new(draft.seal(before.key.clone(), gone.version));
    }
    store.put(place, before.key.clone(), Some(current), draft)
}

/// Gives the draft the values of the object before, in the part that the author may not write.
fn keep_unwritable(resource: &Resource, before: &Draft, draft: &mut Draft, part: WritablePart) {
    let keeps = match part {
        WritablePart::Everything => return,
        WritablePart::Main | WritablePart::Scale if !resource.has_status() => return,
        WritablePart::Main | WritablePart::Scale => before.rest.get("status").cloned(),
        WritablePart::Status => {
            let status = draft.rest.remove("status");
            *draft = before.clone();
            status
        }
    };
    match keeps {
        Some(status) => draft.rest.insert("status".to_owned(), status),
        None => draft.rest.remove("status"),
    };
}

/// Sets the generation of a draft. It rises by a change of anything but metadata and status. The
/// test can set another one.
fn set_generation(resource: &Resource, before: &Draft, draft: &mut Draft, author: &Author<'_>) {
    let known = before.metadata.get("generation");
    let given = draft.metadata.get("generation");
    if !author.is_client() && given.is_some() && given != known {
        return;
    }
    let ignores = |field: &str| field == "status" && resource.has_status();
    let has_changed = before
        .rest
        .iter()
        .any(|(field, value)| !ignores(field) && draft.rest.get(field) != Some(value))
        || draft.rest.keys().any(|field| !ignores(field) && !before.rest.contains_key(field))
        || (resource.has(Trait::Annotations)
            && before.metadata.get("annotations") != draft.metadata.get("annotations"));
    let known = known.and_then(Value::as_i64).unwrap_or_default();
    match known.saturating_add(i64::from(has_changed)) {
        0 => draft.metadata.remove("generation"),
        generation => draft.metadata.insert("generation".to_owned(), generation.into()),
    };
}

/// Refuses a draft whose name or namespace is not the key's.
pub(crate) fn check_name(key: &Key, draft: &Draft) -> Refused<()> {
    let (name, namespace) = (text(&draft.metadata, "name"), text(&draft.metadata, "namespace"));
    if name != key.name {
        let known = &key.name;
        let message = if name.is_empty() {
            format!(
                "the name of the object ({known} based on URL) was undeterminable: name must be provided"
            )
        } else {
            format!("the name of the object ({name}) does not match the name on the URL ({known})")
        };
        return Err(Box::new(status::bad_request(&message)));
    }
    if !namespace.is_empty() && namespace != key.namespace {
        return Err(Box::new(status::bad_request(OTHER_NAMESPACE)));
    }
    Ok(())
}

/// Refuses the write if the object's uid or version is not the one that the request expects. An
/// empty string matches any, and so does version 0.
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
    match version.parse::<u64>() {
        _ if version.is_empty() => Ok(()),
        Ok(version) if version == 0 || version == current.version => Ok(()),
        Ok(_) => Err(Box::new(status::conflict(resource, name))),
        Err(_) => {
            let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
            Err(Box::new(status::unknown_error(&why)))
        }
    }
}
