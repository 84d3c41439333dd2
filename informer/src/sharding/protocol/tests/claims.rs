//! Tests of claims of shards, and of the writes of their Leases.

use super::super::*;
use super::rig::*;

#[test]
fn created_lease_is_free_after_the_longest_known_lease_duration() {
    let longer = Record { duration: 2 * LEASE, ..ready("other") };
    let claimed = (SHARD, Record { duration: 2 * LEASE, ..shard(Some("other"), 4) });
    // A Lease of the former owner, or its claim, has shown its lease duration.
    for shown in [(OTHER, Record { readiness: Readiness::Unready, ..longer }), claimed] {
        let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), shown]);
        group.set(SHARD, None);
        group.set(SHARD, Some(record("another uid", Some("third"), 0)));
        for second in 0..30 {
            assert_eq!(group.run(second).0, [], "second {second}");
        }
        assert_eq!(group.run(30).0.len(), 1);
    }
}

#[test]
fn shard_whose_lease_was_deleted_is_claimed_after_the_lease_duration_and_an_end_of_work() {
    let mut group = Group::owner();
    group.set(SHARD, None);
    assert_eq!(group.run(1).0, [MemberStep::Drop { shard: 0 }]);
    assert_eq!(group.member.admits(0), None);
    assert_eq!(group.server.log, [], "work is in progress");
    group.run(5);
    group.member.idle(0);
    group.run(6);
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 0);
    for second in 7..21 {
        assert_eq!(group.run(second).0, []);
    }
    let (orders, _) = group.run(21);
    assert!(matches!(orders[..], [MemberStep::Fill { .. }]), "{orders:?}");
}

#[test]
fn claim_that_was_answered_too_late_is_claimed_again() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    let request = group.run_until(0, SHARD);
    let number = request.number;
    group.server.apply(request);
    group.member.answered(at(1), &SHARD, number, &UNCLEAR);
    let claimed = group.server.lease(SHARD).unwrap();
    assert_eq!((claimed.holder, claimed.transitions), (Some("me"), 5));
    group.member.answered(at(1), &SHARD, number, &Answer::Written(Some(claimed)));
    assert_eq!(group.run(2).0, [], "the late answer does not count");
    assert_eq!(group.run(3).0.len(), 1);
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 6);
}

#[test]
fn claim_that_is_answered_after_an_edit_of_its_lease_is_released() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    let request = group.run_until(0, SHARD);
    let answer = group.server.apply(request);
    group.set(SHARD, group.server.lease(SHARD));
    group.watch(0);
    group.member.answered(at(0), &SHARD, request.number, &answer);
    assert_eq!(group.run(0).0.len(), 1);
    group.member.stop();
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Stopped));
    assert_eq!(group.server.lease(SHARD).unwrap().holder, None);
}

#[test]
fn refused_claim_is_not_repeated_until_the_watch_shows_another_version() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    while group.server.lease(ME).is_none() {
        group.watch(0);
        let MemberStep::Send(request) = group.member.next(at(0)) else { panic!("no request") };
        let answer = group.server.apply(request);
        group.member.answered(at(0), &request.name, request.number, &answer);
    }
    group.watch(0);
    group.server.is_watched = false;
    group.set(SHARD, Some(shard(None, 6)));
    assert_eq!(group.run(0).0, []);
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 6);
    group.watch(0);
    assert_eq!(group.run(0).0.len(), 1);
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 7);
}

#[test]
fn write_that_was_refused_although_its_version_is_current_is_repeated_after_the_renew_deadline() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    let request = group.run_until(0, SHARD);
    group.member.answered(at(0), &SHARD, request.number, &Answer::Conflict);
    for second in 0..10 {
        assert_eq!(group.run(second).0, [], "second {second}");
    }
    assert_eq!(group.run(10).0.len(), 1);
    assert_eq!(group.server.lease(SHARD).unwrap().holder, Some("me"));
}

#[test]
fn write_is_not_repeated_before_the_watch_shows_it() {
    let mut group = Group::owner();
    group.member.stop();
    group.run(1);
    group.member.idle(0);
    group.server.is_watched = false;
    group.run(1);
    assert_eq!(group.server.lease(SHARD).unwrap().holder, None);
    group.run(3);
    assert_eq!(group.server.refused, 0);
}
