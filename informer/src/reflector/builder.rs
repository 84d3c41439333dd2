//! What can be chosen of a reflector.

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
            on_error: Box::new(|error| tracing::warn!(%error, "a reflector goes on after an error")),
        }
    }

    /// Gives it a name, and with it [metrics](crate::metrics) (client-go `NewNamedReflector`).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How long to wait before asking again after a failure (client-go's times otherwise).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Whether objects are asked for as the first events of a watch, with a list where a server
    /// refuses that, or failed to do it three times in a row; otherwise always by lists
    /// (client-go's feature `WatchListClient`). On unless said. A server that sends initial
    /// events, but not [in time](Self::watch_list_timeout) the bookmark that ends them, is asked
    /// for lists for an hour.
    pub fn watch_list(mut self, watch_list: bool) -> Self {
        self.watch_list = watch_list;
        self
    }

    /// Bounds the time for all initial events of a watch, from the first attempt to the bookmark
    /// that ends them: 10 minutes unless said. After that, a list is asked for. Time in which the
    /// target has no room does not count. (client-go waits for ever:
    /// kubernetes/kubernetes#140890.)
    pub fn watch_list_timeout(mut self, timeout: Duration) -> Self {
        self.watch_list_timeout = timeout.min(FAR);
        self
    }

    /// Whether the first list has to be the newest that there is, and not any that the server has
    /// in its cache (client-go takes any). Later ones are never older than what is known. Not
    /// unless said.
    pub fn newest(mut self, newest: bool) -> Self {
        self.newest = newest;
        self
    }

    /// Objects a page, where a list has pages (client-go `WatchListPageSize`): at most 500 unless
    /// said; 0 for one page.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// How long a watch lasts at least, if nothing happens to it; at most twice as long. 5 minutes
    /// unless said. One that begins with a list may last longer until that is complete.
    pub fn least_watch(mut self, least: Duration) -> Self {
        self.least_watch = least.min(FAR);
        self
    }

    /// After how long an answer that does not begin, or a list that does not go on, is given up.
    /// 90 seconds unless said. A watch may be silent for as long as it was to last.
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

    /// Has the target tell of everything it knows `every` so often, if `should_resync` then says
    /// so (client-go `ShouldResync`). Not unless said; 0 is never.
    pub fn resync(mut self, every: Duration, should_resync: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.resync = period(every).map(|period| (period, Box::new(should_resync) as Box<ShouldResync>));
        self
    }

    /// Leaves out a member of every object while it is decoded, which is cheaper than a transform
    /// (client-go has no such thing): what nobody reads takes no memory, and no time but to be
    /// passed over. Said again, another one, too. The names on the way to it begin at the object,
    /// and lead through structs, and maps whose keys are strings, but through no enum with names
    /// for its variants. What the key is made of, the version, and what the type requires must
    /// stay: else no object can be decoded. Into arrays no path leads: there it leaves out
    /// nothing.
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

    /// Is told of everything that goes wrong (client-go `WatchErrorHandler`). Otherwise it is
    /// logged.
    pub fn on_error(mut self, handler: impl Fn(&ReflectorError) + Send + Sync + 'static) -> Self {
        self.on_error = Box::new(handler);
        self
    }

    /// The reflector. It does nothing until it [runs](Reflector::run).
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
