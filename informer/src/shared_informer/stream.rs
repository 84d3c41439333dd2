//! An informer that is fed by a kube watcher.

use deltafifo::{KeyFunc, Meta};
use futures_util::stream::{BoxStream, Stream, StreamExt};
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;

use super::source::InformerSource;
use super::sync::{Arc, Mutex};
use super::{SharedInformer, SharedInformerBuilder};
use crate::KubeMeta;
use crate::reflector::watcher_events::WatcherEvents;
use crate::reflector::{ReflectorError, Target, WatchStatus};
use crate::util::in_flight::InFlight;

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> SharedInformer<K> {
    /// Returns a builder of an informer that is fed by a kube watcher (kube: `reflector`,
    /// `Controller::for_stream`), for programs that have such a stream, with a backoff or
    /// modifications of their own. The informer replaces kube's store, and differs from it:
    ///
    /// | | kube's store | here |
    /// | --- | --- | --- |
    /// | a deletion that only a list shows | no event | [`Deleted`](super::Notification::Deleted), with a tombstone |
    /// | a deletion | not sent to subscribers | sent to all handlers |
    /// | an update | the new object | the old one, too |
    /// | look up by label, owner or field | full scan | an [index](SharedInformerBuilder::index) |
    /// | a late subscriber | sees later events only | first gets the stored objects |
    /// | several callers wait for the initial list | only the last to poll is woken | all are woken |
    ///
    /// See [`feed`](crate::runtime::reflector::feed), which feeds a queue without an informer, for
    /// the treatment of events. When the stream ends, the informer stops as if
    /// [`stop`](Self::stop) was called. Settings of the
    /// [reflector](SharedInformerBuilder::reflector) are ignored, and there are no metrics of a
    /// reflector.
    ///
    /// ```
    /// use deltafifo_informer::SharedInformer;
    /// use deltafifo_informer::shared_informer::{HandlerOptions, Notification};
    /// use futures_util::StreamExt;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::Api;
    /// use kube::runtime::{WatchStreamExt, watcher};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use deltafifo_testkit::{ApiServer, Resource};
    /// # let server = ApiServer::builder().resource(Resource::config_maps()).build();
    /// # server.apply(serde_json::json!({
    /// #     "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" },
    /// # }))?;
    /// # let client = server.client();
    /// let maps = Api::<ConfigMap>::all(client);
    /// let maps = watcher(maps, watcher::Config::default()).default_backoff();
    /// let informer = SharedInformer::for_stream(maps).build()?;
    /// let mut notifications = informer.subscribe(HandlerOptions::new())?;
    /// let running = informer.clone();
    /// tokio::spawn(async move { running.run().await });
    /// let first = notifications.next().await;
    /// assert!(matches!(first, Some(Notification::Added { is_in_initial_list: true, .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The objects of a kube watcher are decoded, so a program that makes compact ones of them
    /// (feature `compact`) does not compile.
    #[doc(alias = "reflect")]
    pub fn for_stream(
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    ) -> SharedInformerBuilder<K, KubeMeta> {
        let events = Events { stream: Mutex::new(Some(events.boxed())), meta: Box::new(KubeMeta) };
        SharedInformerBuilder::new(
            InformerSource::Stream(events),
            KeyFunc::meta_namespace(KubeMeta),
        )
    }
}

/// A stream of the events of a kube watcher; `None` after a run has taken it.
type Once<K> = Mutex<Option<BoxStream<'static, watcher::Result<Event<K>>>>>;

/// The stream of an informer that is not built yet, and the accessor of its objects' metadata.
pub(super) struct Events<K> {
    stream: Once<K>,
    meta: Box<dyn Meta<K>>,
}

impl<K: Send + Sync + 'static> Events<K> {
    pub(super) fn into_feeder(
        self,
        target: Arc<dyn Target<K>>,
        on_error: Box<dyn Fn(&ReflectorError) + Send + Sync>,
    ) -> StreamFeeder<K> {
        StreamFeeder {
            stream: self.stream,
            feeder: WatcherEvents::new(target, self.meta, on_error),
        }
    }
}

/// The part of an informer that reads its stream and offers the objects to the queue.
pub(super) struct StreamFeeder<K> {
    stream: Once<K>,
    feeder: WatcherEvents<K>,
}

impl<K: Send + Sync + 'static> StreamFeeder<K> {
    pub(super) async fn run(&self) {
        let stream = self.stream.lock().take();
        if let Some(stream) = stream {
            // The queue was closed or the stream has ended, so the informer stops.
            let _closed = self.feeder.feed(stream).await;
        }
    }

    pub(super) fn last_version(&self) -> Option<String> {
        self.feeder.last_version()
    }

    pub(super) fn watch_status(&self) -> WatchStatus {
        self.feeder.watch_status()
    }

    pub(super) fn work(&self) -> &InFlight {
        self.feeder.work()
    }
}
