//! A controller over a stream with kube's predicates and its store, which starts once the store of
//! a related kind is complete. (Shape: restate-operator's controller of deployments.)

use std::fmt::Debug;
use std::hash::Hash;
use std::iter;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, future};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::{Api, Client, Resource, ResourceExt};

use super::runtime::controller::{self, Action};
use super::runtime::reflector::{ObjectRef, Store};
use super::runtime::watcher::Config;
use super::runtime::{Predicate, WatchStreamExt, predicates, reflector, watcher};
use crate::wirings::kinds::Site;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("site has no certificate yet")]
    NoCertificate,
}

pub struct Context {
    sets: Store<ReplicaSet>,
    maps: Store<ConfigMap>,
    secrets: Store<Secret>,
    say: Box<dyn Fn(String) + Send + Sync>,
}

async fn reconcile(site: Arc<Site>, context: Arc<Context>) -> Result<Action, Error> {
    if let Some(certificate) = &site.spec.certificate {
        let secret = ObjectRef::new(certificate).within(&site.namespace().unwrap_or_default());
        if context.secrets.get(&secret).is_none() {
            return Err(Error::NoCertificate);
        }
    }
    let (sets, maps) = (context.sets.len(), context.maps.len());
    (context.say)(format!("{}: {sets} sets, {maps} maps", site.name_any()));
    Ok(Action::requeue(Duration::from_secs(3_600)))
}

fn error_policy(site: Arc<Site>, error: &Error, context: Arc<Context>) -> Action {
    (context.say)(format!("{}: {error}", site.name_any()));
    Action::requeue(Duration::from_secs(30))
}

/// Returns the stream of a reflector, once its store is complete.
///
/// # Panics
/// If the watch ends.
async fn warmed<K>(
    store: reflector::Store<K>,
    writer: reflector::store::Writer<K>,
    events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static,
) -> impl Stream<Item = Result<K, watcher::Error>>
where
    K: Clone + Debug + Send + Sync + 'static,
    K: Resource<DynamicType = ()>,
    K::DynamicType: Eq + Hash + Clone + Default,
{
    let mut stream = reflector(writer, events).touched_objects().default_backoff().boxed();
    let mut is_ready = pin!(store.wait_until_ready());
    loop {
        tokio::select! {
            _ = stream.next() => {}
            is_ready = &mut is_ready => {
                is_ready.expect("the watch goes on");
                break;
            }
        }
    }
    stream
}

pub async fn run(client: Client, say: impl Fn(String) + Send + Sync + 'static) {
    let config = Config::default().labels("part-of=sites");

    let (sets, writer) = super::runtime::reflector::store();
    let set_reflector = super::runtime::reflector(
        writer,
        super::runtime::watcher(Api::<ReplicaSet>::all(client.clone()), config.clone()),
    )
    .touched_objects()
    .default_backoff();

    let (secrets, writer) = reflector::store();
    let secret_reflector =
        reflector(writer, watcher(Api::<Secret>::all(client.clone()), Config::default()))
            .touched_objects()
            .default_backoff();

    let (sites, writer) = reflector::store();
    let site_reflector =
        reflector(writer, watcher(Api::<Site>::all(client.clone()), Config::default()))
            .touched_objects()
            .default_backoff()
            .predicate_filter(
                predicates::generation
                    .combine(predicates::labels)
                    .combine(predicates::annotations)
                    .combine(predicates::finalizers),
                Default::default(),
            );

    let mut controller = controller::Controller::for_stream(site_reflector, sites)
        .shutdown_on_signal()
        .owns_stream(set_reflector);

    let (maps, writer) = reflector::store_shared(32);
    let map_reflector = warmed(
        maps.clone(),
        writer,
        watcher(Api::<ConfigMap>::all(client.clone()), config.clone()),
    )
    .await;
    controller = controller.watches_stream(map_reflector, |map| {
        let site = map.annotations().get("sites.example/site")?;
        Some(ObjectRef::new(site).within(&map.namespace()?))
    });
    controller
        // Only polled: nothing says which site has this secret.
        .watches_stream(secret_reflector, |_| iter::empty())
        .owns(Api::<Service>::all(client), config)
        .run(reconcile, error_policy, Arc::new(Context { sets, maps, secrets, say: Box::new(say) }))
        .filter_map(|done| async move { Result::ok(done) })
        .for_each(|_| future::ready(()))
        .await;
}
