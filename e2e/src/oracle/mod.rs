//! The rules that every handler's notifications must obey. Additions, changes and deletions of
//! each key come in the order of its versions and with states that the server had, and at the end
//! the handler knows the server's state. The rules apply equally to the consumer of a reflector,
//! to this project's informers, and to client-go's.

use std::collections::{HashMap, HashSet};
use std::fmt;

use deltafifo::{BoxError, ResourceVersion};
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

use crate::written::Written;

/// A resource version; `None` if it is not a number.
pub type Version = Option<ResourceVersion>;

/// The identity of an object, and its version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct State {
    pub uid: String,
    #[serde(deserialize_with = "parsed")]
    pub version: Version,
}

/// The states of objects by key.
pub type States = HashMap<String, State>;

/// A notification about a key.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Added { new: State },
    Updated { old: State, new: State },
    Deleted { last: Option<State>, is_tombstone: bool },
}

/// The notifications of one handler, and the rules that they broke.
#[derive(Default)]
pub struct HandlerLog {
    live: States,
    /// The last states of deleted keys.
    gone: States,
    /// The states that were known before the current handler resync and have not been added again;
    /// `None` outside of a handler resync.
    dropped: Option<States>,
    /// All states of which the handler was notified, with their keys.
    states: Vec<(String, State)>,
    /// The uids of the objects that were added. `ended` has the uids of those objects that were
    /// deleted or replaced later.
    added: HashSet<String>,
    ended: HashSet<String>,
    counts: Counts,
    /// The number of completed handler resyncs. A handler resync follows dropped changes.
    resyncs: usize,
    faults: Vec<String>,
}

/// The number of notifications of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub added: usize,
    /// Number of updates to another state.
    pub updated: usize,
    /// Number of updates to an equal state, which client-go sends on a relist.
    pub unchanged: usize,
    /// Number of all deletions.
    pub deleted: usize,
    /// Number of deletions that the watch had missed.
    pub tombstones: usize,
}

impl Counts {
    pub fn all(self) -> usize {
        self.added + self.updated + self.unchanged + self.deleted
    }

    /// Returns the counts without those that are in `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            added: self.added - before.added,
            updated: self.updated - before.updated,
            unchanged: self.unchanged - before.unchanged,
            deleted: self.deleted - before.deleted,
            tombstones: self.tombstones - before.tombstones,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, updated, unchanged, deleted, tombstones } = self;
        write!(
            f,
            "{added} added, {updated} updated, {deleted} deleted ({tombstones} by tombstone)"
        )?;
        if *unchanged > 0 { write!(f, ", {unchanged} unchanged") } else { Ok(()) }
    }
}

impl HandlerLog {
    /// Records a change of `key`.
    pub fn record(&mut self, key: &str, change: Change) {
        match change {
            Change::Added { new } => {
                self.counts.added += 1;
                if self.live.contains_key(key) {
                    self.fault(format!("{key} was added, but is known"));
                }
                if self.ended.contains(&new.uid) {
                    self.fault(format!("{key} was added as {}, which was deleted before", new.uid));
                }
                self.added.insert(new.uid.clone());
                self.know(key, new);
            }
            Change::Updated { old, new } => {
                let count =
                    if old == new { &mut self.counts.unchanged } else { &mut self.counts.updated };
                *count += 1;
                if self.live.get(key) != Some(&old) {
                    self.fault(format!("{key} was updated from a state that was not delivered"));
                }
                if old.uid != new.uid {
                    // The object was replaced by another one.
                    self.added.insert(new.uid.clone());
                    self.ended.insert(old.uid);
                }
                self.know(key, new);
            }
            Change::Deleted { last, is_tombstone } => {
                self.counts.deleted += 1;
                self.counts.tombstones += usize::from(is_tombstone);
                match self.live.remove(key) {
                    None => self.fault(format!("{key} was deleted, but is not known")),
                    Some(known) => self.end(key, known, last, is_tombstone),
                }
            }
        }
    }

    fn end(&mut self, key: &str, known: State, last: Option<State>, is_tombstone: bool) {
        let mut last = last.unwrap_or_else(|| known.clone());
        if last.uid != known.uid {
            self.fault(format!("{key} was deleted as {}, and known as {}", last.uid, known.uid));
        }
        if last.version < known.version {
            self.fault(format!(
                "{key} fell from {:?} to {:?} with its deletion",
                known.version, last.version
            ));
            last.version = known.version;
        }
        if is_tombstone {
            // This state is in the writers' log. The version of an observed deletion is not.
            self.states.push((key.to_owned(), last.clone()));
        }
        self.ended.insert(known.uid);
        self.gone.insert(key.to_owned(), last);
    }

    fn know(&mut self, key: &str, state: State) {
        let dropped = self.dropped.as_mut().and_then(|dropped| dropped.remove(key));
        if let Some(before) = dropped.as_ref().filter(|before| before.uid != state.uid) {
            self.ended.insert(before.uid.clone());
        }
        let gone = self.gone.remove(key);
        let before = self.live.get(key).or(dropped.as_ref()).or(gone.as_ref());
        if let Some(before) = before.filter(|before| state.version < before.version) {
            self.faults
                .push(format!("{key} fell from {:?} to {:?}", before.version, state.version));
        }
        self.states.push((key.to_owned(), state.clone()));
        self.live.insert(key.to_owned(), state);
    }

    /// Records that changes were dropped, and that everything stored is added again.
    pub fn resync_begins(&mut self) {
        let live = std::mem::take(&mut self.live);
        // A resync may begin again before the previous one has ended.
        self.dropped.get_or_insert_default().extend(live);
    }

    /// Records the end of a handler resync: keys that were not added again are deleted.
    pub fn resync_ends(&mut self) {
        let Some(dropped) = self.dropped.take() else {
            return self.fault("a resync ended that had not begun".into());
        };
        self.resyncs += 1;
        for (key, last) in dropped {
            self.ended.insert(last.uid.clone());
            self.gone.insert(key, last);
        }
    }

    /// Records the violation of a rule. `fault` describes it.
    pub fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// Returns whether a handler resync has begun and not ended.
    pub fn is_in_resync(&self) -> bool {
        self.dropped.is_some()
    }

    /// Returns the number of completed handler resyncs.
    pub fn resyncs(&self) -> usize {
        self.resyncs
    }

    /// Returns the states that the handler knows.
    pub fn live(&self) -> &States {
        &self.live
    }

    /// Returns the number of notifications of each kind.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns an error if the notifications break a rule: for example, an object was lost, or has
    /// a state that was never written. `stored` is the server's final state, and `written` is the
    /// log of the creations and updates.
    pub fn judge(&self, stored: &States, written: &Written) -> Result<(), BoxError> {
        let present: HashSet<_> = stored.values().map(|state| &state.uid).collect();
        let lost =
            self.added.iter().find(|uid| !present.contains(uid) && !self.ended.contains(*uid));
        let lost = lost.map(|uid| format!("{uid} was added, and is neither stored nor deleted"));
        let unwritten = self.states.iter().find(|(key, state)| !written.may_be(key, state));
        let unwritten =
            unwritten.map(|(key, state)| format!("{key} was never written as {state:?}"));
        let begun = self.is_in_resync().then(|| "a resync began that has not ended".to_owned());
        let faults: Vec<_> =
            self.faults.iter().chain(&lost).chain(&unwritten).chain(&begun).collect();
        match faults.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(format!("{} violations, the first: {first}", faults.len()).into()),
        }
    }
}

/// Returns how `known` differs from a fresh list, or `None` if it does not.
pub fn difference(known: &States, fresh: &States) -> Option<String> {
    if known == fresh {
        return None;
    }
    let newer = fresh.iter().find(|(key, state)| known.get(*key) != Some(*state));
    let difference = match newer {
        Some((key, state)) => format!("{key} is {state:?}, and known as {:?}", known.get(key)),
        None => {
            format!(
                "{:?} is deleted, but still known",
                known.keys().find(|key| !fresh.contains_key(*key))
            )
        }
    };
    Some(format!("{} of {} objects are known: {difference}", known.len(), fresh.len()))
}

/// Returns the key and the state of an object.
pub fn keyed(metadata: &ObjectMeta) -> (String, State) {
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    (format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default()), state(metadata))
}

/// Returns the state of an object.
pub fn state(metadata: &ObjectMeta) -> State {
    let version = metadata.resource_version.as_deref().and_then(ResourceVersion::parse);
    State { uid: metadata.uid.clone().unwrap_or_default(), version }
}

fn parsed<'de, D: Deserializer<'de>>(version: D) -> Result<Version, D::Error> {
    Ok(ResourceVersion::parse(&String::deserialize(version)?))
}

#[cfg(test)]
mod tests;
