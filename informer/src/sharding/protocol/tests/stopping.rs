//! Tests of members that are stopped.

use super::super::*;
use super::rig::*;

#[test]
fn stopping_member_whose_unready_state_the_server_does_not_keep_repeats_it_after_the_retry_period()
{
    let mut group = Group::owner();
    group.member.stop();
    for second in [1, 3] {
        group.run(second);
        assert_eq!(group.server.lease(ME).unwrap().readiness, Readiness::Unready);
        let changed = Record { readiness: Readiness::Ready, ..group.server.lease(ME).unwrap() };
        group.set(ME, Some(changed));
        assert_eq!(group.run(second).1, wait(second + 2));
    }
}

#[test]
fn stopped_member_drains_its_shards_and_deletes_its_lease() {
    let mut group = Group::owner();
    group.member.stop();
    group.run(1);
    assert!(!group.server.lease(ME).unwrap().is_ready());
    assert_eq!(group.server.lease(SHARD).unwrap().holder, Some("me"));
    group.run(3);
    group.member.idle(0);
    assert_eq!(group.run(4).1, MemberStep::Ended(MemberEnd::Stopped));
    assert_eq!(group.server.lease(SHARD).unwrap().holder, None);
    assert_eq!(group.server.lease(ME), None);
}

#[test]
fn stopped_member_that_has_created_a_lease_of_a_shard_ends() {
    let mut group = Group::with(&[]);
    group.run(0);
    assert_eq!(group.server.lease(SHARD).unwrap().holder, Some("me"));
    group.member.stop();
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Stopped));
    assert_eq!(group.server.lease(ME), None);
}

#[test]
fn stopped_member_whose_deletion_was_not_answered_has_stopped() {
    let mut group = Group::owner();
    group.member.stop();
    group.run(1);
    group.member.idle(0);
    let request = group.run_until(1, ME);
    assert!(matches!(request.write, Write::Delete { .. }), "{request:?}");
    group.server.apply(request);
    group.member.answered(at(1), &ME, request.number, &UNCLEAR);
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Stopped));
}
