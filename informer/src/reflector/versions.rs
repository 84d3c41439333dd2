//! From which version to ask.

#[cfg(feature = "runtime")]
use deltafifo::ResourceVersion;

/// What a reflector knows of versions.
#[derive(Default)]
pub(super) struct Versions {
    /// Of the last list, event or bookmark.
    last: Option<String>,
    /// Whether the target has not been told of `last` yet.
    untold: bool,
    /// How new the next list has to be, where `last` will not do; empty for the newest. Either the server does not have `last`,
    /// or a list broke off, and the target knows some of it: an older one would take that back.
    least: Option<String>,
    /// A list at any version came in pages, so the server has no cache of this resource, and a list without pages would be
    /// too much for it.
    pages: bool,
}

impl Versions {
    /// Nothing is known. Whether the first list has to be the newest.
    pub(super) fn new(newest: bool) -> Self {
        Self { least: newest.then(String::new), ..Self::default() }
    }

    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    pub(super) fn reached(&mut self, version: &str) {
        if !version.is_empty() {
            self.last = Some(version.to_owned());
            self.untold = true;
        }
    }

    /// What the target is to be told of, once.
    pub(super) fn untold(&mut self) -> Option<String> {
        self.last.as_ref().filter(|_| std::mem::take(&mut self.untold)).cloned()
    }

    /// A list is complete.
    pub(super) fn listed(&mut self, version: &str) {
        self.reached(version);
        // The relist itself has told of it.
        (self.untold, self.least) = (false, None);
    }

    /// Returns the version of a list of which only its newest object's is known: the greater of that and the last one,
    /// since what was deleted may have been newer. Empty if there is neither.
    #[cfg(feature = "runtime")]
    pub(super) fn of_list(&self, newest: Option<ResourceVersion>) -> String {
        let last = self.last().and_then(ResourceVersion::parse);
        newest.max(last).map(|version| version.to_string()).unwrap_or_default()
    }

    /// The next list must not be older than `version`; empty: it must be the newest.
    pub(super) fn set_least(&mut self, version: &str) {
        self.least = Some(version.to_owned());
    }

    pub(super) fn set_pages(&mut self) {
        self.pages = true;
    }

    /// From which a list is asked for: any, the last one, or the least that will do, and whether that must be said.
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

    /// How many objects a page, of a list from `version`: a server serves a list from a version at once from its cache.
    pub(super) fn page_size(&self, version: &str, wanted: u32) -> u32 {
        if self.pages || matches!(version, "" | "0") { wanted } else { 0 }
    }
}

#[cfg(all(test, feature = "runtime"))]
mod tests {
    use super::*;

    #[test]
    fn a_list_known_by_its_newest_object_takes_nothing_back() {
        let mut versions = Versions::new(false);
        for (newest, last) in [("", ""), ("9", "9"), ("", "9"), ("8", "9"), ("10", "10")] {
            let version = versions.of_list(ResourceVersion::parse(newest));
            assert_eq!(version, last, "{newest:?}");
            versions.listed(&version);
        }
    }
}
