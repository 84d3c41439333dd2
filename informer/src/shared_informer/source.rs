//! The sources of an informer's objects: a reflector, a reflector for each of several namespaces,
//! one for the selected shards of a group, or a kube watcher.

use std::sync::Arc;

use tokio::sync::watch;

use super::delivery::Cause;
use super::error::{InformerError, OnError};
use super::namespaces::{NamespaceReflectors, NamespaceStatus, NamespacesPlan};
#[cfg(feature = "runtime")]
use super::stream::{Events, StreamFeeder};
use crate::ReflectorError;
use crate::lister_watcher::ListerWatcher;
use crate::reflector::{Decoding, Reflector, ReflectorBuilder, Scoped, WatchStatus};
#[cfg(feature = "leader-election")]
use crate::sharding::{ShardFeeder, ShardPlan};

type ReflectorSettings<K> =
    Box<dyn FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K> + Send + Sync>;

/// The source of an informer that is not built yet.
pub(super) enum InformerSource<K> {
    /// Lists and watches, and the settings that the user chose for their reflectors.
    Lists { lists: ListSource, decoding: Decoding<K>, settings: ReflectorSettings<K> },
    /// A stream of the events of a kube watcher.
    #[cfg(feature = "runtime")]
    Stream(Events<K>),
}

/// A source of lists and watches.
pub(super) enum ListSource {
    /// The source of one reflector.
    Whole(Arc<dyn ListerWatcher>),
    /// The sources of a reflector for each namespace.
    Namespaces(NamespacesPlan),
    /// The source of a reflector of the selected shards.
    #[cfg(feature = "leader-election")]
    Shards(ShardPlan),
}

impl<K: Send + Sync + 'static> InformerSource<K> {
    pub(super) fn lists(lists: ListSource, decoding: Decoding<K>) -> Self {
        Self::Lists { lists, decoding, settings: Box::new(|reflector| reflector) }
    }

    /// Adds settings of the reflector. Does nothing for a stream.
    pub(super) fn configure(
        &mut self,
        configure: impl FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K> + Send + Sync + 'static,
    ) {
        match self {
            Self::Lists { settings, .. } => {
                let before = std::mem::replace(settings, Box::new(|reflector| reflector));
                *settings = Box::new(move |reflector| configure(before(reflector)));
            }
            #[cfg(feature = "runtime")]
            Self::Stream(_) => {}
        }
    }

    /// Returns the cause of the removal of an object that may still exist.
    pub(super) fn removal_cause(&self) -> Cause {
        match self {
            #[cfg(feature = "leader-election")]
            Self::Lists { lists: ListSource::Shards(_), .. } => Cause::ShardMoved,
            _ => Cause::NamespaceRemoved,
        }
    }

    /// Returns the resource and the namespace, in the form of [`ListerWatcher::scope`].
    pub(super) fn scope(&self) -> (String, String) {
        let (resource, namespace) = match self {
            Self::Lists { lists, .. } => match lists {
                ListSource::Whole(source) => source.scope(),
                ListSource::Namespaces(plan) => (plan.resource(), "several namespaces"),
                #[cfg(feature = "leader-election")]
                ListSource::Shards(plan) => plan.scope(),
            },
            #[cfg(feature = "runtime")]
            Self::Stream(_) => ("", ""),
        };
        (resource.to_owned(), namespace.to_owned())
    }

    /// Returns whether the source cannot feed an in-order queue.
    pub(super) fn needs_queue_by_key(&self) -> bool {
        match self {
            #[cfg(feature = "leader-election")]
            Self::Lists { lists: ListSource::Shards(_), .. } => true,
            _ => false,
        }
    }

    /// Returns the feeder that offers the objects to `queue`, for an informer with this name.
    pub(super) fn feeder(
        self,
        queue: Arc<dyn Scoped<K>>,
        name: String,
        on_error: OnError,
        availability: watch::Sender<Availability>,
    ) -> Feeder<K> {
        let (lists, decoding, settings) = match self {
            Self::Lists { lists, decoding, settings } => (lists, decoding, settings),
            #[cfg(feature = "runtime")]
            Self::Stream(events) => {
                let on_error = reported(on_error, availability);
                return Feeder::Stream(events.into_feeder(queue, Box::new(on_error)));
            }
        };
        match lists {
            ListSource::Whole(source) => {
                let reflector = settings(ReflectorBuilder::new(Box::new(source), queue, decoding))
                    .on_error(reported(on_error, availability))
                    .name(name);
                Feeder::Reflector(Box::new(reflector.build()))
            }
            ListSource::Namespaces(plan) => {
                let reflectors =
                    plan.into_reflectors(queue, name, decoding, settings, on_error, availability);
                Feeder::Namespaces(Box::new(reflectors))
            }
            #[cfg(feature = "leader-election")]
            ListSource::Shards(plan) => {
                let queue = queue.sharded().expect("the builder refuses an in-order queue");
                let settings = |reflector| {
                    settings(reflector).on_error(reported(on_error, availability)).name(name)
                };
                Feeder::Shards(Box::new(plan.into_feeder(queue, decoding, settings)))
            }
        }
    }
}

/// Returns the error handler of a reflector or of a stream. It records in `availability` that the
/// server has refused a list, and reports every error to `on_error`.
fn reported(
    on_error: OnError,
    availability: watch::Sender<Availability>,
) -> impl Fn(&ReflectorError) + Send + Sync + 'static {
    move |error| {
        if error.is_unavailable() {
            availability.send_if_modified(Availability::refused);
        }
        on_error.report(&InformerError::Reflector(error));
    }
}

/// The availability of an informer's initial list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Unknown,
    /// The server answered that it does not have the resource (404), or does not allow it to be
    /// listed (403).
    Refused,
    /// The initial list has arrived. A later refusal does not change this.
    #[cfg(feature = "runtime")]
    Listed,
}

impl Availability {
    /// Records that the server has refused a list. Returns whether that changes the value.
    pub(super) fn refused(&mut self) -> bool {
        self.change(Self::Unknown, Self::Refused)
    }

    /// Records that the server no longer refuses lists. Returns whether that changes the value.
    pub(super) fn accepted(&mut self) -> bool {
        self.change(Self::Refused, Self::Unknown)
    }

    fn change(&mut self, from: Self, to: Self) -> bool {
        let changes = *self == from;
        if changes {
            *self = to;
        }
        changes
    }
}

/// The part of an informer that offers the objects of its source to its queue.
pub(super) enum Feeder<K> {
    Reflector(Box<Reflector<K>>),
    Namespaces(Box<NamespaceReflectors<K>>),
    #[cfg(feature = "leader-election")]
    Shards(Box<ShardFeeder<K>>),
    #[cfg(feature = "runtime")]
    Stream(StreamFeeder<K>),
}

impl<K: Send + Sync + 'static> Feeder<K> {
    /// Feeds the queue until the queue is closed, or the stream has ended.
    pub(super) async fn run(&self) {
        match self {
            Self::Reflector(reflector) => {
                let _closed = reflector.run().await;
            }
            Self::Namespaces(reflectors) => reflectors.run().await,
            #[cfg(feature = "leader-election")]
            Self::Shards(shards) => shards.run().await,
            #[cfg(feature = "runtime")]
            Self::Stream(feeder) => feeder.run().await,
        }
    }

    /// Returns the version up to which all changes were offered to the queue.
    pub(super) fn last_version(&self) -> Option<String> {
        match self {
            Self::Reflector(reflector) => reflector.last_sync_resource_version(),
            Self::Namespaces(reflectors) => reflectors.last_version(),
            #[cfg(feature = "leader-election")]
            Self::Shards(shards) => shards.last_version(),
            #[cfg(feature = "runtime")]
            Self::Stream(feeder) => feeder.last_version(),
        }
    }

    pub(super) fn watch_status(&self) -> WatchStatus {
        match self {
            Self::Reflector(reflector) => reflector.watch_status(),
            Self::Namespaces(reflectors) => reflectors.watch_status(),
            #[cfg(feature = "leader-election")]
            Self::Shards(shards) => shards.watch_status(),
            #[cfg(feature = "runtime")]
            Self::Stream(feeder) => feeder.watch_status(),
        }
    }

    /// Leaves the group of an informer of a member's shards, so that hand-overs do not wait for it.
    #[cfg(feature = "leader-election")]
    pub(super) fn leave_group(&self) {
        if let Self::Shards(shards) = self {
            shards.leave();
        }
    }

    /// Returns the state of each namespace. Empty unless the informer has a set of namespaces.
    pub(super) fn namespace_status(&self) -> Vec<NamespaceStatus> {
        if let Self::Namespaces(reflectors) = self { reflectors.status() } else { Vec::new() }
    }
}

impl<K: Send + Sync + 'static> Feeder<K> {
    /// Returns the upkeep of the objects: it trains dictionaries and packs objects again. Returns
    /// `None` if the objects are not compact.
    #[cfg(feature = "compact")]
    pub(super) fn upkeep(&self) -> Option<Arc<dyn crate::compact::Upkeep<K>>> {
        match self {
            Self::Reflector(reflector) => reflector.upkeep(),
            Self::Namespaces(reflectors) => reflectors.upkeep(),
            #[cfg(feature = "leader-election")]
            Self::Shards(shards) => shards.upkeep(),
            #[cfg(feature = "runtime")]
            Self::Stream(_) => None,
        }
    }

    /// Returns whether all work has ended, including work that a dropped run leaves behind.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Reflector(reflector) => reflector.work().is_idle(),
            Self::Namespaces(reflectors) => reflectors.is_idle(),
            #[cfg(feature = "leader-election")]
            Self::Shards(shards) => shards.is_idle(),
            #[cfg(feature = "runtime")]
            Self::Stream(feeder) => feeder.work().is_idle(),
        }
    }

    /// Waits until all work has ended, including work that a dropped run leaves behind.
    pub(super) async fn wait_idle(&self) {
        match self {
            Self::Reflector(reflector) => reflector.work().wait_idle().await,
            Self::Namespaces(reflectors) => reflectors.wait_idle().await,
            #[cfg(feature = "leader-election")]
            Self::Shards(shards) => shards.wait_idle().await,
            #[cfg(feature = "runtime")]
            Self::Stream(feeder) => feeder.work().wait_idle().await,
        }
    }
}
