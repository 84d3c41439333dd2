//! Tests of members that join: their first renewals, and when they are ready and settled.

use super::super::*;
use super::rig::*;

#[test]
fn first_member_creates_the_leases_and_waits_before_it_claims_a_shard() {
    let mut group = Group::with(&[]);
    assert_eq!(group.run(0), (vec![], wait(5)));
    let me = (ME, Some("me"));
    let written = [(LeaseName::Group, None), me, me, (SHARD, Some("me"))];
    assert_eq!(group.server.log, written);
    for second in [5, 10] {
        group.run(second);
    }
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 0);
    let (orders, _) = group.run(15);
    assert!(matches!(orders[..], [MemberStep::Fill { shard: 0, .. }]), "{orders:?}");
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 1);
}

#[test]
fn group_lease_is_created_once_although_the_watch_is_late() {
    let mut group = Group::with(&[]);
    group.server.is_watched = false;
    group.run(0);
    assert_eq!(group.server.log, [(LeaseName::Group, None), (ME, Some("me"))]);
    assert_eq!(group.server.refused, 0);
}

#[test]
fn first_renewal_waits_until_the_watch_shows_the_creation() {
    let mut group = Group::joining();
    // Another client labels the Lease.
    group.set(ME, group.server.lease(ME));
    group.server.is_watched = false;
    assert_eq!(group.run(1), (vec![], wait(2)));
    group.server.is_watched = true;
    group.run(1);
    assert_eq!(group.member.works_until(), Some(at(11)));
    assert_eq!(group.server.refused, 0);
}

#[test]
fn member_is_live_and_ready_with_its_first_renewal() {
    let mut group = Group::joining();
    let renewal = group.run_until(1, ME);
    assert!(!group.server.lease(ME).unwrap().is_ready());
    assert_eq!(group.member.works_until(), None);
    group.member.answered(at(1), &ME, renewal.number, &UNCLEAR);
    assert_eq!(group.run(2), (vec![], wait(3)), "it may not renew its Lease, and gets no shard");
    group.run(3);
    assert_eq!(group.member.works_until(), Some(at(13)));
    assert!(!group.server.lease(ME).unwrap().is_ready(), "the first renewal was not answered");
    group.run(5);
    assert!(group.server.lease(ME).unwrap().is_ready());
}

#[test]
fn member_whose_renewals_are_not_answered_is_ready_for_one_of_them() {
    let mut group = Group::joining();
    for second in (0..60).step_by(4) {
        let renewal = group.run_until(second, ME);
        group.server.apply(renewal);
        assert_eq!(group.server.lease(ME).unwrap().is_ready(), second == 0);
        group.member.answered(at(second + 2), &ME, renewal.number, &UNCLEAR);
    }
    assert_eq!(group.member.works_until(), None);
}

#[test]
fn member_whose_watch_is_late_is_ready_once_it_is_live() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    group.server.is_watched = false;
    for second in 0..20 {
        assert_eq!(group.run(second).0, []);
        assert!(!group.server.lease(ME).unwrap().is_ready(), "at {second}");
    }
    // The watch is late by more than the renew deadline: it shows the creation.
    let (name, version, record) = group.server.unseen.remove(0);
    group.member.observed(at(20), &name, version, record.as_ref());
    group.run(20);
    assert!(!group.server.lease(ME).unwrap().is_ready());
    group.server.is_watched = true;
    group.run(22);
    assert_eq!(group.member.works_until(), Some(at(32)));
    assert!(group.server.lease(ME).unwrap().is_ready());
    assert_eq!(group.run(23).1, wait(27), "a third of the lease duration after the last renewal");
}

#[test]
fn member_that_is_ready_and_not_live_is_no_longer_ready_with_its_next_renewal() {
    let mut group = Group::joining();
    group.watch(0);
    group.server.is_watched = false;
    group.run(0);
    assert!(group.server.lease(ME).unwrap().is_ready());
    assert_eq!(group.run(1), (vec![], wait(2)));
    group.run(2);
    assert!(!group.server.lease(ME).unwrap().is_ready());
}

#[test]
fn member_whose_watch_is_later_than_its_time_to_settle_is_settled_once_it_is_live() {
    let mut group = Group::joining();
    group.member.timing.settle = Duration::from_secs(1);
    let readiness = |group: &Group| group.server.lease(ME).unwrap().readiness;
    group.watch(0);
    group.server.is_watched = false;
    group.run(0);
    assert_eq!(group.run(1), (vec![], wait(2)));
    assert_eq!(readiness(&group), Readiness::Ready);
    group.server.is_watched = true;
    group.run(1);
    assert_eq!(readiness(&group), Readiness::Settled);
}

#[test]
fn member_without_a_time_to_settle_is_settled_as_soon_as_it_is_live() {
    let mut group = Group::joining();
    group.member.timing.settle = Duration::ZERO;
    let readiness = |group: &Group| group.server.lease(ME).unwrap().readiness;
    group.watch(0);
    group.server.is_watched = false;
    group.run(0);
    assert_eq!(group.member.works_until(), None);
    assert_eq!(readiness(&group), Readiness::Ready);
    group.server.is_watched = true;
    group.run(0);
    assert_eq!(readiness(&group), Readiness::Settled);
}

#[test]
fn member_whose_settled_state_the_server_does_not_keep_repeats_it_after_the_retry_period() {
    let mut group = Group::owner();
    for second in [5, 7] {
        group.run(second);
        assert_eq!(group.server.lease(ME).unwrap().readiness, Readiness::Settled);
        let changed = Record { readiness: Readiness::Ready, ..group.server.lease(ME).unwrap() };
        group.set(ME, Some(changed));
        assert_eq!(group.run(second).1, wait(second + 2));
    }
}

#[test]
fn member_whose_lease_is_gone_before_its_creation_is_answered_ends() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    let request = group.run_until(0, ME);
    let answer = group.server.apply(request);
    group.set(ME, None);
    group.server.unseen.clear();
    group.member.listed(at(1), group.server.version, &group.server.leases.clone());
    group.member.answered(at(1), &ME, request.number, &answer);
    assert_eq!(group.run(5).1, MemberStep::Ended(MemberEnd::Replaced));
}

#[test]
fn member_says_that_it_is_settled_when_it_has_been_ready_for_the_time_to_settle() {
    let mut group = Group::owner();
    let readiness = |group: &Group| group.server.lease(ME).unwrap().readiness;
    for second in 0..5 {
        group.run(second);
        assert_eq!(readiness(&group), Readiness::Ready, "at {second}");
    }
    let writes = group.server.log.len();
    group.run(5);
    assert_eq!(readiness(&group), Readiness::Settled);
    assert_eq!(group.server.log.len(), writes + 1);
    assert_eq!(group.run(6).1, wait(10), "the next renewal");
    group.run(10);
    assert_eq!(readiness(&group), Readiness::Settled);
}

#[test]
fn member_of_a_group_with_other_settings_ends() {
    let mut group = Group::owner();
    group.member.mismatched();
    assert_eq!(group.member.admits(0), None);
    group.member.idle(0);
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Mismatch));
    assert_eq!(group.server.lease(ME).unwrap().holder, None);
}

#[test]
fn members_that_are_not_ready_are_not_counted() {
    let waiting = (LeaseName::Member("waiting"), record("uid", Some("waiting"), 0));
    let group = Group::with(&[(OTHER, ready("other")), waiting, (SHARD, shard(None, 0))]);
    assert_eq!(group.member.ready_members(), 1);
}
