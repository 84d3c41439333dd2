//! A server, and replicas in split mode.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo::{Labels, Meta};
use deltafifo_testkit::{ApiServer, Request, Resource, ShardSelectors, Verb};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::reflector::Decodable;
use crate::runtime::controller::Action;
use crate::runtime::{Controller, Form};
use crate::sharding::shards::ShardCount;
use crate::sharding::tests::rig::{
    Replica, SECOND, apply_leases, builder_of, collect_errors, leases,
};
use crate::sharding::{ObjectId, Permit, ShardBy};
use crate::{KubeListerWatcher, KubeMeta, SharedInformer};

pub(super) const SERVERS: [ShardSelectors; 3] =
    [ShardSelectors::Ignored, ShardSelectors::Honoured, ShardSelectors::HonouredInLists];
pub(super) const PROPERTIES: [ShardBy; 3] = [ShardBy::Key, ShardBy::Uid, ShardBy::Namespace];
/// The number of objects at first.
pub(super) const OBJECTS: usize = 48;

/// A server, and the record of all replicas' work.
pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) by: ShardBy,
    pub(super) related: Related,
    /// The random delays of the informers' requests, or `None` if they are answered at once.
    pub(super) delays: Option<Mutex<fastrand::Rng>>,
    /// The objects whose reconciles run now.
    pub(super) running: Mutex<BTreeSet<String>>,
    /// Each reconcile that has ended: the replica, the key and the version.
    pub(super) done: Mutex<Vec<(String, String, String)>>,
    /// The deletions that were handled: the replica and the key.
    pub(super) deleted: Mutex<Vec<(String, String)>>,
    pub(super) errors: Arc<Mutex<Vec<String>>>,
}

/// The pods, which config maps own, that each replica has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Related {
    All,
    InShards,
}

/// Returns the namespace and the name of an object. The namespaces are in many shards.
pub(super) fn name_of(number: usize) -> (String, String) {
    let namespace = (number as u64 % 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (format!("{namespace:x}"), format!("m{number}"))
}

pub(super) fn key_of(number: usize) -> String {
    let (namespace, name) = name_of(number);
    format!("{namespace}/{name}")
}

/// Returns the shard of an object.
pub(super) fn shard_of(by: ShardBy, object: &Value) -> u8 {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let id = ObjectId { namespace: field("namespace"), name: field("name"), uid: field("uid") };
    by.shard_of(id, ShardCount::new(16).unwrap()).unwrap()
}

impl World {
    pub(super) fn new(by: ShardBy, shard_selectors: ShardSelectors) -> Arc<Self> {
        Self::with(by, shard_selectors, Related::All, None)
    }

    pub(super) fn with(
        by: ShardBy,
        shard_selectors: ShardSelectors,
        related: Related,
        seed: Option<u64>,
    ) -> Arc<Self> {
        let server = ApiServer::builder()
            .resource(leases())
            .resource(Resource::config_maps())
            .resource(Resource::pods())
            .shard_selectors(shard_selectors)
            .build();
        apply_leases(&server, "shop", 16);
        let world = Self {
            server,
            by,
            related,
            delays: seed.map(|seed| Mutex::new(fastrand::Rng::with_seed(seed))),
            running: Mutex::default(),
            done: Mutex::default(),
            deleted: Mutex::default(),
            errors: Arc::default(),
        };
        (0..OBJECTS).for_each(|number| world.write(number));
        Arc::new(world)
    }

    /// Returns the client of an informer. Each of its requests, and each answer, may be delayed.
    pub(super) fn client(self: &Arc<Self>) -> Client {
        let (client, world) = (self.server.client(), Arc::clone(self));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (client, world) = (client.clone(), Arc::clone(&world));
            async move {
                world.delay().await;
                let answer = client.send(request).await;
                world.delay().await;
                answer
            }
        });
        Client::new(service, "default")
    }

    pub(super) async fn delay(&self) {
        if let Some(delays) = &self.delays {
            let delay = delays.lock().u32(..30);
            sleep(delay * SECOND / 20).await;
        }
    }

    /// Creates or changes an object.
    pub(super) fn write(&self, number: usize) {
        let (namespace, name) = name_of(number);
        let value =
            self.object(number).map_or(0, |map| map["data"]["value"].as_str().unwrap().len()) + 1;
        self.server
            .apply(json!({
                "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": { "namespace": namespace, "name": name },
                "data": { "value": "x".repeat(value) },
            }))
            .unwrap();
    }

    /// Creates a pod that a config map owns.
    pub(super) fn write_pod(&self, number: usize) {
        let (namespace, name) = name_of(number);
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name,
            "uid": self.object(number).unwrap()["metadata"]["uid"],
        });
        self.server
            .apply(json!({
                "kind": "Pod", "apiVersion": "v1",
                "metadata": {
                    "namespace": namespace, "name": format!("pod-{number}"),
                    "ownerReferences": [owner],
                },
            }))
            .unwrap();
    }

    pub(super) fn delete_pod(&self, number: usize) {
        let (namespace, _) = name_of(number);
        self.server.delete(&Resource::pods(), &namespace, &format!("pod-{number}")).unwrap();
    }

    pub(super) fn object(&self, number: usize) -> Option<Value> {
        let (namespace, name) = name_of(number);
        self.server.get(&Resource::config_maps(), &namespace, &name)
    }

    pub(super) fn delete(&self, number: usize) {
        let (namespace, name) = name_of(number);
        self.server.delete(&Resource::config_maps(), &namespace, &name).unwrap();
    }

    pub(super) async fn reconcile(&self, pod: &str, map: &ConfigMap) {
        let permit = Permit::current().expect("a sharded controller has a permit");
        let key = format!("{}/{}", map.namespace().unwrap(), map.name_any());
        assert_eq!(permit.shard(), shard_of(self.by, &json!(map)));
        // By uid, an object that is created again may be reconciled while its predecessor is.
        let running = if self.by == ShardBy::Uid { map.uid().unwrap() } else { key.clone() };
        if !self.running.lock().insert(running.clone()) {
            self.errors.lock().push(format!("{key} is reconciled twice at a time"));
        }
        let _running = Running { world: self, key: running };
        sleep(SECOND / 10).await;
        self.done.lock().push((pod.to_owned(), key, map.resource_version().unwrap()));
    }

    /// Returns the objects on the server: for each key the shard and the version.
    pub(super) fn objects(&self) -> BTreeMap<String, (u8, String)> {
        let objects = (0..2 * OBJECTS).filter_map(|number| {
            let object = self.object(number)?;
            let version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            Some((key_of(number), (shard_of(self.by, &object), version)))
        });
        objects.collect()
    }

    /// Asserts that each shard has an owner, that each store has the objects of its member's shards
    /// in their newest versions, and no other, and that each object was reconciled by its owner in
    /// its newest version.
    pub(super) fn check<F: Form<Object = ConfigMap> + Decodable>(&self, workers: &[&Worker<F>])
    where
        KubeMeta: Labels<F>,
    {
        let context = format!("{:?}", self.by);
        let objects = self.objects();
        let mut owners = BTreeMap::new();
        for worker in workers {
            let owned = *worker.replica.group.owned().borrow();
            owners.extend(owned.iter().map(|shard| (shard, worker.pod)));
            let expected: BTreeMap<_, _> = objects
                .iter()
                .filter(|(_, (shard, _))| owned.contains(*shard))
                .map(|(key, (_, version))| (key.clone(), version.clone()))
                .collect();
            assert_eq!(worker.stored(), expected, "{context}: the store of {}", worker.pod);
        }
        assert_eq!(owners.len(), 16, "{context}: each shard has an owner");
        let done = self.done.lock();
        for (key, (shard, version)) in objects {
            let done_by_owner = (owners[&shard].to_owned(), key, version);
            assert!(done.contains(&done_by_owner), "{context}: {done_by_owner:?} is missing");
        }
        assert_eq!(*self.errors.lock(), <[String; 0]>::default(), "{context}");
    }

    /// Returns the requests of config maps since the last call.
    pub(super) fn requests(&self, verb: Verb) -> Vec<Request> {
        let requests = self.server.requests();
        self.server.forget_requests();
        let is_of_maps =
            |request: &Request| request.verb() == verb && request.plural() == Some("configmaps");
        requests.into_iter().filter(is_of_maps).collect()
    }
}

/// The reconcile of an object.
pub(super) struct Running<'w> {
    world: &'w World,
    pub(super) key: String,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.world.running.lock().remove(&self.key);
    }
}

/// A replica in split mode, with a store of objects in the form `F`.
pub(super) struct Worker<F: Form = ConfigMap>
where
    KubeMeta: Meta<F>,
{
    pub(super) pod: &'static str,
    pub(super) replica: Replica,
    pub(super) maps: SharedInformer<F>,
    pub(super) pods: SharedInformer<Pod>,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

impl<F: Form<Object = ConfigMap> + Decodable> Worker<F>
where
    KubeMeta: Labels<F>,
{
    pub(super) fn start(world: &Arc<World>, pod: &'static str) -> Self {
        let builder = builder_of(world.server.client(), pod).by(world.by);
        Self::of(world, pod, Replica::start_with(builder))
    }

    /// Starts the informer and the controller of a replica whose group runs.
    pub(super) fn of(world: &Arc<World>, pod: &'static str, replica: Replica) -> Self {
        let source = KubeListerWatcher::new::<ConfigMap>(world.client(), &(), None);
        let page_size = if world.delays.is_some() { 10 } else { 500 };
        let maps = SharedInformer::<F>::in_shards(&replica.group, source)
            .reflector(move |reflector| reflector.page_size(page_size))
            .build()
            .unwrap();
        let source = KubeListerWatcher::new::<Pod>(world.server.client(), &(), None);
        let pods = match world.related {
            Related::InShards => SharedInformer::<Pod>::in_shards(&replica.group, source),
            Related::All => SharedInformer::<Pod>::builder(source),
        };
        let pods = pods.build().unwrap();
        let (reconciling, deleting) = (world.clone(), world.clone());
        let controller = Controller::from_informer(&maps)
            .owns_informer::<Pod>(&pods)
            .sharded(&replica.group)
            .on_deleted(move |last| {
                let map = last.object().unwrap();
                let key = format!("{}/{}", map.namespace().unwrap(), map.name_any());
                deleting.deleted.lock().push((pod.to_owned(), key));
                async {}
            })
            .run(
                move |map: Arc<ConfigMap>, _| {
                    let world = reconciling.clone();
                    async move {
                        world.reconcile(pod, &map).await;
                        Ok::<_, std::fmt::Error>(Action::await_change())
                    }
                },
                |_, _, _| Action::await_change(),
                Arc::new(()),
            )
            .for_each(collect_errors(Arc::clone(&world.errors)));
        let (run_maps, run_pods) = (maps.clone(), pods.clone());
        let tasks = vec![
            tokio::spawn(controller),
            tokio::spawn(async move { run_maps.run().await.unwrap() }),
            tokio::spawn(async move { run_pods.run().await.unwrap() }),
        ];
        Self { pod, replica, maps, pods, tasks }
    }

    /// Returns the versions of the objects in the store.
    pub(super) fn stored(&self) -> BTreeMap<String, String> {
        let mut stored = BTreeMap::new();
        self.maps.store().for_each(|map| {
            let (namespace, name) = (KubeMeta.namespace(map).unwrap(), KubeMeta.name(map).unwrap());
            let version = KubeMeta.version(map).unwrap().to_owned();
            stored.insert(format!("{namespace}/{name}"), version);
        });
        stored
    }

    /// Stops the replica. Its shards are released.
    pub(super) async fn stop(mut self) {
        self.replica.stop();
        self.replica.ended().await.unwrap();
        sleep(SECOND).await;
        assert_eq!(self.stored(), BTreeMap::new(), "a member that has ended holds nothing");
    }
}

impl<F: Form> Drop for Worker<F>
where
    KubeMeta: Meta<F>,
{
    /// Ends the replica as a process that is killed.
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Waits until all requested reconciles have ended.
pub(super) async fn settled() {
    sleep(2 * SECOND).await;
}
