//! Tests of groups whose controllers reconcile objects of several kinds.

use std::collections::BTreeSet;
use std::fmt::{Debug, Error};
use std::hash::Hash;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb};
use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::DynamicObject;
use kube::core::{ApiResource, discovery::Scope};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::rig::*;
use crate::runtime::controller::{Action, Config, Error as ControllerError};
use crate::runtime::reflector::ObjectRef;
use crate::runtime::{Controller, watcher};
use crate::sharding::{Permit, ShardBy, ShardGroup, ShardSet};
use crate::{KubeListerWatcher, SharedInformer};

/// Returns a server with the Leases of the group, and a config map and a pod in each shard.
fn server() -> ApiServer {
    let server = super::rig::server();
    server.register(Resource::config_maps());
    server.register(Resource::pods());
    for shard in 0..16 {
        write(&server, "ConfigMap", shard, 1);
        write(&server, "Pod", shard, 1);
    }
    server
}

/// Writes the object of a shard.
fn write(server: &ApiServer, kind: &str, shard: u8, value: u32) {
    let mut object = json_of(kind, shard);
    object["metadata"]["labels"] = json!({ "value": value.to_string() });
    server.apply(object).unwrap();
}

/// A reconcile.
#[derive(Clone, Debug)]
struct Reconciled {
    pod: &'static str,
    kind: String,
    name: String,
    value: String,
}

type Log = Arc<Mutex<Vec<Reconciled>>>;

/// Starts a controller of a kind in a replica.
fn start<K>(server: &ApiServer, replica: &Replica, log: &Log, pod: &'static str) -> JoinHandle<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let log = Arc::clone(log);
    let controller = Controller::new(Api::<K>::all(server.client()), watcher::Config::default())
        .sharded(&replica.group)
        .run(
            move |object: Arc<K>, _| {
                let log = Arc::clone(&log);
                async move {
                    let permit = Permit::current().expect("a sharded controller has a permit");
                    assert_eq!(object_of(permit.shard()).name_any(), object.name_any());
                    let (kind, name) = (K::kind(&()).into_owned(), object.name_any());
                    let value = object.labels()["value"].clone();
                    log.lock().push(Reconciled { pod, kind, name, value });
                    Ok::<_, Error>(Action::await_change())
                }
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        )
        .for_each(|_| async {});
    tokio::spawn(controller)
}

/// Returns the names of the objects of a kind that a replica has reconciled.
fn names_of(log: &Log, pod: &str, kind: &str) -> BTreeSet<String> {
    let log = log.lock();
    let of_kind = log.iter().filter(|done| done.pod == pod && done.kind == kind);
    of_kind.map(|done| done.name.clone()).collect()
}

fn names(shards: ShardSet) -> BTreeSet<String> {
    shards.iter().map(|shard| object_of(shard).name_any()).collect()
}

#[tokio::test(start_paused = true)]
async fn shard_is_owned_once_the_stores_of_all_controllers_have_its_objects() {
    for (kind, plural) in [("ConfigMap", "configmaps"), ("Pod", "pods")] {
        let (server, log) = (server(), Log::default());
        let a = Replica::start(&server, "a");
        let of_a =
            [start::<ConfigMap>(&server, &a, &log, "a"), start::<Pod>(&server, &a, &log, "a")];
        a.owns(16).await;
        // The fault below must not strike the watch of `a`.
        sleep(SECOND).await;
        let is_watch = move |request: &Request| {
            request.verb() == Verb::Watch && request.plural() == Some(plural)
        };
        server.fault(Fault::silence().when(is_watch));
        let b = Replica::start(&server, "b");
        let of_b =
            [start::<ConfigMap>(&server, &b, &log, "b"), start::<Pod>(&server, &b, &log, "b")];
        while server.requests().iter().filter(|request| is_watch(request)).count() < 2 {
            sleep(SECOND / 10).await;
        }
        (0..16).for_each(|shard| write(&server, kind, shard, 2));
        sleep(60 * SECOND).await;
        assert!(b.group.owned().borrow().is_empty(), "the store of {plural} is out of date");
        // The watch of `b` begins after 90 s, when the reflector gives this one up.
        let moved = names(b.owns(8).await);
        sleep(SECOND).await;
        assert_eq!(names_of(&log, "b", "ConfigMap"), moved);
        assert_eq!(names_of(&log, "b", "Pod"), moved);
        let is_stale =
            |done: &&Reconciled| done.pod == "b" && done.kind == kind && done.value != "2";
        let stale: Vec<_> = log.lock().iter().filter(is_stale).cloned().collect();
        assert!(stale.is_empty(), "{stale:?}");
        of_a.iter().chain(&of_b).for_each(JoinHandle::abort);
    }
}

#[tokio::test(start_paused = true)]
async fn controller_that_starts_after_ownership_reconciles_its_objects_of_owned_shards() {
    let (server, log) = (server(), Log::default());
    let (a, b) = (Replica::start(&server, "a"), Replica::start(&server, "b"));
    let first =
        [start::<ConfigMap>(&server, &a, &log, "a"), start::<ConfigMap>(&server, &b, &log, "b")];
    let (of_a, of_b) = (a.owns(8).await, b.owns(8).await);
    sleep(SECOND).await;
    assert!(names_of(&log, "a", "ConfigMap").is_superset(&names(of_a)));
    assert!(names_of(&log, "b", "ConfigMap").is_superset(&names(of_b)));
    let second = [start::<Pod>(&server, &a, &log, "a"), start::<Pod>(&server, &b, &log, "b")];
    sleep(SECOND).await;
    assert_eq!(names_of(&log, "a", "Pod"), names(of_a));
    assert_eq!(names_of(&log, "b", "Pod"), names(of_b));
    let enqueued = a.fake.enqueued.lock().len();
    sleep(60 * SECOND).await;
    assert_eq!(a.fake.enqueued.lock().len(), enqueued, "no shard was owned again");
    first.iter().chain(&second).for_each(JoinHandle::abort);
}

/// Runs a controller that does nothing.
fn idle<K>(
    controller: Controller<K>,
    group: &ShardGroup,
) -> impl Stream<Item = Result<String, String>> + Unpin + use<K>
where
    K: kube::Resource<DynamicType: Clone + Debug + Eq + Hash + Unpin>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    let run = controller.sharded(group).run(
        |_, _| async { Ok::<_, Error>(Action::await_change()) },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    );
    let name = |done: Result<(ObjectRef<K>, _), ControllerError<_, _>>| match done {
        Ok((object, _)) => Ok(object.name),
        Err(error) => Err(error.to_string()),
    };
    Box::pin(run.map(name))
}

/// Asserts that the stream yields an error with this text, after errors of lists and watches, and
/// ends.
async fn assert_ends_with(
    mut controller: impl Stream<Item = Result<String, String>> + Unpin,
    text: &str,
) {
    let refused = async {
        while let Some(next) = controller.next().await {
            let error = next.expect_err("nothing is reconciled");
            if error.contains(text) {
                return;
            }
        }
        panic!("no error contains {text:?}")
    };
    timeout(HOUR, refused).await.expect("the error is yielded");
    assert_eq!(controller.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_kind_can_be_sharded_unless_by_namespace() {
    let node = json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "n" } });
    for by in [ShardBy::Key, ShardBy::Uid, ShardBy::Namespace] {
        for exists_at_start in [true, false] {
            let server = super::rig::server();
            server.register(Resource::nodes());
            if exists_at_start {
                server.apply(&node).unwrap();
            }
            let replica = Replica::start_with(builder_of(server.client(), "a").by(by));
            let nodes = Api::<Node>::all(server.client());
            let mut controller =
                idle(Controller::new(nodes, watcher::Config::default()), &replica.group);
            if !exists_at_start {
                assert!(timeout(60 * SECOND, controller.next()).await.is_err());
                assert_eq!(replica.group.owned().borrow().len(), 16);
                server.apply(&node).unwrap();
            }
            if by == ShardBy::Namespace {
                assert_ends_with(controller, "Node.v1./n has none").await;
            } else {
                let first = timeout(HOUR, controller.next()).await.expect("it continues");
                assert_eq!(first, Some(Ok("n".to_owned())));
            }
        }
    }
}

/// The definition is missing at first.
#[tokio::test(start_paused = true)]
async fn kind_whose_scope_is_not_known_at_the_start_is_refused_once_it_has_an_object() {
    let server = super::rig::server();
    let replica = Replica::start_with(builder_of(server.client(), "a").by(ShardBy::Namespace));
    let types = ApiResource {
        group: "shop.example".to_owned(),
        version: "v1".to_owned(),
        api_version: "shop.example/v1".to_owned(),
        kind: "Cart".to_owned(),
        plural: "carts".to_owned(),
    };
    let carts = Api::<DynamicObject>::all_with(server.client(), &types);
    let controller = Controller::new_with(carts, watcher::Config::default(), types.clone());
    let controller = idle(controller, &replica.group);
    let defined = async {
        sleep(60 * SECOND).await;
        server.register(Resource::custom(types, Scope::Cluster));
        sleep(600 * SECOND).await;
        let metadata = json!({ "name": "c" });
        let cart = json!({ "kind": "Cart", "apiVersion": "shop.example/v1", "metadata": metadata });
        server.apply(cart).unwrap();
    };
    tokio::join!(defined, assert_ends_with(controller, "Cart.v1.shop.example/c has none"));
}

#[tokio::test(start_paused = true)]
async fn objects_without_a_uid_are_not_sharded_by_it() {
    let server = server();
    let replica = Replica::start_with(builder_of(server.client(), "a").by(ShardBy::Uid));
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let without_uid = |mut map: Arc<ConfigMap>| {
        Arc::make_mut(&mut map).metadata.uid = None;
        Ok(map)
    };
    let maps = SharedInformer::<ConfigMap>::builder(source).transform(without_uid).build().unwrap();
    let controller = idle(Controller::from_informer(&maps), &replica.group);
    let ended = assert_ends_with(controller, "keep `metadata.uid`");
    tokio::select! {
        () = ended => {}
        _stopped = maps.run() => panic!("the informer runs"),
    }
}

#[tokio::test(start_paused = true)]
async fn object_without_the_property_of_the_group_gets_no_permit_and_is_reported_each_minute() {
    for (by, property) in [(ShardBy::Namespace, "namespace"), (ShardBy::Uid, "uid")] {
        let server = super::rig::server();
        let replica = Replica::start_with(builder_of(server.client(), "a").by(by));
        replica.owns(16).await;
        let mut node = Node::default();
        node.metadata.name = Some("n".to_owned());
        for _ in 0..90 {
            assert!(replica.group.admit(&node).is_none());
            sleep(SECOND).await;
        }
        let reported = replica.reported();
        assert_eq!(reported.len(), 2, "{reported:?}");
        let expected = format!("object n has no {property}, by which group shop/counter shards");
        assert!(reported[0].contains(&expected), "{reported:?}");
    }
}

/// Nobody has worked on them since the former owner has released the shards.
#[tokio::test(start_paused = true)]
async fn objects_of_shards_that_have_moved_are_reconciled_before_those_of_a_resync() {
    let server = server();
    let mut former = Replica::start(&server, "a");
    former.owns(16).await;
    let heir = Replica::start(&server, "b");
    let (resync, requested) = oneshot::channel::<()>();
    // The stream of requests does not end.
    let requests = stream::once(async { drop(requested.await) }).chain(stream::pending());
    let order = Arc::<Mutex<Vec<u8>>>::default();
    let controller =
        Controller::new(Api::<ConfigMap>::all(server.client()), watcher::Config::default())
            .with_config(Config::default().concurrency(1))
            .reconcile_all_on(requests)
            .sharded(&heir.group)
            .run(
                |_, order: Arc<Mutex<Vec<u8>>>| async move {
                    order.lock().push(Permit::current().unwrap().shard());
                    sleep(SECOND).await;
                    Ok::<_, Error>(Action::await_change())
                },
                |_, _, _| Action::await_change(),
                Arc::clone(&order),
            );
    let controller = tokio::spawn(controller.for_each(|_| async {}));
    let kept = heir.owns(8).await;
    sleep(20 * SECOND).await;
    assert_eq!(order.lock().drain(..).collect::<ShardSet>(), kept);

    resync.send(()).unwrap();
    sleep(SECOND / 2).await;
    former.stop();
    sleep(30 * SECOND).await;
    let order = std::mem::take(&mut *order.lock());
    assert_eq!(order.iter().copied().collect::<ShardSet>().len(), 16);
    // The first one was running. One of eight is the oldest request in any case; the first one may
    // have been that.
    let moved = order[1..].iter().take_while(|shard| !kept.contains(**shard)).count();
    assert!(moved >= 7, "{kept:?}: {order:?}");
    controller.abort();
}
