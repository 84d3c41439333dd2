//! Tests of the retries of objects whose shards move.

use std::fmt::Error;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::rig::*;
use crate::runtime::controller::Action;
use crate::runtime::{Controller, watcher};
use crate::sharding::ShardSet;
use crate::workqueue::ItemExponentialFailureRateLimiter;

/// The attempts to reconcile: the replica and the object.
type Attempts = Arc<Mutex<Vec<(&'static str, String)>>>;

/// Returns a server with the Leases of the group, and a config map in each shard.
fn server() -> ApiServer {
    let server = super::rig::server();
    server.register(Resource::config_maps());
    (0..16).for_each(|shard| write_map(&server, shard, 1));
    server
}

/// Starts a replica whose reconciles fail. The error policy retries each after 100 s.
fn start(server: &ApiServer, attempts: &Attempts, pod: &'static str) -> (Replica, JoinHandle<()>) {
    start_with(server, attempts, pod, |controller| controller)
}

/// Starts a replica as [`start`] does, with a changed controller.
fn start_with(
    server: &ApiServer,
    attempts: &Attempts,
    pod: &'static str,
    change: fn(Controller<ConfigMap>) -> Controller<ConfigMap>,
) -> (Replica, JoinHandle<()>) {
    let replica = Replica::start(server, pod);
    let attempts = Arc::clone(attempts);
    let maps = Api::<ConfigMap>::all(server.client());
    let controller = change(Controller::new(maps, watcher::Config::default()))
        .sharded(&replica.group)
        .run(
            move |map: Arc<ConfigMap>, _| {
                attempts.lock().push((pod, map.name_any()));
                async { Err::<Action, _>(Error) }
            },
            |_, _, _| Action::requeue(100 * SECOND),
            Arc::new(()),
        )
        .for_each(|_| async {});
    (replica, tokio::spawn(controller))
}

#[tokio::test(start_paused = true)]
async fn retry_of_a_moved_shard_comes_to_nothing() {
    let (server, attempts) = (server(), Attempts::default());
    let attempts_of = |pod: &str| {
        let attempts = attempts.lock().clone();
        let names = attempts.into_iter().filter(|(by, _)| *by == pod).map(|(_, name)| name);
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let names = |shards: ShardSet| {
        let mut names: Vec<_> = shards.iter().map(|shard| object_of(shard).name_any()).collect();
        names.sort();
        names
    };
    let (a, of_a) = start(&server, &attempts, "a");
    let all = a.owns(16).await;
    sleep(SECOND).await;
    assert_eq!(attempts_of("a"), names(all), "each waits for its retry");
    let (b, of_b) = start(&server, &attempts, "b");
    let (moved, kept) = (b.owns(8).await, a.owns(8).await);
    sleep(SECOND).await;
    attempts.lock().clear();
    // The retry of each object is due once, at the replica that reconciled it last.
    sleep(130 * SECOND).await;
    assert_eq!(attempts_of("a"), names(kept));
    assert_eq!(attempts_of("b"), names(moved));
    of_a.abort();
    of_b.abort();
}

#[tokio::test(start_paused = true)]
async fn failures_before_a_move_do_not_delay_the_retries_after_the_return_of_the_shard() {
    let (server, attempts) = (server(), Attempts::default());
    // The attempts after a delay of the policy come after 100, 200, 400 and 800 s.
    let (replica, controller) = start_with(&server, &attempts, "a", |controller| {
        controller.retry(ItemExponentialFailureRateLimiter::new(100 * SECOND, HOUR))
    });
    replica.owns(16).await;
    sleep(800 * SECOND).await;
    let member = members(&server).await.remove(0);
    server.delete(&leases(), "shop", &name_of(&member)).unwrap();
    replica.owns(0).await;
    attempts.lock().clear();
    replica.owns(16).await;
    let until = async |number: usize| {
        while attempts.lock().len() < number {
            sleep(SECOND).await;
        }
    };
    until(16).await;
    let began = Instant::now();
    until(32).await;
    assert!(began.elapsed() <= 102 * SECOND, "{:?}", began.elapsed());
    controller.abort();
}
