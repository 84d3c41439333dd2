//! Tests of objects that a transformer or a key function refuses. The refusal is reported. A listed
//! object keeps its stored state, and a deleted one is deleted.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use deltafifo::{BoxError, DeltaFifo, InOrderFifo, Indexer, KeyFunc};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::error_chain;
use deltafifo_informer::lister_watcher::{EventType, Scripted};
use deltafifo_informer::reflector::{Reflector, Target};
use k8s_openapi::api::core::v1::ConfigMap;

use super::rig::{Queue, bookmark, event, expired, list, map, shown};

/// The lowest version that the transformer and the key function of these tests refuse. They accept
/// objects of a lower version.
const REFUSED: &str = "5";

fn refuses(map: &ConfigMap) -> bool {
    map.metadata.resource_version.as_deref() >= Some(REFUSED)
}

fn picky_keys() -> KeyFunc<ConfigMap, KubeMeta> {
    KeyFunc::custom(KubeMeta, |map: &ConfigMap| {
        if refuses(map) {
            Err("no key".into())
        } else {
            Ok(format!("#{}", map.metadata.name.as_deref().unwrap_or("")))
        }
    })
}

fn transform(map: Arc<ConfigMap>) -> Result<Arc<ConfigMap>, BoxError> {
    if refuses(&map) { Err("not like this".into()) } else { Ok(map) }
}

fn transforming() -> Arc<Queue> {
    let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
    Arc::new(DeltaFifo::over(store).transformer(transform).build())
}

fn keyed() -> Arc<Queue> {
    Arc::new(DeltaFifo::over(Indexer::builder(picky_keys()).build().unwrap()).build())
}

/// Runs a reflector into `target` until `times` requests were made, while `apply` takes the items.
/// Returns the errors, except those of ended watches.
async fn feed(
    target: Arc<impl Target<ConfigMap>>,
    script: Scripted,
    streams: bool,
    times: usize,
    apply: impl Future<Output = Infallible>,
) -> Vec<String> {
    let (script, (errors, failed)) = (Arc::new(script), std::sync::mpsc::channel());
    let reflector = Reflector::builder(script.clone(), target)
        .watch_list(streams)
        .on_error(move |error| drop(errors.send(error_chain(error))))
        .build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        never = apply => match never {},
        () = script.wait_for_requests(times) => {}
    }
    failed.try_iter().filter(|error| !error.contains("410")).collect()
}

async fn apply(fifo: &Queue) -> Infallible {
    loop {
        fifo.pop_async().await.unwrap().apply(|_| ()).unwrap();
    }
}

/// Runs a reflector into `fifo`. Returns the objects that are stored at the end, and the errors.
async fn stored(
    fifo: Arc<Queue>,
    script: Scripted,
    streams: bool,
    times: usize,
) -> (Vec<String>, Vec<String>) {
    let failed = feed(fifo.clone(), script, streams, times, apply(&fifo)).await;
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    let mut stored: Vec<_> = fifo.store().list().iter().map(|map| shown(map)).collect();
    stored.sort();
    (stored, failed)
}

/// Returns a script that lists a, b and c, and whose watch then deletes a and changes b.
fn watched() -> Scripted {
    let changes = [
        event(EventType::Deleted, map("a", 5)),
        event(EventType::Modified, map("b", 6)),
        Err(expired()),
    ];
    Scripted::new().list(list(4, [map("a", 1), map("b", 1), map("c", 1)])).watch(changes)
}

/// Returns a script with a streamed list that contains, before it is complete, the deletion of a, a
/// change of b, and the deletion of c, which it has not listed.
fn streamed() -> Scripted {
    let listed = ["a", "b"].map(|name| event(EventType::Added, map(name, 1)));
    let changes = [
        event(EventType::Deleted, map("a", 5)),
        event(EventType::Modified, map("b", 6)),
        event(EventType::Deleted, map("c", 7)),
    ];
    Scripted::new()
        .watch(listed.into_iter().chain(changes).chain([bookmark(8, true), Err(expired())]))
}

#[tokio::test(start_paused = true)]
async fn deletion_within_a_relist_counts_although_its_object_is_refused() {
    let (kept, failed) = stored(transforming(), watched(), false, 3).await;
    assert_eq!(kept, ["b@1", "c@1"]);
    assert!(
        failed[0].contains(r#"key "a" at version "5""#) && failed[1].contains(r#"key "b""#),
        "{failed:?}"
    );
    assert_eq!(failed.len(), 2, "{failed:?}");

    let (kept, failed) = stored(transforming(), streamed(), true, 2).await;
    assert_eq!(kept, ["b@1"]);
    assert!(
        failed[0].contains(r#"key "a" at version "5""#) && failed[1].contains(r#"key "b""#),
        "{failed:?}"
    );
    assert_eq!(failed.len(), 2, "the list continues and is not requested again: {failed:?}");
}

#[tokio::test(start_paused = true)]
async fn deletion_whose_object_has_no_key_is_found_by_its_name() {
    let (kept, failed) = stored(keyed(), watched(), false, 3).await;
    assert_eq!(kept, ["b@1", "c@1"]);
    assert!(failed.len() == 2 && failed.iter().all(|error| error.contains("no key")), "{failed:?}");

    let (kept, failed) = stored(keyed(), streamed(), true, 2).await;
    assert_eq!(kept, ["b@1"]);
    assert!(failed.len() == 3 && failed.iter().all(|error| error.contains("no key")), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn listed_object_without_a_key_is_not_deleted() {
    let script = || {
        Scripted::new()
            .list(list(4, [map("a", 1), map("b", 1), map("c", 1)]))
            .watch([Err(expired())])
            .list(list(9, [map("a", 5), map("b", 2), map("new", 6)]))
    };
    let (kept, failed) = stored(keyed(), script(), false, 4).await;
    assert_eq!(kept, ["a@1", "b@2"]);
    assert!(failed.len() == 2 && failed.iter().all(|error| error.contains("no key")), "{failed:?}");

    let fifo = Arc::new(InOrderFifo::over(Indexer::builder(picky_keys()).build().unwrap()).build());
    let applied = async {
        loop {
            fifo.pop_async().await.unwrap().apply(|_, _| ()).unwrap();
        }
    };
    let failed = feed(fifo.clone(), script(), false, 4, applied).await;
    while let Some(mut turn) = fifo.try_pop() {
        turn.apply(|_, _| ()).unwrap();
    }
    let mut kept: Vec<_> = fifo.store().list().iter().map(|map| shown(map)).collect();
    kept.sort();
    assert_eq!(kept, ["a@1", "b@2"]);
    assert!(failed.len() == 2 && failed.iter().all(|error| error.contains("no key")), "{failed:?}");
}
