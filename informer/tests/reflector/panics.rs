//! Functions of users that panic over one object: it is told of, and the rest goes on.

use std::sync::Arc;

use deltafifo::{DeltaFifo, InOrderFifo, Indexer, KeyFunc, Meta};
use deltafifo_informer::lister_watcher::{EventType, Scripted};
use deltafifo_informer::reflector::{Plain, Reflector, Target};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};
use tokio::sync::mpsc;

use super::rig::{bookmark, broken, event, expired, list, map, shown, shown_asked};

/// An object whose decoder panics over data.
#[derive(Deserialize)]
struct Touchy {
    metadata: ObjectMeta,
    #[serde(default, rename = "data")]
    _data: Untouched,
}

#[derive(Default)]
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

/// Runs a reflector into `target` until so many requests were made: these, and the errors.
async fn asked<K: for<'de> Deserialize<'de> + Send + Sync + 'static>(
    script: Scripted,
    target: Arc<impl Target<K>>,
    times: usize,
) -> (Vec<String>, Vec<String>) {
    let (script, (tell, mut told)) = (Arc::new(script), mpsc::unbounded_channel());
    let reflector =
        Reflector::builder(script.clone(), target).on_error(move |e| drop(tell.send(e.to_string()))).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.asked_times(times) => {}
    }
    drop(reflector);
    let mut errors = Vec::new();
    while let Some(error) = told.recv().await {
        errors.push(error);
    }
    (shown_asked(&script.asked()), errors)
}

#[tokio::test(start_paused = true)]
async fn an_object_over_which_its_decoder_panics_is_told_of_and_neither_deleted_nor_listed_for_ever() {
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
    let (asked, errors) = asked(script, fifo.clone(), 3).await;
    assert_eq!(asked, [r#"watch initial """#, r#"watch initial "4""#, r#"watch "13""#]);
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    let mut stored: Vec<_> = fifo.store().list().iter().map(|touchy| touchy.metadata.clone()).collect();
    stored.sort_by(|one, other| one.name.cmp(&other.name));
    let stored: Vec<_> = stored.iter().map(|meta| (meta.name.as_deref(), meta.resource_version.as_deref())).collect();
    assert_eq!(stored, [("a", "1"), ("b", "6"), ("d", "10")].map(|(name, version)| (Some(name), Some(version))));
    for (name, version) in [("a", 5), ("c", 7), ("b", 9), ("e", 12)] {
        let of = format!("object {name:?} of version \"{version}\" cannot be read");
        let is_told = |error: &String| error.starts_with(&of) && error.ends_with("the decoder panicked: no data here");
        assert_eq!(errors.iter().filter(|error| is_told(error)).count(), 1, "{of}: {errors:?}");
    }
}

/// A transformer that panics over the second version of `b`.
fn transformer() -> impl Fn(Arc<ConfigMap>) -> Result<Arc<ConfigMap>, deltafifo::BoxError> {
    |map| {
        assert!(shown(&map) != "b@6", "no b");
        Ok(map)
    }
}

/// What is asked of, and told by, a reflector whose target has that transformer.
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
    let (asked, errors) = asked(script, target, 5).await;
    assert_eq!(asked[2..], [r#"list "4" limit 0"#, r#"watch "9""#, r#"watch "11""#], "{errors:?}");
    let is_told = |error: &&String| {
        error.starts_with(r#"the transformer failed for key "b" at version "6""#)
            && error.ends_with("it panicked: no b")
    };
    assert_eq!(errors.iter().filter(is_told).count(), 2, "of the list, and of the watch: {errors:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_over_which_a_transformer_panics_is_told_of_and_neither_deleted_nor_listed_for_ever() {
    let keys = || KeyFunc::meta_namespace(deltafifo_informer::KubeMeta);
    let stored = |store: &deltafifo::IndexReader<ConfigMap, _>| {
        let mut stored: Vec<_> = store.list().iter().map(|map| shown(map)).collect();
        stored.sort();
        assert_eq!(stored, ["a@5", "b@2", "c@11"]);
    };

    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).transformer(transformer()).build());
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
