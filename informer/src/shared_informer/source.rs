//! Where an informer's objects come from: what a reflector lists and watches, or what a watcher of
//! kube's tells.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::error::{InformerError, OnError};
#[cfg(feature = "runtime")]
use super::stream::{Events, Told};
use crate::ReflectorError;
use crate::lister_watcher::ListerWatcher;
use crate::reflector::{Reflector, ReflectorBuilder, Target, WatchStatus};
use crate::shares::Shares;

type Choose<K> = Box<dyn FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K> + Send + Sync>;

/// As it was said to a builder.
pub(super) enum Source<K> {
    /// By a reflector with what is chosen.
    Lists(Arc<dyn ListerWatcher>, Choose<K>),
    #[cfg(feature = "runtime")]
    Stream(Events<K>),
}

impl<K: DeserializeOwned + Send + Sync + 'static> Source<K> {
    pub(super) fn lists(source: impl ListerWatcher) -> Self {
        Self::Lists(Arc::new(source), Box::new(|reflector| reflector))
    }

    /// Chooses for the reflector, if there is one.
    pub(super) fn choose(
        &mut self,
        choice: impl FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K> + Send + Sync + 'static,
    ) {
        match self {
            Self::Lists(_, choose) => {
                let before = std::mem::replace(choose, Box::new(|reflector| reflector));
                *choose = Box::new(move |reflector| choice(before(reflector)));
            }
            #[cfg(feature = "runtime")]
            Self::Stream(_) => {}
        }
    }

    /// Resource and namespace, as [`ListerWatcher::scope`] says them.
    pub(super) fn scope(&self) -> (String, String) {
        let (resource, namespace) = match self {
            Self::Lists(source, _) => source.scope(),
            #[cfg(feature = "runtime")]
            Self::Stream(_) => ("", ""),
        };
        (resource.to_owned(), namespace.to_owned())
    }

    /// Returns the feeder that brings it into `target`, for an informer of this name.
    pub(super) fn feeder(
        self,
        target: Arc<dyn Target<K>>,
        name: String,
        on_error: OnError,
        availability: watch::Sender<Availability>,
    ) -> Feeder<K> {
        let on_error = move |error: &ReflectorError| {
            if error.is_unavailable() {
                availability.send_if_modified(Availability::refused);
            }
            on_error.tell(&InformerError::Reflector(error));
        };
        match self {
            Self::Lists(source, choose) => {
                let reflector =
                    choose(ReflectorBuilder::new(Box::new(source), target)).on_error(on_error);
                Feeder::Reflector(Box::new(reflector.name(name).build()))
            }
            #[cfg(feature = "runtime")]
            Self::Stream(events) => Feeder::Stream(events.into_told(target, Box::new(on_error))),
        }
    }
}

/// Whether an informer can have its first list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Unknown,
    /// The server said that it does not have the resource (404), or does not allow it to be listed
    /// (403).
    Refused,
    /// The first list has come. Refusals after that concern nobody who waits for it.
    #[cfg(feature = "runtime")]
    Listed,
}

impl Availability {
    /// Returns whether this changes it.
    fn refused(&mut self) -> bool {
        let was_unknown = *self == Self::Unknown;
        if was_unknown {
            *self = Self::Refused;
        }
        was_unknown
    }
}

/// What brings it.
pub(super) enum Feeder<K> {
    Reflector(Box<Reflector<K>>),
    #[cfg(feature = "runtime")]
    Stream(Told<K>),
}

impl<K: DeserializeOwned + Send + Sync + 'static> Feeder<K> {
    /// Feeds the queue until that is closed, or there is no more.
    pub(super) async fn run(&self) {
        match self {
            Self::Reflector(reflector) => {
                let _closed = reflector.run().await;
            }
            #[cfg(feature = "runtime")]
            Self::Stream(told) => told.run().await,
        }
    }

    /// Up to which everything was brought.
    pub(super) fn last_version(&self) -> Option<String> {
        match self {
            Self::Reflector(reflector) => reflector.last_sync_resource_version(),
            #[cfg(feature = "runtime")]
            Self::Stream(told) => told.last_version(),
        }
    }

    pub(super) fn watch_status(&self) -> WatchStatus {
        match self {
            Self::Reflector(reflector) => reflector.watch_status(),
            #[cfg(feature = "runtime")]
            Self::Stream(told) => told.watch_status(),
        }
    }
}

impl<K: Send + Sync + 'static> Feeder<K> {
    /// Held by what goes on when its run is dropped.
    pub(super) fn shares(&self) -> &Shares {
        match self {
            Self::Reflector(reflector) => reflector.shares(),
            #[cfg(feature = "runtime")]
            Self::Stream(told) => told.shares(),
        }
    }
}
