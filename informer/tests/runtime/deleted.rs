//! Tests of deletion handlers of main objects.

use deltafifo::DeltaObject;
use deltafifo_informer::runtime::controller::Action;
use deltafifo_testkit::Resource;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::rig::{controller, gated, idle, map, missing, name, poll, poll_idle, server, value};

/// Formats a deletion: `a=1`, or `!a=1` for a tombstone.
fn shown(last: &DeltaObject<ConfigMap>) -> String {
    let sign = if last.is_tombstone() { "!" } else { "" };
    let last = last.object().expect("its last state is known");
    format!("{sign}{}={}", name(last), value(last))
}

#[tokio::test(start_paused = true)]
async fn deletion_handler_runs_between_two_reconciles() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let (reconcile, mut begun) = gated();
    let controller = controller(&server).on_deleted(move |last| {
        let (end, ended) = oneshot::channel();
        sender.send((shown(&last), end)).unwrap();
        async move { ended.await.unwrap() }
    });
    let _polled = poll(controller, reconcile);
    let first = begun.recv().await.unwrap();
    server.wait_for_watchers(1).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    idle().await;
    assert!(received.is_empty(), "the object is being reconciled");
    first.end.send(()).unwrap();
    let (last, end) = received.recv().await.unwrap();
    assert_eq!(last, "a=1");
    server.apply(map("a", "2")).unwrap();
    idle().await;
    assert!(begun.is_empty(), "its deletion is being handled");
    end.send(()).unwrap();
    assert_eq!(begun.recv().await.unwrap().value, "2");
}

#[tokio::test(start_paused = true)]
async fn unobserved_deletion_is_handled_and_the_successor_reconciled() {
    let server = server();
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let mut polled = poll_idle(controller(&server).on_deleted(move |last| {
        sender.send(shown(&last)).unwrap();
        async {}
    }));
    assert_eq!(polled.sorted(2).await, ["a", "b"]);
    server.wait_for_watchers(1).await;
    missing(&server, || {
        for name in ["a", "b"] {
            server.delete(&Resource::config_maps(), "shop", name).unwrap();
        }
        server.apply(map("b", "2")).unwrap();
    });
    let mut deletions = [received.recv().await.unwrap(), received.recv().await.unwrap()];
    deletions.sort();
    assert_eq!(deletions, ["!a=1", "!b=1"]);
    while polled.next().await != "b" {}
}

#[tokio::test(start_paused = true)]
async fn panicking_deletion_handler_is_reported_and_its_key_stays_usable() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let controller = controller(&server).on_deleted(|_| async { panic!("a bug") });
    let mut polled = poll(controller, |_, _| async { Ok(Action::await_change()) });
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    assert_eq!(
        polled.next().await,
        "runner error: reconciler or deletion handler panicked for ConfigMap.v1./a.shop: a bug"
    );
    server.apply(map("a", "2")).unwrap();
    assert_eq!(polled.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn successor_is_reconciled_after_a_panicking_deletion_handler() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (reconcile, mut begun) = gated();
    let mut polled = poll(controller(&server).on_deleted(|_| async { panic!("a bug") }), reconcile);
    let first = begun.recv().await.unwrap();
    server.wait_for_watchers(1).await;
    // While the object is reconciled, so that both requests lead to one call.
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    server.apply(map("a", "2")).unwrap();
    idle().await;
    first.end.send(()).unwrap();
    assert_eq!(polled.next().await, "a");
    assert!(polled.next().await.contains("a bug"));
    idle().await;
    assert_eq!(begun.try_recv().unwrap().value, "2");
}

#[tokio::test(start_paused = true)]
async fn panicking_deletion_handler_does_not_block_later_deletions() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let (reconcile, mut begun) = gated();
    let controller = controller(&server).on_deleted(move |last| {
        let sender = sender.clone();
        async move {
            sender.send(shown(&last)).unwrap();
            assert_ne!(shown(&last), "a=1", "a bug");
        }
    });
    let mut polled = poll(controller, reconcile);
    let first = begun.recv().await.unwrap();
    server.wait_for_watchers(1).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    server.apply(map("a", "2")).unwrap();
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    idle().await;
    first.end.send(()).unwrap();
    assert_eq!(
        (received.recv().await.unwrap().as_str(), received.recv().await.unwrap().as_str()),
        ("a=1", "a=2")
    );
    assert_eq!(polled.next().await, "a");
    assert!(polled.next().await.contains("a bug"));
}

#[tokio::test(start_paused = true)]
async fn successor_of_an_object_that_panicked_is_not_delayed() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (sender, mut tried) = mpsc::unbounded_channel();
    let (gone, mut deletions) = mpsc::unbounded_channel();
    let controller = controller(&server).on_deleted(move |last| {
        gone.send(shown(&last)).unwrap();
        async {}
    });
    let _polled = poll(controller, move |_, _| {
        sender.send(Instant::now()).unwrap();
        async { panic!("a bug") }
    });
    for _ in 0..10 {
        tried.recv().await.unwrap();
    }
    server.wait_for_watchers(1).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    assert_eq!(deletions.recv().await.unwrap(), "a=1");
    while tried.try_recv().is_ok() {}
    server.apply(map("a", "2")).unwrap();
    let first = tried.recv().await.unwrap();
    let second = tried.recv().await.unwrap();
    assert!((second - first).as_millis() <= 7, "{:?}", second - first);
}
