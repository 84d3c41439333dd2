//! Tests of informers of selected shards, over servers that shard, that do not, and that shard
//! lists only.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_testkit::{
    After, ApiServer, Fault, Request, Resource, ShardSelectors, Verb, WatchLists, status,
};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Selection;
use crate::lister_watcher::KubeListerWatcher;
use crate::sharding::ObjectId;
use crate::sharding::hash::ShardBy;
use crate::sharding::shards::{ShardCount, ShardSet};
use crate::shared_informer::{
    Buffer, BuildError, Cause, HandlerOptions, Notification, SharedInformer, Subscription,
};

const SERVERS: [ShardSelectors; 3] =
    [ShardSelectors::Ignored, ShardSelectors::Honoured, ShardSelectors::HonouredInLists];
const PROPERTIES: [ShardBy; 3] = [ShardBy::Key, ShardBy::Uid, ShardBy::Namespace];
/// Longer than any backoff.
const LONG: Duration = Duration::from_secs(600);

/// An informer of selected shards of four, and its server.
struct Rig {
    server: ApiServer,
    by: ShardBy,
    selection: Selection,
    informer: SharedInformer<ConfigMap>,
    changes: Subscription<ConfigMap>,
    /// The number of objects that were decoded.
    decoded: Arc<AtomicUsize>,
    errors: Arc<Mutex<Vec<String>>>,
}

fn four() -> ShardCount {
    ShardCount::new(4).unwrap()
}

fn set(shards: &[u8]) -> ShardSet {
    shards.iter().copied().collect()
}

/// Returns the shard of an object.
fn shard_of(by: ShardBy, object: &Value) -> u8 {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let id = ObjectId { namespace: field("namespace"), name: field("name"), uid: field("uid") };
    by.shard_of(id, four())
}

fn name_of(number: usize) -> (String, String) {
    // Their hashes are in all four shards.
    let namespace = ["shop", "kube-system", "mail", "foobar", "green"][number % 5];
    (namespace.to_owned(), format!("m{number}"))
}

impl Rig {
    /// Creates a server with `objects` objects, and an informer that runs.
    fn new(by: ShardBy, shard_selectors: ShardSelectors, objects: usize) -> Self {
        let server = ApiServer::builder()
            .resource(Resource::config_maps())
            .shard_selectors(shard_selectors)
            .watch_lists(WatchLists::Served)
            .build();
        let (decoded, errors) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (counter, log) = (Arc::clone(&decoded), Arc::clone(&errors));
        let selection = Selection::new(by, four());
        let maps = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let informer = SharedInformer::<ConfigMap>::in_shards(&selection, maps)
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

    fn run(&self) {
        let informer = self.informer.clone();
        tokio::spawn(async move { informer.run().await });
    }

    /// Creates a running informer.
    fn running(by: ShardBy, shard_selectors: ShardSelectors, objects: usize) -> Self {
        let rig = Self::new(by, shard_selectors, objects);
        rig.run();
        rig
    }

    /// Creates or changes an object. Returns its version.
    fn apply(&self, number: usize) -> u64 {
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

    fn delete(&self, number: usize) -> u64 {
        let (namespace, name) = name_of(number);
        self.server.delete(&Resource::config_maps(), &namespace, &name).unwrap()
    }

    fn object(&self, number: usize) -> Option<Value> {
        let (namespace, name) = name_of(number);
        self.server.get(&Resource::config_maps(), &namespace, &name)
    }

    /// Returns the numbers of the server's first 200 objects that are in these shards.
    fn in_shards(&self, shards: &[u8]) -> Vec<usize> {
        let is_in = |number: &usize| {
            self.object(*number).is_some_and(|object| shards.contains(&shard_of(self.by, &object)))
        };
        (0..200).filter(is_in).collect()
    }

    async fn select(&self, shards: &[u8]) {
        let selected = self.selection.replace(set(shards));
        timeout(LONG, selected).await.expect("the selection is complete");
    }

    /// Asserts that the store has exactly the objects of these shards, in their newest versions.
    fn assert_contents(&self, shards: &[u8]) {
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
    async fn applied(&self, version: u64) {
        self.server.wait_for_watchers(1).await;
        self.server.bookmark(&Resource::config_maps());
        let version = version.to_string();
        let store = self.informer.store();
        let applied = timeout(LONG, store.wait_for_resource_version_async(&version)).await;
        applied.expect("the version is applied").unwrap();
    }

    /// Waits for an error. The next attempt follows much later.
    async fn failed(&self) {
        while self.errors.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Drops the requests, notifications and counts so far.
    fn forget(&mut self) {
        self.server.forget_requests();
        self.notified();
        self.decoded();
    }

    fn decoded(&self) -> usize {
        self.decoded.swap(0, Ordering::Relaxed)
    }

    /// Returns the lists and watches since the last call.
    fn requests(&self) -> (Vec<Request>, Vec<Request>) {
        let requests = self.server.requests();
        self.server.forget_requests();
        requests.into_iter().partition(|request| request.verb() == Verb::List)
    }

    /// Returns the notifications that are ready, in their [short form](brief).
    fn notified(&mut self) -> Vec<String> {
        let mut notified = Vec::new();
        while let Some(Some(next)) = self.changes.next().now_or_never() {
            notified.push(brief(&next));
        }
        notified
    }
}

/// Returns the short form of a notification: `Relist +m1`, `Watch *m1`, `ShardMoved -m1`.
fn brief(notification: &Notification<ConfigMap>) -> String {
    let (cause, sign, map) = match notification {
        Notification::Added { new, cause, .. } => (cause, '+', new),
        Notification::Updated { new, cause, .. } => (cause, '*', new),
        Notification::Deleted { old, cause, .. } => (cause, '-', old),
        Notification::ResyncBegins | Notification::ResyncEnds => panic!("no change was dropped"),
    };
    format!("{cause:?} {sign}{}", map.metadata.name.as_ref().unwrap())
}

fn selector(request: &Request) -> Option<&str> {
    request.parameter("shardSelector")
}

/// Returns the notifications of objects with these numbers.
fn all(change: &str, numbers: &[usize]) -> BTreeSet<String> {
    numbers.iter().map(|number| format!("{change}m{number}")).collect()
}

fn sorted(changes: Vec<String>) -> BTreeSet<String> {
    let count = changes.len();
    let sorted: BTreeSet<_> = changes.into_iter().collect();
    assert_eq!(sorted.len(), count, "no change is notified twice");
    sorted
}

#[tokio::test(start_paused = true)]
async fn store_has_the_objects_of_the_selected_shards_and_no_others() {
    for by in PROPERTIES {
        for server in SERVERS {
            let rig = Rig::running(by, server, 60);
            for shards in [&[0][..], &[0, 1], &[1, 2, 3], &[0, 1, 2, 3], &[], &[2, 3], &[0]] {
                rig.select(shards).await;
                rig.assert_contents(shards);
                if shards.is_empty() {
                    continue;
                }
                // Objects of all shards are created, changed, and deleted.
                for number in 60..70 {
                    rig.apply(number);
                }
                for number in 0..10 {
                    rig.apply(number);
                }
                let mut version = 0;
                for number in 60..70 {
                    version = rig.delete(number);
                }
                rig.applied(version).await;
                rig.assert_contents(shards);
            }
            assert_eq!(rig.errors.lock().as_slice(), &[] as &[String], "{by:?}, {server:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn added_shards_are_listed_alone_and_others_are_not_decoded_again() {
    for by in PROPERTIES {
        for server in SERVERS {
            let mut rig = Rig::running(by, server, 60);
            rig.select(&[0]).await;
            assert_eq!(rig.decoded(), rig.in_shards(&[0]).len(), "{by:?}, {server:?}");
            rig.server.wait_for_watchers(1).await;
            rig.forget();

            rig.select(&[0, 1, 3]).await;
            rig.server.wait_for_request(|request| request.verb() == Verb::Watch).await;
            let added = rig.in_shards(&[1, 3]);
            assert_eq!(rig.decoded(), added.len(), "{by:?}, {server:?}");
            assert_eq!(sorted(rig.notified()), all("Relist +", &added));
            let (lists, watches) = rig.requests();
            let expected = |shards| by.selector(set(shards), four());
            let is_served = by != ShardBy::Key && server != ShardSelectors::Ignored;
            let listed = if is_served { added.len() } else { 60 };
            assert_eq!(lists.len(), listed.div_ceil(7).max(1), "pages of a consistent list");
            for list in &lists {
                assert_eq!(selector(list), expected(&[1, 3]).as_deref());
                assert_eq!(list.resource_version(), "", "the newest state");
            }
            assert_eq!(watches.len(), 1);
            assert_eq!(selector(&watches[0]), expected(&[0, 1, 3]).as_deref());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn removed_shards_leave_without_a_list_and_are_no_deletions() {
    for by in PROPERTIES {
        for server in SERVERS {
            let mut rig = Rig::running(by, server, 60);
            rig.select(&[0, 1, 2]).await;
            rig.server.wait_for_watchers(1).await;
            rig.forget();

            rig.select(&[0, 2]).await;
            let removed = rig.in_shards(&[1]);
            assert_eq!(sorted(rig.notified()), all("ShardMoved -", &removed), "{by:?}");
            rig.server.wait_for_request(|request| request.verb() == Verb::Watch).await;
            let (lists, watches) = rig.requests();
            assert_eq!((lists.len(), watches.len(), rig.decoded()), (0, 1, 0), "{by:?}");
            assert_eq!(selector(&watches[0]), by.selector(set(&[0, 2]), four()).as_deref());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_shard_the_informer_syncs_with_nothing_and_sends_no_request() {
    let mut rig = Rig::running(ShardBy::Uid, ShardSelectors::Honoured, 20);
    timeout(LONG, rig.informer.wait_for_sync()).await.unwrap().unwrap();
    rig.assert_contents(&[]);
    tokio::time::sleep(LONG).await;
    assert!(rig.server.requests().is_empty() && rig.notified().is_empty());

    rig.select(&[0, 1, 2, 3]).await;
    let (lists, watches) = rig.requests();
    assert!(lists.iter().chain(&watches).all(|request| selector(request).is_none()), "all shards");
    assert_eq!(sorted(rig.notified()), all("Relist +", &rig.in_shards(&[0, 1, 2, 3])));

    rig.select(&[]).await;
    rig.server.wait_for_watchers(0).await;
    rig.server.forget_requests();
    tokio::time::sleep(LONG).await;
    assert!(rig.server.requests().is_empty());
    assert!(sorted(rig.notified()).iter().all(|change| change.starts_with("ShardMoved -")));
}

#[tokio::test(start_paused = true)]
async fn shards_that_are_selected_before_the_start_are_the_initial_list() {
    let mut rig = Rig::new(ShardBy::Key, ShardSelectors::Ignored, 20);
    let selected = rig.selection.replace(set(&[1]));
    rig.run();
    timeout(LONG, rig.informer.wait_for_sync()).await.unwrap().unwrap();
    timeout(LONG, selected).await.unwrap();
    assert_eq!(sorted(rig.notified()), all("Initial +", &rig.in_shards(&[1])));
}

/// The watch continues from an older version than that of the list of the added shards.
#[tokio::test(start_paused = true)]
async fn events_from_before_the_list_of_an_added_shard_are_dropped() {
    for by in PROPERTIES {
        for server in SERVERS {
            let mut rig = Rig::running(by, server, 60);
            rig.select(&[0]).await;
            rig.server.wait_for_watchers(1).await;
            rig.forget();
            let (stays, added) = (rig.in_shards(&[0])[0], rig.in_shards(&[1]));
            // The informer does not run until the next await.
            rig.apply(stays);
            for number in &added {
                rig.apply(*number);
            }
            let (gone, changed) = (added[0], &added[1..]);
            rig.delete(gone);
            rig.apply(changed[0]);
            let selected = rig.selection.replace(set(&[0, 1]));
            timeout(LONG, selected).await.unwrap();
            let version = rig.apply(changed[0]);
            rig.applied(version).await;
            rig.assert_contents(&[0, 1]);

            let mut expected = all("Relist +", changed);
            expected.extend([format!("Watch *m{stays}"), format!("Watch *m{}", changed[0])]);
            assert_eq!(sorted(rig.notified()), expected, "{by:?}, {server:?}");
            assert_eq!(rig.decoded(), changed.len() + 2, "{by:?}, {server:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn shard_that_leaves_and_comes_back_at_once_is_listed_again() {
    let mut rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 40);
    rig.select(&[0, 1]).await;
    rig.server.wait_for_watchers(1).await;
    rig.notified();
    let back = rig.in_shards(&[1]);
    drop(rig.selection.replace(set(&[0])));
    rig.delete(back[0]);
    rig.select(&[0, 1]).await;
    rig.assert_contents(&[0, 1]);
    let notified = rig.notified();
    let (left, listed) = notified.split_at(back.len());
    assert_eq!(sorted(left.to_vec()), all("ShardMoved -", &back));
    assert_eq!(sorted(listed.to_vec()), all("Relist +", &back[1..]));
}

#[tokio::test(start_paused = true)]
async fn claim_during_a_list_is_served_by_a_list_that_begins_after_it() {
    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 40);
    rig.select(&[0]).await;
    rig.server.fault(Fault::hang(After::Bytes(10)).on(Verb::List).times(1));
    let first = rig.selection.replace(set(&[0, 1]));
    rig.server.wait_for_request(|request| request.verb() == Verb::List).await;
    let second = rig.selection.replace(set(&[0, 1, 2]));
    timeout(LONG, async { tokio::join!(first, second) }).await.unwrap();
    rig.assert_contents(&[0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn failed_list_is_reported_and_leaves_nothing_of_shards_that_are_removed_before_the_next() {
    for by in PROPERTIES {
        let mut rig = Rig::running(by, ShardSelectors::Honoured, 60);
        rig.select(&[0]).await;
        rig.server.wait_for_watchers(1).await;
        rig.notified();
        // The first page is offered.
        rig.server.fault(
            Fault::hang(After::Bytes(10))
                .on(Verb::List)
                .when(|request| request.continue_token().is_some())
                .times(1),
        );
        drop(rig.selection.replace(set(&[0, 1, 2, 3])));
        rig.failed().await;
        rig.select(&[0, 2]).await;
        rig.assert_contents(&[0, 2]);
        assert_eq!(rig.errors.lock().len(), 1, "{by:?}");
        let deleted = rig.notified().into_iter().filter(|change| change.contains('-'));
        assert!(deleted.into_iter().all(|change| change.starts_with("ShardMoved")), "{by:?}");
        let version = rig.apply(0);
        rig.applied(version).await;
        rig.assert_contents(&[0, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_watch_is_followed_by_a_list_of_all_selected_shards() {
    for by in PROPERTIES {
        for server in SERVERS {
            let mut rig = Rig::running(by, server, 60);
            rig.select(&[0, 1]).await;
            rig.select(&[0, 1, 2]).await;
            rig.server.wait_for_watchers(1).await;
            rig.forget();
            let (gone, changed) = (rig.in_shards(&[1])[0], rig.in_shards(&[2])[0]);
            // The watch cannot deliver these changes.
            rig.server.error_watches(status::expired("too old"));
            rig.delete(gone);
            rig.apply(changed);
            rig.server.compact();
            rig.server.wait_for_watchers(1).await;
            let version = rig.apply(changed);
            rig.applied(version).await;
            rig.assert_contents(&[0, 1, 2]);
            assert!(rig.decoded() <= 3, "unchanged objects are not decoded: {by:?}, {server:?}");
            let notified = sorted(rig.notified());
            assert!(notified.contains(&format!("Relist -m{gone}")), "{notified:?}");
        }
    }
}

/// A worker that is held back leaves objects, and later removals, pending in the queue.
#[tokio::test(start_paused = true)]
async fn removed_shard_leaves_completely_while_a_slow_handler_holds_the_worker_back() {
    let rig = Rig::new(ShardBy::Key, ShardSelectors::Ignored, 40);
    let options = HandlerOptions::new().buffer(Buffer::HoldBack(1));
    let mut slow = rig.informer.subscribe(options).unwrap();
    rig.run();
    timeout(LONG, rig.informer.wait_for_sync()).await.unwrap().unwrap();
    // Its walk over the empty store ends here. The changes that follow hold the worker back.
    assert!(slow.next().now_or_never().is_none());
    drop(rig.selection.replace(set(&[1])));
    rig.server.wait_for_watchers(1).await;
    let mut changed = rig.selection.replace(set(&[0])).boxed();
    let mut notified = Vec::new();
    let (one, zero) = (rig.in_shards(&[1]), rig.in_shards(&[0]));
    let (mut is_changed, expected) = (false, 2 * one.len() + zero.len());
    for _ in 0..10 * expected {
        // Everything else goes as far as it can before the next notification is taken.
        tokio::time::sleep(Duration::from_secs(1)).await;
        is_changed = is_changed || (&mut changed).now_or_never().is_some();
        if let Some(Some(next)) = slow.next().now_or_never() {
            notified.push(brief(&next));
        }
    }
    assert_eq!((is_changed, notified.len()), (true, expected));
    rig.assert_contents(&[0]);
    let (added, rest) = notified.split_at(one.len());
    let (left, listed) = rest.split_at(one.len());
    assert_eq!(sorted(added.to_vec()), all("Relist +", &one));
    assert_eq!(sorted(left.to_vec()), all("ShardMoved -", &one));
    assert_eq!(sorted(listed.to_vec()), all("Relist +", &zero));
}

#[tokio::test(start_paused = true)]
async fn list_after_that_of_an_added_shard_is_not_older_than_it() {
    for by in PROPERTIES {
        let rig = Rig::running(by, ShardSelectors::Honoured, 60);
        rig.select(&[0]).await;
        rig.server.wait_for_watchers(1).await;
        let version = rig.apply(rig.in_shards(&[1])[0]);
        rig.server.fault(Fault::status(status::expired("too old")).on(Verb::Watch).times(1));
        let selected = rig.selection.replace(set(&[0, 1]));
        timeout(LONG, selected).await.unwrap();
        let is_streamed = |request: &Request| request.sends_initial_events();
        let list = timeout(LONG, rig.server.wait_for_request(is_streamed)).await.unwrap();
        assert!(list.resource_version().parse::<u64>().unwrap() >= version, "{by:?}");
        let version = rig.apply(rig.in_shards(&[1])[0]);
        rig.applied(version).await;
        rig.assert_contents(&[0, 1]);
    }
}

#[tokio::test(start_paused = true)]
async fn selection_is_complete_only_when_the_listed_objects_are_handled() {
    let rig = Rig::new(ShardBy::Key, ShardSelectors::Ignored, 40);
    let options = HandlerOptions::new().buffer(Buffer::HoldBack(1));
    let mut slow = rig.informer.subscribe(options).unwrap();
    rig.run();
    timeout(LONG, rig.informer.wait_for_sync()).await.unwrap().unwrap();
    // Its walk over the empty store ends here. The changes that follow hold the worker back.
    assert!(slow.next().now_or_never().is_none());
    let mut selected = rig.selection.replace(set(&[1])).boxed();
    rig.server.wait_for_watchers(1).await;
    tokio::time::sleep(LONG).await;
    assert!((&mut selected).now_or_never().is_none());
    let reading = async { while slow.next().await.is_some() {} };
    tokio::select! {
        () = reading => panic!("the informer runs"),
        () = selected => {}
    }
    rig.assert_contents(&[1]);
}

#[tokio::test(start_paused = true)]
async fn object_that_is_deleted_after_a_failed_list_does_not_stay() {
    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 60);
    rig.select(&[0]).await;
    // The first pages are offered.
    let is_late =
        |request: &Request| request.continue_token().is_some_and(|token| token.contains("mail"));
    rig.server.fault(Fault::hang(After::Bytes(10)).on(Verb::List).when(is_late).times(1));
    let selected = rig.selection.replace(set(&[0, 1]));
    rig.failed().await;
    assert!(rig.decoded() > rig.in_shards(&[0]).len());
    for number in rig.in_shards(&[1]) {
        rig.delete(number);
    }
    timeout(LONG, selected).await.unwrap();
    rig.assert_contents(&[0, 1]);
}

#[tokio::test(start_paused = true)]
async fn list_that_is_interrupted_by_a_change_begins_again() {
    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 60);
    rig.select(&[0, 1]).await;
    rig.server.wait_for_watchers(1).await;
    let is_streamed = |request: &Request| request.sends_initial_events();
    rig.server.fault(Fault::hang(After::Bytes(3_000)).when(is_streamed).times(1));
    rig.server.forget_requests();
    rig.server.error_watches(status::expired("too old"));
    timeout(LONG, rig.server.wait_for_request(is_streamed)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.server.forget_requests();
    rig.select(&[0]).await;
    let next = timeout(LONG, rig.server.wait_for_request(|_| true)).await.unwrap();
    assert!(is_streamed(&next), "the store has a part of a list");
    rig.server.wait_for_watchers(1).await;
    let version = rig.apply(0);
    rig.applied(version).await;
    rig.assert_contents(&[0]);
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_cannot_be_sharded_by_namespace() {
    let server = ApiServer::builder().resource(Resource::nodes()).build();
    server
        .apply(json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "n" } }))
        .unwrap();
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&errors);
    let selection = Selection::new(ShardBy::Namespace, four());
    let nodes = KubeListerWatcher::new::<Node>(server.client(), &(), None);
    let informer = SharedInformer::<Node>::in_shards(&selection, nodes)
        .on_error(move |error| log.lock().push(error.to_string()))
        .build()
        .unwrap();
    drop(selection.replace(set(&[0, 1, 2, 3])));
    tokio::select! {
        _ended = informer.run() => panic!("the informer runs"),
        () = async { while errors.lock().is_empty() { tokio::task::yield_now().await } } => {}
    }
    assert!(errors.lock()[0].contains("ShardBy::Key"));
    assert!(informer.store().is_empty());
}

#[test]
fn in_order_queue_is_refused() {
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let maps = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let selection = Selection::new(ShardBy::Key, four());
    let informer = SharedInformer::<ConfigMap>::in_shards(&selection, maps).in_order().build();
    assert!(matches!(informer, Err(BuildError::InOrder)));
    assert_ne!(Cause::ShardMoved, Cause::NamespaceRemoved);
}

#[cfg(feature = "runtime")]
#[tokio::test(start_paused = true)]
async fn move_of_a_shard_causes_no_reconcile_and_no_call_of_on_deleted() {
    use crate::runtime::Controller;
    use crate::runtime::controller::Action;

    let rig = Rig::running(ShardBy::Key, ShardSelectors::Ignored, 40);
    rig.select(&[0, 1]).await;
    let (reconciled, deleted) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (count, count_deleted) = (Arc::clone(&reconciled), Arc::clone(&deleted));
    let controller = Controller::from_informer(&rig.informer).on_deleted(move |_| {
        count_deleted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    });
    let reconcile = move |_: Arc<ConfigMap>, _: Arc<()>| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok::<_, std::io::Error>(Action::await_change()))
    };
    let running = controller.run(reconcile, |_, _, _| Action::await_change(), Arc::new(()));
    let running = tokio::spawn(running.for_each(|_| std::future::ready(())));
    tokio::time::sleep(LONG).await;
    assert_eq!(reconciled.swap(0, Ordering::Relaxed), rig.in_shards(&[0, 1]).len());

    rig.select(&[0]).await;
    tokio::time::sleep(LONG).await;
    let calls = || (reconciled.swap(0, Ordering::Relaxed), deleted.swap(0, Ordering::Relaxed));
    assert_eq!(calls(), (0, 0));
    rig.delete(rig.in_shards(&[0])[0]);
    rig.delete(rig.in_shards(&[1])[0]);
    tokio::time::sleep(LONG).await;
    assert_eq!(calls(), (0, 1), "a deletion in a shard of the member");
    running.abort();
}
