//! Tests of the initial population of a queue with scopes: the first lists that it waits for, if
//! scopes are waived, awaited again and removed.

use super::rig::{drain, fused, list, object, stored, two_scopes};
use deltafifo::KeyScope;

#[test]
fn queue_is_synced_when_the_first_list_of_every_scope_is_handled() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1)], "1");
    // Events of blue's watch do not populate the queue.
    fifo.update(object("blue", "a", 2)).unwrap();
    drain(&fifo);
    assert!(!fifo.has_synced(), "green is not listed");
    drop(fifo.begin_replace_in(&green));
    assert!(!fifo.has_synced(), "an abandoned list is none");
    list(&fifo, &blue, &[object("blue", "a", 3)], "3");
    drain(&fifo);
    assert!(!fifo.has_synced());
    list(&fifo, &green, &[object("green", "a", 1)], "4");
    assert!(!fifo.has_synced(), "its item is not handled");
    let mut item = fifo.try_pop().unwrap();
    assert!(item.is_in_initial_list());
    item.apply(|_| ()).unwrap();
    drop(item);
    assert!(fifo.has_synced());
    // A scope that is added later does not reset the sync.
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    assert!(fifo.has_synced());
    list(&fifo, &red, &[object("red", "a", 5)], "5");
    assert!(!fifo.try_pop().unwrap().is_in_initial_list());
}

#[test]
fn initial_population_ignores_a_waived_or_removed_scope() {
    for waive in [true, false] {
        let fifo = fused();
        let [blue, green] = two_scopes(&fifo);
        list(&fifo, &blue, &[object("blue", "a", 1)], "1");
        drain(&fifo);
        if waive {
            fifo.waive_scope(&green);
        } else {
            fifo.remove_scope(&green).unwrap();
        }
        assert!(fifo.has_synced());
        assert_eq!(
            fifo.store().applied_version().as_deref(),
            Some("1"),
            "green does not hold the version back"
        );
    }
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&blue);
    assert!(!fifo.has_synced());
    fifo.waive_scope(&green);
    assert!(fifo.has_synced());
    list(&fifo, &green, &[object("green", "a", 1)], "7");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("7"), "a later list counts");
}

#[test]
fn waived_scope_that_is_awaited_again_counts_as_new_until_its_first_list_is_handled() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    fifo.waive_scope(&green);
    fifo.waive_scope(&red);
    fifo.await_scope(&green);
    list(&fifo, &blue, &[object("blue", "a", 1)], "10");
    drain(&fifo);
    assert!(!fifo.has_synced(), "green is not listed");
    assert_eq!(fifo.store().applied_version(), None, "green is not listed");
    list(&fifo, &green, &[object("green", "a", 1)], "5");
    assert!(!fifo.has_synced(), "green's list is not handled");
    drain(&fifo);
    assert!(fifo.has_synced());
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));

    fifo.await_scope(&red);
    assert_eq!(fifo.store().applied_version(), None, "red is not listed");
    assert!(fifo.has_synced(), "a queue stays synced");
    list(&fifo, &red, &[], "20");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
    // A scope that was listed counts with its last list.
    fifo.waive_scope(&green);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("10"));
    fifo.await_scope(&green);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"), "green has reached 5");
    fifo.await_scope(&green);
    fifo.bookmark_in(&blue, "30").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"), "green has reached 5");
    fifo.remove_scope(&green).unwrap();
    drain(&fifo);
    fifo.await_scope(&green);
    assert_eq!(
        fifo.store().applied_version().as_deref(),
        Some("20"),
        "a removed scope does not count"
    );
}

#[test]
fn list_that_began_while_its_scope_was_waived_does_not_end_the_wait_for_its_first_list() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&green);
    let mut relist = fifo.begin_replace_in(&green);
    relist.offer(vec![object("green", "a", 1)]).unwrap();
    fifo.await_scope(&green);
    list(&fifo, &blue, &[], "1");
    relist.commit("1").unwrap();
    assert!(!fifo.has_synced(), "the list is not handled");
    list(&fifo, &green, &[object("green", "a", 1), object("green", "b", 1)], "2");
    assert!(!fifo.has_synced(), "the second list is not handled");
    drain(&fifo);
    assert!(fifo.has_synced());
}

#[test]
fn list_that_does_not_end_the_wait_for_its_scope_is_not_its_first_list() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&green);
    let mut unmarked = fifo.begin_replace_in(&green);
    unmarked.offer(vec![object("green", "a", 1)]).unwrap();
    fifo.await_scope(&green);
    unmarked.commit("1").unwrap();
    fifo.waive_scope(&green);
    fifo.await_scope(&green);
    list(&fifo, &blue, &[], "1");
    assert!(!fifo.has_synced(), "green/a is not handled");
    drain(&fifo);
    assert!(!fifo.has_synced(), "green has had no list of the initial population");
    list(&fifo, &green, &[object("green", "a", 1)], "2");
    drain(&fifo);
    assert!(fifo.has_synced());
}

#[test]
fn list_that_does_not_count_deletes_keys_and_ends_neither_a_waiver_nor_a_wait() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.update(object("green", "a", 1)).unwrap();
    fifo.update(object("green", "b", 1)).unwrap();
    drain(&fifo);
    fifo.waive_scope(&green);
    let uncounted = green.uncounted();
    assert_eq!(list(&fifo, &uncounted, &[object("green", "a", 2)], "2"), 1);
    list(&fifo, &blue, &[], "1");
    assert_eq!(fifo.store().applied_version(), None, "green/b is not handled");
    drain(&fifo);
    assert_eq!(stored(&fifo), ["green/a"]);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("1"), "green is waived");
    assert_eq!(fifo.resource_version().as_deref(), Some("1"), "green is waived");

    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&green);
    let uncounted = green.uncounted();
    list(&fifo, &uncounted, &[], "2");
    fifo.await_scope(&green);
    list(&fifo, &uncounted, &[], "3");
    list(&fifo, &blue, &[], "1");
    assert!(!fifo.has_synced(), "green is not listed");
    assert_eq!(fifo.resource_version(), None, "green is not listed");
    list(&fifo, &green, &[], "4");
    assert!(fifo.has_synced());
    // The removal of a scope through such a handle ends the wait for the scope, too.
    let late = fused();
    let [blue, green] = two_scopes(&late);
    list(&late, &blue, &[], "1");
    late.remove_scope(&green.uncounted()).unwrap();
    assert!(late.has_synced());
}

#[test]
fn open_relist_of_a_waived_scope_delays_the_sync_until_its_offers_are_handled() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "1");
    let mut relist = fifo.begin_replace_in(&green);
    relist.offer(vec![object("green", "a", 1)]).unwrap();
    fifo.waive_scope(&green);
    relist.offer(vec![object("green", "b", 1)]).unwrap();
    for _ in 0..2 {
        assert!(!fifo.has_synced(), "an offer of the first list is not handled");
        fifo.try_pop().unwrap().apply(|_| ()).unwrap();
    }
    assert!(fifo.has_synced(), "the sync does not wait for the commit");
    relist.commit("1").unwrap();
}
