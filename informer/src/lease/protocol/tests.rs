//! Tests of single histories. `explore` covers their combinations.

use super::*;

type Lease = Record<&'static str, ()>;

fn at(seconds: u64) -> Clocks {
    Clocks {
        monotonic: Duration::from_secs(seconds),
        wall: Duration::from_secs(1_000_000 + seconds),
    }
}

fn candidate() -> Protocol<&'static str, ()> {
    let timing = Timing {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    Protocol::new(timing, "me", None)
}

fn lease(version: &'static str, holder: Option<&'static str>, transitions: i32) -> Lease {
    let duration = Duration::from_secs(15);
    Record { version, uid: "uid", holder, transitions, duration, body: () }
}

/// Sends the next request, which must be `request`, and answers it at once.
fn exchange(
    candidate: &mut Protocol<&'static str, ()>,
    now: Clocks,
    expected: LeaseRequest<&'static str, ()>,
    answer: Answer<&'static str, ()>,
) {
    let CandidateStep::Send { number, request } = candidate.next(now) else { panic!("no request") };
    assert_eq!(request, expected);
    candidate.answered(now, number, answer);
}

fn replace(
    base: Lease,
    holder: Option<&'static str>,
    transitions: i32,
) -> LeaseRequest<&'static str, ()> {
    LeaseRequest::Replace { base, holder, transitions }
}

fn wait(seconds: u64) -> CandidateStep<&'static str, ()> {
    CandidateStep::Wait(Some(Duration::from_secs(seconds)))
}

/// Returns a candidate that claimed a free lease at second 0, and the lease.
fn holder() -> (Protocol<&'static str, ()>, Lease) {
    let (free, mine) = (lease("1", None, 4), lease("2", Some("me"), 5));
    let mut candidate = candidate();
    exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(Some(free)));
    exchange(&mut candidate, at(0), replace(free, Some("me"), 5), Answer::State(Some(mine)));
    assert_eq!(candidate.held(), Some((at(10), &mine)));
    (candidate, mine)
}

#[test]
fn free_lease_is_claimed_at_once_and_renewed_each_third_of_its_duration() {
    let (mut candidate, mine) = holder();
    assert_eq!(candidate.next(at(0)), wait(5));
    let renewed = lease("3", Some("me"), 5);
    exchange(&mut candidate, at(5), replace(mine, Some("me"), 5), Answer::State(Some(renewed)));
    assert_eq!(candidate.held(), Some((at(15), &renewed)));
    assert_eq!(candidate.next(at(5)), wait(10));
}

#[test]
fn deadline_counts_from_the_time_when_the_renewal_was_sent() {
    let (mut candidate, _) = holder();
    let CandidateStep::Send { number, .. } = candidate.next(at(5)) else { panic!("no renewal") };
    assert_eq!(candidate.next(at(5)), wait(10));
    candidate.answered(at(9), number, Answer::State(Some(lease("3", Some("me"), 5))));
    assert_eq!(candidate.held().unwrap().0, at(15));
}

#[test]
fn failed_renewals_are_repeated_until_the_deadline() {
    let (mut candidate, mine) = holder();
    for second in [5, 7, 9] {
        exchange(&mut candidate, at(second), replace(mine, Some("me"), 5), Answer::Unclear);
    }
    assert_eq!(candidate.next(at(9)), wait(10));
    assert_eq!(candidate.next(at(10)), CandidateStep::Lost(Loss::Deadline));
    assert_eq!(candidate.held(), None);
}

#[test]
fn deadline_of_the_wall_clock_counts_if_the_monotonic_clock_stood_still() {
    let (mut candidate, _) = holder();
    let woken = Clocks { wall: at(11).wall, ..at(1) };
    assert_eq!(candidate.next(woken), CandidateStep::Lost(Loss::Deadline));
}

#[test]
fn renewal_that_conflicts_with_an_edit_continues_with_the_version_that_was_read() {
    let (mut candidate, mine) = holder();
    let edited = lease("3", Some("me"), 5);
    exchange(&mut candidate, at(5), replace(mine, Some("me"), 5), Answer::Conflict);
    exchange(&mut candidate, at(5), LeaseRequest::Read, Answer::State(Some(edited)));
    assert_eq!(candidate.held().unwrap().0, at(10), "a read moves no deadline");
    exchange(&mut candidate, at(5), replace(edited, Some("me"), 5), Answer::Conflict);
    assert_eq!(candidate.next(at(5)), wait(7), "after a second conflict");
    let edited = lease("4", Some("me"), 5);
    exchange(&mut candidate, at(7), LeaseRequest::Read, Answer::State(Some(edited)));
    let renewed = lease("5", Some("me"), 5);
    exchange(&mut candidate, at(7), replace(edited, Some("me"), 5), Answer::State(Some(renewed)));
    assert_eq!(candidate.held(), Some((at(17), &renewed)));
}

#[test]
fn holder_that_reads_another_holder_or_no_lease_is_lost_at_once() {
    for (read, by) in [(Some(lease("3", Some("other"), 6)), Some("other")), (None, None)] {
        let (mut candidate, mine) = holder();
        exchange(&mut candidate, at(5), replace(mine, Some("me"), 5), Answer::Conflict);
        exchange(&mut candidate, at(5), LeaseRequest::Read, Answer::State(read));
        assert_eq!(candidate.next(at(5)), CandidateStep::Lost(Loss::Replaced(by)));
    }
}

#[test]
fn watched_change_by_another_makes_the_holder_read_at_once() {
    let (mut candidate, mine) = holder();
    candidate.observed(at(1), Some(mine));
    assert_eq!(candidate.next(at(1)), wait(5));
    candidate.observed(at(1), Some(lease("1", None, 4)));
    exchange(&mut candidate, at(1), LeaseRequest::Read, Answer::State(Some(mine)));
    assert_eq!(candidate.held().unwrap().0, at(10), "the watch was late");
    candidate.observed(at(2), None);
    exchange(&mut candidate, at(2), LeaseRequest::Read, Answer::State(None));
    assert_eq!(candidate.next(at(2)), CandidateStep::Lost(Loss::Replaced(None)));
}

#[test]
fn doubt_of_a_watch_outlives_the_answer_to_a_renewal_in_flight() {
    let (mut candidate, _) = holder();
    let CandidateStep::Send { number, .. } = candidate.next(at(5)) else { panic!("no renewal") };
    let others = lease("4", Some("other"), 6);
    candidate.observed(at(6), Some(others));
    candidate.answered(at(6), number, Answer::State(Some(lease("3", Some("me"), 5))));
    assert_eq!(candidate.held().unwrap().0, at(15), "the renewal counts");
    exchange(&mut candidate, at(6), LeaseRequest::Read, Answer::State(Some(others)));
    assert_eq!(candidate.next(at(6)), CandidateStep::Lost(Loss::Replaced(Some("other"))));
}

#[test]
fn answer_to_an_old_read_does_not_hide_a_release_that_was_watched() {
    let mut candidate = candidate();
    candidate.set_watching(true);
    let CandidateStep::Send { number, .. } = candidate.next(at(0)) else { panic!("no read") };
    let released = lease("8", None, 4);
    candidate.observed(at(0), Some(released));
    candidate.answered(at(0), number, Answer::State(Some(lease("7", Some("other"), 4))));
    let claimed = lease("9", Some("me"), 5);
    exchange(&mut candidate, at(0), replace(released, Some("me"), 5), Answer::State(Some(claimed)));
    assert_eq!(candidate.held(), Some((at(10), &claimed)));
}

#[test]
fn anothers_lease_is_claimed_when_its_version_has_not_changed_for_the_longer_duration() {
    let mut candidate = candidate();
    candidate.set_watching(true);
    let (first, second) = (lease("1", Some("other"), 4), lease("2", Some("other"), 4));
    exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(Some(first)));
    assert_eq!(candidate.next(at(0)), wait(15));
    candidate.observed(at(9), Some(second));
    candidate.observed(at(11), Some(second));
    assert_eq!(candidate.next(at(11)), wait(24));
    let longer = Record { duration: Duration::from_secs(60), ..lease("3", Some("other"), 4) };
    candidate.observed(at(12), Some(longer));
    assert_eq!(candidate.next(at(24)), wait(72));
    let claimed = lease("4", Some("me"), 5);
    exchange(&mut candidate, at(72), replace(longer, Some("me"), 5), Answer::State(Some(claimed)));
    assert_eq!(candidate.held(), Some((at(82), &claimed)));
}

#[test]
fn without_a_watch_the_lease_is_read_each_retry_period() {
    let mut candidate = candidate();
    let others = lease("1", Some("other"), 4);
    for second in [0, 2, 4] {
        exchange(&mut candidate, at(second), LeaseRequest::Read, Answer::State(Some(others)));
        assert_eq!(candidate.next(at(second)), wait(second + 2));
    }
    exchange(&mut candidate, at(6), LeaseRequest::Read, Answer::Unclear);
    assert_eq!(candidate.next(at(6)), wait(8));
    assert!(matches!(
        candidate.next(at(15)),
        CandidateStep::Send { request: LeaseRequest::Replace { .. }, .. }
    ));
}

#[test]
fn lease_that_does_not_exist_is_created_and_must_then_expire() {
    let mut candidate = candidate();
    let created = lease("1", Some("me"), 0);
    exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(None));
    let create = LeaseRequest::Create { holder: "me" };
    exchange(&mut candidate, at(0), create, Answer::State(Some(created)));
    assert_eq!(candidate.held(), None);
    assert_eq!(candidate.next(at(0)), wait(2));
    let claimed = lease("2", Some("me"), 1);
    exchange(&mut candidate, at(15), replace(created, Some("me"), 1), Answer::State(Some(claimed)));
    assert_eq!(candidate.held(), Some((at(25), &claimed)));
}

#[test]
fn claim_without_an_answer_must_expire_before_it_is_repeated() {
    let (free, mine) = (lease("1", None, 4), lease("2", Some("me"), 5));
    let mut candidate = candidate();
    exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(Some(free)));
    exchange(&mut candidate, at(0), replace(free, Some("me"), 5), Answer::Unclear);
    exchange(&mut candidate, at(2), LeaseRequest::Read, Answer::State(Some(mine)));
    assert_eq!(candidate.next(at(2)), wait(4));
    let again = lease("3", Some("me"), 6);
    exchange(&mut candidate, at(17), replace(mine, Some("me"), 6), Answer::State(Some(again)));
    assert_eq!(candidate.held(), Some((at(27), &again)));
}

#[test]
fn candidate_reads_the_lease_a_retry_period_after_a_conflict() {
    let free = lease("1", None, 4);
    let mut candidate = candidate();
    exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(Some(free)));
    exchange(&mut candidate, at(0), replace(free, Some("me"), 5), Answer::Conflict);
    assert_eq!(candidate.next(at(0)), wait(2));
    exchange(&mut candidate, at(2), LeaseRequest::Read, Answer::State(Some(free)));
}

#[test]
fn answer_to_an_earlier_attempt_does_not_count() {
    let free = lease("1", None, 4);
    let mut candidate = candidate();
    exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(Some(free)));
    let CandidateStep::Send { number, .. } = candidate.next(at(0)) else { panic!("no claim") };
    candidate.answered(at(2), number, Answer::Unclear);
    candidate.answered(at(3), number, Answer::State(Some(lease("2", Some("me"), 5))));
    assert_eq!(candidate.held(), None);
}

#[test]
fn claim_that_is_answered_after_its_deadline_does_not_lead() {
    let free = lease("1", None, 4);
    let mut candidate = candidate();
    exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(Some(free)));
    let CandidateStep::Send { number, .. } = candidate.next(at(0)) else { panic!("no claim") };
    candidate.answered(at(10), number, Answer::State(Some(lease("2", Some("me"), 5))));
    assert_eq!(candidate.held(), None);
    assert!(matches!(
        candidate.next(at(10)),
        CandidateStep::Send { request: LeaseRequest::Read, .. }
    ));
}

#[test]
fn stopped_holder_renews_until_its_work_has_ended_and_then_releases() {
    let (mut candidate, mine) = holder();
    candidate.stop();
    let renewed = lease("3", Some("me"), 5);
    exchange(&mut candidate, at(5), replace(mine, Some("me"), 5), Answer::State(Some(renewed)));
    candidate.work_ended(at(6));
    assert_eq!(candidate.held(), None);
    let released = lease("4", None, 5);
    exchange(&mut candidate, at(6), replace(renewed, None, 5), Answer::State(Some(released)));
    assert_eq!(candidate.next(at(6)), CandidateStep::Gone);
}

#[test]
fn release_is_repeated_only_while_the_lease_is_of_this_holder() {
    let (mut candidate, mine) = holder();
    candidate.stop();
    candidate.work_ended(at(1));
    let edited = lease("3", Some("me"), 5);
    exchange(&mut candidate, at(1), replace(mine, None, 5), Answer::Conflict);
    exchange(&mut candidate, at(1), LeaseRequest::Read, Answer::State(Some(edited)));
    exchange(&mut candidate, at(1), replace(edited, None, 5), Answer::Unclear);
    let others = lease("5", Some("other"), 6);
    exchange(&mut candidate, at(3), LeaseRequest::Read, Answer::State(Some(others)));
    assert_eq!(candidate.next(at(3)), CandidateStep::Gone);
}

#[test]
fn nothing_is_released_after_the_deadline() {
    let (mut candidate, _) = holder();
    candidate.stop();
    candidate.work_ended(at(10));
    assert_eq!(candidate.next(at(10)), CandidateStep::Lost(Loss::Deadline));
}

#[test]
fn lease_that_names_an_earlier_holder_but_is_of_no_earlier_term_must_expire() {
    let former = FormerTerm { identity: "me", uid: "uid", transitions: 5 };
    let late = [
        Record { uid: "other uid", ..lease("2", Some("me"), 5) },
        lease("2", Some("me"), 0),
        lease("2", Some("me"), 6),
    ];
    for late in late {
        let mut candidate = Protocol::new(candidate().timing, "me-2", Some(former));
        exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(Some(late)));
        assert_eq!(candidate.next(at(0)), wait(2));
    }
}

#[test]
fn lease_of_an_earlier_term_is_free() {
    let former = FormerTerm { identity: "me", uid: "uid", transitions: 5 };
    let mut candidate = Protocol::new(candidate().timing, "me-2", Some(former));
    let mine = lease("2", Some("me"), 5);
    exchange(&mut candidate, at(0), LeaseRequest::Read, Answer::State(Some(mine)));
    let claimed = lease("3", Some("me-2"), 6);
    exchange(&mut candidate, at(0), replace(mine, Some("me-2"), 6), Answer::State(Some(claimed)));
    assert_eq!(candidate.held(), Some((at(10), &claimed)));
}
