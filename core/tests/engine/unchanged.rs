//! Tests of relists that find unchanged objects: how these are recognised, skipped, and handed out
//! again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::{Mode, Obj, ObjMeta, Rig, obj, show, versioned};
use deltafifo::{DeltaFifo, Indexer, KeyFunc, Meta, NoMeta};

#[test]
fn probe_requests_all_but_known_idle_objects_of_an_equal_version() {
    let known = [
        obj("same", 1),
        obj("changed", 1),
        obj("pending", 1),
        obj("running", 1),
        versioned("none", 1, ""),
    ];
    let rig = Rig::knowing(Mode::Fused, &known, |builder| builder);
    rig.fifo.update(obj("running", 1)).unwrap();
    let guard = rig.fifo.pop().unwrap();
    rig.fifo.update(obj("pending", 1)).unwrap();
    let mut relist = rig.fifo.begin_replace();
    let probed = [
        ("same", "1"),
        ("changed", "2"),
        ("pending", "1"),
        ("running", "1"),
        ("none", ""),
        ("new", "1"),
        ("same", ""),
    ];
    assert_eq!(relist.probe(&probed).unwrap(), [false, true, true, true, true, true, true]);
    // The probe lists all of them, even those whose object is never offered.
    guard.done();
    assert_eq!(relist.commit("1").unwrap().deleted, 0);
    assert_eq!(rig.drain(), ["pending: U1"], "an unchanged object is not delivered");
    for mode in [Mode::Elsewhere, Mode::Nowhere] {
        let rig = Rig::knowing(mode, &[obj("same", 1), obj("gone", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        assert_eq!(
            relist.probe(&[("same", "1")]).unwrap(),
            [true],
            "only a fused store knows its versions"
        );
        assert_eq!(relist.commit("1").unwrap().deleted, usize::from(mode == Mode::Elsewhere));
    }
}

#[test]
fn object_listed_again_under_its_version_is_stored_and_delivered_with_notify_unchanged() {
    for skip in [false, true] {
        let rig = Rig::knowing(Mode::Fused, &[obj("a", 1), obj("b", 1), obj("c", 1)], |builder| {
            builder.skip_unchanged(skip).notify_unchanged(true)
        });
        let mut relist = rig.fifo.begin_replace();
        assert_eq!(relist.probe(&[("a", "1"), ("b", "2"), ("c", "1")]).unwrap(), [true; 3]);
        relist.offer(vec![versioned("a", 2, "1")]).unwrap();
        // An object that cannot be decoded is neither deleted nor handed out.
        relist.keep("b").unwrap();
        assert_eq!(relist.commit("1").unwrap().deleted, 0, "a probed key counts as listed");
        let guard = rig.fifo.pop().unwrap();
        assert!(guard.is_in_initial_list());
        guard.requeue();
        assert_eq!(rig.drain(), ["a: R2"]);
        assert_eq!(rig.stored(), ["a=2", "b=1", "c=1"]);
    }
}

#[test]
fn skip_unchanged_queues_only_changed_objects_and_still_sweeps() {
    let known = [
        obj("same", 1),
        obj("changed", 1),
        obj("gone", 1),
        obj("busy", 1),
        versioned("none", 1, ""),
    ];
    let rig = Rig::knowing(Mode::Fused, &known, |builder| builder.skip_unchanged(true));
    rig.fifo.update(obj("busy", 1)).unwrap();
    let list = vec![
        obj("same", 1),
        obj("changed", 2),
        obj("busy", 1),
        versioned("none", 2, ""),
        obj("new", 1),
    ];
    assert_eq!(rig.fifo.replace(list, "1").unwrap().deleted, 1);
    assert_eq!(rig.drain(), ["busy: U1 R1", "changed: R2", "none: R2", "new: R1", "gone: D(1)"]);
    assert_eq!(rig.fifo.replace(vec![obj("same", 1)], "2").unwrap().deleted, 4);
}

/// An accessor that returns names only.
struct Names;

impl Meta<Obj> for Names {
    fn namespace<'a>(&self, _object: &'a Obj) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(&object.name)
    }
}

#[test]
fn accessor_without_versions_skips_nothing() {
    let object = obj("x", 1);
    assert_eq!((Names.version(&object), Names.uid(&object)), (None, None));
    assert_eq!((NoMeta.namespace(&object), NoMeta.name(&object)), (None, None));
    let store = Indexer::builder(KeyFunc::meta_namespace(Names)).build().unwrap();
    store.add(object.clone()).unwrap();
    let fifo = DeltaFifo::over(store).skip_unchanged(true).build();
    fifo.replace(vec![object], "1").unwrap();
    assert_eq!(show(fifo.try_pop().unwrap().deltas()), "R1");
}

/// The accessor of `Obj`, which calls a function for each version that it reads.
struct Watched<F>(F);

impl<F: Fn(&Obj) + Send + Sync + 'static> Meta<Obj> for Watched<F> {
    fn namespace<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        ObjMeta.namespace(object)
    }

    fn name<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        ObjMeta.name(object)
    }

    fn version<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        (self.0)(object);
        ObjMeta.version(object)
    }
}

/// Returns a queue that skips unchanged objects, with an accessor that calls `asked` for each
/// version that it reads.
fn watched<F: Fn(&Obj) + Send + Sync + 'static>(asked: F) -> DeltaFifo<Obj, Watched<F>> {
    let store = Indexer::builder(KeyFunc::meta_namespace(Watched(asked))).build().unwrap();
    DeltaFifo::over(store).skip_unchanged(true).build()
}

#[test]
fn version_noted_in_the_slot_and_version_of_the_object_skip_equally() {
    let longest = "9".repeat(16);
    let lengths = if cfg!(miri) { &[33][..] } else { &[1, 32, 33, 39, 40] };
    for &length in lengths {
        for version in [
            "1",
            "7301",
            &longest,
            "0",
            "007",
            "+7",
            "7x",
            "x",
            "99999999999999999999",
            "18446744073709551617",
        ] {
            let asked = Arc::<AtomicUsize>::default();
            let count = asked.clone();
            let fifo = watched(move |object| {
                count.fetch_add(usize::from(object.n == 1), Ordering::Relaxed);
            });
            let key = "k".repeat(length);
            let lists = |version: &str| {
                fifo.replace(vec![versioned(&key, 2, version)], "2").unwrap();
                let mut shown = Vec::new();
                while let Some(mut item) = fifo.try_pop() {
                    shown.push(show(item.deltas()));
                    item.apply(|_| ()).unwrap();
                    item.done();
                }
                shown
            };
            fifo.add(versioned(&key, 1, version)).unwrap();
            assert_eq!(lists(version), ["A1 R2"], "{length} bytes, {version:?}");
            fifo.update(versioned(&key, 1, version)).unwrap();
            fifo.pop().unwrap().apply(|_| ()).unwrap();
            for _ in 0..2 {
                asked.store(0, Ordering::Relaxed);
                assert_eq!(lists(version), [""; 0], "{length} bytes, {version:?}: unchanged");
            }
            let is_noted =
                (length <= 32 || length > 39) && ["1", "7301", &longest].contains(&version);
            assert_eq!(asked.load(Ordering::Relaxed) == 0, is_noted, "{length} bytes, {version:?}");
            let mut relist = fifo.begin_replace();
            assert_eq!(
                relist.probe(&[(&key, version)]).unwrap(),
                [false],
                "{length} bytes, {version:?}"
            );
            drop(relist);
            for other in ["2", "07301", "17301", "", "8446744073709551617"] {
                assert_eq!(lists(other), ["R2"], "{length} bytes, {other:?} after another");
            }
        }
    }
}

#[test]
fn version_of_an_event_is_read_by_the_next_relist_only() {
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    let fifo = watched(move |object| {
        count.fetch_add(usize::from(object.n == 1), Ordering::Relaxed);
    });
    let reads = |action: &dyn Fn()| {
        asked.store(0, Ordering::Relaxed);
        action();
        asked.load(Ordering::Relaxed)
    };
    let handles = || while fifo.try_pop().map(|mut item| item.apply(|_| ()).unwrap()).is_some() {};
    let lists = || {
        fifo.replace(vec![versioned("x", 2, "7")], "1").unwrap();
    };
    let probes = || assert_eq!(fifo.begin_replace().probe(&[("x", "7")]).unwrap(), [false]);
    let actions: [(&str, &dyn Fn()); 2] = [("a list", &lists), ("a probe", &probes)];
    for (name, relists) in actions {
        let updates = || {
            fifo.update(versioned("x", 2, "6")).unwrap();
            fifo.update(versioned("x", 1, "7")).unwrap();
            handles();
        };
        assert_eq!(reads(&updates), 0, "updates before {name}");
        assert_ne!(reads(relists), 0, "{name} after an update");
        assert_eq!(reads(relists), 0, "{name} after another");
        assert!(fifo.try_pop().is_none(), "{name} finds the object unchanged");
    }
}

#[test]
fn accessor_panic_while_noting_a_version_propagates_after_the_handler() {
    let (fifo, panics) = brittle();
    fifo.replace(vec![obj(&unnoted(77), 1)], "1").unwrap();
    fifo.replace(vec![obj(&unnoted(77), 2)], "2").unwrap();
    panics.store(true, Ordering::Relaxed);
    let mut notified = 0;
    let mut item = fifo.pop().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| item.apply(|_| notified += 1))).is_err());
    item.done();
    assert_eq!(notified, 1);
    assert_eq!(
        fifo.store().get_by_key(&unnoted(77)).map(|object| object.n),
        Some(2),
        "the rest is applied without a notification"
    );
    assert_eq!((fifo.pending_deltas(), fifo.has_synced()), (0, true));
}

#[test]
fn skip_unchanged_does_not_skip_the_second_of_two_states_in_one_list() {
    let rig = Rig::knowing(Mode::Fused, &[obj("x", 1)], |builder| builder.skip_unchanged(true));
    rig.fifo.replace(vec![obj("x", 2), obj("x", 1)], "1").unwrap();
    assert_eq!(rig.drain(), ["x: R2 R1"], "x is pending when its second state is listed");
    assert_eq!(rig.stored(), ["x=1"]);
}

#[test]
fn version_changed_by_a_transformer_is_never_unchanged() {
    for skip in [false, true] {
        let rig = Rig::with(Mode::Fused, |builder| {
            let builder = builder.skip_unchanged(skip);
            builder
                .transformer(|object: Arc<Obj>| Ok(versioned(&object.name, object.n, "rewritten")))
        });
        rig.know([obj("x", 1)]);
        let mut relist = rig.fifo.begin_replace();
        assert_eq!(relist.probe(&[("x", "rewritten"), ("x", "1")]).unwrap(), [true, true]);
        relist.offer(vec![versioned("x", 2, "rewritten")]).unwrap();
        relist.commit("1").unwrap();
        assert_eq!(rig.drain(), ["x: R2"]);
    }
}

/// Returns a key that is so long that its slot has no room for a version. The queue then reads the
/// version from the object.
fn unnoted(place: usize) -> String {
    format!("p-{place:034}")
}

/// Returns a queue whose accessor, once it is armed, panics for the version of one object.
fn brittle() -> (DeltaFifo<Obj, impl Meta<Obj>>, Arc<AtomicBool>) {
    let panics = Arc::<AtomicBool>::default();
    let is_on = panics.clone();
    let fifo = watched(move |object| {
        let panics = object.name == unnoted(77) && object.n == 1 && is_on.load(Ordering::Relaxed);
        assert!(!panics, "expected by this test");
    });
    (fifo, panics)
}

#[test]
fn accessor_panic_within_a_page_loses_no_pushed_object() {
    let (objects, rounds) = if cfg!(miri) { (90, 1) } else { (200, 4) };
    let page = |n: u64| (0..objects).map(|place| obj(&unnoted(place), n)).collect::<Vec<_>>();
    // The position of the panic depends on the hash, which is seeded for each queue.
    for _ in 0..rounds {
        let (fifo, panics) = brittle();
        for object in page(1) {
            fifo.add(object).unwrap();
        }
        let handle_all = || {
            let mut handled = 0;
            while let Some(mut popped) = fifo.try_pop() {
                popped.apply(|_| ()).unwrap();
                popped.done();
                handled += 1;
            }
            handled
        };
        assert_eq!(handle_all(), objects);
        panics.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| fifo.replace(page(2), "1"))).is_err());
        let pending = fifo.list_keys().len();
        assert_eq!(handle_all(), pending, "pending keys are in the queue");
        assert_eq!(fifo.pending_deltas(), 0);
    }
}

#[test]
fn list_at_a_lower_version_than_the_last_skips_no_object_of_an_equal_version() {
    let list = |n| vec![versioned("a", n, "900"), versioned("b", 1, "10")];
    for (second, stored) in [("950", 2), ("1001", 1), ("0", 1)] {
        let rig = Rig::knowing(Mode::Fused, &[], |builder| builder.skip_unchanged(true));
        rig.fifo.replace(list(1), "1000").unwrap();
        rig.drain();
        rig.fifo.replace(list(2), second).unwrap();
        rig.drain();
        assert_eq!(rig.stored(), [format!("a={stored}"), "b=1".to_owned()], "a list at {second}");
    }
}
