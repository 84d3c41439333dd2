//! Tests of keys that are not names. If only the name of an object can be read, the reflector
//! searches the store for the object.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use deltafifo::{DeltaFifo, Indexer, KeyFunc, Meta};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::lister_watcher::{EventType, Scripted};
use deltafifo_informer::reflector::Reflector;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;

use super::rig::{bookmark, broken, event, expired, list, map};

#[tokio::test(start_paused = true)]
async fn undecodable_deletions_of_a_streamed_list_are_matched_once_at_its_end_under_other_keys() {
    let name = |number: u32| format!("a{number}");
    let added = |numbers: std::ops::Range<u32>| {
        numbers.map(move |number| event(EventType::Added, map(&name(number), 1)))
    };
    let gone = |numbers: std::ops::Range<u32>| {
        numbers.map(move |number| event(EventType::Deleted, broken(&name(number), 2)))
    };
    let unread = |number| event(EventType::Added, broken(&name(number), 3));
    let first = added(0..100).chain(gone(0..50)).chain(added(0..1)).chain([bookmark(100, true)]);
    let again = [unread(76), unread(0)].into_iter().chain(gone(0..1)).chain([bookmark(200, true)]);
    let second = added(50..100).chain(gone(50..77)).chain(again);
    let script =
        Scripted::new().watch_on(first.collect::<Vec<_>>()).watch_on(second.collect::<Vec<_>>());
    let noted = Noted::default();
    let keys = KeyFunc::custom(noted.clone(), |map: &ConfigMap| {
        Ok(format!("#{}", map.metadata.name.as_deref().unwrap_or_default()))
    });
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build());
    let reflector = Reflector::builder(script, fifo.clone()).on_error(|_| ()).build();
    for (version, stored) in [("100", 51), ("200", 24)] {
        tokio::select! {
            ended = reflector.run() => panic!("{ended}"),
            () = async {
                while reflector.last_sync_resource_version().as_deref() != Some(version) {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        while let Some(mut item) = fifo.try_pop() {
            item.apply(|_| ()).unwrap();
        }
        assert_eq!(fifo.store().list_keys().len(), stored, "at {version}");
    }
    assert!(fifo.store().get_by_key("#a0").is_none(), "deleted after it was listed");
    assert!(fifo.store().get_by_key("#a76").is_some(), "listed after it was deleted");
    let calls = noted.0.lock().len();
    assert!((200..1000).contains(&calls), "one scan of all objects, not one per name: {calls}");
}

#[tokio::test(start_paused = true)]
async fn queued_undecodable_object_stays_under_other_keys() {
    let keys = KeyFunc::custom(KubeMeta, |map: &ConfigMap| {
        Ok(format!("#{}", map.metadata.name.as_deref().unwrap_or_default()))
    });
    let script = Arc::new(
        Scripted::new()
            .list(list(4, [map("a", 1), map("b", 2)]))
            .watch([event(EventType::Deleted, broken("b", 3)), Err(expired())])
            .list(list(9, [broken("a", 8)])),
    );
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build());
    let reflector =
        Reflector::builder(script.clone(), fifo.clone()).watch_list(false).on_error(|_| ()).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.wait_for_requests(4) => {}
    }
    let mut received = Vec::new();
    while let Some(mut item) = fifo.try_pop() {
        received.push(format!("{}: {}", item.key(), item.deltas().len()));
        item.apply(|_| ()).unwrap();
    }
    assert_eq!(received, ["#a: 1", "#b: 2"]);
    assert_eq!(fifo.store().list_keys(), ["#a"]);
}

/// A record of the threads on which names are read. If keys are not names, names are read only in
/// a search for an object by its name.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<ThreadId>>>);

impl Meta<ConfigMap> for Noted {
    fn namespace<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        map.metadata.namespace.as_deref()
    }

    fn name<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        self.0.lock().push(thread::current().id());
        map.metadata.name.as_deref()
    }
}

#[tokio::test(start_paused = true)]
async fn names_are_searched_once_per_relist_and_off_the_async_threads() {
    let (noted, names) = (Noted::default(), || (0..100).map(|number| format!("a{number}")));
    let script = Scripted::new()
        .list(list(4, names().map(|name| map(&name, 1))))
        .watch([Err(expired())])
        .list(list(6, names().map(|name| broken(&name, 5))))
        .watch([event(EventType::Deleted, broken("a7", 7))]);
    let script = Arc::new(script);
    let keys = KeyFunc::custom(noted.clone(), |map: &ConfigMap| {
        Ok(format!("#{}", map.metadata.name.as_deref().unwrap_or_default()))
    });
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build());
    let reflector =
        Reflector::builder(script.clone(), fifo.clone()).watch_list(false).on_error(|_| ()).build();
    let applied = async {
        for _ in 0..101 {
            fifo.pop_async().await.unwrap().apply(|_| ()).unwrap();
        }
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = applied => {}
    }
    assert_eq!(fifo.store().list_keys().len(), 99);
    let calls = std::mem::take(&mut *noted.0.lock());
    assert!(
        (200..1000).contains(&calls.len()),
        "one scan of all objects, not one per name: {}",
        calls.len()
    );
    assert!(!calls.contains(&thread::current().id()));
}
