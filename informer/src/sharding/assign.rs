//! The member that is to hold each shard.
//!
//! Every member computes the assignment for itself, from the ready members and the present holders.
//! Members with the same view of both compute the same assignment. Views differ for a while, and
//! that is safe: an assignment only says which shards a member claims and releases.
//!
//! If all N ready members are settled, each is to hold ⌊B/N⌋ or ⌈B/N⌉ of the B shards. The members
//! that hold most are to hold the larger number; of those that hold it or more, the first by name.
//! A member that holds too many gives up the shards for which its rendezvous score is lowest. A
//! free shard goes to the member with the highest score among those that hold too few. So no
//! assignment with these numbers moves fewer shards.
//!
//! A member is *settled* some time after it has become ready. Until then it keeps its share of the
//! shards that it holds, but is assigned others only if no member is settled, and only free ones: a
//! program that crashes again and again must not take shards with it each time.

use std::cmp::Reverse;

use super::hash::{fmix64, fnv1a};
use super::shards::ShardCount;

/// A member that is ready to hold shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyMember<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_settled: bool,
}

/// Returns the name of the member that is to hold each shard, or `None` if no member is ready.
/// `holders` has the name of the present holder of each shard. A holder that is not ready counts as
/// none. Takes O(B·(N + log B) + N·log N) time for B shards and N members.
pub(crate) fn assign<'a>(
    shards: ShardCount,
    ready: &[ReadyMember<'a>],
    holders: &[Option<&str>],
) -> Vec<Option<&'a str>> {
    let mut members = ready.to_vec();
    members.sort_unstable_by_key(|member| member.name);
    let find = |name: &str| members.binary_search_by_key(&name, |member| member.name).ok();
    let mut assigned: Vec<Option<usize>> =
        holders.iter().take(shards.get()).map(|holder| holder.and_then(find)).collect();
    assigned.resize(shards.get(), None);
    let mut held = vec![0; members.len()];
    assigned.iter().flatten().for_each(|member| held[*member] += 1);
    let has_settled = members.iter().any(|member| member.is_settled);
    let takes = |member: usize| members[member].is_settled || !has_settled;
    let targets = targets(shards.get(), &held, takes);
    let seeds: Vec<u64> = members.iter().map(|member| seed(member.name)).collect();
    let score = |member: usize, shard: usize| score(seeds[member], shard as u64 + 1);
    // If nobody is settled, a shard that is given up would go to a member that is not settled.
    if has_settled {
        for member in 0..members.len() {
            let mut own: Vec<usize> =
                (0..assigned.len()).filter(|shard| assigned[*shard] == Some(member)).collect();
            own.sort_unstable_by_key(|shard| score(member, *shard));
            let surplus = own.len().saturating_sub(targets[member]);
            own[..surplus].iter().for_each(|shard| assigned[*shard] = None);
            held[member] -= surplus;
        }
    }
    for (shard, assigned) in assigned.iter_mut().enumerate().filter(|(_, to)| to.is_none()) {
        let with_room =
            (0..members.len()).filter(|member| takes(*member) && held[*member] < targets[*member]);
        *assigned = with_room.max_by_key(|member| (score(*member, shard), *member));
        if let Some(member) = assigned {
            held[*member] += 1;
        }
    }
    assigned.iter().map(|member| member.map(|member| members[member].name)).collect()
}

/// Returns how many shards each member is to hold, from the number that it holds. The members are
/// in the order of their names. Those that do not take shards keep at most a fair share.
fn targets(shards: usize, held: &[usize], takes: impl Fn(usize) -> bool) -> Vec<usize> {
    let (mut eligible, others): (Vec<usize>, Vec<usize>) =
        (0..held.len()).partition(|member| takes(*member));
    let keepers = others.iter().filter(|other| held[**other] > 0).count();
    let mut targets = vec![0; held.len()];
    if eligible.is_empty() {
        return targets;
    }
    let fair = shards.div_ceil(eligible.len() + keepers);
    for other in others {
        targets[other] = held[other].min(fair);
    }
    let rest = shards - targets.iter().sum::<usize>();
    let (share, remainder) = (rest / eligible.len(), rest % eligible.len());
    // Members that hold more than the larger number count as equal. Otherwise a member that has
    // given up its surplus before another one would have to give up one more.
    eligible.sort_by_key(|member| Reverse(held[*member].min(share + 1)));
    for (rank, member) in eligible.into_iter().enumerate() {
        targets[member] = share + usize::from(rank < remainder);
    }
    targets
}

/// Returns the hash of a member's name, from which its scores are computed.
pub(super) fn seed(member: &str) -> u64 {
    fnv1a(&[member])
}

/// Returns the rendezvous score of a member for a subject: a shard to hold, or another member to
/// fence (Thaler and Ravishankar, 1998).
pub(super) fn score(seed: u64, subject: u64) -> u64 {
    fmix64(seed ^ fmix64(subject))
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::{ReadyMember, ShardCount, assign};

    fn settled(name: &str) -> ReadyMember<'_> {
        ReadyMember { name, is_settled: true }
    }

    fn unsettled(name: &str) -> ReadyMember<'_> {
        ReadyMember { name, is_settled: false }
    }

    /// Returns the assignment as a string of the members' names, which must be one letter each.
    fn letters(ready: &[ReadyMember<'_>], holders: &str) -> String {
        let count = ShardCount::new(u32::try_from(holders.len()).unwrap()).unwrap();
        let holders: Vec<_> = (0..holders.len())
            .map(|at| Some(&holders[at..=at]).filter(|name| *name != "-"))
            .collect();
        assign(count, ready, &holders).into_iter().map(|member| member.unwrap_or("-")).collect()
    }

    fn count(assigned: &str, member: &str) -> usize {
        assigned.matches(member).count()
    }

    #[test]
    fn assignments_are_those_of_another_program() {
        let names = ["a", "b", "c", "d", "e", "f"].map(settled);
        let steps = [
            (&names[..3], "cbaacccabbacabab"),
            (&names[..4], "cbdaccdabbacabdd"),
            (&names[1..4], "cbdcccdbbbbcdbdd"),
            (&names[1..], "cbdfccdebbeffbed"),
        ];
        let mut held = "-".repeat(16);
        for (members, expected) in steps {
            held = letters(members, &held);
            assert_eq!(held, expected);
        }
        let of_four = "cdaacccabbadabadbaabaccbcbcaaccccddcabadbbadaaddbcbcddcdbbddbbdd";
        let of_five = "cdeacceabbadabedbaabaccbceeaaccceddcabadbbedaaddecbcddcebeddbbee";
        assert_eq!(letters(&names[..4], &"-".repeat(64)), of_four);
        assert_eq!(letters(&names[..5], of_four), of_five);
    }

    #[test]
    fn member_that_has_given_up_its_surplus_gives_up_no_more_while_others_do() {
        // 16 shards of two members, of which a third one takes 5.
        let names = ["a", "b", "c"].map(settled);
        let assigned = letters(&names, "aaaaaabbbbbbbbcc");
        assert_eq!(["a", "b", "c"].map(|name| count(&assigned, name)), [6, 5, 5]);
        assert!(assigned.starts_with("aaaaaa") && assigned.ends_with("cc"), "{assigned}");
    }

    #[test]
    fn nobody_ready_leaves_all_shards_unassigned() {
        assert_eq!(letters(&[], "ab-a"), "----");
    }

    #[test]
    fn fifth_member_of_64_shards_takes_12_or_13_and_nothing_else_moves() {
        let mut random = Rng::with_seed(1);
        for _ in 0..100 {
            let names: Vec<_> = (0..5).map(|_| format!("counter-{:x}", random.u32(..))).collect();
            let members: Vec<_> = names.iter().map(|name| settled(name)).collect();
            let shards = ShardCount::new(64).unwrap();
            let before = assign(shards, &members[..4], &[]);
            let after = assign(shards, &members, &before);
            let moved: Vec<_> = (0..64).filter(|shard| before[*shard] != after[*shard]).collect();
            assert!((12..=13).contains(&moved.len()), "{}", moved.len());
            assert!(moved.iter().all(|shard| after[*shard] == Some(&*names[4])));
        }
    }

    /// Members join, leave and settle at random, and each change is followed by an assignment.
    #[test]
    fn every_change_is_balanced_with_the_fewest_moves_in_any_order_of_members() {
        for seed in 0..400 {
            let mut random = Rng::with_seed(seed);
            let shards = ShardCount::new(1 << random.u32(0..=7)).unwrap();
            let names: Vec<_> = (0..8).map(|_| format!("m-{:x}", random.u64(..))).collect();
            let mut members: Vec<ReadyMember<'_>> = Vec::new();
            let mut held: Vec<Option<&str>> = vec![None; shards.get()];
            for _ in 0..40 {
                let name = random.choice(&names).unwrap();
                match members.iter().position(|member| member.name == name) {
                    Some(at) if members[at].is_settled => _ = members.remove(at),
                    Some(at) => members[at].is_settled = true,
                    None => members.push(unsettled(name)),
                }
                random.shuffle(&mut members);
                let assigned = assign(shards, &members, &held);
                random.shuffle(&mut members);
                assert_eq!(assigned, assign(shards, &members, &held), "seed {seed}");
                check(&members, &held, &assigned);
                held = assigned;
            }
        }
    }

    fn check(members: &[ReadyMember<'_>], before: &[Option<&str>], after: &[Option<&str>]) {
        let count = |of: &[Option<&str>], member: &ReadyMember<'_>| {
            of.iter().filter(|name| **name == Some(member.name)).count()
        };
        assert!(members.is_empty() || after.iter().all(Option::is_some));
        let has_settled = members.iter().any(|member| member.is_settled);
        for member in members {
            let gained = count(after, member).saturating_sub(count(before, member));
            assert!(member.is_settled || !has_settled || gained == 0, "{member:?} takes {gained}");
        }
        let numbers: Vec<usize> = members.iter().map(|member| count(after, member)).collect();
        let all_settled = members.iter().all(|member| member.is_settled);
        if let (true, Some(most), Some(least)) =
            (all_settled, numbers.iter().max(), numbers.iter().min())
        {
            assert!(most - least <= 1, "{numbers:?}");
            // Of the balanced assignments, those that leave most shards in place give the larger
            // numbers to the members that hold most.
            let mut held: Vec<usize> = members.iter().map(|member| count(before, member)).collect();
            held.sort_unstable();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            let kept: usize =
                held.iter().zip(&sorted).map(|(held, target)| *held.min(target)).sum();
            let stayed = before.iter().zip(after).filter(|(before, after)| before == after).count();
            assert_eq!(stayed, kept);
        }
    }

    #[test]
    fn members_that_start_together_share_the_shards_and_keep_them_when_they_settle() {
        let shared = letters(&[unsettled("a"), unsettled("b")], &"-".repeat(16));
        assert_eq!(count(&shared, "a"), 8);
        assert_eq!(letters(&[settled("a"), unsettled("b")], &shared), shared);
        assert_eq!(letters(&[settled("a"), settled("b")], &shared), shared);
    }

    #[test]
    fn new_member_takes_its_share_when_it_is_settled() {
        let alone = letters(&[settled("a")], &"-".repeat(16));
        assert_eq!(letters(&[settled("a"), unsettled("b")], &alone), alone);
        let shared = letters(&[settled("a"), settled("b")], &alone);
        assert_eq!(count(&shared, "b"), 8);
    }

    #[test]
    fn shards_of_a_former_member_go_to_settled_members_only() {
        let assigned = letters(&[settled("a"), unsettled("b"), unsettled("c")], "aabbxxxx");
        assert_eq!(assigned, "aabbaaaa");
        assert_eq!(count(&letters(&[unsettled("b"), unsettled("c")], "aabbxxxx"), "c"), 4);
    }
}
