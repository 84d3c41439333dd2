//! The controller loop: a reflector feeds a queue, and workers pop items, apply them to the store
//! and call a handler (client-go `cache.Controller`).

mod event;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::{BoxError, Closed, DeltaFifo, Meta};
use futures_util::FutureExt;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Reflector;
use crate::reflector::RunError;
use crate::user_code::{caught, said};
pub use event::{ControllerError, ObjectEvent};

type OnError = dyn Fn(&ControllerError) + Send + Sync;

/// Runs a [`Reflector`] and workers on its queue. A worker applies each item to the queue's store,
/// and then calls the handler with its events, one by one, while no other worker has the key.
///
/// If the handler fails, the worker calls it again with the same event after a pause that doubles,
/// up to the [configured number](Self::retries) of retries. Then the error is reported. Until then
/// the key waits, and other workers continue with other keys. An event counts as delivered when
/// the handler has completed: if [`run`](Self::run) is dropped while the handler runs, the next
/// run delivers the event again.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{DeltaFifo, Indexer, KeyFunc};
/// use deltafifo_informer::lister_watcher::{Listed, PageMeta, Scripted};
/// use deltafifo_informer::{Controller, KubeMeta, ObjectEvent, Reflector};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = PageMeta { resource_version: "7".to_owned(), ..PageMeta::default() };
/// let map = r#"{"metadata":{"namespace":"shop","name":"prices","resourceVersion":"5"}}"#;
/// let script = Scripted::new().list([Ok(Listed::Meta(page)), Ok(Listed::Items(vec![map.into()]))]);
///
/// let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build()?;
/// let fifo = Arc::new(DeltaFifo::<ConfigMap, _>::over(store).build());
/// let reflector = Reflector::builder(script, fifo.clone()).watch_list(false).build();
/// let queue = fifo.clone();
/// let controller = Controller::new(reflector, fifo, move |key, event| {
///     let queue = queue.clone();
///     async move {
///         assert!(matches!(event, ObjectEvent::Added { is_in_initial_list: true, .. }));
///         assert_eq!(key, "shop/prices");
///         queue.close(); // so that this example ends
///         Ok(())
///     }
/// });
/// Arc::new(controller.workers(2)).run().await;
/// # Ok(())
/// # }
/// ```
pub struct Controller<K: Send + Sync, M: Meta<K>, H> {
    reflector: Reflector<K>,
    fifo: Arc<DeltaFifo<K, M>>,
    handler: H,
    workers: usize,
    retries: u32,
    pause: Duration,
    on_error: Box<OnError>,
    /// Events that are applied to the store but not delivered, because a run was dropped.
    untold: Mutex<Vec<Applied<K>>>,
    /// Held for reading by each worker. Workers of a dropped run may need a moment to end.
    at_work: Arc<RwLock<()>>,
}

/// The events of an item that has been applied to the store.
struct Applied<K> {
    key: String,
    events: VecDeque<ObjectEvent<K>>,
}

/// Events that are being delivered. Its drop leaves the events that were not delivered to the next
/// run.
struct Telling<'c, K> {
    untold: &'c Mutex<Vec<Applied<K>>>,
    applied: Applied<K>,
}

impl<K> Drop for Telling<'_, K> {
    fn drop(&mut self) {
        let (key, events) =
            (std::mem::take(&mut self.applied.key), std::mem::take(&mut self.applied.events));
        if !events.is_empty() {
            self.untold.lock().push(Applied { key, events });
        }
    }
}

impl<K, M, H, F> Controller<K, M, H>
where
    K: Send + Sync + 'static,
    M: Meta<K>,
    H: Fn(String, ObjectEvent<K>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    /// Creates a controller with the reflector and the queue that the reflector feeds, which must
    /// have a [store](DeltaFifo::over). Defaults: one worker, five retries after pauses of 5 ms
    /// and more, and errors in the log.
    pub fn new(reflector: Reflector<K>, fifo: Arc<DeltaFifo<K, M>>, handler: H) -> Self {
        let on_error: Box<OnError> =
            Box::new(|error| tracing::error!(%error, "a controller goes on after an error"));
        Self {
            reflector,
            fifo,
            handler,
            workers: 1,
            retries: 5,
            pause: Duration::from_millis(5),
            on_error,
            untold: Mutex::new(Vec::new()),
            at_work: Arc::default(),
        }
    }

    /// Sets how many handlers run at a time, each for another key. Default: 1.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Sets how often an event is delivered again after its handler failed (default: 5), and the
    /// first pause (default: 5 ms). Each further pause is twice as long, up to 30 s.
    #[must_use]
    pub fn retries(mut self, retries: u32, pause: Duration) -> Self {
        (self.retries, self.pause) = (retries, pause);
        self
    }

    /// Calls `handler` with every error after the queue. It replaces the default, which logs them.
    #[must_use]
    pub fn on_error(mut self, handler: impl Fn(&ControllerError) + Send + Sync + 'static) -> Self {
        self.on_error = Box::new(handler);
        self
    }

    /// Returns the reflector, for example for its last version (client-go
    /// `LastSyncResourceVersion`).
    pub fn reflector(&self) -> &Reflector<K> {
        &self.reflector
    }

    /// Returns whether the first list has been handled (client-go `HasSynced`).
    pub fn has_synced(&self) -> bool {
        self.fifo.has_synced()
    }

    /// Runs until the queue is closed and empty. If the future is dropped, handlers are dropped at
    /// their next await.
    ///
    /// A later run of the same controller first delivers the events of those handlers again,
    /// because they are applied and so no longer in the queue. Only then does it pop. A different
    /// controller on the same queue does not have these events.
    pub async fn run(self: Arc<Self>) -> RunError {
        tokio::select! {
            // The queue was closed: handle what is left in it.
            ended @ RunError::Running = self.reflector.run() => ended,
            () = Self::work_all(&self) => Closed.into(),
        }
    }

    /// Delivers undelivered events, and then handles the queue until it is closed and empty.
    async fn work_all(this: &Arc<Self>) {
        // Wait for the workers of an earlier run: each leaves its undelivered events when it ends.
        drop(this.at_work.write().await);
        Self::all_workers(this, |controller| async move { controller.tell_untold().await }).await;
        Self::all_workers(this, |controller| async move { controller.work().await }).await;
    }

    /// Runs `work` on every worker, to its end.
    async fn all_workers<W>(this: &Arc<Self>, work: impl Fn(Arc<Self>) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let mut workers = JoinSet::new();
        for _ in 0..this.workers {
            let (at_work, work) =
                (Arc::clone(&this.at_work).read_owned().await, work(Arc::clone(this)));
            workers.spawn(async move {
                work.await;
                drop(at_work);
            });
        }
        while workers.join_next().await.is_some() {}
    }

    async fn tell_untold(&self) {
        let next = || self.untold.lock().pop();
        while let Some(applied) = next() {
            self.tell_all(applied).await;
        }
    }

    async fn work(&self) {
        while let Ok(mut item) = self.fifo.pop_async().await {
            let (key, initial) = (item.key().to_owned(), item.is_in_initial_list());
            let mut events = VecDeque::new();
            let applied =
                caught(|| item.apply(|change| events.push_back(ObjectEvent::of(&change, initial))));
            match applied {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.report(&error.into()),
                Err(message) => {
                    self.report(&ControllerError::NotApplied { key: key.clone(), message });
                }
            }
            let key = self.tell_all(Applied { key, events }).await;
            self.release(&key, || item.done());
        }
    }

    /// Delivers all events of an item, one by one, and returns its key. If the future is dropped,
    /// the next run delivers the rest, including the event in progress.
    async fn tell_all(&self, applied: Applied<K>) -> String {
        let mut telling = Telling { untold: &self.untold, applied };
        while let Some(event) = telling.applied.events.front() {
            self.tell(&telling.applied.key, event).await;
            let told = telling.applied.events.pop_front();
            self.release(&telling.applied.key, || drop(told));
        }
        std::mem::take(&mut telling.applied.key)
    }

    /// Drops what may be the last reference to an object. The destructor is user code, and its
    /// panic must not end the worker.
    fn release(&self, key: &str, drop: impl FnOnce()) {
        if let Err(message) = caught(drop) {
            self.report(&ControllerError::Released { key: key.to_owned(), message });
        }
    }

    /// Delivers one event, with retries.
    async fn tell(&self, key: &str, event: &ObjectEvent<K>) {
        let mut pause = self.pause;
        for attempts in 1.. {
            let call =
                AssertUnwindSafe(async { (self.handler)(key.to_owned(), event.clone()).await });
            match call.catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(_)) if attempts <= self.retries => {
                    sleep(pause).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
                Ok(Err(source)) => {
                    return self.report(&ControllerError::Handler {
                        key: key.to_owned(),
                        attempts,
                        source,
                    });
                }
                Err(panic) => {
                    return self.report(&ControllerError::Panicked {
                        key: key.to_owned(),
                        message: said(panic),
                    });
                }
            }
        }
    }

    fn report(&self, error: &ControllerError) {
        if caught(|| (self.on_error)(error)).is_err() {
            tracing::error!(%error, "the error handler of a controller panicked");
        }
    }
}

/// The longest pause before a retry.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
