//! Other targets than a queue of deltas: they get a relist as a whole.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use deltafifo::{Change, DeltaFifo, Event, InOrderFifo, Indexer, KeyFunc};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::lister_watcher::{EventType, RequestError, Scripted};
use deltafifo_informer::reflector::{Plain, Reflector, Target};
use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;

use super::rig::{
    bookmark, broken, event, expired, items, list, map, page, shown, shown_asked, too_large,
};

#[tokio::test(start_paused = true)]
async fn a_store_is_kept_as_the_server_has_it() {
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
        () = script.asked_times(4) => {}
    }
    let mut stored: Vec<_> = store.reader().list_keys();
    stored.sort();
    assert_eq!(stored, ["a", "d"], "a cannot be read, and stays");
    let version = |key| store.reader().get_by_key(key).unwrap().metadata.resource_version.clone();
    assert_eq!((version("a").as_deref(), version("d").as_deref()), (Some("1"), Some("9")));
    assert_eq!(store.applied_version().as_deref(), Some("9"));
}

#[tokio::test(start_paused = true)]
async fn what_a_stores_transformer_or_index_refuses_is_told_of_and_neither_deleted_nor_listed_for_ever()
 {
    let refuses =
        |name: &'static str| move |map: &ConfigMap| map.metadata.name.as_deref() == Some(name);
    let (is_a, is_b, is_first) = (refuses("a"), refuses("b"), Arc::new(AtomicBool::new(true)));
    let (first, for_index) = (is_first.clone(), is_first.clone());
    // As when a user's function meets what it did not reckon with.
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
        .on_error(move |error| drop(errors.send(error.to_string())))
        .build();
    let stored = || {
        let mut stored: Vec<_> = store.reader().list().iter().map(|map| shown(map)).collect();
        stored.sort();
        stored
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.asked_times(4) => {}
    }
    assert_eq!(shown_asked(&script.asked())[3], r#"watch "9""#, "it goes on to watch");
    assert_eq!(stored(), ["a@1", "b@2", "c@7", "new@8"]);
    let failed = || failed.try_iter().filter(|error| !error.contains("410")).collect::<Vec<_>>();
    let told = failed();
    assert!(told[0].contains(r#""a" at version "5""#) && told[0].ends_with("no a"), "{told:?}");
    assert!(told[1].contains(r#""b" at version "6""#) && told[1].ends_with("no b"), "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
    // And what cannot be read is not shown to them again.
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.asked_times(6) => {}
    }
    assert_eq!(stored(), ["a@1", "b@2", "c@7"]);
    let told = failed();
    assert!(
        told[0].contains(r#"object "b" of version "11""#)
            && told[1].contains(r#""a" at version "10""#),
        "{told:?}"
    );
    assert_eq!(told.len(), 2, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_in_order_queue_gets_a_list_as_one_event() {
    let store =
        Indexer::<ConfigMap, _>::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
    let fifo = Arc::new(InOrderFifo::over(store).build());
    let script = Arc::new(
        Scripted::new()
            .list(list(4, [map("a", 1), map("b", 2)]))
            .watch_on([event(EventType::Added, map("c", 5))]),
    );
    let reflector = Reflector::builder(script.clone(), fifo.clone()).watch_list(false).build();
    let told = async {
        let mut told = Vec::new();
        while told.len() < 2 {
            let turn = fifo.pop_async().await.unwrap();
            told.push(match turn.event().expect("it was not applied yet") {
                Event::ReplacedAll(list) => format!("list of {}", list.iter().count()),
                Event::Delta { key, .. } => key.to_string(),
                _ => "something else".to_owned(),
            });
            turn.done();
        }
        told
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        told = told => assert_eq!(told, ["list of 2", "c"]),
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_found_under_a_key_of_another_kind() {
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
    let mut told = Vec::new();
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).build());
    let source = script();
    let reflector = Reflector::builder(source.clone(), fifo.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = async {
            while told.len() < 5 {
                let mut item = fifo.pop_async().await.unwrap();
                told.push(item.key().to_owned());
                item.apply(|_| ()).unwrap();
            }
        } => {}
    }
    assert_eq!(told, ["shop#a", "bank#a", "shop#b", "bank#a", "shop#b"]);
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

/// What an in-order queue that `transform`s tells, when only the first relist is handled before
/// the source was asked so often, and the rest after that.
async fn told_late(
    script: Scripted,
    asked: usize,
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
        .on_error(move |error| drop(errors.send(error.to_string())))
        .build();
    let mut told = Vec::new();
    let mut tell = |key: &str, change: Change<'_, ConfigMap>| {
        told.push(match change {
            Change::Added { new, .. } => format!("Added {}", shown(new)),
            Change::Updated { old, new, .. } => format!("Updated {}>{}", shown(old), shown(new)),
            Change::Deleted { .. } => format!("Deleted {key}"),
        });
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = async {
            fifo.pop_async().await.unwrap().apply(&mut tell).unwrap();
            script.asked_times(asked).await;
        } => {}
    }
    fifo.close();
    while let Ok(mut turn) = fifo.pop_async().await {
        turn.apply(&mut tell).unwrap();
    }
    (told, failed.try_iter().filter(|error| !error.contains("410")).collect())
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_stays_in_an_in_order_queue_as_the_events_before_it_leave_it() {
    let script = Scripted::new()
        .list(list(4, [map("a", 3)]))
        .watch([
            event(EventType::Modified, map("a", 8)),
            event(EventType::Added, map("b", 9)),
            Err(expired()),
        ])
        .list(list(12, [broken("a", 11), broken("b", 12), map("c", 10)]));
    let (told, failed) = told_late(script, 4, Ok).await;
    assert_eq!(told, ["Added a@3", "Updated a@3>a@8", "Added b@9", "Added c@10"]);
    assert_eq!(failed.len(), 2, "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_transformer_refuses_stays_in_an_in_order_queue_and_is_not_transformed_again() {
    let script = Scripted::new()
        .list(list(4, [map("a", 3), map("b", 3), map("c", 3)]))
        .watch([Err(expired())])
        .list(list(12, [map("a", 9), map("b", 10), map("c", 3), map("new", 11)]));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let (told, failed) = told_late(script, 4, move |map| {
        let is_first = counted.fetch_add(1, Ordering::SeqCst) < 3;
        if is_first || map.metadata.name.as_deref() == Some("c") {
            Ok(map)
        } else {
            Err("as told".into())
        }
    })
    .await;
    assert_eq!(told, ["Added a@3", "Added b@3", "Added c@3", "Updated c@3>c@3"]);
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 7, "once an object");
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_before_a_streamed_list_is_complete_is_not_listed() {
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
        let Some(Event::ReplacedAll(list)) = turn.event() else { panic!("a list comes first") };
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

/// What a target's store holds after so many of the lists and watches below.
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
        // To the next list, for which there is no answer.
        () = script.asked_times(2 * stages + 1) => {}
    }
    let mut stored: Vec<_> = apply(&target).iter().map(|map| shown(map)).collect();
    stored.sort();
    stored
}

#[tokio::test(start_paused = true)]
async fn object_that_is_too_large_is_kept_by_every_target_and_one_without_a_name_keeps_all() {
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
