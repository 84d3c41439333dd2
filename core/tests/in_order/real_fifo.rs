//! client-go's own tests of its `RealFIFO`, each behaviour once. Where client-go's tests inspect
//! the queue, these compare the notifications: with atomic events, which client-go's informers
//! choose, a relist becomes deltas only in its turn.

use std::sync::Arc;
use std::thread;

use crate::common::{Obj, deltas, ends, keys, obj, tombstone, versioned};
use crate::rig::{Fifo, apply, bare, delta_of, events, notified, over, show_turn};
use deltafifo::{Closed, DeltaObject, DeltaType, ExplicitKey, InOrderFifo, ReflectorStore};

const NONE: [Arc<Obj>; 0] = [];

fn three() -> [Arc<Obj>; 3] {
    [obj("foo", 5), obj("bar", 6), obj("baz", 7)]
}

#[test]
fn each_producers_events_are_popped_in_its_order() {
    const EACH: u64 = if cfg!(miri) { 50 } else { 500 };
    ends(|| {
        let fifo = bare();
        thread::scope(|scope| {
            for producer in ["a", "b"] {
                let fifo = &fifo;
                scope.spawn(move || {
                    (1..=EACH).for_each(|n| fifo.add(obj(&format!("{producer}{n}"), n)).unwrap());
                });
            }
            let mut last = [0, 0];
            for _ in 0..2 * EACH {
                let turn = fifo.pop().unwrap();
                let object = delta_of(turn.event().unwrap()).object.object().unwrap();
                let last = &mut last[usize::from(object.name.starts_with('b'))];
                assert_eq!(object.n, *last + 1, "{} follows {last}", object.name);
                *last = object.n;
                turn.done();
            }
        });
    });
}

#[test]
fn listed_object_is_notified_although_its_deletion_is_queued() {
    let fifo = over([obj("foo", 1)]);
    fifo.delete(obj("foo", 1)).unwrap();
    fifo.replace(vec![obj("foo", 2)], "").unwrap();
    assert_eq!(notified(&fifo), ["-foo1", "R+foo2"]);
}

#[test]
fn relist_deletes_queued_keys_once() {
    type Offers = fn(&Fifo);
    let empty = |fifo: &Fifo| fifo.replace(vec![], "0").unwrap();
    let list = |fifo: &Fifo| fifo.replace(vec![obj("foo", 2)], "0").unwrap();
    let add = |fifo: &Fifo| fifo.add(obj("foo", 2)).unwrap();
    let delete = |fifo: &Fifo| fifo.delete(obj("foo", 2)).unwrap();
    let add_newer = |fifo: &Fifo| fifo.add(obj("foo", 3)).unwrap();
    let cases: [(&[Offers], &[&str]); 5] = [
        (&[add, empty], &["A+foo2", "-foo(2)"]),
        (&[add, delete, empty], &["A+foo2", "-foo2"]),
        (&[add, list, list, empty], &["A+foo2", "R foo2>2", "R foo2>2", "-foo(2)"]),
        (&[add, empty, empty], &["A+foo2", "-foo(2)"]),
        (&[add, delete, add_newer, empty], &["A+foo2", "-foo2", "A+foo3", "-foo(3)"]),
    ];
    for (offers, expected) in cases {
        let fifo = over(NONE);
        for offer in offers {
            offer(&fifo);
        }
        assert_eq!(notified(&fifo), expected);
    }
}

#[test]
fn every_delta_of_a_key_is_a_separate_item() {
    let fifo = bare();
    fifo.add(obj("foo", 10)).unwrap();
    fifo.update(obj("foo", 12)).unwrap();
    fifo.delete(obj("foo", 15)).unwrap();
    assert_eq!(events(&fifo), ["foo:A10", "foo:U12", "foo:D15"]);
}

#[test]
fn transformer_sees_every_object_once_and_no_tombstone() {
    let store = deltafifo::Indexer::builder(keys()).build().unwrap();
    let fifo = InOrderFifo::over(store)
        .transformer(|object| Ok(obj(&object.name, object.n + 100)))
        .build();
    fifo.add(obj("foo", 10)).unwrap();
    fifo.add(obj("bar", 11)).unwrap();
    fifo.update(obj("foo", 12)).unwrap();
    fifo.delete(obj("foo", 15)).unwrap();
    fifo.replace(vec![], "").unwrap();
    fifo.add(obj("bar", 16)).unwrap();
    fifo.replace(vec![obj("bar", 17)], "").unwrap();
    fifo.delete(tombstone("bar", Some(obj("bar", 18)))).unwrap();
    let expected = [
        "A+foo110",
        "A+bar111",
        "U foo110>112",
        "-foo115",
        "-bar(111)",
        "A+bar116",
        "R bar116>117",
        "-bar(18)",
    ];
    assert_eq!(notified(&fifo), expected);
}

#[test]
fn deletion_of_an_unknown_key_is_notified() {
    let fifo = over(NONE);
    fifo.add(obj("foo", 10)).unwrap();
    fifo.update(obj("bar", 15)).unwrap();
    fifo.add(obj("qux", 17)).unwrap();
    fifo.delete(obj("qux", 18)).unwrap();
    fifo.delete(obj("baz", 20)).unwrap();
    assert_eq!(notified(&fifo), ["A+foo10", "U+bar15", "A+qux17", "-qux18", "-baz20?"]);
}

#[test]
fn deletion_of_a_known_key_is_notified() {
    let fifo = over(three());
    fifo.add(obj("foo", 10)).unwrap();
    fifo.update(obj("bar", 15)).unwrap();
    fifo.delete(obj("baz", 20)).unwrap();
    assert_eq!(notified(&fifo), ["A foo5>10", "U bar6>15", "-baz20"]);
}

#[test]
fn relist_is_notified_after_earlier_events() {
    let fifo = over(NONE);
    fifo.add(obj("foo", 10)).unwrap();
    fifo.replace(vec![obj("foo", 15)], "0").unwrap();
    assert_eq!(notified(&fifo), ["A+foo10", "R foo10>15"]);
}

#[test]
fn resync_omits_keys_deleted_before_it() {
    let fifo = over([obj("foo", 5)]);
    fifo.delete(obj("foo", 10)).unwrap();
    fifo.resync();
    assert_eq!(notified(&fifo), ["-foo10"]);
}

#[test]
fn resync_notifies_every_known_object_in_its_current_state() {
    let fifo = over(three());
    fifo.resync();
    let mut notified = notified(&fifo);
    notified.sort();
    assert_eq!(notified, ["S bar6>6", "S baz7>7", "S foo5>5"]);
}

#[test]
fn unhandled_object_is_notified_as_added_and_deleted() {
    let fifo = over(NONE);
    fifo.add(obj("foo", 5)).unwrap();
    fifo.delete(obj("foo", 6)).unwrap();
    assert_eq!(notified(&fifo), ["A+foo5", "-foo6"]);
}

#[test]
fn relist_first_deletes_unlisted_keys_with_their_last_state() {
    type Offers = fn(&Fifo);
    let cases: [(Offers, &[&str]); 4] = [
        (|fifo| fifo.delete(obj("baz", 10)).unwrap(), &["-baz10", "-bar(6)", "R foo5>5"]),
        (
            |fifo| fifo.add(obj("baz", 10)).unwrap(),
            &["A baz7>10", "-bar(6)", "-baz(10)", "R foo5>5"],
        ),
        (
            |fifo| {
                fifo.delete(obj("bar", 6)).unwrap();
                fifo.add(obj("bar", 100)).unwrap();
            },
            &["-bar6", "A+bar100", "-bar(100)", "-baz(7)", "R foo5>5"],
        ),
        (
            |fifo| fifo.replace(vec![obj("bar", 100), obj("foo", 5)], "0").unwrap(),
            &["-baz(7)", "R bar6>100", "R foo5>5", "-bar(100)", "R foo5>5"],
        ),
    ];
    for (offers, expected) in cases {
        let fifo = over(three());
        offers(&fifo);
        fifo.replace(vec![obj("foo", 5)], "0").unwrap();
        assert_eq!(notified(&fifo), expected);
    }
    let fifo = over(NONE);
    fifo.add(obj("baz", 10)).unwrap();
    fifo.replace(vec![obj("foo", 5)], "0").unwrap();
    assert_eq!(notified(&fifo), ["A+baz10", "-baz(10)", "R+foo5"]);
}

#[test]
fn resync_after_an_update_notifies_the_updated_object() {
    let fifo = over([obj("foo", 5)]);
    fifo.update(obj("foo", 6)).unwrap();
    fifo.resync();
    assert_eq!(notified(&fifo), ["U foo5>6", "S foo6>6"], "never the old object");
}

#[test]
fn first_relist_ends_after_its_deletions_are_handled() {
    let fifo = over(three());
    fifo.replace(vec![obj("foo", 5)], "0").unwrap();
    assert!(!fifo.has_synced());
    let mut turn = fifo.pop().unwrap();
    assert!(turn.is_in_initial_list());
    let mut notified = Vec::new();
    turn.apply(|key, _| {
        assert!(!fifo.has_synced());
        notified.push(key.to_owned());
    })
    .unwrap();
    assert_eq!(notified, ["bar", "baz", "foo"]);
    assert!(!fifo.has_synced(), "its handler may have more to do");
    turn.done();
    assert!(fifo.has_synced());
}

#[test]
fn events_are_popped_in_order_of_arrival() {
    let fifo = bare();
    for (name, n) in [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)] {
        fifo.add(obj(name, n)).unwrap();
    }
    let first = fifo.pop().unwrap();
    assert_eq!(show_turn(&first), ["foo:A10"]);
    first.done();
    fifo.add(obj("foo", 14)).unwrap();
    assert_eq!(events(&fifo), ["bar:A1", "foo:A11", "foo:A13", "zab:A30", "foo:A14"]);
}

#[test]
fn key_of_accepts_objects_tombstones_deltas_and_explicit_keys() {
    let fifo = bare();
    assert_eq!(fifo.key_of(&*obj("a", 1)).unwrap(), "a");
    assert_eq!(fifo.key_of(&tombstone("b", None)).unwrap(), "b");
    assert_eq!(fifo.key_of(&deltas([(DeltaType::Added, obj("c", 1))])).unwrap(), "c");
    assert_eq!(fifo.key_of(&DeltaObject::from(tombstone("d", None))).unwrap(), "d");
    assert_eq!(fifo.key_of(ExplicitKey("e")).unwrap(), "e");
}

#[test]
fn queue_is_synced_once_the_first_relist_is_handled_or_another_offer_came_first() {
    type Step = fn(&Fifo);
    let pop = |fifo: &Fifo| fifo.pop().unwrap().done();
    let list = |fifo: &Fifo| fifo.replace(vec![obj("a", 1), obj("b", 2)], "0").unwrap();
    let twice = |fifo: &Fifo| fifo.replace(vec![obj("a", 1), obj("a", 2)], "0").unwrap();
    let cases: [(&[Step], bool); 9] = [
        (&[], false),
        (&[|fifo| fifo.add(obj("a", 1)).unwrap()], true),
        (&[|fifo| fifo.delete(obj("a", 1)).unwrap()], true),
        (&[|fifo| fifo.replace(vec![], "0").unwrap()], false),
        (&[|fifo| fifo.replace(vec![], "0").unwrap(), pop], true),
        (&[list], false),
        (&[list, pop], true),
        (&[twice, pop], true),
        // A resync does not populate the queue.
        (&[Fifo::resync, pop], false),
    ];
    for (number, (steps, expected)) in cases.into_iter().enumerate() {
        let fifo = bare();
        for step in steps {
            step(&fifo);
        }
        assert_eq!(fifo.has_synced(), expected, "case {number}");
    }
}

#[test]
fn close_wakes_every_blocked_pop() {
    ends(|| {
        let fifo = over([obj("foo", 5)]);
        thread::scope(|scope| {
            let popping: Vec<_> = (0..10).map(|_| scope.spawn(|| fifo.pop().map(drop))).collect();
            fifo.close();
            assert!(popping.into_iter().all(|popping| popping.join().unwrap() == Err(Closed)));
        });
    });
}

#[test]
fn relist_is_one_event_among_the_others() {
    let fifo = bare();
    fifo.replace(vec![], "123").unwrap();
    assert_eq!(events(&fifo), ["all@123"]);
    fifo.add(obj("foo", 2)).unwrap();
    fifo.replace(vec![obj("foo", 2)], "10").unwrap();
    fifo.replace(vec![obj("foo", 3), obj("bar", 1)], "20").unwrap();
    fifo.replace(vec![], "56").unwrap();
    assert_eq!(events(&fifo), ["foo:A2", "all@10 foo2", "all@20 foo3 bar1", "all@56"]);
}

/// Checks that a bookmark is not an event and leaves the store's version unchanged. In client-go,
/// a bookmark of a queue with atomic events is an event and moves the version.
#[test]
fn bookmark_is_not_an_event_and_does_not_populate() {
    let fifo = over([]);
    ReflectorStore::bookmark(&fifo, "123");
    assert!(fifo.try_pop().is_none() && !fifo.has_synced());
    fifo.replace(vec![], "1234").unwrap();
    assert_eq!(events(&fifo), ["all@1234"]);
    assert_eq!(fifo.store().applied_version(), None);
}

#[test]
fn resync_is_one_event_among_the_others() {
    let fifo = bare();
    fifo.add(obj("foo", 2)).unwrap();
    fifo.resync();
    fifo.update(obj("foo", 3)).unwrap();
    assert_eq!(events(&fifo), ["foo:A2", "sync", "foo:U3"]);
}

#[test]
fn object_without_a_key_is_refused_and_keeps_batches_intact() {
    let fifo = bare();
    fifo.add(obj("a", 1)).unwrap();
    assert!(fifo.add(versioned("", 1, "1")).is_err());
    fifo.add(obj("b", 1)).unwrap();
    let turn = fifo.pop_batch(9).unwrap();
    assert_eq!(show_turn(&turn), ["a:A1", "b:A1"]);
    turn.done();
}

#[test]
fn batch_has_distinct_keys_and_never_crosses_the_end_of_the_initial_list() {
    type Objects = Vec<Arc<Obj>>;
    let (a, b, c, d) = (|| obj("a", 5), || obj("b", 5), || obj("c", 5), || obj("d", 5));
    let cases: [(Objects, Objects, usize, &[&[&str]]); 8] = [
        (vec![a(), b(), c()], vec![], 99, &[&["all@1 a5 b5 c5"]]),
        (vec![a(), b()], vec![c(), d()], 2, &[&["all@1 a5 b5"], &["c:U5", "d:U5"]]),
        (vec![a()], vec![a(), a()], 99, &[&["all@1 a5"], &["a:U5"], &["a:U5"]]),
        (vec![a(), b()], vec![b(), c()], 99, &[&["all@1 a5 b5"], &["b:U5", "c:U5"]]),
        (
            vec![a()],
            vec![a(), b(), a(), c()],
            99,
            &[&["all@1 a5"], &["a:U5", "b:U5"], &["a:U5", "c:U5"]],
        ),
        (vec![], vec![a(), b(), c()], 2, &[&["all@1"], &["a:U5", "b:U5"], &["c:U5"]]),
        (vec![a(), b(), c()], vec![d()], 2, &[&["all@1 a5 b5 c5"], &["d:U5"]]),
        (vec![a()], vec![b()], 0, &[&["all@1 a5"], &["b:U5"]]),
    ];
    for (number, (listed, updated, max, expected)) in cases.into_iter().enumerate() {
        let fifo = bare();
        fifo.replace(listed, "1").unwrap();
        for object in updated {
            fifo.update(object).unwrap();
        }
        for (place, expected) in expected.iter().enumerate() {
            let turn = fifo.pop_batch(max).unwrap();
            assert_eq!(show_turn(&turn), *expected, "case {number}");
            assert_eq!(turn.is_in_initial_list(), place == 0, "case {number}");
            turn.done();
        }
        assert!(fifo.try_pop().is_none(), "case {number}");
    }
}

#[test]
fn relists_and_resyncs_are_popped_alone() {
    let fifo = over(NONE);
    fifo.add(obj("a", 1)).unwrap();
    fifo.resync();
    fifo.resync();
    fifo.add(obj("b", 1)).unwrap();
    fifo.replace(vec![obj("c", 1)], "1").unwrap();
    fifo.add(obj("d", 1)).unwrap();
    let mut batches = Vec::new();
    while let Some(mut turn) = fifo.try_pop_batch(99) {
        batches.push(show_turn(&turn).join(" "));
        while turn.event().is_some() {
            apply(&mut turn);
        }
    }
    assert_eq!(batches, ["a:A1", "sync", "sync", "b:A1", "all@1 c1", "d:A1"]);
}
