//! The engine of this project's shared informer, of typed or of compact objects.

use std::hint::black_box;
use std::time::Duration;

use deltafifo::Meta;
use deltafifo_informer::compact::{Compact, Compactor};
use deltafifo_informer::shared_informer::SharedInformerBuilder;
use deltafifo_informer::{KubeListerWatcher, KubeMeta, SharedInformer};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value};
use tokio::time::sleep;

use super::server::ListServer;
use super::{CacheEngine, ChildError};
use crate::digest::Digest;

/// The time between two polls for the end of a background pass, which no notification announces.
const POLL: Duration = Duration::from_millis(10);

/// An object of the informer, as the workload reads it.
pub(super) trait CachedObject: Send + Sync + Sized + 'static
where
    KubeMeta: Meta<Self>,
{
    /// Reads the whole object. Returns whether it decodes.
    fn read(&self) -> bool;

    fn read_header(&self);

    /// Returns the number of background passes over all objects so far; `None` if the informer
    /// makes none.
    fn passes(_informer: &SharedInformer<Self>) -> Option<u64> {
        None
    }

    fn extra(_informer: &SharedInformer<Self>) -> Map<String, Value> {
        Map::new()
    }
}

impl CachedObject for Pod {
    fn read(&self) -> bool {
        black_box(self);
        true
    }

    fn read_header(&self) {
        let (metadata, labels) = (&self.metadata, self.metadata.labels.as_ref());
        black_box((&metadata.name, &metadata.uid, &metadata.resource_version));
        black_box(labels.and_then(|labels| labels.get("app")));
    }
}

impl CachedObject for Compact<Pod> {
    fn read(&self) -> bool {
        black_box(self.decode()).is_ok()
    }

    fn read_header(&self) {
        black_box((self.name(), self.uid(), self.resource_version()));
        black_box(self.labels().find(|(key, _)| *key == "app"));
    }

    fn passes(informer: &SharedInformer<Self>) -> Option<u64> {
        Some(informer.compact_stats().passes)
    }

    /// Returns the memory of the compact objects as the informer counts it, in bytes, and the
    /// number of bases (the texts to which similar objects are stored as differences).
    fn extra(informer: &SharedInformer<Self>) -> Map<String, Value> {
        let stats = informer.compact_stats();
        let figures = [
            ("compact_bytes", stats.bytes),
            ("raw_bytes", stats.raw_bytes),
            ("bases", stats.bases),
            ("base_bytes", stats.base_bytes),
            ("unpacked_base_bytes", stats.unpacked_base_bytes),
            ("dictionary_bytes", stats.dictionary_bytes),
        ];
        figures.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }
}

/// Returns an informer of typed pods, which does not run yet.
pub(super) fn typed(server: &ListServer) -> SharedInformerBuilder<Pod, KubeMeta> {
    let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
    SharedInformer::builder(source).reflector(|pods| pods.watch_list(false))
}

/// Returns an informer of typed pods without managed fields.
pub(super) fn without(server: &ListServer) -> SharedInformerBuilder<Pod, KubeMeta> {
    typed(server).reflector(|pods| pods.without(&["metadata", "managedFields"]))
}

/// Returns an informer of compact pods.
pub(super) fn compact(
    server: &ListServer,
    validate: bool,
) -> SharedInformerBuilder<Compact<Pod>, KubeMeta> {
    let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
    SharedInformer::builder(source).reflector(move |pods| {
        pods.watch_list(false).compactor(Compactor::builder().validate(validate))
    })
}

/// The engine: a running informer.
pub(super) struct OursCache<K: CachedObject>(SharedInformer<K>)
where
    KubeMeta: Meta<K>;

impl<K: CachedObject> OursCache<K>
where
    KubeMeta: Meta<K>,
{
    /// Starts the informer in a task.
    pub(super) fn start(builder: SharedInformerBuilder<K, KubeMeta>) -> Result<Self, ChildError> {
        let informer = builder.on_error(|error| eprintln!("{error}")).build()?;
        let running = informer.clone();
        tokio::spawn(async move { running.run().await });
        Ok(Self(informer))
    }
}

impl<K: CachedObject> CacheEngine for OursCache<K>
where
    KubeMeta: Meta<K>,
{
    async fn listed(&self, list: u64) -> Result<(), ChildError> {
        // `last_sync_resource_version` is not enough: the changes up to it may still be queued.
        self.0.store().wait_for_resource_version_async(&list.to_string()).await?;
        while K::passes(&self.0).is_some_and(|passes| passes < list) {
            sleep(POLL).await;
        }
        Ok(())
    }

    fn keys(&self) -> Vec<String> {
        self.0.store().list_keys()
    }

    fn get(&self, key: &str) -> bool {
        self.0.store().get_by_key(key).is_some_and(|object| object.read())
    }

    fn get_header(&self, key: &str) -> bool {
        self.0.store().get_by_key(key).map(|object| object.read_header()).is_some()
    }

    fn digest(&self) -> Digest {
        Digest::of(&KubeMeta, self.0.store().list())
    }

    fn extra(&self) -> Map<String, Value> {
        K::extra(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use deltafifo::locks::Mutex;
    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_list_is_complete_when_its_objects_are_in_the_store() {
        let directory = tempfile::tempdir().unwrap();
        let lists = ["1", "2"].map(|version| {
            let metadata = json!({ "name": "a", "namespace": "b", "resourceVersion": version });
            let list = json!({
                "metadata": { "resourceVersion": version },
                "items": [{ "metadata": metadata }],
            });
            let path = directory.path().join(version);
            fs::write(&path, list.to_string()).unwrap();
            path
        });
        let server = ListServer::new(lists);
        // The index function runs while a change is applied. It blocks at the second list.
        let (entered, entries) = mpsc::channel();
        let (leave, leaves) = mpsc::channel::<()>();
        let leaves = Mutex::new(leaves);
        let blocking = move |pod: &Pod| {
            if pod.metadata.resource_version.as_deref() == Some("2") {
                let _ = entered.send(());
                let _ = leaves.lock().recv();
            }
            Ok(Vec::new())
        };
        let engine = OursCache::start(typed(&server).index("blocking", blocking)).unwrap();
        engine.listed(1).await.unwrap();
        server.relist();
        entries.recv().unwrap();
        while engine.0.last_sync_resource_version().as_deref() != Some("2") {
            tokio::task::yield_now().await;
        }
        assert!(engine.listed(2).now_or_never().is_none(), "the change is not applied yet");
        drop(leave);
        engine.listed(2).await.unwrap();
        let stored = engine.0.store().get_by_key("b/a").unwrap();
        assert_eq!(KubeMeta.version(&*stored), Some("2"));
    }
}
