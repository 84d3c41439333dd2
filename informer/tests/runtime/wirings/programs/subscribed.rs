//! A controller that owns objects of seven kinds through shared stores, whose watches run beside
//! it. A deletion reconciles all sites, since kube's shared streams carry none. (Shape: kaniop's
//! controller of servers.)

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt, future, stream};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use kube::api::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::runtime::controller::{self, Action, Controller};
use super::runtime::reflector::store::Writer;
use super::runtime::reflector::{self, Lookup, ObjectRef, ReflectHandle, Store};
use super::runtime::{WatchStreamExt, metadata_watcher, watcher};
use crate::wirings::kinds::Site;

const BUFFERED: usize = 256;

#[derive(Debug, thiserror::Error)]
#[error("never")]
pub struct Error;

/// A shared store with its writer, and a subscriber that was created before the first event.
struct Reflected<K>
where
    K: Resource + Lookup + Clone + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone,
{
    store: Store<K>,
    writer: Writer<K>,
    subscriber: ReflectHandle<K>,
}

impl<K> Reflected<K>
where
    K: Resource + Lookup + Clone + 'static,
    <K as Lookup>::DynamicType: Default + Eq + Hash + Clone,
    <K as Resource>::DynamicType: Default + Eq + Hash + Clone,
{
    fn new() -> Self {
        let (store, writer) = reflector::store_shared::<K>(BUFFERED);
        let subscriber = writer.subscribe().expect("the store is shared");
        Self { store, writer, subscriber }
    }
}

/// Returns a future that fills a shared store from a watch. A deletion sends to `reload`.
fn filled_from<K, W, S>(
    api: Api<K>,
    writer: Writer<W>,
    reload: mpsc::Sender<()>,
    watch: impl Fn(Api<K>, watcher::Config) -> S + 'static,
) -> BoxFuture<'static, ()>
where
    K: Resource + Lookup + Clone + DeserializeOwned + Send + Sync + Debug + 'static,
    W: Resource + ResourceExt + Lookup + Clone + Debug + Send + Sync + 'static,
    <W as Resource>::DynamicType: Eq + Hash + Clone + Send + Sync,
    <W as Lookup>::DynamicType: Eq + Hash + Clone + Send + Sync,
    <K as Lookup>::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
    <K as Resource>::DynamicType: Default + Eq + Hash + Clone,
    S: Stream<Item = Result<watcher::Event<W>, watcher::Error>> + Send + 'static,
{
    watch(api, watcher::Config::default().labels("part-of=sites"))
        .default_backoff()
        .reflect_shared(writer)
        .for_each(move |event| {
            match event {
                Ok(watcher::Event::Delete(object)) => {
                    tracing::debug!(name = object.name_any(), "deleted");
                    // A full channel reconciles all sites already.
                    let _ = reload.try_send(());
                }
                Ok(event) => tracing::trace!(?event, "seen"),
                Err(error) => tracing::error!(%error, "watch failed"),
            }
            future::ready(())
        })
        .boxed()
}

fn filled<K>(api: Api<K>, writer: Writer<K>, reload: mpsc::Sender<()>) -> BoxFuture<'static, ()>
where
    K: Resource + Lookup + Clone + DeserializeOwned + Send + Sync + Debug + 'static,
    <K as Lookup>::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
    <K as Resource>::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    filled_from(api, writer, reload, watcher)
}

pub struct Context {
    maps: Store<ConfigMap>,
    say: Box<dyn Fn(String) + Send + Sync>,
}

async fn reconcile(site: Arc<Site>, context: Arc<Context>) -> Result<Action, Error> {
    let is_of_site =
        |map: &ConfigMap| map.owner_references().iter().any(|owner| owner.name == site.name_any());
    let maps = context.maps.state_filter(is_of_site).len();
    (context.say)(format!("{}: {maps} maps", site.name_any()));
    Ok(Action::await_change())
}

/// Returns the sites with the certificate `secret`.
fn with_certificate(
    sites: &Store<Site>,
    secret: &PartialObjectMeta<Secret>,
) -> Vec<ObjectRef<Site>> {
    sites
        .state()
        .into_iter()
        .filter(|site| ResourceExt::namespace(&**site) == ResourceExt::namespace(secret))
        .filter(|site| site.spec.certificate.as_deref() == Some(&secret.name_any()))
        .map(|site| ObjectRef::from(site.as_ref()))
        .collect()
}

struct Owned {
    sets: ReflectHandle<StatefulSet>,
    deployments: ReflectHandle<Deployment>,
    daemons: ReflectHandle<DaemonSet>,
    services: ReflectHandle<Service>,
    secrets: ReflectHandle<Secret>,
    maps: ReflectHandle<ConfigMap>,
    /// `None` if the kind is not installed.
    accounts: Option<ReflectHandle<ServiceAccount>>,
}

fn controlled(
    sites: impl Stream<Item = Result<Site, watcher::Error>> + Send + 'static,
    store: Store<Site>,
    owned: Owned,
    certificates: impl Stream<Item = Result<PartialObjectMeta<Secret>, watcher::Error>> + Send + 'static,
    mut reload: mpsc::Receiver<()>,
    context: Arc<Context>,
) -> BoxFuture<'static, ()> {
    let of_certificates = store.clone();
    let mut controller = Controller::for_stream(sites, store)
        .with_config(controller::Config::default().debounce(Duration::from_millis(200)))
        .owns_shared_stream(owned.sets)
        .owns_shared_stream(owned.deployments)
        .owns_shared_stream(owned.daemons)
        .owns_shared_stream(owned.services)
        .owns_shared_stream(owned.secrets)
        .owns_shared_stream(owned.maps)
        .watches_stream(certificates, move |secret| with_certificate(&of_certificates, &secret));
    if let Some(accounts) = owned.accounts {
        controller = controller.owns_shared_stream(accounts);
    }
    controller
        .reconcile_all_on(stream::poll_fn(move |task| reload.poll_recv(task)))
        .shutdown_on_signal()
        .run(reconcile, |_site, _error: &Error, _context| unreachable!(), context)
        .filter_map(|done| async move { Result::ok(done) })
        .for_each(|_| future::ready(()))
        .boxed()
}

pub async fn run(client: Client, say: impl Fn(String) + Send + Sync + 'static) {
    let (reload, reloaded) = mpsc::channel(16);
    let sets = Reflected::<StatefulSet>::new();
    let deployments = Reflected::<Deployment>::new();
    let daemons = Reflected::<DaemonSet>::new();
    let services = Reflected::<Service>::new();
    let secrets = Reflected::<Secret>::new();
    let maps = Reflected::<ConfigMap>::new();
    let accounts = Some(Reflected::<ServiceAccount>::new());

    let mut fills = vec![
        filled(Api::all(client.clone()), sets.writer, reload.clone()),
        filled(Api::all(client.clone()), deployments.writer, reload.clone()),
        filled(Api::all(client.clone()), daemons.writer, reload.clone()),
        filled(Api::all(client.clone()), services.writer, reload.clone()),
        filled(Api::all(client.clone()), secrets.writer, reload.clone()),
        filled(Api::all(client.clone()), maps.writer, reload.clone()),
    ];
    let accounts = accounts.map(|accounts| {
        fills.push(filled(Api::all(client.clone()), accounts.writer, reload));
        accounts.subscriber
    });
    let owned = Owned {
        sets: sets.subscriber,
        deployments: deployments.subscriber,
        daemons: daemons.subscriber,
        services: services.subscriber,
        secrets: secrets.subscriber,
        maps: maps.subscriber,
        accounts,
    };
    let sites = Reflected::<Site>::new();
    let site_stream = watcher(Api::<Site>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect_shared(sites.writer)
        .applied_objects();
    let certificates =
        metadata_watcher(Api::<Secret>::all(client), watcher::Config::default().labels("tls=yes"))
            .default_backoff()
            .touched_objects();
    let context = Arc::new(Context { maps: maps.store, say: Box::new(say) });
    let controller = controlled(site_stream, sites.store, owned, certificates, reloaded, context);
    tokio::select! {
        () = controller => {}
        _ = future::select_all(fills) => {}
    }
}
