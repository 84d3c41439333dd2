//! Tests of every fault, as a client sees it.

use std::error::Error;
use std::io;
use std::pin::pin;

use deltafifo_testkit::{After, ApiServer, Fault, Resource, Verb, status};
use futures_util::{FutureExt, StreamExt};
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};

use crate::common::{PODS, app, builder, list, listed, open, pod, server_with};

const WATCH: &str = "/api/v1/pods?watch=true&resourceVersion=1";

async fn try_list(server: &ApiServer) -> kube::Result<usize> {
    let pods: Api<Pod> = Api::all(server.client());
    Ok(pods.list(&ListParams::default()).await?.items.len())
}

/// Returns the kind of the io error at the end of a chain of sources.
fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    let mut error = Some(error);
    while let Some(cause) = error {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() != io::ErrorKind::Other
        {
            return Some(io.kind());
        }
        error = cause.source();
    }
    None
}

#[tokio::test]
async fn status_fault_is_the_answer() {
    let server = server_with(1);
    let pods = Resource::pods();
    for status in [
        status::unauthorized(),
        status::forbidden(&pods),
        status::not_found(&pods, "a"),
        status::unknown_resource(),
        status::conflict(&pods, "a"),
        status::already_exists(&pods, "a"),
        status::expired("too old"),
        status::too_many_requests(1),
        status::internal_error("etcd is unavailable"),
        status::service_unavailable(),
        status::timeout("too slow", 2),
        status::too_large(9, 1),
    ] {
        server.fault(Fault::status(status.clone()));
        let Err(kube::Error::Api(seen)) = try_list(&server).await else { panic!("no {status}") };
        assert_eq!(
            (seen.code, &seen.reason, &seen.message),
            (status.code, &status.reason, &status.message)
        );
        assert_eq!(seen.details, status.details);
    }
    assert_eq!(try_list(&server).await.unwrap(), 1);
}

#[tokio::test]
async fn status_fault_sets_the_retry_after_header() {
    let server = server_with(1);
    server.fault(Fault::status(status::too_many_requests(7)));
    let opened = open(&server, PODS).await;
    assert_eq!(
        (opened.code, opened.headers["retry-after"].to_str().unwrap()),
        (StatusCode::TOO_MANY_REQUESTS, "7")
    );
    server.fault(Fault::status(status::service_unavailable()));
    assert!(!open(&server, PODS).await.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn watch_can_be_refused_with_410_at_its_opening() {
    let server = server_with(1);
    server.fault(Fault::status(status::too_old(1, 2)).on(Verb::Watch));
    assert_eq!(try_list(&server).await.unwrap(), 1);
    let pods: Api<Pod> = Api::all(server.client());
    let Err(kube::Error::Api(status)) = pods.watch(&WatchParams::default(), "1").await.map(drop)
    else {
        panic!("the watch was opened")
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn fault_strikes_matching_requests_the_given_number_of_times() {
    let server = server_with(3);
    server.fault(Fault::status(status::service_unavailable()).on(Verb::List).times(2));
    server.fault(Fault::status(status::internal_error("later")));
    let codes = async || match try_list(&server).await {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    };
    assert_eq!([codes().await, codes().await, codes().await], [503, 503, 500]);
    assert_eq!(try_list(&server).await.unwrap(), 3);

    server.fault(
        Fault::status(status::service_unavailable())
            .when(|request| request.continue_token().is_some()),
    );
    let first = list(&server, &format!("{PODS}?limit=1")).await;
    assert_eq!(listed(&first).len(), 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let pods: Api<Pod> = Api::all(server.client());
    let second = ListParams::default().limit(1).continue_token(token);
    assert!(pods.list(&second).await.is_err());
    assert_eq!(pods.list(&second).await.unwrap().items.len(), 1);

    server.fault(Fault::refused().times(usize::MAX));
    for _ in 0..5 {
        assert!(try_list(&server).await.is_err());
    }
    server.clear_faults();
    assert_eq!(try_list(&server).await.unwrap(), 3);
    server.fault(Fault::refused().times(0));
    assert_eq!(try_list(&server).await.unwrap(), 3);
}

#[tokio::test]
async fn refused_fault_refuses_the_connection() {
    let server = server_with(1);
    server.fault(Fault::refused());
    let error = try_list(&server).await.unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)));
    assert_eq!(io_kind(&error), Some(io::ErrorKind::ConnectionRefused));
}

#[tokio::test]
async fn silence_fault_never_answers() {
    let server = server_with(1);
    server.fault(Fault::silence());
    let mut silent = pin!(try_list(&server));
    for _ in 0..10 {
        tokio::task::yield_now().await;
        assert!(silent.as_mut().now_or_never().is_none());
    }
    assert_eq!(server.requests().len(), 1);
    assert_eq!(try_list(&server).await.unwrap(), 1);
}

#[tokio::test]
async fn broken_fault_breaks_a_list_after_the_given_bytes_or_frames() {
    let server = builder().frame_size(32).build();
    for name in ["a", "b", "c"] {
        server.apply(pod(name)).unwrap();
    }
    for (after, expected) in [
        (After::Bytes(0), 0),
        (After::Bytes(1), 1),
        (After::Bytes(70), 70),
        (After::Frames(0), 0),
        (After::Frames(2), 64),
    ] {
        server.fault(Fault::broken(after));
        let mut opened = open(&server, PODS).await;
        assert_eq!(opened.code, StatusCode::OK);
        let mut bytes = 0;
        let error = loop {
            match opened.frame().await.expect("no error before the end") {
                Ok(frame) => bytes += frame.len(),
                Err(error) => break error,
            }
        };
        assert_eq!(
            (bytes, io_kind(&error)),
            (expected, Some(io::ErrorKind::ConnectionReset)),
            "{after:?}"
        );
        assert!(opened.frame().await.is_none());

        server.fault(Fault::broken(after));
        assert!(try_list(&server).await.is_err());
    }
    server.fault(Fault::broken(After::Bytes(1 << 20)));
    assert_eq!(try_list(&server).await.unwrap(), 3);
}

#[tokio::test]
async fn cut_fault_ends_a_list_without_an_error() {
    let server = server_with(3);
    server.fault(Fault::cut(After::Bytes(100)));
    assert_eq!(open(&server, PODS).await.text().await.len(), 100);
    server.fault(Fault::cut(After::Bytes(100)));
    assert!(matches!(try_list(&server).await, Err(kube::Error::SerdeError(_))));
}

#[tokio::test]
async fn watch_can_break_or_end_in_the_middle_of_a_line() {
    let server = server_with(2);
    let mut watch = open(&server, WATCH).await;
    let one = watch.line().await.unwrap().unwrap().len();

    server.fault(Fault::broken(After::Bytes(one + 10)).on(Verb::Watch));
    let mut watch = open(&server, WATCH).await;
    watch.events(["ADDED a 2"]).await;
    let error = watch.line().await.unwrap().unwrap_err();
    assert_eq!(io_kind(&error), Some(io::ErrorKind::ConnectionReset));

    server.fault(Fault::cut(After::Bytes(one + 10)).on(Verb::Watch));
    let mut watch = open(&server, WATCH).await;
    watch.events(["ADDED a 2"]).await;
    watch.over().await;

    server.fault(Fault::cut(After::Frames(1)));
    let mut watch = open(&server, WATCH).await;
    watch.events(["ADDED a 2"]).await;
    watch.over().await;

    // kube ignores an incomplete last line.
    server.fault(Fault::cut(After::Bytes(one + 10)));
    let pods: Api<Pod> = Api::all(server.client());
    let mut watch = pin!(pods.watch(&WatchParams::default(), "1").await.unwrap());
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn hang_fault_keeps_a_watch_open_beyond_its_timeout() {
    let server = server_with(2);
    server.fault(Fault::hang(After::Frames(1)));
    let mut watch = open(&server, &format!("{WATCH}&timeoutSeconds=5")).await;
    watch.events(["ADDED a 2"]).await;
    server.apply(pod("c")).unwrap();
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    watch.silent();
    assert_eq!(server.watchers(), 1);
    server.end_watches();
    watch.silent();
}

#[tokio::test]
async fn garbage_is_inserted_into_the_body() {
    let server = server_with(2);
    server.fault(Fault::garbage(After::Frames(1), "<html>bad gateway</html>\n").on(Verb::Watch));
    let pods: Api<Pod> = Api::all(server.client());
    let mut watch = pin!(pods.watch(&WatchParams::default(), "1").await.unwrap());
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert!(matches!(watch.next().await, Some(Err(kube::Error::SerdeError(_)))));
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));

    server.fault(Fault::garbage(After::Bytes(50), vec![0xff, 0xfe]));
    assert!(matches!(try_list(&server).await, Err(kube::Error::FromUtf8(_))));
    server.fault(Fault::garbage(After::Bytes(0), "{"));
    assert!(matches!(try_list(&server).await, Err(kube::Error::SerdeError(_))));
}

#[tokio::test]
async fn repeat_fault_sends_earlier_changes_again() {
    let server = server_with(3);
    server.apply(app("a", "web")).unwrap();
    let from = |version: u64| format!("{PODS}?watch=true&resourceVersion={version}");
    server.fault(Fault::repeat(2));
    // The fault waits for a watch, so it does not strike this list.
    assert_eq!(try_list(&server).await.unwrap(), 3);
    let mut watch = open(&server, &from(5)).await;
    watch.events(["ADDED c 4", "MODIFIED a 5"]).await;
    watch.silent();
    let mut watch = open(&server, &from(5)).await;
    watch.silent();

    server.fault(Fault::repeat(1));
    let mut watch = open(&server, &from(3)).await;
    watch.events(["ADDED b 3", "ADDED c 4", "MODIFIED a 5"]).await;
    server.fault(Fault::repeat(99));
    let mut watch = open(&server, &from(5)).await;
    watch.events(["ADDED a 2", "ADDED b 3", "ADDED c 4", "MODIFIED a 5"]).await;
}

#[tokio::test]
async fn end_watches_ends_open_watches_without_an_error() {
    let server = server_with(1);
    let mut first = open(&server, WATCH).await;
    let second = open(&server, "/api/v1/configmaps?watch=true").await;
    assert_eq!(server.end_watches(), 2);
    assert_eq!(server.watchers(), 0);
    server.apply(pod("b")).unwrap();
    // Events from before the end are still delivered.
    first.events(["ADDED a 2"]).await;
    first.over().await;
    second.over().await;
    assert_eq!(server.end_watches(), 0);
}

#[tokio::test]
async fn break_watches_ends_open_watches_with_an_error() {
    let server = server_with(1);
    let pods: Api<Pod> = Api::all(server.client());
    let mut watch = pin!(pods.watch(&WatchParams::default(), "1").await.unwrap());
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert_eq!(server.break_watches(), 1);
    let Some(Err(kube::Error::ReadEvents(error))) = watch.next().await else { panic!("no error") };
    assert_eq!(io_kind(&error), Some(io::ErrorKind::ConnectionReset));
    assert_eq!(server.watchers(), 0);
}

#[tokio::test]
async fn error_watches_sends_an_error_event_and_ends() {
    let server = server_with(1);
    let mut watch = open(&server, WATCH).await;
    watch.events(["ADDED a 2"]).await;
    assert_eq!(server.error_watches(status::expired("too old")), 1);
    watch.events(["ERROR 410 Expired"]).await;
    watch.over().await;
    let mut watch = open(&server, WATCH).await;
    server.error_watches(status::internal_error("etcd is unavailable"));
    watch.events(["ADDED a 2", "ERROR 500 InternalError"]).await;
    watch.over().await;
}

#[tokio::test]
async fn panicking_predicate_leaves_the_server_usable() {
    let server = server_with(1);
    let client = server.client();
    server.fault(Fault::refused().when(|request| match request.limit() {
        Some(13) => panic!("unlucky"),
        _ => false,
    }));
    let pods: Api<Pod> = Api::all(client);
    let unlucky = tokio::spawn({
        let pods = pods.clone();
        async move { pods.list(&ListParams::default().limit(13)).await.map(drop) }
    });
    assert!(unlucky.await.unwrap_err().is_panic());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 1);
}
