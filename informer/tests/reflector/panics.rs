//! Tests of user functions that panic for one object: the panic is reported, and the other objects
//! are delivered.

use std::sync::Arc;

use bytes::Bytes;
use deltafifo::{
    DeltaFifo, DeltaObject, InOrderFifo, Indexer, KeyError, KeyFunc, Meta, ReflectorStore, Store,
    StoreError,
};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::error_chain;
use deltafifo_informer::lister_watcher::{EventType, Scripted};
use deltafifo_informer::reflector::{Plain, Reflector, Target};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};
use tokio::sync::mpsc;

use super::fragile::{Fragile, FragileMeta};
use super::rig::{
    bookmark, broken, cut, event, expired, items, list, map, page, shown, shown_requests,
};

/// An object whose decoder panics if the JSON has a field `data`.
#[derive(Clone, Deserialize)]
struct Touchy {
    metadata: ObjectMeta,
    #[serde(default, rename = "data")]
    _data: Untouched,
}

#[derive(Clone, Default)]
struct Untouched;

impl<'de> Deserialize<'de> for Untouched {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("no data here")
    }
}

struct Name;

impl Meta<Touchy> for Name {
    fn namespace<'a>(&self, _: &'a Touchy) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, touchy: &'a Touchy) -> Option<&'a str> {
        touchy.metadata.name.as_deref()
    }

    fn version<'a>(&self, touchy: &'a Touchy) -> Option<&'a str> {
        touchy.metadata.resource_version.as_deref()
    }
}

/// Runs a reflector into `target` until `times` requests were made. Returns the requests and the
/// errors.
async fn requests<K: Clone + for<'de> Deserialize<'de> + Send + Sync + 'static>(
    script: Scripted,
    target: Arc<impl Target<K>>,
    times: usize,
) -> (Vec<String>, Vec<String>) {
    let (script, (sender, mut received)) = (Arc::new(script), mpsc::unbounded_channel());
    let reflector = Reflector::builder(script.clone(), target)
        .on_error(move |e| drop(sender.send(error_chain(e))))
        .build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.wait_for_requests(times) => {}
    }
    drop(reflector);
    let mut errors = Vec::new();
    while let Some(error) = received.recv().await {
        errors.push(error);
    }
    (shown_requests(&script.requests()), errors)
}

#[tokio::test(start_paused = true)]
async fn decoder_panic_is_reported_and_its_object_neither_deleted_nor_relisted_endlessly() {
    let script = Scripted::new()
        .watch([
            event(EventType::Added, map("a", 1)),
            event(EventType::Added, map("b", 2)),
            event(EventType::Added, map("c", 3)),
            bookmark(4, true),
            Err(expired()),
        ])
        .watch([
            event(EventType::Added, broken("a", 5)),
            event(EventType::Added, map("b", 6)),
            event(EventType::Deleted, broken("c", 7)),
            bookmark(8, true),
            event(EventType::Modified, broken("b", 9)),
            event(EventType::Added, map("d", 10)),
            event(EventType::Added, map("e", 11)),
            event(EventType::Deleted, broken("e", 12)),
            bookmark(13, false),
        ]);
    let store = Indexer::builder(KeyFunc::meta_namespace(Name)).build().unwrap();
    let fifo = Arc::new(DeltaFifo::<Touchy, _>::over(store).build());
    let (requests, errors) = requests(script, fifo.clone(), 3).await;
    assert_eq!(requests, [r#"watch initial """#, r#"watch initial "4""#, r#"watch "13""#]);
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    let mut stored: Vec<_> =
        fifo.store().list().iter().map(|touchy| touchy.metadata.clone()).collect();
    stored.sort_by(|one, other| one.name.cmp(&other.name));
    let stored: Vec<_> = stored
        .iter()
        .map(|meta| (meta.name.as_deref(), meta.resource_version.as_deref()))
        .collect();
    assert_eq!(
        stored,
        [("a", "1"), ("b", "6"), ("d", "10")].map(|(name, version)| (Some(name), Some(version)))
    );
    for (name, version) in [("a", 5), ("c", 7), ("b", 9), ("e", 12)] {
        let of = format!("object {name:?} of version \"{version}\" cannot be decoded");
        let is_reported = |error: &String| {
            error.starts_with(&of) && error.ends_with("the decoder panicked: no data here")
        };
        assert_eq!(errors.iter().filter(|error| is_reported(error)).count(), 1, "{of}: {errors:?}");
    }
}

/// Returns a transformer that panics for the second version of object `b`.
fn transformer() -> impl Fn(Arc<ConfigMap>) -> Result<Arc<ConfigMap>, deltafifo::BoxError> {
    |map| {
        assert!(shown(&map) != "b@6", "no b");
        Ok(map)
    }
}

/// Runs a reflector into a target with the [`transformer`], and checks the requests and errors.
async fn over(target: Arc<impl Target<ConfigMap>>) {
    let script = Scripted::new()
        .watch([
            event(EventType::Added, map("a", 1)),
            event(EventType::Added, map("b", 2)),
            event(EventType::Added, map("c", 3)),
            bookmark(4, true),
            Err(expired()),
        ])
        .watch_fails(super::rig::status(500, "InternalError"))
        .list(list(9, [map("a", 5), map("b", 6), map("c", 7)]))
        .watch([event(EventType::Modified, map("b", 6)), event(EventType::Modified, map("c", 11))]);
    let (requests, errors) = requests(script, target, 5).await;
    assert_eq!(
        requests[2..],
        [r#"list "4" limit 0"#, r#"watch "9""#, r#"watch "11""#],
        "{errors:?}"
    );
    let is_reported = |error: &&String| {
        error.starts_with(r#"the transformer failed for key "b" at version "6""#)
            && error.ends_with("panicked: no b")
    };
    assert_eq!(
        errors.iter().filter(is_reported).count(),
        2,
        "of the list, and of the watch: {errors:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn transformer_panic_is_reported_and_its_object_neither_deleted_nor_relisted_endlessly() {
    let keys = || KeyFunc::meta_namespace(deltafifo_informer::KubeMeta);
    let stored = |store: &deltafifo::IndexReader<ConfigMap, _>| {
        let mut stored: Vec<_> = store.list().iter().map(|map| shown(map)).collect();
        stored.sort();
        assert_eq!(stored, ["a@5", "b@2", "c@11"]);
    };

    let fifo = Arc::new(
        DeltaFifo::over(Indexer::builder(keys()).build().unwrap())
            .transformer(transformer())
            .build(),
    );
    over(fifo.clone()).await;
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    stored(&fifo.store());

    let store = Indexer::builder(keys()).transformer(transformer()).build().unwrap();
    let fifo = Arc::new(InOrderFifo::over(store).build());
    over(fifo.clone()).await;
    while let Some(mut turn) = fifo.try_pop() {
        turn.apply(|_, _| ()).unwrap();
    }
    stored(&fifo.store());

    let store = Arc::new(Indexer::builder(keys()).transformer(transformer()).build().unwrap());
    over(Arc::new(Plain(store.clone()))).await;
    stored(&store.reader());
}

/// Returns an object that panics when it is dropped.
fn fragile(name: &str, version: u32) -> Bytes {
    let metadata = serde_json::json!({ "name": name, "resourceVersion": version.to_string() });
    serde_json::json!({ "metadata": metadata, "data": { "data": "breaks" } }).to_string().into()
}

#[tokio::test(start_paused = true)]
async fn abandoned_list_drops_its_objects_and_is_requested_again() {
    let store =
        Indexer::<Fragile, _>::builder(KeyFunc::meta_namespace(FragileMeta)).build().unwrap();
    let invalid = || super::rig::status(422, "Invalid");
    let script = Scripted::new()
        .watch_fails(invalid())
        .list_stream(cut([page(4, None), items([fragile("a", 1), fragile("b", 2)])]))
        .watch_fails(invalid())
        .list(list(5, []));
    let (requests, _) = requests(script, Arc::new(InOrderFifo::over(store).build()), 5).await;
    assert_eq!(requests[3..], [r#"list at least "4" limit 0"#, r#"watch "5""#]);
}

#[tokio::test(start_paused = true)]
async fn object_drop_panics_in_a_store_do_not_stop_a_list() {
    let store = Arc::new(
        Indexer::<Fragile, _>::builder(KeyFunc::meta_namespace(FragileMeta)).build().unwrap(),
    );
    let script = Scripted::new()
        .watch([
            event(EventType::Added, fragile("a", 1)),
            event(EventType::Added, fragile("b", 2)),
            event(EventType::Added, fragile("c", 3)),
            bookmark(4, true),
            Err(expired()),
        ])
        .watch([
            event(EventType::Added, fragile("c", 5)),
            bookmark(6, true),
            event(EventType::Deleted, fragile("c", 7)),
        ]);
    let (requests, errors) = requests(script, Arc::new(Plain(store.clone())), 3).await;
    assert_eq!(requests[1..], [r#"watch initial "4""#, r#"watch "7""#]);
    assert!(store.is_empty());
    let released = |key| format!("drop of the old object of key {key:?} panicked");
    for key in ["a", "b", "c"] {
        assert_eq!(
            errors.iter().filter(|error| error.starts_with(&released(key))).count(),
            1,
            "{key}: {errors:?}"
        );
    }
}

/// A user's store that panics when it is given a version.
struct Picky(Indexer<ConfigMap, KubeMeta>);

impl ReflectorStore<ConfigMap> for Picky {
    fn add(&self, object: Arc<ConfigMap>) -> Result<(), StoreError> {
        self.0.add(object)
    }

    fn update(&self, object: Arc<ConfigMap>) -> Result<(), StoreError> {
        self.0.update(object)
    }

    fn delete(&self, object: DeltaObject<ConfigMap>) -> Result<(), StoreError> {
        self.0.delete(&object)
    }

    fn replace(&self, list: Vec<Arc<ConfigMap>>, _version: &str) -> Result<(), StoreError> {
        self.0.replace(list)
    }

    fn bookmark(&self, version: &str) {
        assert_ne!(version, "5", "no fives");
    }

    fn resync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Store<ConfigMap> for Picky {
    fn list(&self) -> Vec<Arc<ConfigMap>> {
        self.0.reader().list()
    }

    fn list_keys(&self) -> Vec<String> {
        self.0.reader().list_keys()
    }

    fn get(&self, object: &ConfigMap) -> Result<Option<Arc<ConfigMap>>, KeyError> {
        self.0.reader().get(object)
    }

    fn get_by_key(&self, key: &str) -> Option<Arc<ConfigMap>> {
        self.0.reader().get_by_key(key)
    }
}

#[tokio::test(start_paused = true)]
async fn custom_store_that_panics_on_a_bookmark_is_reported_and_fed_further() {
    let store =
        Arc::new(Picky(Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap()));
    let script = Scripted::new().watch([
        event(EventType::Added, map("a", 1)),
        bookmark(4, true),
        bookmark(5, false),
        bookmark(6, false),
    ]);
    let (requests, errors) = requests(script, Arc::new(Plain(store)), 2).await;
    assert_eq!(requests[1], r#"watch "6""#);
    assert!(matches!(errors.as_slice(), [received] if received.contains("no fives")), "{errors:?}");
}
