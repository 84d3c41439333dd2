//! A namespace's reflector and its progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use deltafifo::ScopeId;

use crate::ReflectorError;
use crate::lister_watcher::RequestError;
use crate::reflector::{History, Reflector};

/// A namespace and its reflector.
pub(super) struct NamespaceReflector<K> {
    pub(super) scope: ScopeId,
    pub(super) progress: Arc<NamespaceProgress>,
    /// Whether an object was offered, even if only by an incomplete list.
    pub(super) has_objects: Arc<AtomicBool>,
    pub(super) history: Arc<History>,
    /// Whether the namespace has left the set, and is listed for the last time.
    pub(super) has_left_set: Arc<AtomicBool>,
    /// Whether the scope is being removed. Only the task of the informer reads and writes it.
    pub(super) is_being_removed: AtomicBool,
    /// The reflector. It is built when it first runs, because the function that makes its
    /// lister-watcher is user code.
    pub(super) reflector: OnceLock<Reflector<K>>,
}

/// The progress of a namespace, which decides whether the informer waits for it.
#[derive(Default)]
pub(super) struct NamespaceProgress {
    /// Whether the first list is complete.
    has_listed: AtomicBool,
    /// Whether the namespace failed, and the informer does not wait for it.
    is_waived: AtomicBool,
}

impl NamespaceProgress {
    pub(super) fn has_listed(&self) -> bool {
        // Relaxed, as all accesses here: the lists, events and errors of a namespace come one after
        // another, and users read the state as a hint.
        self.has_listed.load(Ordering::Relaxed)
    }

    pub(super) fn is_waived(&self) -> bool {
        self.is_waived.load(Ordering::Relaxed)
    }

    pub(super) fn waive(&self) {
        self.is_waived.store(true, Ordering::Relaxed);
    }

    /// Records a complete list or a bookmark. Returns whether it is the first one.
    pub(super) fn reached(&self) -> bool {
        self.is_waived.store(false, Ordering::Relaxed);
        !self.has_listed.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the informer of an optional set stops waiting for the namespace because of
    /// `error`. After the first list, only a server that does not allow the namespace to be listed
    /// or watched ends the wait, because other failures usually pass soon.
    pub(super) fn ends_wait(&self, error: &ReflectorError) -> bool {
        if self.has_listed() {
            return error.is_unavailable();
        }
        match error {
            // This may be the error of a streamed list. The reflector then requests a plain list at
            // once, so the informer still waits for the namespace. It does not if the server was
            // silent, because the plain list may take as long.
            ReflectorError::Watch(error) => matches!(error, RequestError::Silent { .. }),
            error => !error.is_of_an_object(),
        }
    }
}

impl<K> NamespaceReflector<K> {
    pub(super) fn is_idle(&self) -> bool {
        self.reflector.get().is_none_or(|reflector| reflector.work().is_idle())
    }

    pub(super) async fn wait_idle(&self) {
        if let Some(reflector) = self.reflector.get() {
            reflector.work().wait_idle().await;
        }
    }
}

impl<K: Send + Sync + 'static> NamespaceReflector<K> {
    pub(super) fn last_version(&self) -> Option<String> {
        self.reflector.get()?.last_sync_resource_version()
    }

    pub(super) fn has_left_set(&self) -> bool {
        // Relaxed: as in `NamespaceReflectors::feed`.
        self.has_left_set.load(Ordering::Relaxed)
    }
}
