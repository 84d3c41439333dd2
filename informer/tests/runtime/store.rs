//! Tests of a controller's store, with the methods of kube's store.

use deltafifo::{IndexError, Indexers};
use deltafifo_informer::runtime::Controller;
use deltafifo_informer::runtime::reflector::{ObjectRef, store::WriterDropped};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, SharedInformer};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{Expression, Selector};

use super::rig::{Stored, controller, map, name, poll_idle, server};
use super::without::Without;

#[tokio::test(start_paused = true)]
async fn store_has_the_methods_of_kube() {
    let server = server();
    for number in ["1", "2"] {
        let mut map = map(number, number);
        map["metadata"]["labels"] = serde_json::json!({ "number": number });
        server.apply(map).unwrap();
    }
    let controller = controller(&server);
    let store = controller.store();
    assert!(store.is_empty());
    let _polled = poll_idle(controller);
    // Any number of tasks may wait; kube's store wakes only one.
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.wait_until_ready().await })
        })
        .collect();
    for waits in waiting {
        waits.await.unwrap().unwrap();
    }
    assert_eq!(store.len(), 2);
    assert!(store.get(&ObjectRef::new("1").within("shop")).is_some());
    assert!(store.get(&ObjectRef::new("1").within("other")).is_none());
    assert!(store.get(&ObjectRef::new("1")).is_none(), "the object has a namespace");
    let names = |mut maps: Vec<std::sync::Arc<_>>| {
        maps.sort_by_key(|map| name(map));
        maps.iter().map(|map| name(map)).collect::<Vec<_>>()
    };
    assert_eq!(names(store.state()), ["1", "2"]);
    assert_eq!(names(store.state_filter(|map| name(map) != "1")), ["2"]);
    assert_eq!(store.find(|map| name(map) == "2").map(|map| name(&map)).as_deref(), Some("2"));
    let selector: Selector = [("number".to_owned(), "1".to_owned())].into_iter().collect();
    assert_eq!(names(store.state_filter_selector(&selector)), ["1"]);
    assert_eq!(store.reader().by_index("namespace", "shop").unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_store_of_a_dropped_controller_fails() {
    let controller = controller(&server());
    let store = controller.store();
    drop(controller);
    assert_eq!(store.wait_until_ready().await, Err(WriterDropped));
}

#[tokio::test(start_paused = true)]
async fn selector_of_kube_uses_the_index_of_a_required_label() {
    use Expression::{DoesNotExist, Equal, In, NotEqual};
    let server = server();
    for (name, app) in [("a", "web"), ("b", "till"), ("c", "mail"), ("hidden", "web")] {
        let mut map = map(name, "1");
        map["metadata"]["labels"] = serde_json::json!({ "app": app, "tier": name });
        server.apply(map).unwrap();
    }
    let controller = controller(&server);
    let store = controller.store();
    let _polled = poll_idle(controller);
    store.wait_until_ready().await.unwrap();
    let select = |expressions: &[Expression]| {
        let selector: Selector = expressions.iter().cloned().collect();
        let mut names: Vec<_> =
            store.state_filter_selector(&selector).iter().map(|map| name(map)).collect();
        names.sort();
        names.join(" ")
    };
    let key = || "app".to_owned();
    let among = |values: &[&str]| In(key(), values.iter().map(|&value| value.to_owned()).collect());
    let equal = |value: &str| Equal(key(), value.to_owned());
    let not_a = || NotEqual("tier".to_owned(), "a".to_owned());
    // Each selector with the answers of a scan and of the index.
    let cases = [
        (vec![equal("web")], "a hidden", "a"),
        (vec![equal("web"), not_a()], "hidden", ""),
        (vec![among(&["web", "till"]), not_a()], "b hidden", "b"),
        (vec![among(&["web", "till"]), equal("till")], "b", "b"),
        (vec![among(&["mail", ""])], "c", "c"),
        (vec![among(&[])], "", ""),
        (vec![equal("")], "", ""),
        (vec![], "a b c hidden", "a b c hidden"),
        (vec![NotEqual(key(), "web".to_owned())], "b c", "b c"),
        (vec![DoesNotExist("none".to_owned())], "a b c hidden", "a b c hidden"),
        // Values that a label cannot have. As text they would be other requirements.
        (vec![equal("web,tier=b")], "", ""),
        (vec![among(&["web),tier in (b", "till"])], "b", "b"),
        (vec![equal("web"), NotEqual(key(), "web,tier=b".to_owned())], "a hidden", "a"),
    ];
    for (selector, scanned, _) in &cases {
        assert_eq!(select(selector), *scanned, "{selector:?}");
    }
    store.reader().add_indexers(Indexers::new().label(Without("hidden"), "app")).unwrap();
    for (selector, _, indexed) in &cases {
        assert_eq!(select(selector), *indexed, "{selector:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn store_finds_objects_by_an_indexed_field() {
    let server = server();
    for (name, data) in [("a", "x"), ("b", "y")] {
        server.apply(map(name, data)).unwrap();
    }
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let informer = SharedInformer::<Stored>::builder(source).field("/data/data").build().unwrap();
    let store = Controller::from_informer(&informer).store();
    tokio::spawn(async move { informer.run().await });
    store.wait_until_ready().await.unwrap();
    let store = store.reader();
    assert_eq!(store.index_keys("field:/data/data", "y").unwrap(), ["shop/b"]);
    let invalid = store.add_indexers(Indexers::new().field(KubeMeta, "data/data"));
    assert!(matches!(invalid, Err(IndexError::Build { .. })));
}
