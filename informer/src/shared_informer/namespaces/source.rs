//! The constructor of an informer of a set of namespaces.

use deltafifo::{KeyFunc, Meta};

use super::{Namespaces, NamespacesPlan};
use crate::KubeMeta;
use crate::lister_watcher::ListerWatcher;
use crate::reflector::Decodable;
use crate::shared_informer::source::{InformerSource, ListSource};
use crate::shared_informer::{SharedInformer, SharedInformerBuilder};

impl<K: Decodable> SharedInformer<K>
where
    KubeMeta: Meta<K>,
{
    /// Returns a builder of an informer of the objects of some namespaces, each of which is listed
    /// and watched separately: see [`Namespaces`]. `source` makes the lister-watcher of a
    /// namespace. It is called once with `""`, to get the name of the resource, and then for each
    /// namespace that is added. Keys are `namespace/name`; the kind must be namespaced.
    ///
    /// The settings of the [reflector](SharedInformerBuilder::reflector) apply to each namespace,
    /// except for the limit of bytes in flight, which all namespaces share.
    ///
    /// ```
    /// # fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use deltafifo_informer::shared_informer::Namespaces;
    /// use deltafifo_informer::{KubeListerWatcher, SharedInformer};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = KubeListerWatcher::new::<Pod>(client, &(), None);
    /// let informer = SharedInformer::<Pod>::in_namespaces(
    ///     &Namespaces::new(["blue", "green"])?,
    ///     move |namespace| pods.in_namespace(namespace),
    /// )
    /// .build()?;
    /// # let _ = informer;
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_namespaces<S: ListerWatcher>(
        namespaces: &Namespaces,
        source: impl Fn(&str) -> S + Send + Sync + 'static,
    ) -> SharedInformerBuilder<K, KubeMeta> {
        let source = move |namespace: &str| Box::new(source(namespace)) as Box<dyn ListerWatcher>;
        let plan = NamespacesPlan::new(namespaces.clone(), Box::new(source));
        SharedInformerBuilder::new(
            InformerSource::lists(ListSource::Namespaces(plan), Box::new(K::decoder)),
            KeyFunc::meta_namespace(KubeMeta),
        )
    }
}
