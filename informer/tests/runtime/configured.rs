//! Tests of the requests that follow from a `watcher::Config`.

use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_testkit::{Request, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;

use super::rig::{in_form, map, missing, poll_idle, server};

/// Returns the requests of a controller with this configuration, up to the first watch. The server
/// has one map.
async fn requests(config: watcher::Config) -> Vec<Request> {
    let server = server();
    let mut map = map("a", "1");
    map["metadata"]["labels"] = serde_json::json!({ "app": "web" });
    server.apply(map).unwrap();
    let maps = Api::<ConfigMap>::namespaced(server.client(), "shop");
    let mut polled = poll_idle(in_form(Controller::new(maps, config)));
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    server.requests()
}

#[tokio::test(start_paused = true)]
async fn initial_list_follows_list_semantic_and_page_size() {
    let all = requests(watcher::Config::default()).await;
    assert_eq!(all[0].path(), "/api/v1/namespaces/shop/configmaps");
    assert_eq!(
        (all[0].verb(), all[0].resource_version(), all[0].limit()),
        (Verb::List, "", Some(500))
    );
    let all = requests(watcher::Config::default().any_semantic().page_size(7)).await;
    assert_eq!(
        (all[0].verb(), all[0].resource_version(), all[0].limit()),
        (Verb::List, "0", Some(7))
    );
    let all = requests(watcher::Config::default().streaming_lists()).await;
    assert!(all[0].sends_initial_events() && all.len() == 1);
}

#[tokio::test(start_paused = true)]
async fn later_list_is_not_older_than_the_known_version() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let maps = Api::<ConfigMap>::all(server.client());
    let mut polled = poll_idle(in_form(Controller::new(maps, watcher::Config::default())));
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    let known = server.version().to_string();
    missing(&server, || server.apply(map("a", "2")).unwrap());
    while polled.next().await != "a" {}
    let lists = server.requests().into_iter().filter(|request| request.verb() == Verb::List);
    let versions: Vec<_> = lists.map(|request| request.resource_version().to_owned()).collect();
    assert_eq!(
        versions[..2],
        ["", &known],
        "the second is refused, because the version was compacted"
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_and_timeout_are_sent() {
    let config =
        watcher::Config::default().labels("app=web").fields("metadata.name=a").timeout(100);
    let all = requests(config).await;
    for request in &all {
        assert_eq!(request.parameter("labelSelector"), Some("app=web"));
        assert_eq!(request.parameter("fieldSelector"), Some("metadata.name=a"));
    }
    let timeout: u32 = all[1].parameter("timeoutSeconds").unwrap().parse().unwrap();
    assert!((50..=100).contains(&timeout), "{timeout}");
}

#[tokio::test(start_paused = true)]
async fn related_watches_use_their_configuration() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let pods = || Api::<Pod>::namespaced(server.client(), "shop");
    let config = || watcher::Config::default().labels("app=web");
    let controller =
        Controller::new(Api::<ConfigMap>::all(server.client()), watcher::Config::default());
    let controller = controller.owns(pods(), config()).watches(pods(), config(), |_| None);
    let mut polled = poll_idle(in_form(controller));
    assert_eq!(polled.next().await, "a");
    let of_pods = server.requests().into_iter().filter(|request| request.plural() == Some("pods"));
    let of_pods = of_pods.inspect(|request| {
        assert_eq!(
            (request.namespace(), request.parameter("labelSelector")),
            (Some("shop"), Some("app=web"))
        );
    });
    assert!(of_pods.count() >= 2);
}
