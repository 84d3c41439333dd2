//! Tests of which objects are reconciled, and of when a controller starts and ends.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo_informer::runtime::controller::{Action, Error};
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_testkit::{Fault, Resource, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task;

use super::rig::{
    Failed, Stored, controller, gated, idle, in_form, map, maps, poll, poll_idle, server,
};

#[tokio::test(start_paused = true)]
async fn listed_and_changed_objects_are_reconciled_and_deleted_ones_are_not() {
    let server = server();
    for name in ["a", "b", "c"] {
        server.apply(map(name, "1")).unwrap();
    }
    let mut polled = poll_idle(controller(&server));
    assert_eq!(polled.sorted(3).await, ["a", "b", "c"]);
    server.wait_for_watchers(1).await;
    server.apply(map("b", "2")).unwrap();
    assert_eq!(polled.next().await, "b");
    server.apply(map("d", "1")).unwrap();
    assert_eq!(polled.next().await, "d");
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    assert!(polled.at_rest().await.is_empty(), "as kube's");
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_before_the_stream_is_polled() {
    let server = server();
    let controller = controller(&server);
    let stream = controller.run(
        |_: Arc<ConfigMap>, _| async { Ok::<_, Failed>(Action::await_change()) },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    );
    idle().await;
    assert!(server.requests().is_empty());
    drop(stream);
}

#[tokio::test(start_paused = true)]
async fn polling_task_calls_the_functions_and_another_runs_the_future() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    // A test body is not a task. The functions may borrow.
    let (mut calls, policies) = (0, AtomicUsize::new(0));
    let reconcile = |_: Arc<ConfigMap>, _| {
        assert!(task::try_id().is_none());
        calls += 1;
        async {
            assert!(task::try_id().is_some());
            Err(Failed("once more"))
        }
    };
    let policy = |_, _: &_, _| {
        assert!(task::try_id().is_none());
        policies.fetch_add(1, Ordering::Relaxed);
        Action::requeue(Duration::from_secs(1))
    };
    {
        let mut stream = pin!(controller(&server).run(reconcile, policy, Arc::new(())));
        for _ in 0..2 {
            let failed = stream.next().await.unwrap().unwrap_err();
            assert!(
                matches!(failed, Error::ReconcilerFailed(Failed("once more"), object) if object.name == "a")
            );
        }
    }
    assert_eq!((calls, policies.into_inner()), (2, 2));
}

/// Checks at compile time that the stream is `Send`. The function is never called.
#[allow(dead_code)]
fn a_controllers_stream_is_send(controller: Controller<Stored>) -> impl Send {
    controller.run(
        |_, _| async { Ok::<_, Failed>(Action::await_change()) },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    )
}

#[tokio::test(start_paused = true)]
async fn reconciles_wait_for_the_whole_list_and_errors_are_yielded() {
    let server = server();
    for name in ["a", "b", "c"] {
        server.apply(map(name, "1")).unwrap();
    }
    // Fails the third page once.
    let pages = AtomicUsize::new(0);
    let third = move |request: &deltafifo_testkit::Request| {
        request.parameter("continue").is_some() && pages.fetch_add(1, Ordering::Relaxed) == 1
    };
    server.fault(Fault::status(status::internal_error("not now")).when(third));
    let config = watcher::Config::default().page_size(1);
    let controller = in_form(Controller::new(maps(&server), config));
    let store = controller.store();
    let ready = tokio::spawn({
        let store = store.clone();
        async move { store.wait_until_ready().await }
    });
    let mut polled = poll(controller, move |_, _| {
        let stored = store.len();
        async move { if stored == 3 { Ok(Action::await_change()) } else { Err(Failed("too early")) } }
    });
    let failed = polled.next().await;
    assert!(failed.contains("not now"), "{failed}");
    assert!(!ready.is_finished());
    assert_eq!(polled.sorted(3).await, ["a", "b", "c"]);
    ready.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropped_stream_stops_reconciles_and_watches() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let controller = controller(&server);
    let store = controller.store();
    let (reconcile, mut begun) = gated();
    let polled = poll(controller, reconcile);
    let mut a = begun.recv().await.unwrap();
    server.wait_for_watchers(1).await;
    drop(polled);
    a.end.closed().await;
    server.wait_for_watchers(0).await;
    assert_eq!(store.len(), 1, "the store can be read on");
}
