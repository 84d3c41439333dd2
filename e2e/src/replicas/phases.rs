//! The phases of a group, each of which begins with a fault, and the times of their moves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::fault::Fault;
use super::history::{Change, Entry, MapState};
use super::view::View;
use crate::history::{LeaseState, Token, is_of};

/// The time from one fault until the next.
pub struct Phase {
    pub fault: Fault,
    /// The version of the last entry before the fault.
    pub from: u64,
    pub began: Instant,
    /// The name of the process that is killed, stopped or cut off.
    pub victim: Option<String>,
}

/// Returns the phase that contains this version. The first one begins at the version 0.
pub fn phase_of(phases: &[Phase], version: u64) -> &Phase {
    let next = phases.partition_point(|phase| phase.from < version);
    &phases[next.saturating_sub(1)]
}

/// Returns the versions at which a process that runs joined again, under another identity.
pub fn rejoins(history: &[Entry]) -> Vec<u64> {
    let mut identities = BTreeMap::<&str, &str>::new();
    let mut rejoins = Vec::new();
    for entry in history {
        let Change::Member { lease: Some(LeaseState { holder: Some(holder), .. }), .. } =
            &entry.change
        else {
            continue;
        };
        let process = holder.rsplit_once('_').map_or("", |(process, _)| process);
        let last = identities.insert(process, holder);
        if last.is_some_and(|last| last != holder) {
            rejoins.push(entry.version);
        }
    }
    rejoins
}

/// Returns the times from a kill until heirs have reconciled the first and the last config map of
/// the replica. Returns `None` if the replica had no config maps.
pub fn takeover(history: &[Entry], phase: &Phase) -> Option<(Duration, Duration)> {
    let victim = phase.victim.as_deref()?;
    let (before, after) =
        history.split_at(history.partition_point(|entry| entry.version <= phase.from));
    let view = View::after(before);
    let mut maps = view.maps_of(&view.shards_of(victim));
    let mut times = Vec::new();
    for entry in after {
        if let Change::Map { name, state: Some(MapState { stamp: Some(stamp), .. }), .. } =
            &entry.change
            && !is_of(&stamp.identity, victim)
            && maps.remove(name)
        {
            times.push(entry.at.saturating_duration_since(phase.began));
        }
    }
    Some((*times.first()?, *times.last()?))
}

/// Returns the time that each config map was unserved at each graceful move of its shard: from the
/// release until the first write of the next owner. The history does not show when the last
/// reconcile of the former owner ended, which is earlier by the request of the release.
pub fn unserved(history: &[Entry], phases: &[Phase]) -> Vec<Duration> {
    let mut unserved = Vec::new();
    let mut view = View::default();
    let mut released = BTreeMap::<u8, Instant>::new();
    let mut moved = BTreeMap::<u8, (Token, Instant, BTreeSet<String>)>::new();
    for entry in history {
        match &entry.change {
            Change::Shard { shard, lease: Some(lease) } if lease.holder.is_none() => {
                released.insert(*shard, entry.at);
            }
            Change::Shard { shard, lease } => {
                moved.remove(shard);
                let is_graceful = phase_of(phases, entry.version).fault.is_graceful();
                if let Some((lease, released)) = lease.as_ref().zip(released.remove(shard))
                    && is_graceful
                {
                    let maps = view.maps_of(&BTreeSet::from([*shard]));
                    moved.insert(*shard, (lease.token.clone(), released, maps));
                }
            }
            Change::Map { name, state: Some(MapState { stamp: Some(stamp), .. }), .. } => {
                if let Some((token, released, maps)) = moved.get_mut(&stamp.shard)
                    && *token == stamp.token
                    && maps.remove(name)
                {
                    unserved.push(entry.at.saturating_duration_since(*released));
                }
            }
            _ => {}
        }
        view.apply(entry);
    }
    unserved
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Phase, phase_of, rejoins, takeover, unserved};
    use crate::replicas::fault::Fault;
    use crate::replicas::histories::{PLAIN, changed, history, member, shard, written};
    use crate::replicas::history::Entry;

    const A: (&str, i32, &str) = ("u", 1, "a_1");
    const B: (&str, i32, &str) = ("u", 2, "b_1");

    /// Returns the phase of a fault that comes just after this entry of a history.
    fn phase(fault: Fault, history: &[Entry], from: usize) -> Phase {
        let Entry { version, at, .. } = history[from];
        Phase { fault, from: version, began: at, victim: Some("a".to_owned()) }
    }

    #[test]
    fn phase_begins_after_its_version() {
        let history = history([member("a_1"), member("b_1")]);
        let mut phases = vec![phase(Fault::Join, &history, 0), phase(Fault::Kill, &history, 1)];
        phases[0].from = 0;
        let faults = [1, 2, 3].map(|version| phase_of(&phases, version).fault);
        assert_eq!(faults, [Fault::Join, Fault::Join, Fault::Kill]);
    }

    #[test]
    fn takeover_ends_with_the_first_write_of_another_than_the_victim() {
        let history = history([
            changed(PLAIN, 0),
            shard(0, "u", 1, "a_1"),
            written(PLAIN, 0, A, 0),
            written(PLAIN, 1, A, 0),
            written(PLAIN, 1, A, 1),
            shard(0, "u", 2, "b_1"),
            written(PLAIN, 1, B, 1),
            written(PLAIN, 2, B, 2),
        ]);
        let times = takeover(&history, &phase(Fault::Kill, &history, 2));
        let four = Duration::from_secs(4);
        assert_eq!(times, Some((four, four)));
    }

    #[test]
    fn map_is_unserved_from_the_release_until_the_first_write_of_the_next_owner() {
        let history = history([
            changed(PLAIN, 0),
            shard(0, "u", 1, "a_1"),
            written(PLAIN, 0, A, 0),
            shard(0, "u", 1, ""),
            shard(0, "u", 2, "b_1"),
            written(PLAIN, 1, A, 0),
            written(PLAIN, 1, B, 1),
            written(PLAIN, 2, B, 2),
        ]);
        let times = |fault| unserved(&history, &[phase(fault, &history, 0)]);
        assert_eq!(times(Fault::Terminate), [Duration::from_secs(3)]);
        assert_eq!(times(Fault::Stop), [Duration::ZERO; 0], "only graceful moves count");
    }

    #[test]
    fn process_with_another_identity_has_joined_again() {
        let members = ["a_1", "b_1", "a_1", "a_2", "b_1", "a_2"].map(member);
        assert_eq!(rejoins(&history(members)), [4]);
    }
}
