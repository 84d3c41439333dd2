//! Tests of the applied version of an informer of several namespaces: the least of their versions.

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::lister_watcher::{
    self, Listed, PageMeta, RequestError, Scripted, WatchStream,
};
use deltafifo_testkit::{Fault, Resource, status};
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::time::timeout;

use super::rig::{
    LONG, apply, blue_and_green, builder, forbidden, in_green, is_applied, namespace, of, server,
    stored, until, wait_for_stored, write_blue,
};
use super::unwatched::Unwatched;
use crate::rig::{Informer, QUEUES, idle, run, value};

#[tokio::test(start_paused = true)]
async fn wait_for_a_version_waits_for_a_namespace_that_was_just_added() {
    let server = server();
    apply(&server, "blue", "a", 1);
    apply(&server, "red", "x", 1);
    let namespaces = of(["blue"]);
    let informer = builder(&server, &namespaces).on_error(|_| ()).build().unwrap();
    run(&informer);
    informer.wait_for_sync().await.unwrap();
    apply(&server, "blue", "a", 2);
    wait_for_stored(&informer, &["blue/a=2"]).await;
    let store = informer.store();
    let version = store.get_by_key("blue/a").unwrap().metadata.resource_version.clone().unwrap();
    server.fault(Fault::silence().when(|r| r.namespace() == Some("red")).times(usize::MAX));
    namespaces.add("red").unwrap();
    until(|| informer.namespace_status().len() == 2).await;
    let waiting = store.wait_for_resource_version_async(&version);
    assert!(timeout(Duration::from_secs(60), waiting).await.is_err(), "red is not listed");
    server.clear_faults();
    let waiting = store.wait_for_resource_version_async(&version);
    timeout(LONG, waiting).await.expect("red is listed").unwrap();
    assert_eq!(stored(&informer), ["blue/a=2", "red/x=1"]);
}

#[tokio::test(start_paused = true)]
async fn optional_namespace_that_is_forbidden_later_does_not_hold_back_the_applied_version() {
    for is_optional in [true, false] {
        let server = blue_and_green();
        let namespaces = of(["blue", "green"]);
        let namespaces = if is_optional { namespaces.optional() } else { namespaces };
        let informer = builder(&server, &namespaces).on_error(|_| ()).build().unwrap();
        run(&informer);
        informer.wait_for_sync().await.unwrap();
        until(|| informer.watch_status().is_open).await;
        server.fault(forbidden().when(in_green).times(usize::MAX));
        server.end_watches();
        let version = write_blue(&server, 2);
        assert_eq!(is_applied(&informer, &version).await, is_optional);
        let green = &informer.namespace_status()[1];
        assert_eq!((green.has_listed, green.is_waived), (true, is_optional));
        assert_eq!(informer.watch_status().is_open, is_optional);

        server.clear_faults();
        apply(&server, "green", "b", 2);
        wait_for_stored(&informer, &["blue/a=2", "green/b=2"]).await;
        idle().await;
        assert!(!informer.namespace_status()[1].is_waived);
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn own_write_is_applied_after_a_bookmark_of_every_namespace() {
    let server = blue_and_green();
    let informer = builder(&server, &of(["blue", "green"])).build().unwrap();
    run(&informer);
    informer.wait_for_sync().await.unwrap();
    until(|| informer.watch_status().is_open).await;
    let version = write_blue(&server, 2);
    assert!(!is_applied(&informer, &version).await, "green is quiet");
    assert_eq!(stored(&informer), ["blue/a=2", "green/b=1"]);
    server.bookmark(&Resource::config_maps());
    assert!(is_applied(&informer, &version).await);
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_has_left_holds_the_applied_version_back_only_once_it_is_back() {
    let green = Unwatched::start(|builder| builder).await;
    green.server.clear_faults();
    green.server.fault(Fault::silence().when(in_green).times(usize::MAX));
    namespace(&green.server, "blue", "shop");
    let version = write_blue(&green.server, 1);
    assert!(!is_applied(&green.maps, &version).await, "green is in the set");
    green.remove_label();
    assert!(is_applied(&green.maps, &version).await, "green has left the set");

    namespace(&green.server, "green", "shop");
    // Its watch is silent.
    until(|| !green.maps.watch_status().is_open).await;
    let version = write_blue(&green.server, 2);
    assert!(!is_applied(&green.maps, &version).await, "green is in the set again");
    green.server.clear_faults();
    let store = green.maps.store();
    let waiting = store.wait_for_resource_version_async(&version);
    timeout(LONG, waiting).await.expect("green is listed or watched").unwrap();
    drop(green.changes);
    green.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_is_back_counts_for_versions_that_were_applied_without_it() {
    let green = Unwatched::start(|builder| builder).await;
    green.server.clear_faults();
    green.server.fault(Fault::silence().when(in_green).times(usize::MAX));
    namespace(&green.server, "blue", "shop");
    green.remove_label();
    apply(&green.server, "green", "m0", 7);
    let written = green.server.version().to_string();
    let later = write_blue(&green.server, 2);
    assert!(is_applied(&green.maps, &later).await, "green has left the set");

    namespace(&green.server, "green", "shop");
    until(|| !green.maps.watch_status().is_open).await;
    assert!(!is_applied(&green.maps, &written).await, "the store has the old m0");
    green.server.clear_faults();
    let store = green.maps.store();
    let waiting = store.wait_for_resource_version_async(&written);
    timeout(LONG, waiting).await.expect("green is listed or watched").unwrap();
    assert_eq!(value(&store.get_by_key("green/m0").unwrap()), "7");
    drop(green.changes);
    green.factory.shutdown().await;
}

/// Returns a list at `version` of the map `a` of a namespace, with the data `data`.
fn list_at(version: u64, namespace: &str, data: u64) -> [Result<Listed, RequestError>; 2] {
    let resource_version = version.to_string();
    let page = PageMeta { resource_version, ..PageMeta::default() };
    let map = json!({
        "metadata": { "namespace": namespace, "name": "a", "resourceVersion": "45" },
        "data": { "data": data.to_string() },
    });
    [Ok(Listed::Meta(page)), Ok(Listed::Items(vec![map.to_string().into()]))]
}

/// Returns a watch that ends after `seconds`, because its version is too old.
fn expiring(seconds: u64) -> WatchStream {
    let end = async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let status = Box::new(status::expired("as the test wants"));
        Err(RequestError::Status { status, retry_after: None })
    };
    stream::once(end).boxed()
}

/// Restores the API server to version 80. First the namespace `green` is listed at 85: it had
/// reached only 50, so this list does not show the restore. Then `blue`, which had reached 100, is
/// listed at 86. This shows the restore, so `green` is listed again.
#[tokio::test(start_paused = true)]
async fn namespace_that_listed_before_a_restore_was_noticed_is_listed_again() {
    // An in-order queue has no applied version.
    for (choose, applied) in QUEUES.into_iter().zip([Some("86"), None]) {
        let namespaces = of(["blue", "green"]);
        let blue = Scripted::new()
            .list(list_at(100, "blue", 1))
            .watch_stream(expiring(20))
            .list(list_at(86, "blue", 2))
            .watch_on([]);
        // The version of its object is the same in both histories.
        let green = Scripted::new()
            .list(list_at(50, "green", 1))
            .watch_stream(expiring(10))
            .list(list_at(85, "green", 1))
            .watch_on([])
            .list(list_at(87, "green", 2))
            .watch_on([]);
        let sources = [Arc::new(blue), Arc::new(green)];
        let [blue, green] = sources.clone();
        let source = move |namespace: &str| match namespace {
            "blue" => blue.clone(),
            "green" => green.clone(),
            _ => Arc::default(),
        };
        let informer = choose(Informer::in_namespaces(&namespaces, source))
            .reflector(|reflector| reflector.watch_list(false))
            .on_error(|_| ())
            .build()
            .unwrap();
        run(&informer);
        wait_for_stored(&informer, &["blue/a=2", "green/a=2"]).await;
        until(|| informer.watch_status().is_open).await;
        // Shorter than a watch lasts.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(informer.store().applied_version().as_deref(), applied);
        // A watch may have ended and begun again.
        let is_list =
            |request: &lister_watcher::Request| matches!(request, lister_watcher::Request::List(_));
        let lists = sources.map(|source| source.requests().into_iter().filter(is_list).count());
        assert_eq!(lists, [2, 3], "each restart lists once");
        informer.stop().await;
    }
}
