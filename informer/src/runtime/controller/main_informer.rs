//! The informer of a controller's main objects.

use std::sync::{Arc, OnceLock};

use deltafifo::Meta;
use tokio::sync::mpsc;

use super::source::{Failure, OwnedInformer, as_configured};
use crate::KubeMeta;
use crate::lister_watcher::{KubeListerWatcher, ListerWatcher};
use crate::reflector::Decodable;
use crate::runtime::watcher;
use crate::shared_informer::{Namespaces, SharedInformer};

/// The informer of a controller's main objects.
pub(super) enum MainInformer<K: Send + Sync + 'static>
where
    KubeMeta: Meta<K>,
{
    /// A shared informer, which the user runs.
    Shared(SharedInformer<K>),
    /// An informer that the controller runs. It is built on first use.
    Own { listing: Listing, built: OnceLock<OwnedInformer<K, KubeMeta>> },
}

impl<K: Decodable> MainInformer<K>
where
    KubeMeta: Meta<K>,
{
    /// Returns the informer, and builds it first if that was not done yet. An informer that is
    /// built here sends its errors to `errors`.
    pub(super) fn get(&self, errors: &mpsc::Sender<Failure>) -> &SharedInformer<K> {
        match self {
            Self::Shared(informer) => informer,
            Self::Own { listing, built } => built.get_or_init(|| listing.build(errors)).informer(),
        }
    }

    /// Returns the informer like [`get`](Self::get), and its owner if the controller has to run it.
    pub(super) fn into_parts(
        self,
        errors: &mpsc::Sender<Failure>,
    ) -> (SharedInformer<K>, Option<OwnedInformer<K, KubeMeta>>) {
        let informer = self.get(errors).clone();
        let own = match self {
            Self::Shared(_) => None,
            Self::Own { built, .. } => built.into_inner(),
        };
        (informer, own)
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
    fn build<K: Decodable>(&self, errors: &mpsc::Sender<Failure>) -> OwnedInformer<K, KubeMeta>
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
