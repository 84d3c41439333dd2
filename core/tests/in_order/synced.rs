//! Tests of the exact moments at which `has_synced` and `is_in_initial_list` change.

use std::panic::resume_unwind;

use crate::common::obj;
use crate::rig::{Fifo, apply, over};

fn listed() -> Fifo {
    let fifo = over([]);
    fifo.replace(vec![obj("a", 1)], "1").unwrap();
    fifo.update(obj("a", 2)).unwrap();
    fifo
}

#[test]
fn event_after_the_first_relist_is_not_in_the_initial_list() {
    let fifo = listed();
    fifo.replace(vec![obj("b", 1)], "2").unwrap();
    let mut initial = Vec::new();
    while let Some(mut turn) = fifo.try_pop_batch(9) {
        initial.push((turn.is_in_initial_list(), fifo.has_synced()));
        apply(&mut turn);
    }
    assert_eq!(initial, [(true, false), (false, true), (false, true)]);
}

#[test]
fn resync_before_the_first_relist_is_in_the_initial_list() {
    let fifo = over([]);
    fifo.resync();
    fifo.replace(vec![], "1").unwrap();
    for _ in 0..2 {
        let mut turn = fifo.try_pop().unwrap();
        assert!(turn.is_in_initial_list() && !fifo.has_synced());
        apply(&mut turn);
    }
    assert!(fifo.has_synced());
}

#[test]
fn first_relist_counts_as_handled_if_its_handler_fails_or_panics() {
    let fifo = listed();
    assert!(fifo.process(|_| Err::<(), _>("no")).is_err());
    assert!(fifo.has_synced());
    let fifo = listed();
    assert!(fifo.process::<(), ()>(|_| resume_unwind(Box::new("meant"))).is_err());
    assert!(fifo.has_synced());
}

#[test]
fn offer_behind_the_first_relist_neither_syncs_nor_delays_the_queue() {
    let fifo = listed();
    assert!(!fifo.has_synced());
    fifo.pop().unwrap().done();
    assert!(fifo.has_synced(), "the offer does not delay the sync");
}

#[test]
fn offer_before_the_first_relist_syncs_the_queue_forever() {
    let fifo = over([]);
    fifo.add(obj("a", 1)).unwrap();
    assert!(fifo.has_synced());
    fifo.replace(vec![obj("b", 1)], "1").unwrap();
    assert!(fifo.has_synced());
    assert!(!fifo.pop().unwrap().is_in_initial_list());
}
