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

/// The time between two polls for the end of a list, which no notification announces.
const POLL: Duration = Duration::from_millis(10);

/// The engine: a running informer.
pub(super) struct OursCache<K: Send + Sync + 'static>
where
    KubeMeta: Meta<K>,
{
    informer: SharedInformer<K>,
    access: Access<K>,
}

/// An informer that does not run yet, and the functions that read its objects.
pub(super) struct Informer<K: Send + Sync + 'static>
where
    KubeMeta: Meta<K>,
{
    builder: SharedInformerBuilder<K, KubeMeta>,
    access: Access<K>,
}

/// The functions with which the workload reads objects of one kind.
struct Access<K: Send + Sync + 'static>
where
    KubeMeta: Meta<K>,
{
    /// Reads a whole object. Returns whether it decodes.
    read: fn(&K) -> bool,
    read_header: fn(&K),
    /// Returns the number of background passes over all objects so far; `None` if the informer
    /// makes none.
    passes: fn(&SharedInformer<K>) -> Option<u64>,
    extra: fn(&SharedInformer<K>) -> Map<String, Value>,
}

impl Informer<Pod> {
    pub(super) fn typed(server: &ListServer) -> Self {
        let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
        let access = Access {
            read: |pod: &Pod| {
                black_box(pod);
                true
            },
            read_header: |pod: &Pod| {
                let metadata = &pod.metadata;
                let labels = metadata.labels.as_ref();
                black_box((&metadata.name, &metadata.uid, &metadata.resource_version));
                black_box(labels.and_then(|labels| labels.get("app")));
            },
            passes: |_| None,
            extra: |_| Map::new(),
        };
        let builder = SharedInformer::builder(source).reflector(|pods| pods.watch_list(false));
        Self { builder, access }
    }

    pub(super) fn without(server: &ListServer) -> Self {
        let Self { builder, access } = Self::typed(server);
        let builder = builder.reflector(|pods| pods.without(&["metadata", "managedFields"]));
        Self { builder, access }
    }
}

impl Informer<Compact<Pod>> {
    pub(super) fn compact(server: &ListServer, validate: bool) -> Self {
        let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
        let access = Access {
            read: |pod: &Compact<Pod>| black_box(pod.decode()).is_ok(),
            read_header: |pod: &Compact<Pod>| {
                black_box((pod.name(), pod.uid(), pod.resource_version()));
                black_box(pod.labels().find(|(key, _)| *key == "app"));
            },
            passes: |informer| Some(informer.compact_stats().passes),
            extra: stats,
        };
        let builder = SharedInformer::builder(source).reflector(move |pods| {
            pods.watch_list(false).compactor(Compactor::builder().validate(validate))
        });
        Self { builder, access }
    }
}

/// Returns the memory of the compact objects as the informer counts it, in bytes, and the number
/// of bases (the texts to which similar objects are stored as differences).
fn stats(informer: &SharedInformer<Compact<Pod>>) -> Map<String, Value> {
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

impl<K: Send + Sync + 'static> OursCache<K>
where
    KubeMeta: Meta<K>,
{
    /// Starts the informer in a task.
    pub(super) fn start(Informer { builder, access }: Informer<K>) -> Result<Self, ChildError> {
        let informer = builder.on_error(|error| eprintln!("{error}")).build()?;
        let running = informer.clone();
        tokio::spawn(async move { running.run().await });
        Ok(Self { informer, access })
    }
}

impl<K: Send + Sync + 'static> CacheEngine for OursCache<K>
where
    KubeMeta: Meta<K>,
{
    async fn listed(&self, list: u64) -> Result<(), ChildError> {
        self.informer.wait_for_sync().await?;
        let version = Some(list.to_string());
        while self.informer.last_sync_resource_version() != version
            || (self.access.passes)(&self.informer).is_some_and(|passes| passes < list)
        {
            sleep(POLL).await;
        }
        Ok(())
    }

    fn keys(&self) -> Vec<String> {
        self.informer.store().list_keys()
    }

    fn get(&self, key: &str) -> bool {
        self.informer.store().get_by_key(key).is_some_and(|object| (self.access.read)(&object))
    }

    fn get_header(&self, key: &str) -> bool {
        let object = self.informer.store().get_by_key(key);
        object.map(|object| (self.access.read_header)(&object)).is_some()
    }

    fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.informer.store().for_each(|object| digest.add(&KubeMeta, &**object));
        digest
    }

    fn extra(&self) -> Map<String, Value> {
        (self.access.extra)(&self.informer)
    }
}
