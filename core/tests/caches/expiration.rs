//! Tests of `ExpirationCache`, the store whose objects expire.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::common::{Obj, ObjMeta, keys, nameless, obj};
use deltafifo::ExplicitKey;
use deltafifo::caches::ExpirationCache;
use deltafifo_oracle::ManualClock;

type Cache = ExpirationCache<Obj, ObjMeta>;

const SECOND: Duration = Duration::from_secs(1);

/// Returns a store whose objects expire after this many seconds, and its clock.
fn with_ttl(seconds: u64) -> (Cache, ManualClock) {
    let clock = ManualClock::default();
    (
        ExpirationCache::with_ttl(keys(), SECOND * u32::try_from(seconds).unwrap())
            .clock(clock.reader()),
        clock,
    )
}

fn numbers(cache: &Cache) -> Vec<u64> {
    let mut numbers: Vec<_> = cache.list().iter().map(|object| object.n).collect();
    numbers.sort_unstable();
    numbers
}

fn sorted_keys(cache: &Cache) -> Vec<String> {
    let mut keys = cache.list_keys();
    keys.sort();
    keys
}

#[test]
fn get_of_an_expired_object_returns_none_and_removes_it() {
    let cache = ExpirationCache::new(keys(), |_: &Obj, _| true);
    cache.add(obj("foo", 1)).unwrap();
    assert_eq!(cache.list_keys(), ["foo"], "not read since it expired");
    assert!(cache.get(&*obj("foo", 1)).unwrap().is_none());
    assert!(cache.list_keys().is_empty());
    cache.add(obj("foo", 1)).unwrap();
    assert!(cache.get_by_key("foo").is_none());
    assert!(cache.list_keys().is_empty());
}

#[test]
fn expired_key_can_be_added_again() {
    let (cache, clock) = with_ttl(30);
    cache.add(obj("foo", 1)).unwrap();
    clock.advance(31 * SECOND);
    assert!(cache.get(&*obj("foo", 0)).unwrap().is_none());
    cache.add(obj("foo", 2)).unwrap();
    assert_eq!(cache.get_by_key("foo").unwrap().n, 2);
}

#[test]
fn list_returns_live_objects_and_removes_expired_ones() {
    let cache = ExpirationCache::new(keys(), |object: &Obj, _| object.name != "foo1");
    for (key, n) in [("foo", 0), ("foo1", 1), ("foo2", 2)] {
        cache.add(obj(key, n)).unwrap();
    }
    assert_eq!(sorted_keys(&cache), ["foo", "foo1", "foo2"]);
    assert_eq!(numbers(&cache), [1]);
    assert_eq!(cache.list_keys(), ["foo1"]);
}

#[test]
fn object_older_than_the_ttl_expires_and_without_ttl_never() {
    let (cache, clock) = with_ttl(30);
    cache.add(obj("foo", 1)).unwrap();
    clock.advance(30 * SECOND);
    assert_eq!(cache.get_by_key("foo").unwrap().n, 1, "exactly as old as the ttl");
    clock.advance(Duration::from_nanos(1));
    assert!(cache.get_by_key("foo").is_none());
    let (cache, clock) = with_ttl(0);
    cache.add(obj("foo", 1)).unwrap();
    clock.advance(1_000_000 * SECOND);
    assert_eq!(numbers(&cache), [1]);
}

#[test]
fn update_and_replace_restart_the_age() {
    let (cache, clock) = with_ttl(10);
    cache.add(obj("a", 1)).unwrap();
    cache.add(obj("b", 1)).unwrap();
    clock.advance(8 * SECOND);
    cache.update(obj("a", 2)).unwrap();
    clock.advance(8 * SECOND);
    assert_eq!(numbers(&cache), [2]);
    cache.replace(vec![obj("a", 3), obj("c", 4), obj("a", 5)]).unwrap();
    clock.advance(8 * SECOND);
    assert_eq!(numbers(&cache), [4, 5]);
    cache.delete(ExplicitKey("c")).unwrap();
    assert_eq!(numbers(&cache), [5]);
    clock.advance(3 * SECOND);
    assert!(numbers(&cache).is_empty());
}

#[test]
fn object_without_a_key_changes_nothing() {
    let (cache, _) = with_ttl(10);
    cache.add(obj("a", 1)).unwrap();
    cache.replace(vec![obj("b", 1), nameless()]).unwrap_err();
    assert_eq!(cache.list_keys(), ["a"]);
}

#[test]
fn object_stored_while_the_policy_runs_is_not_removed() {
    let this: Arc<OnceLock<Cache>> = Arc::new(OnceLock::new());
    let stored = this.clone();
    let cache = this.get_or_init(|| {
        ExpirationCache::new(keys(), move |object: &Obj, _| {
            if object.n < 3 {
                stored.get().unwrap().add(obj("a", object.n + 1)).unwrap();
            }
            object.n < 3
        })
    });
    cache.add(obj("a", 1)).unwrap();
    assert_eq!(cache.get_by_key("a").unwrap().n, 3);
    cache.add(obj("a", 1)).unwrap();
    assert_eq!(numbers(cache), [3]);
}

#[test]
fn panicking_policy_removes_nothing() {
    let fails = Arc::new(Mutex::new(true));
    let flag = fails.clone();
    let cache = ExpirationCache::new(keys(), move |_: &Obj, _| {
        let fails = *flag.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(!fails, "expected by this test");
        false
    });
    cache.add(obj("a", 1)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| cache.get_by_key("a"))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| cache.list())).is_err());
    *fails.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = false;
    assert_eq!(numbers(&cache), [1]);
}
