//! Tests of the variants of `watcher::Error` that a controller yields, beside those of kube's
//! watcher for the same failures.

use std::pin::pin;
use std::sync::Arc;

use deltafifo_informer::runtime::controller::{Action, Error};
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_testkit::{ApiServer, Fault, Verb, status};
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;

use super::rig::{Failed, maps, server};

fn variant(error: &watcher::Error) -> String {
    let (name, code) = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => {
            ("InitialListFailed", status.code)
        }
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            ("WatchStartFailed", status.code)
        }
        watcher::Error::WatchError(status) => ("WatchError", status.code),
        other => panic!("{other:?}"),
    };
    format!("{name} {code}")
}

fn of_kube(server: &ApiServer) -> impl Stream<Item = watcher::Error> + use<> {
    let events = watcher(maps(server), watcher::Config::default());
    events.filter_map(|event| async { event.err() })
}

fn of_a_controller(server: &ApiServer) -> impl Stream<Item = watcher::Error> + use<> {
    let reconcile = |_: Arc<ConfigMap>, _| async { Ok::<_, Failed>(Action::await_change()) };
    let controller = Controller::new(maps(server), watcher::Config::default());
    let yielded = controller.run(reconcile, |_, _, _| Action::await_change(), Arc::new(()));
    yielded.filter_map(|item| async {
        match item {
            Err(Error::QueueError(error)) => Some(error),
            _ => None,
        }
    })
}

/// Returns the variant of the first error after the failure.
async fn first<S>(
    errors: impl FnOnce(&ApiServer) -> S,
    fail: impl AsyncFnOnce(&ApiServer),
) -> String
where
    S: Stream<Item = watcher::Error>,
{
    let server = server();
    let mut errors = pin!(errors(&server));
    let failing = async {
        fail(&server).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        error = errors.next() => variant(&error.expect("the stream goes on")),
        () = failing => unreachable!("it waits"),
    }
}

/// Asserts that kube's watcher and a controller yield this variant after the failure.
async fn assert_both(fail: impl AsyncFn(&ApiServer), expected: &str) {
    assert_eq!(first(of_kube, &fail).await, expected, "kube's watcher");
    assert_eq!(first(of_a_controller, &fail).await, expected);
}

fn refused(verb: Verb) -> Fault {
    let fault = Fault::status(status::internal_error("as the test wants"));
    fault.on(verb).times(usize::MAX)
}

#[tokio::test(start_paused = true)]
async fn refused_requests_are_in_the_variants_of_kube() {
    assert_both(async |server| server.fault(refused(Verb::List)), "InitialListFailed 500").await;
    assert_both(async |server| server.fault(refused(Verb::Watch)), "WatchStartFailed 500").await;
}

#[tokio::test(start_paused = true)]
async fn error_events_are_in_the_variant_of_kube_whatever_their_code() {
    for (status, code) in [
        (status::expired("as the test wants"), 410),
        (status::internal_error("as the test wants"), 500),
    ] {
        let fail = async |server: &ApiServer| {
            server.wait_for_watchers(1).await;
            server.error_watches(status.clone());
        };
        assert_both(fail, &format!("WatchError {code}")).await;
    }
}
