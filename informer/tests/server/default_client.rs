//! Tests that kube's default client does not retry a reflector's requests, although it retries
//! other requests, and that these requests depend on no earlier runtime.

use std::time::Duration;

use deltafifo_informer::KubeListerWatcher;
use deltafifo_informer::lister_watcher::{ListRequest, ListerWatcher, RequestError, WatchRequest};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// Answers every request with this status. Returns the server's address and the heads of the
/// requests.
async fn refusing(status: &'static str) -> (String, watch::Receiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = watch::channel(Vec::new());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n")
                && connection.read_buf(&mut request).await.is_ok_and(|read| read > 0)
            {}
            sender.send_modify(|requests| {
                requests.push(String::from_utf8_lossy(&request).to_lowercase());
            });
            let answer = format!(
                "HTTP/1.1 {status}\r\nRetry-After: 7\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy"
            );
            let _ = connection.write_all(answer.as_bytes()).await;
        }
    });
    (url, requests)
}

fn lists(heads: &[String]) -> usize {
    heads.iter().filter(|head| !head.contains("watch=")).count()
}

#[tokio::test]
async fn refused_request_is_reported_at_once_and_sent_once() {
    for (status, code) in [
        ("429 Too Many Requests", 429),
        ("503 Service Unavailable", 503),
        ("504 Gateway Timeout", 504),
    ] {
        let (url, mut requests) = refusing(status).await;
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        let source = KubeListerWatcher::new::<ConfigMap>(client, &(), None);
        let answers = async {
            let listed = source.list(ListRequest::default()).await.map(drop);
            [
                listed.unwrap_err(),
                source.watch(WatchRequest::default()).await.map(drop).unwrap_err(),
            ]
        };
        let errors = tokio::select! {
            errors = answers => errors,
            _ = requests.wait_for(|heads| lists(heads) > 1 || heads.len() > 2) => panic!("the client retried"),
        };
        for error in errors {
            let RequestError::Status { status, retry_after } = error else { panic!("{error}") };
            assert_eq!(retry_after, Some(Duration::from_secs(7)));
            assert_eq!((status.code, status.message.as_str()), (code, "busy"));
        }
        let heads = requests.borrow();
        assert_eq!(heads.len(), 2);
        assert!(
            heads.iter().all(|head| !head.contains("transfer-encoding")),
            "a GET without a body: {heads:?}"
        );
    }
}

#[tokio::test]
async fn absent_server_is_reported_as_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    let source = KubeListerWatcher::new::<ConfigMap>(client, &(), None);
    let error = source.list(ListRequest::default()).await.map(drop).unwrap_err();
    assert!(matches!(error, RequestError::Unreachable(_)), "{error}");
}

#[test]
fn source_outlives_the_runtime_of_its_first_request() {
    let of_client = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    let client = of_client.block_on(async { server.client() });
    let source = KubeListerWatcher::new::<ConfigMap>(client, &(), None);
    for _ in 0..2 {
        let of_run = Builder::new_current_thread().build().unwrap();
        let listed = of_run.block_on(source.list(ListRequest::default()));
        assert!(listed.is_ok(), "{:?}", listed.map(drop));
    }
}
