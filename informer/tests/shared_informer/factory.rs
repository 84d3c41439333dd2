//! The factory: one informer a kind and scope, started, waited for and shut down together.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::KubeMeta;
use deltafifo_informer::shared_informer::{
    Buffer, FactoryError, HandlerOptions, Notification, Scope, SharedInformerBuilder, SharedInformerFactory,
};
use deltafifo_testkit::{ApiServer, Fault, Resource, Verb, WatchLists};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::rig::{gated, map, next, server};

fn factory(server: &ApiServer) -> SharedInformerFactory {
    SharedInformerFactory::new(server.client())
}

#[tokio::test(start_paused = true)]
async fn there_is_one_informer_a_kind_and_scope() {
    let server = server();
    let factory = factory(&server);
    let front = || Scope::namespace("shop").labels("app=web").fields("metadata.name=a");
    let back = Scope::namespace("shop").fields("metadata.name=a").labels("app=web");
    for scope in [front(), back, front()] {
        factory.informer::<ConfigMap>(&scope).unwrap();
    }
    factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    factory.informer_with::<DynamicObject>(&ApiResource::erase::<ConfigMap>(&()), &Scope::all(), |b| b).unwrap();
    factory.clone().informer::<ConfigMap>(&Scope::namespace("bank")).unwrap();
    factory.start();
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    server.wait_for_watchers(4).await;
}

#[tokio::test(start_paused = true)]
async fn informers_of_a_scope_have_only_its_objects() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let labelled = json!({ "namespace": "bank", "name": "b", "labels": { "app": "web" } });
    server.apply(json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": labelled })).unwrap();
    let factory = factory(&server);
    let lister = |scope: &Scope| factory.lister::<ConfigMap>(scope).unwrap();
    let all = lister(&Scope::all());
    let (shop, web) = (lister(&Scope::namespace("shop")), lister(&Scope::all().labels("app=web")));
    let tweaked = factory.clone().query("labelSelector", "app=web").lister::<ConfigMap>(&Scope::all()).unwrap();
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    assert_eq!(all.list().len(), 2);
    assert!(shop.list().len() == 1 && shop.get("shop/a").is_some());
    for web in [web, tweaked] {
        assert!(web.list().len() == 1 && web.namespace("bank").get("b").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn selectors_that_are_added_hold_together() {
    let server = server();
    for (name, labels) in [("a", json!({ "app": "web" })), ("b", json!({ "app": "web", "tier": "front" }))] {
        let metadata = json!({ "namespace": "shop", "name": name, "labels": labels });
        server.apply(json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata })).unwrap();
    }
    let factory = factory(&server);
    let tweaked = factory.clone().query("labelSelector", "tier=front").query("labelSelector", "");
    let listers = [
        factory.lister::<ConfigMap>(&Scope::all().labels("app=web").labels("tier=front")).unwrap(),
        tweaked.lister::<ConfigMap>(&Scope::namespace("shop").labels("app=web")).unwrap(),
        factory.lister::<ConfigMap>(&Scope::all().fields("metadata.name=b").fields("metadata.namespace=shop")).unwrap(),
    ];
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    for lister in listers {
        assert!(lister.list().len() == 1 && lister.get("shop/b").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_made_late_wants_another_start() {
    let server = server();
    server.register(Resource::pods());
    let factory = factory(&server);
    factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    factory.start();
    let pods = factory.informer::<Pod>(&Scope::all()).unwrap();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    assert!(!pods.has_synced(), "it was not started");
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    assert!(pods.has_synced());
}

#[tokio::test(start_paused = true)]
async fn which_have_not_synced_is_said() {
    let server = server();
    server.register(Resource::pods());
    let is_for_pods = |request: &deltafifo_testkit::Request| request.path().contains("/pods");
    server.fault(Fault::silence().when(is_for_pods).times(usize::MAX));
    let factory = factory(&server);
    factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    factory.informer::<Pod>(&Scope::namespace("shop").labels("app=web")).unwrap();
    factory.start();
    let error = factory.wait_for_cache_sync(sleep(Duration::from_secs(5))).await.unwrap_err();
    assert_eq!(error.informers, ["pods.v1 in shop?labelSelector=app%3Dweb"]);
    assert!(error.to_string().ends_with("pods.v1 in shop?labelSelector=app%3Dweb"));
}

#[tokio::test(start_paused = true)]
async fn lists_are_streamed_or_not_as_the_server_can() {
    for (watch_lists, lists) in [(WatchLists::Served, false), (WatchLists::Forbidden, true)] {
        let server = ApiServer::builder().resource(Resource::config_maps()).watch_lists(watch_lists).build();
        server.apply(map("a", "1")).unwrap();
        let factory = factory(&server);
        let lister = factory.lister::<ConfigMap>(&Scope::namespace("shop")).unwrap();
        factory.start();
        factory.wait_for_cache_sync(pending()).await.unwrap();
        assert_eq!(lister.list().len(), 1);
        assert_eq!(server.requests().iter().any(|request| request.verb() == Verb::List), lists);
    }
}

#[tokio::test]
async fn a_shutdown_waits_and_is_for_good() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    let (handler, go, mut notes) = gated();
    let started = maps.add_event_handler(handler).unwrap();
    factory.start();
    let never_started = factory.informer::<ConfigMap>(&Scope::namespace("shop")).unwrap();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    notes.next(1).await;
    assert!(factory.shutdown().now_or_never().is_none());
    assert!(!maps.is_stopped(), "a call runs");
    go.send(()).unwrap();
    factory.shutdown().await;
    assert!(maps.is_stopped() && never_started.is_stopped());
    assert!(started.ended().now_or_never().is_some());
    factory.start();
    assert!(matches!(factory.informer::<ConfigMap>(&Scope::all()), Err(FactoryError::ShutDown)));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn its_resync_period_and_what_is_chosen_are_its_informers() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let factory = factory(&server).resync(Duration::from_secs(60));
    let informer = factory.informer_with::<ConfigMap>(&(), &Scope::all(), |informer| {
        informer.transform(|map| {
            let mut map = ConfigMap::clone(&map);
            map.data.get_or_insert_default().insert("data".to_owned(), "changed".to_owned());
            Ok(Arc::new(map))
        })
    });
    let mut stream = informer.unwrap().subscribe(HandlerOptions::new()).unwrap();
    factory.start();
    assert_eq!(next(&mut stream, 2).await, ["initial *a=changed", "resync a=changed>changed"]);
    assert!(server.requests().iter().any(|request| request.verb() == Verb::Watch));
}

#[tokio::test(start_paused = true)]
async fn its_transform_is_of_every_kind_that_has_none_of_its_own() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let mark = |meta: &mut ObjectMeta| {
        meta.annotations.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
    };
    let factory = factory(&server).transform_metadata(mark);
    let kind = ApiResource::erase::<ConfigMap>(&());
    let typed = factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    let dynamic = factory.informer_with::<DynamicObject>(&kind, &Scope::all(), |informer| informer).unwrap();
    let other = Scope::namespace("shop");
    let own = factory.informer_with::<ConfigMap>(&(), &other, |informer| informer.transform(Ok)).unwrap();
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    let seen = |meta: &ObjectMeta| meta.annotations.as_ref().is_some_and(|all| all.contains_key("seen"));
    let key = "shop/a";
    assert!(seen(&typed.store().get_by_key(key).unwrap().metadata));
    assert!(seen(&dynamic.store().get_by_key(key).unwrap().metadata));
    assert!(!seen(&own.store().get_by_key(key).unwrap().metadata));
}

#[tokio::test(start_paused = true)]
async fn an_informer_of_a_kind_known_at_run_time_is_told_what_changes_in_its_scope() {
    let server = server();
    let factory = factory(&server).query("fieldSelector", "metadata.name=a");
    let kind = ApiResource::erase::<ConfigMap>(&());
    let informer = factory.informer_with::<DynamicObject>(&kind, &Scope::namespace("shop"), |informer| informer);
    let mut stream = informer.unwrap().subscribe(HandlerOptions::new().buffer(Buffer::HoldBack(100))).unwrap();
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    server.wait_for_watchers(1).await;
    for name in ["b", "a"] {
        for data in ["1", "2"] {
            server.apply(map(name, data)).unwrap();
        }
        server.delete(&Resource::config_maps(), "shop", name).unwrap();
    }
    let data = |object: &DynamicObject| object.data["data"]["data"].as_str().unwrap().to_owned();
    let shown = |told: Notification<DynamicObject>| match told {
        Notification::Added { new, .. } => format!("+{}", data(&new)),
        Notification::Updated { old, new, .. } => format!("{}>{}", data(&old), data(&new)),
        Notification::Deleted { last, .. } => format!("-{}", data(last.object().unwrap())),
        other => panic!("{other:?}"),
    };
    let told = [stream.next().await, stream.next().await, stream.next().await];
    assert_eq!(told.map(|told| shown(told.unwrap())), ["+1", "1>2", "-2"]);
}

#[tokio::test]
async fn what_was_chosen_for_one_that_another_call_made_meanwhile_is_dropped_with_nothing_locked() {
    /// Asks the factory when it is dropped.
    struct Asks(SharedInformerFactory, mpsc::UnboundedSender<String>);
    impl Drop for Asks {
        fn drop(&mut self) {
            let _ = self.1.send(format!("{:?}", self.0));
        }
    }
    let server = server();
    let factory = factory(&server);
    let ((dropped, mut is_dropped), inner) = (mpsc::unbounded_channel(), factory.clone());
    let asks = Asks(factory.clone(), dropped);
    let choose = move |informer: SharedInformerBuilder<ConfigMap, KubeMeta>| {
        inner.informer::<ConfigMap>(&Scope::all()).unwrap();
        informer.on_error(move |_| drop(format!("{:?}", asks.0)))
    };
    factory.informer_with::<ConfigMap>(&(), &Scope::all(), choose).unwrap();
    assert!(is_dropped.recv().await.is_some());
}
