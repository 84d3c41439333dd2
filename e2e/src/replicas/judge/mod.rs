//! Judges the history of a group.
//!
//! The terms of each shard are those of its Lease ([`Terms`]). A write of a reconcile is
//! *overlapped* if a write of a later term to the same config map precedes it. It is *late* if the
//! claim of a later term precedes it; so every overlapped write is late.
//!
//! In every history the versions must rise. Otherwise the record is wrong, and an error is
//! returned.
//!
//! A group must keep the rules of [`Terms`], and these. A write names a term of its shard that has
//! begun, with its holder. A config map stays in its shard. A reconcile sees each change of its
//! config map that precedes the claim of its term. At the end, each change of a config map that
//! exists is followed by a write of a reconcile that has seen it. The verdict lists the entries
//! that break a rule. A write that does not belong to a term is not counted.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::history::{Change, Entry, MapState, Stamp};
use crate::history::{BrokenRule, Object, Terms, check_versions};

/// The writes and the faults in a history.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub versioned: Faults,
    pub plain: Faults,
    /// The number of terms of all shards.
    pub terms: usize,
    /// The number of writes of reconciles.
    pub writes: usize,
    /// The number of changes by the outside writer.
    pub changes: usize,
    /// The entries that break a rule of groups.
    pub broken: Vec<BrokenRule>,
}

/// The versions of overlapped and late writes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub overlapped: Vec<u64>,
    pub late: Vec<u64>,
}

/// A config map, as its history shows it. One that is created again is another one.
struct Map {
    state: MapState,
    /// The last term that has written the config map, and its shard.
    written: Option<(u8, usize)>,
    /// The changes, in the order of their versions.
    changes: Vec<WrittenChange>,
    /// The entry of the last change, if no reconcile that has seen it has written since.
    waits: Option<Entry>,
}

/// A change of a config map by the outside writer.
struct WrittenChange {
    version: u64,
    number: u64,
}

/// Judges the complete history of one group.
///
/// # Errors
/// A message with the entry that shows that the record is wrong.
pub fn judge(history: &[Entry]) -> Result<Verdict, String> {
    check_versions(history)?;
    let mut verdict = Verdict::default();
    let mut shards = BTreeMap::<u8, Terms>::new();
    let mut maps = BTreeMap::<&str, Map>::new();
    for entry in history {
        match &entry.change {
            Change::Group(_) | Change::Member { .. } => {}
            Change::Shard { shard, lease } => {
                let broken = shards.entry(*shard).or_default().add(entry.version, lease.as_ref());
                for rule in broken.map_err(|reason| format!("{reason}: {entry}"))? {
                    verdict.broken.push(BrokenRule::new(rule, entry));
                }
            }
            Change::Map { name, state: None, .. } => {
                maps.remove(name.as_str());
            }
            Change::Map { name, object, state: Some(state) } => {
                let map = maps.entry(name).or_insert_with(|| Map::new(state));
                if map.state.uid != state.uid {
                    return Err(format!("the uid changes without a deletion: {entry}"));
                }
                map.change(entry, state, &mut verdict);
                if let Some(stamp) = &state.stamp
                    && map.state.stamp.as_ref() != Some(stamp)
                {
                    let terms = shards.entry(stamp.shard).or_default();
                    map.write(entry, (*object, stamp), terms, &mut verdict);
                }
                map.state = state.clone();
            }
        }
    }
    for entry in maps.into_values().filter_map(|map| map.waits) {
        verdict.broken.push(BrokenRule::new("no reconcile follows a change", &entry));
    }
    verdict.terms = shards.values().map(|terms| terms.all().len()).sum();
    Ok(verdict)
}

impl Map {
    fn new(state: &MapState) -> Self {
        let state = MapState { stamp: None, ..state.clone() };
        Self { state, written: None, changes: Vec::new(), waits: None }
    }

    /// Adds a change by the outside writer, if the entry is one. The creation is one.
    fn change(&mut self, entry: &Entry, state: &MapState, verdict: &mut Verdict) {
        if self.changes.is_empty() || self.state.change != state.change {
            self.changes.push(WrittenChange { version: entry.version, number: state.change });
            self.waits = Some(entry.clone());
            verdict.changes += 1;
        }
    }

    /// Adds a write of a reconcile.
    fn write(
        &mut self,
        entry: &Entry,
        (object, stamp): (Object, &Stamp),
        terms: &Terms,
        verdict: &mut Verdict,
    ) {
        let mut broken = |rule| verdict.broken.push(BrokenRule::new(rule, entry));
        let number = match terms.number_of(&stamp.token, &stamp.identity) {
            Ok(number) => number,
            Err(rule) => return broken(rule),
        };
        let Some(seen) = self.changes.iter().rposition(|change| change.number == stamp.seen) else {
            return broken("a reconcile has seen a change that was not written");
        };
        let last = self.written.unwrap_or((stamp.shard, 0));
        if last.0 != stamp.shard {
            return broken("a config map changes its shard");
        }
        match self.changes.get(seen + 1) {
            Some(unseen) if unseen.version < terms.all()[number].claimed => {
                broken("a reconcile has not seen a change that precedes its term");
            }
            Some(_) => {}
            None => self.waits = None,
        }
        let faults = match object {
            Object::Versioned => &mut verdict.versioned,
            Object::Plain => &mut verdict.plain,
        };
        if last.1 > number {
            faults.overlapped.push(entry.version);
        }
        if number + 1 < terms.all().len() {
            faults.late.push(entry.version);
        }
        self.written = Some((stamp.shard, last.1.max(number)));
        verdict.writes += 1;
    }
}
