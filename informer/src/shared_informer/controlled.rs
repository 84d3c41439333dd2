//! The parts of an informer that a controller needs.

use std::any::type_name;
use std::fmt::Write;

use deltafifo::Meta;
use tokio::sync::watch;

use super::SharedInformer;
use super::lifecycle::Phase;
use super::metrics::Identity;
use super::source::Availability;

impl<K: Send + Sync + 'static, M: Meta<K>> SharedInformer<K, M> {
    /// Returns what errors call the informer: `pods.v1 in shop (billing)`, where the last is its
    /// name. Without a resource (over a watcher of kube's) it is called by the type of its
    /// objects.
    pub(crate) fn title(&self) -> String {
        let Identity { name, resource, namespace } = &self.inner.identity;
        let mut title = if resource.is_empty() { type_name::<K>() } else { resource }.to_owned();
        for (before, part, after) in [(" in ", namespace, ""), (" (", name, ")")] {
            if !part.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(title, "{before}{part}{after}");
            }
        }
        title
    }

    /// Returns whether the informer can have its first list.
    pub(crate) fn availability(&self) -> watch::Receiver<Availability> {
        self.inner.availability.subscribe()
    }

    /// Returns a function that says whether the informer was ever run. It does not keep the
    /// informer: one that its owners drop stops.
    pub(crate) fn was_run(&self) -> impl Fn() -> bool + Send + 'static {
        let phase = self.inner.phase.subscribe();
        move || *phase.borrow() != Phase::New
    }
}
