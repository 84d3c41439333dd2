//! The state of a group after a part of its history, and whether it is at rest.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Change, Entry, MapState, Stamp};
use crate::history::{LeaseState, is_of};

/// The state of a group.
#[derive(Default)]
pub struct View {
    /// The version of the last entry.
    version: u64,
    shards: BTreeMap<u8, LeaseState>,
    members: BTreeMap<String, Member>,
    maps: BTreeMap<String, MapState>,
}

/// The Lease of a member.
struct Member {
    /// The identity of the member; `None` after it was fenced.
    identity: Option<String>,
    /// The version of the last change.
    renewed: u64,
}

impl View {
    pub fn apply(&mut self, entry: &Entry) {
        self.version = entry.version;
        match entry.change.clone() {
            Change::Group(_) => {}
            Change::Shard { shard, lease: Some(lease) } => {
                self.shards.insert(shard, lease);
            }
            Change::Shard { shard, lease: None } => {
                self.shards.remove(&shard);
            }
            Change::Member { name, lease: Some(lease) } => {
                let member = Member { identity: lease.holder, renewed: entry.version };
                self.members.insert(name, member);
            }
            Change::Member { name, lease: None } => {
                self.members.remove(&name);
            }
            Change::Map { name, state: Some(state), .. } => {
                self.maps.insert(name, state);
            }
            Change::Map { name, state: None, .. } => {
                self.maps.remove(&name);
            }
        }
    }

    /// Returns the version of the last entry.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the state after these entries.
    pub fn after(entries: &[Entry]) -> Self {
        let mut view = Self::default();
        for entry in entries {
            view.apply(entry);
        }
        view
    }

    /// Returns the name of the Lease of a member. `number` is below the number of members.
    pub fn member(&self, number: usize) -> Option<String> {
        self.members.keys().nth(number).cloned()
    }

    /// Returns the shards that the process with this name holds.
    pub fn shards_of(&self, process: &str) -> BTreeSet<u8> {
        let is_held =
            |lease: &LeaseState| lease.holder.as_ref().is_some_and(|it| is_of(it, process));
        self.shards.iter().filter(|(_, lease)| is_held(lease)).map(|(shard, _)| *shard).collect()
    }

    /// Returns the names of the config maps that were last reconciled as objects of these shards.
    pub fn maps_of(&self, shards: &BTreeSet<u8>) -> BTreeSet<String> {
        let is_in =
            |map: &MapState| map.stamp.as_ref().is_some_and(|it| shards.contains(&it.shard));
        self.maps.iter().filter(|(_, map)| is_in(map)).map(|(name, _)| name.clone()).collect()
    }

    /// Checks that the group is at rest, with this number of shards and members. Each member has
    /// renewed its Lease after the version `since`. Each shard is held by a member, and each member
    /// holds an equal number of shards, or one more. Each config map was reconciled in the present
    /// term of its shard, after its last change.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn check_rest(&self, shards: usize, members: usize, since: u64) -> Result<(), String> {
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, member) in &self.members {
            match &member.identity {
                None => return Err(format!("the Lease {name} has no holder and still exists")),
                Some(_) if member.renewed <= since => {
                    return Err(format!("{name} has not renewed its Lease"));
                }
                Some(identity) => held.insert(identity, 0),
            };
        }
        if held.len() != members {
            return Err(format!("{} members are live, not {members}", held.len()));
        }
        if self.shards.len() != shards {
            return Err(format!("{} shards have a Lease, not {shards}", self.shards.len()));
        }
        for (shard, lease) in &self.shards {
            let holder = lease.holder.as_deref().ok_or(format!("shard {shard} is free"))?;
            *held.get_mut(holder).ok_or(format!("{holder} of shard {shard} is not live"))? += 1;
        }
        let fair = shards / members..=shards.div_ceil(members);
        if let Some((member, number)) = held.iter().find(|(_, number)| !fair.contains(number)) {
            return Err(format!("{member} holds {number} shards"));
        }
        self.maps.iter().try_for_each(|(name, map)| self.check_map(name, map))
    }

    fn check_map(
        &self,
        name: &str,
        MapState { change, stamp, .. }: &MapState,
    ) -> Result<(), String> {
        let Some(Stamp { shard, token, seen, .. }) = stamp else {
            return Err(format!("{name} was never reconciled"));
        };
        if self.shards.get(shard).is_none_or(|lease| lease.token != *token) {
            return Err(format!("{name} was not reconciled in the present term of shard {shard}"));
        }
        if seen != change {
            return Err(format!("{name} was reconciled at change {seen}, and is at {change}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::View;
    use crate::replicas::histories::{
        PLAIN, changed, history, member, shard, shard_deleted, written,
    };
    use crate::replicas::history::Change;

    /// Returns a group of two shards and two members at rest.
    fn at_rest() -> Vec<Change> {
        vec![
            shard(0, "u", 1, "a_1"),
            shard(1, "v", 1, "b_1"),
            changed(PLAIN, 0),
            written(PLAIN, 0, ("u", 1, "a_1"), 0),
            member("a_1"),
            member("b_1"),
        ]
    }

    /// Returns the condition that does not hold after `at_rest` and these changes.
    fn checked(changes: impl IntoIterator<Item = Change>) -> Result<(), String> {
        let view = View::after(&history(at_rest().into_iter().chain(changes)));
        view.check_rest(2, 2, 4)
    }

    #[test]
    fn balanced_group_whose_maps_are_reconciled_is_at_rest() {
        assert_eq!(checked([]), Ok(()));
        let unbalanced = [shard(1, "v", 2, ""), shard(1, "v", 2, "a_1")];
        assert_eq!(checked(unbalanced), Err("a_1 holds 2 shards".to_owned()));
    }

    #[test]
    fn shard_without_a_live_holder_is_no_rest() {
        assert_eq!(checked([shard(1, "v", 1, "")]), Err("shard 1 is free".to_owned()));
        let dead = "c_1 of shard 1 is not live";
        assert_eq!(checked([shard(1, "v", 2, "c_1")]), Err(dead.to_owned()));
        let missing = "1 shards have a Lease, not 2";
        assert_eq!(checked([shard_deleted(1)]), Err(missing.to_owned()));
    }

    #[test]
    fn member_that_has_not_renewed_its_lease_is_no_rest() {
        let view = View::after(&history(at_rest()));
        assert_eq!(view.check_rest(2, 2, 5), Err("a_1 has not renewed its Lease".to_owned()));
        let third = "3 members are live, not 2";
        assert_eq!(checked([member("c_1")]), Err(third.to_owned()));
    }

    #[test]
    fn fenced_member_whose_lease_exists_is_no_rest() {
        let Change::Member { name, lease: Some(mut lease) } = member("c_1") else { unreachable!() };
        lease.holder = None;
        let fenced = Change::Member { name, lease: Some(lease) };
        let rule = "the Lease c_1 has no holder and still exists";
        assert_eq!(checked([fenced]), Err(rule.to_owned()));
    }

    #[test]
    fn map_that_was_not_reconciled_after_its_change_or_move_is_no_rest() {
        let unseen = "map-plain was reconciled at change 0, and is at 1";
        assert_eq!(checked([written(PLAIN, 1, ("u", 1, "a_1"), 0)]), Err(unseen.to_owned()));
        let moved = "map-plain was not reconciled in the present term of shard 0";
        assert_eq!(checked([shard(0, "u", 2, "a_1")]), Err(moved.to_owned()));
    }
}
