//! The builder of a reflector.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use tokio::sync::Semaphore;

use super::batches::BatchSender;
use super::decode::{Decode, Decoder, Decoding};
use super::metrics::Metrics;
use super::resync::Resync;
use super::threads::Threads;
use super::versions::Versions;
use super::{Backoff, Reflector, ReflectorError, ReflectorOnError, Target};
use crate::error_chain;
use crate::lister_watcher::{ListerWatcher, ObjectLimit};
use crate::util::time::FAR;
use crate::wire::{Prune, Types};

/// A builder of a [`Reflector`].
#[must_use]
pub struct ReflectorBuilder<K> {
    source: Box<dyn ListerWatcher>,
    target: Arc<dyn Target<K>>,
    decoding: Decoding<K>,
    options: Options,
}

/// The configuration of a reflector without its source and its target. The reflectors of an
/// informer of several namespaces share one.
#[derive(Clone)]
pub(crate) struct Options {
    name: String,
    backoff: Backoff,
    watch_list: bool,
    watch_list_timeout: Duration,
    newest: bool,
    page_size: u32,
    least_watch: Duration,
    silence: Duration,
    max_object_size: usize,
    /// The limit of the bytes in flight. Clones share it, so that all reflectors of an informer
    /// have one limit.
    in_flight: Arc<Semaphore>,
    resync: Option<Resync>,
    prune: Arc<Prune>,
    /// The JSON pointers of the fields that compact objects keep uncompressed.
    fields: Vec<String>,
    on_error: Arc<ReflectorOnError>,
}

impl Options {
    pub(crate) fn backoff(&self) -> Backoff {
        self.backoff.clone()
    }

    /// Removes and returns the resync, for an informer of several reflectors. Otherwise each of
    /// them would resync the whole target.
    pub(crate) fn take_resync(&mut self) -> Option<Resync> {
        self.resync.take()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: String::new(),
            backoff: Backoff::default(),
            watch_list: true,
            watch_list_timeout: Duration::from_secs(600),
            newest: false,
            page_size: 500,
            least_watch: Duration::from_secs(300),
            silence: Duration::from_secs(90),
            max_object_size: ObjectLimit::default().bytes(),
            in_flight: BatchSender::in_flight(),
            resync: None,
            prune: Arc::default(),
            fields: Vec::new(),
            on_error: Arc::new(|error| {
                tracing::warn!(
                    error = error_chain(error),
                    "a list, a watch or an object failed; the reflector continues"
                );
            }),
        }
    }
}

impl<K: Send + Sync + 'static> ReflectorBuilder<K> {
    pub(crate) fn new(
        source: Box<dyn ListerWatcher>,
        target: Arc<dyn Target<K>>,
        decoding: Decoding<K>,
    ) -> Self {
        Self { source, target, decoding, options: Options::default() }
    }

    #[cfg(feature = "leader-election")]
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Returns the options and the decoder, for several reflectors that share both.
    pub(crate) fn into_options(self) -> (Options, Arc<dyn Decode<K>>) {
        let types = self.source.types().map(Types::new);
        let decode = (self.decoding)(self.options.prune.clone(), types, &self.options.fields);
        (self.options, decode)
    }

    /// Sets the name of the reflector, which enables its [metrics](crate::metrics) (client-go
    /// `NewNamedReflector`).
    #[doc(alias = "NewNamedReflector")]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    /// Sets the backoff after failures. The default has client-go's times ([`Backoff`]).
    #[doc(alias = "default_backoff")]
    #[doc(alias = "trigger_backoff")]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// Sets whether all objects are requested as the first events of a watch (client-go's feature
    /// `WatchListClient`). This is the default. A list is then requested only if the server
    /// refuses the watch, or if the watch fails three times in a row, or in a way that another
    /// attempt would not change: for example, if the bookmark that ends the initial events does
    /// not arrive [in time](Self::watch_list_timeout). Unless the server refused the last attempt,
    /// or the connection failed before a response, lists are then requested for an hour. If off,
    /// all objects are always requested by a list.
    #[doc(alias = "streaming_lists")]
    #[doc(alias = "WatchListClient")]
    pub fn watch_list(mut self, watch_list: bool) -> Self {
        self.options.watch_list = watch_list;
        self
    }

    /// Limits the time for all initial events of a watch, from the first attempt to the bookmark
    /// that ends them. The default is 10 minutes. After that, a list is requested. Time during
    /// which the target has no room does not count. (client-go waits for ever:
    /// kubernetes/kubernetes#140890.)
    pub fn watch_list_timeout(mut self, timeout: Duration) -> Self {
        self.options.watch_list_timeout = timeout.min(FAR);
        self
    }

    /// Sets whether the initial list must show the newest state. By default it may show any state
    /// that the server has in its cache, as in client-go. Later lists are never older than the
    /// known objects.
    #[doc(alias = "any_semantic")]
    #[doc(alias = "list_semantic")]
    pub fn newest(mut self, newest: bool) -> Self {
        self.options.newest = newest;
        self
    }

    /// Sets the largest number of objects per page, if a list has pages (client-go
    /// `WatchListPageSize`). The default is 500, or 10,000 for an informer of the shards of a
    /// group's member; 0 requests one page.
    #[doc(alias = "WatchListPageSize")]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.options.page_size = objects;
        self
    }

    /// Sets the shortest duration of a watch. The requested duration is random, between this one
    /// and twice as long, and is rounded down to whole seconds, but to at least one. The default is
    /// 5 minutes, and the limit 30 years: a longer duration counts as this one. A watch that starts
    /// with all objects may last longer, until they are complete.
    #[doc(alias = "timeout")]
    pub fn least_watch(mut self, least: Duration) -> Self {
        self.options.least_watch = least.min(FAR);
        self
    }

    /// Sets the time after which a response that does not begin, or a list that does not
    /// continue, fails. The default is 90 seconds, and the limit 30 years: a longer time counts as
    /// this one. A watch may be silent for its whole duration.
    pub fn silence(mut self, most: Duration) -> Self {
        self.options.silence = most;
        self
    }

    /// Sets the largest size of an object, in bytes of JSON. The default is 64 MiB. It applies to
    /// objects of lists and of watches, and to the metadata of a list.
    ///
    /// A larger object is skipped without being kept in memory, reported as
    /// [`ReflectorError::TooLarge`] with its key, and counted in
    /// `reflector_oversized_objects_total`; its list or watch continues. An earlier stored state
    /// of the object stays, and a deletion is applied. If the object has no name, the list that
    /// contains it deletes nothing, or, if a watch sent it, the next list deletes nothing.
    /// (client-go reads an object of any size.)
    ///
    /// Objects of more than 1 MiB take a share of a [budget of the
    /// process](super::set_large_object_budget) while they are read.
    pub fn max_object_size(mut self, bytes: usize) -> Self {
        self.options.max_object_size = bytes;
        self
    }

    /// Resyncs the target once per period `every`, if `should_resync` returns true at that time
    /// (client-go `ShouldResync`). By default, and if `every` is 0, there are no resyncs.
    #[doc(alias = "ShouldResync")]
    pub fn resync(
        mut self,
        every: Duration,
        should_resync: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        self.options.resync = Resync::new(every, should_resync);
        self
    }

    /// Drops a member of every object while it is decoded. This is cheaper than a transform: the
    /// member takes no memory, and only the time to skip it. (client-go has no equivalent.) Each
    /// call adds a path. A path begins at the object, and leads through structs and through maps
    /// with string keys, but not through arrays or enums with named variants. The members that hold
    /// the key and the version, and the members that the type requires, must stay: without them no
    /// object can be decoded.
    ///
    /// ```
    /// # use deltafifo_informer::SharedInformer;
    /// # use deltafifo_informer::shared_informer::{BuildError, SharedInformerBuilder};
    /// # use deltafifo_informer::KubeMeta;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn lean(
    /// #     informer: SharedInformerBuilder<Pod, KubeMeta>,
    /// # ) -> Result<SharedInformer<Pod>, BuildError> {
    /// let applied = "kubectl.kubernetes.io/last-applied-configuration";
    /// informer
    ///     .reflector(move |pods| {
    ///         pods.without(&["metadata", "managedFields"])
    ///             .without(&["metadata", "annotations", applied])
    ///     })
    ///     .build()
    /// # }
    /// ```
    pub fn without(mut self, path: &[&str]) -> Self {
        Arc::make_mut(&mut self.options.prune).leave_out(path);
        self
    }

    /// Makes compact objects keep the field of a valid JSON pointer uncompressed.
    pub(crate) fn field(mut self, pointer: String) -> Self {
        self.options.fields.push(pointer);
        self
    }

    /// Sets the handler of all errors (client-go `WatchErrorHandler`). By default they are logged.
    #[doc(alias = "WatchErrorHandler")]
    pub fn on_error(mut self, handler: impl Fn(&ReflectorError) + Send + Sync + 'static) -> Self {
        self.options.on_error = Arc::new(handler);
        self
    }

    /// Builds the reflector. It does nothing until it [runs](Reflector::run).
    #[must_use]
    pub fn build(self) -> Reflector<K> {
        let Self { source, target, decoding, options } = self;
        let types = source.types().map(Types::new);
        Reflector {
            metrics: Metrics::of(&options.name, source.scope()),
            status: Arc::default(),
            decoder: Arc::new(Decoder(decoding(options.prune, types, &options.fields))),
            name: options.name,
            source,
            target,
            threads: Threads::default(),
            versions: Mutex::new(Versions::new(options.newest)),
            running: tokio::sync::Mutex::new(()),
            backoff: options.backoff,
            watch_list: options.watch_list,
            watch_list_timeout: options.watch_list_timeout,
            unstreamed_until: Mutex::default(),
            page_size: options.page_size,
            least_watch: options.least_watch,
            silence: options.silence,
            object_limit: ObjectLimit::new(options.max_object_size),
            in_flight: options.in_flight,
            resync: options.resync,
            on_error: options.on_error,
        }
    }
}

#[cfg(feature = "compact")]
impl<K: serde::de::DeserializeOwned + 'static> ReflectorBuilder<crate::compact::Compact<K>> {
    /// Sets how objects are packed. The members that `compactor` leaves out are left out in
    /// addition to those of [`without`](Self::without). The types of the objects, `apiVersion` and
    /// `kind`, are set from the resource.
    ///
    /// ```
    /// # use deltafifo_informer::lister_watcher::Scripted;
    /// use deltafifo_informer::SharedInformer;
    /// use deltafifo_informer::compact::{Compact, Compactor};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let source = Scripted::new();
    /// let informer = SharedInformer::<Compact<Pod>>::builder(source)
    ///     .reflector(|pods| pods.compactor(Compactor::builder().validate(true)))
    ///     .build()?;
    /// # let _ = informer;
    /// # Ok(())
    /// # }
    /// ```
    pub fn compactor(mut self, compactor: crate::compact::CompactorBuilder<K>) -> Self {
        self.decoding =
            Box::new(|prune, types, fields| Arc::new(compactor.build_for(&prune, types, fields)));
        self
    }
}
