//! The builder of a reflector.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use serde::de::DeserializeOwned;

use super::decode::Decoder;
use super::metrics::Metrics;
use super::threads::Threads;
use super::versions::Versions;
use super::{Backoff, OnError, Reflector, ReflectorError, ShouldResync, Target};
use crate::lister_watcher::{ListerWatcher, ObjectLimit};
use crate::time::{FAR, period};
use crate::wire::Prune;

/// Builds a [`Reflector`].
#[must_use]
pub struct ReflectorBuilder<K> {
    source: Box<dyn ListerWatcher>,
    target: Arc<dyn Target<K>>,
    name: String,
    backoff: Backoff,
    watch_list: bool,
    watch_list_timeout: Duration,
    newest: bool,
    page_size: u32,
    least_watch: Duration,
    silence: Duration,
    object_limit: ObjectLimit,
    resync: Option<(Duration, Box<ShouldResync>)>,
    prune: Prune,
    on_error: Box<OnError>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> ReflectorBuilder<K> {
    pub(crate) fn new(source: Box<dyn ListerWatcher>, target: Arc<dyn Target<K>>) -> Self {
        Self {
            source,
            target,
            name: String::new(),
            backoff: Backoff::default(),
            watch_list: true,
            watch_list_timeout: Duration::from_secs(600),
            newest: false,
            page_size: 500,
            least_watch: Duration::from_secs(300),
            silence: Duration::from_secs(90),
            object_limit: ObjectLimit::default(),
            resync: None,
            prune: Prune::default(),
            on_error: Box::new(
                |error| tracing::warn!(%error, "a reflector goes on after an error"),
            ),
        }
    }

    /// Gives it a name, and with it [metrics](crate::metrics) (client-go `NewNamedReflector`).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the back-off after failures. Client-go's times by default.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets whether the objects are requested as the first events of a watch (client-go's feature
    /// `WatchListClient`), and by a list only if the server refuses that, or failed three times in
    /// a row. If off, they are always requested by a list. On by default. A server that sends
    /// initial events, but not [in time](Self::watch_list_timeout) the bookmark that ends them, is
    /// asked for lists for an hour.
    pub fn watch_list(mut self, watch_list: bool) -> Self {
        self.watch_list = watch_list;
        self
    }

    /// Bounds the time for all initial events of a watch, from the first attempt to the bookmark
    /// that ends them: 10 minutes by default. After that, a list is requested. Time in which the
    /// target has no room does not count. (client-go waits for ever:
    /// kubernetes/kubernetes#140890.)
    pub fn watch_list_timeout(mut self, timeout: Duration) -> Self {
        self.watch_list_timeout = timeout.min(FAR);
        self
    }

    /// Sets whether the first list must be the newest one, and not any that the server has in its
    /// cache (client-go accepts any). Later lists are never older than the known objects. Off by
    /// default.
    pub fn newest(mut self, newest: bool) -> Self {
        self.newest = newest;
        self
    }

    /// Sets the number of objects per page, if a list has pages (client-go `WatchListPageSize`):
    /// at most 500 by default; 0 for one page.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// Sets how long a watch lasts: at least this long, and at most twice as long. 5 minutes by
    /// default. A watch that begins with a list may last longer, until the list is complete.
    pub fn least_watch(mut self, least: Duration) -> Self {
        self.least_watch = least.min(FAR);
        self
    }

    /// Sets after how long an answer that does not begin, or a list that does not continue, fails.
    /// 90 seconds by default. A watch may be silent for its whole length.
    pub fn silence(mut self, most: Duration) -> Self {
        self.silence = most;
        self
    }

    /// Sets how many bytes of JSON an object may have: 64 MiB unless set. It is the same for
    /// objects of lists and of watches, however the server frames them, and for a list's own
    /// metadata.
    ///
    /// A larger object is passed over without being kept in memory, reported as
    /// [`ReflectorError::TooLarge`] with its key, and counted in
    /// `reflector_oversized_objects_total`; all others go on. An earlier state of it that is
    /// stored stays, and a deletion counts. If it does not say its name, the list that has it
    /// deletes nothing; an event of a watch without a name makes the next list delete nothing.
    /// (client-go reads an object of any size.)
    ///
    /// Objects of more than 1 MiB take a share of a [budget of the
    /// process](super::set_large_object_budget) while they are read.
    pub fn max_object_size(mut self, bytes: usize) -> Self {
        self.object_limit = ObjectLimit::new(bytes);
        self
    }

    /// Resyncs the target each `every`, if `should_resync` returns true then (client-go
    /// `ShouldResync`). No resyncs by default, or with 0.
    pub fn resync(
        mut self,
        every: Duration,
        should_resync: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        self.resync =
            period(every).map(|period| (period, Box::new(should_resync) as Box<ShouldResync>));
        self
    }

    /// Drops a member of every object while it is decoded, which is cheaper than a transform
    /// (client-go has no such thing): the member takes no memory, and only the time to skip it.
    /// Each call adds a path. A path begins at the object, and leads through structs and through
    /// maps with string keys, but not through arrays or enums with named variants. The members of
    /// the key, the version, and all that the type requires must stay, or no object can be
    /// decoded.
    ///
    /// ```
    /// # use deltafifo_informer::SharedInformer;
    /// # use deltafifo_informer::shared_informer::{BuildError, SharedInformerBuilder};
    /// # use deltafifo_informer::KubeMeta;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn lean(informer: SharedInformerBuilder<Pod, KubeMeta>) -> Result<SharedInformer<Pod>, BuildError> {
    /// let applied = ["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"];
    /// informer.reflector(move |pods| pods.without(&["metadata", "managedFields"]).without(&applied)).build()
    /// # }
    /// ```
    pub fn without(mut self, path: &[&str]) -> Self {
        self.prune.leave_out(path);
        self
    }

    /// Sets the handler of all errors (client-go `WatchErrorHandler`). By default they are logged.
    pub fn on_error(mut self, handler: impl Fn(&ReflectorError) + Send + Sync + 'static) -> Self {
        self.on_error = Box::new(handler);
        self
    }

    /// Builds the reflector. It does nothing until it [runs](Reflector::run).
    #[must_use]
    pub fn build(self) -> Reflector<K> {
        let decoder = Arc::new(Decoder::new(self.source.types(), self.prune));
        Reflector {
            metrics: Metrics::of(&self.name, self.source.scope()),
            status: Arc::default(),
            name: self.name,
            source: self.source,
            target: self.target,
            decoder,
            threads: Threads::default(),
            versions: Mutex::new(Versions::new(self.newest)),
            running: tokio::sync::Mutex::new(()),
            backoff: self.backoff,
            watch_list: self.watch_list,
            watch_list_timeout: self.watch_list_timeout,
            unstreamed_until: Mutex::default(),
            page_size: self.page_size,
            least_watch: self.least_watch,
            silence: self.silence,
            object_limit: self.object_limit,
            resync: self.resync,
            on_error: self.on_error,
        }
    }
}
