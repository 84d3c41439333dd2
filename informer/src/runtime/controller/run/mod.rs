//! The loop of a controller: chooses the next step each time its stream is polled, and starts calls
//! of the reconciler.

mod decoding;
mod ending;
mod settling;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::future::pending;
use std::mem;
use std::sync::Arc;

use async_stream::stream;
use deltafifo::panics::{ignore_panic, panic_message};
use deltafifo::{IndexReader, Labels};
use futures_util::future::{BoxFuture, try_join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt, TryFuture, TryFutureExt};
use kube::Resource;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{Instrument, Span, info_span};

use self::ending::resume_panic;
use super::deleted::{Deletion, Deletions, OnDeleted};
use super::error::{Error, RunnerError};
use super::held::HeldBack;
use super::key::{StoreKey, reference};
use super::main_objects::MainDeletions;
use super::metrics::Metrics;
use super::permitted::{Permit, Sharding, admit, in_permit, in_turn, with_permit};
use super::reason::Reason;
use super::relations::request_all_on;
use super::schedule::Schedule;
use super::start::{InformerRole, Relation, Started};
use super::term::Term;
use super::work::{Done, Ended, ItemWithWork, Outcome, Work, drop_in_task};
use super::{Action, Controller, Types};
use crate::KubeMeta;
use crate::metrics::Named;
use crate::reflector::Decodable;
use crate::runtime::form::Form;
use crate::runtime::own_writes::{NotSeen, ObservedStores, Writer, noting, noting_call};
use crate::runtime::reflector::ObjectRef;
use crate::runtime::watcher;
use crate::util::catching::catching;
use crate::workqueue::Item;

/// Returns the stream of [`Controller::run`].
pub(super) fn stream<F, ReconcilerFut, Ctx>(
    controller: Controller<F>,
    mut reconciler: impl FnMut(Arc<F::Object>, Arc<Ctx>) -> ReconcilerFut,
    error_policy: impl Fn(Arc<F::Object>, &ReconcilerFut::Error, Arc<Ctx>) -> Action,
    context: Arc<Ctx>,
) -> impl Stream<Item = Yielded<F::Object, ReconcilerFut::Error>>
where
    F: Form<Object: Resource<DynamicType: Clone>> + Decodable,
    KubeMeta: Labels<F>,
    ReconcilerFut: TryFuture<Ok = Action> + Send + 'static,
    ReconcilerFut::Error: Send + 'static,
{
    stream! {
        let mut running = match ControllerRun::start(controller) {
            Ok(running) => running,
            Err(stopped) => {
                yield Err(stopped.into());
                return;
            }
        };
        loop {
            match running.next().await {
                StreamStep::Reconcile(item, object, permit) => {
                    let span = running.span(&item, &object);
                    let writer = running.writer(&item, &object);
                    let call = || reconciler(object.clone(), context.clone());
                    let call = || noting_call(writer.as_ref(), call);
                    let future = span.in_scope(|| in_permit(permit.as_ref(), call));
                    running.reconcile(item, object, permit, writer, future, span);
                }
                StreamStep::Done(done) => {
                    let policy = |object, error: &_| error_policy(object, error, context.clone());
                    if let Some(item) = running.settle(done, policy) {
                        yield item;
                    }
                }
                StreamStep::Failed(error) => yield Err(error),
                StreamStep::End => return,
            }
        }
    }
}

/// The next step of a controller's stream.
enum StreamStep<K: Resource, E: 'static> {
    /// Reconcile this object. The item holds its key.
    Reconcile(Item<StoreKey>, Arc<K>, Option<Permit>),
    /// A reconcile or a deletion handler has ended, or an object could not be decoded.
    Done(Done<K, E>),
    /// Yield this error.
    Failed(Error<E, watcher::Error>),
    End,
}

/// The user's policy for objects that cannot be decoded. It receives the key of the object, and the
/// reason.
pub(super) type DecodeErrorPolicy<K> =
    Box<dyn Fn(ObjectRef<K>, &(dyn StdError + 'static)) -> Action + Send>;

/// An item of the controller's stream.
pub(super) type Yielded<K, E> = Result<(ObjectRef<K>, Action), Error<E, watcher::Error>>;

struct ControllerRun<F: Form, E: Send + 'static> {
    types: Types<F>,
    store: IndexReader<F, KubeMeta>,
    /// Whether a request for an object that is not in the store is an error.
    yields_not_found: bool,
    schedule: Arc<Schedule>,
    metrics: Named<Metrics>,
    started: Started,
    deletions: Arc<Deletions<F>>,
    held: HeldBack,
    on_deleted: Option<OnDeleted<F::Object>>,
    decode_error_policy: Option<DecodeErrorPolicy<F::Object>>,
    /// The running reconciles and deletion handlers, and the decoding before them. `None` is the
    /// result of a call that was dropped because the term has ended.
    work: JoinSet<Option<Ended<F::Object, E>>>,
    /// The largest number of tasks in `work`.
    most: usize,
    /// The future that resolves when the handlers have received the initial lists; `None` after
    /// that.
    syncing: Option<BoxFuture<'static, Result<Vec<()>, RunnerError>>>,
    is_shut_down: bool,
    /// The leadership term in which the controller may work, or `None` if it works without leader
    /// election.
    term: Option<Term>,
    /// The group whose shards the controller reconciles, or `None` if it reconciles all objects.
    sharding: Option<Sharding>,
    forceful: FuturesUnordered<BoxFuture<'static, ()>>,
    errors: mpsc::Receiver<watcher::Error>,
}

impl<F, E> ControllerRun<F, E>
where
    F: Form<Object: Resource<DynamicType: Clone>> + Decodable,
    KubeMeta: Labels<F>,
    E: Send + 'static,
{
    fn start(controller: Controller<F>) -> Result<Self, RunnerError> {
        let Controller {
            types,
            main,
            update_filter,
            relations,
            triggers,
            triggers_of_all,
            on_deleted,
            config,
            ..
        } = controller;
        let Controller { retry, decode_error_policy, term, graceful, forceful, .. } = controller;
        let sharding = controller.sharding;
        // The group waits until the controller has joined below, or has failed.
        let _announcement = controller.announcement;
        if term.is_some() && sharding.is_some() {
            tracing::error!("{}; the controller ends", RunnerError::LedAndSharded);
            return Err(RunnerError::LedAndSharded);
        }
        let fills = sharding.as_ref().map(|sharding| sharding.fills(&controller.errors));
        let schedule = Schedule::new(&config, retry);
        let deletions = Deletions::new();
        let mut started = Started::new(Arc::clone(&schedule), fills);
        started.ends.extend(graceful);
        started.observed = controller.reads_own_writes.then(ObservedStores::default);
        let recorded = on_deleted.is_some().then(|| Arc::clone(&deletions));
        let recorded = MainDeletions { recorded, sharding: sharding.clone() };
        let mut main = main.start(&controller.errors, update_filter, recorded, &mut started)?;
        for Relation { start, is_optional } in relations {
            let is_awaited = config.waits_for_related();
            start(&mut started, InformerRole { is_main: false, is_awaited, is_optional })?;
        }
        for trigger in triggers {
            trigger(&mut started);
        }
        for trigger in triggers_of_all {
            request_all_on(trigger, main.store.clone(), &mut started);
        }
        if let Some(sharding) = &sharding {
            sharding.join(&mut started, main.store.clone());
        }
        main.run(&mut started);
        started.source = None;
        let syncs = mem::take(&mut started.syncs);
        let held = HeldBack::new(started.observed.take());
        Ok(Self {
            types,
            store: main.store,
            yields_not_found: main.yields_not_found,
            schedule,
            metrics: Metrics::of(config.name.as_deref()),
            started,
            deletions,
            held,
            on_deleted,
            decode_error_policy,
            work: JoinSet::new(),
            most: config.max_concurrent(),
            syncing: Some(try_join_all(syncs).boxed()),
            is_shut_down: false,
            term,
            sharding,
            forceful: forceful.into_iter().collect(),
            errors: controller.error_receiver,
        })
    }

    /// Waits for the next step. Cancel safe, except while it ends the tasks because an informer has
    /// stopped: the error of that would be lost.
    async fn next(&mut self) -> StreamStep<F::Object, E> {
        loop {
            if self.is_shut_down && self.work.is_empty() {
                // The tasks that send errors have been aborted, so only errors from before the
                // shutdown delay the end.
                return match self.errors.try_recv() {
                    Ok(error) => StreamStep::Failed(Error::QueueError(error)),
                    Err(_) => StreamStep::End,
                };
            }
            let takes = self.syncing.is_none() && !self.is_shut_down && self.work.len() < self.most;
            tokio::select! {
                biased;
                Some(()) = self.forceful.next() => return StreamStep::End,
                // Before `synced`: the task may have owned the writer of a store, and the panic
                // has dropped it.
                Some(ended) = self.started.tasks.join_next(), if !self.is_shut_down => {
                    if let Err(error) = ended {
                        resume_panic(error);
                    }
                }
                // Before `ends`: if an informer stops before its initial list, the stream must
                // yield an error and not just end.
                synced = synced(&mut self.syncing), if self.syncing.is_some() && !self.is_shut_down => {
                    self.syncing = None;
                    if let Err(stopped) = synced {
                        self.is_shut_down = true;
                        self.end_tasks().await;
                        if let RunnerError::WriterDropped { .. } = stopped {
                            tracing::error!("{stopped}; the controller ends");
                        }
                        return StreamStep::Failed(stopped.into());
                    }
                }
                Some(()) = self.started.ends.next(), if !self.is_shut_down => {
                    self.is_shut_down = true;
                    self.started.end();
                }
                report = self.started.unsynced.report(), if !self.is_shut_down => {
                    return StreamStep::Failed(report.into());
                }
                Some(done) = self.work.join_next() => match done {
                    Ok(Some(ended)) => if let Some(step) = self.advance(ended) {
                        return step;
                    },
                    Ok(None) => return StreamStep::End,
                    // Panics of the calls themselves are caught in `call`, and panics of decoders
                    // in `Compact::decode`, so this panic comes from a drop.
                    Err(error) => resume_panic(error),
                },
                // After `ends`: errors that keep coming must not prevent a shutdown.
                Some(error) = self.errors.recv() => {
                    return StreamStep::Failed(Error::QueueError(error));
                }
                Some((item, seen)) = self.held.next(), if !self.is_shut_down => {
                    if let Err(error) = self.release(&item, seen) {
                        return StreamStep::Failed(error.into());
                    }
                }
                Some(item) = self.schedule.queue.get(), if takes => {
                    if self.has_lost_term() {
                        return StreamStep::End;
                    }
                    let Some(item) = self.held.admit(item, &self.store) else { continue };
                    match self.find(item) {
                        Ok(Some((item, work))) if F::IS_OBJECT => {
                            let step = match Self::decoded(item, work) {
                                Ended::Call(done) => Some(StreamStep::Done(done)),
                                Ended::Decoded(item, work) => self.begin(item, work),
                            };
                            if let Some(step) = step {
                                return step;
                            }
                        }
                        Ok(Some((item, work))) => self.decode(item, work),
                        Ok(None) => {}
                        Err(error) => return StreamStep::Failed(error),
                    }
                }
                else => return StreamStep::End,
            }
        }
    }

    /// Requests the reconcile that was held back, together with the requests that have arrived
    /// since. Does nothing if a store still does not show a write and the shard of the object has
    /// moved: its owner reconciles it.
    ///
    /// # Errors
    /// [`RunnerError::OwnWriteNotSeen`] if a store still does not show a write. The reconcile is
    /// then requested after the retry delay.
    fn release(&self, item: &Item<StoreKey>, seen: Result<(), NotSeen>) -> Result<(), RunnerError> {
        let key = item.key();
        let Err(source) = seen else {
            self.schedule.rename(item, key.clone());
            return Ok(());
        };
        if !self.admits(key) {
            self.schedule.forget(key);
            return Ok(());
        }
        let reason = Reason::OwnWriteNotSeen;
        self.schedule.request_after_failure(key.clone(), item.priority(), reason);
        let object = Box::new(self.reference(key).erase());
        Err(RunnerError::OwnWriteNotSeen { object, source: Box::new(source) })
    }

    /// Returns whether the controller may reconcile the object with this key now.
    fn admits(&self, key: &StoreKey) -> bool {
        let shard = self.sharding.as_ref().and_then(|sharding| match self.store.get_by_key(key) {
            Some(object) => sharding.shard_of_object(&KubeMeta, &*object),
            None => sharding.shard_of_key(key),
        });
        admit(self.sharding.as_ref(), shard).is_some()
    }

    /// Returns whether the term has ended. Called before a reconcile or a deletion handler
    /// starts, because the timer in `forceful` may be late.
    fn has_lost_term(&self) -> bool {
        self.term.as_ref().is_some_and(|term| !term.is_held())
    }

    /// Returns the step that follows the result of a task. Returns `None` if none does: the
    /// controller is shutting down, or deletion handlers were started.
    fn advance(&mut self, ended: Ended<F::Object, E>) -> Option<StreamStep<F::Object, E>> {
        let (item, work) = match ended {
            Ended::Call(done) => return Some(StreamStep::Done(done)),
            Ended::Decoded(item, work) => (item, work),
        };
        if self.is_shut_down || self.has_lost_term() {
            drop_in_task(work);
            return (!self.is_shut_down).then_some(StreamStep::End);
        }
        let Some(work) = work.resume() else {
            self.schedule.forget(item.key());
            return None;
        };
        self.begin(item, work)
    }

    /// Begins the work for an item. Returns the step that follows, or `None` if deletion handlers
    /// were started.
    fn begin(
        &mut self,
        item: Item<StoreKey>,
        work: Work<F::Object>,
    ) -> Option<StreamStep<F::Object, E>> {
        match work {
            Work::Reconcile(object, permit) => Some(StreamStep::Reconcile(item, object, permit)),
            Work::Deletions(deletions) => {
                self.call_on_deleted(item, deletions);
                None
            }
        }
    }

    /// Starts the deletion handlers for the last states of an item's objects.
    fn call_on_deleted(
        &mut self,
        item: Item<StoreKey>,
        deletions: Vec<(Deletion<F::Object>, Option<Permit>)>,
    ) {
        let Some(on_deleted) = &mut self.on_deleted else { return };
        let span = info_span!("notifying of deletion", "object.ref" = %reference::<F::Object>(item.key(), self.types.clone()));
        // The handler may drop its handles before it returns. Then the task frees the objects.
        let states = deletions.iter().filter_map(|(deletion, _)| deletion.last.object());
        let objects: Vec<_> = states.cloned().collect();
        let call = |(deletion, permit): (Deletion<_>, Option<Permit>)| {
            let call = in_permit(permit.as_ref(), || on_deleted(deletion.last));
            (permit, call)
        };
        let calls: Vec<_> = span.in_scope(|| deletions.into_iter().map(call).collect());
        self.call(item, false, span, async move {
            // Each deletion is handled once, so a panic in one must not skip the others.
            let user_calls = in_turn(calls).await;
            ignore_panic(|| drop(objects));
            user_calls.resume();
            Outcome::Deleted
        });
    }

    /// Returns the work for an item: the object to reconcile, or deletions to handle. Returns
    /// `None` if there is nothing to do: the request was queued again under the object's real key,
    /// or the object does not exist.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the object does not exist, and the controller is over a stream
    /// or an informer with custom keys. An error of [`Sharding::without_shard`] if the object has
    /// no shard: the controller shuts down.
    fn find(
        &mut self,
        item: Item<StoreKey>,
    ) -> Result<Option<ItemWithWork<F>>, Error<E, watcher::Error>> {
        let deletions =
            if self.on_deleted.is_some() { self.deletions.take(item.key()) } else { Vec::new() };
        let admitted = |deletion: Deletion<F>| {
            let permit = admit(self.sharding.as_ref(), deletion.shard)?;
            Some((deletion, permit))
        };
        let deletions: Vec<_> = deletions.into_iter().filter_map(admitted).collect();
        if !deletions.is_empty() {
            // A reconcile that ended after the deletion may have recorded a failure.
            self.schedule.forget(item.key());
            return Ok(Some((item, Work::Deletions(deletions))));
        }
        let sharding = self.sharding.as_ref();
        let mut shard = sharding.and_then(|sharding| sharding.shard_of_key(item.key()));
        let permit = loop {
            // Before the read, which must not return a state from before the claim of the shard.
            let permit = admit(sharding, shard);
            let Some(object) = self.store.get_by_key(item.key()) else { break permit };
            let actual = sharding.and_then(|it| it.shard_of_object(&KubeMeta, &*object));
            if let (Some(sharding), None) = (sharding, actual) {
                let error = sharding.without_shard(self.reference(item.key()).erase());
                tracing::error!("{error}; the controller ends");
                self.is_shut_down = true;
                self.started.end();
                return Err(error.into());
            }
            if shard != actual {
                shard = actual;
                continue;
            }
            if let Some(permit) = permit {
                return Ok(Some((item, Work::Reconcile(object, permit))));
            }
            // The owner of the shard reconciles it.
            self.schedule.forget(item.key());
            return Ok(None);
        };
        if let Some((_, name)) = item.key().split_once('/')
            && self.store.get_by_key(name).is_some()
        {
            // The request had a namespace, but the kind is cluster-scoped. Queue it under its
            // real key, so that it merges with the other requests of the object.
            self.schedule.rename(&item, name.into());
            return Ok(None);
        }
        self.schedule.forget(item.key());
        if sharding.is_some() && permit.flatten().is_none() {
            // The owner of the shard does what follows. Without the object, its uid is not known.
            return Ok(None);
        }
        self.metrics.record(Metrics::not_found);
        let object = self.reference(item.key()).erase();
        if self.yields_not_found {
            return Err(Error::ObjectNotFound(Box::new(object)));
        }
        tracing::debug!(%object, "not reconciled: the object is not in the store, so it was deleted or never listed");
        Ok(None)
    }

    fn span(&self, item: &Item<StoreKey>, object: &F::Object) -> Span {
        reconcile_span(item, &ObjectRef::from_obj_with(object, self.types.clone()))
    }

    /// Returns the author of the writes of a reconcile, or `None` if they are not noted.
    fn writer(&self, item: &Item<StoreKey>, object: &F::Object) -> Option<Writer> {
        self.held.writer(item.key(), object.meta().uid.as_deref())
    }

    fn reconcile(
        &mut self,
        item: Item<StoreKey>,
        object: Arc<F::Object>,
        permit: Option<Permit>,
        writer: Option<Writer>,
        reconcile: impl TryFuture<Ok = Action, Error = E> + Send + 'static,
        span: Span,
    ) {
        let types = self.types.clone();
        let reconcile = TryFutureExt::into_future(reconcile).map(move |result| {
            let object_ref = ObjectRef::from_obj_with(&*object, types);
            match result {
                Ok(action) => {
                    // This may be the last handle. Then it frees the object here, and not in the
                    // task that polls the stream. A destructor that panics does not end the
                    // controller.
                    ignore_panic(|| drop(object));
                    Outcome::Reconciled(object_ref, action)
                }
                Err(error) => Outcome::Failed(object_ref, object, error),
            }
        });
        let reconcile = noting(writer, reconcile);
        let reconcile =
            with_permit(permit, reconcile).map(|outcome| outcome.unwrap_or(Outcome::Lost));
        self.call(item, true, span, reconcile);
    }

    /// Runs a call for a key in a task, within `span`. The task holds the item until the call has
    /// ended. It drops the call at the end of the term, even if the stream is not polled then.
    fn call(
        &mut self,
        item: Item<StoreKey>,
        again: bool,
        span: Span,
        call: impl Future<Output = Outcome<F::Object, E>> + Send + 'static,
    ) {
        let call = call.instrument(span.clone());
        let term = self.term.clone();
        self.work.spawn(async move {
            // The call is work under the lease until it has been dropped, so the term outlives it.
            let lost = async {
                match &term {
                    Some(term) => term.lost().await,
                    None => pending().await,
                }
            };
            let outcome = tokio::select! {
                biased;
                () = lost => return None,
                outcome = catching(call) => outcome,
            };
            let outcome = outcome
                .unwrap_or_else(|panic| Outcome::Panicked { message: panic_message(panic), again });
            Some(Ended::Call(Done { item, outcome, span }))
        });
    }

    fn reference(&self, key: &str) -> ObjectRef<F::Object> {
        reference(key, self.types.clone())
    }
}

/// Returns the span of the reconcile of an item.
fn reconcile_span<K: Resource>(item: &Item<StoreKey>, object: &ObjectRef<K>) -> Span {
    info_span!(
        "reconciling object",
        "object.ref" = %object,
        "object.reason" = %Reason::of_tag(item.tag()),
    )
}

/// Waits for the initial lists, if they have not arrived yet.
async fn synced(
    syncing: &mut Option<BoxFuture<'static, Result<Vec<()>, RunnerError>>>,
) -> Result<(), RunnerError> {
    match syncing {
        Some(syncing) => syncing.await.map(drop),
        None => Ok(()),
    }
}
