//! Tests of `MutationCache`, which holds the caller's own writes over a store that a watch
//! updates.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltafifo::caches::{MutationCache, MutationCacheBuilder, MutationError};
use deltafifo::{
    BoxError, DeletedFinalStateUnknown, DeltaObject, ExplicitKey, IndexError, Indexer, KeyFunc,
    Meta, NAMESPACE_INDEX,
};
use deltafifo_oracle::ManualClock;

#[derive(Debug, PartialEq)]
struct Pod {
    name: &'static str,
    uid: &'static str,
    version: &'static str,
    node: &'static str,
}

struct PodMeta;

impl Meta<Pod> for PodMeta {
    fn namespace<'a>(&self, _: &'a Pod) -> Option<&'a str> {
        Some("ns")
    }

    fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(pod.name)
    }

    fn version<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(pod.version)
    }

    fn uid<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        Some(pod.uid)
    }
}

type Cache = MutationCache<Pod, PodMeta>;

/// An accessor that runs a function the first time that it reads the version `3`.
#[derive(Clone, Default)]
struct Hooked(Arc<Mutex<Option<Hook>>>);

type Hook = Box<dyn FnOnce() + Send>;

impl Meta<Pod> for Hooked {
    fn namespace<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        PodMeta.namespace(pod)
    }

    fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        PodMeta.name(pod)
    }

    fn version<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        if pod.version == "3"
            && let Some(hook) = self.0.lock().unwrap().take()
        {
            hook();
        }
        PodMeta.version(pod)
    }
}

fn pod_on(
    name: &'static str,
    uid: &'static str,
    version: &'static str,
    node: &'static str,
) -> Arc<Pod> {
    Arc::new(Pod { name, uid, version, node })
}

fn pod(uid: &'static str, version: &'static str) -> Arc<Pod> {
    pod_on("pod", uid, version, "n1")
}

fn store() -> Indexer<Pod, PodMeta> {
    let node = |pod: &Pod| match pod.node {
        "none" => Err(BoxError::from("the object has no node")),
        node => Ok(vec![node.to_owned()]),
    };
    Indexer::builder(KeyFunc::meta_namespace(PodMeta)).index("node", node).build().unwrap()
}

fn build(
    options: impl FnOnce(MutationCacheBuilder<Pod, PodMeta>) -> MutationCacheBuilder<Pod, PodMeta>,
) -> (Indexer<Pod, PodMeta>, Cache) {
    let store = store();
    let cache = options(MutationCache::builder(store.reader())).build();
    (store, cache)
}

/// Returns the version of the object that the cache returns for the test's only key, if any.
fn version(cache: &Cache) -> Option<&'static str> {
    cache.get_by_key("ns/pod").unwrap().map(|pod| pod.version)
}

fn on_node(cache: &Cache, node: &str) -> Vec<(&'static str, &'static str)> {
    let mut pods: Vec<_> =
        cache.by_index("node", node).unwrap().iter().map(|pod| (pod.name, pod.version)).collect();
    pods.sort_unstable();
    pods
}

#[test]
fn get_returns_the_newer_of_stored_object_and_own_write() {
    let (store, cache) = build(|cache| cache);
    store.add(pod("1", "9")).unwrap();
    assert_eq!(version(&cache), Some("9"));
    cache.mutation(pod("1", "10")).unwrap();
    assert_eq!(version(&cache), Some("10"), "versions are numbers, not text");
    cache.mutation(pod("1", "8")).unwrap();
    assert_eq!(version(&cache), Some("10"), "a late, older write is ignored");
    store.update(pod("1", "10")).unwrap();
    let got = cache.get_by_key("ns/pod").unwrap().unwrap();
    assert!(
        Arc::ptr_eq(&got, &store.get_by_key("ns/pod").unwrap()),
        "equally new: the stored object"
    );
    store.update(pod("1", "7")).unwrap();
    assert_eq!(version(&cache), Some("7"), "the write was dropped when the store caught up");
}

#[test]
fn own_write_is_dropped_when_the_store_has_an_equally_new_object() {
    for (update, expected) in [("2", "1"), ("3", "1"), ("1", "2")] {
        let (store, cache) = build(|cache| cache);
        cache.mutation(pod("uid-1", "2")).unwrap();
        cache.on_add_or_update(&pod("uid-1", update)).unwrap();
        store.add(pod("uid-1", "1")).unwrap();
        assert_eq!(version(&cache), Some(expected), "after an update to {update}");
    }
}

#[test]
fn write_during_the_check_of_an_earlier_write_is_kept() {
    let hooked = Hooked::default();
    let store = Indexer::builder(KeyFunc::meta_namespace(hooked.clone())).build().unwrap();
    let cache = Arc::new(MutationCache::builder(store.reader()).build());
    store.add(pod("1", "3")).unwrap();
    let version = || cache.get_by_key("ns/pod").unwrap().unwrap().version;
    let judge_between = |written: Arc<Pod>| {
        let cache = cache.clone();
        *hooked.0.lock().unwrap() = Some(Box::new(move || cache.mutation(written).unwrap()));
    };
    cache.mutation(pod("1", "2")).unwrap();
    judge_between(pod("1", "5"));
    assert_eq!(version(), "3", "at least as new as the known write");
    assert_eq!(version(), "5");
    judge_between(pod("1", "7"));
    cache.on_add_or_update(&pod("1", "3")).unwrap();
    assert_eq!(version(), "7");
    store.update(pod("1", "8")).unwrap();
    assert_eq!((version(), hooked.0.lock().unwrap().is_none()), ("8", true));
}

#[test]
fn deletion_of_the_object_or_a_newer_one_drops_the_own_write() {
    for (uid, deleted, expected) in [
        ("uid-1", "1", None),
        ("uid-2", "3", None),
        ("uid-other", "1", Some("3")),
        ("", "1", Some("3")),
    ] {
        let (store, cache) = build(|cache| cache.include_adds(true));
        store.add(pod("uid-1", "2")).unwrap();
        cache.mutation(pod(if uid.is_empty() { "" } else { "uid-1" }, "3")).unwrap();
        store.delete(ExplicitKey("ns/pod")).unwrap();
        cache.on_delete(&pod(uid, deleted).into()).unwrap();
        assert_eq!(version(&cache), expected, "{uid} {deleted}");
    }
}

#[test]
fn late_own_write_does_not_restore_a_deleted_object() {
    let (store, cache) = build(|cache| cache.include_adds(true));
    store.add(pod("uid-1", "1")).unwrap();
    let updated = pod("uid-1", "2");
    store.update(updated.clone()).unwrap();
    store.delete(&*updated).unwrap();
    cache.on_add_or_update(&updated).unwrap();
    cache.on_delete(&updated.clone().into()).unwrap();
    cache.mutation(updated).unwrap();
    assert_eq!(version(&cache), None);
    cache.mutation(pod("uid-1", "3")).unwrap();
    assert_eq!(version(&cache), None, "the same object");
    cache.mutation(pod("uid-2", "2")).unwrap();
    assert_eq!(version(&cache), None, "as old as the deletion");
    cache.mutation(pod("uid-2", "3")).unwrap();
    assert_eq!(version(&cache), Some("3"), "a later object of that name");
}

#[test]
fn late_own_write_does_not_hide_the_objects_replacement() {
    let (store, cache) = build(|cache| cache.include_adds(true));
    let (updated, replacement) = (pod("uid-1", "2"), pod("uid-2", "3"));
    store.add(replacement.clone()).unwrap();
    cache.on_add_or_update(&updated).unwrap();
    cache.on_delete(&updated.clone().into()).unwrap();
    cache.on_add_or_update(&replacement).unwrap();
    cache.mutation(updated).unwrap();
    assert_eq!(cache.get_by_key("ns/pod").unwrap(), Some(replacement));
}

#[test]
fn tombstone_counts_as_the_object_that_it_holds() {
    let gone = |obj| DeltaObject::from(DeletedFinalStateUnknown::new("ns/pod", obj));
    let (_store, cache) = build(|cache| cache.include_adds(true));
    cache.mutation(pod("uid-1", "2")).unwrap();
    cache.on_delete(&gone(None)).unwrap();
    assert_eq!(version(&cache), Some("2"), "an empty tombstone has no effect");
    cache.on_delete(&gone(Some(pod("uid-1", "1")))).unwrap();
    assert_eq!((version(&cache), on_node(&cache, "n1")), (None, vec![]));
}

#[test]
fn own_write_of_an_unknown_key_counts_only_with_include_adds() {
    let (_store, cache) = build(|cache| cache);
    cache.mutation(pod("uid-1", "2")).unwrap();
    assert_eq!((version(&cache), on_node(&cache, "n1")), (None, vec![]));
    let (_store, cache) = build(|cache| cache.include_adds(true));
    cache.mutation(pod("uid-1", "2")).unwrap();
    assert_eq!((version(&cache), on_node(&cache, "n1")), (Some("2"), vec![("pod", "2")]));
    assert_eq!(cache.by_index(NAMESPACE_INDEX, "ns").unwrap().len(), 1);
    assert!(cache.by_index(NAMESPACE_INDEX, "other").unwrap().is_empty());
}

#[test]
fn index_finds_own_writes_under_their_own_values() {
    for include_adds in [false, true] {
        let (store, cache) = build(|cache| cache.include_adds(include_adds));
        for (name, node) in [("a", "n1"), ("b", "n1"), ("c", "n1"), ("d", "n2"), ("e", "n1")] {
            store.add(pod_on(name, name, "5", node)).unwrap();
        }
        cache.mutation(pod_on("a", "a", "6", "n1")).unwrap();
        cache.mutation(pod_on("b", "b", "6", "n2")).unwrap();
        cache.mutation(pod_on("c", "c", "4", "n2")).unwrap();
        cache.mutation(pod_on("d", "d", "6", "n1")).unwrap();
        cache.mutation(pod_on("e", "e", "6", "none")).unwrap();
        assert_eq!(on_node(&cache, "n1"), [("a", "6"), ("c", "5"), ("d", "6")]);
        assert_eq!(on_node(&cache, "n2"), [("b", "6")]);
        assert!(matches!(
            cache.by_index("nope", "n1"),
            Err(MutationError::Index(IndexError::Unknown(_)))
        ));
    }
}

#[test]
fn remembered_deletion_hides_no_stored_object() {
    let (store, cache) = build(|cache| cache.include_adds(true));
    cache.on_delete(&pod("uid-1", "3").into()).unwrap();
    assert_eq!((version(&cache), on_node(&cache, "n1")), (None, vec![]));
    store.add(pod("uid-2", "2")).unwrap();
    assert_eq!((version(&cache), on_node(&cache, "n1")), (Some("2"), vec![("pod", "2")]));
}

#[test]
fn own_write_is_kept_until_its_ttl_or_the_capacity_ends() {
    let clock = ManualClock::default();
    let (store, cache) = build(|cache| cache.ttl(Duration::from_secs(10)).clock(clock.reader()));
    store.add(pod("1", "1")).unwrap();
    cache.mutation(pod("1", "2")).unwrap();
    clock.advance(Duration::from_secs(10));
    assert_eq!((version(&cache), on_node(&cache, "n1")), (Some("2"), vec![("pod", "2")]));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(on_node(&cache, "n1"), [("pod", "1")]);
    assert_eq!(version(&cache), Some("1"));

    let (_store, cache) = build(|cache| cache.include_adds(true).capacity(2).ttl(Duration::MAX));
    let has = |name: &str| cache.get_by_key(&format!("ns/{name}")).unwrap().is_some();
    cache.mutation(pod_on("a", "a", "1", "n1")).unwrap();
    cache.mutation(pod_on("b", "b", "1", "n1")).unwrap();
    assert!(has("a"));
    cache.mutation(pod_on("c", "c", "1", "n1")).unwrap();
    cache.mutation(pod_on("c", "c", "2", "n1")).unwrap();
    assert_eq!(on_node(&cache, "n1"), [("a", "1"), ("c", "2")], "b was the least recently read");
    let (_store, cache) = build(|cache| cache.include_adds(true).capacity(0));
    cache.mutation(pod("1", "1")).unwrap();
    assert_eq!(version(&cache), Some("1"), "at least one");
}

#[test]
fn non_numeric_version_is_an_error_when_it_is_compared() {
    let (store, cache) = build(|cache| cache);
    let is_version = |error: MutationError, given: &str| match error {
        MutationError::Version { key, version } => {
            assert_eq!((key.as_str(), version.as_str()), ("ns/pod", given));
        }
        error => panic!("{error}"),
    };
    is_version(cache.mutation(pod("1", "")).unwrap_err(), "");
    is_version(cache.mutation(pod("1", "1.5")).unwrap_err(), "1.5");
    is_version(cache.on_delete(&pod("1", "x").into()).unwrap_err(), "x");
    store.add(pod("1", "x")).unwrap();
    cache.on_add_or_update(&pod("1", "x")).unwrap();
    assert_eq!(
        (version(&cache), on_node(&cache, "n1")),
        (Some("x"), vec![("pod", "x")]),
        "nothing to compare with"
    );
    cache.mutation(pod("1", "5")).unwrap();
    is_version(cache.get_by_key("ns/pod").unwrap_err(), "x");
    is_version(cache.by_index("node", "n1").unwrap_err(), "x");
    is_version(cache.on_add_or_update(&pod("1", "x")).unwrap_err(), "x");
    let key = cache.mutation(pod_on("", "1", "1", "n1")).unwrap_err();
    assert!(matches!(key, MutationError::Key(_)));
    assert_eq!(
        cache.mutation(pod("1", "v1")).unwrap_err().to_string(),
        "version \"v1\" of key \"ns/pod\" is not a decimal number, so it cannot be compared: return the object's \
         resourceVersion from the accessor's `version`"
    );
}
