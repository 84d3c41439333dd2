//! The controller loop: a reflector in front of a queue, and workers behind it that pop, apply and
//! call (client-go `cache.Controller`).

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
use crate::strangers::{caught, said};
pub use event::{ControllerError, ObjectEvent};

type OnError = dyn Fn(&ControllerError) + Send + Sync;

/// Runs a [`Reflector`] and workers over its queue: each item is applied to the queue's store, and
/// then told to a handler, event by event, while nobody else has the key.
///
/// A handler that fails is called again with the same event, after a pause that doubles, as often
/// as was chosen; then the event is told to the error handler. Meanwhile the key waits, and the
/// other workers go on. An event counts as told when its handler has ended: one whose handler was
/// dropped with [`run`](Self::run) is told again by the next run.
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
    /// What was applied and not told to the end, since a run was dropped.
    untold: Mutex<Vec<Applied<K>>>,
    /// Shared by the workers: those of a run that was dropped may take a moment to end.
    at_work: Arc<RwLock<()>>,
}

/// What an item changed in the store, and is to be told.
struct Applied<K> {
    key: String,
    events: VecDeque<ObjectEvent<K>>,
}

/// Events on their way to the handler. Dropped on the way, it leaves the rest to the next run.
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
    /// One over `reflector` and the queue that it feeds, which must have a
    /// [store](DeltaFifo::over). One worker, five retries after 5 ms and more, errors to the log.
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

    /// How many handlers run at a time, of different keys.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// How often an event is told again whose handler failed, and after which pause at first.
    #[must_use]
    pub fn retries(mut self, retries: u32, pause: Duration) -> Self {
        (self.retries, self.pause) = (retries, pause);
        self
    }

    /// Is told of everything that goes wrong behind the queue.
    #[must_use]
    pub fn on_error(mut self, handler: impl Fn(&ControllerError) + Send + Sync + 'static) -> Self {
        self.on_error = Box::new(handler);
        self
    }

    /// The reflector (client-go `LastSyncResourceVersion`).
    pub fn reflector(&self) -> &Reflector<K> {
        &self.reflector
    }

    /// Whether the first list has been handled (client-go `HasSynced`).
    pub fn has_synced(&self) -> bool {
        self.fifo.has_synced()
    }

    /// Runs until the queue is closed and empty. Dropped, it stops where it is; handlers are
    /// dropped at their next await.
    ///
    /// Run again, the same controller tells the events of those first, each from its beginning,
    /// and pops when that is done: they are applied, so the queue does not have them any more.
    /// Another controller over the queue does not know of them.
    pub async fn run(self: Arc<Self>) -> RunError {
        tokio::select! {
            // Closed: what is in the queue is to be handled.
            ended @ RunError::Running = self.reflector.run() => ended,
            () = Self::work_all(&self) => Closed.into(),
        }
    }

    /// Tells what is untold, and then handles what is queued, until the queue is closed and empty.
    async fn work_all(this: &Arc<Self>) {
        // Once the workers of an earlier run have ended, all that they left is known.
        drop(this.at_work.write().await);
        Self::all_workers(this, |controller| async move { controller.tell_untold().await }).await;
        Self::all_workers(this, |controller| async move { controller.work().await }).await;
    }

    /// Has every worker do `work`, to its end.
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

    /// Tells all of an item, event by event, and gives its key back. Dropped, it leaves the rest,
    /// with the event in hand, to the next run.
    async fn tell_all(&self, applied: Applied<K>) -> String {
        let mut telling = Telling { untold: &self.untold, applied };
        while let Some(event) = telling.applied.events.front() {
            self.tell(&telling.applied.key, event).await;
            let told = telling.applied.events.pop_front();
            self.release(&telling.applied.key, || drop(told));
        }
        std::mem::take(&mut telling.applied.key)
    }

    /// Lets go of what may be the last of an object, whose drop is user code: the worker goes on.
    fn release(&self, key: &str, drop: impl FnOnce()) {
        if let Err(message) = caught(drop) {
            self.report(&ControllerError::Released { key: key.to_owned(), message });
        }
    }

    /// Tells one event, again when that fails.
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

const LONGEST_PAUSE: Duration = Duration::from_secs(30);
