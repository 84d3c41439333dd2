//! From which version to ask.

use deltafifo::ResourceVersion;

use crate::lister_watcher::{RequestError, is_point_in_time};

/// What a reflector knows of versions.
#[derive(Default)]
pub(super) struct Versions {
    /// Of the last list, event or bookmark.
    last: Option<String>,
    /// Whether the target has not been told of `last` yet.
    untold: bool,
    /// How new the next list has to be, where `last` will not do; empty for the newest. Either the
    /// server does not have `last`, or a list broke off, and the target knows some of it: an older
    /// one would take that back.
    least: Option<String>,
    /// A list at any version came in pages, so the server has no cache of this resource, and a
    /// list without pages would be too much for it.
    pages: bool,
    /// Of the next list.
    caution: Caution,
}

/// What a list must not infer, for what came since the one before.
#[derive(Default)]
struct Caution {
    /// The server did not know a version that it had given: it was restored from a backup,
    /// perhaps, and equal versions no longer mean equal objects.
    rewound: bool,
    /// There was an event of an object whose name is not known, which may be any that is not
    /// listed.
    met_nameless: bool,
}

impl Versions {
    /// Nothing is known. Whether the first list has to be the newest.
    pub(super) fn new(newest: bool) -> Self {
        Self { least: newest.then(String::new), ..Self::default() }
    }

    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Everything up to `version` is known, by an event or a bookmark. One without a version of
    /// its own says nothing of that.
    pub(super) fn reached(&mut self, version: &str) {
        if is_point_in_time(version) {
            self.last = Some(version.to_owned());
            self.untold = true;
        }
    }

    /// Whether a watch from [`last`](Self::last) goes on from there. From "0" it begins with all
    /// objects, of whatever time, and a deletion before that is lost: then everything is to be
    /// listed instead.
    pub(super) fn can_resume(&self) -> bool {
        self.last().is_some_and(is_point_in_time)
    }

    /// What the target is to be told of, once.
    pub(super) fn untold(&mut self) -> Option<String> {
        self.last.as_ref().filter(|_| std::mem::take(&mut self.untold)).cloned()
    }

    /// A list is complete.
    pub(super) fn listed(&mut self, version: &str) {
        if !version.is_empty() {
            self.last = Some(version.to_owned());
        }
        // The relist itself has told of it.
        (self.untold, self.least, self.caution) = (false, None, Caution::default());
    }

    /// Returns the version of a list of which only its newest object's is known: the greater of
    /// that and the last one, since what was deleted may have been newer. Empty if there is
    /// neither.
    #[cfg(feature = "runtime")]
    pub(super) fn of_list(&self, newest: Option<ResourceVersion>) -> String {
        let last = self.last().and_then(ResourceVersion::parse);
        newest.max(last).map(|version| version.to_string()).unwrap_or_default()
    }

    /// The next list must not be older than `version`; empty: it must be the newest.
    pub(super) fn set_least(&mut self, version: &str) {
        self.least = Some(version.to_owned());
    }

    /// A version cannot be had: the next list must be the newest.
    pub(super) fn set_unavailable(&mut self, error: &RequestError) {
        self.least = Some(String::new());
        self.caution.rewound |= error.is_too_large_version();
    }

    /// Whether a list comes at a lower version than what is known, as after a restore of etcd.
    pub(super) fn is_of_another_history(&self, list: &str) -> bool {
        if !is_point_in_time(list) {
            return false;
        }
        let number = ResourceVersion::parse;
        number(list)
            .is_some_and(|list| self.last().and_then(number).is_some_and(|last| list < last))
    }

    /// Whether versions of before say nothing of the objects of the next list.
    pub(super) fn is_rewound(&self) -> bool {
        self.caution.rewound
    }

    /// An object was not read, and nothing says which it is.
    pub(super) fn set_nameless(&mut self) {
        self.caution.met_nameless = true;
    }

    /// Whether the next list is to delete nothing: it may be of the state before that of such an
    /// object.
    pub(super) fn met_nameless(&self) -> bool {
        self.caution.met_nameless
    }

    pub(super) fn set_pages(&mut self) {
        self.pages = true;
    }

    /// From which a list is asked for: any, the last one, or the least that will do, and whether
    /// that must be said.
    pub(super) fn for_list(&self) -> (String, bool) {
        match (&self.least, &self.last) {
            (Some(least), _) => (least.clone(), !least.is_empty()),
            (None, Some(last)) => (last.clone(), false),
            (None, None) => ("0".to_owned(), false),
        }
    }

    /// From which a streamed list is asked for.
    pub(super) fn for_watch_list(&self) -> String {
        self.least.as_ref().or(self.last.as_ref()).cloned().unwrap_or_default()
    }

    /// How many objects a page, of a list from `version`: a server serves a list from a version at
    /// once from its cache.
    pub(super) fn page_size(&self, version: &str, wanted: u32) -> u32 {
        if self.pages || matches!(version, "" | "0") { wanted } else { 0 }
    }
}

/// The newest version of objects that come in any order. Of versions that do not compare it is the
/// last, as in client-go.
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

    /// Empty: no object had a version.
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
