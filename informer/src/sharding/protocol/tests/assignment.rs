//! Tests of the shards that a member claims, leaves to others and gives up.

use super::super::*;
use super::rig::*;

#[test]
fn shard_of_another_settled_member_is_released_when_its_work_has_ended() {
    let shards = [LeaseName::Shard(0), LeaseName::Shard(1)];
    let leases = shards.map(|name| (name, shard(None, 4)));
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), leases[0], leases[1]]);
    for order in group.run(0).0 {
        let MemberStep::Fill { shard, number } = order else { panic!("{order:?}") };
        group.member.filled(shard, number);
    }
    assert_eq!(group.run(0).0.len(), 2);
    group.set(OTHER, Some(ready("other")));
    let admitted = |group: &Group| [0, 1].map(|shard| group.member.admits(shard).is_some());
    for second in 0..5 {
        group.run(second);
        assert_eq!(admitted(&group), [true; 2], "the other member is not settled");
    }
    group.set(OTHER, Some(settled("other")));
    group.run(5);
    let moved = u8::from(admitted(&group) == [true, false]);
    assert_eq!(admitted(&group).iter().filter(|is_admitted| **is_admitted).count(), 1);
    assert_eq!(group.run(8).0, []);
    assert_eq!(group.run(9).0, [MemberStep::Drop { shard: moved }]);
    assert_eq!(group.server.lease(LeaseName::Shard(moved)).unwrap().holder, Some("me"));
    group.member.idle(moved);
    group.run(9);
    assert_eq!(group.server.lease(LeaseName::Shard(moved)).unwrap().holder, None);
}

#[test]
fn member_that_starts_leaves_free_shards_to_a_settled_one() {
    let leases =
        [(LeaseName::Group, shard(None, 0)), (OTHER, settled("other")), (SHARD, shard(None, 4))];
    let mut group = Group::with(&leases);
    group.run(0);
    assert_eq!(group.server.log, [(ME, Some("me")); 2]);
}

#[test]
fn members_of_which_none_is_settled_share_the_free_shards() {
    let shards = [LeaseName::Shard(0), LeaseName::Shard(1)].map(|name| (name, shard(None, 4)));
    let mut group = Group::with(&[
        (LeaseName::Group, shard(None, 0)),
        (OTHER, ready("other")),
        shards[0],
        shards[1],
    ]);
    group.run(0);
    let claims = group.server.log.iter().filter(|(name, _)| matches!(name, LeaseName::Shard(_)));
    assert_eq!(claims.count(), 1, "{:?}", group.server.log);
}
