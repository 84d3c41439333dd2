//! The test's side: objects without HTTP, faults, watches, and what was asked.

use std::sync::Arc;

use kube::core::Status;
use serde::Serialize;
use serde_json::Value;

use crate::change;
use crate::generated::Generator;
use crate::object::{Draft, Key, Shape};
use crate::status;
use crate::store::{Current, Signal, Store};
use crate::{ApiServer, Error, Fault, Request, Resource};

impl ApiServer {
    /// Serves one more resource, as when a custom resource definition comes. Nothing happens when
    /// it is served already.
    pub fn register(&self, resource: Resource) {
        self.shared.store.lock().register(resource);
    }

    /// The newest version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.shared.store.lock().version
    }

    /// Creates an object, or makes it what is given whatever its version is: a [`Value`], a typed
    /// object, a [`DynamicObject`](kube::core::DynamicObject). It must say its `kind` and
    /// `apiVersion`. Gives its version, which is the one that it had when nothing is different.
    ///
    /// # Errors
    /// [`Error::Unregistered`], [`Error::Refused`] when it is no object of its kind or has no
    /// name, [`Error::Json`].
    pub fn apply(&self, object: impl Serialize) -> Result<u64, Error> {
        let json = serde_json::to_value(object)?;
        let text = |field: &str| json.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        let (place, resource) = {
            let store = self.shared.store.lock();
            let Some(place) = store.place_of_kind(kind, api_version) else {
                return Err(Error::Unregistered {
                    kind: kind.to_owned(),
                    api_version: api_version.to_owned(),
                });
            };
            (place, Arc::clone(&store.collections[place].resource))
        };
        let draft = Draft::new(json, &resource).map_err(Error::Refused)?;
        let key = self.shared.key_of(&draft, &resource, None).map_err(Error::Refused)?;
        let object = self.shared.with_current(place, &key, |store, current| match current {
            Some(current) => change::replace(store, place, current, draft),
            None => change::create(store, place, key.clone(), draft),
        });
        Ok(object.version)
    }

    /// Deletes an object at once, whatever its finalizers are. Gives the version of the deletion.
    /// The namespace of a resource that has none is `""`.
    ///
    /// # Errors
    /// [`Error::Unregistered`], [`Error::Refused`] when it is not there.
    pub fn delete(&self, resource: &Resource, namespace: &str, name: &str) -> Result<u64, Error> {
        let place = self.place_of(resource)?;
        let removed = self.shared.with_current(place, &key(namespace, name), |store, current| {
            current.map(|current| store.remove(place, current).version)
        });
        removed.ok_or_else(|| Error::Refused(Box::new(status::not_found(resource, name))))
    }

    /// The object as a client would get it.
    #[must_use]
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        let place = self.place_of(resource).ok()?;
        let look = |_: &mut Store, current: Option<Current>| current.map(|current| current.object);
        let object = self.shared.with_current(place, &key(namespace, name), look)?;
        Some(object.to_json(resource, Shape::Whole))
    }

    /// Lets so many objects exist: `make` makes one from its number, from 0, each time that it is
    /// sent. They take no memory, and one that is written is an object as any other from then on.
    /// What `make` leaves out is filled in: `pods-17` is object 17's name, its namespace is
    /// `default`. A name of its own must end in the number, since by that the object is found; an
    /// answer must not change from call to call; no two objects may have the same name.
    ///
    /// In lists they come after all others, by number and not by name. A selector makes each of
    /// them to look at it, and a page of a selection makes its objects twice. There are no events
    /// for them: a watch of the resource that is open ends with a 410, as does one from an older
    /// version. Gives the version since which they exist.
    ///
    /// # Errors
    /// [`Error::Unregistered`]; [`Error::Refused`] and [`Error::Name`], found out with the first
    /// object and the last.
    pub fn generate(
        &self,
        resource: &Resource,
        count: u64,
        make: impl Fn(u64) -> Value + Send + Sync + 'static,
    ) -> Result<u64, Error> {
        let place = self.place_of(resource)?;
        let mut generator = Generator::new(Arc::new(resource.clone()), count, Box::new(make))?;
        let mut store = self.shared.store.lock();
        generator.before = store.version;
        store.version += count;
        let version = store.version;
        store.compact(place);
        Arc::make_mut(&mut store.collections[place].generators).parts.push(Arc::new(generator));
        let expired = Arc::new(status::too_old(version - count, version));
        store.end_watches(Some(place), || Some(Signal::Error(Arc::clone(&expired))));
        drop(store);
        self.shared.pulse();
        Ok(version)
    }

    /// Forgets the changes of all resources, and takes a version of its own: each version that was
    /// given out is refused, to watches, exact lists and page tokens. Open watches go on.
    pub fn compact(&self) {
        let mut store = self.shared.store.lock();
        store.version += 1;
        for place in 0..store.collections.len() {
            store.compact(place);
        }
    }

    /// Arms a fault.
    pub fn fault(&self, fault: Fault) {
        self.shared.faults.arm(fault);
    }

    /// Disarms all faults. What is broken or hangs already stays so.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// All requests since the start, or since they were [forgotten](Self::forget_requests), in the
    /// order in which they came. They are kept until then, without their bodies.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().iter().map(|request| Request::clone(request)).collect()
    }

    /// Forgets the requests, so that a later wait is for a new one.
    pub fn forget_requests(&self) {
        self.shared.requests.lock().clear();
    }

    /// Waits for a request of which this is true, and gives the first of them; it may have come
    /// already.
    pub async fn wait_for_request(&self, is_it: impl Fn(&Request) -> bool) -> Request {
        let look = || {
            let requests = self.shared.requests.lock().clone();
            requests.iter().find(|request| is_it(request)).map(|request| Request::clone(request))
        };
        self.shared.wait(look).await
    }

    fn place_of(&self, resource: &Resource) -> Result<usize, Error> {
        self.shared.store.lock().place_of(resource).ok_or_else(|| Error::Unregistered {
            kind: resource.kind().to_owned(),
            api_version: resource.api_version().to_owned(),
        })
    }
}

/// Open watches.
#[allow(clippy::must_use_candidate)] // How many there were is for those who want to check it.
impl ApiServer {
    /// How many watches are open. One is from its answer on until it ends or the client drops it.
    pub fn watchers(&self) -> usize {
        self.shared
            .store
            .lock()
            .collections
            .iter()
            .map(|collection| collection.watchers.len())
            .sum()
    }

    /// Waits until just so many watches are open, of all resources together.
    pub async fn wait_for_watchers(&self, count: usize) {
        self.shared.wait(|| (self.watchers() == count).then_some(())).await;
    }

    /// Sends a bookmark of the newest version to the open watches of a resource that want
    /// bookmarks and have room for one ([`Builder::watch_buffer`](crate::Builder::watch_buffer)).
    /// Gives their number.
    pub fn bookmark(&self, resource: &Resource) -> usize {
        let store = self.shared.store.lock();
        let Some(place) = store.place_of(resource) else {
            return 0;
        };
        let wanting = store.collections[place].watchers.iter().filter(|watcher| watcher.bookmarks);
        wanting.filter(|watcher| watcher.tell(Signal::Bookmark(store.version))).count()
    }

    /// Ends all open watches, cleanly. Gives their number; from now on none of them counts as open.
    pub fn end_watches(&self) -> usize {
        self.end_with(|| None)
    }

    /// Breaks all open watches off with an error, as [`end_watches`](Self::end_watches) otherwise.
    pub fn break_watches(&self) -> usize {
        self.end_with(|| Some(Signal::Break))
    }

    /// Sends an ERROR event to all open watches and ends them, as
    /// [`end_watches`](Self::end_watches) otherwise.
    pub fn error_watches(&self, status: Status) -> usize {
        let status = Arc::new(status);
        self.end_with(|| Some(Signal::Error(Arc::clone(&status))))
    }

    fn end_with(&self, last: impl Fn() -> Option<Signal>) -> usize {
        let ended = self.shared.store.lock().end_watches(None, last);
        self.shared.pulse();
        ended
    }
}

fn key(namespace: &str, name: &str) -> Key {
    Key { namespace: namespace.to_owned(), name: name.to_owned() }
}
