//! Tests that a controller waits between requests that fail.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::runtime::controller::Action;
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_testkit::{After, Fault, Verb, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::sleep;

use super::rig::{Failed, maps, server};

/// The number of requests that fail. Later ones succeed, so that a controller that does not wait
/// between them becomes idle. The paused clock advances only then: otherwise the test would never
/// end.
const FAILURES: usize = 100;

/// Returns the number of requests that a controller sends in a minute in which requests fail.
async fn requests_in_a_minute(fault: Fault) -> usize {
    let server = server();
    server.fault(fault.times(FAILURES));
    let reconcile = |_: Arc<ConfigMap>, _| async { Ok::<_, Failed>(Action::await_change()) };
    let controller = Controller::new(maps(&server), watcher::Config::default());
    let yielded = controller.run(reconcile, |_, _, _| Action::await_change(), Arc::new(()));
    let mut running = pin!(yielded.for_each(|_| async {}));
    tokio::select! {
        () = &mut running => panic!("the controller ended"),
        () = sleep(Duration::from_secs(60)) => server.requests().len(),
    }
}

#[tokio::test(start_paused = true)]
async fn failed_lists_and_watches_are_repeated_a_few_times_a_minute() {
    let failed = || Fault::status(status::internal_error("as the test wants"));
    let gone = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
    let gone = [gone.as_slice(), b"\n"].concat();
    for (name, fault) in [
        ("refused lists", failed().on(Verb::List)),
        ("refused watches", failed().on(Verb::Watch)),
        ("watches without a connection", Fault::refused().on(Verb::Watch)),
        ("broken watches", Fault::broken(After::Bytes(0)).on(Verb::Watch)),
        ("watches that end at once", Fault::cut(After::Bytes(0)).on(Verb::Watch)),
        ("watches of an expired version", Fault::garbage(After::Bytes(0), gone).on(Verb::Watch)),
    ] {
        let requests = requests_in_a_minute(fault).await;
        // The waits are 0.8 s to 1.6 s at first, and double. A failed watch can cost a list.
        assert!((5..=20).contains(&requests), "{name}: {requests} requests");
    }
}
