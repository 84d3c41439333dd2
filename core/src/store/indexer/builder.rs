//! The builder of a store.

use super::super::{Core, IndexReader, Indexers, Transformer};
use super::Indexer;
use crate::engine::sync::{Arc, Event};
use crate::error::{BoxError, IndexError};
use crate::store::applied::Source;
use crate::{Fields, KeyFunc, Labels, Meta, Owners};

/// A builder of an [`Indexer`], created by [`Indexer::builder`].
pub struct IndexerBuilder<T, M> {
    keys: KeyFunc<T, M>,
    indexers: Indexers<T>,
    transformer: Option<Transformer<T>>,
}

impl<T, M: Meta<T>> IndexerBuilder<T, M> {
    pub(super) fn new(keys: KeyFunc<T, M>) -> Self {
        Self { keys, indexers: Indexers::new(), transformer: None }
    }

    /// Adds an index. Its function returns any number of values, and must return the same ones for
    /// the same object. It runs with no lock held. [`IndexReader::add_indexers`] adds indexes
    /// later.
    #[must_use]
    pub fn index(
        mut self,
        name: &str,
        function: impl Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.indexers = self.indexers.index(name, function);
        self
    }

    /// Adds an index of the values of label `key`, for [`Lister::select`]. The name of the index is
    /// `label:` and the key.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use std::sync::Arc;
    /// # use deltafifo::{Indexer, KeyFunc, Labels, Lister, Meta};
    /// # struct Pod { name: &'static str, labels: BTreeMap<&'static str, &'static str> }
    /// # #[derive(Clone)]
    /// # struct PodMeta;
    /// # impl Meta<Pod> for PodMeta {
    /// #     fn namespace<'a>(&self, _: &'a Pod) -> Option<&'a str> { None }
    /// #     fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(pod.name) }
    /// # }
    /// # impl Labels<Pod> for PodMeta {
    /// #     fn label<'a>(&self, pod: &'a Pod, key: &str) -> Option<&'a str> {
    /// #         pod.labels.get(key).copied()
    /// #     }
    /// # }
    /// let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta)).label("app").build()?;
    /// for (name, tier) in [("a", "front"), ("b", "back")] {
    ///     let labels = BTreeMap::from([("app", "web"), ("tier", tier)]);
    ///     store.add(Arc::new(Pod { name, labels }))?;
    /// }
    /// // Checks the two objects of `app=web`, and no others.
    /// let front = Lister::new(store.reader()).select(&"app=web, tier!=back".parse()?);
    /// assert_eq!(front.iter().map(|pod| pod.name).collect::<Vec<_>>(), ["a"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Lister::select`]: crate::Lister::select
    #[must_use]
    pub fn label(mut self, key: &str) -> Self
    where
        M: Labels<T> + Clone,
    {
        self.indexers = self.indexers.label(self.keys.meta().clone(), key);
        self
    }

    /// Adds the index [`OWNER_INDEX`](crate::OWNER_INDEX) of the uids of the owners.
    ///
    /// ```
    /// # use std::borrow::Cow;
    /// # use std::sync::Arc;
    /// # use deltafifo::{Indexer, KeyFunc, Meta, OWNER_INDEX, Owners};
    /// struct Pod { name: &'static str, owner: &'static str }
    /// # #[derive(Clone)]
    /// # struct PodMeta;
    /// # impl Meta<Pod> for PodMeta {
    /// #     fn namespace<'a>(&self, _: &'a Pod) -> Option<&'a str> { None }
    /// #     fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(pod.name) }
    /// # }
    /// impl Owners<Pod> for PodMeta {
    ///     fn owners<'a>(&self, pod: &'a Pod) -> Vec<Cow<'a, str>> { vec![pod.owner.into()] }
    /// }
    /// let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta)).owners().build()?;
    /// store.add(Arc::new(Pod { name: "a", owner: "uid-of-web" }))?;
    /// assert_eq!(store.index_keys(OWNER_INDEX, "uid-of-web")?, ["a"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn owners(mut self) -> Self
    where
        M: Owners<T> + Clone,
    {
        self.indexers = self.indexers.owners(self.keys.meta().clone());
        self
    }

    /// Adds an index of the field that the JSON pointer `pointer` names. The name of the index is
    /// `field:` and the pointer.
    ///
    /// ```
    /// # use std::borrow::Cow;
    /// # use std::sync::Arc;
    /// # use deltafifo::{BoxError, Fields, Indexer, KeyFunc, Meta};
    /// struct Pod { name: &'static str, node: &'static str }
    /// # #[derive(Clone)]
    /// # struct PodMeta;
    /// # impl Meta<Pod> for PodMeta {
    /// #     fn namespace<'a>(&self, _: &'a Pod) -> Option<&'a str> { None }
    /// #     fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(pod.name) }
    /// # }
    /// impl Fields<Pod> for PodMeta {
    ///     fn field<'a>(
    ///         &self,
    ///         pod: &'a Pod,
    ///         pointer: &str,
    ///     ) -> Result<Option<Cow<'a, str>>, BoxError> {
    ///         match pointer {
    ///             "/spec/nodeName" => Ok(Some(pod.node.into())),
    ///             _ => Err(format!("a pod has no field {pointer:?}").into()),
    ///         }
    ///     }
    /// }
    /// let keys = KeyFunc::meta_namespace(PodMeta);
    /// let store = Indexer::builder(keys).field("/spec/nodeName").build()?;
    /// store.add(Arc::new(Pod { name: "a", node: "n1" }))?;
    /// assert_eq!(store.index_keys("field:/spec/nodeName", "n1")?, ["a"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn field(mut self, pointer: &str) -> Self
    where
        M: Fields<T> + Clone,
    {
        self.indexers = self.indexers.field(self.keys.meta().clone(), pointer);
        self
    }

    /// Sets a function that changes objects before they are stored (client-go `WithTransformer`),
    /// for example to drop unused fields. It must not change the key. If it fails or panics, the
    /// object is not stored. It runs with no lock held. A queue that takes the store takes the
    /// function too, and calls it before objects are queued.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{Indexer, KeyFunc, NoMeta};
    ///
    /// struct Pod { name: &'static str, managed_fields: String }
    /// let keys = KeyFunc::custom(NoMeta, |pod: &Pod| Ok(pod.name.to_owned()));
    /// let slim = |pod: Arc<Pod>| {
    ///     Ok(Arc::new(Pod { name: pod.name, managed_fields: String::new() }))
    /// };
    /// let store = Indexer::builder(keys).transformer(slim).build()?;
    /// store.add(Arc::new(Pod { name: "web", managed_fields: "much".to_owned() }))?;
    /// assert_eq!(store.get_by_key("web").unwrap().managed_fields, "");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "WithTransformer")]
    #[doc(alias = "TransformFunc")]
    #[must_use]
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.transformer = Some(crate::store::transformer(transformer));
        self
    }

    /// Builds an empty store.
    ///
    /// # Errors
    /// [`IndexError::Conflict`] if a name is given twice or is
    /// [`NAMESPACE_INDEX`](crate::NAMESPACE_INDEX).
    pub fn build(self) -> Result<Indexer<T, M>, IndexError> {
        let core = Arc::new(Core::new(self.keys, self.indexers)?);
        let source = Source::of(&core.applied);
        Ok(Indexer {
            reader: IndexReader { core },
            source,
            transformer: self.transformer,
            ended: Event::new(),
        })
    }
}
