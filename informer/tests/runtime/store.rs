//! Tests of a controller's store, with the methods of kube's store.

use deltafifo_informer::runtime::reflector::{ObjectRef, store::WriterDropped};
use kube::core::Selector;

use super::rig::{controller, map, name, poll_idle, server};

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
