//! Tests of the metrics of a named controller's queue.

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::runtime::controller::{Action, Config};
use k8s_openapi::api::core::v1::ConfigMap;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::rig::{Failed, controller, gated, idle, map, name, poll, poll_with, server};

/// Returns the value of a gauge or counter of the queue `maps`, if the metric exists.
fn of_queue(received: &Snapshotter, name: &str) -> Option<f64> {
    received.snapshot().into_vec().into_iter().find_map(|(key, _, _, value)| {
        let is_it =
            key.key().name() == name && key.key().labels().any(|label| label.value() == "maps");
        match value {
            DebugValue::Gauge(value) if is_it => Some(value.0),
            DebugValue::Counter(value) if is_it => Some(f64::from(u32::try_from(value).unwrap())),
            _ => None,
        }
    })
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_the_depth_of_the_named_queue() {
    let recorder = DebuggingRecorder::new();
    // The controller is polled on this thread, where the recorder is installed.
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = server();
    for name in ["a", "b", "c"] {
        server.apply(map(name, "1")).unwrap();
    }
    let (reconcile, mut begun) = gated();
    let config = Config::default().concurrency(1).name("maps");
    let _polled = poll(controller(&server).with_config(config), reconcile);
    let _first = begun.recv().await.unwrap();
    idle().await;
    assert_eq!(of_queue(&recorder.snapshotter(), "workqueue_depth"), Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn failures_count_as_retries_and_changes_do_not() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = server();
    for name in ["a", "b", "c"] {
        server.apply(map(name, "1")).unwrap();
    }
    let reconcile = |object: Arc<ConfigMap>, _| async move {
        if name(&object) == "a" { Err(Failed("no room")) } else { Ok(Action::await_change()) }
    };
    let controller = controller(&server).with_config(Config::default().name("maps"));
    let mut polled =
        poll_with(controller, reconcile, |_| Action::requeue(Duration::from_secs(1_000)));
    assert_eq!(polled.at_rest().await.len(), 3);
    assert_eq!(of_queue(&recorder.snapshotter(), "workqueue_retries_total"), Some(1.0));
}
