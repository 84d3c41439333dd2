//! Tests of the applied version: when a marker counts as reached, and which versions cannot be
//! compared.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{KNOWING, MODES, Mode, Rig, deltas, obj};
use deltafifo::{DeltaType, VersionError, WaitError};

fn tracked(mode: Mode) -> Rig {
    Rig::with(mode, |builder| builder.track_applied(true))
}

fn laned(mode: Mode) -> Rig {
    Rig::with(mode, |builder| builder.track_applied(true).live_lane(true))
}

fn applied(rig: &Rig) -> String {
    rig.fifo.store().applied_version().unwrap_or_default()
}

#[test]
fn bookmark_is_applied_once_all_earlier_offers_are_handled() {
    for mode in MODES {
        let rig = tracked(mode);
        rig.fifo.add(obj("a", 1)).unwrap();
        rig.fifo.add(obj("b", 1)).unwrap();
        rig.fifo.bookmark("7").unwrap();
        rig.fifo.add(obj("c", 1)).unwrap();
        let (a, b) = (rig.fifo.try_pop().unwrap(), rig.fifo.try_pop().unwrap());
        b.done();
        assert_eq!(applied(&rig), "", "{mode:?}: a's handler still runs");
        a.done();
        assert_eq!(applied(&rig), "7", "{mode:?}");
        rig.fifo.bookmark("8").unwrap();
        assert_eq!(applied(&rig), "7", "{mode:?}: c waits");
        rig.drain();
        assert_eq!(applied(&rig), "8", "{mode:?}");
    }
}

#[test]
fn bookmark_in_an_empty_queue_is_applied_at_once() {
    for rig in [tracked(Mode::Fused), laned(Mode::Fused)] {
        rig.fifo.bookmark("7").unwrap();
        assert_eq!(applied(&rig), "7");
        assert!(
            !rig.fifo.has_synced() && rig.fifo.try_pop().is_none(),
            "a bookmark is not an offer"
        );
    }
}

#[test]
fn applied_version_is_the_greatest_and_compares_as_a_number() {
    let rig = tracked(Mode::Fused);
    for (version, applies) in [("9", "9"), ("10", "10"), ("9", "10"), ("0011", "11"), ("3", "11")] {
        rig.fifo.bookmark(version).unwrap();
        assert_eq!(applied(&rig), applies, "after {version}");
    }
    rig.fifo.store().wait_for_resource_version("010").unwrap();
}

#[test]
fn non_numeric_bookmark_is_refused_and_leaves_no_marker() {
    let rig = tracked(Mode::Fused);
    for version in ["", "v7", "-1", "7 "] {
        let refused = VersionError::NotANumber { version: version.to_owned() };
        assert_eq!(rig.fifo.bookmark(version), Err(refused.clone()));
        assert_eq!(
            rig.fifo.store().wait_for_resource_version(version),
            Err(WaitError::Version(refused))
        );
    }
    assert_eq!(rig.fifo.store().applied_version(), None);
}

#[test]
fn failed_or_panicked_item_counts_as_handled() {
    let rig = tracked(Mode::Fused);
    for key in ["a", "b", "c"] {
        rig.fifo.add(obj(key, 1)).unwrap();
    }
    rig.fifo.bookmark("7").unwrap();
    rig.fifo.process(|_| Err::<(), _>("fails")).unwrap_err();
    rig.fifo.process(|_| -> Result<(), &str> { panic!("expected by this test") }).unwrap_err();
    assert_eq!(applied(&rig), "");
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = rig.fifo.try_pop().unwrap();
        panic!("expected by this test");
    }));
    assert!(unwound.is_err());
    assert_eq!(applied(&rig), "7");
}

#[test]
fn requeued_or_cancelled_item_does_not_count_as_handled() {
    for mode in MODES {
        let rig = tracked(mode);
        rig.fifo.add(obj("a", 1)).unwrap();
        rig.fifo.add(obj("b", 1)).unwrap();
        rig.fifo.bookmark("7").unwrap();
        let (a, b) = (rig.fifo.try_pop().unwrap(), rig.fifo.try_pop().unwrap());
        // The deltas go to the tail, behind another marker.
        rig.fifo.bookmark("8").unwrap();
        a.requeue();
        drop(b);
        rig.fifo.bookmark("9").unwrap();
        assert_eq!(applied(&rig), "", "{mode:?}");
        rig.fifo.try_pop().unwrap().done();
        assert_eq!(applied(&rig), "", "{mode:?}: b is still to be handled");
        rig.fifo.try_pop().unwrap().done();
        assert_eq!(applied(&rig), "9", "{mode:?}");
    }
}

#[test]
fn offer_during_a_handler_counts_from_its_arrival() {
    for mode in KNOWING {
        let rig = tracked(mode);
        rig.fifo.add(obj("a", 1)).unwrap();
        let mut guard = rig.fifo.try_pop().unwrap();
        rig.fifo.bookmark("7").unwrap();
        rig.fifo.update(obj("a", 2)).unwrap();
        rig.fifo.bookmark("8").unwrap();
        rig.fifo.delete(obj("a", 2)).unwrap();
        rig.fifo.bookmark("9").unwrap();
        rig.apply(&mut guard);
        guard.done();
        assert_eq!(applied(&rig), "7", "{mode:?}: the offer during the handler is queued");
        rig.drain();
        assert_eq!(applied(&rig), "9", "{mode:?}");
    }
}

#[test]
fn offer_made_void_by_its_handler_holds_no_version_back() {
    let rig = tracked(Mode::Fused);
    rig.fifo.add(obj("a", 1)).unwrap();
    rig.handle();
    rig.fifo.delete(obj("a", 1)).unwrap();
    let mut guard = rig.fifo.try_pop().unwrap();
    // Decided at the end of the handler, when the key no longer exists.
    rig.fifo.delete(obj("a", 1)).unwrap();
    rig.fifo.bookmark("7").unwrap();
    assert_eq!(applied(&rig), "");
    rig.apply(&mut guard);
    guard.done();
    assert!(rig.fifo.try_pop().is_none());
    assert_eq!(applied(&rig), "7");
}

#[test]
fn batch_holds_versions_back_until_its_items_have_ended() {
    let rig = tracked(Mode::Fused);
    for (key, version) in [("a", "1"), ("b", "2"), ("c", "3")] {
        rig.fifo.add(obj(key, 1)).unwrap();
        rig.fifo.bookmark(version).unwrap();
    }
    let mut batch = rig.fifo.try_pop_batch(9).unwrap();
    let (a, b) = (batch.next().unwrap(), batch.next().unwrap());
    b.done();
    assert_eq!(applied(&rig), "");
    // Dropping the batch does not end its items: the handler of a still runs.
    drop(batch);
    assert_eq!(applied(&rig), "");
    a.done();
    assert_eq!(applied(&rig), "2", "c was given back");
    rig.drain();
    assert_eq!(applied(&rig), "3");
}

#[test]
fn item_given_back_by_a_batch_counts_from_its_offer() {
    for rig in [tracked(Mode::Fused), laned(Mode::Fused)] {
        rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
        rig.fifo.add(obj("c", 1)).unwrap();
        drop(rig.fifo.try_pop_batch(9).unwrap());
        rig.fifo.bookmark("7").unwrap();
        for _ in 0..2 {
            rig.fifo.try_pop().unwrap().done();
            assert_ne!(applied(&rig), "7");
        }
        rig.fifo.try_pop().unwrap().done();
        assert_eq!(applied(&rig), "7");
    }
}

#[test]
fn commit_is_a_bookmark_and_an_abandoned_relist_is_not() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("gone", 1)], |builder| builder.track_applied(true));
        rig.fifo.replace(vec![obj("a", 1)], "7").unwrap();
        while applied(&rig).is_empty() {
            assert!(
                rig.handle().is_some(),
                "{mode:?}: everything is handled, but the version is not applied"
            );
        }
        assert!(rig.fifo.try_pop().is_none(), "{mode:?}: the deletion too is before the marker");
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 2)]).unwrap();
        drop(relist);
        rig.drain();
        assert_eq!(applied(&rig), "7", "{mode:?}");
        // A relist whose version cannot be compared is committed, and changes no applied version.
        rig.fifo.replace(vec![], "of no number").unwrap();
        rig.drain();
        assert_eq!(
            (applied(&rig).as_str(), rig.fifo.resource_version().as_deref()),
            ("7", Some("of no number"))
        );
    }
}

#[test]
fn live_and_backlog_items_are_both_before_a_marker() {
    for mode in KNOWING {
        let rig = laned(mode);
        rig.fifo.replace(vec![obj("old", 1)], "1").unwrap();
        rig.fifo.add(obj("new", 1)).unwrap();
        rig.fifo.bookmark("7").unwrap();
        assert_eq!(rig.handle().as_deref(), Some("new: A1"), "{mode:?}");
        assert_eq!(applied(&rig), "", "{mode:?}: the backlog waits");
        rig.handle();
        assert_eq!(applied(&rig), "7", "{mode:?}");
    }
}

#[test]
fn key_that_passes_the_backlog_counts_from_its_listing() {
    for mode in KNOWING {
        let rig = laned(mode);
        rig.fifo.replace(vec![obj("a", 1)], "1").unwrap();
        rig.fifo.bookmark("7").unwrap();
        rig.fifo.update(obj("a", 2)).unwrap();
        let guard = rig.fifo.try_pop().unwrap();
        assert!(rig.fifo.try_pop().is_none(), "{mode:?}: its entry in the backlog is stale");
        assert_eq!(applied(&rig), "", "{mode:?}");
        guard.done();
        assert_eq!(applied(&rig), "7", "{mode:?}");
    }
}

#[test]
fn syncs_and_add_if_not_present_hold_versions_back() {
    let rig = Rig::knowing(Mode::Fused, &[obj("k", 1)], |builder| builder.track_applied(true));
    rig.fifo.resync();
    rig.fifo.add_if_not_present(deltas([(DeltaType::Added, obj("d", 1))])).unwrap();
    rig.fifo.bookmark("7").unwrap();
    rig.handle();
    assert_eq!(applied(&rig), "");
    rig.handle();
    assert_eq!(applied(&rig), "7");
}

#[test]
fn committed_list_with_a_lower_version_takes_the_version_back_and_late_markers_do_not_raise_it() {
    for rig in [tracked(Mode::Fused), laned(Mode::Fused)] {
        rig.fifo.add(obj("a", 1)).unwrap();
        rig.fifo.bookmark("900").unwrap();
        let held = rig.fifo.try_pop().unwrap();
        rig.fifo.add(obj("b", 1)).unwrap();
        rig.fifo.bookmark("1000").unwrap();
        // 950 is below a version that is marked but not yet applied. Such a list already begins
        // another history.
        rig.fifo.replace(vec![obj("a", 2), obj("b", 2)], "950").unwrap();
        held.done();
        assert_eq!(applied(&rig), "", "900 is of the older history");
        rig.fifo.bookmark("940").unwrap();
        rig.fifo.try_pop().unwrap().done();
        assert_eq!(applied(&rig), "", "so is 1000");
        rig.drain();
        assert_eq!(applied(&rig), "950");
    }
}

#[test]
fn list_at_an_equal_or_greater_version_or_at_none_takes_no_version_back() {
    let rig = tracked(Mode::Fused);
    // Some aggregated API servers list everything at version "0".
    for (version, applies) in
        [("7", "7"), ("7", "7"), ("8", "8"), ("0", "8"), ("x", "8"), ("", "8"), ("008", "8")]
    {
        rig.fifo.replace(vec![], version).unwrap();
        assert_eq!(applied(&rig), applies, "after {version:?}");
    }
    rig.fifo.store().wait_for_resource_version("8").unwrap();
}
