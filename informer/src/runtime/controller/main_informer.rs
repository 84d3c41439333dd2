//! The informer of a controller's main objects.

use std::sync::{Arc, OnceLock};

use deltafifo::{Labels, Meta};
use tokio::sync::mpsc;

use super::error::RunnerError;
use super::source::{OwnedInformer, as_configured};
use crate::KubeMeta;
use crate::lister_watcher::{KubeListerWatcher, ListerWatcher};
use crate::reflector::Decodable;
use crate::runtime::form::Form;
use crate::runtime::reflector::Store;
use crate::runtime::watcher;
use crate::shared_informer::{Namespaces, SharedInformer};

/// The informer of a controller's main objects.
pub(super) enum MainInformer<F: Form>
where
    KubeMeta: Meta<F>,
{
    /// A shared informer, which the user runs.
    Shared(SharedInformer<F>),
    /// An informer that the controller runs. It is built on first use.
    Own { listing: Listing, built: OnceLock<OwnedInformer<F>> },
    /// No informer, because the controller was to become compact after its informer was built.
    #[cfg(feature = "compact")]
    NotCompact,
}

impl<F: Form> MainInformer<F>
where
    KubeMeta: Meta<F>,
{
    /// Returns an informer that is not built yet.
    pub(super) fn own(listing: Listing) -> Self {
        Self::Own { listing, built: OnceLock::new() }
    }
}

impl<F: Form + Decodable> MainInformer<F>
where
    KubeMeta: Labels<F>,
{
    /// Returns the store of the informer, which is built first if necessary and then sends its
    /// errors to `errors`.
    pub(super) fn store(&self, errors: &mpsc::Sender<watcher::Error>) -> Store<F> {
        match self {
            Self::Shared(informer) => Store::of(informer),
            Self::Own { listing, built } => {
                Store::of(built.get_or_init(|| listing.build(errors)).informer())
            }
            #[cfg(feature = "compact")]
            Self::NotCompact => Store::ended(),
        }
    }

    /// Returns the informer, and its owner if the controller has to run it.
    ///
    /// # Errors
    /// [`RunnerError::NotCompact`] if there is no informer.
    #[cfg_attr(not(feature = "compact"), allow(clippy::unnecessary_wraps))]
    pub(super) fn into_parts(
        self,
        errors: &mpsc::Sender<watcher::Error>,
    ) -> Result<(SharedInformer<F>, Option<OwnedInformer<F>>), RunnerError> {
        match self {
            Self::Shared(informer) => Ok((informer, None)),
            Self::Own { listing, built } => {
                let own = built.into_inner().unwrap_or_else(|| listing.build(errors));
                Ok((own.informer().clone(), Some(own)))
            }
            #[cfg(feature = "compact")]
            Self::NotCompact => {
                tracing::error!("{}; the controller ends", RunnerError::NotCompact);
                Err(RunnerError::NotCompact)
            }
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
