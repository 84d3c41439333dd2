//! A context that is generic in the kind of a controller, with stores of two other kinds, an error
//! backoff of its own for each object, and a subscriber of metadata. (Shape: kaniop's controller of
//! clients, and its webhook.)

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, future};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};

use super::runtime::controller::{self, Action, Controller};
use super::runtime::events::{Event, EventType, Recorder};
use super::runtime::reflector::{self, Lookup, ObjectRef, Store};
use super::runtime::{WatchStreamExt, metadata_watcher, watcher};
use crate::wirings::kinds::{Page, Site};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no site {0}")]
    NoSite(String),
    #[error("namespace is not labelled")]
    NotLabelled,
}

/// The state of a controller of objects of type `K`.
#[derive(Clone)]
pub struct Context<K: Resource> {
    client: Client,
    recorder: Recorder,
    namespaces: Store<Namespace>,
    sites: Store<Site>,
    /// The number of failures in a row of each object.
    failures: Arc<Mutex<HashMap<ObjectRef<K>, u32>>>,
    say: Arc<dyn Fn(String) + Send + Sync>,
}

impl<K> Context<K>
where
    K: Resource + ResourceExt + Lookup + Clone + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone,
{
    fn new(
        client: Client,
        namespaces: Store<Namespace>,
        sites: Store<Site>,
        say: impl Fn(String) + Send + Sync + 'static,
    ) -> Self {
        let recorder = Recorder::new(client.clone(), "pages".into());
        Self { client, recorder, namespaces, sites, failures: Arc::default(), say: Arc::new(say) }
    }
}

impl<K> Context<K>
where
    K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + 'static,
{
    /// Returns the delay before the next attempt, which doubles with each failure.
    fn failed(&self, object: ObjectRef<K>) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(object).and_modify(|count| *count += 1).or_insert(0);
        Duration::from_secs(1 << (*count).min(10))
    }

    fn succeeded(&self, object: &ObjectRef<K>) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
    }

    async fn warn(&self, object: &K, note: String) {
        let event = Event {
            type_: EventType::Warning,
            reason: "Failed".to_owned(),
            note: Some(note),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        let published = self.recorder.publish(&event, &Resource::object_ref(object, &())).await;
        if let Err(error) = published {
            tracing::warn!(%error, "event was not published");
        }
    }
}

/// Reconciles an object with `reconcile`. Failures are retried after a delay that grows.
async fn backing_off<K, F>(
    object: Arc<K>,
    context: Arc<Context<K>>,
    reconcile: impl FnOnce(Arc<K>, Arc<Context<K>>) -> F,
) -> Result<Action, Error>
where
    K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + Debug + 'static,
    F: Future<Output = Result<Action, Error>>,
{
    match reconcile(object.clone(), context.clone()).await {
        Ok(action) => {
            context.succeeded(&ObjectRef::from(object.as_ref()));
            Ok(action)
        }
        Err(error) => {
            let delay = context.failed(ObjectRef::from(object.as_ref()));
            context.warn(&object, error.to_string()).await;
            (context.say)(format!("{}: {error}, again in {delay:?}", object.name_any()));
            Ok(Action::requeue(delay))
        }
    }
}

async fn reconcile(page: Arc<Page>, context: Arc<Context<Page>>) -> Result<Action, Error> {
    let namespace = ResourceExt::namespace(&*page).unwrap_or_default();
    if let Some(namespace) = context.namespaces.get(&ObjectRef::new(&namespace))
        && !namespace.labels().contains_key("pages")
    {
        return Err(Error::NotLabelled);
    }
    let site = ObjectRef::<Site>::new(&page.spec.site).within(&namespace);
    let site = context.sites.get(&site).ok_or_else(|| Error::NoSite(page.spec.site.clone()))?;
    let version = context.client.default_namespace();
    (context.say)(format!("{} of {} ({version})", page.name_any(), site.spec.title));
    Ok(Action::requeue(Duration::from_secs(600)))
}

/// Returns whether a store has another object of this name, in any namespace.
pub fn is_taken<T>(object: &T, store: &Store<T>) -> bool
where
    T: Resource + ResourceExt + Clone,
    <T as Resource>::DynamicType: Eq + Hash + Clone,
{
    store
        .find(|other| other.name_any() == object.name_any() && other.meta() != object.meta())
        .is_some()
}

/// Returns the names of the objects of a store, sorted.
pub fn names<K>(store: &Store<K>) -> Vec<String>
where
    K: Resource + Lookup + Clone + 'static,
    <K as Resource>::DynamicType: Eq + Hash + Clone,
    <K as Lookup>::DynamicType: Eq + Hash + Clone,
{
    let mut names: Vec<_> = store.state().iter().map(|object| object.name_any()).collect();
    names.sort();
    names
}

pub async fn run(client: Client, say: impl Fn(String) + Send + Sync + 'static) {
    let (namespaces, writer) = reflector::store::<Namespace>();
    let namespace_watch = watcher(Api::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .for_each(|_| future::ready(()));
    let (sites, writer) = reflector::store::<Site>();
    let site_watch = watcher(Api::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .for_each(|_| future::ready(()));
    let (_secrets, writer) = reflector::store_shared::<PartialObjectMeta<Secret>>(256);
    let secrets = writer.subscribe().expect("the store is shared");
    let secret_watch =
        metadata_watcher(Api::<Secret>::all(client.clone()), watcher::Config::default())
            .default_backoff()
            .reflect_shared(writer)
            .for_each(|_| future::ready(()));
    let pages = Api::<Page>::all(client.clone());
    let controller = Controller::new(pages, watcher::Config::default().any_semantic())
        .with_config(controller::Config::default().debounce(Duration::from_millis(200)))
        .owns_shared_stream(secrets)
        .shutdown_on_signal()
        .run(
            |page, context| backing_off(page, context, reconcile),
            |_page, _error: &Error, _context| unreachable!(),
            Arc::new(Context::new(client, namespaces, sites, say)),
        )
        .filter_map(|done| async move { Result::ok(done) })
        .for_each(|_| future::ready(()));
    tokio::select! {
        () = controller => {}
        () = namespace_watch => {}
        () = site_watch => {}
        () = secret_watch => {}
    }
}
