//! Tests of the wait for a store before its replica owns a shard.

use std::sync::Arc;

use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use super::rig::*;
use crate::runtime::controller::Action;
use crate::runtime::{Controller, watcher};

/// Starts the owner of all shards, and a second replica whose first watch of a kind is silent. The
/// reflector gives that watch up after 90 s.
async fn beside_a_silent_watch(
    server: &ApiServer,
    world: &Arc<World>,
    is_of_kind: fn(&Request) -> bool,
) -> (Worker, Worker) {
    let a = Worker::start(server, world, "a");
    a.replica.owns(16).await;
    // The fault must not strike the watch of `a`.
    settled().await;
    server.fault(Fault::silence().on(Verb::Watch).when(is_of_kind));
    let b = Worker::start(server, world, "b");
    watched(server, is_of_kind, 2).await;
    (a, b)
}

#[tokio::test(start_paused = true)]
async fn shard_is_owned_once_the_store_has_the_last_write_of_the_former_owner() {
    let (server, world) = (server(), Arc::<World>::default());
    let (_a, b) = beside_a_silent_watch(&server, &world, is_of_maps).await;
    (0..16).for_each(|shard| write_map(&server, shard, 2));
    sleep(60 * SECOND).await;
    assert!(b.replica.group.owned().borrow().is_empty(), "its store is out of date");
    b.replica.owns(8).await;
    settled().await;
    let done = world.done.lock().clone();
    assert!(done.iter().any(|(pod, ..)| pod == "b"));
    assert!(done.iter().all(|(pod, _, value)| pod == "a" || value == "2"), "{done:?}");
    let is_fill = |request: &&Request| {
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
    let is_of_pods = |request: &Request| request.plural() == Some("pods");
    let (_a, b) = beside_a_silent_watch(&server, &world, is_of_pods).await;
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
    let (_a, b) = beside_a_silent_watch(&server, &world, is_of_maps).await;
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
    let is_list_of_pods =
        |request: &Request| request.verb() == Verb::List && request.plural() == Some("pods");
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
