//! Tests of the lane for live events: which offers pass a relist's backlog, and what happens to the
//! backlog's entries of keys that have passed it.

use crate::common::{MODES, Mode, Rig, obj};

fn laned(mode: Mode, known: &[&str]) -> Rig {
    let known: Vec<_> = known.iter().map(|key| obj(key, 1)).collect();
    Rig::knowing(mode, &known, |builder| builder.live_lane(true))
}

#[test]
fn live_offers_pass_the_backlog_of_a_relist() {
    for mode in MODES {
        let rig = laned(mode, &[]);
        rig.fifo.replace(vec![obj("a", 1), obj("b", 1), obj("c", 1)], "1").unwrap();
        rig.fifo.add(obj("new", 2)).unwrap();
        // A key in the backlog is popped with everything that is pending for it, in order.
        rig.fifo.update(obj("c", 2)).unwrap();
        rig.fifo.update(obj("c", 3)).unwrap();
        assert_eq!(rig.drain(), ["new: A2", "c: R1 U2 U3", "a: R1", "b: R1"], "{mode:?}");
        assert!(rig.fifo.try_pop().is_none(), "the stale entry of c yields no item");
    }
}

#[test]
fn without_the_lane_keys_are_popped_first_in_first_out() {
    let rig = Rig::new(Mode::Fused);
    rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
    rig.fifo.update(obj("b", 2)).unwrap();
    rig.fifo.add(obj("new", 2)).unwrap();
    assert_eq!(rig.drain(), ["a: R1", "b: R1 U2", "new: A2"]);
}

#[test]
fn deletions_and_bursts_pass_the_backlog_and_resyncs_wait() {
    for mode in [Mode::Fused, Mode::Elsewhere] {
        let rig = laned(mode, &["k", "z"]);
        rig.fifo.replace(vec![obj("a", 2), obj("b", 2), obj("c", 2), obj("k", 2)], "1").unwrap();
        rig.fifo.delete(obj("b", 2)).unwrap();
        rig.fifo.update_batch(vec![obj("n", 3), obj("c", 3)]).unwrap();
        let drained = rig.drain();
        assert_eq!(drained[..3], ["b: R2 D2", "n: U3", "c: R2 U3"], "{mode:?}");
        let mut rest = drained[3..].to_vec();
        rest.sort();
        assert_eq!(rest, ["a: R2", "k: R2", "z: D(1)"], "{mode:?}");
        rig.fifo.resync();
        rig.fifo.add(obj("live", 4)).unwrap();
        if mode == Mode::Fused {
            assert_eq!(
                rig.handle().as_deref(),
                Some("live: A4"),
                "Syncs of a fused store are a backlog"
            );
        }
        rig.drain();
    }
}

#[test]
fn backlog_gets_one_of_eight_pops_under_any_live_load() {
    let keys: Vec<String> = (0..30).map(|number| format!("live-{number:02}")).collect();
    let offered = |rig: &Rig| keys.iter().for_each(|key| rig.fifo.add(obj(key, 1)).unwrap());
    let backlog_at = |drained: &[String]| -> Vec<usize> {
        drained
            .iter()
            .enumerate()
            .filter(|(_, shown)| shown.starts_with("old"))
            .map(|(at, _)| at)
            .collect()
    };
    let relisted = || (0..4).map(|number| obj(&format!("old-{number}"), 1)).collect();

    let rig = laned(Mode::Fused, &[]);
    rig.fifo.replace(relisted(), "1").unwrap();
    offered(&rig);
    assert_eq!(backlog_at(&rig.drain()), [7, 15, 23, 31], "popped singly");

    let rig = laned(Mode::Fused, &[]);
    rig.fifo.replace(relisted(), "1").unwrap();
    offered(&rig);
    let mut drained = Vec::new();
    while let Some(mut batch) = rig.fifo.try_pop_batch(5) {
        while let Some(item) = batch.next() {
            drained.push(item.key().to_owned());
            item.done();
        }
    }
    assert_eq!(backlog_at(&drained), [7, 15, 23, 31], "popped in batches");
}

#[test]
fn stale_backlog_entry_is_reused_by_the_next_relist() {
    let rig = laned(Mode::Fused, &[]);
    rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
    rig.fifo.update(obj("b", 2)).unwrap();
    assert_eq!(rig.handle().as_deref(), Some("b: R1 U2"));
    rig.fifo.replace(vec![obj("c", 3), obj("b", 3), obj("a", 3)], "2").unwrap();
    // b keeps the place of its old entry, and has only one place.
    assert_eq!(rig.drain(), ["a: R1 R3", "b: R3", "c: R3"]);
    rig.fifo.replace(vec![obj("b", 4)], "3").unwrap();
    assert_eq!(rig.drain(), ["b: R4", "a: D(3)", "c: D(3)"]);
    assert_eq!(rig.stored(), ["b=4"]);
}

#[test]
fn key_deleted_past_the_backlog_can_return_and_be_deleted_again() {
    for mode in MODES {
        let rig = laned(mode, &[]);
        rig.fifo.replace(vec![obj("a", 1), obj("b", 1), obj("c", 1)], "1").unwrap();
        rig.fifo.delete(obj("b", 1)).unwrap();
        assert_eq!(rig.handle().as_deref(), Some("b: R1 D1"), "{mode:?}");
        // The key is gone, though an entry of it is still in the backlog. Deleting it again has no
        // effect.
        rig.fifo.delete(obj("b", 1)).unwrap();
        assert_eq!(rig.pending("b"), None);
        rig.fifo.add(obj("b", 2)).unwrap();
        assert_eq!(rig.drain(), ["b: A2", "a: R1", "c: R1"], "{mode:?}");
        rig.fifo.delete(obj("b", 2)).unwrap();
        rig.drain();
        assert!(!rig.stored().iter().any(|stored| stored.starts_with('b')), "{mode:?}");
    }
}

#[test]
fn slot_kept_for_a_stale_entry_has_no_version() {
    let rig = Rig::with(Mode::Fused, |builder| builder.live_lane(true).skip_unchanged(true));
    rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
    rig.fifo.update(obj("b", 2)).unwrap();
    assert_eq!(rig.handle().as_deref(), Some("b: R1 U2"));
    rig.fifo.delete(obj("b", 2)).unwrap();
    assert_eq!(rig.handle().as_deref(), Some("b: D2"));
    rig.fifo.replace(vec![obj("b", 2), obj("a", 1)], "2").unwrap();
    assert_eq!(rig.drain(), ["a: R1 R1", "b: R2"]);
    assert_eq!(rig.stored(), ["a=1", "b=2"]);
}

#[test]
fn commit_does_not_delete_a_slot_kept_for_a_stale_entry() {
    let rig = laned(Mode::Fused, &[]);
    rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
    rig.fifo.delete(obj("b", 1)).unwrap();
    assert_eq!(rig.handle().as_deref(), Some("b: R1 D1"));
    assert_eq!(rig.fifo.replace(vec![obj("a", 2)], "2").unwrap().deleted, 0);
    assert_eq!(rig.fifo.pending_deltas(), 2);
    assert_eq!(rig.drain(), ["a: R1 R2"]);
    assert_eq!(rig.fifo.pending_deltas(), 0);
}

#[test]
fn initial_population_ends_with_its_last_item_in_either_lane() {
    let rig = laned(Mode::Fused, &[]);
    rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
    rig.fifo.update(obj("b", 2)).unwrap();
    rig.fifo.add(obj("later", 1)).unwrap();
    for (key, is_initial, synced) in
        [("b", true, false), ("later", false, false), ("a", true, true)]
    {
        let mut item = rig.fifo.try_pop().unwrap();
        assert_eq!((item.key(), item.is_in_initial_list()), (key, is_initial));
        item.apply(|_| ()).unwrap();
        item.done();
        assert_eq!(rig.fifo.has_synced(), synced, "after {key}");
    }
}

#[test]
fn rest_of_a_batch_returns_to_its_lane() {
    let rig = laned(Mode::Fused, &[]);
    rig.fifo.replace(vec![obj("a", 1), obj("b", 1), obj("c", 1)], "1").unwrap();
    rig.fifo.update(obj("b", 2)).unwrap();
    let mut batch = rig.fifo.try_pop_batch(10).unwrap();
    assert_eq!(batch.len(), 4, "b twice: its place in the backlog is stale");
    let first = batch.next().unwrap();
    assert_eq!(first.key(), "b");
    first.done();
    drop(batch);
    rig.fifo.add(obj("live", 1)).unwrap();
    assert_eq!(rig.drain(), ["live: A1", "a: R1", "c: R1"]);
}

#[test]
fn live_event_removes_its_key_from_an_unfinished_batch() {
    let rig = laned(Mode::Fused, &[]);
    rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
    let mut batch = rig.fifo.try_pop_batch(10).unwrap();
    rig.fifo.update(obj("b", 2)).unwrap();
    assert_eq!(rig.handle().as_deref(), Some("b: R1 U2"));
    assert_eq!(batch.next().map(|item| item.key().to_owned()).as_deref(), Some("a"));
    assert!(batch.next().is_none(), "b has been handed out");
}

#[test]
fn stale_entries_do_not_consume_the_backlogs_share() {
    let rig = laned(Mode::Fused, &[]);
    rig.fifo.replace(vec![obj("s1", 1), obj("s2", 1), obj("old", 1)], "1").unwrap();
    for key in ["s1", "s2"] {
        rig.fifo.update(obj(key, 2)).unwrap();
        rig.handle();
    }
    (0..30).for_each(|number| rig.fifo.add(obj(&format!("live-{number:02}"), 1)).unwrap());
    let drained = rig.drain();
    let at = drained.iter().position(|shown| shown.starts_with("old")).unwrap();
    assert!(at < 8, "popped after {at} others: {drained:?}");
}

#[test]
fn drop_with_a_backlog_and_stale_entries_releases_all_objects() {
    let rig = laned(Mode::Fused, &[]);
    let objects: Vec<_> = ["a", "b", "c"].iter().map(|key| obj(key, 1)).collect();
    rig.fifo.replace(objects.clone(), "1").unwrap();
    rig.fifo.update(objects[1].clone()).unwrap();
    rig.fifo.delete(objects[2].clone()).unwrap();
    rig.handle();
    let Rig { fifo, .. } = rig;
    drop(fifo);
    for object in objects {
        assert_eq!(std::sync::Arc::strong_count(&object), 1);
    }
}
