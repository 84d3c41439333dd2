//! The keys of the lists of added shards, for a group that shards by uid.
//!
//! The watch continues from an older version than that of such a list. An object that is created
//! again has another shard than its predecessor, so the events of the predecessor are not among
//! those of the listed shards. They would replace the listed object in the store, or delete it.

use std::collections::HashSet;

use deltafifo::ResourceVersion;

use crate::wire::Head;

/// The keys of lists, until the watch has passed the versions of these lists.
#[derive(Default)]
pub(super) struct ListedKeys {
    /// The keys of the list of added shards that is in progress.
    listing: Option<HashSet<Box<str>>>,
    /// The complete lists.
    lists: Vec<(ResourceVersion, HashSet<Box<str>>)>,
}

impl ListedKeys {
    /// Begins a list of added shards.
    pub(super) fn begin(&mut self) {
        self.listing = Some(HashSet::new());
    }

    /// Forgets the keys of the list in progress: it begins again with its first page.
    pub(super) fn begin_again(&mut self) {
        if let Some(keys) = &mut self.listing {
            keys.clear();
        }
    }

    /// Adds a key, if a list of added shards is in progress.
    pub(super) fn add(&mut self, head: &Head<'_>) {
        if let Some(keys) = &mut self.listing {
            keys.insert(head.key().into());
        }
    }

    /// Ends the list in progress, with its version if it is complete. The watch continues from an
    /// older version.
    pub(super) fn end(&mut self, version: Option<ResourceVersion>) {
        let keys = self.listing.take();
        self.lists.extend(version.zip(keys));
    }

    /// Returns whether the event of this object is older than a list of its key. Forgets the lists
    /// that are older than the event, which is of a watch that continues.
    pub(super) fn covers(&mut self, head: &Head<'_>) -> bool {
        // Nearly always, and for each event of a watch.
        if self.lists.is_empty() {
            return false;
        }
        let Some(version) = ResourceVersion::parse(&head.version) else { return false };
        self.forget_before(&version);
        let key = head.key();
        self.lists.iter().any(|(_, keys)| keys.contains(&*key))
    }

    /// Forgets the lists that are older than a bookmark of the watch.
    pub(super) fn passed(&mut self, bookmark: &[u8]) {
        if !self.lists.is_empty()
            && let Ok(head) = Head::of(bookmark)
            && let Some(version) = ResourceVersion::parse(&head.version)
        {
            self.forget_before(&version);
        }
    }

    fn forget_before(&mut self, version: &ResourceVersion) {
        self.lists.retain(|(listed, _)| version <= listed);
    }

    /// Forgets the lists that are newer than a later one, because the server was restored from a
    /// backup.
    pub(super) fn listed(&mut self, version: &ResourceVersion) {
        self.lists.retain(|(listed, _)| listed <= version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str, version: u64) -> Vec<u8> {
        format!(
            r#"{{"metadata":{{"namespace":"shop","name":"{name}","resourceVersion":"{version}"}}}}"#
        )
        .into()
    }

    fn covers(keys: &mut ListedKeys, name: &str, version: u64) -> bool {
        keys.covers(&Head::of(&head(name, version)).unwrap())
    }

    fn list(keys: &mut ListedKeys, name: &str, version: Option<&str>) {
        keys.begin();
        keys.add(&Head::of(&head(name, 1)).unwrap());
        keys.end(version.and_then(ResourceVersion::parse));
    }

    #[test]
    fn key_is_covered_up_to_the_version_of_its_last_complete_list() {
        let mut keys = ListedKeys::default();
        list(&mut keys, "a", Some("9"));
        list(&mut keys, "b", Some("12"));
        list(&mut keys, "c", None);
        assert!(covers(&mut keys, "a", 9) && covers(&mut keys, "b", 9));
        assert!(!covers(&mut keys, "c", 9) && !covers(&mut keys, "d", 9));
        assert!(!covers(&mut keys, "a", 10) && covers(&mut keys, "b", 12));
        assert_eq!(keys.lists.len(), 1, "the first list is no longer needed");
        keys.passed(br#"{"metadata":{"resourceVersion":"12"}}"#);
        assert_eq!(keys.lists.len(), 1, "an event of version 12 may follow");
        list(&mut keys, "d", Some("20"));
        keys.passed(br#"{"metadata":{"resourceVersion":"13"}}"#);
        assert!(!covers(&mut keys, "b", 12) && covers(&mut keys, "d", 13));
        list(&mut keys, "b", Some("12"));
        keys.add(&Head::of(&head("e", 1)).unwrap());
        keys.listed(&ResourceVersion::parse("11").unwrap());
        assert!(keys.lists.is_empty() && keys.listing.is_none(), "a restored server has this key");
    }

    #[test]
    fn list_that_begins_again_has_only_the_keys_of_its_last_attempt() {
        let mut keys = ListedKeys::default();
        keys.begin();
        keys.add(&Head::of(&head("a", 1)).unwrap());
        keys.begin_again();
        keys.add(&Head::of(&head("b", 1)).unwrap());
        keys.end(ResourceVersion::parse("9"));
        assert!(!covers(&mut keys, "a", 9) && covers(&mut keys, "b", 9));
    }
}
