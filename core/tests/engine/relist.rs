//! Tests of relists in several pages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::common::{
    KNOWING, MODES, Mode, Obj, ObjMeta, Rig, deltas, keys, nameless, obj, show, versioned,
};
use deltafifo::DeltaType::Added;
use deltafifo::{
    BoxError, DeltaFifo, Indexer, KeyError, KeyFunc, KnownObjects, OfferError, Refused,
    RelistError, StoreError,
};

#[test]
fn pages_are_popped_before_the_commit_and_deletions_after_it() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("gone", 1), obj("kept", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        relist.expect(1000);
        relist.offer(vec![obj("a", 2)]).unwrap();
        assert_eq!(rig.drain(), ["a: R2"]);
        relist.offer(vec![]).unwrap();
        relist.offer(vec![obj("kept", 2), obj("b", 2)]).unwrap();
        assert_eq!(rig.fifo.resource_version(), None);
        assert_eq!(relist.commit("7").unwrap().deleted, 1);
        assert_eq!(rig.drain(), ["kept: R2", "b: R2", "gone: D(1)"], "{mode:?}");
        assert_eq!(rig.stored(), ["a=2", "b=2", "kept=2"]);
        assert_eq!(rig.fifo.resource_version().as_deref(), Some("7"));
    }
}

#[test]
fn abandoned_relist_deletes_nothing_and_does_not_count_as_the_first() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("old", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 1)]).unwrap();
        drop(relist);
        assert!(!rig.fifo.has_synced());
        let mut guard = rig.fifo.pop().unwrap();
        assert!(guard.is_in_initial_list());
        rig.apply(&mut guard);
        guard.done();
        assert!(!rig.fifo.has_synced() && rig.fifo.try_pop().is_none());
        rig.fifo.add(obj("b", 1)).unwrap();
        assert!(rig.fifo.has_synced(), "the abandoned relist does not count, so the add populates");
    }
}

#[test]
fn add_during_an_abandoned_first_relist_populates_at_the_abandon() {
    let fifo = Rig::new(Mode::Fused).fifo;
    let relist = fifo.begin_replace();
    fifo.add(obj("a", 1)).unwrap();
    assert!(!fifo.has_synced());
    drop(relist);
    assert!(fifo.has_synced());
}

#[test]
fn superseded_relist_fails_on_every_call_and_deletes_nothing() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("old", 1)], |builder| builder);
        let mut first = rig.fifo.begin_replace();
        first.offer(vec![obj("a", 1)]).unwrap();
        let mut second = rig.fifo.begin_replace();
        assert!(matches!(first.offer(vec![obj("x", 1)]), Err(RelistError::Superseded)));
        assert!(matches!(first.probe(&[("old", "1")]), Err(RelistError::Superseded)));
        assert!(matches!(first.keep("old"), Err(RelistError::Superseded)));
        let deleted = first.delete(obj("old", 2));
        assert!(matches!(deleted, Err(StoreError::Relist(RelistError::Superseded))));
        assert!(matches!(first.commit("1"), Err(RelistError::Superseded)));
        assert_eq!(rig.fifo.resource_version(), None);
        second.keep("old").unwrap();
        second.offer(vec![obj("b", 2)]).unwrap();
        // Only the first relist listed a.
        assert_eq!(second.commit("2").unwrap().deleted, 1);
        assert_eq!(rig.drain(), ["a: R1 D(1)", "b: R2"], "{mode:?}");
        assert!(rig.fifo.has_synced());
    }
}

#[test]
fn drop_of_a_superseded_relist_does_not_affect_the_current_one() {
    let rig = Rig::new(Mode::Fused);
    let first = rig.fifo.begin_replace();
    let mut second = rig.fifo.begin_replace();
    drop(first);
    rig.fifo.add(obj("x", 1)).unwrap();
    assert!(!rig.fifo.has_synced(), "the second still holds the initial population");
    second.offer(vec![obj("a", 1)]).unwrap();
    second.commit("1").unwrap();
    let committed_then_stale = rig.fifo.begin_replace();
    rig.fifo.replace(vec![obj("a", 2), obj("x", 2)], "3").unwrap();
    assert!(matches!(committed_then_stale.commit("2"), Err(RelistError::Superseded)));
    assert_eq!(rig.fifo.resource_version().as_deref(), Some("3"));
    assert_eq!(rig.drain(), ["x: A1 R2", "a: R1 R2"]);
}

#[test]
fn key_written_during_a_relist_is_not_swept() {
    for mode in MODES {
        for handled in [false, true] {
            let rig = Rig::knowing(
                mode,
                &[obj("known", 1), obj("batched", 1), obj("gone", 1)],
                |builder| builder,
            );
            let relist = rig.fifo.begin_replace();
            rig.fifo.update(obj("known", 2)).unwrap();
            rig.fifo.add(obj("new", 2)).unwrap();
            rig.fifo.update_batch(vec![obj("batched", 2), obj("batched new", 2)]).unwrap();
            if handled {
                rig.drain();
            }
            let deleted = relist.commit("1").unwrap().deleted;
            assert_eq!(deleted, usize::from(mode != Mode::Nowhere), "{mode:?} {handled}");
            rig.drain();
            if mode != Mode::Nowhere {
                assert_eq!(rig.stored(), ["batched new=2", "batched=2", "known=2", "new=2"]);
            }
        }
    }
}

#[test]
fn key_from_add_if_not_present_during_a_relist_is_not_swept() {
    for mode in MODES {
        for handled in [false, true] {
            let rig = Rig::new(mode);
            let relist = rig.fifo.begin_replace();
            rig.fifo.add_if_not_present(deltas([(Added, obj("new", 2))])).unwrap();
            if handled {
                rig.drain();
            }
            assert_eq!(relist.commit("1").unwrap().deleted, 0, "{mode:?} handled {handled}");
        }
    }
}

#[test]
fn resync_during_a_relist_does_not_count_as_listing() {
    for mode in KNOWING {
        for handled in [false, true] {
            let rig = Rig::knowing(mode, &[obj("a", 1), obj("gone", 1)], |builder| builder);
            let mut relist = rig.fifo.begin_replace();
            rig.fifo.resync();
            if handled {
                rig.drain();
            }
            relist.offer(vec![obj("a", 2)]).unwrap();
            relist.commit("1").unwrap();
            rig.drain();
            assert_eq!(
                rig.stored(),
                ["a=2"],
                "{mode:?} handled {handled}: the unlisted key is deleted"
            );
        }
    }
}

#[test]
fn listed_key_stays_listed_when_its_slot_is_replaced() {
    for mode in KNOWING {
        for how in ["offer", "probe", "keep", "update"] {
            let rig = Rig::knowing(mode, &[obj("x", 1)], |builder| builder);
            let mut relist = rig.fifo.begin_replace();
            match how {
                "offer" => drop(relist.offer(vec![obj("x", 2)]).unwrap()),
                "probe" => drop(relist.probe(&[("x", "1")]).unwrap()),
                "keep" => relist.keep("x").unwrap(),
                _ => rig.fifo.update(obj("x", 2)).unwrap(),
            }
            rig.drain();
            // Over an external store the slot was retired, and the Sync creates another one.
            rig.fifo.resync();
            assert_eq!(relist.commit("1").unwrap().deleted, 0, "{mode:?} {how}");
            assert!(rig.drain()[0].starts_with("x: S"));
        }
    }
}

#[test]
fn pops_and_requeues_work_during_a_relist() {
    for mode in MODES {
        let rig = Rig::new(mode);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 1), obj("b", 1)]).unwrap();
        let guard = rig.fifo.pop().unwrap();
        relist.offer(vec![obj("a", 2)]).unwrap();
        guard.requeue();
        relist.commit("1").unwrap();
        assert_eq!(rig.drain(), ["b: R1", "a: R1 R2"], "{mode:?}");
        assert!(rig.fifo.has_synced());
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
}

#[test]
fn refused_object_does_not_end_the_relist() {
    let rig = Rig::knowing(Mode::Fused, &[obj("bad", 1)], |builder| builder);
    let mut relist = rig.fifo.begin_replace();
    let refused = relist.offer(vec![obj("a", 1), nameless(), obj("b", 1)]).unwrap();
    assert!(
        matches!(&refused[..], [Refused { index: 1, source: OfferError::Key(KeyError::NoName) }]),
        "{refused:?}"
    );
    relist.keep("bad").unwrap();
    assert_eq!(relist.commit("1").unwrap().deleted, 0);
    assert_eq!(rig.drain(), ["a: R1", "b: R1"]);
    assert_eq!(rig.stored(), ["a=1", "b=1", "bad=1"], "the last good object stays");
}

#[test]
fn object_refused_by_the_transformer_in_a_relist_is_kept() {
    for mode in MODES {
        for threads in [1, 2] {
            let rig =
                Rig::knowing(mode, &[obj("a", 1), obj("bad", 1), obj("gone", 1)], |builder| {
                    let refuse = |object: Arc<Obj>| {
                        if object.n == 13 { Err("13".into()) } else { Ok(object) }
                    };
                    builder.transformer(refuse).relist_threads(threads).ordered_walks(true)
                });
            let mut page: Vec<_> = (0..LARGE).map(|place| obj(&format!("p-{place}"), 1)).collect();
            page[7] = versioned("bad", 13, "v13");
            page[LARGE - 2] = versioned("new", 13, "");
            page.push(obj("a", 2));
            let mut relist = rig.fifo.begin_replace();
            let refused = relist.offer(page).unwrap();
            let failures: Vec<_> =
                refused.iter().map(|refused| (refused.index, refused.source.to_string())).collect();
            assert_eq!(failures[0].0, 7);
            assert!(
                failures[0].1.contains("\"bad\"") && failures[0].1.contains("v13"),
                "key and version are reported: {failures:?}"
            );
            assert_eq!((failures.len(), failures[1].0), (2, LARGE - 2));
            let known = usize::from(mode != Mode::Nowhere);
            assert_eq!(relist.commit("1").unwrap().deleted, known, "{mode:?}: only unlisted keys");
            assert_eq!(rig.drain().len(), LARGE - 2 + 1 + known, "{mode:?}");
        }
    }
}

#[test]
fn superseded_relist_stops_within_its_page() {
    // Static, because the threads that a transformer starts outlive it.
    static RIGS: [OnceLock<Rig>; 2] = [const { OnceLock::new() }; 2];
    for (threads, rig) in (1..).zip(&RIGS) {
        let newer = Arc::new(OnceLock::<Box<dyn Fn() + Send + Sync>>::new());
        let in_transformer = newer.clone();
        let rig = rig.get_or_init(|| {
            Rig::with(Mode::Fused, |builder| {
                builder.relist_threads(threads).transformer(move |object: Arc<Obj>| {
                    if let (1, Some(begin)) = (object.n, in_transformer.get()) {
                        begin();
                    }
                    Ok(object)
                })
            })
        });
        let open = Arc::new(Mutex::new(None));
        let mut older = rig.fifo.begin_replace();
        let opened = open.clone();
        let begin = move || {
            let mut relist = rig.fifo.begin_replace();
            relist.offer(vec![obj("k", 2)]).unwrap();
            *opened.lock().unwrap() = Some(relist);
        };
        newer.set(Box::new(begin)).ok().unwrap();
        assert!(matches!(
            older.offer(vec![obj("j", 3), obj("k", 1)]),
            Err(RelistError::Superseded)
        ));
        assert_eq!(rig.fifo.pending_deltas(), 1, "objects that are not pushed are not counted");
        assert_eq!(
            show(&rig.fifo.get_by_key("k").unwrap()),
            "R2",
            "the newer relist's object is the newest"
        );
        assert!(matches!(older.commit("1"), Err(RelistError::Superseded)));
        assert!(!rig.fifo.has_synced());
        assert_eq!(open.lock().unwrap().take().unwrap().commit("2").unwrap().deleted, 0);
        assert_eq!(rig.drain(), ["k: R2"]);
        assert!(rig.fifo.has_synced(), "no mark of the older relist remains");
        assert_eq!(rig.fifo.resource_version().as_deref(), Some("2"));
    }
}

/// An external store that calls a function while its keys are listed.
struct Elsewhere {
    keys: Vec<&'static str>,
    listing: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl KnownObjects<Obj> for Elsewhere {
    fn list_keys(&self) -> Vec<String> {
        if let Some(listing) = self.listing.get() {
            listing();
        }
        self.keys.iter().map(|&key| key.to_owned()).collect()
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Obj>>, BoxError> {
        Ok(self.keys.contains(&key).then(|| obj(key, 1)))
    }
}

#[test]
fn relist_begun_during_anothers_sweep_keeps_its_listed_keys() {
    // Static, because a relist that the store begins outlives the callback.
    static FIFO: OnceLock<DeltaFifo<Obj, ObjMeta>> = OnceLock::new();
    let store = Arc::new(Elsewhere { keys: vec!["gone", "live"], listing: OnceLock::new() });
    let keys = KeyFunc::meta_namespace(ObjMeta);
    let fifo = FIFO.get_or_init(|| DeltaFifo::builder(keys).known_objects(store.clone()).build());
    let open = Arc::new(Mutex::new(None));
    let older = fifo.begin_replace();
    let (opened, once) = (open.clone(), AtomicBool::new(false));
    let begin = move || {
        if !once.swap(true, Ordering::Relaxed) {
            let mut relist = fifo.begin_replace();
            relist.keep("live").unwrap();
            *opened.lock().unwrap() = Some(relist);
        }
    };
    store.listing.set(Box::new(begin)).ok().unwrap();
    assert!(matches!(older.commit("1"), Err(RelistError::Superseded)));
    assert_eq!(fifo.pending_deltas(), 0, "an ended relist deletes nothing");
    assert!(fifo.resource_version().is_none() && !fifo.has_synced());
    assert_eq!(open.lock().unwrap().take().unwrap().commit("2").unwrap().deleted, 1);
    let popped = fifo.try_pop().unwrap();
    assert_eq!(popped.key(), "gone");
    popped.done();
    assert!(fifo.try_pop().is_none() && fifo.has_synced());
}

#[test]
fn wrong_expected_size_is_harmless() {
    let rig = Rig::new(Mode::Fused);
    // Miri would take hours to create the largest table.
    for hint in [0, 1, if cfg!(miri) { 1_000 } else { usize::MAX }] {
        let mut relist = rig.fifo.begin_replace();
        let hinted = catch_unwind(AssertUnwindSafe(|| relist.expect(hint)));
        assert!(hinted.is_ok(), "expect({hint}) panicked, though servers send any number");
        relist.offer(vec![obj("a", 1)]).unwrap();
        relist.commit("1").unwrap();
    }
    assert_eq!(rig.drain(), ["a: R1 R1 R1"]);
}

#[test]
fn store_panic_at_commit_abandons_the_relist() {
    let rig = Rig::new(Mode::Elsewhere);
    rig.outside.once_after_list(|_| panic!("expected by this test"));
    let committed = catch_unwind(AssertUnwindSafe(|| rig.fifo.replace(vec![], "1")));
    assert!(committed.is_err());
    rig.fifo.add(obj("a", 1)).unwrap();
    assert!(rig.fifo.has_synced(), "the relist is over and claims nothing any more");
}

/// Returns a large list: `unique` names in a scattered order, each of them repeated.
fn large(count: usize, unique: usize) -> Vec<Arc<Obj>> {
    (0..count)
        .map(|place| obj(&format!("ns-{}/p-{}", place % 7, place * 7919 % unique), place as u64))
        .collect()
}

/// The length of a page that has several strides if one thread or two join it.
const LARGE: usize = if cfg!(miri) { 80 } else { 80_000 };

#[test]
fn large_page_keeps_list_order_on_any_number_of_threads() {
    for threads in [0, 1, 2, 3, 7] {
        let rig = Rig::with(Mode::Fused, |builder| builder.relist_threads(threads));
        let page: Vec<_> = (0..LARGE)
            .map(|place| obj(&format!("p-{}", place * 7919 % LARGE), place as u64))
            .collect();
        let expected: Vec<_> =
            page.iter().map(|object| format!("{}: R{}", object.name, object.n)).collect();
        rig.fifo.replace(page, "1").unwrap();
        assert_eq!(rig.fifo.pending_deltas(), LARGE);
        assert!(rig.drain() == expected, "{threads} threads: the order differs");
        assert!(rig.fifo.has_synced());
    }
}

#[test]
fn duplicates_in_the_strides_of_threads_keep_their_order() {
    for threads in [1, 2, 3] {
        let rig = Rig::with(Mode::Fused, |builder| builder.relist_threads(threads));
        let page = large(LARGE, LARGE / 10);
        let mut expected = Vec::<(String, Vec<u64>)>::new();
        let mut places = std::collections::HashMap::new();
        for object in &page {
            let key = keys().key(object).unwrap();
            let place = *places.entry(key.clone()).or_insert_with(|| {
                expected.push((key, Vec::new()));
                expected.len() - 1
            });
            expected[place].1.push(object.n);
        }
        rig.fifo.replace(page, "1").unwrap();
        for (key, states) in &expected {
            let popped = rig.fifo.try_pop().unwrap();
            assert_eq!(popped.key(), key, "{threads} threads");
            let seen: Vec<_> =
                popped.deltas().iter().map(|delta| delta.object.object().unwrap().n).collect();
            assert_eq!(&seen, states, "{threads} threads: {key}");
            popped.done();
        }
        assert!(rig.fifo.try_pop().is_none() && rig.fifo.has_synced());
    }
}

#[test]
fn failing_key_function_in_a_large_page_queues_exactly_the_prefix() {
    for threads in [1, 2, 3] {
        for bad in [0, 1, LARGE / 2, LARGE / 2 + 1, LARGE - 1] {
            let rig = Rig::with(Mode::Fused, |builder| builder.relist_threads(threads));
            let mut page: Vec<_> = (0..LARGE).map(|place| obj(&format!("p-{place}"), 1)).collect();
            page[bad] = nameless();
            let error = rig.fifo.replace(page, "1").unwrap_err();
            assert!(
                matches!(error, RelistError::Refused { index, .. } if index == bad),
                "{threads} {bad}: {error}"
            );
            assert_eq!(rig.fifo.pending_deltas(), bad);
            assert_eq!(rig.drain().len(), bad);
            assert!(!rig.fifo.has_synced());
        }
    }
}

#[test]
fn panicking_key_function_in_a_large_page_loses_no_queued_object() {
    // Several strides on each number of threads. The panic happens in the last.
    let count = if cfg!(miri) { 100 } else { 100_000 };
    for threads in [1, 2] {
        let calls = Arc::new(AtomicUsize::new(0));
        let panics_at = count - 10;
        let counter = calls.clone();
        let keys = KeyFunc::custom(ObjMeta, move |object: &Obj| {
            assert!(counter.fetch_add(1, Ordering::Relaxed) != panics_at, "expected by this test");
            Ok(object.name.clone())
        });
        let fifo = DeltaFifo::over(Indexer::builder(keys).build().unwrap())
            .relist_threads(threads)
            .build();
        let page: Vec<_> =
            (0..count).map(|place| obj(&format!("p-{place}"), place as u64)).collect();
        let weak: Vec<_> = page.iter().map(Arc::downgrade).collect();
        assert!(catch_unwind(AssertUnwindSafe(|| fifo.replace(page, "1"))).is_err());
        assert!(!fifo.has_synced());
        let pending = fifo.list_keys().len();
        assert_eq!(fifo.pending_deltas(), pending);
        for place in 0..pending {
            let popped = fifo.try_pop().expect("pending keys are in the queue");
            assert_eq!(popped.key(), format!("p-{place}"));
            popped.done();
        }
        assert!(fifo.try_pop().is_none());
        assert!(weak.iter().all(|object| object.strong_count() == 0), "every object is released");
        fifo.replace(vec![obj("p-0", 1)], "2").unwrap();
        fifo.try_pop().unwrap().done();
        assert!(fifo.has_synced());
    }
}

#[test]
fn requeued_item_of_an_abandoned_first_relist_does_not_populate() {
    for mode in MODES {
        let rig = Rig::new(mode);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 1)]).unwrap();
        drop(rig.fifo.pop().unwrap());
        drop(relist);
        assert!(!rig.fifo.has_synced(), "a cancelled handler populated the queue, {mode:?}");
        rig.fifo.pop().unwrap().requeue();
        assert!(!rig.fifo.has_synced(), "a requeue populated the queue, {mode:?}");

        rig.fifo.replace(vec![obj("a", 2), obj("b", 2)], "1").unwrap();
        assert!(!rig.fifo.has_synced(), "nothing of the list is handled, {mode:?}");
        rig.drain();
        assert!(rig.fifo.has_synced());
    }
}

/// Checks that a commit queues only one deletion of a key, although the external store still lists
/// the key after that deletion was handled.
#[test]
fn commit_deletes_a_key_once_despite_a_late_store() {
    let rig = Rig::knowing(Mode::Elsewhere, &[obj("x", 1)], |builder| builder);
    rig.fifo.update(obj("x", 2)).unwrap();
    let relist = rig.fifo.begin_replace();
    let fifo = rig.fifo.clone();
    rig.outside.once_after_list(move |_| fifo.try_pop().unwrap().done());
    assert_eq!(relist.commit("1").unwrap().deleted, 1);
    assert_eq!(rig.drain(), [""; 0]);
}

#[test]
fn relist_starts_at_most_one_thread_per_shard() {
    let rig = Rig::with(Mode::Fused, |builder| builder.relist_threads(usize::MAX));
    rig.fifo.replace((0..LARGE as u64).map(|n| obj(&format!("k{n}"), n)).collect(), "1").unwrap();
    assert_eq!(rig.drain().len(), LARGE);
}

/// Commits a first relist that deletes a key whose handler runs. The handler deletes the key
/// itself, so the relist's deletion has no effect. This deletion still belongs to the initial
/// population, and ends with that handler.
#[test]
fn swept_key_deleted_by_its_own_handler_does_not_block_the_sync() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("a", 1)], |builder| builder);
        let relist = rig.fifo.begin_replace();
        rig.fifo.delete(obj("a", 1)).unwrap();
        let mut guard = rig.fifo.try_pop().unwrap();
        assert_eq!(relist.commit("1").unwrap().deleted, 1);
        assert!(!rig.fifo.has_synced(), "{mode:?}");
        rig.apply(&mut guard);
        guard.done();
        assert!(rig.fifo.has_synced(), "{mode:?}");
        assert_eq!(
            (rig.fifo.try_pop().map(drop), rig.fifo.pending_deltas()),
            (None, 0),
            "{mode:?}"
        );
    }
}

#[test]
fn relist_that_keeps_unlisted_keys_deletes_nothing_and_is_complete() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("a", 1), obj("b", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 2)]).unwrap();
        relist.keep_unlisted();
        relist.offer(vec![obj("c", 2)]).unwrap();
        assert_eq!(relist.commit("2").unwrap().deleted, 0);
        assert_eq!(rig.drain(), ["a: R2", "c: R2"], "{mode:?}");
        assert_eq!(rig.stored(), ["a=2", "b=1", "c=2"]);
        assert!(rig.fifo.has_synced());
        assert_eq!(rig.fifo.resource_version().as_deref(), Some("2"));
        assert_eq!(
            rig.fifo.replace(vec![obj("c", 2)], "3").unwrap().deleted,
            2,
            "the next one deletes"
        );
    }
}
