//! Tests of split mode: controllers over informers that contain only the objects of their member's
//! shards, on servers that shard, that do not, and that shard lists only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo::{Labels, Meta};
use deltafifo_testkit::{ApiServer, Request, Resource, ShardSelectors, Verb};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::rig::{Replica, SECOND, builder_of, lease, leases, members, name_of as name_of_lease};
use crate::reflector::Decodable;
use crate::runtime::controller::{self, Action};
use crate::runtime::{Controller, Form};
use crate::sharding::shards::ShardCount;
use crate::sharding::{ObjectId, Permit, ShardBy};
use crate::{KubeListerWatcher, KubeMeta, SharedInformer};

const SERVERS: [ShardSelectors; 3] =
    [ShardSelectors::Ignored, ShardSelectors::Honoured, ShardSelectors::HonouredInLists];
const PROPERTIES: [ShardBy; 3] = [ShardBy::Key, ShardBy::Uid, ShardBy::Namespace];
/// The number of objects at first.
const OBJECTS: usize = 48;

/// A server, and the record of all replicas' work.
struct World {
    server: ApiServer,
    by: ShardBy,
    related: Related,
    /// The objects whose reconciles run now.
    running: Mutex<BTreeSet<String>>,
    /// Each reconcile that has ended: the replica, the key and the version.
    done: Mutex<Vec<(String, String, String)>>,
    /// The deletions that were handled: the replica and the key.
    deleted: Mutex<Vec<(String, String)>>,
    errors: Mutex<Vec<String>>,
}

/// The pods, which config maps own, that each replica has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Related {
    All,
    InShards,
}

/// Returns the namespace and the name of an object. The namespaces are in many shards.
fn name_of(number: usize) -> (String, String) {
    let namespace = (number as u64 % 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (format!("{namespace:x}"), format!("m{number}"))
}

fn key_of(number: usize) -> String {
    let (namespace, name) = name_of(number);
    format!("{namespace}/{name}")
}

/// Returns the shard of an object.
fn shard_of(by: ShardBy, object: &Value) -> u8 {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let id = ObjectId { namespace: field("namespace"), name: field("name"), uid: field("uid") };
    by.shard_of(id, ShardCount::new(16).unwrap())
}

impl World {
    fn new(by: ShardBy, shard_selectors: ShardSelectors) -> Arc<Self> {
        Self::with(by, shard_selectors, Related::All)
    }

    fn with(by: ShardBy, shard_selectors: ShardSelectors, related: Related) -> Arc<Self> {
        let server = ApiServer::builder()
            .resource(leases())
            .resource(Resource::config_maps())
            .resource(Resource::pods())
            .shard_selectors(shard_selectors)
            .build();
        let shards = (0..16).map(|shard| format!("counter-shard-{shard:03}"));
        for name in shards.chain(["counter".to_owned()]) {
            server.apply(lease(&name, &json!(null))).unwrap();
        }
        let world = Self {
            server,
            by,
            related,
            running: Mutex::default(),
            done: Mutex::default(),
            deleted: Mutex::default(),
            errors: Mutex::default(),
        };
        (0..OBJECTS).for_each(|number| world.write(number));
        Arc::new(world)
    }

    /// Creates or changes an object.
    fn write(&self, number: usize) {
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
    fn write_pod(&self, number: usize) {
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

    fn delete_pod(&self, number: usize) {
        let (namespace, _) = name_of(number);
        self.server.delete(&Resource::pods(), &namespace, &format!("pod-{number}")).unwrap();
    }

    fn object(&self, number: usize) -> Option<Value> {
        let (namespace, name) = name_of(number);
        self.server.get(&Resource::config_maps(), &namespace, &name)
    }

    fn delete(&self, number: usize) {
        let (namespace, name) = name_of(number);
        self.server.delete(&Resource::config_maps(), &namespace, &name).unwrap();
    }

    async fn reconcile(&self, pod: &str, map: &ConfigMap) {
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
    fn objects(&self) -> BTreeMap<String, (u8, String)> {
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
    fn check<F: Form<Object = ConfigMap> + Decodable>(&self, workers: &[&Worker<F>])
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
    fn requests(&self, verb: Verb) -> Vec<Request> {
        let requests = self.server.requests();
        self.server.forget_requests();
        let is_of_maps =
            |request: &Request| request.verb() == verb && request.plural() == Some("configmaps");
        requests.into_iter().filter(is_of_maps).collect()
    }
}

/// The reconcile of an object.
struct Running<'w> {
    world: &'w World,
    key: String,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.world.running.lock().remove(&self.key);
    }
}

/// A replica in split mode, with a store of objects in the form `F`.
struct Worker<F: Form = ConfigMap>
where
    KubeMeta: Meta<F>,
{
    pod: &'static str,
    replica: Replica,
    maps: SharedInformer<F>,
    pods: SharedInformer<Pod>,
    tasks: Vec<JoinHandle<()>>,
}

impl<F: Form<Object = ConfigMap> + Decodable> Worker<F>
where
    KubeMeta: Labels<F>,
{
    fn start(world: &Arc<World>, pod: &'static str) -> Self {
        let builder = builder_of(world.server.client(), pod).by(world.by);
        Self::of(world, pod, Replica::start_with(builder))
    }

    /// Starts the informer and the controller of a replica whose group runs.
    fn of(world: &Arc<World>, pod: &'static str, replica: Replica) -> Self {
        let source = KubeListerWatcher::new::<ConfigMap>(world.server.client(), &(), None);
        let maps = SharedInformer::<F>::in_shards(&replica.group, source).build().unwrap();
        let source = KubeListerWatcher::new::<Pod>(world.server.client(), &(), None);
        let pods = match world.related {
            Related::InShards => SharedInformer::<Pod>::in_shards(&replica.group, source),
            Related::All => SharedInformer::<Pod>::builder(source),
        };
        let pods = pods.build().unwrap();
        let (reconciling, deleting, failing) = (world.clone(), world.clone(), world.clone());
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
            .for_each(move |result| {
                // Lists and watches may fail in a test.
                if let Err(error) = result
                    && !matches!(error, controller::Error::QueueError(_))
                {
                    failing.errors.lock().push(error.to_string());
                }
                async {}
            });
        let (run_maps, run_pods) = (maps.clone(), pods.clone());
        let tasks = vec![
            tokio::spawn(controller),
            tokio::spawn(async move { run_maps.run().await.unwrap() }),
            tokio::spawn(async move { run_pods.run().await.unwrap() }),
        ];
        Self { pod, replica, maps, pods, tasks }
    }

    /// Returns the versions of the objects in the store.
    fn stored(&self) -> BTreeMap<String, String> {
        let mut stored = BTreeMap::new();
        self.maps.store().for_each(|map| {
            let (namespace, name) = (KubeMeta.namespace(map).unwrap(), KubeMeta.name(map).unwrap());
            let version = KubeMeta.version(map).unwrap().to_owned();
            stored.insert(format!("{namespace}/{name}"), version);
        });
        stored
    }

    /// Stops the replica. Its shards are released.
    async fn stop(mut self) {
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
async fn settled() {
    sleep(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn each_object_is_held_and_reconciled_by_the_owner_of_its_shard_alone() {
    for (by, server) in PROPERTIES.into_iter().flat_map(|by| SERVERS.map(|server| (by, server))) {
        let world = World::new(by, server);
        let a = Worker::<ConfigMap>::start(&world, "a");
        a.replica.owns(16).await;
        settled().await;
        world.check(&[&a]);

        let b = Worker::<ConfigMap>::start(&world, "b");
        b.replica.owns(8).await;
        settled().await;
        world.check(&[&a, &b]);

        world.done.lock().clear();
        (0..OBJECTS + 12).for_each(|number| world.write(number));
        settled().await;
        world.check(&[&a, &b]);
        assert_eq!(world.done.lock().len(), OBJECTS + 12, "each change is reconciled once");

        let c = Worker::<ConfigMap>::start(&world, "c");
        c.replica.owns(5).await;
        settled().await;
        world.check(&[&a, &b, &c]);
        b.stop().await;
        a.replica.owns(8).await;
        c.replica.owns(8).await;
        settled().await;
        world.check(&[&a, &c]);
        drop(a);
        c.replica.owns(16).await;
        settled().await;
        world.check(&[&c]);
        assert_eq!(*world.deleted.lock(), [], "the move of a shard is no deletion");

        world.delete(7);
        settled().await;
        world.check(&[&c]);
        assert_eq!(*world.deleted.lock(), [("c".to_owned(), key_of(7))]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_list_fills_all_shards_that_are_claimed_at_a_time() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let a = Worker::<ConfigMap>::start(&world, "a");
    a.replica.owns(16).await;
    assert_eq!(world.requests(Verb::List).len(), 1);
}

/// Without a release, the member would still have the objects from before, and would own the shard
/// without another list.
#[tokio::test(start_paused = true)]
async fn shard_that_is_claimed_again_is_listed_again() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let a = Worker::<ConfigMap>::start(&world, "a");
    a.replica.owns(16).await;
    let b = Worker::<ConfigMap>::start(&world, "b");
    b.replica.owns(8).await;
    settled().await;
    world.requests(Verb::List);
    drop(b);
    a.replica.owns(16).await;
    let lists = world.requests(Verb::List);
    assert!(!lists.is_empty());
    assert!(lists.iter().all(|list| list.resource_version().is_empty()), "the newest state");
    settled().await;
    world.check(&[&a]);
}

#[tokio::test(start_paused = true)]
async fn member_that_loses_its_lease_holds_nothing_until_it_has_claimed_again() {
    let world = World::new(ShardBy::Uid, ShardSelectors::Honoured);
    let a = Worker::<ConfigMap>::start(&world, "a");
    a.replica.owns(16).await;
    settled().await;
    let member = members(&world.server).await.remove(0);
    world.server.delete(&leases(), "shop", &name_of_lease(&member)).unwrap();
    a.replica.owns(0).await;
    settled().await;
    assert_eq!(a.stored(), BTreeMap::new());
    let number_of_requests = world.server.requests().len();
    a.replica.owns(16).await;
    settled().await;
    world.check(&[&a]);
    assert!(world.server.requests().len() > number_of_requests);
    assert_eq!(*world.deleted.lock(), []);
}

#[tokio::test(start_paused = true)]
async fn informer_that_is_built_later_has_the_shards_that_its_member_owns() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let replica = Replica::start_with(builder_of(world.server.client(), "a").by(world.by));
    replica.owns(16).await;
    let a = Worker::<ConfigMap>::of(&world, "a", replica);
    settled().await;
    world.check(&[&a]);
}

#[tokio::test(start_paused = true)]
async fn shards_are_owned_only_when_each_informer_that_has_not_ended_is_filled() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let replica = Replica::start_with(builder_of(world.server.client(), "a").by(world.by));
    let build = || {
        let source = KubeListerWatcher::new::<ConfigMap>(world.server.client(), &(), None);
        SharedInformer::<ConfigMap>::in_shards(&replica.group, source).build().unwrap()
    };
    let [dropped, stopped, run] = [build(), build(), build()];
    let running = run.clone();
    let running = tokio::spawn(async move { running.run().await });
    sleep(30 * SECOND).await;
    drop(dropped);
    sleep(SECOND).await;
    assert!(replica.group.owned().borrow().is_empty(), "an informer does not run");
    stopped.stop().await;
    replica.owns(16).await;
    assert_eq!(run.store().len(), OBJECTS);
    running.abort();
}

/// The pods are in the namespaces of the config maps.
#[tokio::test(start_paused = true)]
async fn change_of_a_related_object_reconciles_its_owner() {
    let (all, in_shards) = (Related::All, Related::InShards);
    let worlds = [
        (ShardBy::Key, all),
        (ShardBy::Uid, all),
        (ShardBy::Namespace, all),
        (ShardBy::Namespace, in_shards),
    ];
    for (by, related) in worlds {
        let world = World::with(by, ShardSelectors::Honoured, related);
        let a = Worker::<ConfigMap>::start(&world, "a");
        let b = Worker::<ConfigMap>::start(&world, "b");
        a.replica.owns(8).await;
        b.replica.owns(8).await;
        settled().await;
        world.check(&[&a, &b]);
        world.done.lock().clear();
        (0..OBJECTS).for_each(|number| world.write_pod(number));
        settled().await;
        world.check(&[&a, &b]);
        assert_eq!(world.done.lock().len(), OBJECTS, "{by:?}");
        let pods = [&a, &b].map(|worker| worker.pods.store().len());
        match related {
            Related::All => assert_eq!(pods, [OBJECTS; 2]),
            Related::InShards => assert_eq!(pods.iter().sum::<usize>(), OBJECTS),
        }

        world.done.lock().clear();
        let pods_of_b = b.pods.store().len();
        b.stop().await;
        a.replica.owns(16).await;
        settled().await;
        world.done.lock().clear();
        assert_eq!(a.pods.store().len(), OBJECTS, "{by:?}: {pods_of_b} have moved");
        (0..OBJECTS).for_each(|number| world.delete_pod(number));
        settled().await;
        world.check(&[&a]);
        assert_eq!(world.done.lock().len(), OBJECTS, "{by:?}");
    }
}

#[cfg(feature = "compact")]
#[tokio::test(start_paused = true)]
async fn compact_objects_move_with_their_shards() {
    use crate::compact::Compact;

    for by in PROPERTIES {
        let world = World::new(by, ShardSelectors::HonouredInLists);
        let a = Worker::<Compact<ConfigMap>>::start(&world, "a");
        a.replica.owns(16).await;
        let b = Worker::<Compact<ConfigMap>>::start(&world, "b");
        b.replica.owns(8).await;
        settled().await;
        world.check(&[&a, &b]);
        (0..OBJECTS).for_each(|number| world.write(number));
        settled().await;
        world.check(&[&a, &b]);
        b.stop().await;
        a.replica.owns(16).await;
        settled().await;
        world.check(&[&a]);
        assert_eq!(*world.deleted.lock(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_change_while_their_shards_move_are_reconciled_in_their_last_state() {
    const PODS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    for seed in 0..9 {
        let world = World::new(PROPERTIES[seed % 3], SERVERS[seed / 3]);
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let mut pods = PODS.into_iter();
        let mut workers = vec![Worker::<ConfigMap>::start(&world, pods.next().unwrap())];
        let (mut leaving, mut deleted) = (Vec::new(), BTreeSet::new());
        for _ in 0..PODS.len() {
            let which = random.usize(..workers.len());
            match random.u8(..5) {
                0 | 1 if workers.len() < 3 => {
                    workers.push(Worker::<ConfigMap>::start(&world, pods.next().unwrap()));
                }
                2 if workers.len() > 1 => {
                    let mut worker = workers.remove(which);
                    worker.replica.stop();
                    leaving.push(worker);
                }
                3 if workers.len() > 1 => drop(workers.remove(which)),
                _ => {}
            }
            for _ in 0..60 {
                let number = random.usize(..OBJECTS);
                if random.u8(..4) == 0 && world.object(number).is_some() {
                    world.delete(number);
                    deleted.insert(key_of(number));
                } else {
                    world.write(number);
                }
                sleep(random.u32(..10) * SECOND / 20).await;
            }
        }
        sleep(60 * SECOND).await;
        world.check(&workers.iter().collect::<Vec<_>>());
        for worker in leaving {
            assert_eq!(worker.stored(), BTreeMap::new(), "a member that has ended holds nothing");
        }
        assert!(world.deleted.lock().iter().all(|(_, key)| deleted.contains(key)), "seed {seed}");
    }
}
