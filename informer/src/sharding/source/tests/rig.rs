//! A rig: an informer of selected shards, and its server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo::Meta;
use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, Request, Resource, ShardSelectors, Verb, WatchLists};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::KubeMeta;
use crate::lister_watcher::KubeListerWatcher;
use crate::reflector::Decodable;
use crate::sharding::ObjectId;
use crate::sharding::hash::ShardBy;
use crate::sharding::metrics::Metrics;
use crate::sharding::participants::Participants;
use crate::sharding::shards::{ShardCount, ShardSet};
use crate::sharding::source::Selection;
use crate::shared_informer::{
    Buffer, HandlerOptions, Notification, SharedInformer, SharedInformerBuilder, Subscription,
};

pub(super) const SERVERS: [ShardSelectors; 3] =
    [ShardSelectors::Ignored, ShardSelectors::Honoured, ShardSelectors::HonouredInLists];
pub(super) const PROPERTIES: [ShardBy; 3] = [ShardBy::Key, ShardBy::Uid, ShardBy::Namespace];
/// Longer than any backoff.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// An informer of selected shards of four, and its server.
pub(super) struct Rig {
    pub(super) server: ApiServer,
    pub(super) by: ShardBy,
    pub(super) selection: Selection,
    pub(super) informer: SharedInformer<ConfigMap>,
    pub(super) changes: Subscription<ConfigMap>,
    /// The number of objects that were decoded.
    pub(super) decoded: Arc<AtomicUsize>,
    pub(super) errors: Arc<Mutex<Vec<String>>>,
}

impl Selection {
    /// Replaces the selected shards. The future resolves when the selection is complete.
    pub(super) fn replace(
        &self,
        shards: ShardSet,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.change(|_| shards);
        self.filled()
    }
}

/// Returns the builder of an informer whose selection the test changes.
pub(super) fn selecting<K: Decodable>(
    selection: &Selection,
    source: KubeListerWatcher,
) -> SharedInformerBuilder<K, KubeMeta>
where
    KubeMeta: Meta<K>,
{
    let metrics = Arc::new(Metrics::of("shop", "counter"));
    SharedInformer::selecting(selection.clone(), source, Participants::default(), metrics)
}

pub(super) fn four() -> ShardCount {
    ShardCount::new(4).unwrap()
}

pub(super) fn set(shards: &[u8]) -> ShardSet {
    shards.iter().copied().collect()
}

/// Returns the shard of an object.
pub(super) fn shard_of(by: ShardBy, object: &Value) -> u8 {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let id = ObjectId { namespace: field("namespace"), name: field("name"), uid: field("uid") };
    by.shard_of(id, four()).unwrap()
}

pub(super) fn name_of(number: usize) -> (String, String) {
    // Their hashes are in all four shards.
    let namespace = ["shop", "kube-system", "mail", "foobar", "green"][number % 5];
    (namespace.to_owned(), format!("m{number}"))
}

impl Rig {
    /// Creates a server with `objects` objects, and an informer that runs.
    pub(super) fn new(by: ShardBy, shard_selectors: ShardSelectors, objects: usize) -> Self {
        let server = ApiServer::builder()
            .resource(Resource::config_maps())
            .shard_selectors(shard_selectors)
            .watch_lists(WatchLists::Served)
            .build();
        let (decoded, errors) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (counter, log) = (Arc::clone(&decoded), Arc::clone(&errors));
        let selection = Selection::new(by, four());
        let maps = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let informer = selecting(&selection, maps)
            // Each decoded object is transformed once.
            .transform(move |object| {
                counter.fetch_add(1, Ordering::Relaxed);
                Ok(object)
            })
            .on_error(move |error| log.lock().push(error.to_string()))
            .reflector(|reflector| reflector.page_size(7))
            .build()
            .unwrap();
        // The handler is notified of each change.
        let options = HandlerOptions::new().buffer(Buffer::HoldBack(100_000));
        let changes = informer.subscribe(options).unwrap();
        let rig = Self { server, by, selection, informer, changes, decoded, errors };
        for number in 0..objects {
            rig.apply(number);
        }
        rig
    }

    pub(super) fn run(&self) {
        let informer = self.informer.clone();
        tokio::spawn(async move { informer.run().await });
    }

    /// Creates a running informer.
    pub(super) fn running(by: ShardBy, shard_selectors: ShardSelectors, objects: usize) -> Self {
        let rig = Self::new(by, shard_selectors, objects);
        rig.run();
        rig
    }

    /// Creates or changes an object. Returns its version.
    pub(super) fn apply(&self, number: usize) -> u64 {
        static VALUES: AtomicUsize = AtomicUsize::new(0);
        let value = VALUES.fetch_add(1, Ordering::Relaxed).to_string();
        let (namespace, name) = name_of(number);
        let metadata = json!({ "namespace": namespace, "name": name });
        let data = json!({ "value": value });
        self.server
            .apply(json!({
                "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data
            }))
            .unwrap()
    }

    pub(super) fn delete(&self, number: usize) -> u64 {
        let (namespace, name) = name_of(number);
        self.server.delete(&Resource::config_maps(), &namespace, &name).unwrap()
    }

    pub(super) fn object(&self, number: usize) -> Option<Value> {
        let (namespace, name) = name_of(number);
        self.server.get(&Resource::config_maps(), &namespace, &name)
    }

    /// Returns the numbers of the server's first 200 objects that are in these shards.
    pub(super) fn in_shards(&self, shards: &[u8]) -> Vec<usize> {
        let is_in = |number: &usize| {
            self.object(*number).is_some_and(|object| shards.contains(&shard_of(self.by, &object)))
        };
        (0..200).filter(is_in).collect()
    }

    pub(super) async fn select(&self, shards: &[u8]) {
        let selected = self.selection.replace(set(shards));
        timeout(LONG, selected).await.expect("the selection is complete");
    }

    /// Asserts that the store has exactly the objects of these shards, in their newest versions.
    pub(super) fn assert_contents(&self, shards: &[u8]) {
        let of = |object: &Value| {
            let field = |name: &str| object["metadata"][name].as_str().unwrap().to_owned();
            (format!("{}/{}", field("namespace"), field("name")), field("resourceVersion"))
        };
        let expected: BTreeSet<_> =
            self.in_shards(shards).into_iter().map(|n| of(&self.object(n).unwrap())).collect();
        let mut found = BTreeSet::new();
        self.informer.store().for_each(|map| {
            found.insert(of(&serde_json::to_value(&**map).unwrap()));
        });
        assert_eq!(found, expected, "{:?}, shards {shards:?}", self.by);
    }

    /// Waits until the store has everything up to `version`.
    pub(super) async fn applied(&self, version: u64) {
        self.server.wait_for_watchers(1).await;
        self.server.bookmark(&Resource::config_maps());
        let version = version.to_string();
        let store = self.informer.store();
        let applied = timeout(LONG, store.wait_for_resource_version_async(&version)).await;
        applied.expect("the version is applied").unwrap();
    }

    /// Waits for an error. The next attempt follows much later.
    pub(super) async fn failed(&self) {
        let failed = async {
            while self.errors.lock().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, failed).await.expect("a request fails");
    }

    /// Drops the requests, notifications and counts so far.
    pub(super) fn forget(&mut self) {
        self.server.forget_requests();
        self.notified();
        self.decoded();
    }

    pub(super) fn decoded(&self) -> usize {
        self.decoded.swap(0, Ordering::Relaxed)
    }

    /// Returns the lists and watches since the last call.
    pub(super) fn requests(&self) -> (Vec<Request>, Vec<Request>) {
        let requests = self.server.requests();
        self.server.forget_requests();
        requests.into_iter().partition(|request| request.verb() == Verb::List)
    }

    /// Returns the notifications that are ready, in their [short form](brief).
    pub(super) fn notified(&mut self) -> Vec<String> {
        let mut notified = Vec::new();
        while let Some(Some(next)) = self.changes.next().now_or_never() {
            notified.push(brief(&next));
        }
        notified
    }
}

/// Returns the short form of a notification: `Relist +m1`, `Watch *m1`, `ShardMoved -m1`.
pub(super) fn brief(notification: &Notification<ConfigMap>) -> String {
    let (cause, sign, map) = match notification {
        Notification::Added { new, cause, .. } => (cause, '+', new),
        Notification::Updated { new, cause, .. } => (cause, '*', new),
        Notification::Deleted { old, cause, .. } => (cause, '-', old),
        Notification::ResyncBegins | Notification::ResyncEnds => panic!("no change was dropped"),
    };
    format!("{cause:?} {sign}{}", map.metadata.name.as_ref().unwrap())
}

pub(super) fn selector(request: &Request) -> Option<&str> {
    request.parameter("shardSelector")
}

/// Returns the notifications of objects with these numbers.
pub(super) fn all(change: &str, numbers: &[usize]) -> BTreeSet<String> {
    numbers.iter().map(|number| format!("{change}m{number}")).collect()
}

pub(super) fn sorted(changes: Vec<String>) -> BTreeSet<String> {
    let count = changes.len();
    let sorted: BTreeSet<_> = changes.into_iter().collect();
    assert_eq!(sorted.len(), count, "no change is notified twice");
    sorted
}
