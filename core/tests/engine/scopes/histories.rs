//! Tests of the applied version while the API server is restored: lists and bookmarks of a scope
//! belong to the former history or to the new one.

use super::rig::{drain, fused, list, two_scopes};
use deltafifo::{KeyScope, WaitError};

#[test]
fn after_a_restore_no_version_is_applied_until_every_scope_relisted() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "100");
    list(&fifo, &green, &[], "90");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("90"));
    // Blue's list shows another history, which green has not noticed yet.
    list(&fifo, &blue, &[], "20");
    fifo.bookmark_in(&blue, "95").unwrap();
    fifo.bookmark_in(&green, "91").unwrap();
    assert_eq!(fifo.store().applied_version(), None, "91 of green is of the former history");
    list(&fifo, &green, &[], "30");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("30"));
    // Green's version in the new history is higher than before. Its list is still required.
    list(&fifo, &blue, &[], "40");
    list(&fifo, &green, &[], "200");
    fifo.bookmark_in(&blue, "250").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("200"));
    fifo.close();
    assert!(matches!(fifo.store().wait_for_resource_version("300"), Err(WaitError::Closed { .. })));
}

#[test]
fn scope_that_listed_before_a_restore_was_noticed_is_of_the_former_history_until_its_next_list() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "100");
    list(&fifo, &green, &[], "50");
    // The API server is restored to 80. Green had not come so far, so its list shows nothing of it.
    list(&fifo, &green, &[], "85");
    list(&fifo, &blue, &[], "86");
    for version in ["87", "200"] {
        fifo.bookmark_in(&blue, version).unwrap();
        fifo.bookmark_in(&green, version).unwrap();
        assert_eq!(
            fifo.store().applied_version(),
            None,
            "85 of green may be of the former history"
        );
    }
    list(&fifo, &green, &[], "200");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("200"));
}

#[test]
fn list_that_began_before_a_new_history_is_of_the_former_one() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "100");
    list(&fifo, &green, &[], "90");
    let began_before = fifo.begin_replace_in(&green);
    list(&fifo, &blue, &[], "80");
    began_before.commit("120").unwrap();
    assert_eq!(fifo.store().applied_version(), None, "120 of green is of the former history");
    list(&fifo, &green, &[], "81");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("80"));
}

#[test]
fn bookmark_of_a_scope_without_a_list_is_of_the_history_in_which_the_scope_was_added() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "100");
    fifo.bookmark_in(&green, "100").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("100"));
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    list(&fifo, &blue, &[], "80");
    list(&fifo, &green, &[], "81");
    // The watch of the bookmark may have been opened before the restore.
    fifo.bookmark_in(&red, "110").unwrap();
    assert_eq!(fifo.store().applied_version(), None, "110 of red is of the former history");
    list(&fifo, &red, &[], "82");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("80"));

    let new = fifo.add_scope(KeyScope::namespace("new")).unwrap();
    fifo.bookmark_in(&new, "83").unwrap();
    assert_eq!(
        fifo.store().applied_version().as_deref(),
        Some("80"),
        "it was added after the restore"
    );
}

#[test]
fn lists_of_two_scopes_show_the_same_histories_in_either_order() {
    for commits_blue_first in [true, false] {
        let fifo = fused();
        let [blue, green] = two_scopes(&fifo);
        list(&fifo, &blue, &[], "100");
        list(&fifo, &green, &[], "90");
        let (of_blue, of_green) = (fifo.begin_replace_in(&blue), fifo.begin_replace_in(&green));
        let mut commits = [(of_blue, "80"), (of_green, "70")];
        if !commits_blue_first {
            commits.reverse();
        }
        for (relist, version) in commits {
            relist.commit(version).unwrap();
        }
        assert_eq!(
            fifo.store().applied_version().as_deref(),
            Some("70"),
            "both began the same history"
        );
    }
}
