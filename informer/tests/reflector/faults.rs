//! Tests of user functions and servers that misbehave.

use std::time::Duration;

use deltafifo_informer::lister_watcher::{
    EventType, KubeListerWatcher, ListRequest, ListerWatcher, RequestError, Scripted,
};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;

use super::rig::{Rig, event, list, map, page, shown_requests, status};

#[tokio::test(start_paused = true)]
async fn every_refusal_is_reported_and_retried_later() {
    let script = Scripted::new()
        .list_fails(status(401, "Unauthorized"))
        .list_fails(status(403, "Forbidden"))
        .list_fails(status(404, "NotFound"))
        .list_fails(RequestError::Unreachable("connection refused".into()))
        .list(list(7, [map("a", 5)]));
    let began = Instant::now();
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(1).await, ["Added a@5"]);
    for hint in ["credentials", "list and watch", "CRD", "refused"] {
        let error = rig.error().await;
        assert!(error.contains(hint), "{error}");
    }
    // The waits are at least 0.8, 1.6, 3.2 and 6.4 seconds.
    assert!(began.elapsed() >= Duration::from_secs(12), "{:?}", began.elapsed());
}

#[tokio::test]
async fn error_body_of_a_proxy_is_reported_in_any_format() {
    const SAID: &str = "the token is revoked";
    for body in [
        format!(r#"{{"error":"{SAID}"}}"#),
        format!(r#"{{"code":16,"reason":"","why":"{SAID}"}}"#),
        SAID.to_owned(),
    ] {
        let part = body.clone();
        let proxy = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let body = http_body_util::Full::new(bytes::Bytes::from(part.clone()));
            let answer = http::Response::builder().status(403).body(body).expect("a valid status");
            std::future::ready(Ok::<_, std::convert::Infallible>(answer))
        });
        let source =
            KubeListerWatcher::new::<ConfigMap>(kube::Client::new(proxy, "default"), &(), None);
        let error = source.list(ListRequest::default()).await.map(drop).unwrap_err();
        let received = error.to_string();
        assert!(received.contains("403") && received.contains(SAID), "{body}: {received}");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_list_is_abandoned() {
    let silent = futures_util::stream::iter([page(7, None)]).chain(futures_util::stream::pending());
    let script = Scripted::new().list_stream(silent.boxed()).list(list(7, [map("a", 5)]));
    let mut rig =
        Rig::start(script, |builder| builder.watch_list(false).silence(Duration::from_secs(10)));
    assert!(rig.error().await.contains("10s"));
    assert_eq!(rig.changes(1).await, ["Added a@5"]);
}

#[tokio::test(start_paused = true)]
async fn request_without_an_answer_is_abandoned() {
    let mut rig = Rig::start(Scripted::new(), |builder| {
        builder.watch_list(false).silence(Duration::from_secs(10))
    });
    let began = Instant::now();
    assert!(rig.error().await.contains("10s"));
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn panicking_error_handler_does_not_stop_the_reflector() {
    let script =
        Scripted::new().list_fails(status(500, "InternalError")).list(list(7, [map("a", 5)]));
    let mut rig = Rig::start(script, |builder| {
        builder.watch_list(false).on_error(|error| panic!("expected by this test: {error}"))
    });
    assert_eq!(rig.changes(1).await, ["Added a@5"]);
}

#[tokio::test(start_paused = true)]
async fn continuous_events_yield_to_other_tasks() {
    let many = futures_util::stream::iter(
        (5..).map(|version| event(EventType::Modified, map("a", version))),
    );
    let mut rig = Rig::lists(Scripted::new().list(list(4, [])).watch_stream(many.boxed()));
    assert_eq!(rig.changes(1).await, ["Added a@5"]);
    assert_eq!(shown_requests(&rig.requests(2).await).len(), 2);
}
