//! The namespaces and the lister-watchers of an informer that is not built yet.

use std::sync::Arc;

use deltafifo::KeyScope;
use deltafifo::locks::Mutex;
use tokio::sync::watch;

use super::Namespaces;
use super::reflectors::NamespaceReflectors;
use super::refused::RefusedNames;
use crate::ReflectorError;
use crate::lister_watcher::ListerWatcher;
use crate::reflector::{Decoding, Histories, ReflectorBuilder, Scoped, Target, Threads};
use crate::shared_informer::error::{InformerError, OnError};
use crate::shared_informer::source::Availability;

pub(super) type MakeSource = Box<dyn Fn(&str) -> Box<dyn ListerWatcher> + Send + Sync>;

/// The set of namespaces of an informer that is not built yet, and the function that makes their
/// lister-watchers.
pub(in crate::shared_informer) struct NamespacesPlan {
    namespaces: Namespaces,
    source: MakeSource,
    /// A lister-watcher that is used only for the name of the resource.
    template: Box<dyn ListerWatcher>,
}

impl NamespacesPlan {
    pub(super) fn new(namespaces: Namespaces, source: MakeSource) -> Self {
        let template = source("");
        Self { namespaces, source, template }
    }

    pub(in crate::shared_informer) fn resource(&self) -> &str {
        self.template.scope().0
    }

    /// Returns the reflectors, which feed `queue`. `settings` sets their options.
    pub(in crate::shared_informer) fn into_reflectors<K>(
        self,
        queue: Arc<dyn Scoped<K>>,
        name: String,
        decoding: Decoding<K>,
        settings: impl FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K>,
        on_error: OnError,
        availability: watch::Sender<Availability>,
    ) -> NamespaceReflectors<K>
    where
        K: Send + Sync + 'static,
    {
        let target: Arc<dyn Target<K>> = queue.clone();
        let template = ReflectorBuilder::new(self.template, target, decoding);
        let (mut options, decode) = settings(template).name(name).into_options();
        let resync = options.take_resync();
        let report =
            |error| on_error.report(&InformerError::Reflector(&ReflectorError::Scope(error)));
        let wait_scope = queue.add_scope(no_keys()).map_err(report).ok();
        NamespaceReflectors {
            namespaces: self.namespaces,
            source: self.source,
            known_set: watch::Sender::default(),
            queue,
            options,
            decode,
            resync,
            on_error,
            refused: Arc::new(RefusedNames { names: Mutex::default(), availability }),
            wait_scope: Mutex::new(wait_scope),
            by_name: Mutex::default(),
            histories: Histories::default(),
            threads: Threads::default(),
        }
    }
}

/// Returns a scope without keys, for [`NamespaceReflectors::wait_scope`].
pub(super) fn no_keys() -> KeyScope {
    KeyScope::namespace("")
}
