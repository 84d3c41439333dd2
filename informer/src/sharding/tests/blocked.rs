//! A test of a reconcile that blocks its thread.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use deltafifo_testkit::{Resource, Verb};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use metrics_util::debugging::DebuggingRecorder;
use tokio::time::sleep;

use super::rig::*;
use crate::runtime::controller::Action;
use crate::runtime::{Controller, watcher};
use crate::sharding::Permit;

/// Nothing can end such a reconcile, so its member keeps the shard and renews its Lease.
///
/// The controller has a runtime of its own. While the reconcile blocks the only thread of that
/// runtime, the paused clock of the member goes on.
#[tokio::test(start_paused = true)]
async fn shard_is_not_released_while_a_reconcile_blocks_its_thread_beyond_the_drain_timeout() {
    let server = server();
    server.register(Resource::config_maps());
    write_map(&server, 0, 1);
    let recorder = DebuggingRecorder::new();
    let mut replica = metrics::with_local_recorder(&recorder, || Replica::start(&server, "a"));
    let may_end = Arc::new(Barrier::new(2));
    // It is closed if the controller panics.
    let (begins, mut began) = tokio::sync::mpsc::unbounded_channel();
    let (sender, was_held) = mpsc::channel();
    let controller = thread::spawn({
        let (server, group) = (server.clone(), replica.group.clone());
        let may_end = Arc::clone(&may_end);
        let reconcile = move |_: Arc<ConfigMap>, _| {
            let (begins, may_end, sender) = (begins.clone(), may_end.clone(), sender.clone());
            async move {
                begins.send(()).unwrap();
                may_end.wait();
                sender.send(Permit::current().unwrap().is_held()).unwrap();
                Ok::<_, Infallible>(Action::await_change())
            }
        };
        let first_result =
            async move {
                let maps = Api::<ConfigMap>::all(server.client());
                let results = Controller::new(maps, watcher::Config::default())
                    .sharded(&group)
                    .run(reconcile, |_, _, _| Action::await_change(), Arc::new(()));
                pin!(results).next().await.unwrap().unwrap();
            };
        || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(first_result);
        }
    });
    // Without a timeout: the paused clock passes hours while the other thread lists the objects.
    began.recv().await.expect("the controller reconciles");
    replica.stop();
    // Longer than the drain timeout and the lease duration.
    sleep(60 * SECOND).await;
    server.forget_requests();
    sleep(60 * SECOND).await;
    assert_eq!(members(&server).await, [holder(&server, 0)]);
    assert!(count(&server, &[Verb::Update]) >= 10, "the member renews its Lease");
    assert_eq!(holder(&server, 1), "", "no reconcile works on the other shards");
    let reported = replica.reported();
    assert!(reported.iter().any(|error| error.contains("has not ended")), "{reported:?}");
    may_end.wait();
    controller.join().unwrap();
    assert_eq!(was_held.recv(), Ok(false), "the drain timeout has passed");
    assert_eq!(replica.ended().await, Ok(()));
    assert_eq!(holder(&server, 0), "", "it is released when the reconcile has ended");
    assert_eq!(gauge(&recorder, "shard_group_draining_shards"), Some(0.0));
}
