//! The methods of the server for tests: objects without HTTP, faults, open watches, and recorded
//! requests.

use std::sync::Arc;

use kube::core::Status;
use serde::Serialize;
use serde_json::Value;

use crate::author::Author;
use crate::change;
use crate::generated::Generator;
use crate::object::{self, Draft, Key, Shape};
use crate::status;
use crate::store::{Current, Signal, Store};
use crate::{ApiServer, Error, Fault, Request, Resource};

impl ApiServer {
    /// Serves one more resource, as the real server does after the creation of a custom resource
    /// definition. Does nothing if the resource is served already.
    pub fn register(&self, resource: Resource) {
        self.state.store.lock().register(resource);
    }

    /// Returns the newest version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.state.store.lock().version
    }

    /// Creates an object, or replaces it whatever its version is, with its status. Returns the
    /// object's version, which does not change if the object is equal to the stored one. Sets
    /// `metadata.generation` as a client's write does, unless the object has another one. The
    /// object is a [`Value`], a typed object or a [`DynamicObject`](kube::core::DynamicObject), and
    /// must have `kind` and `apiVersion`. An object with `metadata.generateName` and no name gets a
    /// name that no other object has, and replaces none.
    ///
    /// # Errors
    /// [`Error::Unregistered`] if the object's kind is not served; [`Error::Refused`] if it is not
    /// a valid object of its kind, or has neither a name nor `generateName`; [`Error::Json`] if it
    /// cannot be serialised.
    pub fn apply(&self, object: impl Serialize) -> Result<u64, Error> {
        let json = serde_json::to_value(object)?;
        let text = |field: &str| json.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let (place, resource) = {
            let store = self.state.store.lock();
            let Some(place) = store.place_of_kind(kind, api_version) else {
                return Err(Error::Unregistered {
                    kind: kind.to_owned(),
                    api_version: api_version.to_owned(),
                });
            };
            (place, Arc::clone(&store.collections[place].resource))
        };
        let draft = Draft::new(json, &resource).map_err(Error::Refused)?;
        let has_name = !object::text(&draft.metadata, "name").is_empty();
        let applied = self.state.with_new_key(&draft, &resource, None, false, |key| {
            self.state.with_current(place, key, |store, current| match current {
                Some(current) if has_name => {
                    change::replace(store, place, current, draft.clone(), &Author::TEST)
                }
                _ => {
                    let (current, draft) = (current.as_ref(), draft.clone());
                    change::create(store, place, key.clone(), current, draft, &Author::TEST)
                }
            })
        });
        Ok(applied.map_err(Error::Refused)?.version)
    }

    /// Deletes an object at once, whatever finalizers it has. Returns the version of the deletion.
    /// For an object that is not in a namespace, `namespace` is `""`.
    ///
    /// # Errors
    /// [`Error::Unregistered`] if the resource is not served; [`Error::Refused`] if the object does
    /// not exist.
    pub fn delete(&self, resource: &Resource, namespace: &str, name: &str) -> Result<u64, Error> {
        let place = self.place_of(resource)?;
        let removed = self.state.with_current(place, &key(namespace, name), |store, current| {
            current.map(|current| store.remove(place, current).version)
        });
        removed.ok_or_else(|| Error::Refused(Box::new(status::not_found(resource, name))))
    }

    /// Returns the object of this name as a client would receive it, or `None` if it does not
    /// exist. For an object that is not in a namespace, `namespace` is `""`.
    #[must_use]
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        let place = self.place_of(resource).ok()?;
        let read = |_: &mut Store, current: Option<Current>| current.map(|current| current.object);
        let object = self.state.with_current(place, &key(namespace, name), read)?;
        Some(object.to_json(resource, Shape::Whole))
    }

    /// Adds `count` generated objects, which take no memory. Returns the first version at which
    /// they exist.
    ///
    /// Each time that an object is sent, `make` produces it from its number, which starts at 0.
    /// `make` must return the same object for the same number each time, and no two objects may
    /// have the same name. A generated object that a client or the test writes becomes an ordinary
    /// stored object. Fields that `make` leaves out get a default: the name `pods-17` for object
    /// 17 of pods, and the namespace `default`. A name that `make` supplies must end in the
    /// number, because the server finds the object by it.
    ///
    /// In lists the generated objects follow all others, ordered by number, not by name. A list
    /// with a selector produces every generated object to test it, and a page of such a list
    /// produces its objects twice. Watches get no events for generated objects: open watches of
    /// the resource end with a 410, and so does a watch from an older version.
    ///
    /// # Errors
    /// [`Error::Unregistered`] if the resource is not served; [`Error::Refused`] if the first or
    /// the last object is not valid for its kind; [`Error::Name`] if the name of one of these two
    /// does not end in its number.
    pub fn generate(
        &self,
        resource: &Resource,
        count: u64,
        make: impl Fn(u64) -> Value + Send + Sync + 'static,
    ) -> Result<u64, Error> {
        let place = self.place_of(resource)?;
        let mut generator = Generator::new(Arc::new(resource.clone()), count, Box::new(make))?;
        let mut store = self.state.store.lock();
        generator.before = store.version;
        store.version += count;
        let version = store.version;
        store.compact(place);
        Arc::make_mut(&mut store.collections[place].generators).all.push(Arc::new(generator));
        let expired = Arc::new(status::too_old(version - count, version));
        store.end_watches(Some(place), || Some(Signal::Error(Arc::clone(&expired))));
        drop(store);
        self.state.pulse();
        Ok(version)
    }

    /// Drops the recorded changes of all resources and advances the version. From then on all
    /// earlier versions are refused: for watches, exact lists and page tokens. Open watches
    /// continue.
    pub fn compact(&self) {
        let mut store = self.state.store.lock();
        store.version += 1;
        for place in 0..store.collections.len() {
            store.compact(place);
        }
    }

    /// Arms a fault.
    pub fn fault(&self, fault: Fault) {
        self.state.faults.arm(fault);
    }

    /// Disarms all faults. Connections that a fault has already broken or silenced stay as they
    /// are.
    pub fn clear_faults(&self) {
        self.state.faults.clear();
    }

    /// Returns the requests in order of arrival, since the start or since the last call of
    /// [`forget_requests`](Self::forget_requests): all of them, or the
    /// [last ones](crate::Builder::recorded_requests). Their bodies are not kept.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().iter().map(|request| Request::clone(request)).collect()
    }

    /// Drops the recorded requests, so that a later wait sees new requests only.
    pub fn forget_requests(&self) {
        self.state.requests.lock().clear();
    }

    /// Waits for the first recorded request for which `is_it` returns true. The request may have
    /// arrived before the call.
    pub async fn wait_for_request(&self, is_it: impl Fn(&Request) -> bool) -> Request {
        let check = || {
            let requests = self.state.requests.lock().clone();
            requests.iter().find(|request| is_it(request)).map(|request| Request::clone(request))
        };
        self.state.wait(check).await
    }

    fn place_of(&self, resource: &Resource) -> Result<usize, Error> {
        self.state.store.lock().place_of(resource).ok_or_else(|| Error::Unregistered {
            kind: resource.kind().to_owned(),
            api_version: resource.api_version().to_owned(),
        })
    }
}

/// The methods for open watches.
#[allow(clippy::must_use_candidate, reason = "most tests do not need the number of watches")]
impl ApiServer {
    /// Returns the number of open watches. A watch counts from its response until it ends or the
    /// client drops it.
    pub fn watchers(&self) -> usize {
        self.state.store.lock().collections.iter().map(|collection| collection.watchers.len()).sum()
    }

    /// Waits until exactly `count` watches are open, over all resources.
    pub async fn wait_for_watchers(&self, count: usize) {
        self.state.wait(|| (self.watchers() == count).then_some(())).await;
    }

    /// Sends a bookmark of the newest version to the open watches of a resource that asked for
    /// bookmarks and whose buffer has room
    /// ([`Builder::watch_buffer`](crate::Builder::watch_buffer)). Returns the number of bookmarks
    /// sent.
    pub fn bookmark(&self, resource: &Resource) -> usize {
        let store = self.state.store.lock();
        let Some(place) = store.place_of(resource) else {
            return 0;
        };
        let wanting = store.collections[place].watchers.iter().filter(|watcher| watcher.bookmarks);
        wanting.filter(|watcher| watcher.send(Signal::Bookmark(store.version))).count()
    }

    /// Ends all open watches without an error. Returns their number. None of them counts as open
    /// from now on.
    pub fn end_watches(&self) -> usize {
        self.end_with(|| None)
    }

    /// Breaks all open watches with an error. Returns their number, as
    /// [`end_watches`](Self::end_watches) does.
    pub fn break_watches(&self) -> usize {
        self.end_with(|| Some(Signal::Break))
    }

    /// Sends an ERROR event to all open watches and ends them. Returns their number, as
    /// [`end_watches`](Self::end_watches) does.
    pub fn error_watches(&self, status: Status) -> usize {
        let status = Arc::new(status);
        self.end_with(|| Some(Signal::Error(Arc::clone(&status))))
    }

    fn end_with(&self, last: impl Fn() -> Option<Signal>) -> usize {
        let ended = self.state.store.lock().end_watches(None, last);
        self.state.pulse();
        ended
    }
}

fn key(namespace: &str, name: &str) -> Key {
    Key { namespace: namespace.to_owned(), name: name.to_owned() }
}
