//! Tests of renewals, of the deadline, and of members that lose their Lease.

use super::super::*;
use super::rig::*;

#[test]
fn owner_keeps_its_shard_although_its_lease_no_longer_says_that_it_is_ready() {
    let mut group = Group::owner();
    let edited = Record { readiness: Readiness::Unready, ..group.server.lease(ME).unwrap() };
    group.set(ME, Some(edited));
    assert_eq!(group.run(1), (vec![], wait(2)));
    assert_eq!(group.member.admits(0), Some(at(10)));
    group.run(2);
    assert!(group.server.lease(ME).unwrap().is_ready());
}

#[test]
fn member_stays_live_while_its_watch_is_late_by_less_than_its_deadline_allows() {
    for lag in 0..8 {
        let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
        group.server.is_watched = false;
        let (mut late, mut live_since) = (Vec::new(), None);
        for second in 0..60 {
            let seen = std::mem::take(&mut group.server.unseen);
            late.extend(seen.into_iter().map(|event| (second - 1 + lag, event)));
            let is_late = |(due, _): &(u64, WatchEvent)| *due > second;
            let at_last = late.iter().position(is_late).unwrap_or(late.len());
            for (_, (name, version, record)) in late.drain(..at_last) {
                group.member.observed(at(second), &name, version, record.as_ref());
            }
            group.run(second);
            if group.member.works_until().is_some() {
                live_since.get_or_insert(second);
            }
            let was_live = live_since.is_some();
            assert_eq!(group.member.works_until().is_some(), was_live, "late by {lag} at {second}");
        }
        assert!(live_since.is_some_and(|second| second < 20), "late by {lag}: {live_since:?}");
    }
}

#[test]
fn owner_renews_each_third_of_the_lease_duration_and_nothing_else() {
    let mut group = Group::owner();
    for second in 0..60 {
        assert_eq!(group.run(second).0, []);
    }
    assert_eq!(group.server.log, [(ME, Some("me")); 11]);
    assert_eq!(group.member.admits(0), Some(at(65)));
}

#[test]
fn deadline_does_not_move_until_the_watch_shows_the_renewal() {
    let mut group = Group::owner();
    group.server.is_watched = false;
    group.run(5);
    assert_eq!(group.server.log, [(ME, Some("me"))]);
    assert_eq!(group.member.admits(0), Some(at(10)));
    group.watch(9);
    assert_eq!(group.member.admits(0), Some(at(15)), "it counts from the time when it was sent");
}

#[test]
fn list_without_the_members_lease_ends_its_work() {
    let mut group = Group::owner();
    group.set(ME, None);
    group.member.listed(at(1), group.server.version, &group.server.leases.clone());
    assert_eq!(group.member.admits(0), None);
    assert_eq!(group.run(1).0, [MemberStep::Drop { shard: 0 }]);
    group.member.idle(0);
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Replaced));
    assert_eq!(group.server.log, []);
}

#[test]
fn lost_member_fences_itself_when_its_work_has_ended() {
    let mut group = Group::owner();
    assert_eq!(group.run(10).0, [MemberStep::Drop { shard: 0 }]);
    assert_eq!(group.server.log, []);
    group.member.idle(0);
    assert_eq!(group.run(12).1, MemberStep::Ended(MemberEnd::Deadline));
    assert_eq!(group.server.log, [(ME, None)]);
}

/// The member would lose its Lease if it waited for the renew deadline.
#[test]
fn renewal_that_was_refused_although_its_version_is_current_is_repeated_after_the_retry_period() {
    let mut group = Group::owner();
    let request = group.run_until(5, ME);
    group.member.answered(at(5), &ME, request.number, &Answer::Conflict);
    group.run(6);
    assert_eq!(group.server.log, []);
    group.run(7);
    assert_eq!(group.server.log, [(ME, Some("me"))]);
    assert_eq!(group.member.admits(0), Some(at(17)));
}

#[test]
fn renewal_that_is_seen_after_the_deadline_does_not_move_it() {
    let mut group = Group::owner();
    group.server.is_watched = false;
    group.run(5);
    group.watch(11);
    assert_eq!(group.member.works_until(), None);
    assert_eq!(group.member.admits(0), None);
}
