//! Tests of deletions within a relist. A streamed list contains one if an object that it has
//! already listed is deleted.

use std::sync::Arc;

use deltafifo::{OfferError, Relist, StoreError};

use crate::common::{KNOWING, MODES, Mode, Obj, ObjMeta, Rig, nameless, obj, tombstone};

#[test]
fn relist_can_delete_keys_before_its_end() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("a", 1), obj("b", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 2), obj("c", 2), obj("d", 2)]).unwrap();
        relist.delete(obj("c", 3)).unwrap();
        relist.delete(tombstone("b", None)).unwrap();
        relist.delete(obj("unknown", 3)).unwrap();
        assert!(matches!(relist.delete(nameless()), Err(StoreError::Refused(OfferError::Key(_)))));
        relist.offer(vec![obj("b", 4)]).unwrap();
        assert_eq!(relist.commit("4").unwrap().deleted, 0);
        assert_eq!(rig.drain(), ["a: R2", "c: R2 D3", "d: R2", "b: D() R4"], "{mode:?}");
        assert_eq!(rig.stored(), ["a=2", "b=4", "d=2"]);
    }
}

/// Abandons a relist with deletions. The deletions belong to the relist, as the listed objects do,
/// so they do not populate the queue; only an offer outside of the relist does.
#[test]
fn abandoned_first_relist_with_deletions_does_not_count() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("known", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 2)]).unwrap();
        relist.delete(obj("a", 3)).unwrap();
        relist.delete(tombstone("known", None)).unwrap();
        relist.delete(obj("unknown", 3)).unwrap();
        drop(relist);
        assert!(!rig.fifo.has_synced(), "{mode:?}");
        let mut guard = rig.fifo.pop().unwrap();
        assert!(guard.is_in_initial_list(), "nothing has populated the queue, {mode:?}");
        rig.apply(&mut guard);
        guard.done();
        rig.drain();
        assert!(!rig.fifo.has_synced(), "{mode:?}");

        rig.fifo.replace(vec![obj("b", 4)], "4").unwrap();
        assert!(!rig.fifo.has_synced(), "the first complete list is not handled, {mode:?}");
        rig.drain();
        assert!(rig.fifo.has_synced(), "{mode:?}");
    }
}

/// Returns a rig whose transformer refuses objects with the number 13.
fn refusing(mode: Mode, known: &[Arc<Obj>]) -> Rig {
    let refuse = |object: Arc<Obj>| if object.n == 13 { Err("13".into()) } else { Ok(object) };
    Rig::knowing(mode, known, |builder| builder.transformer(refuse))
}

/// Returns whether the transformer refused a deletion of `key` within the relist.
fn is_refused(relist: &mut Relist<'_, Obj, ObjMeta>, key: &str) -> bool {
    match relist.delete(obj(key, 13)) {
        Ok(()) => false,
        Err(StoreError::Refused(OfferError::Transform { key: refused, .. })) => refused == key,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn deletion_within_a_relist_counts_although_its_object_is_refused() {
    for mode in MODES {
        let rig = refusing(mode, &[obj("known", 1)]);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("listed", 2), obj("pending", 2)]).unwrap();
        let mut listed = rig.fifo.try_pop().unwrap();
        rig.apply(&mut listed);
        assert!(
            is_refused(&mut relist, "listed") && is_refused(&mut relist, "pending"),
            "{mode:?}"
        );
        assert_eq!(is_refused(&mut relist, "known"), mode != Mode::Nowhere, "{mode:?}");
        assert!(
            !is_refused(&mut relist, "unknown"),
            "a missing object is not transformed, {mode:?}"
        );
        listed.done();
        let deleted = match mode {
            Mode::Nowhere => vec!["pending: R2 D(2)"],
            _ => vec!["pending: R2 D(2)", "known: D(1)", "listed: D(2)"],
        };
        assert_eq!(rig.drain(), deleted, "{mode:?}");
        assert_eq!(relist.commit("4").unwrap().deleted, 0, "{mode:?}");
        assert_eq!((rig.stored(), rig.fifo.pending_deltas()), (vec![], 0), "{mode:?}");
    }
}

#[test]
fn refused_live_deletion_names_its_key_so_that_a_tombstone_can_follow() {
    for mode in KNOWING {
        let rig = refusing(mode, &[obj("ns/known", 1)]);
        let Err(OfferError::Transform { key, .. }) = rig.fifo.delete(obj("ns/known", 13)) else {
            panic!("the object is not refused, {mode:?}")
        };
        assert_eq!(rig.drain(), [""; 0], "nothing was queued, as in client-go, {mode:?}");
        rig.fifo.delete(tombstone(&key, None)).unwrap();
        assert_eq!(rig.drain(), ["ns/known: D()"], "{mode:?}");
        assert_eq!(rig.stored(), [""; 0], "{mode:?}");
    }
}

/// Handles the next item and applies it. Returns whether it belongs to the initial list.
fn handle(rig: &Rig) -> bool {
    let mut guard = rig.fifo.try_pop().unwrap();
    let is_initial = guard.is_in_initial_list();
    rig.apply(&mut guard);
    guard.done();
    is_initial
}

#[test]
fn deletions_within_the_first_relist_are_initial() {
    for mode in MODES {
        for with_object in [true, false] {
            let rig = Rig::new(mode);
            let mut relist = rig.fifo.begin_replace();
            relist.offer(vec![obj("a", 1)]).unwrap();
            // If the queue knows no objects, the deletion counts only while the key is pending, or
            // if the key's handler requeues it.
            if mode != Mode::Nowhere {
                assert!(handle(&rig));
            }
            let deleted = if with_object {
                relist.delete(obj("a", 2))
            } else {
                relist.delete(tombstone("a", None))
            };
            deleted.unwrap();
            assert_eq!(relist.commit("2").unwrap().deleted, 0);
            assert!(!rig.fifo.has_synced(), "{mode:?}");
            rig.fifo.update(obj("other", 3)).unwrap();
            assert!(handle(&rig) && rig.fifo.has_synced(), "{mode:?}");
            assert!(!handle(&rig), "{mode:?}");
        }
    }
}

#[test]
fn deletion_without_effect_does_not_delay_the_sync() {
    for mode in MODES {
        // Once for a key that does not exist, once for a key whose handler deletes it.
        let rig = Rig::knowing(mode, &[obj("a", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 2)]).unwrap();
        relist.delete(obj("a", 3)).unwrap();
        let mut guard = rig.fifo.try_pop().unwrap();
        relist.delete(obj("unknown", 4)).unwrap();
        relist.delete(obj("a", 4)).unwrap();
        relist.commit("4").unwrap();
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

/// Checks that a deletion within a relist has no effect if the key's slot holds no object, and
/// exists only because the backlog still has an old entry of the slot.
#[test]
fn deletion_of_a_key_gone_past_the_backlog_does_not_delay_the_sync() {
    let rig = Rig::with(Mode::Fused, |builder| builder.live_lane(true));
    let mut relist = rig.fifo.begin_replace();
    relist.offer(vec![obj("first", 1), obj("a", 1)]).unwrap();
    relist.delete(obj("a", 2)).unwrap();
    assert!(handle(&rig), "a passed");
    relist.delete(obj("a", 3)).unwrap();
    relist.commit("3").unwrap();
    assert!(!rig.fifo.has_synced());
    assert!(handle(&rig) && rig.fifo.has_synced(), "only the first item is pending");
    assert_eq!((rig.fifo.try_pop().map(drop), rig.fifo.pending_deltas()), (None, 0));
}

#[test]
fn initial_marks_of_deletions_survive_superseded_and_abandoned_relists() {
    for mode in KNOWING {
        for superseded in [false, true] {
            let rig = Rig::knowing(mode, &[obj("a", 1)], |builder| builder);
            let mut first = rig.fifo.begin_replace();
            first.delete(obj("a", 2)).unwrap();
            let second = if superseded {
                let second = rig.fifo.begin_replace();
                assert!(matches!(first.delete(obj("a", 3)), Err(StoreError::Relist(_))));
                second
            } else {
                drop(first);
                rig.fifo.begin_replace()
            };
            second.commit("4").unwrap();
            assert!(!rig.fifo.has_synced(), "{mode:?}");
            let mut batch = rig.fifo.try_pop_batch(8).unwrap();
            let mut guard = batch.next().unwrap();
            assert!(guard.is_in_initial_list(), "{mode:?}");
            rig.apply(&mut guard);
            guard.done();
            assert!(batch.next().is_none() && rig.fifo.has_synced(), "{mode:?}");
        }
    }
}
