use super::{Faults, Verdict, judge};
use crate::history::Object;
use crate::replicas::histories::{
    PLAIN, changed, history, map, shard, shard_deleted, token, written,
};
use crate::replicas::history::{Change, MapState, Stamp};

fn judged(changes: impl IntoIterator<Item = Change>) -> Result<Verdict, String> {
    judge(&history(changes))
}

/// Returns the rule that the history breaks.
fn broken(changes: impl IntoIterator<Item = Change>) -> &'static str {
    let verdict = judged(changes).expect("the record is not wrong");
    let [broken] = verdict.broken.as_slice() else {
        panic!("not one broken rule: {:?}", verdict.broken);
    };
    broken.rule
}

const A: (&str, i32, &str) = ("u", 1, "a");
const B: (&str, i32, &str) = ("u", 2, "b");

#[test]
fn change_that_each_owner_reconciles_is_no_fault() {
    let verdict = judged([
        shard(0, "u", 0, ""),
        changed(PLAIN, 0),
        shard(0, "u", 1, "a"),
        written(PLAIN, 0, A, 0),
        written(PLAIN, 1, A, 0),
        shard(0, "u", 1, ""),
        shard(0, "u", 2, "b"),
        written(PLAIN, 1, B, 1),
        written(PLAIN, 2, B, 1),
        written(PLAIN, 2, B, 2),
    ]);
    assert_eq!(verdict, Ok(Verdict { terms: 2, writes: 3, changes: 3, ..Verdict::default() }));
}

#[test]
fn write_after_the_write_of_a_later_term_is_overlapped() {
    for object in Object::ALL {
        let verdict = judged([
            changed(object, 0),
            shard(0, "u", 1, "a"),
            written(object, 0, A, 0),
            shard(0, "u", 2, "b"),
            written(object, 0, B, 0),
            written(object, 0, A, 0),
        ])
        .unwrap();
        let (faulty, other) = match object {
            Object::Versioned => (verdict.versioned, verdict.plain),
            Object::Plain => (verdict.plain, verdict.versioned),
        };
        assert_eq!(faulty, Faults { overlapped: vec![6], late: vec![6] });
        assert_eq!(other, Faults::default());
    }
}

#[test]
fn write_between_the_claim_and_the_first_write_of_a_later_term_is_late_but_not_overlapped() {
    let verdict = judged([
        changed(PLAIN, 0),
        shard(0, "u", 1, "a"),
        shard(0, "u", 2, "b"),
        written(PLAIN, 0, A, 0),
        written(PLAIN, 0, B, 0),
    ])
    .unwrap();
    assert_eq!(verdict.plain, Faults { overlapped: vec![], late: vec![4] });
}

#[test]
fn terms_of_a_lease_that_was_created_again_are_later_although_their_numbers_are_smaller() {
    let verdict = judged([
        changed(PLAIN, 0),
        shard(0, "u", 7, "a"),
        shard_deleted(0),
        written(PLAIN, 0, ("u", 7, "a"), 0),
        shard(0, "v", 0, "b"),
        shard(0, "v", 1, "b"),
        written(PLAIN, 0, ("v", 1, "b"), 0),
        written(PLAIN, 0, ("u", 7, "a"), 0),
    ])
    .unwrap();
    assert_eq!(verdict.plain, Faults { overlapped: vec![8], late: vec![8] });
    assert_eq!(verdict.broken, []);
}

#[test]
fn change_without_a_later_reconcile_breaks_a_rule() {
    let rule = "no reconcile follows a change";
    assert_eq!(broken([changed(PLAIN, 0)]), rule);
    let reconciled = [changed(PLAIN, 0), shard(0, "u", 1, "a"), written(PLAIN, 0, A, 0)];
    assert_eq!(broken(reconciled.clone().into_iter().chain([written(PLAIN, 1, A, 0)])), rule);
    let deleted = Change::Map { name: PLAIN.name("map"), object: PLAIN, state: None };
    let ended = reconciled.into_iter().chain([written(PLAIN, 1, A, 0), deleted]);
    assert_eq!(judged(ended).unwrap().broken, []);
}

#[test]
fn reconcile_that_has_seen_an_older_change_does_not_follow_the_last_one() {
    let rule = broken([
        changed(PLAIN, 0),
        shard(0, "u", 1, "a"),
        changed(PLAIN, 1),
        written(PLAIN, 1, A, 0),
    ]);
    assert_eq!(rule, "no reconcile follows a change");
}

#[test]
fn reconcile_from_a_state_before_the_claim_breaks_a_rule() {
    let rule = broken([
        changed(PLAIN, 0),
        shard(0, "u", 1, "a"),
        written(PLAIN, 0, A, 0),
        written(PLAIN, 1, A, 0),
        shard(0, "u", 2, "b"),
        written(PLAIN, 1, B, 0),
        written(PLAIN, 1, B, 1),
    ]);
    assert_eq!(rule, "a reconcile has not seen a change that precedes its term");
}

#[test]
fn reconcile_that_has_not_seen_a_change_after_the_claim_breaks_no_rule() {
    let verdict = judged([
        changed(PLAIN, 0),
        shard(0, "u", 1, "a"),
        changed(PLAIN, 1),
        written(PLAIN, 1, A, 0),
        written(PLAIN, 1, A, 1),
    ]);
    assert_eq!(verdict.unwrap().broken, []);
}

#[test]
fn reconcile_of_an_unknown_change_breaks_a_rule() {
    let rule = broken([
        changed(PLAIN, 0),
        shard(0, "u", 1, "a"),
        written(PLAIN, 0, A, 0),
        written(PLAIN, 0, A, 5),
    ]);
    assert_eq!(rule, "a reconcile has seen a change that was not written");
}

#[test]
fn write_by_another_than_the_owner_breaks_a_rule() {
    let write = |by| [changed(PLAIN, 0), shard(0, "u", 1, "a"), written(PLAIN, 0, by, 0)];
    let rules = |by| {
        let broken = judged(write(by)).unwrap().broken;
        broken.into_iter().map(|broken| broken.rule).collect::<Vec<_>>()
    };
    let missed = "no reconcile follows a change";
    assert_eq!(rules(A), [""; 0]);
    assert_eq!(rules(("u", 1, "b")), ["the writer is not the holder of its term", missed]);
    assert_eq!(rules(B), ["the term has not begun", missed]);
}

#[test]
fn map_that_changes_its_shard_breaks_a_rule() {
    let stamp = Stamp { shard: 1, token: token("v", 1), identity: "b".to_owned(), seen: 0 };
    let rule = broken([
        changed(PLAIN, 0),
        shard(0, "u", 1, "a"),
        shard(1, "v", 1, "b"),
        written(PLAIN, 0, A, 0),
        map(PLAIN, 0, Some(stamp)),
    ]);
    assert_eq!(rule, "a config map changes its shard");
}

#[test]
fn falling_transitions_of_a_shard_break_a_rule() {
    let rule = broken([shard(0, "u", 2, "a"), shard(0, "u", 1, "b")]);
    assert_eq!(rule, "the transitions fall");
    let others = judged([shard(0, "u", 2, "a"), shard(1, "v", 1, "b")]);
    assert_eq!(others.unwrap().broken, []);
}

#[test]
fn uid_of_a_map_that_changes_without_a_deletion_is_an_error() {
    let other = MapState { uid: "other".to_owned(), change: 0, stamp: None };
    let other = Change::Map { name: PLAIN.name("map"), object: PLAIN, state: Some(other) };
    let error = judged([changed(PLAIN, 0), other]).unwrap_err();
    assert!(error.starts_with("the uid changes without a deletion"), "{error}");
}
