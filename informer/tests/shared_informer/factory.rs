//! Tests of the factory, which has one informer for each kind and scope. The informers start, are
//! awaited and shut down together.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::{IndexError, Indexers, OWNER_INDEX};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::shared_informer::{
    Buffer, FactoryError, HandlerOptions, Notification, Scope, SharedInformerBuilder,
    SharedInformerFactory,
};
use deltafifo_testkit::{ApiServer, Fault, Resource, Verb, WatchLists};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::rig::{Informer, gated, idle, map, next, server, value};
use super::without::Without;

fn factory(server: &ApiServer) -> SharedInformerFactory {
    SharedInformerFactory::new(server.client())
}

#[tokio::test(start_paused = true)]
async fn factory_has_one_informer_per_kind_and_scope() {
    let server = server();
    let factory = factory(&server);
    let front = || Scope::namespace("shop").labels("app=web").fields("metadata.name=a");
    let back = Scope::namespace("shop").fields("metadata.name=a").labels("app=web");
    for scope in [front(), back, front()] {
        factory.informer::<ConfigMap>(&scope).unwrap();
    }
    factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    factory
        .informer_with::<DynamicObject>(&ApiResource::erase::<ConfigMap>(&()), &Scope::all(), |b| b)
        .unwrap();
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
    let lister = |scope: &Scope| factory.informer::<ConfigMap>(scope).unwrap().lister();
    let all = lister(&Scope::all());
    let (shop, web) = (lister(&Scope::namespace("shop")), lister(&Scope::all().labels("app=web")));
    let tweaked = factory
        .clone()
        .query("labelSelector", "app=web")
        .informer::<ConfigMap>(&Scope::all())
        .unwrap()
        .lister();
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    assert_eq!(all.list().len(), 2);
    assert!(shop.list().len() == 1 && shop.get("shop/a").is_some());
    for web in [web, tweaked] {
        assert!(web.list().len() == 1 && web.namespace("bank").get("b").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn added_selectors_are_combined() {
    let server = server();
    for (name, labels) in
        [("a", json!({ "app": "web" })), ("b", json!({ "app": "web", "tier": "front" }))]
    {
        let metadata = json!({ "namespace": "shop", "name": name, "labels": labels });
        server
            .apply(json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata }))
            .unwrap();
    }
    let factory = factory(&server);
    let tweaked = factory.clone().query("labelSelector", "tier=front").query("labelSelector", "");
    let lister = |factory: &SharedInformerFactory, scope: &Scope| {
        factory.informer::<ConfigMap>(scope).unwrap().lister()
    };
    let fields = Scope::all().fields("metadata.name=b").fields("metadata.namespace=shop");
    let listers = [
        lister(&factory, &Scope::all().labels("app=web").labels("tier=front")),
        lister(&tweaked, &Scope::namespace("shop").labels("app=web")),
        lister(&factory, &fields),
    ];
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    for lister in listers {
        assert!(lister.list().len() == 1 && lister.get("shop/b").is_some());
    }
}

#[tokio::test]
async fn query_that_cannot_be_sent_is_an_error_of_the_factory() {
    let factory = factory(&server());
    let added = [
        factory.informer::<ConfigMap>(&Scope::all().query("limit", "7")),
        factory.clone().query("watch", "1").informer::<ConfigMap>(&Scope::all()),
        factory
            .clone()
            .query("pretty", "true")
            .informer::<ConfigMap>(&Scope::all().query("pretty", "false")),
    ];
    for (informer, key) in added.into_iter().zip(["limit", "watch", "pretty"]) {
        let Err(error @ FactoryError::Query(_)) = informer else { panic!("{informer:?}") };
        assert!(error.to_string().contains(key), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn informer_created_after_start_needs_another_start() {
    let server = server();
    server.register(Resource::pods());
    let factory = factory(&server);
    factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    factory.start();
    let pods = factory.informer::<Pod>(&Scope::all()).unwrap();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    assert!(!pods.has_synced(), "not started");
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    assert!(pods.has_synced());
}

#[tokio::test(start_paused = true)]
async fn wait_for_sync_names_the_unsynced_informers() {
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
async fn lists_are_streamed_if_the_server_supports_it() {
    for (watch_lists, lists) in [(WatchLists::Served, false), (WatchLists::Forbidden, true)] {
        let server =
            ApiServer::builder().resource(Resource::config_maps()).watch_lists(watch_lists).build();
        server.apply(map("a", "1")).unwrap();
        let factory = factory(&server);
        let lister = factory.informer::<ConfigMap>(&Scope::namespace("shop")).unwrap().lister();
        factory.start();
        factory.wait_for_cache_sync(pending()).await.unwrap();
        assert_eq!(lister.list().len(), 1);
        assert_eq!(server.requests().iter().any(|request| request.verb() == Verb::List), lists);
    }
}

#[tokio::test]
async fn shutdown_waits_and_is_permanent() {
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
async fn resync_period_and_configuration_apply_to_the_factorys_informers() {
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
async fn factory_transform_applies_to_kinds_without_their_own() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let mark = |meta: &mut ObjectMeta| {
        meta.annotations.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
    };
    let factory = factory(&server).transform_metadata(mark);
    let kind = ApiResource::erase::<ConfigMap>(&());
    let typed = factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    let dynamic =
        factory.informer_with::<DynamicObject>(&kind, &Scope::all(), |informer| informer).unwrap();
    let other = Scope::namespace("shop");
    let own =
        factory.informer_with::<ConfigMap>(&(), &other, |informer| informer.transform(Ok)).unwrap();
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    let seen =
        |meta: &ObjectMeta| meta.annotations.as_ref().is_some_and(|all| all.contains_key("seen"));
    let key = "shop/a";
    assert!(seen(&typed.store().get_by_key(key).unwrap().metadata));
    assert!(seen(&dynamic.store().get_by_key(key).unwrap().metadata));
    assert!(!seen(&own.store().get_by_key(key).unwrap().metadata));
}

#[tokio::test(start_paused = true)]
async fn dynamic_informer_delivers_changes_of_its_scope() {
    let server = server();
    let factory = factory(&server).query("fieldSelector", "metadata.name=a");
    let kind = ApiResource::erase::<ConfigMap>(&());
    let informer =
        factory
            .informer_with::<DynamicObject>(&kind, &Scope::namespace("shop"), |informer| informer);
    let mut stream =
        informer.unwrap().subscribe(HandlerOptions::new().buffer(Buffer::HoldBack(100))).unwrap();
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
    let shown = |received: Notification<DynamicObject>| match received {
        Notification::Added { new, .. } => format!("+{}", data(&new)),
        Notification::Updated { old, new, .. } => format!("{}>{}", data(&old), data(&new)),
        Notification::Deleted { last, .. } => format!("-{}", data(last.object().unwrap())),
        other => panic!("{other:?}"),
    };
    let received = [stream.next().await, stream.next().await, stream.next().await];
    assert_eq!(received.map(|received| shown(received.unwrap())), ["+1", "1>2", "-2"]);
}

#[tokio::test]
async fn configuration_of_a_concurrently_created_informer_is_dropped_without_a_lock() {
    /// An object that calls the factory when it is dropped.
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

/// Returns the informer of the config maps of all namespaces.
fn of_maps(factory: &SharedInformerFactory) -> Informer {
    factory.informer::<ConfigMap>(&Scope::all()).unwrap()
}

/// Checks that a factory returns a new informer, with the current objects, for a kind whose
/// informer was stopped. client-go returns the stopped informer (kubernetes#79610,
/// controller-runtime#935, #1397).
#[tokio::test(start_paused = true)]
async fn stopped_informer_is_replaced_when_its_kind_is_requested() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let factory = factory(&server);
    let stopped = of_maps(&factory);
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    stopped.stop().await;
    server.apply(map("a", "2")).unwrap();
    assert!(stopped.is_stopped() && stopped.has_synced(), "has_synced stays true");

    let new = of_maps(&factory);
    assert!(!new.is_stopped() && !new.has_synced());
    factory.wait_for_cache_sync(pending()).await.unwrap();
    assert!(!new.has_synced(), "it needs a start, as any late informer");
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    let data =
        |informer: &Informer| value(&informer.store().get_by_key("shop/a").unwrap()).to_owned();
    assert_eq!((data(&stopped), data(&new)), ("1".to_owned(), "2".to_owned()));
    server.wait_for_watchers(1).await;
    factory.shutdown().await;
    assert!(new.is_stopped());
}

/// Checks that a factory returns a new informer for a kind whose informer is stopping but still
/// runs a call of its handler, and that the shutdown of the factory waits for that call.
#[tokio::test]
async fn informer_that_is_stopping_is_replaced_and_shutdown_waits_for_its_handlers() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let factory = factory(&server);
    let stopping = of_maps(&factory);
    let (handler, go, mut notes) = gated();
    stopping.add_event_handler(handler).unwrap();
    factory.start();
    notes.next(1).await;
    assert!(stopping.stop().now_or_never().is_none() && !stopping.is_stopped());
    let new = of_maps(&factory);
    new.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    assert!(factory.shutdown().now_or_never().is_none());
    go.send(()).unwrap();
    factory.shutdown().await;
    assert!(stopping.is_stopped() && new.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn informer_whose_runtime_ended_is_replaced() {
    let server = server();
    let factory = factory(&server);
    let of_before = of_maps(&factory);
    let start = {
        let factory = factory.clone();
        move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                factory.start();
                factory.wait_for_cache_sync(pending()).await.unwrap();
            });
        }
    };
    spawn_blocking(start).await.unwrap();
    assert!(of_before.has_synced() && of_before.is_stopped());
    let new = of_maps(&factory);
    factory.start();
    let synced = timeout(Duration::from_secs(60), new.wait_for_sync()).await;
    assert_eq!(synced, Ok(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn informer_whose_runtime_ended_before_it_ran_is_started_again() {
    let server = server();
    let factory = factory(&server);
    let informer = of_maps(&factory);
    let start = {
        let factory = factory.clone();
        move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { factory.start() });
        }
    };
    spawn_blocking(start).await.unwrap();
    factory.start();
    let synced = timeout(Duration::from_secs(60), informer.wait_for_sync()).await;
    assert_eq!(synced, Ok(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn removed_informer_is_stopped_and_its_store_freed() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let factory = factory(&server);
    let informer = of_maps(&factory);
    let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    server.wait_for_watchers(1).await;
    let object = Arc::downgrade(&informer.store().get_by_key("shop/a").unwrap());

    assert!(factory.remove::<ConfigMap>(&(), &Scope::all()).await);
    assert!(!factory.remove::<ConfigMap>(&(), &Scope::all()).await, "already removed");
    assert!(informer.is_stopped() && stream.next().await.is_none());
    server.wait_for_watchers(0).await;
    assert_eq!(format!("{factory:?}"), "SharedInformerFactory { informers: [], .. }");
    drop((informer, stream));
    idle().await;
    assert!(object.upgrade().is_none(), "the factory holds no reference");

    let new = of_maps(&factory);
    factory.start();
    new.wait_for_sync().await.unwrap();
}

#[tokio::test]
async fn removal_without_awaiting_still_removes() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let factory = factory(&server);
    let informer = of_maps(&factory);
    let (handler, go, mut notes) = gated();
    informer.add_event_handler(handler).unwrap();
    factory.start();
    notes.next(1).await;
    assert!(
        factory.remove::<ConfigMap>(&(), &Scope::all()).now_or_never().is_none(),
        "a call runs"
    );
    assert!(!of_maps(&factory).has_synced(), "a new informer");
    assert!(factory.shutdown().now_or_never().is_none(), "the call still runs");
    go.send(()).unwrap();
    factory.shutdown().await;
    assert!(informer.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn wait_for_sync_ignores_a_removed_informer() {
    let server = server();
    server.register(Resource::pods());
    let is_for_pods = |request: &deltafifo_testkit::Request| request.path().contains("/pods");
    server.fault(Fault::silence().when(is_for_pods).times(usize::MAX));
    let factory = factory(&server);
    let maps = of_maps(&factory);
    factory.informer::<Pod>(&Scope::all()).unwrap();
    factory.start();
    let waits = tokio::spawn({
        let factory = factory.clone();
        async move { factory.wait_for_cache_sync(pending()).await }
    });
    maps.wait_for_sync().await.unwrap();
    assert!(!waits.is_finished());
    assert!(factory.remove::<Pod>(&(), &Scope::all()).await);
    waits.await.unwrap().unwrap();
    factory.wait_for_cache_sync(pending()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn informer_that_stopped_before_its_sync_is_named_by_the_wait() {
    let server = server();
    server.fault(Fault::silence().times(usize::MAX));
    let factory = factory(&server);
    let maps = of_maps(&factory);
    factory.start();
    maps.stop().await;
    let error = factory.wait_for_cache_sync(pending()).await.unwrap_err();
    assert_eq!(error.informers, ["configmaps.v1"]);
}

#[tokio::test(start_paused = true)]
async fn equal_scopes_share_one_informer() {
    let all = Scope::all;
    let same = [
        (all(), all().labels("")),
        (all(), all().fields("").query("labelSelector", "")),
        (all().labels("a=1,b=2"), all().labels("b=2").labels(" a == 1")),
        (all().labels("a=1"), all().labels("a=1,a in (1)")),
        (all().labels("a in (x,y),b"), all().labels("b, a in (y, x, x)")),
        (all().fields("metadata.name=a,spec.x!=1"), all().fields("spec.x!=1,,metadata.name==a,")),
        (Scope::namespace("").labels("a"), all().query("labelSelector", "a")),
    ];
    let factory = factory(&server());
    for (one, other) in same {
        assert_eq!(one, other);
        let count = || format!("{factory:?}").matches("configmaps").count();
        factory.informer::<ConfigMap>(&one).unwrap();
        let before = count();
        factory.informer::<ConfigMap>(&other).unwrap();
        assert_eq!(count(), before, "{one:?}");
    }
    let others = [
        (all().labels("a"), all().labels("!a")),
        (all().labels("a=b"), all().fields("a=b")),
        (all().fields(r"a=x\,b=y"), all().fields("a=x,b=y")),
        (all().fields("a!=b"), all().fields("a=b")),
        (all().fields("a==b"), all().fields("a===b")),
        // Invalid selectors, which the server must refuse.
        (all().labels("a,"), all().labels("a")),
        (all().fields("a!==b"), all().fields("a!=b")),
        (all().fields("a=b "), all().fields("a=b")),
        (all().fields("a"), all()),
    ];
    for (one, other) in others {
        assert_ne!(one, other);
    }
}

#[tokio::test]
async fn scopes_of_equal_names_have_informers_of_their_own() {
    let factory = factory(&server());
    let two = Scope::all().index_field("/a").index_field("/b");
    let one = Scope::all().index_field("/a by /b");
    let [two, one] = [two, one].map(|scope| factory.informer::<ConfigMap>(&scope).unwrap());
    let name = r#""configmaps.v1 by /a by /b""#;
    assert_eq!(
        format!("{factory:?}"),
        format!("SharedInformerFactory {{ informers: [{name}, {name}], .. }}")
    );
    assert!(two.store().by_index("field:/b", "x").is_ok());
    assert!(one.store().by_index("field:/b", "x").is_err());
}

#[tokio::test(start_paused = true)]
async fn users_of_an_informer_add_indexes_before_and_after_its_start() {
    let server = server();
    let apply = |name: &str| {
        let mut labelled = map(name, "1");
        labelled["metadata"]["labels"] = json!({ "app": "web", "tier": "front" });
        labelled["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "uid-of-o" }]);
        server.apply(labelled).unwrap();
    };
    apply("a");
    apply("b");
    let factory = factory(&server);
    let [one, other] = [(); 2].map(|()| of_maps(&factory));
    let selected = |by: &Informer, selector: &str| {
        let found = by.lister().select(&selector.parse().unwrap());
        let mut names: Vec<_> = found.iter().filter_map(|map| map.metadata.name.clone()).collect();
        names.sort();
        names
    };
    let by_app = || Indexers::new().label(Without("b"), "app");
    one.add_indexers(by_app().owners(KubeMeta)).await.unwrap();
    factory.start();
    factory.wait_for_cache_sync(pending()).await.unwrap();
    assert_eq!(selected(&other, "app=web,tier"), ["a"], "by the index");
    assert_eq!(selected(&one, "tier=front"), ["a", "b"], "by a scan");
    // `one` has added the index of the app.
    other.add_indexers(by_app().label(Without("b"), "tier")).await.unwrap();
    assert_eq!(selected(&one, "tier in (front, back)"), ["a"], "by the index");
    let own = Indexers::new().index("label:app", |_: &ConfigMap| Ok(Vec::new()));
    let conflict = other.add_indexers(own).await;
    assert!(matches!(conflict, Err(IndexError::Conflict(name)) if name == "label:app"));
    let by_tier = Indexers::new().field(KubeMeta, "/metadata/labels/tier");
    other.add_indexers(by_tier).await.unwrap();
    let mut changes = one.subscribe(HandlerOptions::new()).unwrap();
    apply("c");
    while !next(&mut changes, 1).await[0].ends_with("c=1") {}
    for selector in ["app=web", "tier=front"] {
        assert_eq!(selected(&other, selector), ["a", "c"]);
    }
    let owned = other.store().index_keys(OWNER_INDEX, "uid-of-o").unwrap();
    assert_eq!(owned, ["shop/a", "shop/b", "shop/c"]);
    let front = one.store().index_keys("field:/metadata/labels/tier", "front").unwrap();
    assert_eq!(front, owned);
}
