//! Tests of the detector of objects that were changed in place.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltafifo::caches::CacheMutationDetector;
use deltafifo::{Change, DeltaFifo, Indexer, KeyFunc, NoMeta};
use deltafifo_oracle::ManualClock;

struct Pod {
    name: String,
    labels: Mutex<Vec<&'static str>>,
}

fn pod(name: &str) -> Arc<Pod> {
    Arc::new(Pod { name: name.to_owned(), labels: Mutex::new(vec!["check"]) })
}

fn detector(clock: &ManualClock) -> CacheMutationDetector<Pod, Vec<&'static str>> {
    CacheMutationDetector::new("pods", |pod: &Pod| pod.labels.lock().unwrap().clone())
        .clock(clock.reader())
}

#[test]
fn object_changed_in_place_by_a_handler_is_reported() {
    let detector = detector(&ManualClock::default());
    let keys = KeyFunc::custom(NoMeta, |pod: &Pod| Ok(pod.name.clone()));
    let fifo = DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build();
    for name in ["a", "b", "c"] {
        fifo.add(pod(name)).unwrap();
    }
    for changes in [false, true, true] {
        let mut item = fifo.try_pop().unwrap();
        item.apply(|change| {
            let Change::Added { new, .. } = change else { unreachable!() };
            detector.add_object(new.clone());
            assert!(detector.compare_objects().is_ok() || new.name == "c");
            if changes {
                new.labels.lock().unwrap().push("change");
            }
        })
        .unwrap();
    }
    let altered = detector.compare_objects().unwrap_err();
    assert_eq!((altered.cache.as_str(), altered.count), ("pods", 2));
    assert_eq!(
        altered.to_string(),
        "cache \"pods\": 2 stored objects were changed in place: store a changed copy instead; the first was \
         [\"check\"] and is [\"check\", \"change\"]"
    );
    assert!(detector.compare_objects().is_err(), "the change is still reported");
}

#[test]
fn digest_that_misses_a_change_reports_none() {
    let detector = CacheMutationDetector::new("numbers", |number: &AtomicU64| {
        number.load(Ordering::SeqCst) % 10
    });
    let number = Arc::new(AtomicU64::new(1));
    detector.add_object(number.clone());
    number.store(11, Ordering::SeqCst);
    assert!(detector.compare_objects().is_ok(), "the digest is equal");
    number.store(12, Ordering::SeqCst);
    assert!(detector.compare_objects().is_err());
}

#[test]
fn object_is_watched_for_at_least_two_minutes_and_then_released() {
    let clock = ManualClock::default();
    let detector = detector(&clock);
    let old = pod("old");
    detector.add_object(old.clone());
    assert!(detector.compare_objects().is_ok());
    clock.advance(Duration::from_secs(119));
    let late = pod("late");
    detector.add_object(late.clone());
    for _ in 0..3 {
        clock.advance(Duration::from_secs(40));
        assert!(detector.compare_objects().is_ok());
    }
    assert_eq!(
        (Arc::strong_count(&old), Arc::strong_count(&late)),
        (2, 2),
        "watched for 239 and for 120 seconds"
    );
    late.labels.lock().unwrap().push("change");
    assert_eq!(detector.compare_objects().unwrap_err().count, 1);
    clock.advance(Duration::from_secs(42));
    assert!(detector.compare_objects().is_ok());
    assert_eq!((Arc::strong_count(&old), Arc::strong_count(&late)), (1, 1));
}
