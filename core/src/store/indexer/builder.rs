//! The builder of a store.

use super::super::{Core, IndexReader, Indexers, Transformer};
use super::Indexer;
use crate::engine::sync::{Arc, Event};
use crate::error::{BoxError, IndexError};
use crate::store::applied::Source;
use crate::{KeyFunc, Meta};

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
