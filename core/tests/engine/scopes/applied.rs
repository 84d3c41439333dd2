//! Tests of the applied version of a queue with scopes: the least version of those that count.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::rig::{drain, fused, list, object, two_scopes};
use deltafifo::{KeyScope, VersionError};

#[test]
fn applied_version_is_the_minimum_of_the_scopes() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1)], "10");
    drain(&fifo);
    assert_eq!((fifo.store().applied_version(), fifo.resource_version()), (None, None));
    list(&fifo, &green, &[object("green", "a", 1)], "5");
    assert_eq!(fifo.store().applied_version(), None, "green's item is not handled");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
    assert_eq!(fifo.resource_version().as_deref(), Some("5"));
    fifo.bookmark_in(&green, "12").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("10"));
    fifo.bookmark_in(&blue, "11").unwrap();
    fifo.bookmark_in(&blue, "3").unwrap();
    assert_eq!(
        fifo.store().applied_version().as_deref(),
        Some("11"),
        "a lower bookmark changes nothing"
    );
    assert!(matches!(fifo.bookmark_in(&blue, "new"), Err(VersionError::NotANumber { .. })));
    fifo.store().wait_for_resource_version("11").unwrap();
    // The scope that held the version back is removed.
    fifo.remove_scope(&blue).unwrap();
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("12"));
}

#[test]
fn bookmark_of_the_whole_queue_is_refused_while_it_has_scopes() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "10");
    let refused = fifo.bookmark("500");
    assert!(matches!(&refused, Err(VersionError::HasScopes { version }) if version == "500"));
    drain(&fifo);
    assert_eq!(fifo.store().applied_version(), None, "green is not listed");
    list(&fifo, &green, &[], "20");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("10"));
    fifo.remove_scope(&blue).unwrap();
    assert!(matches!(fifo.bookmark("500"), Err(VersionError::HasScopes { .. })));
    fifo.remove_scope(&green).unwrap();
    fifo.bookmark("500").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("500"));
}

#[test]
fn wait_for_a_version_waits_for_a_new_scope_and_is_not_rewound() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "5");
    list(&fifo, &green, &[], "5");
    let store = fifo.store();
    let mut waiting = pin!(store.wait_for_resource_version_async("6"));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    fifo.bookmark_in(&blue, "6").unwrap();
    fifo.bookmark_in(&green, "6").unwrap();
    assert!(waiting.as_mut().poll(&mut context).is_pending(), "red has no version");
    list(&fifo, &red, &[], "6");
    assert!(matches!(waiting.poll(&mut context), Poll::Ready(Ok(()))));
}

#[test]
fn new_scope_holds_the_applied_version_back_until_its_first_list_is_handled() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 5)], "5");
    list(&fifo, &green, &[], "4");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("4"));
    // This marker is queued before the scope is added, and handled after it.
    fifo.update(object("green", "a", 6)).unwrap();
    fifo.bookmark_in(&green, "6").unwrap();
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    drain(&fifo);
    assert_eq!(fifo.store().applied_version(), None, "red has no version");
    let mut relist = fifo.begin_replace_in(&red);
    relist.offer(vec![object("red", "a", 3)]).unwrap();
    relist.commit("7").unwrap();
    assert_eq!(fifo.store().applied_version(), None, "the list of red is not handled");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"), "blue is the least");

    // A scope that is given up or removed does not hold the version back.
    for waive in [true, false] {
        let late = fifo.add_scope(KeyScope::namespace(format!("late {waive}"))).unwrap();
        assert_eq!(fifo.store().applied_version(), None);
        if waive {
            fifo.waive_scope(&late);
        } else {
            fifo.remove_scope(&late).unwrap();
        }
        assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
    }
}

#[test]
fn waived_scope_does_not_hold_the_applied_version_back_until_its_next_list_or_bookmark() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    for scope in [&blue, &green] {
        list(&fifo, scope, &[], "1");
    }
    let applied_after = |version| {
        fifo.bookmark_in(&blue, version).unwrap();
        fifo.store().applied_version().unwrap()
    };
    assert_eq!(applied_after("2"), "1");
    fifo.waive_scope(&green);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("2"));
    assert_eq!(applied_after("3"), "3");
    fifo.bookmark_in(&green, "4").unwrap();
    assert_eq!(applied_after("5"), "4");
    fifo.waive_scope(&green);
    assert_eq!(applied_after("6"), "6");
    fifo.bookmark_in(&green, "no number").unwrap_err();
    assert_eq!(applied_after("7"), "7");
    list(&fifo, &green, &[], "8");
    assert_eq!(applied_after("9"), "8");
}

#[test]
fn list_that_ends_a_waiver_is_handled_before_any_version_is_applied() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&green);
    list(&fifo, &blue, &[], "300");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("300"), "green is waived");
    list(&fifo, &green, &[object("green", "a", 150)], "400");
    assert_eq!(fifo.store().applied_version(), None, "green/a is not handled");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("300"));

    fifo.waive_scope(&green);
    fifo.bookmark_in(&blue, "600").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("600"), "green is waived");
    list(&fifo, &green, &[object("green", "a", 150)], "500");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("500"), "green is at 500");
}

#[test]
fn list_with_a_version_that_is_no_number_ends_a_waiver_and_keeps_the_applied_version() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "10");
    list(&fifo, &green, &[], "5");
    fifo.waive_scope(&green);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("10"));
    list(&fifo, &green, &[], "x");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
}
