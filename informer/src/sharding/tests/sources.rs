//! Tests of the sources of requests of sharded controllers: a request has an effect only at the
//! owner of the object's shard.

use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::rig::*;
use crate::runtime::controller::{Action, Config};
use crate::runtime::reflector::ObjectRef;
use crate::runtime::{Controller, watcher};
use crate::sharding::ShardSet;

/// The replica and the object of each reconcile.
type Log = Arc<Mutex<Vec<(&'static str, String)>>>;

type Requests = mpsc::UnboundedSender<ObjectRef<ConfigMap>>;

/// A replica with a controller of config maps. A pod requests the reconcile of the config map with
/// its name, and so does a reference that is sent to `requests`.
struct Worker {
    replica: Replica,
    requests: Requests,
    controller: JoinHandle<()>,
}

impl Worker {
    fn start(server: &ApiServer, log: &Log, pod: &'static str) -> Self {
        let (replica, log) = (Replica::start(server, pod), log.clone());
        let (requests, mut requested) = mpsc::unbounded_channel();
        let maps = Api::<ConfigMap>::all(server.client());
        let pods = Api::<Pod>::all(server.client());
        let controller = Controller::new(maps, watcher::Config::default())
            .with_config(Config::default().debounce(SECOND))
            .watches(pods, watcher::Config::default(), |pod| Some(reference(&pod.name_any())))
            .reconcile_on(stream::poll_fn(move |context| requested.poll_recv(context)))
            .sharded(&replica.group)
            .run(
                move |map: Arc<ConfigMap>, _| {
                    log.lock().push((pod, map.name_any()));
                    std::future::ready(Ok::<_, std::fmt::Error>(Action::await_change()))
                },
                |_, _, _| Action::await_change(),
                Arc::new(()),
            )
            .for_each(|_| async {});
        Self { replica, requests, controller: tokio::spawn(controller) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.controller.abort();
    }
}

fn reference(name: &str) -> ObjectRef<ConfigMap> {
    ObjectRef::new(name).within("shop")
}

/// Returns the reconciles of the objects of these shards, one each, in order.
fn of(pod: &'static str, shards: ShardSet) -> Vec<(&'static str, String)> {
    let mut all: Vec<_> = shards.iter().map(|shard| (pod, object_of(shard).name_any())).collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn requests_of_related_objects_and_of_a_stream_are_served_once_by_the_owner() {
    let server = ApiServer::builder()
        .resource(leases())
        .resource(Resource::config_maps())
        .resource(Resource::pods())
        .build();
    (0..16).for_each(|shard| write_map(&server, shard, 1));
    let log = Log::default();
    let [a, b] = ["a", "b"].map(|pod| Worker::start(&server, &log, pod));
    let (of_a, of_b) = (of("a", a.replica.owns(8).await), of("b", b.replica.owns(8).await));
    let expected = [of_a, of_b].concat();
    let reconciled = async || {
        sleep(10 * SECOND).await;
        let mut reconciled = std::mem::take(&mut *log.lock());
        reconciled.sort();
        reconciled
    };
    reconciled().await;

    for shard in 0..16 {
        server.apply(json_of("Pod", shard)).unwrap();
    }
    assert_eq!(reconciled().await, expected);

    // Each replica gets each request twice, within the debounce time.
    for requests in [&a, &b, &a, &b].map(|worker| &worker.requests) {
        for shard in 0..16 {
            requests.send(reference(&object_of(shard).name_any())).unwrap();
        }
    }
    assert_eq!(reconciled().await, expected);

    // The debounce times of all requests end after the shards of `a` have moved.
    let moved = a.replica.owns(8).await;
    for shard in 0..16 {
        a.requests.send(reference(&object_of(shard).name_any())).unwrap();
    }
    let (mut a, began) = (a, Instant::now());
    a.replica.stop();
    b.replica.owns(16).await;
    assert!(began.elapsed() < SECOND);
    let mut reconciled = reconciled().await;
    // The list of moved shards and their start may each request a reconcile.
    reconciled.dedup();
    assert_eq!(reconciled, of("b", moved));
}
