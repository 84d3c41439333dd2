//! Tests of namespaces that leave the set before their first list is complete.

use std::time::Duration;

use deltafifo_informer::shared_informer::{HandlerOptions, SharedInformerFactory};
use deltafifo_testkit::{ApiServer, Fault, Request, Resource};
use tokio::time::{Instant, timeout};

use super::rig::{
    LONG, Shop, apply, apply_many, in_green, is_applied, namespace, next, server, stored, until,
    write_blue,
};
use crate::rig::{Builder, Informer};

/// Returns whether a request is not for the first page of a first list: it has a continue token or
/// a resource version.
fn is_later(request: &Request) -> bool {
    request.continue_token().is_some() || !request.resource_version().is_empty()
}

/// Returns an informer of the maps in the namespaces that a label selects. It lists them in pages
/// of one map. It does not have an in-order queue, because that would receive nothing before the
/// list is complete.
fn followed_in_pages(server: &ApiServer) -> (SharedInformerFactory, Informer) {
    let in_pages =
        |maps: Builder| maps.reflector(|maps| maps.watch_list(false).newest(true).page_size(1));
    let Shop { factory, maps, .. } = Shop::new(server, in_pages);
    (factory, maps)
}

#[tokio::test(start_paused = true)]
async fn objects_of_an_incomplete_list_are_deleted_by_a_final_list() {
    let server = server();
    namespace(&server, "green", "shop");
    apply_many(&server, "green", 2);
    let later = |request: &Request| in_green(request) && is_later(request);
    server.fault(Fault::silence().when(later).times(usize::MAX));
    let (factory, maps) = followed_in_pages(&server);
    let mut changes = maps.subscribe(HandlerOptions::new()).unwrap();
    factory.start();
    assert_eq!(next(&mut changes).await, "Initial +m0");
    assert!(!maps.has_synced());

    server.clear_faults();
    server.delete(&Resource::config_maps(), "green", "m0").unwrap();
    server.delete(&Resource::namespaces(), "", "green").unwrap();
    let deleted = loop {
        let change = next(&mut changes).await;
        if change.ends_with("-m0") {
            break change;
        }
    };
    assert_eq!(deleted, "Relist -m0");
    drop(changes);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn first_list_of_a_namespace_that_left_does_not_delay_the_sync() {
    let server = server();
    namespace(&server, "blue", "shop");
    namespace(&server, "green", "shop");
    apply_many(&server, "green", 2);
    let later = |request: &Request| in_green(request) && is_later(request);
    server.fault(Fault::silence().when(later).times(usize::MAX));
    let (factory, maps) = followed_in_pages(&server);
    let mut changes = maps.subscribe(HandlerOptions::new()).unwrap();
    factory.start();
    assert_eq!(next(&mut changes).await, "Initial +m0");
    assert!(!maps.has_synced());

    server.fault(Fault::silence().when(in_green).times(usize::MAX));
    server.delete(&Resource::namespaces(), "", "green").unwrap();
    let began = Instant::now();
    maps.wait_for_sync().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    drop(changes);
    factory.shutdown().await;
}

/// Starts the informer of [`followed_in_pages`] with two namespaces. Requests for `blue` get the
/// fault `in_blue`, if there is one. The first list of `green` stops after the first of two maps.
/// Then `green` leaves the set, and later requests for it are not answered.
async fn start_without_a_list_of_green(
    in_blue: Option<Fault>,
) -> (ApiServer, SharedInformerFactory, Informer) {
    let server = server();
    namespace(&server, "blue", "shop");
    namespace(&server, "green", "shop");
    apply(&server, "blue", "a", 1);
    apply_many(&server, "green", 2);
    let later = |request: &Request| in_green(request) && is_later(request);
    server.fault(Fault::silence().when(later).times(usize::MAX));
    if let Some(fault) = in_blue {
        let in_blue = |request: &Request| request.namespace() == Some("blue");
        server.fault(fault.when(in_blue).times(usize::MAX));
    }
    let (factory, maps) = followed_in_pages(&server);
    factory.start();
    until(|| stored(&maps).contains(&"green/m0=1".to_owned())).await;
    assert!(!maps.has_synced());
    server.fault(Fault::silence().when(in_green).times(usize::MAX));
    namespace(&server, "green", "bank");
    (server, factory, maps)
}

/// Adds the namespace `green` to the set again, and waits until the informer follows it. The
/// informer's watch then stops counting as open, because the server has not answered for `green`.
async fn until_green_is_back(server: &ApiServer, maps: &Informer) {
    namespace(server, "green", "shop");
    let is_open = || maps.watch_status().is_open;
    until(|| !is_open()).await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_comes_back_before_its_first_list_delays_the_sync() {
    let (server, factory, maps) = start_without_a_list_of_green(Some(Fault::silence())).await;
    let synced = timeout(Duration::from_secs(5), maps.wait_for_sync()).await;
    assert!(synced.is_err(), "blue is not listed");
    namespace(&server, "green", "shop");
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.clear_faults();
    server.fault(Fault::silence().when(in_green).times(usize::MAX));
    assert!(timeout(LONG, maps.wait_for_sync()).await.is_err(), "green is not listed");
    assert!(stored(&maps).contains(&"blue/a=1".to_owned()));
    server.clear_faults();
    timeout(LONG, maps.wait_for_sync()).await.expect("green is listed").unwrap();
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_that_comes_back_before_its_first_list_holds_the_applied_version_back() {
    let (server, factory, maps) = start_without_a_list_of_green(None).await;
    maps.wait_for_sync().await.unwrap();
    let version = write_blue(&server, 2);
    assert!(is_applied(&maps, &version).await, "green has left the set");
    until_green_is_back(&server, &maps).await;
    assert!(maps.has_synced(), "an informer stays synced");
    assert!(!is_applied(&maps, &version).await, "green is not listed");
    assert_eq!(maps.store().applied_version(), None);
    server.clear_faults();
    let store = maps.store();
    let waiting = store.wait_for_resource_version_async(&version);
    timeout(LONG, waiting).await.expect("green is listed").unwrap();
    factory.shutdown().await;
}
