use tokio::time::Instant;

use super::{Faults, Verdict, judge};
use crate::election::history::{Change, Entry};
use crate::history::{LeaseState, Object, Token};

fn token(uid: &str, transitions: i32) -> Token {
    Token { uid: uid.to_owned(), transitions }
}

fn lease(uid: &str, transitions: i32, holder: &str) -> Change {
    let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
    Change::Lease(Some(LeaseState { token: token(uid, transitions), holder }))
}

fn write(object: Object, uid: &str, transitions: i32, identity: &str) -> Change {
    Change::Write { object, token: token(uid, transitions), identity: identity.to_owned() }
}

fn plain(uid: &str, transitions: i32, identity: &str) -> Change {
    write(Object::Plain, uid, transitions, identity)
}

fn judged(changes: impl IntoIterator<Item = Change>) -> Result<Verdict, String> {
    let at = Instant::now();
    let entries = (1..).zip(changes).map(|(version, change)| Entry { version, at, change });
    judge(&entries.collect::<Vec<_>>())
}

/// Returns the rule of electors that the history breaks.
fn broken(changes: impl IntoIterator<Item = Change>) -> &'static str {
    let verdict = judged(changes).expect("the record is not wrong");
    let [broken] = verdict.broken.as_slice() else {
        panic!("not one broken rule: {:?}", verdict.broken);
    };
    broken.rule
}

/// Returns the rule that the record breaks.
fn wrong(changes: impl IntoIterator<Item = Change>) -> String {
    let error = judged(changes).expect_err("the record is wrong");
    error.split(": ").next().unwrap_or_default().to_owned()
}

#[test]
fn release_and_claim_between_the_writes_of_two_terms_is_no_fault() {
    let verdict = judged([
        lease("u", 0, ""),
        lease("u", 1, "a"),
        plain("u", 1, "a"),
        lease("u", 1, "a"),
        write(Object::Versioned, "u", 1, "a"),
        lease("u", 1, ""),
        lease("u", 2, "b"),
        plain("u", 2, "b"),
    ]);
    assert_eq!(verdict, Ok(Verdict { terms: 2, writes: 3, ..Verdict::default() }));
}

#[test]
fn write_after_the_write_of_a_later_term_is_overlapped() {
    let verdict = judged([
        lease("u", 1, "a"),
        plain("u", 1, "a"),
        lease("u", 2, "b"),
        plain("u", 2, "b"),
        plain("u", 1, "a"),
        plain("u", 2, "b"),
    ])
    .unwrap();
    assert_eq!(verdict.plain, Faults { overlapped: 1, late: 1 });
    assert_eq!(verdict.versioned, Faults::default());
}

#[test]
fn every_write_of_an_earlier_term_is_overlapped() {
    let verdict = judged([
        lease("u", 1, "a"),
        lease("u", 2, "b"),
        write(Object::Versioned, "u", 2, "b"),
        write(Object::Versioned, "u", 1, "a"),
        write(Object::Versioned, "u", 1, "a"),
    ])
    .unwrap();
    assert_eq!(verdict.versioned, Faults { overlapped: 2, late: 2 });
}

#[test]
fn write_between_the_claim_and_the_first_write_of_a_later_term_is_late_but_not_overlapped() {
    let verdict = judged([
        lease("u", 1, "a"),
        plain("u", 1, "a"),
        lease("u", 2, "b"),
        plain("u", 1, "a"),
        plain("u", 2, "b"),
    ])
    .unwrap();
    assert_eq!(verdict.plain, Faults { overlapped: 0, late: 1 });
}

#[test]
fn write_to_one_object_does_not_overlap_a_write_to_the_other() {
    let verdict = judged([
        lease("u", 1, "a"),
        lease("u", 2, "b"),
        write(Object::Versioned, "u", 2, "b"),
        plain("u", 1, "a"),
    ])
    .unwrap();
    assert_eq!(verdict.plain, Faults { overlapped: 0, late: 1 });
    assert_eq!(verdict.versioned, Faults::default());
}

#[test]
fn terms_of_a_lease_that_was_created_again_are_later_although_their_numbers_are_smaller() {
    let again = [
        lease("u", 7, "a"),
        plain("u", 7, "a"),
        Change::Lease(None),
        plain("u", 7, "a"),
        lease("v", 0, "b"),
        plain("u", 7, "a"),
        lease("v", 1, "b"),
        plain("v", 1, "b"),
    ];
    let verdict = judged(again.clone()).unwrap();
    assert_eq!(verdict.plain, Faults::default(), "the creator of a lease has no term");
    let verdict = judged(again.into_iter().chain([plain("u", 7, "a")])).unwrap();
    assert_eq!(verdict.plain, Faults { overlapped: 1, late: 1 });
}

#[test]
fn falling_transitions_break_a_rule() {
    let rule = broken([lease("u", 2, "a"), lease("u", 1, "b")]);
    assert_eq!(rule, "the transitions fall");
}

#[test]
fn holder_that_changes_without_a_transition_breaks_a_rule() {
    let rule = "the holder changes without a transition";
    assert_eq!(broken([lease("u", 1, "a"), lease("u", 1, "b")]), rule);
    assert_eq!(broken([lease("u", 1, "a"), lease("u", 1, ""), lease("u", 1, "b")]), rule);
    assert_eq!(broken([lease("u", 1, "a"), lease("u", 1, ""), lease("u", 1, "a")]), rule);
    assert_eq!(broken([lease("u", 0, ""), lease("u", 0, "a")]), rule);
}

#[test]
fn term_without_a_holder_breaks_a_rule() {
    assert_eq!(broken([lease("u", 1, "a"), lease("u", 2, "")]), "a term has no holder");
}

#[test]
fn write_of_a_term_that_begins_later_breaks_a_rule() {
    let rule = broken([lease("u", 1, "a"), plain("u", 2, "b"), lease("u", 2, "b")]);
    assert_eq!(rule, "the term has not begun");
}

#[test]
fn write_of_the_creator_of_a_lease_breaks_a_rule() {
    let rule = broken([lease("u", 0, "a"), plain("u", 0, "a")]);
    assert_eq!(rule, "the term has not begun");
}

#[test]
fn write_by_another_than_the_holder_breaks_a_rule() {
    let rule = broken([lease("u", 1, "a"), plain("u", 1, "b")]);
    assert_eq!(rule, "the writer is not the holder of its term");
}

#[test]
fn terms_that_share_a_number_overlap() {
    let verdict = judged([
        lease("u", 1, "a"),
        plain("u", 1, "a"),
        lease("u", 1, "b"),
        plain("u", 1, "b"),
        plain("u", 1, "a"),
    ])
    .unwrap();
    assert_eq!(verdict.plain, Faults { overlapped: 1, late: 1 });
    assert_eq!(verdict.broken.len(), 1);
}

#[test]
fn uid_that_changes_without_a_deletion_breaks_a_rule() {
    let rule = wrong([lease("u", 1, "a"), lease("v", 2, "b")]);
    assert_eq!(rule, "the uid changes without a deletion");
}

#[test]
fn uid_that_returns_breaks_a_rule() {
    let rule = wrong([lease("u", 1, "a"), Change::Lease(None), lease("u", 1, "a")]);
    assert_eq!(rule, "a uid returns");
}

#[test]
fn falling_versions_break_a_rule() {
    let at = Instant::now();
    let entry = |version| Entry { version, at, change: lease("u", 1, "a") };
    assert!(judge(&[entry(2), entry(1)]).unwrap_err().starts_with("the versions fall"));
}
