//! Tests of the shutdown of a controller.

use std::time::Duration;

use deltafifo_informer::runtime::controller::Config;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::rig::{controller, gated, idle, map, poll, server};

#[tokio::test(start_paused = true)]
async fn graceful_shutdown_starts_no_reconcile_and_waits_for_running_ones() {
    let server = server();
    for name in ["a", "b", "c"] {
        server.apply(map(name, "1")).unwrap();
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let (reconcile, mut begun) = gated();
    let controller = controller(&server)
        .with_config(Config::default().concurrency(2))
        .graceful_shutdown_on(std::future::pending())
        .graceful_shutdown_on(stopped.map(drop));
    let polled = poll(controller, reconcile);
    let (first, second) = (begun.recv().await.unwrap(), begun.recv().await.unwrap());
    server.wait_for_watchers(1).await;
    stop.send(()).unwrap();
    server.wait_for_watchers(0).await;
    first.end.send(()).unwrap();
    idle().await;
    assert!(begun.is_empty(), "the third is not begun");
    let names = [first.name, second.name];
    second.end.send(()).unwrap();
    assert_eq!(polled.rest().await, names);
}

#[tokio::test(start_paused = true)]
async fn idle_controller_shuts_down_at_once() {
    let server = server();
    let (reconcile, _begun) = gated();
    let polled =
        poll(controller(&server).shutdown_on_signal().graceful_shutdown_on(async {}), reconcile);
    assert!(polled.rest().await.is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn first_signal_shuts_down_gracefully_and_second_at_once() {
    use nix::sys::signal::{Signal, raise};
    use tokio::signal::unix::{SignalKind, signal};

    let server = server();
    server.apply(map("a", "1")).unwrap();
    // From here on these signals no longer end the process.
    let _listens = signal(SignalKind::terminate()).unwrap();
    let (reconcile, mut begun) = gated();
    let polled = poll(controller(&server).shutdown_on_signal(), reconcile);
    let mut runs = begun.recv().await.unwrap();
    server.wait_for_watchers(1).await;
    raise(Signal::SIGTERM).unwrap();
    server.wait_for_watchers(0).await;
    assert!(!runs.end.is_closed(), "running reconciles continue");
    raise(Signal::SIGTERM).unwrap();
    assert!(polled.rest_within(Duration::from_secs(60)).await.is_empty());
    runs.end.closed().await; // the running reconcile is stopped
}
