//! The main objects of a controller: the informer or the stream that they come from, and their
//! store.

use std::sync::{Arc, OnceLock};

use deltafifo::panics::FirstPanic;
use deltafifo::{DeltaObject, IndexReader, Labels, Meta};
use futures_util::stream::BoxStream;
use tokio::sync::mpsc;

use super::deleted::{Deletion, Deletions};
use super::error::RunnerError;
use super::key::key_of;
use super::permitted::{Sharding, admit};
use super::reason::Reason;
use super::schedule::Schedule;
use super::source::{
    InformerOwner, OwnedInformer, UpdateFilter, as_configured, listen, triggering_states,
};
use super::start::{InformerRole, Started};
use super::streams::follow_notifications;
use crate::KubeMeta;
use crate::lister_watcher::{KubeListerWatcher, ListerWatcher};
use crate::reflector::Decodable;
use crate::runtime::form::Form;
use crate::runtime::reflector::Store;
use crate::runtime::watcher;
use crate::shared_informer::{Cause, Namespaces, Notification, SharedInformer};

/// The source of a controller's main objects.
pub(super) enum MainObjects<F: Form>
where
    KubeMeta: Meta<F>,
{
    /// A shared informer, which the user runs.
    Shared(SharedInformer<F>),
    /// An informer that the controller runs. It is built on first use.
    Own { listing: Listing, built: OnceLock<OwnedInformer<F>> },
    /// A stream of the user, and the store that the user fills.
    Stream { stream: MainStream<F>, store: Store<F> },
    /// No informer, because the controller was to become compact after its informer was built, or
    /// is over a stream.
    #[cfg(feature = "compact")]
    NotCompact,
}

/// A stream of main objects. Its items are notifications, so that they are handled like those of an
/// informer.
pub(super) struct MainStream<F> {
    /// The resource, for logs and errors.
    pub(super) resource: String,
    pub(super) notifications: BoxStream<'static, Result<Notification<F>, watcher::Error>>,
    /// Whether there are notifications of updates and deletions, and not only of states.
    pub(super) has_deletions: bool,
}

impl<F: Form> MainStream<F> {
    /// Logs that options of the controller have no effect.
    fn warn_of_unused(&self, update_filter: &UpdateFilter<F>, deletions: &MainDeletions<F>) {
        let resource = &self.resource;
        if self.has_deletions {
            return;
        }
        if !matches!(update_filter, UpdateFilter::Every) {
            tracing::warn!(
                resource,
                "`when` has no effect, because the stream of main objects has no old states; \
                 filter the stream, or build the controller with `from_informer`"
            );
        }
        if deletions.recorded.is_some() {
            tracing::warn!(
                resource,
                "`on_deleted` is never called, because the stream of main objects has no \
                 deletions; build the controller with `from_informer`, or pass the `ReflectHandle` \
                 itself to `for_shared_stream`"
            );
        }
    }
}

/// The role of the informer of the main objects.
const ROLE: InformerRole = InformerRole { is_main: true, is_awaited: true, is_optional: false };

/// The main objects of a running controller.
pub(super) struct StartedMain<F: Form>
where
    KubeMeta: Meta<F>,
{
    pub(super) store: IndexReader<F, KubeMeta>,
    /// Whether a request for an object that is not in the store is an error.
    pub(super) yields_not_found: bool,
    /// The informer, if the controller has to run it.
    own: Option<OwnedInformer<F>>,
}

impl<F: Form> StartedMain<F>
where
    KubeMeta: Meta<F>,
{
    /// Runs the informer, if the controller owns it.
    pub(super) fn run(&mut self, started: &mut Started) {
        if let Some(own) = self.own.take() {
            own.run(started, ROLE);
        }
    }
}

impl<F: Form> MainObjects<F>
where
    KubeMeta: Meta<F>,
{
    /// Returns an informer that is not built yet.
    pub(super) fn own(listing: Listing) -> Self {
        Self::Own { listing, built: OnceLock::new() }
    }
}

impl<F: Form + Decodable> MainObjects<F>
where
    KubeMeta: Labels<F>,
{
    /// Returns the store. The informer is built first if necessary, and then sends its errors to
    /// `errors`.
    pub(super) fn store(&self, errors: &mpsc::Sender<watcher::Error>) -> Store<F> {
        match self {
            Self::Shared(informer) => Store::of(informer),
            Self::Own { listing, built } => {
                Store::of(built.get_or_init(|| listing.build(errors)).informer())
            }
            Self::Stream { store, .. } => store.clone(),
            #[cfg(feature = "compact")]
            Self::NotCompact => Store::ended(),
        }
    }

    /// Starts to request reconciles for changes of the main objects, and to record their
    /// deletions. An informer that the controller owns does not run yet.
    ///
    /// # Errors
    /// [`RunnerError::NotCompact`] if there is no informer. [`RunnerError::NotListable`] if the
    /// controller is sharded, and there is nothing to list. Otherwise as for [`listen`].
    pub(super) fn start(
        self,
        errors: &mpsc::Sender<watcher::Error>,
        update_filter: UpdateFilter<F>,
        deletions: MainDeletions<F>,
        started: &mut Started,
    ) -> Result<StartedMain<F>, RunnerError> {
        let (informer, own) = match self {
            Self::Shared(informer) => (informer, None),
            Self::Own { listing, built } => {
                let own = built.into_inner().unwrap_or_else(|| listing.build(errors));
                (own.informer().clone(), Some(own))
            }
            Self::Stream { stream, store } => {
                started.check_stream(&stream.resource)?;
                stream.warn_of_unused(&update_filter, &deletions);
                started.await_store(&stream.resource, &store);
                let deliver = delivery(update_filter, deletions);
                follow_notifications(stream.notifications, errors, started, deliver);
                return Ok(StartedMain {
                    store: store.reader(),
                    yields_not_found: true,
                    own: None,
                });
            }
            #[cfg(feature = "compact")]
            Self::NotCompact => {
                tracing::error!("{}; the controller ends", RunnerError::NotCompact);
                return Err(RunnerError::NotCompact);
            }
        };
        let owner = if own.is_some() { InformerOwner::Controller } else { InformerOwner::User };
        listen(&informer, owner, ROLE, started, delivery(update_filter, deletions))?;
        let store = informer.store();
        // A request has the key `namespace/name` or `name`, which is then the wrong one.
        let yields_not_found = !store.keys().is_meta_namespace();
        Ok(StartedMain { store, yields_not_found, own })
    }
}

/// Returns the function that is called for each notification of a main object.
fn delivery<F: Form>(
    update_filter: UpdateFilter<F>,
    deletions: MainDeletions<F>,
) -> impl FnMut(Notification<F>, &Schedule, &mut FirstPanic) + Send + 'static
where
    KubeMeta: Meta<F>,
{
    move |notification, schedule, user_calls| {
        if let Notification::Deleted { old, last, cause } = &notification {
            deletions.record(old, last, *cause, schedule, user_calls);
            return;
        }
        let update_filter = |old: &_, new: &_| update_filter.accepts(old, new);
        let triggering = triggering_states(&notification, update_filter, user_calls);
        let Some((states, priority)) = triggering else { return };
        let state = states.into_iter().flatten().next();
        if let Some(key) = state.and_then(|state| key_of(&**state)) {
            schedule.request(key, priority, Reason::ObjectUpdated);
        }
    }
}

/// The recipient of deletions of main objects.
pub(super) struct MainDeletions<F> {
    /// The deletions for the deletion handler, if there is one.
    pub(super) recorded: Option<Arc<Deletions<F>>>,
    pub(super) sharding: Option<Sharding>,
}

impl<F: Form> MainDeletions<F>
where
    KubeMeta: Meta<F>,
{
    /// Forgets the failures of a deleted object, and requests a call of the deletion handler.
    fn record(
        &self,
        old: &Arc<F>,
        last: &DeltaObject<F>,
        cause: Cause,
        schedule: &Schedule,
        user_calls: &mut FirstPanic,
    ) {
        let Some(key) = key_of(&**old) else { return };
        // The name may be reused, and the new object must not inherit the failures of this one.
        // The retry policy is user code.
        user_calls.call(|| schedule.forget(&key));
        let sharding = self.sharding.as_ref();
        let shard = sharding.and_then(|sharding| sharding.shard_of_object(&KubeMeta, &**old));
        // The next owner of the shard must not call the handler for what happened before.
        let is_deleted = !cause.may_exist() && admit(sharding, shard).is_some();
        if let Some(recorded) = self.recorded.as_ref().filter(|_| is_deleted) {
            recorded.push(key.clone(), Deletion::new(old, last, shard));
            schedule.request_deletion_call(key);
        }
    }
}

/// The source and the configuration of an informer that is not built yet.
pub(super) struct Listing {
    pub(super) source: Arc<KubeListerWatcher>,
    /// The namespaces that are listed and watched separately; `None` for a single list and watch.
    pub(super) namespaces: Option<Namespaces>,
    pub(super) config: watcher::Config,
}

impl Listing {
    fn build<K: Decodable>(&self, errors: &mpsc::Sender<watcher::Error>) -> OwnedInformer<K>
    where
        KubeMeta: Meta<K>,
    {
        let source = Arc::clone(&self.source);
        let resource = source.scope().0.to_owned();
        let builder = match &self.namespaces {
            Some(namespaces) => SharedInformer::<K>::in_namespaces(namespaces, move |namespace| {
                source.in_namespace(namespace)
            }),
            None => SharedInformer::<K>::builder(source),
        };
        let builder = builder.reflector(as_configured(self.config.clone()));
        OwnedInformer::build(resource, builder, errors)
    }
}
