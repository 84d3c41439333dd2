//! What must be so: handlers are told of every key's additions, changes and deletions in the order of its versions, and
//! at the end they know what the server has.

use std::collections::HashMap;
use std::fmt;

use deltafifo::{Change, ResourceVersion};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

/// None: the object has no version that is a number.
pub type Version = Option<ResourceVersion>;

/// Versions by key.
pub type Versions = HashMap<String, Version>;

/// What handlers have been told, and what was wrong with it.
#[derive(Default)]
pub struct Told {
    live: Versions,
    /// The last versions of what was deleted.
    gone: Versions,
    counts: Counts,
    faults: Vec<String>,
}

/// How many changes were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub added: usize,
    pub updated: usize,
    /// All deletions.
    pub deleted: usize,
    /// Those of them that the watch had missed.
    pub tombstones: usize,
}

impl Counts {
    pub fn all(self) -> usize {
        self.added + self.updated + self.deleted
    }

    /// What was told after `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            added: self.added - before.added,
            updated: self.updated - before.updated,
            deleted: self.deleted - before.deleted,
            tombstones: self.tombstones - before.tombstones,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, updated, deleted, tombstones } = self;
        write!(f, "{added} added, {updated} updated, {deleted} deleted ({tombstones} by tombstone)")
    }
}

impl Told {
    /// A handler is told of `change`.
    pub fn tell(&mut self, key: &str, change: &Change<'_, ConfigMap>) {
        match *change {
            Change::Added { new, .. } => {
                self.counts.added += 1;
                if self.live.contains_key(key) {
                    self.fault(format!("{key} was added, and is known"));
                }
                self.know(key, version(&new.metadata));
            }
            Change::Updated { old, new, .. } => {
                self.counts.updated += 1;
                if self.live.get(key) != Some(&version(&old.metadata)) {
                    self.fault(format!("{key} was updated from a state that was not told"));
                }
                self.know(key, version(&new.metadata));
            }
            Change::Deleted { last, .. } => {
                self.counts.deleted += 1;
                self.counts.tombstones += usize::from(last.is_tombstone());
                match self.live.remove(key) {
                    None => self.fault(format!("{key} was deleted, and not known")),
                    Some(known) => {
                        let last = last.object().map_or_else(|| known.clone(), |last| version(&last.metadata));
                        if last < known {
                            self.fault(format!("{key} fell from {known:?} to {last:?} with its deletion"));
                        }
                        self.gone.insert(key.to_owned(), last.max(known));
                    }
                }
            }
        }
    }

    fn know(&mut self, key: &str, version: Version) {
        let before = self.live.get(key).or_else(|| self.gone.get(key));
        if let Some(before) = before.filter(|before| version < **before) {
            self.faults.push(format!("{key} fell from {before:?} to {version:?}"));
        }
        self.gone.remove(key);
        self.live.insert(key.to_owned(), version);
    }

    /// Something else was wrong.
    pub fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// What was wrong so far.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// What handlers know.
    pub fn live(&self) -> &Versions {
        &self.live
    }

    /// How much was told.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// How what is known differs from a fresh list, if it does.
pub fn difference(known: &Versions, fresh: &Versions) -> Option<String> {
    if known == fresh {
        return None;
    }
    let newer = fresh.iter().find(|(key, version)| known.get(*key) != Some(*version));
    let what = match newer {
        Some((key, version)) => format!("{key} is at {version:?}, and known at {:?}", known.get(key)),
        None => format!("{:?} is gone, and known", known.keys().find(|key| !fresh.contains_key(*key))),
    };
    Some(format!("{} objects are known of {}: {what}", known.len(), fresh.len()))
}

/// An object's key and version.
pub fn keyed(metadata: &ObjectMeta) -> (String, Version) {
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    (format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default()), version(metadata))
}

fn version(metadata: &ObjectMeta) -> Version {
    metadata.resource_version.as_deref().and_then(ResourceVersion::parse)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deltafifo::{Change, DeletedFinalStateUnknown, DeltaObject, DeltaType};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    use super::{Counts, Told, Versions, difference, keyed};

    fn map(version: u32) -> Arc<ConfigMap> {
        let (namespace, name) = (Some("ns".to_owned()), Some("a".to_owned()));
        let metadata =
            ObjectMeta { namespace, name, resource_version: Some(version.to_string()), ..ObjectMeta::default() };
        Arc::new(ConfigMap { metadata, ..ConfigMap::default() })
    }

    #[derive(Default)]
    struct Story(Told);

    impl Story {
        fn added(mut self, version: u32) -> Self {
            self.0.tell("ns/a", &Change::Added { new: &map(version), kind: DeltaType::Added });
            self
        }

        fn updated(mut self, old: u32, new: u32) -> Self {
            let (old, new) = (map(old), map(new));
            self.0.tell("ns/a", &Change::Updated { old: &old, new: &new, kind: DeltaType::Updated });
            self
        }

        fn deleted(mut self, last: impl Into<DeltaObject<ConfigMap>>) -> Self {
            self.0.tell("ns/a", &Change::Deleted { last: &last.into(), old: None });
            self
        }

        fn faults(&self) -> usize {
            self.0.faults().len()
        }
    }

    #[test]
    fn versions_that_only_grow_are_as_they_should_be() {
        let missed = DeletedFinalStateUnknown { key: "ns/a".into(), obj: Some(map(9)) };
        let story = Story::default().added(2).updated(2, 7).updated(7, 7).deleted(map(8)).added(9).deleted(missed);
        assert_eq!(story.faults(), 0);
        assert_eq!(story.0.counts(), Counts { added: 2, updated: 2, deleted: 2, tombstones: 1 });
    }

    #[test]
    fn a_version_that_falls_is_a_fault_also_after_a_deletion() {
        assert_eq!(Story::default().added(7).updated(7, 6).faults(), 1);
        assert_eq!(Story::default().added(7).deleted(map(6)).faults(), 1);
        assert_eq!(Story::default().added(7).deleted(map(9)).added(8).faults(), 1);
    }

    #[test]
    fn what_does_not_follow_from_what_was_told_is_a_fault() {
        assert_eq!(Story::default().updated(1, 2).faults(), 1);
        assert_eq!(Story::default().added(1).updated(2, 3).faults(), 1);
        assert_eq!(Story::default().added(1).added(2).faults(), 1);
        assert_eq!(Story::default().deleted(map(1)).faults(), 1);
    }

    #[test]
    fn a_missed_change_and_a_missed_deletion_differ_from_a_fresh_list() {
        let story = Story::default().added(7);
        let fresh = |version| Versions::from([keyed(&map(version).metadata)]);
        assert_eq!(difference(story.0.live(), &fresh(7)), None);
        assert!(difference(story.0.live(), &fresh(8)).is_some_and(|what| what.contains("ns/a is at")));
        assert!(difference(story.0.live(), &Versions::new()).is_some_and(|what| what.contains("is gone")));
    }
}
