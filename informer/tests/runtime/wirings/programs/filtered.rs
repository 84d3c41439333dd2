//! A controller whose triggers are streams with predicates, of which two also fill stores that the
//! reconciler reads. (Shape: restate-operator's controller of clusters.)

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures_util::{StreamExt, future};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount};
use kube::api::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};

use super::runtime::controller::Action;
use super::runtime::reflector::{ObjectRef, Store};
use super::runtime::watcher::Config;
use super::runtime::{Controller, Predicate, WatchStreamExt, metadata_watcher, reflector, watcher};
use crate::wirings::kinds::Site;

#[derive(Debug, thiserror::Error)]
#[error("never")]
pub struct Error;

pub struct Context {
    claims: Store<PartialObjectMeta<PersistentVolumeClaim>>,
    sets: Store<StatefulSet>,
    say: Box<dyn Fn(String) + Send + Sync>,
}

async fn reconcile(site: Arc<Site>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = site.namespace().unwrap_or_default();
    let of_site = ObjectRef::<StatefulSet>::new(&site.name_any()).within(&namespace);
    let replicas = context.sets.get(&of_site).and_then(|set| set.spec.replicas);
    let claims =
        context.claims.state_filter(|claim| claim.labels().get("site") == Some(&site.name_any()));
    let name = site.name_any();
    (context.say)(format!("{name}: {} replicas, {} claims", replicas.unwrap_or(0), claims.len()));
    Ok(Action::await_change())
}

fn error_policy<C>(_site: Arc<C>, _error: &Error, _context: Arc<Context>) -> Action {
    Action::requeue(std::time::Duration::from_secs(30))
}

pub async fn run(
    client: Client,
    jobs_installed: bool,
    say: impl Fn(String) + Send + Sync + 'static,
) {
    let sites = Api::<Site>::all(client.clone());
    // All objects that this controller creates have this label.
    let config = Config::default().labels("part-of=sites");

    let (claims, writer) = reflector::store();
    let claim_reflector = reflector(
        writer,
        metadata_watcher(Api::<PersistentVolumeClaim>::all(client.clone()), config.clone()),
    )
    .touched_objects()
    .default_backoff();

    let (sets, writer) = reflector::store();
    let set_reflector =
        reflector(writer, watcher(Api::<StatefulSet>::all(client.clone()), config.clone()))
            .map(deletion_as_change)
            .touched_objects()
            .default_backoff()
            .predicate_filter(changed.combine(ready_replicas), Default::default());

    let account_watcher =
        metadata_watcher(Api::<ServiceAccount>::all(client.clone()), config.clone())
            .map(deletion_as_change)
            .touched_objects()
            .predicate_filter(changed, Default::default());

    let service_watcher = watcher(Api::<Service>::all(client.clone()), config.clone())
        .map(deletion_as_change)
        .touched_objects()
        // A service has no generation.
        .predicate_filter(changed.combine(ports), Default::default());

    let map_watcher = watcher(Api::<ConfigMap>::all(client.clone()), config.clone())
        .map(deletion_as_change)
        .touched_objects()
        .predicate_filter(changed.combine(data), Default::default());

    let controller = Controller::new(sites, Config::default())
        .shutdown_on_signal()
        .owns_stream(service_watcher)
        .owns_stream(map_watcher)
        .owns_stream(account_watcher)
        .owns_stream(set_reflector)
        .watches_stream(claim_reflector, |claim| -> Option<ObjectRef<Site>> {
            let site = claim.labels().get("site")?;
            Some(ObjectRef::new(site).within(&claim.namespace()?))
        });
    let controller = if jobs_installed {
        let job_watcher = metadata_watcher(Api::<Job>::all(client.clone()), config)
            .map(deletion_as_change)
            .touched_objects()
            .predicate_filter(changed, Default::default());
        controller.owns_stream(job_watcher)
    } else {
        controller
    };
    controller
        .run(reconcile, error_policy, Arc::new(Context { claims, sets, say: Box::new(say) }))
        .filter_map(|done| async move { Result::ok(done) })
        .for_each(|_| future::ready(()))
        .await;
}

/// Gives a deleted object another generation, so that the predicate does not hide its deletion.
fn deletion_as_change<K: Resource, E>(
    mut event: Result<super::runtime::watcher::Event<K>, E>,
) -> Result<super::runtime::watcher::Event<K>, E> {
    if let Ok(super::runtime::watcher::Event::Delete(ref mut object)) = event {
        let meta = object.meta_mut();
        meta.generation = Some(meta.generation.map_or(0, |generation| generation + 1));
    }
    event
}

fn hash(property: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    property.hash(&mut hasher);
    hasher.finish()
}

#[allow(clippy::unnecessary_wraps)] // A predicate.
fn changed<K: Resource>(object: &K) -> Option<u64> {
    Some(hash(&(object.meta().generation, object.labels(), object.annotations())))
}

fn ready_replicas(set: &StatefulSet) -> Option<u64> {
    set.status.as_ref().map(|status| hash(&status.ready_replicas))
}

fn ports(service: &Service) -> Option<u64> {
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    Some(hash(&ports.iter().map(|port| port.port).collect::<Vec<_>>()))
}

fn data(map: &ConfigMap) -> Option<u64> {
    map.data.as_ref().map(hash_of_data)
}

fn hash_of_data(data: &std::collections::BTreeMap<String, String>) -> u64 {
    hash(data)
}
