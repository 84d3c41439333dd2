//! The state of the namespaces of an informer.

use std::sync::Arc;

use deltafifo::ResourceVersion;

use super::reflector::NamespaceReflector;
use super::reflectors::NamespaceReflectors;
#[cfg(all(feature = "leader-election", feature = "runtime"))]
use crate::lister_watcher::RequestError;
use crate::reflector::{Reflector, WatchStatus};
#[cfg(all(feature = "leader-election", feature = "runtime"))]
use crate::shared_informer::{Snapshot, SnapshotFilter};

/// The state of one namespace of an informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamespaceStatus {
    /// The name of the namespace.
    pub namespace: String,
    /// Whether the first list of the namespace is complete.
    pub has_listed: bool,
    /// Whether the informer does not wait for the namespace: it is
    /// [optional](super::Namespaces::optional), and the first list of the namespace has failed, or
    /// the server has refused the namespace later (403, 404). The informer waits for it again from
    /// its next list, event or bookmark on.
    pub is_waived: bool,
    /// The state of the namespace's watch, with the last error.
    pub watch: WatchStatus,
}

impl<K: Send + Sync + 'static> NamespaceReflectors<K> {
    /// Returns the state of each namespace.
    pub(in crate::shared_informer) fn status(&self) -> Vec<NamespaceStatus> {
        self.status_of(|_| true)
    }

    /// Returns the state of each namespace that `counts` accepts.
    fn status_of(&self, counts: impl Fn(&NamespaceReflector<K>) -> bool) -> Vec<NamespaceStatus> {
        let status = |(name, entry): (&Arc<str>, &Arc<NamespaceReflector<K>>)| NamespaceStatus {
            namespace: name.to_string(),
            has_listed: entry.progress.has_listed(),
            is_waived: entry.progress.is_waived(),
            watch: entry.reflector.get().map(Reflector::watch_status).unwrap_or_default(),
        };
        self.by_name.lock().iter().filter(|(_, entry)| counts(entry)).map(status).collect()
    }

    /// Returns the state of all watches together. Namespaces that the informer does not wait for
    /// count with their errors only, and those that have left the set not at all.
    pub(in crate::shared_informer) fn watch_status(&self) -> WatchStatus {
        let status = self.status_of(|entry| !entry.has_left_set());
        let errors = status.iter().filter_map(|status| status.watch.last_error.clone());
        let counting = || status.iter().filter(|status| !status.is_waived);
        let watches = || counting().map(|status| &status.watch);
        WatchStatus {
            is_open: self.wait_scope.lock().is_none() && watches().all(|watch| watch.is_open),
            last_event: watches().map(|watch| watch.last_event).min().flatten(),
            last_error: errors.max_by_key(|error| error.at),
        }
    }

    /// Lists each namespace that the informer waits for. Returns `None` while one of them is not
    /// listed by the informer itself yet.
    #[cfg(all(feature = "leader-election", feature = "runtime"))]
    pub(in crate::shared_informer) async fn snapshots(
        &self,
        filter: &SnapshotFilter,
    ) -> Result<Option<Vec<Snapshot>>, RequestError> {
        if self.wait_scope.lock().is_some() {
            return Ok(None);
        }
        let entries: Vec<_> = {
            let entries = self.by_name.lock();
            let counts = |entry: &&Arc<NamespaceReflector<K>>| {
                !entry.progress.is_waived() && !entry.has_left_set()
            };
            let counting = entries.iter().filter(|(_, entry)| counts(entry));
            counting.map(|(name, entry)| (name.clone(), entry.clone())).collect()
        };
        let mut snapshots = Vec::with_capacity(entries.len());
        for (name, entry) in entries {
            let Some(reflector) = entry.reflector.get() else { return Ok(None) };
            snapshots.push(Snapshot::of(reflector, Some(name), filter).await?);
        }
        Ok(Some(snapshots))
    }

    /// Returns the lowest of the versions up to which the changes of each namespace were offered,
    /// or `None` while a namespace has no version. Namespaces that the informer does not wait for,
    /// and those that have left the set, do not count.
    pub(in crate::shared_informer) fn last_version(&self) -> Option<String> {
        let entries = self.by_name.lock();
        let counting =
            entries.values().filter(|entry| !entry.progress.is_waived() && !entry.has_left_set());
        let versions = counting.map(|entry| ResourceVersion::parse(&entry.last_version()?));
        versions.min().flatten().map(|version| version.to_string())
    }
}
