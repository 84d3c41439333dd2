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
    /// Returns the title of the informer in errors, for example `pods.v1 in shop (billing)`:
    /// resource, namespace, and name in parentheses. An informer over a kube watcher has no
    /// resource, so its title begins with the Rust type of its objects.
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

    /// Returns the resource, for example `deployments.v1.apps`, and the namespace: empty for all
    /// namespaces, and a text with spaces for several. An informer over a kube watcher has no
    /// resource.
    pub(crate) fn scope(&self) -> (&str, &str) {
        let Identity { resource, namespace, .. } = &self.inner.identity;
        (resource, namespace)
    }

    /// Returns a receiver that shows whether the informer can get its initial list.
    pub(crate) fn availability(&self) -> watch::Receiver<Availability> {
        self.inner.availability.subscribe()
    }

    /// Returns a function that returns whether the informer was ever run. The function does not
    /// keep the informer from stopping when its last owner drops it.
    pub(crate) fn was_run(&self) -> impl Fn() -> bool + Send + 'static {
        let phase = self.inner.phase.subscribe();
        move || *phase.borrow() != Phase::New
    }
}
