//! The namespaces that the server does not allow to be listed.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use tokio::sync::watch;

use crate::shared_informer::source::Availability;

/// The namespaces that the server does not allow to be listed (403, 404), while the informer waits
/// for their first lists.
pub(super) struct RefusedNames {
    pub(super) names: Mutex<BTreeSet<Arc<str>>>,
    pub(super) availability: watch::Sender<Availability>,
}

impl RefusedNames {
    pub(super) fn insert(&self, name: &Arc<str>) {
        // The names change inside the closure, so that a concurrent change is not overtaken, and
        // waiters, which are user code, are woken after it.
        self.availability.send_if_modified(|availability| {
            self.names.lock().insert(name.clone());
            availability.refused()
        });
    }

    /// Removes a namespace that was listed, or that was removed from the set.
    pub(super) fn remove(&self, name: &str) {
        self.availability.send_if_modified(|availability| {
            let mut names = self.names.lock();
            names.remove(name) && names.is_empty() && availability.accepted()
        });
    }
}
