//! Tests of typed, dynamic and custom objects and of metadata only, in one namespace or several,
//! with selectors.

use deltafifo_informer::KubeListerWatcher;
use deltafifo_informer::lister_watcher::{ListerWatcher, Merged};
use deltafifo_informer::reflector::ReflectorBuilder;
use deltafifo_testkit::{ApiServer, Request, Resource, Verb, status};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::core::{Expression, NotUsed, Object, PartialObjectMeta};
use kube::discovery::Scope;
use serde::Deserialize;
use serde_json::{Value, json};

use super::rig::{applied, map, run, server, stored, up_to_date};

#[tokio::test(start_paused = true)]
async fn dynamic_objects_of_a_list_have_kind_and_api_version() {
    for watch_list in [false, true] {
        let server = server();
        server.apply(map("shop", "a", "1")).unwrap();
        let types = ApiResource::erase::<ConfigMap>(&());
        let source = KubeListerWatcher::new::<DynamicObject>(server.client(), &types, None);
        let fifo = applied::<DynamicObject>();
        let _errors = run(source, &fifo, |builder| builder.watch_list(watch_list));
        fifo.wait_for_sync_async().await.unwrap();
        let map = fifo.store().get_by_key("shop/a").unwrap();
        let types = map.types.as_ref().unwrap();
        assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
        assert_eq!(map.data["data"]["data"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_source_requests_metadata_only() {
    for watch_list in [false, true] {
        let server = server();
        server.apply(map("shop", "a", "1")).unwrap();
        let source = KubeListerWatcher::new::<PartialObjectMeta<ConfigMap>>(
            server.client(),
            &(),
            Some("shop"),
        );
        let fifo = applied::<PartialObjectMeta<ConfigMap>>();
        let _errors = run(source, &fifo, |builder| builder.watch_list(watch_list));
        fifo.wait_for_sync_async().await.unwrap();
        let meta = fifo.store().get_by_key("shop/a").unwrap();
        assert_eq!(meta.metadata.labels.as_ref().unwrap()["data"], "1");
        assert!(server.requests().iter().all(Request::is_metadata_only));
    }
}

#[tokio::test(start_paused = true)]
async fn pruned_fields_are_in_no_listed_or_watched_object() {
    for watch_list in [false, true] {
        let server = server();
        server.apply(map("shop", "a", "1")).unwrap();
        let types = ApiResource::erase::<ConfigMap>(&());
        let source = KubeListerWatcher::new::<DynamicObject>(server.client(), &types, None);
        let fifo = applied::<DynamicObject>();
        let without = |builder: ReflectorBuilder<DynamicObject>| {
            builder.without(&["data"]).without(&["metadata", "uid"])
        };
        let _errors = run(source, &fifo, |builder| without(builder.watch_list(watch_list)));
        fifo.wait_for_sync_async().await.unwrap();
        server.apply(map("shop", "b", "2")).unwrap();
        up_to_date(&server, &fifo, &Resource::config_maps()).await;
        for key in ["shop/a", "shop/b"] {
            let map = fifo.store().get_by_key(key).unwrap();
            assert_eq!((map.data.get("data"), &map.metadata.uid), (None, &None), "{key}");
            assert!(map.types.is_some() && map.metadata.resource_version.is_some(), "{key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resource_is_retried_until_its_definition_exists() {
    let api = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Shop"));
    let server = ApiServer::builder().build();
    let source = KubeListerWatcher::new::<DynamicObject>(server.client(), &api, None);
    let fifo = applied::<DynamicObject>();
    let mut errors = run(source, &fifo, |builder| builder);
    assert!(errors.recv().await.unwrap().contains("CRD"));
    server.register(Resource::custom(api, Scope::Namespaced));
    let shop = json!({ "apiVersion": "example.com/v1", "kind": "Shop", "metadata": { "name": "a" }, "open": true });
    server.apply(shop).unwrap();
    fifo.wait_for_sync_async().await.unwrap();
    up_to_date(
        &server,
        &fifo,
        &Resource::custom(
            ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Shop")),
            Scope::Namespaced,
        ),
    )
    .await;
    assert_eq!(fifo.store().get_by_key("default/a").unwrap().data["open"], true);
}

/// A custom resource, some of whose objects do not fit its type.
#[derive(Clone, Debug, Deserialize)]
struct ShopSpec {
    open: bool,
}

type Shop = Object<ShopSpec, NotUsed>;

#[tokio::test(start_paused = true)]
async fn custom_object_that_does_not_fit_its_type_is_reported_and_kept() {
    let api = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Shop"));
    let resource = Resource::custom(api.clone(), Scope::Namespaced);
    let shop = |name: &str, open: Value| {
        let metadata = json!({ "namespace": "town", "name": name });
        json!({ "apiVersion": "example.com/v1", "kind": "Shop", "metadata": metadata, "spec": { "open": open } })
    };
    for watch_list in [false, true] {
        let server = ApiServer::builder().resource(resource.clone()).build();
        server.apply(shop("never", json!("maybe"))).unwrap();
        server.apply(shop("first", json!(true))).unwrap();
        let fifo = applied::<Shop>();
        let source = KubeListerWatcher::new::<Shop>(server.client(), &api, None);
        let mut errors = run(source, &fifo, |builder| builder.watch_list(watch_list));
        fifo.wait_for_sync_async().await.unwrap();
        assert!(
            errors
                .recv()
                .await
                .unwrap()
                .starts_with(r#"object "town/never" of version "2" cannot be decoded"#)
        );
        // Reported for an event, and then again for a relist.
        server.wait_for_watchers(1).await;
        server.apply(shop("first", json!("perhaps"))).unwrap();
        assert!(
            errors
                .recv()
                .await
                .unwrap()
                .starts_with(r#"object "town/first" of version "4" cannot be decoded"#)
        );
        server.error_watches(status::expired("too old"));
        for received in ["too old", "town/first", "town/never"] {
            let error = errors.recv().await.unwrap();
            assert!(error.contains(received), "{error}");
        }
        up_to_date(&server, &fifo, &resource).await;
        assert_eq!(fifo.store().list_keys(), ["town/first"]);
        assert!(fifo.store().get_by_key("town/first").unwrap().spec.open, "the last good one");
        let requests = server.requests();
        let lists =
            |request: &&Request| request.verb() == Verb::List || request.sends_initial_events();
        assert_eq!(requests.iter().filter(lists).count(), 2, "no further list");
        server.apply(shop("first", json!(false))).unwrap();
        up_to_date(&server, &fifo, &resource).await;
        assert!(!fifo.store().get_by_key("town/first").unwrap().spec.open);
    }
}

#[tokio::test(start_paused = true)]
async fn selector_is_part_of_every_request() {
    let (server, resource) = (server(), Resource::config_maps());
    server.apply(map("shop", "a", "1")).unwrap();
    server.apply(map("shop", "b", "2")).unwrap();
    let source =
        KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None).labels("data in (1,3)");
    let fifo = applied();
    let _errors = run(source, &fifo, |builder| builder.watch_list(false));
    fifo.wait_for_sync_async().await.unwrap();
    assert_eq!(stored(&fifo), ["shop/a=1"]);
    server.wait_for_watchers(1).await;
    server.apply(map("shop", "b", "3")).unwrap();
    server.apply(map("shop", "a", "2")).unwrap();
    up_to_date(&server, &fifo, &resource).await;
    assert_eq!(stored(&fifo), ["shop/b=3"], "objects that stopped matching are deleted");
}

#[tokio::test(start_paused = true)]
async fn repeated_selectors_are_combined() {
    let server = server();
    for (namespace, name, data) in
        [("shop", "a", "1"), ("shop", "b", "1"), ("shop", "c", "2"), ("bank", "a", "1")]
    {
        server.apply(map(namespace, name, data)).unwrap();
    }
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None)
        .labels("data in (1,3)")
        .fields("metadata.name=a")
        .labels_from(&Expression::NotEqual("data".into(), "3".into()).into())
        .fields("metadata.namespace=shop");
    let fifo = applied();
    let _errors = run(source, &fifo, |builder| builder);
    fifo.wait_for_sync_async().await.unwrap();
    assert_eq!(stored(&fifo), ["shop/a=1"]);
}

#[tokio::test(start_paused = true)]
async fn parameter_that_would_be_sent_twice_is_reported_and_not_sent() {
    let server = server();
    let added = [
        [("limit", "7")].as_slice(),
        &[("resourceVersion", "0")],
        &[("pretty", "true"), ("pretty", "false")],
    ];
    for parameters in added {
        let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let source =
            parameters.iter().fold(source, |source, (key, value)| source.query(*key, *value));
        let mut errors = run(source, &applied::<ConfigMap>(), |builder| builder);
        let error = errors.recv().await.unwrap();
        assert!(error.contains(parameters[0].0) && error.contains("remove"), "{error}");
    }
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

#[tokio::test(start_paused = true)]
async fn invalid_selector_is_reported_and_not_sent() {
    let server = server();
    let source = || KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let invalid = Expression::Exists("app web".into()).into();
    let sources = [
        (source().labels("app is web"), "app is web"),
        (source().labels_from(&invalid), "app web"),
        (source().fields("metadata.name"), "metadata.name"),
    ];
    for (source, selector) in sources {
        let mut errors = run(source, &applied::<ConfigMap>(), |builder| builder);
        let error = errors.recv().await.unwrap();
        assert!(error.contains(&format!("selector {selector:?} is invalid")), "{error}");
    }
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_act_as_one_source() {
    let server = server();
    for namespace in ["shop", "bank", "home"] {
        server.apply(map(namespace, "a", "1")).unwrap();
    }
    let part = |namespace: &str| -> Box<dyn ListerWatcher> {
        Box::new(KubeListerWatcher::new::<ConfigMap>(server.client(), &(), Some(namespace)))
    };
    for watch_list in [false, true] {
        let fifo = applied();
        let source = Merged::new(vec![part("shop"), part("home")]);
        let _errors = run(source, &fifo, |builder| builder.watch_list(watch_list));
        fifo.wait_for_sync_async().await.unwrap();
        assert_eq!(stored(&fifo), ["home/a=1", "shop/a=1"]);
    }
}
