//! Tests of kube-runtime's watcher against the server and its faults.

use std::pin::Pin;

use deltafifo_testkit::{ApiServer, Fault, Resource, Verb, status};
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{self, Config, Event, watcher};

use crate::common::{phase, pod, server_with};

type Events = Pin<Box<dyn Stream<Item = watcher::Result<Event<Pod>>>>>;

fn watch(server: &ApiServer, config: Config) -> Events {
    Box::pin(watcher(Api::all(server.client()), config))
}

/// Asserts that the next events and errors of the watcher are `expected`, in a short form: `init`,
/// `has a`, `done`, `apply a`, `delete a`, `event 410` for an ERROR event, or `failed`.
async fn expect<const N: usize>(events: &mut Events, expected: [&str; N]) {
    for expected in expected {
        let name = |pod: Pod| pod.metadata.name.unwrap();
        let event = match events.next().await.unwrap() {
            Ok(Event::Init) => "init".to_owned(),
            Ok(Event::InitApply(pod)) => format!("has {}", name(pod)),
            Ok(Event::InitDone) => "done".to_owned(),
            Ok(Event::Apply(pod)) => format!("apply {}", name(pod)),
            Ok(Event::Delete(pod)) => format!("delete {}", name(pod)),
            Err(watcher::Error::WatchError(status)) => format!("event {}", status.code),
            Err(watcher::Error::WatchStartFailed(_)) => "not started".to_owned(),
            Err(watcher::Error::InitialListFailed(_)) => "not listed".to_owned(),
            Err(watcher::Error::WatchFailed(_)) => "failed".to_owned(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(event, expected);
    }
}

fn verbs(server: &ApiServer) -> Vec<Verb> {
    server.requests().iter().map(deltafifo_testkit::Request::verb).collect()
}

#[tokio::test]
async fn watcher_lists_in_pages_and_watches() {
    let server = server_with(3);
    let mut events = watch(&server, Config::default().page_size(2));
    expect(&mut events, ["init", "has a", "has b", "has c", "done"]).await;
    server.apply(phase("a", "Running")).unwrap();
    server.delete(&Resource::pods(), "default", "b").unwrap();
    expect(&mut events, ["apply a", "delete b"]).await;
    assert_eq!(verbs(&server), [Verb::List, Verb::List, Verb::Watch]);
    assert_eq!(server.requests()[2].resource_version(), "4");
}

#[tokio::test]
async fn watcher_watches_from_the_version_of_the_list() {
    let server = server_with(2);
    let mut events = watch(&server, Config::default().streaming_lists());
    expect(&mut events, ["init", "has a", "has b", "done"]).await;
    server.apply(pod("c")).unwrap();
    expect(&mut events, ["apply c"]).await;
    assert_eq!(verbs(&server), [Verb::Watch]);
    assert!(server.requests()[0].sends_initial_events());
}

#[tokio::test]
async fn watcher_resumes_from_the_last_event_or_bookmark() {
    let server = server_with(1);
    let mut events = watch(&server, Config::default());
    expect(&mut events, ["init", "has a", "done"]).await;
    server.apply(pod("b")).unwrap();
    expect(&mut events, ["apply b"]).await;
    server.apply(kube::api::DynamicObject::new("w", &crate::common::widget_api())).unwrap();
    server.bookmark(&Resource::pods());
    server.end_watches();
    server.apply(pod("c")).unwrap();
    expect(&mut events, ["apply c"]).await;
    assert_eq!(server.requests().last().unwrap().resource_version(), "4");
}

#[tokio::test]
async fn watcher_relists_after_a_410() {
    let server = server_with(1);
    let mut events = watch(&server, Config::default());
    expect(&mut events, ["init", "has a", "done"]).await;
    server.apply(pod("b")).unwrap();
    expect(&mut events, ["apply b"]).await;
    server.error_watches(status::expired("too old"));
    server.delete(&Resource::pods(), "default", "a").unwrap();
    expect(&mut events, ["event 410", "init", "has b", "done"]).await;

    // A watch that reconnects with an expired version gets a 410 as well.
    server.apply(phase("b", "Running")).unwrap();
    expect(&mut events, ["apply b"]).await;
    server.end_watches();
    server.compact();
    expect(&mut events, ["event 410", "init", "has b", "done"]).await;
}

#[tokio::test]
async fn watcher_recovers_from_faults() {
    let server = server_with(1);
    let mut events = watch(&server, Config::default());
    server.fault(Fault::status(status::too_many_requests(1)).on(Verb::List));
    server.fault(Fault::status(status::service_unavailable()).on(Verb::Watch));
    expect(&mut events, ["init", "not listed", "init", "has a", "done", "not started"]).await;
    server.apply(pod("b")).unwrap();
    expect(&mut events, ["apply b"]).await;
    server.break_watches();
    expect(&mut events, ["failed"]).await;
    server.apply(pod("c")).unwrap();
    expect(&mut events, ["apply c"]).await;
}
