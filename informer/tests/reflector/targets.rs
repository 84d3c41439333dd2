//! Tests of targets other than a queue of deltas. They receive a relist as a whole.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use deltafifo::{Change, DeltaFifo, Event, InOrderFifo, Indexer, KeyFunc};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::error_chain;
use deltafifo_informer::lister_watcher::{EventType, RequestError, Scripted};
use deltafifo_informer::reflector::{Plain, Reflector, Target};
use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;

use super::rig::{
    bookmark, broken, event, expired, items, list, map, page, shown, shown_requests, too_large,
};

#[tokio::test(start_paused = true)]
async fn store_target_mirrors_the_server() {
    let store = Arc::new(
        Indexer::<ConfigMap, _>::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap(),
    );
    let script = Arc::new(
        Scripted::new()
            .list(list(4, [map("a", 1), map("b", 2), map("c", 3)]))
            .watch([
                event(EventType::Deleted, map("b", 5)),
                event(EventType::Added, map("d", 6)),
                Err(expired()),
            ])
            .list(list(9, [broken("a", 8), map("d", 9)])),
    );
    let target = Arc::new(Plain(store.clone()));
    let reflector = Reflector::builder(script.clone(), target).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.wait_for_requests(4) => {}
    }
    let mut stored: Vec<_> = store.reader().list_keys();
    stored.sort();
    assert_eq!(stored, ["a", "d"], "a cannot be read, and stays");
    let version = |key| store.reader().get_by_key(key).unwrap().metadata.resource_version.clone();
    assert_eq!((version("a").as_deref(), version("d").as_deref()), (Some("1"), Some("9")));
    assert_eq!(store.applied_version().as_deref(), Some("9"));
}

#[tokio::test(start_paused = true)]
async fn object_refused_by_a_stores_transformer_or_index_is_reported_and_kept() {
    let refuses =
        |name: &'static str| move |map: &ConfigMap| map.metadata.name.as_deref() == Some(name);
    let (is_a, is_b, is_first) = (refuses("a"), refuses("b"), Arc::new(AtomicBool::new(true)));
    let (first, for_index) = (is_first.clone(), is_first.clone());
    // Panics as a user's function does for unexpected data.
    let transform = move |map: Arc<ConfigMap>| {
        if is_a(&map) && !first.load(Ordering::SeqCst) { Err("no a".into()) } else { Ok(map) }
    };
    let index = move |map: &ConfigMap| {
        if is_b(map) && !for_index.load(Ordering::SeqCst) { Err("no b".into()) } else { Ok(vec![]) }
    };
    let keys = KeyFunc::meta_namespace(KubeMeta);
    let store = Indexer::<ConfigMap, _>::builder(keys)
        .transformer(transform)
        .index("picky", index)
        .build()
        .unwrap();
    let store = Arc::new(store);
    let script = Arc::new(
        Scripted::new()
            .list(list(4, [map("a", 1), map("b", 2), map("c", 3), map("d", 4)]))
            .watch_stream(
                stream::once(async move {
                    is_first.store(false, Ordering::SeqCst);
                    Err(expired())
                })
                .boxed(),
            )
            .list(list(9, [map("a", 5), map("b", 6), map("c", 7), map("new", 8)]))
            .watch([Err(expired())])
            .list(list(12, [map("a", 10), broken("b", 11), map("c", 7)])),
    );
    let (errors, failed) = std::sync::mpsc::channel();
    let reflector = Reflector::builder(script.clone(), Arc::new(Plain(store.clone())))
        .watch_list(false)
        .on_error(move |error| drop(errors.send(error_chain(error))))
        .build();
    let stored = || {
        let mut stored: Vec<_> = store.reader().list().iter().map(|map| shown(map)).collect();
        stored.sort();
        stored
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.wait_for_requests(4) => {}
    }
    assert_eq!(shown_requests(&script.requests())[3], r#"watch "9""#, "the watch follows");
    assert_eq!(stored(), ["a@1", "b@2", "c@7", "new@8"]);
    let failed = || failed.try_iter().filter(|error| !error.contains("410")).collect::<Vec<_>>();
    let received = failed();
    assert!(
        received[0].contains(r#""a" at version "5""#) && received[0].ends_with("no a"),
        "{received:?}"
    );
    assert!(
        received[1].contains(r#""b" at version "6""#) && received[1].ends_with("no b"),
        "{received:?}"
    );
    assert_eq!(received.len(), 2, "{received:?}");
    // An object that cannot be decoded is not passed to them again.
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.wait_for_requests(6) => {}
    }
    assert_eq!(stored(), ["a@1", "b@2", "c@7"]);
    let received = failed();
    assert!(
        received[0].contains(r#"object "b" of version "11""#)
            && received[1].contains(r#""a" at version "10""#),
        "{received:?}"
    );
    assert_eq!(received.len(), 2, "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn in_order_queue_gets_a_list_as_one_event() {
    let store =
        Indexer::<ConfigMap, _>::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
    let fifo = Arc::new(InOrderFifo::over(store).build());
    let script = Arc::new(
        Scripted::new()
            .list(list(4, [map("a", 1), map("b", 2)]))
            .watch_on([event(EventType::Added, map("c", 5))]),
    );
    let reflector = Reflector::builder(script.clone(), fifo.clone()).watch_list(false).build();
    let received = async {
        let mut received = Vec::new();
        while received.len() < 2 {
            let turn = fifo.pop_async().await.unwrap();
            received.push(match turn.event().expect("not yet applied") {
                Event::ReplacedAll(list) => format!("list of {}", list.iter().count()),
                Event::Delta { key, .. } => key.to_string(),
                _ => "something else".to_owned(),
            });
            turn.done();
        }
        received
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        received = received => assert_eq!(received, ["list of 2", "c"]),
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_is_found_under_another_kind_of_key() {
    let keys = || {
        KeyFunc::custom(KubeMeta, |map: &ConfigMap| {
            let name = map.metadata.name.as_deref().unwrap_or_default();
            Ok(format!("{}#{name}", map.metadata.namespace.as_deref().unwrap_or_default()))
        })
    };
    let script = || {
        let map = |namespace, name| {
            let metadata =
                serde_json::json!({ "namespace": namespace, "name": name, "resourceVersion": "1" });
            bytes::Bytes::from(serde_json::json!({ "metadata": metadata }).to_string())
        };
        let broken = |namespace, name| {
            let metadata =
                serde_json::json!({ "namespace": namespace, "name": name, "resourceVersion": "5" });
            bytes::Bytes::from(serde_json::json!({ "metadata": metadata, "data": 7 }).to_string())
        };
        Arc::new(
            Scripted::new()
                .list(list(4, [map("shop", "a"), map("bank", "a"), map("shop", "b")]))
                .watch([Err(expired())])
                .list(list(6, [broken("shop", "a"), broken("shop", "b")]))
                .watch([event(EventType::Deleted, broken("shop", "b"))]),
        )
    };
    let mut received = Vec::new();
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).build());
    let source = script();
    let reflector = Reflector::builder(source.clone(), fifo.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = async {
            while received.len() < 5 {
                let mut item = fifo.pop_async().await.unwrap();
                received.push(item.key().to_owned());
                item.apply(|_| ()).unwrap();
            }
        } => {}
    }
    assert_eq!(received, ["shop#a", "bank#a", "shop#b", "bank#a", "shop#b"]);
    assert_eq!(fifo.store().list_keys(), ["shop#a"]);

    let fifo = Arc::new(InOrderFifo::over(Indexer::builder(keys()).build().unwrap()).build());
    let source = script();
    let reflector = Reflector::builder(source.clone(), fifo.clone()).watch_list(false).build();
    let applied = async {
        for _ in 0..3 {
            fifo.pop_async().await.unwrap().apply(|_, _| ()).unwrap();
        }
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = applied => {}
    }
    assert_eq!(fifo.store().list_keys(), ["shop#a"]);
}

/// Runs a reflector into an in-order queue with the transformer `transform`. Returns the
/// notifications and the errors. The first relist is handled at once. All other events are handled
/// only after `times` requests were made.
async fn notifications_with_late_handling(
    script: Scripted,
    times: usize,
    transform: impl Fn(Arc<ConfigMap>) -> Result<Arc<ConfigMap>, deltafifo::BoxError>
    + Send
    + Sync
    + 'static,
) -> (Vec<String>, Vec<String>) {
    let store =
        Indexer::<ConfigMap, _>::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
    let fifo = Arc::new(InOrderFifo::over(store).transformer(transform).build());
    let script = Arc::new(script);
    let (errors, failed) = std::sync::mpsc::channel();
    let reflector = Reflector::builder(script.clone(), fifo.clone())
        .watch_list(false)
        .on_error(move |error| drop(errors.send(error_chain(error))))
        .build();
    let mut received = Vec::new();
    let mut sender = |key: &str, change: Change<'_, ConfigMap>| {
        received.push(match change {
            Change::Added { new, .. } => format!("Added {}", shown(new)),
            Change::Updated { old, new, .. } => format!("Updated {}>{}", shown(old), shown(new)),
            Change::Deleted { .. } => format!("Deleted {key}"),
        });
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = async {
            fifo.pop_async().await.unwrap().apply(&mut sender).unwrap();
            script.wait_for_requests(times).await;
        } => {}
    }
    fifo.close();
    while let Ok(mut turn) = fifo.pop_async().await {
        turn.apply(&mut sender).unwrap();
    }
    (received, failed.try_iter().filter(|error| !error.contains("410")).collect())
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_keeps_its_state_of_earlier_events_in_an_in_order_queue() {
    let script = Scripted::new()
        .list(list(4, [map("a", 3)]))
        .watch([
            event(EventType::Modified, map("a", 8)),
            event(EventType::Added, map("b", 9)),
            Err(expired()),
        ])
        .list(list(12, [broken("a", 11), broken("b", 12), map("c", 10)]));
    let (received, failed) = notifications_with_late_handling(script, 4, Ok).await;
    assert_eq!(received, ["Added a@3", "Updated a@3>a@8", "Added b@9", "Added c@10"]);
    assert_eq!(failed.len(), 2, "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn object_refused_by_a_transformer_stays_in_an_in_order_queue_and_is_transformed_once() {
    let script = Scripted::new()
        .list(list(4, [map("a", 3), map("b", 3), map("c", 3)]))
        .watch([Err(expired())])
        .list(list(12, [map("a", 9), map("b", 10), map("c", 3), map("new", 11)]));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let (received, failed) = notifications_with_late_handling(script, 4, move |map| {
        let is_first = counted.fetch_add(1, Ordering::SeqCst) < 3;
        if is_first || map.metadata.name.as_deref() == Some("c") {
            Ok(map)
        } else {
            Err("expected by this test".into())
        }
    })
    .await;
    assert_eq!(received, ["Added a@3", "Added b@3", "Added c@3", "Updated c@3>c@3"]);
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 7, "once an object");
}

#[tokio::test(start_paused = true)]
async fn object_deleted_within_a_streamed_list_is_not_listed() {
    let script = Scripted::new().watch_on([
        event(EventType::Added, map("a", 1)),
        event(EventType::Added, broken("b", 2)),
        event(EventType::Added, map("c", 3)),
        event(EventType::Deleted, map("a", 4)),
        event(EventType::Deleted, broken("b", 5)),
        event(EventType::Added, map("a", 6)),
        bookmark(7, true),
    ]);
    let store =
        Indexer::<ConfigMap, _>::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
    let fifo = Arc::new(InOrderFifo::over(store).build());
    let reflector = Reflector::builder(script, fifo.clone()).build();
    let listed = async {
        let turn = fifo.pop_async().await.unwrap();
        let Some(Event::ReplacedAll(list)) = turn.event() else { panic!("a list is first") };
        assert_eq!(list.kept().len(), 0);
        let listed = list.iter().map(|(_, map)| shown(map)).collect::<Vec<_>>();
        turn.done();
        listed
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        listed = listed => assert_eq!(listed, ["c@3", "a@6"]),
    }
}

/// Runs a reflector into `target`. The script is a fixed sequence of five stages, each a list and a
/// watch, some of whose objects are too large; only the first `stages` of them are used. Returns
/// the names and versions of the objects that `apply` then finds in the target's store.
async fn stored_after<T: Target<ConfigMap>>(
    target: T,
    apply: impl FnOnce(&T) -> Vec<Arc<ConfigMap>>,
    stages: usize,
) -> Vec<String> {
    let list = |version, large: Option<RequestError>, maps: Vec<Bytes>| {
        [page(version, None)].into_iter().chain(large.map(Err)).chain([items(maps)])
    };
    let lists = [
        list(4, None, vec![map("a", 1), map("b", 2), map("c", 3)]),
        list(9, Some(too_large(None, "a", 8)), vec![map("b", 2), map("d", 9)]),
        list(12, Some(too_large(None, "", 11)), vec![map("e", 10)]),
        list(14, None, vec![map("e", 10)]),
        list(20, None, vec![map("e", 10)]),
    ];
    let (modified, deleted) = (Some(EventType::Modified), Some(EventType::Deleted));
    let watches = [
        vec![too_large(modified, "b", 5), too_large(deleted, "c", 6)],
        vec![],
        vec![too_large(deleted, "", 13), too_large(modified, "", 13)],
        vec![],
        vec![],
    ];
    let mut script = Scripted::new();
    for (list, watch) in lists.into_iter().zip(watches).take(stages) {
        script = script.list(list).watch(watch.into_iter().chain([expired()]).map(Err));
    }
    let (script, target) = (Arc::new(script), Arc::new(target));
    let reflector = Reflector::builder(script.clone(), target.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        // Up to the next list, for which the script has no response.
        () = script.wait_for_requests(2 * stages + 1) => {}
    }
    let mut stored: Vec<_> = apply(&target).iter().map(|map| shown(map)).collect();
    stored.sort();
    stored
}

#[tokio::test(start_paused = true)]
async fn every_target_keeps_an_oversized_object_and_all_objects_if_it_has_no_name() {
    let expected: [&[&str]; 5] = [
        &["a@1", "b@2"],
        &["a@1", "b@2", "d@9"],
        &["a@1", "b@2", "d@9", "e@10"],
        &["a@1", "b@2", "d@9", "e@10"],
        &["e@10"],
    ];
    let store =
        || Indexer::<ConfigMap, _>::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
    for (before, expected) in expected.into_iter().enumerate() {
        let stages = before + 1;
        let plain = Plain(Arc::new(store()));
        assert_eq!(
            stored_after(plain, |plain| plain.0.reader().list(), stages).await,
            expected,
            "{stages}"
        );
        let apply = |fifo: &DeltaFifo<ConfigMap, _>| {
            while let Some(mut item) = fifo.try_pop() {
                item.apply(|_| ()).unwrap();
            }
            fifo.store().list()
        };
        assert_eq!(
            stored_after(DeltaFifo::over(store()).build(), apply, stages).await,
            expected,
            "{stages}"
        );
        let apply = |fifo: &InOrderFifo<ConfigMap, _>| {
            while let Some(mut turn) = fifo.try_pop() {
                turn.apply(|_, _| ()).unwrap();
            }
            fifo.store().list()
        };
        assert_eq!(
            stored_after(InOrderFifo::over(store()).build(), apply, stages).await,
            expected,
            "{stages}"
        );
    }
}
