//! Tests of sharded controllers: which replica reconciles which object, and when.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Fault, Resource, Verb, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::rig::*;
use crate::leader_election::{LeaderElector, LeaseLock};
use crate::runtime::controller::{Action, RunnerError};
use crate::runtime::{Controller, controller, watcher};
use crate::sharding::shards::ShardCount;
use crate::sharding::{ObjectId, Permit, ShardBy, ShardSet};

/// Returns a server with the Leases of the group, and a config map in each shard.
fn server() -> ApiServer {
    let server = super::rig::server();
    server.register(Resource::config_maps());
    server.register(Resource::pods());
    (0..16).for_each(|shard| write_map(&server, shard, 1));
    server
}

/// The record of all replicas' work.
#[derive(Default)]
struct World {
    /// The objects whose reconciles run now.
    running: Mutex<BTreeSet<String>>,
    /// Each reconcile that has ended: the replica, the object and its value.
    done: Mutex<Vec<(String, String, String)>>,
    /// The number of reconciles that were dropped.
    dropped: Mutex<usize>,
    /// The deletions that were handled: the replica and the object.
    deleted: Mutex<Vec<(String, String)>>,
    errors: Arc<Mutex<Vec<String>>>,
    /// How objects are assigned to shards, if not by key.
    by: Mutex<Option<ShardBy>>,
    /// Reconciles do not end while this is true.
    holds: watch::Sender<bool>,
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
    async fn reconcile(&self, pod: &str, map: &ConfigMap) {
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
    fn reconciled(&self, pod: &str) -> Vec<String> {
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

    fn check(&self) {
        assert_eq!(*self.errors.lock(), <[String; 0]>::default());
    }
}

/// A replica with a controller, which requeues each object after `requeue`.
struct Worker {
    replica: Replica,
    controller: JoinHandle<()>,
}

impl Worker {
    fn start(server: &ApiServer, world: &Arc<World>, pod: &'static str) -> Self {
        Self::start_with(server, world, pod, ShardBy::Key, Action::await_change())
    }

    fn start_with(
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
fn names(shards: ShardSet) -> Vec<String> {
    let mut names: Vec<_> = shards.iter().map(|shard| object_of(shard).name_any()).collect();
    names.sort();
    names
}

/// Waits until all requested reconciles have ended.
async fn settled() {
    sleep(SECOND).await;
}

/// Waits until two replicas have listed a kind, and have requested a watch of it.
async fn watched_twice(server: &ApiServer, is_of_kind: fn(&deltafifo_testkit::Request) -> bool) {
    let is_watch = |request: &&deltafifo_testkit::Request| {
        request.verb() == Verb::Watch && is_of_kind(request)
    };
    while server.requests().iter().filter(is_watch).count() < 2 {
        sleep(SECOND / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn moved_objects_are_reconciled_by_their_new_owner_alone() {
    let (server, world) = (server(), Arc::<World>::default());
    let a = Worker::start(&server, &world, "a");
    let all = a.replica.owns(16).await;
    settled().await;
    assert_eq!(world.reconciled("a"), names(all));

    let b = Worker::start(&server, &world, "b");
    let of_b = b.replica.owns(8).await;
    settled().await;
    assert_eq!(world.reconciled("b"), names(of_b));
    assert!(world.reconciled("a").is_empty());

    (0..16).for_each(|shard| write_map(&server, shard, 2));
    settled().await;
    let of_a = a.replica.owns(8).await;
    assert_eq!(world.reconciled("a"), names(of_a));
    assert_eq!(world.reconciled("b"), names(of_b));

    let mut a = a;
    a.replica.stop();
    a.replica.ended().await.unwrap();
    b.replica.owns(16).await;
    settled().await;
    assert_eq!(world.reconciled("b"), names(of_a));
    assert!(world.reconciled("a").is_empty());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn each_object_is_reconciled_by_one_member_at_a_time_while_members_come_and_go() {
    let (server, world) = (server(), Arc::<World>::default());
    let mut workers = Vec::new();
    for (round, pod) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        workers.push(Worker::start(&server, &world, pod));
        for second in 0..40 {
            (0..16).for_each(|shard| write_map(&server, shard, second));
            sleep(SECOND / 4).await;
        }
        if round >= 2 {
            let mut oldest = workers.remove(0);
            oldest.replica.stop();
            oldest.replica.ended().await.unwrap();
        }
    }
    (0..16).for_each(|shard| write_map(&server, shard, 100));
    sleep(30 * SECOND).await;
    let done = world.done.lock();
    for name in names((0..16).collect()) {
        let is_last = |(_, of, value): &&_| *of == name && *value == "100";
        assert_eq!(done.iter().filter(is_last).count(), 1, "{name}");
    }
    drop(done);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn running_reconcile_delays_the_release_until_it_ends() {
    let (server, world) = (server(), Arc::<World>::default());
    world.holds.send_replace(true);
    let a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    settled().await;
    let b = Worker::start(&server, &world, "b");
    // The shards drain once `b` has settled.
    a.replica.owns(8).await;
    sleep(5 * SECOND).await;
    assert!(b.replica.group.owned().borrow().is_empty());
    world.holds.send_replace(false);
    let of_b = timeout(2 * SECOND, b.replica.owns(8)).await.expect("it is released at once");
    settled().await;
    assert_eq!(*world.dropped.lock(), 0);
    assert_eq!(world.reconciled("a"), names((0..16).collect()));
    assert_eq!(world.reconciled("b"), names(of_b));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn reconcile_beyond_the_drain_timeout_is_dropped_and_forgotten() {
    let (server, world) = (server(), Arc::<World>::default());
    world.holds.send_replace(true);
    let a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    settled().await;
    let b = Worker::start(&server, &world, "b");
    let of_b = b.replica.owns(8).await;
    assert_eq!(*world.dropped.lock(), 8);
    world.holds.send_replace(false);
    settled().await;
    assert_eq!(world.reconciled("a"), names(a.replica.owns(8).await));
    assert_eq!(world.reconciled("b"), names(of_b));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn requeue_of_a_moved_shard_comes_to_nothing() {
    let (server, world) = (server(), Arc::<World>::default());
    let requeue = Action::requeue(100 * SECOND);
    let start = |pod| Worker::start_with(&server, &world, pod, ShardBy::Key, requeue.clone());
    let a = start("a");
    a.replica.owns(16).await;
    settled().await;
    let b = start("b");
    let (of_b, of_a) = (b.replica.owns(8).await, a.replica.owns(8).await);
    settled().await;
    world.done.lock().clear();
    sleep(130 * SECOND).await;
    assert_eq!(world.reconciled("a"), names(of_a));
    assert_eq!(world.reconciled("b"), names(of_b));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn object_that_is_deleted_while_nobody_owns_its_shard_calls_no_deletion_handler() {
    let (server, world) = (server(), Arc::<World>::default());
    let mut a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    settled().await;
    let delete = |shard| {
        let name = object_of(shard).name_any();
        server.delete(&Resource::config_maps(), "shop", &name).unwrap();
        name
    };
    let owned = delete(0);
    settled().await;
    assert_eq!(*world.deleted.lock(), [("a".to_owned(), owned)]);
    a.replica.stop();
    a.replica.ended().await.unwrap();
    delete(1);
    settled().await;
    let b = Worker::start(&server, &world, "b");
    b.replica.owns(16).await;
    settled().await;
    assert_eq!(world.deleted.lock().len(), 1);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn shard_is_owned_once_the_store_has_the_last_write_of_the_former_owner() {
    let (server, world) = (server(), Arc::<World>::default());
    let a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    settled().await;
    // The watch of `b` begins after 90 s, when the reflector gives this one up.
    let is_of_maps = |request: &deltafifo_testkit::Request| request.plural() == Some("configmaps");
    server.fault(Fault::silence().on(Verb::Watch).when(is_of_maps));
    let b = Worker::start(&server, &world, "b");
    watched_twice(&server, is_of_maps).await;
    (0..16).for_each(|shard| write_map(&server, shard, 2));
    sleep(60 * SECOND).await;
    assert!(b.replica.group.owned().borrow().is_empty(), "its store is out of date");
    b.replica.owns(8).await;
    settled().await;
    let done = world.done.lock().clone();
    assert!(done.iter().any(|(pod, ..)| pod == "b"));
    assert!(done.iter().all(|(pod, _, value)| pod == "a" || value == "2"), "{done:?}");
    let is_fill = |request: &&deltafifo_testkit::Request| {
        request.verb() == Verb::List && is_of_maps(request) && request.is_metadata_only()
    };
    assert!(
        server.requests().iter().filter(is_fill).all(|list| list.resource_version().is_empty())
    );
    assert!(server.requests().iter().filter(is_fill).count() >= 2);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn shard_is_owned_once_the_store_has_all_related_objects() {
    let (server, world) = (server(), Arc::<World>::default());
    let a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    // The fault below must not strike the watch of `a`.
    settled().await;
    let is_of_pods = |request: &deltafifo_testkit::Request| request.plural() == Some("pods");
    server.fault(Fault::silence().on(Verb::Watch).when(is_of_pods));
    let b = Worker::start(&server, &world, "b");
    watched_twice(&server, is_of_pods).await;
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": { "namespace": "shop", "name": "child" },
    });
    server.apply(pod).unwrap();
    sleep(60 * SECOND).await;
    assert!(b.replica.group.owned().borrow().is_empty(), "its store lacks the pod");
    b.replica.owns(8).await;
    world.check();
}

#[tokio::test(start_paused = true)]
async fn object_that_was_deleted_is_waited_for_until_the_store_lacks_it() {
    let (server, world) = (server(), Arc::<World>::default());
    let a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    // The fault below must not strike the watch of `a`.
    settled().await;
    let is_of_maps = |request: &deltafifo_testkit::Request| request.plural() == Some("configmaps");
    server.fault(Fault::silence().on(Verb::Watch).when(is_of_maps));
    let b = Worker::start(&server, &world, "b");
    watched_twice(&server, is_of_maps).await;
    for shard in 0..16 {
        let name = object_of(shard).name_any();
        server.delete(&Resource::config_maps(), "shop", &name).unwrap();
    }
    sleep(60 * SECOND).await;
    assert!(b.replica.group.owned().borrow().is_empty(), "its store has deleted objects");
    b.replica.owns(8).await;
    settled().await;
    assert!(world.reconciled("b").is_empty());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn object_that_is_created_again_is_reconciled_by_the_owner_of_its_uid() {
    let (server, world) = (server(), Arc::<World>::default());
    let start =
        |pod| Worker::start_with(&server, &world, pod, ShardBy::Uid, Action::await_change());
    let (a, b) = (start("a"), start("b"));
    a.replica.owns(8).await;
    b.replica.owns(8).await;
    settled().await;
    world.done.lock().clear();
    let name = object_of(3).name_any();
    for round in 2..20 {
        server.delete(&Resource::config_maps(), "shop", &name).unwrap();
        write_map(&server, 3, round);
        settled().await;
    }
    assert_eq!(world.done.lock().len(), 18);
    assert_eq!(world.deleted.lock().len(), 18);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn object_that_was_created_again_with_a_uid_of_another_shard_does_not_delay_a_move() {
    let (server, world) = (server(), Arc::<World>::default());
    let start =
        |pod| Worker::start_with(&server, &world, pod, ShardBy::Uid, Action::await_change());
    let a = start("a");
    a.replica.owns(16).await;
    // The fault below must not strike the watch of `a`.
    settled().await;
    let is_of_maps = |request: &deltafifo_testkit::Request| request.plural() == Some("configmaps");
    server.fault(Fault::silence().on(Verb::Watch).when(is_of_maps));
    let b = start("b");
    watched_twice(&server, is_of_maps).await;
    for shard in 0..16 {
        server.delete(&Resource::config_maps(), "shop", &object_of(shard).name_any()).unwrap();
        write_map(&server, shard, 2);
    }
    // The watch of `b` begins when the reflector gives the silent one up.
    let is_watch = |request: &&deltafifo_testkit::Request| {
        request.verb() == Verb::Watch && is_of_maps(request)
    };
    while server.requests().iter().filter(is_watch).count() < 3 {
        sleep(SECOND / 10).await;
    }
    timeout(2 * SECOND, b.replica.owns(8)).await.expect("its store holds the list");
    world.check();
}

#[cfg(feature = "compact")]
#[tokio::test(start_paused = true)]
async fn compact_object_is_in_the_shard_of_its_whole_uid() {
    let (server, world) = (server(), Arc::<World>::default());
    *world.by.lock() = Some(ShardBy::Uid);
    let replica = Replica::start_with(builder_of(server.client(), "a").by(ShardBy::Uid));
    let reconciling = world.clone();
    let controller = Controller::new(Api::all(server.client()), watcher::Config::default())
        .compact()
        .sharded(&replica.group)
        .run(
            move |map: Arc<ConfigMap>, _| {
                let world = reconciling.clone();
                async move {
                    world.reconcile("a", &map).await;
                    Ok::<_, std::fmt::Error>(Action::await_change())
                }
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        )
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);
    let all = replica.owns(16).await;
    settled().await;
    controller.abort();
    assert_eq!(world.reconciled("a"), names(all));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn led_and_sharded_controllers_work_beside_each_other_but_one_cannot_be_both() {
    let (server, world) = (server(), Arc::<World>::default());
    let a = Worker::start(&server, &world, "a");
    let maps = Api::<ConfigMap>::all(server.client());
    let elector =
        LeaderElector::builder(server.client(), LeaseLock::new("shop", "leader").identity("a"));
    let elector = elector.build().unwrap();
    let work = elector.run(|term| {
        let (group, term) = (a.replica.group.clone(), term);
        let maps = maps.clone();
        async move {
            let new =
                || Controller::new(maps.clone(), watcher::Config::default()).while_leading(&term);
            let run = |controller: Controller<ConfigMap>| {
                controller.run(
                    |_, _| async {
                        assert!(Permit::current().is_none());
                        Ok::<_, std::fmt::Error>(Action::await_change())
                    },
                    |_, _, _| Action::await_change(),
                    Arc::new(()),
                )
            };
            let mut both = Box::pin(run(new().sharded(&group)));
            let error = both.next().await.unwrap().unwrap_err();
            let is_expected =
                matches!(error, controller::Error::RunnerError(RunnerError::LedAndSharded));
            assert!(is_expected, "{error}");
            assert!(both.next().await.is_none());
            let mut led = Box::pin(run(new()).take(16));
            while let Some(reconciled) = led.next().await {
                reconciled.unwrap();
            }
        }
    });
    timeout(HOUR, work).await.unwrap().unwrap();
    a.replica.owns(16).await;
    settled().await;
    assert_eq!(world.reconciled("a"), names((0..16).collect()));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn informer_of_a_stream_or_with_an_in_order_queue_cannot_be_sharded() {
    use crate::{KubeListerWatcher, SharedInformer};

    let server = server();
    let replica = Replica::start(&server, "a");
    let events = futures_util::stream::pending::<kube::runtime::watcher::Result<_>>();
    let of_stream = SharedInformer::<ConfigMap>::for_stream(events).build().unwrap();
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let in_order = SharedInformer::builder(source).in_order().build().unwrap();
    for maps in [of_stream, in_order] {
        let run = Controller::from_informer(&maps).sharded(&replica.group).run(
            |_, _| async { Ok::<_, std::fmt::Error>(Action::await_change()) },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
        let error = Box::pin(run).next().await.unwrap().unwrap_err();
        let is_expected =
            matches!(error, controller::Error::RunnerError(RunnerError::NotListable { .. }));
        assert!(is_expected, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn shard_is_owned_although_an_optional_kind_is_no_longer_allowed() {
    let server = server();
    let replica = Replica::start(&server, "a");
    let run = Controller::new(Api::<ConfigMap>::all(server.client()), watcher::Config::default())
        .owns(Api::<Pod>::all(server.client()), watcher::Config::default())
        .optional()
        .sharded(&replica.group)
        .run(
            |_, _| async { Ok::<_, std::fmt::Error>(Action::await_change()) },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
    let controller = tokio::spawn(run.for_each(|_| async {}));
    replica.owns(16).await;
    let mut other = Replica::start(&server, "b");
    replica.owns(8).await;
    settled().await;
    let is_list_of_pods = |request: &deltafifo_testkit::Request| {
        request.verb() == Verb::List && request.plural() == Some("pods")
    };
    let forbidden = status::forbidden(&Resource::pods());
    server.fault(Fault::status(forbidden).when(is_list_of_pods).times(usize::MAX));
    other.stop();
    replica.owns(16).await;
    controller.abort();
}

#[tokio::test(start_paused = true)]
async fn shard_with_an_object_that_cannot_be_decoded_is_owned_after_bookmarks() {
    let (server, world) = (server(), Arc::<World>::default());
    let a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    // Enough for most shards.
    for number in 0..64 {
        let wrong = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "data": 7,
            "metadata": { "namespace": "shop", "name": format!("wrong-{number}") },
        });
        server.apply(wrong).unwrap();
    }
    let b = Worker::start(&server, &world, "b");
    sleep(60 * SECOND).await;
    assert!(b.replica.group.owned().borrow().is_empty(), "a listed object is not in its store");
    let bookmarks = async {
        loop {
            server.bookmark(&Resource::config_maps());
            sleep(60 * SECOND).await;
        }
    };
    tokio::select! {
        _ = b.replica.owns(8) => {}
        () = bookmarks => {}
    }
    world.check();
}
