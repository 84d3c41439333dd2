//! Tests that the oracle detects violations, and only these.

use deltafifo::ResourceVersion;

use super::{Change, Counts, HandlerLog, State, States, difference};
use crate::written::Written;

const KEY: &str = "ns/a";

fn state(uid: &str, version: u32) -> State {
    State { uid: uid.to_owned(), version: ResourceVersion::parse(&version.to_string()) }
}

fn stored(version: u32) -> States {
    States::from([(KEY.to_owned(), state("one", version))])
}

#[derive(Default)]
struct Story(HandlerLog);

impl Story {
    fn added(self, version: u32) -> Self {
        self.added_as("one", version)
    }

    fn added_as(mut self, uid: &str, version: u32) -> Self {
        self.0.record(KEY, Change::Added { new: state(uid, version) });
        self
    }

    fn updated(mut self, old: u32, new: u32) -> Self {
        self.0.record(KEY, Change::Updated { old: state("one", old), new: state("one", new) });
        self
    }

    fn replaced(mut self, old: u32, new: u32) -> Self {
        self.0.record(KEY, Change::Updated { old: state("one", old), new: state("two", new) });
        self
    }

    fn deleted(self, version: u32) -> Self {
        self.ended(Some(state("one", version)), false)
    }

    fn ended(mut self, last: Option<State>, is_tombstone: bool) -> Self {
        self.0.record(KEY, Change::Deleted { last, is_tombstone });
        self
    }

    fn begins(mut self) -> Self {
        self.0.resync_begins();
        self
    }

    fn ends(mut self) -> Self {
        self.0.resync_ends();
        self
    }

    fn faults(&self) -> usize {
        self.0.faults.len()
    }

    /// Returns whether the notifications break no rule. `stored` is the server's state. All states
    /// of which the handler was notified count as written.
    fn holds(&self, stored: &States) -> bool {
        let written = Written::default();
        self.0.states.iter().for_each(|(key, state)| written.record(key.clone(), state.clone()));
        self.0.judge(stored, &written).is_ok()
    }
}

#[test]
fn growing_versions_break_no_rule() {
    let story = Story::default()
        .added(2)
        .updated(2, 7)
        .updated(7, 7)
        .deleted(8)
        .added_as("two", 9)
        .ended(None, true);
    assert_eq!(story.faults(), 0);
    assert_eq!(
        story.0.counts(),
        Counts { added: 2, updated: 1, unchanged: 1, deleted: 2, tombstones: 1 }
    );
    assert!(story.holds(&States::new()));
}

#[test]
fn lower_version_is_a_violation_even_after_a_deletion() {
    assert_eq!(Story::default().added(7).updated(7, 6).faults(), 1);
    assert_eq!(Story::default().added(7).deleted(6).faults(), 1);
    assert_eq!(Story::default().added(7).deleted(9).added_as("two", 8).faults(), 1);
    assert_eq!(Story::default().added(7).begins().added(6).faults(), 1);
    assert_eq!(Story::default().added(7).begins().ends().added_as("two", 6).faults(), 1);
}

#[test]
fn change_that_does_not_follow_the_known_state_is_a_violation() {
    assert_eq!(Story::default().updated(1, 2).faults(), 1);
    assert_eq!(Story::default().added(1).updated(2, 3).faults(), 1);
    assert_eq!(Story::default().added(1).added(2).faults(), 1);
    assert_eq!(Story::default().deleted(1).faults(), 1);
    assert_eq!(Story::default().added(1).ended(Some(state("two", 2)), false).faults(), 1);
    assert_eq!(Story::default().added(1).ends().faults(), 1);
}

#[test]
fn deleted_object_must_not_return() {
    assert_eq!(Story::default().added(7).deleted(8).added(9).faults(), 1);
    assert_eq!(Story::default().added(7).ended(None, true).added(7).faults(), 1);
    assert_eq!(Story::default().added(7).begins().ends().added(7).faults(), 1);
    assert_eq!(
        Story::default()
            .added(7)
            .replaced(7, 8)
            .ended(Some(state("two", 9)), false)
            .added(10)
            .faults(),
        1
    );
}

#[test]
fn unfinished_resync_is_a_violation() {
    assert!(!Story::default().added(7).begins().added(7).holds(&stored(7)));
    assert!(Story::default().added(7).begins().added(7).ends().holds(&stored(7)));
}

#[test]
fn tombstone_with_an_unwritten_state_is_a_violation() {
    let (story, written) =
        (Story::default().added(7).ended(Some(state("one", 8)), true), Written::default());
    written.record(KEY.to_owned(), state("one", 7));
    assert!(story.0.judge(&States::new(), &written).is_err());
    written.record(KEY.to_owned(), state("one", 8));
    assert!(story.0.judge(&States::new(), &written).is_ok());
}

#[test]
fn missed_change_or_deletion_differs_from_a_fresh_list() {
    let story = Story::default().added(7);
    assert_eq!(difference(story.0.live(), &stored(7)), None);
    assert!(difference(story.0.live(), &stored(8)).is_some_and(|what| what.contains("ns/a is")));
    assert!(
        difference(story.0.live(), &States::new())
            .is_some_and(|what| what.contains("is deleted, but still known"))
    );
}

#[test]
fn added_object_that_is_neither_stored_nor_deleted_is_a_violation() {
    assert!(Story::default().added(7).holds(&stored(7)));
    assert!(!Story::default().added(7).holds(&States::new()));
    assert!(Story::default().added(7).deleted(8).holds(&States::new()));
    assert!(
        Story::default().added(7).replaced(7, 8).deleted(7).faults() > 0,
        "the deletion is that of the other object"
    );
    let other = States::from([(KEY.to_owned(), state("two", 8))]);
    assert!(Story::default().added(7).replaced(7, 8).holds(&other));
    assert!(!Story::default().added(7).holds(&other));
}

#[test]
fn object_missing_in_a_resync_counts_as_deleted() {
    let story = Story::default().added(7).begins();
    assert!(!story.holds(&States::new()), "the resync has not ended");
    assert!(story.ends().holds(&States::new()));
    assert!(Story::default().added(7).begins().begins().added(8).ends().holds(&stored(8)));
    let other = States::from([(KEY.to_owned(), state("two", 8))]);
    assert!(Story::default().added(7).begins().added_as("two", 8).ends().holds(&other));
}

#[test]
fn unwritten_state_is_a_violation_unless_an_answer_was_lost() {
    let (story, written) = (Story::default().added(7), Written::default());
    assert!(story.0.judge(&stored(7), &written).is_err());
    written.record_unanswered(KEY.to_owned());
    assert!(story.0.judge(&stored(7), &written).is_ok());
}

#[test]
fn line_of_client_go_is_parsed() {
    let read = |text: &str| serde_json::from_str::<Change>(text).unwrap();
    let added = read(r#"{"added":{"new":{"uid":"one","version":"7"}}}"#);
    assert!(matches!(added, Change::Added { new } if new == state("one", 7)));
    let gone = read(r#"{"deleted":{"last":null,"is_tombstone":true}}"#);
    assert!(matches!(gone, Change::Deleted { last: None, is_tombstone: true }));
}
