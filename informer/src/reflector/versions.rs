//! The versions at which lists and watches start.

use deltafifo::ResourceVersion;

use crate::lister_watcher::{RequestError, is_point_in_time};

/// The versions that a reflector knows.
#[derive(Default)]
pub(super) struct Versions {
    /// The version of the last list, event or bookmark.
    last: Option<String>,
    subsets: SubsetLists,
    /// Whether `last` has not been passed to the target yet.
    unreported: bool,
    /// The least version of the next list, if `last` must not be used; empty for the newest state.
    /// It is set if the server does not have `last`, if the initial list must show the newest
    /// state, or if a list failed after the target had received a part of it: an older list would
    /// revert that part.
    least: Option<String>,
    /// Whether a list must follow, because a watch has ended that cannot continue, or a list has
    /// failed.
    is_list_due: bool,
    /// Whether a list from version "0" (any version) came in pages. Then the server has no cache
    /// of this resource, and an unpaged list would be too expensive for it.
    pages: bool,
    /// The restrictions of the next list.
    caution: Caution,
}

/// The lists of subsets of the objects (`subset.rs`).
#[derive(Default)]
struct SubsetLists {
    /// The version of the last one, which may be newer than that of the last list, event or
    /// bookmark.
    version: Option<String>,
    /// Whether the next one must be one page, because the token of a page of an earlier attempt had
    /// expired.
    #[cfg(feature = "leader-election")]
    is_whole: bool,
}

/// Conclusions that must not be drawn from the next list, because of events since the previous
/// list.
#[derive(Default)]
struct Caution {
    /// Whether the server did not know a version that it had returned. It may have been restored
    /// from a backup, so equal versions do not imply equal objects.
    rewound: bool,
    /// Whether there was an event of an object without a readable name. That object may be any of
    /// those that the list does not contain.
    met_nameless: bool,
}

impl Versions {
    /// Creates the state of a reflector without versions. `newest` says whether the initial list
    /// must show the newest state.
    pub(super) fn new(newest: bool) -> Self {
        Self { least: newest.then(String::new), ..Self::default() }
    }

    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Records the version of an event or a bookmark. A version that is not a point in time, such
    /// as 0, is ignored.
    pub(super) fn reached(&mut self, version: &str) {
        if is_point_in_time(version) {
            self.last = Some(version.to_owned());
            self.unreported = true;
        }
    }

    /// Returns whether a watch can continue from [`last`](Self::last). A watch from "0" begins
    /// with all objects at any version, and would miss earlier deletions, so a list is needed
    /// instead.
    pub(super) fn can_resume(&self) -> bool {
        self.last().is_some_and(is_point_in_time)
    }

    /// Returns the last version if it has not been passed to the target yet. The caller must pass
    /// it: the next call returns `None`.
    pub(super) fn take_unreported(&mut self) -> Option<String> {
        self.last.as_ref().filter(|_| std::mem::take(&mut self.unreported)).cloned()
    }

    /// Records a complete list.
    pub(super) fn listed(&mut self, version: &str) {
        if !version.is_empty() {
            self.last = Some(version.to_owned());
        }
        // The relist itself has passed the version to the target.
        (self.unreported, self.least, self.caution) = (false, None, Caution::default());
        (self.subsets.version, self.is_list_due) = (None, false);
    }

    /// Returns the version of a list that has no version of its own: the version of its newest
    /// object, or the last version if that is greater, since deleted objects may have been newer.
    /// Empty if neither is known.
    #[cfg(feature = "runtime")]
    pub(super) fn of_list(&self, newest: Option<ResourceVersion>) -> String {
        let last = self.last().and_then(ResourceVersion::parse);
        newest.max(last).map(|version| version.to_string()).unwrap_or_default()
    }

    /// Sets the least version of the next list; empty for the newest state.
    pub(super) fn set_least(&mut self, version: &str) {
        self.least = Some(version.to_owned());
    }

    /// Records that no watch can continue without a list.
    pub(super) fn set_list_due(&mut self) {
        self.is_list_due = true;
    }

    /// Records that a version is not available: the next list must be the newest.
    pub(super) fn set_unavailable(&mut self, error: &RequestError) {
        self.least = Some(String::new());
        self.caution.rewound |= error.is_too_large_version();
    }

    /// Returns whether the version of a list is lower than the last version, as after a restore of
    /// etcd.
    pub(super) fn is_of_another_history(&self, list: &str) -> bool {
        if !is_point_in_time(list) {
            return false;
        }
        let number = ResourceVersion::parse;
        number(list)
            .is_some_and(|list| self.last().and_then(number).is_some_and(|last| list < last))
    }

    /// Returns whether earlier versions imply nothing about the objects of the next list.
    pub(super) fn is_rewound(&self) -> bool {
        self.caution.rewound
    }

    /// Records an object that was not read and whose name is not known.
    pub(super) fn set_nameless(&mut self) {
        self.caution.met_nameless = true;
    }

    /// Returns whether the next list must delete nothing, because there was an event of an object
    /// without a readable name. The list may be older than that event.
    pub(super) fn met_nameless(&self) -> bool {
        self.caution.met_nameless
    }

    pub(super) fn set_pages(&mut self) {
        self.pages = true;
    }

    /// Returns the version to request a list from (any, the newest known one, or the least), and
    /// whether the request must ask for `NotOlderThan` that version.
    pub(super) fn for_list(&self) -> (String, bool) {
        match (&self.least, self.newest()) {
            (Some(least), _) => (least.clone(), !least.is_empty()),
            (None, Some(newest)) => (newest.to_owned(), false),
            (None, None) => ("0".to_owned(), false),
        }
    }

    /// Returns the version to request a streamed list from.
    pub(super) fn for_watch_list(&self) -> String {
        self.least.as_deref().or(self.newest()).unwrap_or_default().to_owned()
    }

    /// Returns the newest version that a known object may have: the last one, or that of the last
    /// list of a subset.
    fn newest(&self) -> Option<&str> {
        let number = |version: &Option<String>| ResourceVersion::parse(version.as_deref()?);
        let subset = &self.subsets.version;
        let is_newer = subset.is_some() && number(subset) > number(&self.last);
        if is_newer { subset.as_deref() } else { self.last() }
    }

    /// Returns whether a list must come before the next watch: there is no version to continue
    /// from, the last watch has ended in a way that needs a list, or the target has received
    /// objects of a list that is incomplete.
    pub(super) fn owes_list(&self) -> bool {
        !(self.can_resume() && self.least.is_none() && !self.is_list_due)
    }

    /// Records the end of a list of a subset, which began when [no list was
    /// owed](Self::owes_list): its version if it is complete. The target keeps what it has
    /// received of an incomplete one, which the caller must list again or delete. `has_expired`
    /// says whether the token of a page had expired.
    #[cfg(feature = "leader-election")]
    pub(super) fn end_subset(&mut self, complete: Option<String>, has_expired: bool) {
        self.least = None;
        self.subsets.is_whole = complete.is_none() && (self.subsets.is_whole || has_expired);
        if complete.is_some() {
            self.subsets.version = complete;
        }
    }

    /// Returns the page size of a list of a subset.
    #[cfg(feature = "leader-election")]
    pub(super) fn page_size_of_subset(&self, wanted: u32) -> u32 {
        if self.subsets.is_whole { 0 } else { wanted }
    }

    /// Returns the page size of a list from `version`. A list from a specific version is one page,
    /// because the server returns it as a whole from its cache, unless the server has no cache.
    pub(super) fn page_size(&self, version: &str, wanted: u32) -> u32 {
        if self.pages || matches!(version, "" | "0") { wanted } else { 0 }
    }
}

/// The newest version of objects that arrive in any order. If versions cannot be compared, it is
/// the version of the last object, as in client-go.
#[derive(Default)]
pub(super) struct Newest(String);

impl Newest {
    pub(super) fn add(&mut self, version: &str) {
        let number = ResourceVersion::parse;
        let is_older = number(version)
            .is_some_and(|version| number(&self.0).is_some_and(|newest| version < newest));
        if is_point_in_time(version) && !is_older {
            version.clone_into(&mut self.0);
        }
    }

    /// Returns the version; empty if no object had one.
    pub(super) fn version(&self) -> &str {
        &self.0
    }
}

#[cfg(all(test, feature = "runtime"))]
mod tests {
    use super::*;

    #[test]
    fn list_known_by_its_newest_object_lowers_no_version() {
        let mut versions = Versions::new(false);
        for (newest, last) in [("", ""), ("9", "9"), ("", "9"), ("8", "9"), ("10", "10")] {
            let version = versions.of_list(ResourceVersion::parse(newest));
            assert_eq!(version, last, "{newest:?}");
            versions.listed(&version);
        }
    }
}
