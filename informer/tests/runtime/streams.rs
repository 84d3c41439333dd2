//! Tests of informers over kube watchers, and of controllers over these informers.

use deltafifo_informer::SharedInformer;
use deltafifo_informer::runtime::Controller;
use deltafifo_informer::shared_informer::RunError;
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::runtime::watcher::{Config, Event, Result};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;

use super::rig::{Object, map, missing, pod, poll_idle, server};

fn watched<K: Object>(server: &ApiServer) -> impl Stream<Item = Result<Event<K>>> + Send + use<K> {
    watcher(Api::<K>::all(server.client()), Config::default()).default_backoff()
}

fn run<K: Object>(informer: &SharedInformer<K>) {
    let informer = informer.clone();
    tokio::spawn(async move { informer.run().await });
}

#[tokio::test(start_paused = true)]
async fn informer_stops_when_its_stream_ends() {
    let informer = SharedInformer::<ConfigMap>::for_stream(stream::iter([
        Ok(Event::Init),
        Ok(Event::InitDone),
    ]));
    let informer = informer.build().unwrap();
    assert_eq!(informer.run().await, Ok(()));
    assert!(informer.is_stopped());
    assert_eq!(informer.run().await, Err(RunError::Stopped));
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_drops_its_stream() {
    let server = server();
    let informer = SharedInformer::for_stream(watched::<ConfigMap>(&server)).build().unwrap();
    let running = informer.clone();
    let running = tokio::spawn(async move { running.run().await });
    server.wait_for_watchers(1).await;
    let status = informer.watch_status();
    assert!(status.is_open && status.last_event.is_some(), "{status:?}");
    informer.stop().await;
    assert!(!informer.watch_status().is_open);
    server.wait_for_watchers(0).await;
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn controllers_reconcile_watch_events_and_missed_deletions() {
    let server = server();
    let version = server.apply(map("a", "1")).unwrap();
    server.apply(pod("p", &["a"])).unwrap();
    let maps =
        SharedInformer::for_stream(watched::<ConfigMap>(&server)).on_error(|_| ()).build().unwrap();
    let pods = SharedInformer::for_stream(watched::<Pod>(&server))
        .in_order()
        .on_error(|_| ())
        .build()
        .unwrap();
    run(&maps);
    run(&pods);
    let mut polled = poll_idle(Controller::from_informer(&maps).owns_informer(&pods));
    assert_eq!(polled.at_rest().await, ["a"]);
    server.wait_for_watchers(2).await;
    missing(&server, || server.delete(&Resource::pods(), "shop", "p").unwrap());
    assert_eq!(polled.next().await, "a");
    assert_eq!(maps.last_sync_resource_version(), Some(version.to_string()));
}

#[tokio::test(start_paused = true)]
async fn owners_in_the_old_and_the_last_state_of_a_deletion_are_reconciled() {
    let server = server();
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let of = |owner| serde_json::from_value::<Pod>(pod("p", &[owner])).unwrap();
    let maps = SharedInformer::for_stream(watched::<ConfigMap>(&server)).build().unwrap();
    let pods = stream::poll_fn(move |context| received.poll_recv(context)).map(Ok);
    let pods = SharedInformer::for_stream(pods).build().unwrap();
    run(&maps);
    run(&pods);
    for event in [Event::Init, Event::InitApply(of("a")), Event::InitDone] {
        sender.send(event).unwrap();
    }
    let mut polled = poll_idle(Controller::from_informer(&maps).owns_informer(&pods));
    assert_eq!(polled.at_rest().await, ["a", "b"]);
    sender.send(Event::Delete(of("b"))).unwrap();
    assert_eq!(polled.at_rest().await, ["a", "b"]);
}
