//! The Leases of a group, as one watch has shown them to a member.

use std::time::Duration;

use super::Attempts;
use crate::lease::Clocks;

/// The name of a Lease of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LeaseName<T> {
    Group,
    Member(T),
    Shard(u8),
}

/// The readiness of a member to hold shards, which its Lease states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Readiness {
    /// The member is assigned no shards. The Leases of shards and of the group have this value.
    Unready,
    /// The member keeps the shards that it holds, and is assigned others only while no member is
    /// settled.
    Ready,
    /// The member is assigned its share of the shards.
    Settled,
}

/// A state of a Lease. `T` is the type of names and uids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record<T> {
    /// The resource version. Those of all Leases of a group have one order.
    pub(crate) version: u64,
    pub(crate) uid: T,
    /// The member that holds a shard, or the member itself. `None` if the shard is free, or the
    /// member is fenced.
    pub(crate) holder: Option<T>,
    /// The term of a shard: the number of its claims.
    pub(crate) transitions: i32,
    /// The lease duration of the writer; 0 if it is missing or invalid.
    pub(crate) duration: Duration,
    pub(crate) readiness: Readiness,
}

impl<T: Eq> Record<T> {
    /// Returns whether this is the Lease of a member that is to hold shards.
    pub(super) fn is_ready(&self) -> bool {
        self.readiness != Readiness::Unready
    }

    /// Returns whether this is a state of a shard after the claim `claim`, and before any other
    /// claim, release or creation.
    pub(super) fn is_of(&self, claim: &Self) -> bool {
        self.holder == claim.holder
            && self.uid == claim.uid
            && self.transitions == claim.transitions
    }

    /// Returns whether a member has created this Lease of a shard, and nobody has claimed it since.
    pub(super) fn is_created(&self) -> bool {
        self.holder.is_some() && self.transitions == 0
    }
}

/// The last state of a Lease that the watch has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen<T> {
    /// The version of the state, or of the deletion.
    pub(super) version: u64,
    /// `None` if the Lease does not exist.
    pub(super) record: Option<Record<T>>,
    /// The time when this state was first seen.
    pub(super) since: Clocks,
    /// The lease duration in the last state in which the Lease existed. After a deletion, the
    /// larger of those before and after it.
    duration: Duration,
}

impl<T: Clone> Seen<T> {
    fn absent(version: u64, since: Clocks) -> Self {
        Self { version, record: None, since, duration: Duration::ZERO }
    }

    /// Records a state, and returns whether it is newer than the known one. The time since when the
    /// state is known changes only with the state.
    fn update(&mut self, now: Clocks, version: u64, record: Option<&Record<T>>) -> bool {
        if version <= self.version {
            return false;
        }
        let existed = self.record.is_some();
        if existed || record.is_some() {
            self.since = now;
        }
        self.version = version;
        self.record = record.cloned();
        if let Some(record) = record {
            // If the Lease was deleted, its holder may be at work for the duration that it had.
            let before = if existed { Duration::ZERO } else { self.duration };
            self.duration = record.duration.max(before);
        }
        true
    }

    /// Returns the time of the monotonic clock when this state has been unchanged for the lease
    /// duration: the larger one of this member's own and the one in the Lease.
    pub(super) fn expires_at(&self, own: Duration) -> Duration {
        self.since.monotonic.saturating_add(own.max(self.duration))
    }
}

/// Another member, or this one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer<T> {
    pub(super) name: T,
    pub(super) seen: Seen<T>,
    /// The attempts to fence the member, and then to delete its Lease.
    pub(super) attempts: Attempts,
}

impl<T: Eq> Peer<T> {
    /// Returns whether the member's Lease says that it is to hold shards.
    pub(super) fn is_ready(&self) -> bool {
        self.seen.record.as_ref().is_some_and(Record::is_ready)
    }
}

/// The Leases of a group as the watch has shown them: a member's view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View<T> {
    /// Whether a list has been seen, so that a Lease without an entry does not exist.
    pub(super) is_complete: bool,
    pub(super) has_group: bool,
    /// The members that have a Lease or are named by one, in the order of their names.
    pub(super) peers: Vec<Peer<T>>,
    pub(super) shards: Vec<Seen<T>>,
}

impl<T: Clone + Ord> View<T> {
    pub(super) fn new(shards: usize) -> Self {
        let origin = Clocks { monotonic: Duration::ZERO, wall: Duration::ZERO };
        let shards = vec![Seen::absent(0, origin); shards];
        Self { is_complete: false, has_group: false, peers: Vec::new(), shards }
    }

    pub(super) fn peer(&self, name: &T) -> Option<&Peer<T>> {
        let at = self.peers.binary_search_by(|peer| peer.name.cmp(name)).ok()?;
        Some(&self.peers[at])
    }

    /// Returns whether a shard names this member as its holder.
    pub(super) fn is_named(&self, name: &T) -> bool {
        let mut holders =
            self.shards.iter().filter_map(|seen| seen.record.as_ref()?.holder.as_ref());
        holders.any(|holder| holder == name)
    }

    /// Returns the longest lease duration that a member has written in its own Lease.
    pub(super) fn longest_duration(&self) -> Duration {
        self.peers.iter().map(|peer| peer.seen.duration).max().unwrap_or_default()
    }

    /// Returns the longest lease duration that a member has written in the Leases of its shards.
    pub(super) fn duration_of_claims(&self, name: &T) -> Duration {
        let is_holder = |record: &&Record<T>| record.holder.as_ref() == Some(name);
        let records = self.shards.iter().filter_map(|seen| seen.record.as_ref());
        records.filter(is_holder).map(|record| record.duration).max().unwrap_or_default()
    }

    /// Records a state of a Lease, and returns whether it is newer than the known one.
    pub(super) fn update(
        &mut self,
        now: Clocks,
        name: &LeaseName<T>,
        version: u64,
        record: Option<&Record<T>>,
    ) -> bool {
        match name {
            LeaseName::Group => {
                self.has_group = record.is_some();
                true
            }
            LeaseName::Member(name) => {
                // A member that the view does not contain has no Lease.
                let Some(peer) = self.entry(now, name, record.is_some()) else { return true };
                peer.seen.update(now, version, record)
            }
            LeaseName::Shard(shard) => {
                let is_new = self.shards[usize::from(*shard)].update(now, version, record);
                // If the view has no entry for the holder, its Lease counts as absent from now on:
                // the view may never have contained that Lease.
                if let Some(holder) = record.and_then(|record| record.holder.as_ref()) {
                    self.entry(now, holder, true);
                }
                is_new
            }
        }
    }

    /// Completes a list: from here on, a shard without a record is known to have no Lease.
    pub(super) fn complete(&mut self, now: Clocks) {
        if !self.is_complete {
            let absent = self.shards.iter_mut().filter(|seen| seen.record.is_none());
            absent.for_each(|seen| seen.since = now);
        }
        self.is_complete = true;
    }

    /// Forgets members that have no Lease and are not named by one.
    pub(super) fn prune(&mut self) {
        let gone =
            |peer: &Peer<T>, view: &Self| peer.seen.record.is_none() && !view.is_named(&peer.name);
        if self.peers.iter().any(|peer| gone(peer, self)) {
            let kept = self.peers.iter().filter(|peer| !gone(peer, self)).cloned().collect();
            self.peers = kept;
        }
    }

    /// Returns the entry of a member. Adds an absent one if there is none and `adds`.
    fn entry(&mut self, now: Clocks, name: &T, adds: bool) -> Option<&mut Peer<T>> {
        let at = match self.peers.binary_search_by(|peer| peer.name.cmp(name)) {
            Ok(at) => at,
            Err(_) if !adds => return None,
            Err(at) => {
                let peer = Peer {
                    name: name.clone(),
                    seen: Seen::absent(0, now),
                    attempts: Attempts::default(),
                };
                self.peers.insert(at, peer);
                at
            }
        };
        Some(&mut self.peers[at])
    }
}
