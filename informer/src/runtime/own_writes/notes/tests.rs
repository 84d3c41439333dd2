//! Tests of notes over a store that the test fills.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::{DeltaFifo, Indexer, KeyFunc, ResourceVersion};
use futures_util::FutureExt;
use http::{Request, Response, StatusCode, Uri};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::client::{Body, Client};
use tokio::time::{Instant, advance};
use tower::BoxError;

use super::super::stores::{ObservedStores, WrittenStore};
use super::{LONGEST_KEPT, LONGEST_WAIT, MOST_OBJECTS, OwnWrites, SWEEP_AFTER, Target, Written};
use crate::KubeMeta;
use crate::shared_informer::{Cause, Notification};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// A queue of maps, and the unseen writes of a controller whose store it feeds.
struct Rig {
    fifo: DeltaFifo<ConfigMap, KubeMeta>,
    observed: Arc<WrittenStore<ConfigMap, KubeMeta>>,
    writes: Arc<OwnWrites>,
}

fn rig() -> Rig {
    rig_with(KeyFunc::meta_namespace(KubeMeta))
}

fn rig_with(keys: KeyFunc<ConfigMap, KubeMeta>) -> Rig {
    let store = Indexer::builder(keys).build().unwrap();
    let fifo = DeltaFifo::over(store).track_applied(true).build();
    let observed = WrittenStore::new("maps", "configmaps.v1", "shop", fifo.store());
    let observed = Arc::new(observed);
    let writes = OwnWrites::new(ObservedStores(vec![Arc::clone(&observed) as _]));
    Rig { fifo, observed, writes }
}

fn map(name: &str, uid: &str, version: &str) -> Arc<ConfigMap> {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("shop".to_owned());
    map.metadata.name = Some(name.to_owned());
    map.metadata.uid = Some(uid.to_owned());
    map.metadata.resource_version = Some(version.to_owned());
    Arc::new(map)
}

fn changed(name: &str, version: &str) -> Written {
    Written {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        version: ResourceVersion::parse(version),
        is_gone: false,
        is_created: false,
    }
}

fn created(name: &str, version: &str) -> Written {
    Written { is_created: true, ..changed(name, version) }
}

fn removed(name: &str) -> Written {
    Written { version: None, is_gone: true, ..changed(name, "") }
}

impl Rig {
    /// Stores everything that was offered.
    fn apply(&self) {
        while let Some(mut popped) = self.fifo.try_pop() {
            popped.apply(|_| ()).unwrap();
        }
    }

    fn list(&self, maps: impl IntoIterator<Item = Arc<ConfigMap>>, version: &str) {
        self.fifo.replace(maps.into_iter().collect(), version).unwrap();
        self.apply();
    }

    fn note(&self, key: &str, written: &Written) {
        self.note_at(key, MAPS, written);
    }

    fn note_at(&self, key: &str, path: &'static str, written: &Written) {
        self.note_by(key, "main", path, written);
    }

    /// Notes a write of the main object with this key and uid.
    fn note_by(&self, key: &str, uid: &str, path: &'static str, written: &Written) {
        let uri = Uri::from_static(path);
        let target = Target::of(&uri).unwrap();
        let before = self.writes.before(&target);
        self.writes.note(&key.into(), &uid.into(), &target, &before, written);
    }

    fn are_seen(&self, key: &str) -> bool {
        self.writes.are_seen(&key.into())
    }

    /// Returns how many keys have notes.
    fn keys(&self) -> usize {
        self.writes.notes.lock().by_key.len()
    }
}

#[tokio::test(start_paused = true)]
async fn write_is_seen_when_the_object_is_stored_in_that_version() {
    let rig = rig();
    rig.list([map("a", "a", "1")], "3");
    rig.note("main", &changed("a", "5"));
    assert!(!rig.are_seen("main"));
    assert!(rig.are_seen("other"), "of another key");
    rig.fifo.update(map("a", "a", "4")).unwrap();
    rig.apply();
    assert!(!rig.are_seen("main"), "an earlier version");
    rig.fifo.update(map("a", "a", "5")).unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
    assert_eq!(rig.keys(), 0, "a seen write is kept");
}

#[tokio::test(start_paused = true)]
async fn write_is_seen_when_its_version_is_applied() {
    let rig = rig();
    rig.list([], "3");
    rig.note("main", &changed("a", "5"));
    let main = "main".into();
    let mut wait = Box::pin(rig.writes.seen(&main));
    assert!(wait.as_mut().now_or_never().is_none());
    rig.fifo.bookmark("9").unwrap();
    rig.apply();
    let began = Instant::now();
    assert_eq!(wait.await, Ok(()));
    assert_eq!(began.elapsed(), Duration::ZERO, "a wait without a timer");
}

#[tokio::test(start_paused = true)]
async fn write_that_the_store_has_is_not_kept() {
    let rig = rig();
    rig.list([map("a", "a", "5")], "5");
    rig.note("main", &changed("a", "5"));
    rig.note("main", &removed("b"));
    assert_eq!(rig.keys(), 0);
}

#[tokio::test(start_paused = true)]
async fn write_of_other_kinds_and_namespaces_is_not_kept() {
    let rig = rig();
    rig.list([], "3");
    rig.note_at("main", "/api/v1/namespaces/shop/secrets", &changed("a", "5"));
    rig.note_at("main", "/apis/x/v1/namespaces/shop/configmaps", &changed("a", "5"));
    let other = Written { namespace: "other".to_owned(), ..changed("a", "5") };
    rig.note_at("main", "/api/v1/namespaces/other/configmaps", &other);
    assert_eq!(rig.keys(), 0);
}

#[tokio::test(start_paused = true)]
async fn deletion_is_seen_when_the_object_with_its_uid_is_not_stored() {
    let rig = rig();
    rig.list([map("a", "a", "1"), map("b", "b", "2")], "3");
    rig.note("main", &removed("a"));
    assert!(!rig.are_seen("main"));
    rig.fifo.update(map("a", "of another a", "6")).unwrap();
    rig.apply();
    assert!(rig.are_seen("main"), "another object of that name");
    let with_version = Written { is_gone: true, ..changed("b", "2") };
    rig.note("main", &with_version);
    assert!(!rig.are_seen("main"), "the version before the deletion is stored");
    rig.fifo.delete(map("b", "b", "7")).unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn deletion_of_an_object_that_is_not_stored_yet_is_not_seen() {
    let rig = rig();
    rig.list([], "3");
    rig.note("main", &changed("a", "5"));
    rig.note("main", &removed("a"));
    assert!(!rig.are_seen("main"), "the creation is still to come");
    rig.fifo.add(map("a", "a", "5")).unwrap();
    rig.apply();
    assert!(!rig.are_seen("main"), "the deletion is still to come");
    rig.fifo.delete(map("a", "a", "6")).unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn write_of_an_object_that_was_deleted_since_is_seen() {
    let rig = rig();
    rig.list([map("a", "a", "1")], "3");
    rig.note("main", &changed("a", "5"));
    rig.fifo.delete(map("a", "a", "6")).unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn restore_of_the_server_ends_waits_for_former_versions() {
    let rig = rig();
    rig.list([map("a", "a", "90")], "100");
    rig.note("held", &changed("a", "120"));
    rig.note("idle", &changed("b", "121"));
    let held = "held".into();
    let mut wait = Box::pin(rig.writes.seen(&held));
    assert!(wait.as_mut().now_or_never().is_none());
    rig.list([map("a", "a", "20")], "30");
    assert_eq!(wait.now_or_never(), Some(Ok(())));
    assert!(rig.are_seen("idle"));
    rig.note("new", &changed("a", "31"));
    assert!(!rig.are_seen("new"), "a version after the restore");
}

#[tokio::test(start_paused = true)]
async fn creation_after_an_unnoticed_restore_is_seen_when_a_list_has_the_object() {
    let rig = rig();
    rig.list([], "100");
    rig.note("main", &created("b", "31"));
    assert!(!rig.are_seen("main"));
    rig.fifo.bookmark("110").unwrap();
    rig.apply();
    assert!(!rig.are_seen("main"), "a version from before the restore");
    let main = "main".into();
    let mut wait = Box::pin(rig.writes.seen(&main));
    assert!(wait.as_mut().now_or_never().is_none());
    rig.fifo.replace(vec![map("b", "b", "31")], "40").unwrap();
    assert!(wait.as_mut().now_or_never().is_none(), "the list is not handled");
    rig.apply();
    assert_eq!(wait.now_or_never(), Some(Ok(())));
    assert_eq!(rig.keys(), 0);
}

/// The version of the store is never lower than before: others have written that much.
#[tokio::test(start_paused = true)]
async fn creation_after_a_restore_that_is_never_noticed_is_seen_when_the_object_is_delivered() {
    let rig = rig();
    rig.list([], "100");
    rig.note("held", &created("b", "31"));
    rig.note("idle", &created("c", "32"));
    let held = "held".into();
    let mut wait = Box::pin(rig.writes.seen(&held));
    assert!(wait.as_mut().now_or_never().is_none());
    rig.list([map("b", "b", "31"), map("c", "c", "32")], "120");
    let new = map("b", "b", "31");
    let added = Notification::Added { new, is_in_initial_list: false, cause: Cause::Relist };
    rig.observed.waiters(&added).expect("the wait").notify_waiters();
    assert_eq!(wait.now_or_never(), Some(Ok(())));
    assert!(rig.are_seen("idle"));
}

/// Only the version shows that the store has caught up.
#[tokio::test(start_paused = true)]
async fn creation_after_an_unnoticed_restore_that_was_deleted_since_is_seen() {
    let rig = rig();
    rig.list([], "100");
    rig.note("main", &created("b", "31"));
    let main = "main".into();
    let mut wait = Box::pin(rig.writes.seen(&main));
    assert!(wait.as_mut().now_or_never().is_none());
    rig.list([], "30");
    assert!(wait.as_mut().now_or_never().is_none(), "the list is older than the write");
    rig.fifo.bookmark("31").unwrap();
    rig.apply();
    assert_eq!(wait.now_or_never(), Some(Ok(())));
    // The reconcile that created it deletes it, too.
    rig.note("main", &created("c", "29"));
    rig.note("main", &removed("c"));
    assert!(!rig.are_seen("main"));
    rig.list([], "28");
    assert!(!rig.are_seen("main"));
    rig.list([], "29");
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn object_that_a_restore_has_lost_is_not_the_one_that_is_created_after_it() {
    let rig = rig();
    rig.list([map("a", "former a", "90")], "100");
    rig.note("main", &created("a", "31"));
    assert!(!rig.are_seen("main"));
    rig.fifo.replace(vec![map("a", "a", "31")], "40").unwrap();
    assert!(!rig.are_seen("main"), "the list is not handled");
    rig.apply();
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn later_restore_ends_the_wait_for_a_creation() {
    let rig = rig();
    rig.list([], "100");
    rig.note("main", &created("a", "31"));
    let main = "main".into();
    let mut wait = Box::pin(rig.writes.seen(&main));
    assert!(wait.as_mut().now_or_never().is_none());
    rig.list([], "30");
    rig.list([], "20");
    assert_eq!(wait.now_or_never(), Some(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn change_of_an_object_that_was_created_after_an_unnoticed_restore_is_waited_for() {
    let rig = rig();
    rig.list([], "100");
    rig.note("main", &created("a", "31"));
    rig.note("main", &changed("a", "33"));
    assert!(!rig.are_seen("main"));
    rig.list([map("a", "a", "31")], "32");
    assert!(!rig.are_seen("main"), "the creation alone");
    rig.fifo.update(map("a", "a", "33")).unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn version_from_before_a_restore_is_not_merged_with_one_from_after_it() {
    let rig = rig();
    rig.list([map("a", "a", "20")], "100");
    rig.note("main", &changed("a", "120"));
    rig.list([map("a", "a", "20")], "30");
    rig.note("main", &changed("a", "31"));
    assert!(!rig.are_seen("main"));
    rig.fifo.update(map("a", "a", "31")).unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn creation_in_a_store_with_other_keys_is_kept_until_the_restore_is_noticed() {
    let rig = rig_with(KeyFunc::custom(KubeMeta, |map: &ConfigMap| Ok(map.name_any())));
    rig.list([], "100");
    rig.note("main", &created("a", "31"));
    rig.note("other", &created("b", "32"));
    rig.fifo.add(map("a", "a", "31")).unwrap();
    rig.apply();
    assert!(!rig.are_seen("main"), "the object is not found by its name and namespace");
    rig.list([map("a", "a", "31")], "31");
    assert!(rig.are_seen("main"));
    assert!(!rig.are_seen("other"));
    advance(LONGEST_KEPT + LONGEST_WAIT).await;
    assert!(rig.are_seen("other"));
}

/// Without a restore, such an answer comes for an object whose newer state the store has refused,
/// for example because it cannot be decoded.
#[tokio::test(start_paused = true)]
async fn change_at_an_applied_version_is_seen_at_once() {
    let rig = rig();
    rig.list([map("a", "a", "20")], "100");
    rig.note("main", &changed("a", "90"));
    assert_eq!(rig.keys(), 0);
}

/// Creates a map, by a server-side apply if `is_applied`, at a server that answers with version 31.
/// Calls `during` after the request is sent and before it is answered.
async fn create(rig: &Arc<Rig>, is_applied: bool, during: fn(&Rig)) {
    let writer = super::super::Writer::new(&rig.writes, &"main".into(), "uid");
    let server = Arc::clone(rig);
    let client = tower::service_fn(move |_: Request<Body>| {
        during(&server);
        let body = serde_json::to_vec(&*map("a", "a", "31")).unwrap();
        let response = Response::builder().status(StatusCode::CREATED).body(Body::from(body));
        async move { Ok::<_, BoxError>(response?) }
    });
    let create = async move {
        let client = super::super::client(&Client::new(client, "shop"));
        let maps = Api::<ConfigMap>::default_namespaced(client);
        let map = ConfigMap::default();
        if is_applied {
            let apply = PatchParams::apply("tests");
            maps.patch("a", &apply, &Patch::Apply(&map)).await.map(drop)
        } else {
            maps.create(&PostParams::default(), &map).await.map(drop)
        }
    };
    super::super::noting(Some(writer), create).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn answer_is_compared_with_the_store_as_it_was_before_the_request() {
    for is_applied in [false, true] {
        let rig = Arc::new(rig());
        rig.list([], "30");
        let reach = |rig: &Rig| {
            rig.fifo.bookmark("100").unwrap();
            rig.apply();
        };
        create(&rig, is_applied, reach).await;
        assert!(rig.are_seen("main"), "the store has passed the version since the request");
        create(&rig, is_applied, |_| ()).await;
        assert!(!rig.are_seen("main"), "the server was restored");
    }
}

#[tokio::test(start_paused = true)]
async fn restore_that_the_store_notices_during_a_creation_is_counted_once() {
    let rig = Arc::new(rig());
    rig.list([], "100");
    let notice = |rig: &Rig| {
        rig.fifo.replace(Vec::new(), "30").unwrap();
    };
    create(&rig, false, notice).await;
    assert!(!rig.are_seen("main"), "the list is not handled");
    rig.apply();
    assert!(!rig.are_seen("main"), "the list is older than the write");
    rig.fifo.bookmark("31").unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
    // The list that shows the next restore is not handled when the request is sent.
    rig.fifo.replace(Vec::new(), "20").unwrap();
    rig.note("main", &created("b", "25"));
    rig.apply();
    assert!(!rig.are_seen("main"));
    rig.fifo.bookmark("25").unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn unseen_write_ends_a_wait_and_is_forgotten_later() {
    let rig = rig();
    rig.list([], "3");
    rig.note("main", &changed("a", "5"));
    let error = rig.writes.seen(&"main".into()).await.unwrap_err();
    assert_eq!(error.waited, LONGEST_WAIT);
    let text = error.to_string();
    assert!(text.starts_with("maps does not show the write of shop/a at version 5"), "{text}");
    assert!(!rig.are_seen("main"), "the note is kept");
    advance(LONGEST_KEPT).await;
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn most_objects_of_a_key_are_noted_as_one_version() {
    let rig = rig();
    rig.list([], "3");
    for number in 10..10 + 2 * MOST_OBJECTS {
        rig.note("main", &changed(&format!("a{number}"), &number.to_string()));
    }
    let count = rig.writes.notes.lock().by_key["main"].len();
    assert_eq!(count, MOST_OBJECTS + 1);
    let last = 10 + 2 * MOST_OBJECTS - 1;
    rig.fifo.bookmark(&(last - 1).to_string()).unwrap();
    rig.apply();
    assert!(!rig.are_seen("main"));
    rig.fifo.bookmark(&last.to_string()).unwrap();
    rig.apply();
    assert!(rig.are_seen("main"));
}

#[tokio::test(start_paused = true)]
async fn seen_writes_of_keys_without_a_reconcile_are_freed() {
    let rig = rig();
    rig.list([], "3");
    for number in 0..10 * SWEEP_AFTER {
        let name = format!("a{number}");
        rig.note(&name, &changed(&name, "5"));
        rig.fifo.add(map(&name, &name, "5")).unwrap();
        rig.apply();
    }
    assert!(rig.keys() <= SWEEP_AFTER, "{} keys", rig.keys());
}

#[tokio::test(start_paused = true)]
async fn notes_of_former_objects_of_a_name_are_forgotten() {
    let rig = rig();
    rig.list([], "3");
    let key = "main".into();
    // Both have written one object. Their notes must not be merged.
    rig.note_by("main", "former", MAPS, &changed("a", "5"));
    rig.note_by("main", "new", MAPS, &changed("a", "6"));
    assert!(rig.writes.keep_of(&key, Some("new")));
    rig.fifo.update(map("a", "a", "5")).unwrap();
    rig.apply();
    assert!(!rig.are_seen("main"));
    assert!(!rig.writes.keep_of(&key, Some("newest")));
    assert_eq!(rig.keys(), 0);
    rig.note_by("main", "newest", MAPS, &changed("a", "7"));
    assert!(!rig.writes.keep_of(&key, None), "no object is stored");
    assert_eq!(rig.keys(), 0);
}

#[tokio::test(start_paused = true)]
async fn write_in_a_spawned_task_is_noted_if_it_is_carried() {
    let rig = rig();
    let writer = super::super::Writer::new(&rig.writes, &"main".into(), "uid");
    let is_carried = super::super::noting(Some(writer), async {
        let current = || super::super::Writer::current().is_some();
        let plain = tokio::spawn(async move { current() }).await.unwrap();
        let carried = tokio::spawn(super::super::carry(async move { current() })).await.unwrap();
        (plain, carried)
    });
    assert_eq!(is_carried.await, (false, true));
}
