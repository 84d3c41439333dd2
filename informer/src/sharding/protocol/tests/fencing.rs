//! Tests of fences, and of the Leases of former members.

use super::super::*;
use super::rig::*;

#[test]
fn leases_of_former_members_are_deleted_one_after_another_and_one_that_stays_is_tried_last() {
    let gone = ["gone-1", "gone-2"].map(LeaseName::Member);
    let mut group = Group::owner();
    group.set(gone[0], Some(record("uid", None, 0)));
    group.set(gone[1], Some(record("uid", None, 0)));
    let failed = group.run_until(0, gone[0]);
    assert!(matches!(failed.write, Write::Delete { .. }));
    assert_eq!(group.run(0).0, []);
    assert!(group.server.lease(gone[1]).is_some(), "the first deletion is in progress");
    group.member.answered(at(0), &gone[0], failed.number, &UNCLEAR);
    group.run(1);
    assert!(group.server.lease(gone[1]).is_some(), "the pause has not ended");
    let failed = group.run_until(2, gone[0]);
    assert!(group.server.lease(gone[1]).is_none(), "it was tried before the first one");
    group.member.answered(at(2), &gone[0], failed.number, &UNCLEAR);
    group.run(3);
    assert!(group.server.lease(gone[0]).is_some());
    group.run(4);
    assert!(group.server.lease(gone[0]).is_none());
}

#[test]
fn lease_of_a_fenced_member_is_deleted_only_when_no_shard_names_the_member() {
    let leases = [
        (LeaseName::Group, shard(None, 0)),
        (OTHER, record("uid", None, 0)),
        (LeaseName::Member("third"), settled("third")),
        (SHARD, shard(Some("other"), 4)),
    ];
    let mut group = Group::with(&leases);
    // The shard is assigned to the third member, because this one is not settled.
    for second in 0..4 {
        assert_eq!(group.run(second).0, []);
        assert!(group.server.lease(OTHER).is_some(), "at {second}");
    }
    group.set(SHARD, Some(shard(Some("third"), 5)));
    group.run(4);
    assert_eq!(group.server.lease(OTHER), None);
}

#[test]
fn shard_of_a_member_that_does_not_renew_is_claimed_after_a_fence() {
    let leases = [
        (LeaseName::Group, shard(None, 0)),
        (OTHER, ready("other")),
        (SHARD, shard(Some("other"), 4)),
    ];
    let mut group = Group::with(&leases);
    for second in 0..15 {
        assert_eq!(group.run(second).0, []);
    }
    group.server.log.clear();
    let (orders, _) = group.run(15);
    assert!(matches!(orders[..], [MemberStep::Fill { .. }]), "{orders:?}");
    let expected = [(ME, Some("me")), (OTHER, None), (SHARD, Some("me")), (OTHER, None)];
    assert_eq!(group.server.log, expected, "the last write deletes the Lease");
    assert_eq!(group.server.lease(OTHER), None);
}

#[test]
fn observer_waits_for_the_longer_lease_duration() {
    let longer = Record { duration: 2 * LEASE, ..ready("other") };
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (OTHER, longer)]);
    for second in 0..30 {
        group.run(second);
    }
    assert!(group.server.lease(OTHER).is_some());
    group.run(30);
    assert_eq!(group.server.lease(OTHER), None);
}

#[test]
fn member_that_was_never_seen_is_dead_after_the_lease_duration_of_its_claim() {
    let longer = Record { duration: 2 * LEASE, ..shard(Some("other"), 4) };
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, longer)]);
    for second in 0..30 {
        assert_eq!(group.run(second).0, []);
    }
    assert_eq!(group.run(30).0.len(), 1);
}

#[test]
fn members_fence_one_after_another() {
    let leases = [
        (LeaseName::Group, shard(None, 0)),
        (LeaseName::Member("a"), ready("a")),
        (LeaseName::Member("b"), ready("b")),
    ];
    let group = Group::with(&leases);
    let ranks = |identity: &'static str, dead: &'static str| {
        let mut member = group.member.clone();
        member.identity = identity;
        let me = Record { version: 9, ..ready("me") };
        member.observed(at(0), &ME, 9, Some(&me));
        member.fences_at(at(0), member.view.peer(&dead).unwrap())
    };
    let mut times = [ranks("me", "a"), ranks("b", "a")];
    times.sort_unstable();
    assert_eq!(times, [15, 16].map(Duration::from_secs));
}

#[test]
fn members_that_have_expired_together_are_fenced_together() {
    let names = ["a", "b", "c", "d"];
    let members = names.map(|name| (LeaseName::Member(name), ready(name)));
    let mut leases = vec![(LeaseName::Group, shard(None, 0))];
    leases.extend(members);
    let mut group = Group::with(&leases);
    (0..15).for_each(|second| drop(group.run(second)));
    assert!(members.iter().all(|(name, _)| group.server.lease(*name).is_some()));
    group.run(15);
    assert!(members.iter().all(|(name, _)| group.server.lease(*name).is_none()));
}
