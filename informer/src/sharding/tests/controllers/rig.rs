//! A server with an object in each shard, and replicas with a controller.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Request, Resource, Verb};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::runtime::controller::Action;
use crate::runtime::{Controller, watcher};
use crate::sharding::shards::ShardCount;
pub(super) use crate::sharding::tests::rig::*;
use crate::sharding::{ObjectId, Permit, ShardBy, ShardSet};

/// Returns a server with the Leases of the group, and a config map in each shard.
pub(super) fn server() -> ApiServer {
    let server = crate::sharding::tests::rig::server();
    server.register(Resource::config_maps());
    server.register(Resource::pods());
    (0..16).for_each(|shard| write_map(&server, shard, 1));
    server
}

/// The record of all replicas' work.
#[derive(Default)]
pub(super) struct World {
    /// The objects whose reconciles run now.
    running: Mutex<BTreeSet<String>>,
    /// Each reconcile that has ended: the replica, the object and its value.
    pub(super) done: Mutex<Vec<(String, String, String)>>,
    /// The number of reconciles that were dropped.
    pub(super) dropped: Mutex<usize>,
    /// The deletions that were handled: the replica and the object.
    pub(super) deleted: Mutex<Vec<(String, String)>>,
    errors: Arc<Mutex<Vec<String>>>,
    /// How objects are assigned to shards, if not by key.
    pub(super) by: Mutex<Option<ShardBy>>,
    /// Reconciles do not end while this is true.
    pub(super) holds: watch::Sender<bool>,
}

/// The reconcile of an object. No other reconcile of it may run.
struct Running<'w> {
    world: &'w World,
    name: String,
    has_ended: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.world.running.lock().remove(&self.name);
        *self.world.dropped.lock() += usize::from(!self.has_ended);
    }
}

impl World {
    pub(super) async fn reconcile(&self, pod: &str, map: &ConfigMap) {
        let permit = Permit::current().expect("a sharded controller has a permit");
        assert!(permit.member().starts_with(pod));
        let name = map.name_any();
        let uid = map.uid().unwrap();
        let object = ObjectId { namespace: "shop", name: &name, uid: &uid };
        let by = self.by.lock().unwrap_or(ShardBy::Key);
        assert_eq!(Some(permit.shard()), by.shard_of(object, ShardCount::new(16).unwrap()));
        if !self.running.lock().insert(name.clone()) {
            self.errors.lock().push(format!("{name} is reconciled twice at a time"));
        }
        let mut running = Running { world: self, name: name.clone(), has_ended: false };
        sleep(SECOND / 10).await;
        self.holds.subscribe().wait_for(|holds| !holds).await.unwrap();
        running.has_ended = true;
        let value = map.data.as_ref().unwrap()["value"].clone();
        self.done.lock().push((pod.to_owned(), name, value));
    }

    /// Returns the names of the objects that a replica has reconciled, and forgets them.
    pub(super) fn reconciled(&self, pod: &str) -> Vec<String> {
        // A set: an object whose first reconcile begins before its shard is enqueued has another.
        let mut names = BTreeSet::new();
        self.done.lock().retain(|(by, name, _)| {
            if by == pod {
                names.insert(name.clone());
            }
            by != pod
        });
        names.into_iter().collect()
    }

    pub(super) fn check(&self) {
        assert_eq!(*self.errors.lock(), <[String; 0]>::default());
    }
}

/// A replica with a controller.
pub(super) struct Worker {
    pub(super) replica: Replica,
    controller: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(server: &ApiServer, world: &Arc<World>, pod: &'static str) -> Self {
        Self::start_with(server, world, pod, ShardBy::Key, Action::await_change())
    }

    pub(super) fn start_with(
        server: &ApiServer,
        world: &Arc<World>,
        pod: &'static str,
        by: ShardBy,
        action: Action,
    ) -> Self {
        *world.by.lock() = Some(by);
        let replica = Replica::start_with(builder_of(server.client(), pod).by(by));
        let maps = Api::<ConfigMap>::all(server.client());
        let (reconciling, deleting) = (world.clone(), world.clone());
        let controller = Controller::new(maps, watcher::Config::default())
            .owns(Api::<Pod>::all(server.client()), watcher::Config::default())
            .sharded(&replica.group)
            .on_deleted(move |last| {
                let name = last.object().unwrap().name_any();
                deleting.deleted.lock().push((pod.to_owned(), name));
                async {}
            })
            .run(
                move |map: Arc<ConfigMap>, _| {
                    let world = reconciling.clone();
                    let action = action.clone();
                    async move {
                        world.reconcile(pod, &map).await;
                        Ok::<_, std::fmt::Error>(action)
                    }
                },
                |_, _, _| Action::await_change(),
                Arc::new(()),
            )
            .for_each(collect_errors(Arc::clone(&world.errors)));
        Self { replica, controller: tokio::spawn(controller) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.controller.abort();
    }
}

/// Returns the names of the objects of these shards, in order.
pub(super) fn names(shards: ShardSet) -> Vec<String> {
    let mut names: Vec<_> = shards.iter().map(|shard| object_of(shard).name_any()).collect();
    names.sort();
    names
}

/// Waits until all requested reconciles have ended.
pub(super) async fn settled() {
    sleep(SECOND).await;
}

pub(super) fn is_of_maps(request: &Request) -> bool {
    request.plural() == Some("configmaps")
}

/// Waits until this number of watches of a kind were requested. A replica requests one after it has
/// listed the kind.
pub(super) async fn watched(server: &ApiServer, is_of_kind: fn(&Request) -> bool, number: usize) {
    let is_watch = |request: &&Request| request.verb() == Verb::Watch && is_of_kind(request);
    while server.requests().iter().filter(is_watch).count() < number {
        sleep(SECOND / 10).await;
    }
}
