//! Tests of a list of many pages, and of a token that expires between two of them.

use deltafifo_testkit::{Fault, Resource, Verb, status};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::rig::{applied, map, maps, run, server, stored};

#[tokio::test(start_paused = true)]
async fn relist_decodes_and_delivers_only_changed_objects() {
    const OBJECTS: u64 = 5_000;
    let server = server();
    let text = "x".repeat(100);
    let make = move |number| json!({ "metadata": { "name": format!("map-{number}") }, "data": { "text": text } });
    server.generate(&Resource::config_maps(), OBJECTS, make).unwrap();
    let fifo = applied::<ConfigMap>();
    let mut errors = run(maps(&server), &fifo, |builder| builder.watch_list(false));
    fifo.wait_for_sync_async().await.unwrap();
    assert_eq!(fifo.store().list_keys().len(), 5_000);
    let before = fifo.store().get_by_key("default/map-7").unwrap();
    server.wait_for_watchers(1).await;
    server.error_watches(status::expired("too old"));
    server.apply(map("default", "map-9", "new")).unwrap();
    errors.recv().await.unwrap();
    server.wait_for_watchers(1).await;
    fifo.store().wait_for_resource_version_async(&server.version().to_string()).await.unwrap();
    let after = fifo.store().get_by_key("default/map-7").unwrap();
    assert!(std::sync::Arc::ptr_eq(&before, &after), "the same object, not decoded again");
    assert_eq!(
        fifo.store().get_by_key("default/map-9").unwrap().data.as_ref().unwrap()["data"],
        "new"
    );
}

#[tokio::test(start_paused = true)]
async fn expired_page_token_is_followed_by_a_full_list_at_least_as_new() {
    let server = server();
    for number in 0..10 {
        server.apply(map("shop", &format!("map-{number}"), "1")).unwrap();
    }
    let newest = server.version().to_string();
    // A list of any version is refused, so the newest is listed in pages.
    server.fault(Fault::status(status::expired("any")).on(Verb::List));
    let second_page = |request: &deltafifo_testkit::Request| request.continue_token().is_some();
    server.fault(Fault::status(status::expired("the token")).on(Verb::List).when(second_page));
    let fifo = applied();
    let _errors = run(maps(&server), &fifo, |builder| builder.watch_list(false).page_size(4));
    fifo.wait_for_sync_async().await.unwrap();
    assert_eq!(stored(&fifo).len(), 10);
    let requests = server.requests();
    let whole = requests.iter().rfind(|request| request.verb() == Verb::List).unwrap();
    assert_eq!((whole.resource_version(), whole.limit()), (newest.as_str(), None));
    assert_eq!(whole.parameter("resourceVersionMatch"), Some("NotOlderThan"));
}
