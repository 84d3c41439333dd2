//! A controller that has a name tells of its queue.

use deltafifo_informer::runtime::controller::Config;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::rig::{controller, gated, idle, map, poll, server};

/// How much waits in the queue `maps`, if there is one.
fn depth(told: &Snapshotter) -> Option<f64> {
    told.snapshot().into_vec().into_iter().find_map(|(key, _, _, value)| {
        let is_it = key.key().name() == "workqueue_depth" && key.key().labels().any(|label| label.value() == "maps");
        match value {
            DebugValue::Gauge(value) if is_it => Some(value.0),
            _ => None,
        }
    })
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_reconciled_shows_as_the_depth_of_a_queue_that_has_a_name() {
    let recorder = DebuggingRecorder::new();
    // The controller is polled on this thread.
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
    assert_eq!(depth(&recorder.snapshotter()), Some(2.0));
}
