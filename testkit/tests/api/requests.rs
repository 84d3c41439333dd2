//! Tests of recorded requests, and of waits for requests.

use deltafifo_testkit::{ApiServer, Request, Resource, Verb};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use serde_json::json;

use crate::common::{open, pod, server};

#[tokio::test]
async fn requests_are_recorded_in_order_with_their_verbs() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let pod: Pod = serde_json::from_value(pod("a")).unwrap();
    pods.list(&ListParams::default()).await.unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    pods.get("a").await.unwrap();
    pods.replace("a", &PostParams::default(), &pod).await.unwrap();
    pods.patch("a", &PatchParams::default(), &Patch::Merge(json!({}))).await.unwrap();
    drop(pods.watch(&WatchParams::default(), "0").await.unwrap());
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    open(&server, "/version").await;
    let verbs: Vec<Verb> = server.requests().iter().map(Request::verb).collect();
    assert_eq!(
        verbs,
        [
            Verb::List,
            Verb::Create,
            Verb::Get,
            Verb::Update,
            Verb::Patch,
            Verb::Watch,
            Verb::Delete,
            Verb::DeleteCollection,
            Verb::Other
        ]
    );
    let get = &server.requests()[2];
    assert_eq!((get.method(), get.path()), (&Method::GET, "/api/v1/namespaces/default/pods/a"));
    assert_eq!(
        (get.plural(), get.namespace(), get.name()),
        (Some("pods"), Some("default"), Some("a"))
    );
    server.forget_requests();
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn oldest_requests_are_dropped_beyond_the_limit() {
    let server = ApiServer::builder().resource(Resource::pods()).recorded_requests(2).build();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    for name in ["a", "b", "c"] {
        assert!(pods.get_opt(name).await.unwrap().is_none());
    }
    let requests = server.requests();
    let names: Vec<_> = requests.iter().filter_map(Request::name).collect();
    assert_eq!(names, ["b", "c"]);
}

#[tokio::test]
async fn query_parameters_are_decoded_and_in_order() {
    let server = server();
    let uri = "/api/v1/pods?&limit=5&continue=1%26key%3Da%2Fb&resourceVersion=&labelSelector=a+in+%28b%29&watch=false";
    open(&server, uri).await;
    let request = server.requests().remove(0);
    let query: Vec<(&str, &str)> =
        request.query().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        query,
        [
            ("limit", "5"),
            ("continue", "1&key=a/b"),
            ("resourceVersion", ""),
            ("labelSelector", "a in (b)"),
            ("watch", "false")
        ]
    );
    assert_eq!(
        (request.verb(), request.limit(), request.resource_version()),
        (Verb::List, Some(5), "")
    );
    assert_eq!((request.continue_token(), request.parameter("none")), (Some("1&key=a/b"), None));
    assert!(!request.sends_initial_events());
}

#[tokio::test]
async fn wait_for_request_finds_past_and_future_requests() {
    let server = server();
    let pods: Api<Pod> = Api::all(server.client());
    pods.list(&ListParams::default().limit(1)).await.unwrap();
    assert_eq!(
        server.wait_for_request(|request| request.verb() == Verb::List).await.limit(),
        Some(1)
    );

    server.forget_requests();
    let waiter = tokio::spawn({
        let server = server.clone();
        async move { server.wait_for_request(|request| request.limit() == Some(3)).await }
    });
    for limit in 1..=4 {
        tokio::task::yield_now().await;
        pods.list(&ListParams::default().limit(limit)).await.unwrap();
    }
    assert_eq!(waiter.await.unwrap().limit(), Some(3));
}

#[tokio::test]
async fn wait_for_watches_ends_at_exactly_the_given_number() {
    let server = server();
    server.wait_for_watchers(0).await;
    let waiter = tokio::spawn({
        let server = server.clone();
        async move {
            server.wait_for_watchers(2).await;
            server.end_watches();
        }
    });
    let first = open(&server, "/api/v1/pods?watch=true").await;
    tokio::task::yield_now().await;
    let second = open(&server, "/api/v1/pods?watch=true").await;
    waiter.await.unwrap();
    server.wait_for_watchers(0).await;
    first.over().await;
    second.over().await;
}
