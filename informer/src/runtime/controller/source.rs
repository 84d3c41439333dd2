//! The informers that a controller listens to: its own and shared ones.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deltafifo::Meta;
use deltafifo::panics::FirstPanic;
use futures_util::FutureExt;
use kube::runtime::watcher::{Config, InitialListStrategy, ListSemantic};
use kube::{Api, Resource};
use tokio::sync::{Notify, mpsc};

use super::error::RunnerError;
use super::permitted::is_in_shards;
use super::schedule::{Schedule, priority};
use super::start::{InformerRole, Started};
use crate::KubeMeta;
use crate::lister_watcher::KubeListerWatcher;
use crate::reflector::{ReflectorBuilder, ReflectorError};
use crate::runtime::form::{Form, MetaField};
use crate::runtime::predicates::{affects_deletion, field_of};
use crate::runtime::watcher;
use crate::shared_informer::{
    Availability, Buffer, HandlerOptions, InformerError, Notification, Registration,
    SharedInformer, SharedInformerBuilder,
};
use crate::util::sleep::with_catching_waker;

/// The number of notifications that a controller's handler buffers. If the buffer is full, the
/// watch waits: merging notifications would lose intermediate states, and one of these may be the
/// only one that names an owner.
const MOST_WAITING: usize = 1_024;

/// A predicate over the updates of objects that are stored in the form `F`.
pub(super) enum UpdateFilter<F: Form> {
    /// Every update triggers reconciles.
    Every,
    /// An update triggers reconciles if it changes this field of the metadata.
    Changed(MetaField),
    /// The predicate receives decoded objects.
    Decoded(Box<Predicate<F::Object>>),
    /// The predicate receives the objects as they are stored.
    #[cfg(feature = "compact")]
    Stored(Box<Predicate<F>>),
}

type Predicate<K> = dyn Fn(&K, &K) -> bool + Send;

impl<F: Form> UpdateFilter<F> {
    /// Creates the filter of a predicate over decoded objects. If the predicate is one of
    /// [`predicates`](crate::runtime::predicates) that compare metadata, nothing is decoded for it.
    pub(super) fn of(predicate: impl Fn(&F::Object, &F::Object) -> bool + Send + 'static) -> Self {
        match field_of::<F::Object, _>(&predicate) {
            Some(field) => Self::Changed(field),
            None => Self::Decoded(Box::new(predicate)),
        }
    }

    /// Returns whether an update triggers reconciles. If the predicate takes decoded objects and a
    /// state cannot be decoded, the update triggers them.
    pub(super) fn accepts(&self, old: &Arc<F>, new: &Arc<F>) -> bool {
        match self {
            Self::Every => true,
            _ if affects_deletion(&**old, &**new) => true,
            Self::Changed(field) => F::differs(old, new, *field),
            Self::Decoded(predicate) => match (old.view(), new.view()) {
                (Ok(old), Ok(new)) => predicate(&old, &new),
                _ => true,
            },
            #[cfg(feature = "compact")]
            Self::Stored(predicate) => predicate(old, new),
        }
    }
}

/// A shared informer, and a predicate over its updates. It is the argument of
/// [`owns_informer`](super::Controller::owns_informer) and of the other methods that take an
/// informer; they accept a `&SharedInformer` as well. The informer may be one of
/// [compact](crate::runtime::Form) objects.
pub struct Source<F: Form>
where
    KubeMeta: Meta<F>,
{
    pub(super) informer: SharedInformer<F>,
    pub(super) update_filter: UpdateFilter<F>,
}

impl<F: Form> Source<F>
where
    KubeMeta: Meta<F>,
{
    /// Restricts which updates trigger reconciles: only updates for whose old and new state
    /// `predicate` returns true, and updates that set the deletion timestamp or change the
    /// finalizers. Additions and deletions always trigger. See
    /// [`predicates`](crate::runtime::predicates) for ready-made ones. The last call wins.
    ///
    /// If the objects are compact, both states are decoded for `predicate`, unless it is itself one
    /// of the functions that compare metadata, as in `when(predicates::labels)`. For a closure that
    /// reads only metadata, use `when_compact`.
    #[must_use]
    pub fn when(
        mut self,
        predicate: impl Fn(&F::Object, &F::Object) -> bool + Send + 'static,
    ) -> Self {
        self.update_filter = UpdateFilter::of(predicate);
        self
    }
}

impl<F: Form> From<&SharedInformer<F>> for Source<F>
where
    KubeMeta: Meta<F>,
{
    /// Creates a source in which every update of `informer` triggers reconciles.
    fn from(informer: &SharedInformer<F>) -> Self {
        Self { informer: informer.clone(), update_filter: UpdateFilter::Every }
    }
}

/// Returns the states in a notification that are mapped to main objects, and the priority of the
/// resulting requests. Returns `None` for notifications that trigger nothing: updates that the
/// predicate rejects, deletions because a namespace was removed or a shard moved, and the markers
/// around a handler resync. A predicate that panics counts as accepting.
pub(super) fn triggering_states<'n, K>(
    notification: &'n Notification<K>,
    update_filter: impl Fn(&Arc<K>, &Arc<K>) -> bool,
    user_calls: &mut FirstPanic,
) -> Option<([Option<&'n Arc<K>>; 2], i32)> {
    let mut update_filter = |old, new| user_calls.call(|| update_filter(old, new)).unwrap_or(true);
    let (states, cause) = match notification {
        Notification::Added { new, cause, .. } => ([Some(new), None], cause),
        Notification::Updated { old, new, cause } if update_filter(old, new) => {
            ([Some(old), Some(new)], cause)
        }
        // The children of a removed namespace or a moved shard may still exist, so their owners
        // need no reconcile.
        Notification::Deleted { cause, .. } if cause.may_exist() => return None,
        Notification::Deleted { old, last, cause } => {
            ([Some(old), last.object().filter(|last| !Arc::ptr_eq(old, last))], cause)
        }
        _ => return None,
    };
    Some((states, priority(*cause)))
}

/// A guard that removes the handler from the informer when the controller ends.
struct DetachOnDrop<K: Send + Sync + 'static>(Registration<K>);

impl<K: Send + Sync + 'static> Drop for DetachOnDrop<K> {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// The owner of an informer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InformerOwner {
    /// The controller runs the informer, and yields its errors.
    Controller,
    /// The user runs the informer.
    User,
}

/// Adds a handler to `informer` that calls `deliver` for every notification. The handler is removed
/// when the controller shuts down.
///
/// # Errors
/// [`RunnerError::Stopped`] if the informer has stopped. [`RunnerError::NotListable`] if the
/// controller is sharded, and the informer has nothing to list. [`RunnerError::NotSharded`] if the
/// controller is not sharded, and the informer is.
pub(super) fn listen<K: Send + Sync + 'static, M: Meta<K>>(
    informer: &SharedInformer<K, M>,
    owner: InformerOwner,
    role: InformerRole,
    started: &mut Started,
    mut deliver: impl FnMut(Notification<K>, &Schedule, &mut FirstPanic) + Send + 'static,
) -> Result<(), RunnerError> {
    if started.fills.is_none() && is_in_shards(informer) {
        let error = RunnerError::NotSharded { informer: informer.title() };
        tracing::error!("{error}; the controller ends");
        return Err(error);
    }
    if informer.scope().0.is_empty() {
        started.warn_of_unwaited(&informer.title());
    }
    let schedule = Arc::clone(&started.schedule);
    let changed = started.fills.is_some().then(Arc::<Notify>::default);
    let options = HandlerOptions::new().buffer(Buffer::HoldBack(MOST_WAITING));
    let notified = changed.clone();
    let observed = started.observed.as_mut().map(|stores| stores.add(informer));
    let handler = move |notification| {
        let mut user_calls = FirstPanic::default();
        let waiters = observed.as_ref().and_then(|store| store.waiters(&notification));
        deliver(notification, &schedule, &mut user_calls);
        if let Some(waiters) = waiters {
            waiters.notify_waiters();
        }
        if let Some(notified) = &notified {
            notified.notify_waiters();
        }
        // The panic is resumed, so that the informer reports it.
        user_calls.resume();
        ready(())
    };
    let registration = informer.add_async_handler(options, handler);
    let title = informer.title();
    let Ok(registration) = registration else { return Err(stopped(&title)) };
    if owner == InformerOwner::User {
        started.unsynced.add(informer, registration.clone(), role);
    }
    let detach = DetachOnDrop(registration.clone());
    if let (Some(fills), Some(changed)) = (&mut started.fills, changed) {
        fills.add(informer, registration.clone(), changed, role)?;
    }
    // Reconciles wait for this handler's initial list. Otherwise a reconcile could read an object
    // that is deleted before this handler sees it, and whose deletion therefore triggers nothing.
    let mut availability = informer.availability();
    let awaited = title.clone();
    let is_refused = |now: &Availability| *now == Availability::Refused;
    let sync = async move {
        tokio::select! {
            // In a fixed order, so that a simulation can be repeated.
            biased;
            synced = registration.wait_for_sync() => synced.map_err(|_removed| stopped(&awaited)),
            Ok(_) = with_catching_waker(availability.wait_for(is_refused)), if role.is_optional => {
                Ok(())
            }
        }
    };
    if role.is_awaited {
        started.syncs.push(sync.boxed());
    }
    // The controller shuts down when an informer stops.
    let source = started.source.clone();
    let end = async move {
        detach.0.ended().await;
        drop(source);
        tracing::info!(informer = title, "informer stopped; the controller shuts down");
    };
    started.ends.push(end.boxed());
    Ok(())
}

/// Logs which informer stopped before its initial list, and returns the error.
fn stopped(informer: &str) -> RunnerError {
    tracing::error!(informer, "informer stopped before its initial list; the controller ends");
    RunnerError::Stopped
}

/// An informer that a controller owns. It is closed on drop.
pub(super) struct OwnedInformer<K: Send + Sync + 'static, M: Meta<K> = KubeMeta> {
    informer: SharedInformer<K, M>,
    initial_list: Arc<InitialList>,
}

/// The state of an informer's initial list in a controller. It decides which errors are yielded and
/// logged before that list. Each flag is used on its own and orders no other memory, so relaxed
/// accesses are enough.
#[derive(Default)]
struct InitialList {
    /// Whether reconciles wait for the list.
    awaited: AtomicBool,
    /// Whether the relation is optional and has not been listed yet.
    optional: AtomicBool,
    /// Whether an error that says that the optional kind is missing has been yielded.
    absence_reported: AtomicBool,
    /// Whether an error because of which reconciles wait has been logged.
    wait_logged: AtomicBool,
}

impl InitialList {
    /// Sets the role of an informer that starts to run.
    fn begin(&self, role: InformerRole) {
        self.awaited.store(role.is_awaited, Ordering::Relaxed);
        self.optional.store(role.is_optional, Ordering::Relaxed);
    }

    fn arrived(&self) {
        self.awaited.store(false, Ordering::Relaxed);
        self.optional.store(false, Ordering::Relaxed);
    }

    /// Returns the error that the stream yields, or `None` if it has yielded one like it.
    ///
    /// An error that the stream yields is not logged, with one exception: the first error of each
    /// informer because of which nothing is reconciled. A program that ignores the errors of the
    /// stream would otherwise do nothing, without a trace.
    fn convert(&self, resource: &str, error: &InformerError<'_>) -> Option<watcher::Error> {
        let reflector = error.reflector();
        let is_refused = reflector.is_some_and(ReflectorError::is_unavailable);
        if is_refused && self.optional.load(Ordering::Relaxed) {
            if self.absence_reported.swap(true, Ordering::Relaxed) {
                tracing::debug!(resource, %error, "optional kind is still not available");
                return None;
            }
            return Some(watcher::error_of(resource, error, RUNS_WITHOUT));
        }
        if !reflector.is_some_and(ReflectorError::is_of_a_request)
            || !self.awaited.load(Ordering::Relaxed)
        {
            return Some(watcher::error_of(resource, error, ""));
        }
        if !self.wait_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!("{resource}: {error}{NOTHING_IS_RECONCILED}");
        }
        Some(watcher::error_of(resource, error, NOTHING_IS_RECONCILED))
    }
}

/// The end of an error of a missing optional kind.
const RUNS_WITHOUT: &str =
    "; the kind is optional, so the controller runs without it until it exists";
/// The end of an error because of which nothing is reconciled.
const NOTHING_IS_RECONCILED: &str =
    "; nothing is reconciled until everything that the controller watches has been listed once";

impl<K: Send + Sync + 'static, M: Meta<K>> OwnedInformer<K, M> {
    pub(super) fn build(
        resource: String,
        builder: SharedInformerBuilder<K, M>,
        errors: &mpsc::Sender<watcher::Error>,
    ) -> Self {
        let errors = errors.clone();
        let initial_list = Arc::new(InitialList::default());
        let builder = builder.on_error({
            let initial_list = Arc::clone(&initial_list);
            move |error| {
                let Some(converted) = initial_list.convert(&resource, error) else { return };
                // If the controller is not polled, the channel is full; log the error instead of
                // buffering it.
                if errors.try_send(converted).is_err() {
                    tracing::warn!(%error, "list, watch or object failed; the controller continues");
                }
            }
        });
        Self {
            informer: builder.build().expect("a builder without user indexes always builds"),
            initial_list,
        }
    }

    pub(super) fn informer(&self) -> &SharedInformer<K, M> {
        &self.informer
    }

    /// Runs the informer in a task until the controller ends.
    pub(super) fn run(self, started: &mut Started, role: InformerRole) {
        self.initial_list.begin(role);
        let run = async move {
            let synced = async {
                if self.informer.wait_for_sync().await.is_ok() {
                    self.initial_list.arrived();
                }
            };
            // `run` returns an error only if it is called twice; `self` is consumed here.
            let _ = tokio::join!(self.informer.run(), synced);
        };
        started.spawn(run);
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Drop for OwnedInformer<K, M> {
    fn drop(&mut self) {
        self.informer.close();
    }
}

/// Returns the source of the objects that a kube controller with this configuration would watch.
pub(super) fn of_api<K: Resource>(
    api: Api<K>,
    config: &Config,
    types: &K::DynamicType,
) -> KubeListerWatcher {
    let mut source = KubeListerWatcher::of_api(api, types);
    if let Some(selector) = &config.label_selector {
        source = source.labels(selector);
    }
    if let Some(selector) = &config.field_selector {
        source = source.fields(selector);
    }
    source
}

/// Returns the reflector settings that correspond to a kube configuration.
pub(super) fn as_configured<K: Send + Sync + 'static>(
    config: Config,
) -> impl FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K> {
    move |reflector| {
        let reflector = reflector
            .watch_list(config.initial_list_strategy == InitialListStrategy::StreamingList)
            .newest(config.list_semantic == ListSemantic::MostRecent)
            .page_size(config.page_size.unwrap_or(0));
        match config.timeout {
            // A watch lasts between `least_watch` and twice that time.
            Some(seconds) => {
                let most = Duration::from_secs(seconds.into());
                reflector.least_watch(most / 2).watch_list_timeout(most)
            }
            None => reflector,
        }
    }
}
