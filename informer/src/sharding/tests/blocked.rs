//! A test of a reconcile that blocks its thread.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use metrics_util::debugging::DebuggingRecorder;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::rig::{HOUR, Replica, builder_of, gauge, holder, leases, object_of};
use crate::runtime::controller::Action;
use crate::runtime::{Controller, watcher};

/// Nothing can end such a reconcile, so its member keeps the shard and renews its Lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shard_is_not_released_while_a_reconcile_blocks_its_thread_beyond_the_drain_timeout() {
    let server = ApiServer::builder().resource(leases()).resource(Resource::config_maps()).build();
    for name in (0..16).map(|shard| format!("counter-shard-{shard:03}")) {
        server.apply(super::rig::lease(&name, &json!(null))).unwrap();
    }
    let mut map = json!(object_of(0));
    map["kind"] = json!("ConfigMap");
    map["apiVersion"] = json!("v1");
    server.apply(map).unwrap();

    let recorder = DebuggingRecorder::new();
    let builder = builder_of(server.client(), "a")
        .lease_duration(Duration::from_secs(3))
        .renew_deadline(Duration::from_secs(2))
        .retry_period(Duration::from_millis(400))
        .drain_timeout(Duration::from_millis(200));
    let mut replica = metrics::with_local_recorder(&recorder, || Replica::start_with(builder));
    let began = Arc::new(Notify::new());
    let may_stop = Arc::clone(&began);
    let (sender, mut ended) = mpsc::unbounded_channel();
    let seen = server.clone();
    let controller =
        Controller::new(Api::<ConfigMap>::all(server.client()), watcher::Config::default())
            .sharded(&replica.group)
            .run(
                move |_: Arc<ConfigMap>, _| {
                    let (began, seen, sender) = (Arc::clone(&began), seen.clone(), sender.clone());
                    async move {
                        began.notify_one();
                        // Longer than the lease duration and the drain timeout.
                        std::thread::sleep(Duration::from_secs(4));
                        let _ = sender.send(holder(&seen, 0));
                        Ok::<_, Infallible>(Action::await_change())
                    }
                },
                |_, _, _| Action::await_change(),
                Arc::new(()),
            )
            .for_each(|_| async {});
    let controller = tokio::spawn(controller);
    timeout(HOUR, may_stop.notified()).await.unwrap();
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
    let holder_at_end = ended.recv().await.unwrap();
    assert!(holder_at_end.starts_with("a_"), "{holder_at_end:?}");
    assert_eq!(holder(&server, 0), "", "it is released when the reconcile has ended");
    assert_eq!(gauge(&recorder, "shard_group_draining_shards"), Some(0.0));
    controller.abort();
}
