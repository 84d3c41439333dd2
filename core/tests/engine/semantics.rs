//! Tests of client-go's `DeltaFIFO`, row by row of the table of semantics
//! (`docs/src/semantics.md`), on one thread.

use std::sync::Arc;

use crate::common::{
    KNOWING, MODES, Mode, Obj, Rig, deltas, nameless, obj, show, show_one, tombstone, versioned,
};
use deltafifo::DeltaType::{Added, Deleted, Replaced, Sync, Updated};
use deltafifo::{
    Closed, Delta, DeltaFifo, Deltas, ExplicitKey, KeyError, KeyFunc, NoMeta, OfferError,
    RelistError,
};

#[test]
fn key_of_accepts_every_source() {
    let fifo = Rig::new(Mode::Nowhere).fifo;
    assert_eq!(fifo.key_of(&*obj("ns/a", 1)).unwrap(), "ns/a");
    assert_eq!(fifo.key_of(&*obj("a", 1)).unwrap(), "a");
    assert_eq!(fifo.key_of(ExplicitKey("x/y/z")).unwrap(), "x/y/z");
    assert_eq!(fifo.key_of(&tombstone("other", Some(obj("a", 1)))).unwrap(), "other");
    assert_eq!(
        fifo.key_of(&deltas([(Added, obj("old", 1)), (Updated, obj("new", 2))])).unwrap(),
        "new"
    );
    let ends_in_tombstone: Deltas<Obj> =
        [Delta::new(Added, obj("old", 1)), Delta::new(Deleted, tombstone("t", None))]
            .into_iter()
            .collect();
    assert_eq!(fifo.key_of(&ends_in_tombstone).unwrap(), "t");
    assert!(matches!(fifo.key_of(&Deltas::<Obj>::default()), Err(KeyError::ZeroLengthDeltas)));
    assert!(matches!(fifo.key_of(&*nameless()), Err(KeyError::NoName)));
    assert!(matches!(fifo.key_of(&deltas([(Added, nameless())])), Err(KeyError::NoName)));
}

#[test]
fn custom_key_function_is_used_and_its_error_returned() {
    let keys =
        KeyFunc::custom(
            NoMeta,
            |n: &u32| if *n == 0 { Err("zero".into()) } else { Ok(format!("k{n}")) },
        );
    let fifo = DeltaFifo::builder(keys).build();
    fifo.add(Arc::new(7)).unwrap();
    assert_eq!(fifo.list_keys(), ["k7"]);
    let error = fifo.add(Arc::new(0)).unwrap_err();
    assert!(
        matches!(&error, OfferError::Key(KeyError::Function(source)) if source.to_string() == "zero"),
        "{error}"
    );
    assert_eq!(fifo.list_keys(), ["k7"]);
}

#[test]
fn keys_of_any_length_stay_distinct() {
    let rig = Rig::new(Mode::Fused);
    // A slot holds 39 bytes inline, and lengths of 255 and more do not fit its length byte.
    // Letters of two bytes lie across these limits.
    let names: Vec<String> = [1, 38, 39, 40, 41, 127, 128, 129, 254, 255, 256, 257, 4096]
        .iter()
        .flat_map(|&length| ["x".repeat(length), "ü".repeat(length)])
        .collect();
    for (name, n) in names.iter().zip(0..) {
        rig.fifo.add(obj(name, n)).unwrap();
    }
    for (name, n) in names.iter().zip(0..) {
        let shown = rig.handle().unwrap();
        assert_eq!(shown, format!("{name}: A{n}"));
        assert_eq!(rig.fifo.store().get_by_key(name).unwrap().n, n);
    }
    assert_eq!(rig.fifo.store().len(), names.len());
}

#[test]
fn key_is_queued_once_keeps_its_place_and_joins_the_tail_after_a_pop() {
    for mode in MODES {
        let rig = Rig::new(mode);
        for (key, n) in [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3)] {
            rig.fifo.add(obj(key, n)).unwrap();
        }
        assert_eq!(rig.handle().unwrap(), "a: A1 A2 A3");
        rig.fifo.update(obj("a", 4)).unwrap();
        rig.fifo.update(obj("b", 2)).unwrap();
        assert_eq!(rig.drain(), ["b: A1 U2", "c: A1", "a: U4"]);
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
}

#[test]
fn add_and_update_populate_even_when_the_key_fails() {
    for update in [false, true] {
        let fifo = Rig::new(Mode::Fused).fifo;
        assert!(!fifo.has_synced());
        let refused = if update { fifo.update(nameless()) } else { fifo.add(nameless()) };
        assert!(matches!(refused, Err(OfferError::Key(KeyError::NoName))));
        assert!(fifo.has_synced());
        assert!(fifo.try_pop().is_none());
    }
}

#[test]
fn empty_batch_does_not_populate() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.add_batch(vec![]).unwrap();
        rig.fifo.update_batch(vec![]).unwrap();
        assert!(!rig.fifo.has_synced(), "{mode:?}: nothing was offered");
        rig.fifo.update_batch(vec![nameless()]).unwrap_err();
        assert!(rig.fifo.has_synced(), "{mode:?}: as an add whose key fails");
    }
}

#[test]
fn delete_without_a_key_does_not_populate_but_an_ignored_one_does() {
    for mode in MODES {
        let rig = Rig::new(mode);
        assert!(matches!(rig.fifo.delete(nameless()), Err(OfferError::Key(KeyError::NoName))));
        assert!(!rig.fifo.has_synced());
        rig.fifo.delete(obj("a", 1)).unwrap();
        assert!(rig.fifo.has_synced());
        rig.fifo.delete(tombstone("a", Some(obj("a", 1)))).unwrap();
        assert_eq!(rig.drain(), [""; 0]);
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
}

#[test]
fn delete_counts_for_pending_or_known_keys() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.add(obj("a", 1)).unwrap();
        rig.fifo.delete(obj("a", 2)).unwrap();
        assert_eq!(rig.drain(), ["a: A1 D2"]);
        rig.know([obj("b", 1)]);
        rig.fifo.delete(tombstone("b", None)).unwrap();
        let expected: &[&str] = if mode == Mode::Nowhere { &[] } else { &["b: D()"] };
        assert_eq!(rig.drain(), expected, "{mode:?}");
        assert_eq!(rig.stored(), [""; 0]);
    }
}

#[test]
fn delete_is_queued_if_the_look_up_of_the_known_object_fails() {
    let rig = Rig::new(Mode::Elsewhere);
    rig.outside.failing.lock().unwrap().push("a".to_owned());
    rig.fifo.delete(obj("a", 1)).unwrap();
    assert_eq!(rig.drain(), ["a: D1"]);
}

#[test]
fn two_deletions_in_a_row_become_one() {
    // A delete of an object, or an explicit tombstone with or without one.
    for (deletions, expected) in [
        (["1", "2"], "A0 D1"),
        (["1", "t2"], "A0 D1"),
        (["t1", "2"], "A0 D2"),
        (["t1", "t2"], "A0 D(2)"),
        (["t", "t"], "A0 D()"),
        (["t1", "t"], "A0 D()"),
    ] {
        let rig = Rig::new(Mode::Nowhere);
        rig.fifo.add(obj("a", 0)).unwrap();
        for deletion in deletions {
            match deletion.strip_prefix('t') {
                None => rig.fifo.delete(obj("a", deletion.parse().unwrap())).unwrap(),
                Some(n) => {
                    rig.fifo.delete(tombstone("a", n.parse().ok().map(|n| obj("a", n)))).unwrap();
                }
            }
        }
        assert_eq!(rig.pending("a").as_deref(), Some(expected), "{deletions:?}");
        assert_eq!(rig.drain(), [format!("a: {expected}")], "{deletions:?}");
    }
}

#[test]
fn run_of_deletions_folds_as_folding_at_each_append_does() {
    let rig = Rig::new(Mode::Nowhere);
    rig.fifo.add(obj("a", 0)).unwrap();
    for n in [None, Some(1), None] {
        rig.fifo.delete(tombstone("a", n.map(|n| obj("a", n)))).unwrap();
    }
    rig.fifo.delete(obj("a", 3)).unwrap();
    rig.fifo.delete(tombstone("a", Some(obj("a", 4)))).unwrap();
    rig.fifo.delete(obj("a", 5)).unwrap();
    rig.fifo.update(obj("a", 6)).unwrap();
    rig.fifo.delete(obj("a", 7)).unwrap();
    assert_eq!(rig.drain(), ["a: A0 D3 U6 D7"]);
}

#[test]
fn updates_never_coalesce() {
    let rig = Rig::new(Mode::Nowhere);
    let same = obj("a", 1);
    for _ in 0..5 {
        rig.fifo.update(same.clone()).unwrap();
    }
    assert_eq!(rig.fifo.pending_deltas(), 5);
    assert_eq!(rig.drain(), ["a: U1 U1 U1 U1 U1"]);
}

#[test]
fn add_if_not_present_queues_unchanged_only_if_nothing_is_pending() {
    for mode in MODES {
        let rig = Rig::new(mode);
        assert!(matches!(
            rig.fifo.add_if_not_present(Deltas::default()),
            Err(KeyError::ZeroLengthDeltas)
        ));
        assert!(matches!(
            rig.fifo.add_if_not_present(deltas([(Added, nameless())])),
            Err(KeyError::NoName)
        ));
        assert!(!rig.fifo.has_synced());
        rig.fifo.add(obj("b", 1)).unwrap();
        rig.fifo
            .add_if_not_present(deltas([(Deleted, obj("a", 1)), (Deleted, obj("a", 2))]))
            .unwrap();
        rig.fifo.add_if_not_present(deltas([(Added, obj("a", 3))])).unwrap();
        // Deltas that are put in as a whole are not folded, but the ones after them are.
        rig.fifo.delete(obj("a", 4)).unwrap();
        assert_eq!(rig.fifo.pending_deltas(), 4);
        assert_eq!(rig.drain(), ["b: A1", "a: D1 D2"], "{mode:?}");
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
    let fifo = Rig::new(Mode::Nowhere).fifo;
    fifo.add_if_not_present(deltas([(Sync, obj("a", 1))])).unwrap();
    assert!(fifo.has_synced());
}

#[test]
fn requeue_puts_back_at_the_tail_and_nothing_is_folded() {
    for mode in MODES {
        let rig = Rig::new(mode);
        for key in ["a", "b"] {
            rig.fifo.add(obj(key, 1)).unwrap();
        }
        rig.fifo.delete(obj("a", 2)).unwrap();
        rig.fifo.pop().unwrap().requeue();
        rig.fifo.delete(obj("a", 3)).unwrap();
        rig.fifo.update(obj("a", 4)).unwrap();
        assert_eq!(rig.drain(), ["b: A1", "a: A1 D2 U4"], "{mode:?}");
    }
}

#[test]
fn handler_error_is_returned_and_requeues_only_on_request() {
    for retry in [false, true] {
        let fifo = Rig::new(Mode::Fused).fifo;
        fifo.add(obj("a", 1)).unwrap();
        let error = fifo.process(|popped| {
            if retry {
                popped.retry();
            }
            Err::<(), _>("no")
        });
        let message = error.unwrap_err().to_string();
        assert!(message.contains("\"a\"") && message.contains("no"), "{message}");
        assert_eq!(fifo.list_keys().len(), usize::from(retry));
    }
}

#[test]
fn resync_syncs_known_idle_keys() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("a", 1), obj("b", 1), obj("c", 1)], |builder| builder);
        rig.fifo.update(obj("b", 2)).unwrap();
        rig.fifo.resync();
        rig.fifo.resync();
        assert_eq!(rig.drain(), ["b: U2", "a: S1", "c: S1"], "{mode:?}");
    }
    let rig = Rig::new(Mode::Nowhere);
    rig.fifo.add(obj("a", 1)).unwrap();
    rig.drain();
    rig.fifo.resync();
    assert_eq!(rig.drain(), [""; 0]);
}

#[test]
fn resync_does_not_populate() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("a", 1)], |builder| builder);
        rig.fifo.resync();
        assert!(!rig.fifo.has_synced());
        let guard = rig.fifo.pop().unwrap();
        assert!(guard.is_in_initial_list());
        guard.done();
        assert!(!rig.fifo.has_synced());
    }
}

#[test]
fn resync_skips_keys_whose_look_up_fails() {
    let rig = Rig::knowing(Mode::Elsewhere, &[obj("a", 1), obj("b", 1)], |builder| builder);
    rig.outside.failing.lock().unwrap().push("a".to_owned());
    rig.outside.ghosts.lock().unwrap().push("ghost".to_owned());
    rig.fifo.resync();
    assert_eq!(rig.drain(), ["b: S1"]);
}

#[test]
fn transformer_sees_objects_but_no_tombstones_and_no_syncs() {
    for mode in MODES {
        let rig = Rig::with(mode, |builder| {
            builder.transformer(|object: Arc<Obj>| {
                Ok(versioned(&object.name, object.n + 100, &object.version))
            })
        });
        rig.fifo.add(obj("a", 1)).unwrap();
        rig.fifo.update(obj("a", 2)).unwrap();
        rig.fifo.replace(vec![obj("a", 3)], "1").unwrap();
        rig.fifo.delete(obj("a", 4)).unwrap();
        rig.fifo.update(obj("a", 5)).unwrap();
        rig.fifo.delete(tombstone("a", Some(obj("a", 6)))).unwrap();
        rig.fifo.add_if_not_present(deltas([(Added, obj("b", 7))])).unwrap();
        assert_eq!(rig.drain(), ["a: A101 U102 R103 D104 U105 D(6)", "b: A7"], "{mode:?}");
        rig.know([obj("c", 1)]);
        rig.fifo.resync();
        let synced: &[&str] = if mode == Mode::Nowhere { &[] } else { &["b: S7", "c: S101"] };
        assert_eq!(rig.drain(), synced, "{mode:?}");
    }
}

#[test]
fn transformer_error_refuses_only_that_offer() {
    for mode in MODES {
        let rig = Rig::with(mode, |builder| {
            builder.transformer(
                |object: Arc<Obj>| if object.n == 13 { Err("13".into()) } else { Ok(object) },
            )
        });
        let error = rig.fifo.add(obj("a", 13)).unwrap_err();
        assert!(matches!(&error, OfferError::Transform { key, .. } if key == "a"), "{error}");
        assert!(rig.fifo.has_synced(), "populated before the transformer runs");
        rig.fifo.add(obj("a", 1)).unwrap();
        assert!(rig.fifo.update(obj("a", 13)).is_err());
        assert!(rig.fifo.delete(obj("a", 13)).is_err());
        let error =
            rig.fifo.replace(vec![obj("b", 1), obj("c", 13), obj("d", 1)], "1").unwrap_err();
        assert!(matches!(error, RelistError::Refused { index: 1, .. }), "{error}");
        assert_eq!(rig.drain(), ["a: A1", "b: R1"], "{mode:?}");
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
}

#[test]
fn ignored_delete_does_not_reach_the_transformer() {
    for mode in MODES {
        let rig = Rig::with(mode, |builder| builder.transformer(|_| Err("never".into())));
        rig.fifo.delete(obj("a", 1)).unwrap();
    }
}

#[test]
fn after_close_queued_items_are_popped_and_adds_still_queue() {
    let rig = Rig::new(Mode::Fused);
    rig.fifo.add(obj("a", 1)).unwrap();
    assert!(!rig.fifo.is_closed());
    rig.fifo.close();
    rig.fifo.close();
    assert!(rig.fifo.is_closed());
    rig.fifo.add(obj("b", 1)).unwrap();
    let first = rig.fifo.pop().unwrap();
    assert_eq!(first.key(), "a");
    first.requeue();
    for key in ["b", "a"] {
        let popped = rig.fifo.pop().unwrap();
        assert_eq!(popped.key(), key);
        popped.done();
    }
    assert_eq!(rig.fifo.pop().unwrap_err(), Closed);
    assert!(rig.fifo.pop_batch(5).is_err());
    let no_handler: Result<(), _> =
        rig.fifo.process(|_| -> Result<(), String> { unreachable!("the queue is empty") });
    assert!(no_handler.is_err());
}

#[test]
fn get_and_list_copy_pending_deltas() {
    for mode in MODES {
        let rig = Rig::new(mode);
        let first = obj("a", 1);
        rig.fifo.add(first.clone()).unwrap();
        rig.fifo.update(obj("a", 2)).unwrap();
        rig.fifo.add(obj("ns/b", 3)).unwrap();
        assert_eq!(show(&rig.fifo.get(&*first).unwrap().unwrap()), "A1 U2");
        assert_eq!(show(&rig.fifo.get(ExplicitKey("ns/b")).unwrap().unwrap()), "A3");
        assert_eq!(show(&rig.fifo.get(&tombstone("a", None)).unwrap().unwrap()), "A1 U2");
        assert!(rig.fifo.get(&*nameless()).is_err());
        assert!(rig.fifo.get_by_key("b").is_none());
        let mut keys = rig.fifo.list_keys();
        keys.sort();
        assert_eq!(keys, ["a", "ns/b"]);
        let mut newest: Vec<_> = rig.fifo.list().iter().map(show_one).collect();
        newest.sort();
        assert_eq!(newest, ["A3", "U2"]);
        // The copy shares no list with the queue, and keeps its objects alive.
        let copy = rig.fifo.get_by_key("a").unwrap();
        assert_eq!(rig.drain(), ["a: A1 U2", "ns/b: A3"], "{mode:?}");
        assert_eq!(show(&copy), "A1 U2");
        assert!(
            rig.fifo.list().is_empty()
                && rig.fifo.list_keys().is_empty()
                && rig.fifo.get_by_key("a").is_none()
        );
    }
}

#[test]
fn newest_state_is_the_newest_pending_one_or_else_the_stored_one() {
    let rig = Rig::knowing(Mode::Fused, &[obj("x", 1)], |builder| builder);
    let newest_is = |n| rig.fifo.newest_is(&obj("x", 0), |newest| newest.n == n);
    assert_eq!([1, 2].map(newest_is), [Some(true), Some(false)]);
    rig.fifo.resync();
    assert_eq!(newest_is(1), Some(true));
    rig.fifo.update(obj("x", 2)).unwrap();
    rig.fifo.update(obj("x", 3)).unwrap();
    assert_eq!([1, 2, 3].map(newest_is), [Some(false), Some(false), Some(true)]);
    rig.fifo.delete(obj("x", 3)).unwrap();
    assert_eq!(newest_is(3), Some(false));
    rig.drain();
    assert_eq!(newest_is(3), Some(false));
    assert_eq!(rig.fifo.newest_is(&nameless(), |_| true), None);
}

#[test]
fn newest_state_is_uncertain_without_a_fused_store() {
    for mode in MODES.into_iter().filter(|mode| *mode != Mode::Fused) {
        let rig = Rig::new(mode);
        rig.fifo.add(obj("x", 1)).unwrap();
        assert_eq!(rig.fifo.newest_is(&obj("x", 1), |_| true), None, "{mode:?}");
    }
}

#[test]
fn batch_of_offers_equals_its_single_offers() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.add_batch(vec![obj("c", 1), obj("a", 1), obj("c", 2)]).unwrap();
        assert!(rig.fifo.has_synced());
        rig.fifo.update_batch(vec![obj("b", 1), obj("a", 2)]).unwrap();
        let error = rig.fifo.update_batch(vec![obj("d", 1), nameless(), obj("e", 1)]).unwrap_err();
        assert!(matches!(error, RelistError::Refused { index: 1, .. }), "{error}");
        assert_eq!(rig.fifo.pending_deltas(), 6);
        assert_eq!(rig.drain(), ["c: A1 A2", "a: A1 U2", "b: U1", "d: U1"], "{mode:?}");
    }
}

#[test]
fn without_emit_replaced_a_relist_emits_sync() {
    let rig = Rig::with(Mode::Fused, |builder| builder.emit_replaced(false));
    rig.fifo.replace(vec![obj("a", 1), obj("a", 2)], "1").unwrap();
    assert_eq!(rig.drain(), ["a: S1 S2"]);
    assert!(rig.fifo.has_synced());
    let rig = Rig::new(Mode::Fused);
    rig.fifo.replace(vec![obj("a", 1)], "1").unwrap();
    assert_eq!(rig.fifo.get_by_key("a").unwrap()[0].kind, Replaced);
}

#[test]
fn deltas_can_be_copied_printed_and_read_at_both_ends() {
    let list = deltas([(Added, obj("x", 1)), (Updated, obj("x", 2))]);
    assert_eq!(show(&list.clone()), "A1 U2");
    let numbers =
        [list.oldest(), list.newest()].map(|delta| delta.unwrap().object.object().unwrap().n);
    assert_eq!(numbers, [1, 2]);
    let gone: Deltas<Obj> =
        [Delta::new(Deleted, tombstone("x", Some(obj("x", 3))))].into_iter().collect();
    // A log line must contain the type, and the object or the tombstone.
    let printed = format!("{list:?} {gone:?}");
    for part in ["Added", "n: 1", "Updated", "n: 2", "Deleted", "n: 3", "DeletedFinalStateUnknown"]
    {
        assert!(printed.contains(part), "no {part} in {printed}");
    }
}

#[test]
fn item_prints_as_its_key_and_deltas() {
    let fifo = Rig::new(Mode::Nowhere).fifo;
    fifo.add(obj("a", 7)).unwrap();
    let printed = format!("{:?}", fifo.try_pop().unwrap());
    assert!(
        printed.contains("Popped") && printed.contains("\"a\"") && printed.contains("Added"),
        "{printed}"
    );
}
