//! Tests of options that a sharded controller shares with others: a graceful shutdown, predicates
//! and finalizers.

use std::convert::Infallible;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::rig::*;
use crate::runtime::controller::Action;
use crate::runtime::finalizer::{Event, finalizer};
use crate::runtime::{Controller, predicates, watcher};
use crate::sharding::{Permit, ShardSet};

/// Returns a server with the Leases of the group, and a config map in each shard.
fn server() -> ApiServer {
    let server = super::rig::server();
    server.register(Resource::config_maps());
    (0..16).for_each(|shard| write_map(&server, shard, 1));
    server
}

/// Starts a replica, with a controller of the config maps that `configure` has changed. Failed
/// reconciles are repeated.
fn start<Reconciled>(
    server: &ApiServer,
    pod: &str,
    configure: impl FnOnce(Controller<ConfigMap>) -> Controller<ConfigMap>,
    reconcile: impl Fn(Arc<ConfigMap>, Permit) -> Reconciled + Send + Sync + 'static,
) -> (Replica, JoinHandle<()>)
where
    Reconciled: Future<Output = Result<(), kube::Error>> + Send + 'static,
{
    let replica = Replica::start(server, pod);
    let maps = Api::<ConfigMap>::all(server.client());
    let controller = configure(Controller::new(maps, watcher::Config::default()))
        .sharded(&replica.group)
        .run(
            move |map, _| {
                let permit = Permit::current().expect("a sharded controller has a permit");
                let reconciled = reconcile(map, permit);
                async move { reconciled.await.map(|()| Action::await_change()) }
            },
            |_, _, _| Action::requeue(SECOND),
            Arc::new(()),
        )
        .for_each(|_| async {});
    (replica, tokio::spawn(controller))
}

/// Waits until all requested reconciles have ended.
async fn settled() {
    sleep(5 * SECOND).await;
}

fn names(shards: ShardSet) -> Vec<String> {
    let mut names: Vec<_> = shards.iter().map(|shard| object_of(shard).name_any()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn graceful_shutdown_lets_reconciles_end_with_their_permits() {
    let server = server();
    let (trigger, triggered) = oneshot::channel::<()>();
    let ends = watch::Sender::new(false);
    let held = Arc::new(Mutex::new(Vec::new()));
    let (of_reconciles, was_held) = (ends.subscribe(), Arc::clone(&held));
    let (mut replica, mut controller) = start(
        &server,
        "a",
        |controller| controller.graceful_shutdown_on(async { drop(triggered.await) }),
        move |_, permit| {
            let (mut ends, was_held) = (of_reconciles.clone(), Arc::clone(&was_held));
            async move {
                ends.wait_for(|ends| *ends).await.unwrap();
                was_held.lock().push(permit.is_held());
                Ok(())
            }
        },
    );
    replica.owns(16).await;
    settled().await;
    drop(trigger);
    (0..16).for_each(|shard| write_map(&server, shard, 2));
    let ended = timeout(60 * SECOND, &mut controller).await;
    assert!(ended.is_err(), "the stream ends after the reconciles");
    ends.send_replace(true);
    controller.await.unwrap();
    assert_eq!(*held.lock(), [true; 16], "no further reconcile starts");
    assert_eq!(replica.group.owned().borrow().len(), 16, "the member keeps its shards");
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
    assert!((0..16).all(|shard| holder(&server, shard).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn predicate_hides_updates_from_an_owner_but_no_object_from_a_new_owner() {
    let server = server();
    let log = Arc::new(Mutex::new(Vec::new()));
    let start = |pod: &'static str| {
        let log = Arc::clone(&log);
        start(
            &server,
            pod,
            |controller| controller.when(predicates::labels),
            move |map, _| {
                log.lock().push((pod, map.name_any()));
                async { Ok(()) }
            },
        )
    };
    let reconciled = |pod| {
        let mut names: Vec<_> = log.lock().iter().filter(|it| it.0 == pod).cloned().collect();
        log.lock().retain(|it| it.0 != pod);
        names.sort();
        names.dedup();
        names.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    let (a, of_a) = start("a");
    let all = a.owns(16).await;
    settled().await;
    assert_eq!(reconciled("a"), names(all));
    (0..16).for_each(|shard| write_map(&server, shard, 2));
    settled().await;
    assert_eq!(reconciled("a"), [] as [String; 0], "the labels have not changed");

    let (b, of_b) = start("b");
    let moved = b.owns(8).await;
    settled().await;
    assert_eq!(reconciled("b"), names(moved));
    assert_eq!(reconciled("a"), [] as [String; 0]);
    of_a.abort();
    of_b.abort();
}

#[tokio::test(start_paused = true)]
async fn object_that_is_deleted_while_nobody_owns_its_shard_is_cleaned_up_by_the_next_owner() {
    let server = server();
    let cleaned_up = Arc::new(Mutex::new(Vec::new()));
    let start = |pod: &'static str| {
        let cleaned_up = Arc::clone(&cleaned_up);
        start(
            &server,
            pod,
            |controller| controller,
            move |map, permit| {
                let maps = Api::namespaced(permit.client(), "shop");
                let cleaned_up = Arc::clone(&cleaned_up);
                async move {
                    let finalized = finalizer(&maps, "shop.example/counted", map, |event| async {
                        if let Event::Cleanup(map) = event {
                            cleaned_up.lock().push((pod, map.name_any()));
                        }
                        Ok::<_, Infallible>(Action::await_change())
                    });
                    finalized.await.map(drop).map_err(|error| kube::Error::Service(error.into()))
                }
            },
        )
    };
    let (a, of_a) = start("a");
    a.owns(16).await;
    settled().await;
    a.kill().await;
    of_a.abort();
    let name = object_of(3).name_any();
    let maps = Api::<ConfigMap>::namespaced(server.client(), "shop");
    maps.delete(&name, &DeleteParams::default()).await.unwrap();
    settled().await;
    assert!(maps.get_opt(&name).await.unwrap().is_some(), "its finalizer is left");

    let (b, of_b) = start("b");
    b.owns(16).await;
    settled().await;
    assert_eq!(*cleaned_up.lock(), [("b", name.clone())]);
    assert!(maps.get_opt(&name).await.unwrap().is_none());
    of_b.abort();
}
