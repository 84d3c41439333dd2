//! A lister-watcher of the objects of selected shards.
//!
//! A server that shards is asked for these objects only. A server that does not ignores the request
//! silently, and a server that shards lists may not shard watches, so every object is also checked
//! here, in its raw JSON. An object of another shard is dropped before it is decoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use deltafifo::ResourceVersion;
use deltafifo::locks::Mutex;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::StreamExt;

use super::listed::ListedKeys;
use crate::lister_watcher::{
    EventType, KubeListerWatcher, ListRequest, ListStream, Listed, ListerWatcher, ObjectLimit,
    RawEvent, RequestError, TooLarge, WatchRequest, WatchStream, is_point_in_time,
};
use crate::metrics::Named;
use crate::sharding::ObjectId;
use crate::sharding::hash::ShardBy;
use crate::sharding::metrics::Metrics;
use crate::sharding::shards::{ShardCount, ShardSet};
use crate::wire::{Head, LARGE, bookmark, ends_initial_events, uid};

/// An object does not have the property that decides its shard.
#[derive(Debug, thiserror::Error)]
#[error(
    "an object has no {}, by which the group shards, so no list or watch of this kind is used; shard \
     this kind by ShardBy::Key",
    _0.as_str()
)]
struct NoProperty(ShardBy);

/// A lister-watcher of the objects of selected shards. The feeder selects the shards before each
/// request; the stream of a response keeps those that were selected at its request.
pub(super) struct Filter {
    source: KubeListerWatcher,
    by: ShardBy,
    count: ShardCount,
    /// The shards of the group.
    all: ShardSet,
    selected: Mutex<Arc<Selected>>,
    /// The keys of the lists of added shards, if the group shards by uid.
    keys: Mutex<ListedKeys>,
    /// The number of objects of each shard in the list in progress, or in the last one. `None` if
    /// the server selects, or the group does not shard by namespace.
    counts: Mutex<Option<Vec<usize>>>,
    /// Whether the server has refused a selector in a way that it would repeat.
    refuses_selectors: AtomicBool,
    /// Whether the server has failed to answer a request with a selector, and has answered it
    /// without one.
    has_failed: AtomicBool,
    metrics: Arc<Named<Metrics>>,
}

#[derive(Clone, Default)]
struct Selected {
    shards: ShardSet,
    /// For each shard the version of the list from which its objects come, if the watch continues
    /// from an older version. Events up to this version are older than the listed objects.
    floors: Vec<Option<ResourceVersion>>,
}

impl Filter {
    pub(super) fn new(
        source: KubeListerWatcher,
        by: ShardBy,
        count: ShardCount,
        metrics: Arc<Named<Metrics>>,
    ) -> Self {
        let selected = Selected { floors: vec![None; count.get()], ..Selected::default() };
        Self {
            source,
            by,
            count,
            all: count.all().collect(),
            selected: Mutex::new(Arc::new(selected)),
            keys: Mutex::default(),
            counts: Mutex::default(),
            refuses_selectors: AtomicBool::default(),
            has_failed: AtomicBool::default(),
            metrics,
        }
    }

    /// Selects the shards of later requests.
    pub(super) fn select(&self, shards: ShardSet) {
        Arc::make_mut(&mut *self.selected.lock()).shards = shards;
    }

    /// Begins a list of added shards. The caller selects these shards.
    pub(super) fn begin_subset(&self) {
        if self.by == ShardBy::Uid {
            self.keys.lock().begin();
        }
    }

    /// Ends a list of added shards, with its version if it is complete.
    pub(super) fn end_subset(&self, shards: ShardSet, version: Option<&str>) {
        self.keys.lock().end(version.and_then(ResourceVersion::parse));
        if let Some(version) = version {
            self.set_floor(shards, version);
        }
    }

    /// Returns the number of objects of each shard in the list that has ended, or `None` if it did
    /// not have the objects of all shards.
    pub(super) fn take_counts(&self) -> Option<Vec<usize>> {
        self.counts.lock().take()
    }

    /// Begins to count the objects of a list, unless the server may select them and not say so.
    /// Only namespaces make shards of unequal size.
    fn begin_counts(&self, selected: ShardSet) {
        let may_select = !self.source.lists_have_shard_info() && self.selector(selected).is_some();
        let counts = self.by == ShardBy::Namespace && !may_select;
        *self.counts.lock() = counts.then(|| vec![0; self.count.get()]);
    }

    /// Drops the events of these shards up to `version`, at which their objects were listed.
    fn set_floor(&self, shards: ShardSet, version: &str) {
        let version = ResourceVersion::parse(version);
        let mut selected = self.selected.lock();
        let floors = (0..).zip(&mut Arc::make_mut(&mut *selected).floors);
        for (_, floor) in floors.filter(|(shard, _)| shards.contains(*shard)) {
            floor.clone_from(&version);
        }
    }

    /// Removes the floors above the version of a list of everything: the server was restored from a
    /// backup, and newer objects may have lower versions.
    fn listed(&self, version: &str) {
        if let Some(version) = ResourceVersion::parse(version) {
            let is_above = |floor: &ResourceVersion| version < *floor;
            let mut selected = self.selected.lock();
            for floor in &mut Arc::make_mut(&mut *selected).floors {
                floor.take_if(|floor| is_above(floor));
            }
            drop(selected);
            self.keys.lock().listed(&version);
        }
    }

    /// Returns the shard of a known object, which the filter has passed. `None` if a transform has
    /// dropped the property that decides the shard.
    pub(super) fn shard_of_known(&self, id: ObjectId<'_>) -> Option<u8> {
        self.by.shard_of(id, self.count)
    }

    fn shard_of(&self, id: ObjectId<'_>) -> Result<u8, RequestError> {
        let shard = self.by.shard_of(id, self.count);
        shard.ok_or_else(|| RequestError::Wire(NoProperty(self.by).into()))
    }

    /// Returns the shard of a raw object, and its head.
    fn read<'o>(&self, object: &'o [u8]) -> Result<(u8, Head<'o>), RequestError> {
        let head = Head::of(object)?;
        // Not a part of `Head`, which would have to read further to find it.
        let uid = if self.by == ShardBy::Uid { uid(object)? } else { "".into() };
        let id = ObjectId { namespace: &head.namespace, name: &head.name, uid: &uid };
        Ok((self.shard_of(id)?, head))
    }

    /// Returns whether an object that was skipped because of its size may be in the selection. Its
    /// uid is not known.
    fn may_contain(&self, selected: &Selected, large: &TooLarge) -> Result<bool, RequestError> {
        if self.by == ShardBy::Uid {
            return Ok(true);
        }
        let TooLarge { namespace, name, .. } = large;
        let shard = self.shard_of(ObjectId { namespace, name, uid: "" })?;
        Ok(selected.shards.contains(shard))
    }

    /// Drops the objects of other shards from a part of a list.
    fn filter_list(
        &self,
        selected: &Selected,
        listed: Result<Listed, RequestError>,
    ) -> Result<Listed, RequestError> {
        match listed {
            Ok(Listed::Meta(mut meta)) => {
                self.listed(&meta.resource_version);
                if selected.shards != self.all {
                    // A server counts the objects of all shards, even if it selects. The reflector
                    // would reserve memory for them.
                    meta.remaining = None;
                }
                if meta.is_sharded {
                    *self.counts.lock() = None;
                }
                Ok(Listed::Meta(meta))
            }
            Ok(Listed::Items(items)) => {
                let all = items.len();
                let mut kept = Vec::new();
                let (mut keys, mut counts) = (self.keys.lock(), self.counts.lock());
                for item in items {
                    let (shard, head) = self.read(&item)?;
                    if let Some(counts) = &mut *counts {
                        counts[usize::from(shard)] += 1;
                    }
                    if selected.shards.contains(shard) {
                        keys.add(&head);
                        kept.push(item);
                    }
                }
                if kept.len() < all {
                    kept = kept.into_iter().map(detached).collect();
                }
                // Even if it is empty, it shows that the server is sending.
                Ok(Listed::Items(kept))
            }
            Err(RequestError::TooLarge(large)) if !self.may_contain(selected, &large)? => {
                Ok(Listed::Items(Vec::new()))
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces an event that is not needed by a bookmark of its version. While the watch sends
    /// `initial` events, which come in any order of versions, drops it.
    fn filter_event(
        &self,
        selected: &Selected,
        initial: &mut bool,
        event: Result<RawEvent, RequestError>,
    ) -> Option<Result<RawEvent, RequestError>> {
        let is_initial = *initial;
        let passed = |version: &str| {
            let bookmark = || bookmark(version, false).into();
            (!is_initial).then(|| Ok(RawEvent { kind: EventType::Bookmark, object: bookmark() }))
        };
        match event {
            Ok(RawEvent { kind: EventType::Bookmark, ref object }) => {
                if is_initial && ends_initial_events(object).unwrap_or_default() {
                    *initial = false;
                    if let Ok(head) = Head::of(object) {
                        self.listed(&head.version);
                    }
                } else if !is_initial {
                    self.keys.lock().passed(object);
                }
                Some(event)
            }
            Ok(RawEvent { kind, object }) => {
                let has_listed = |shard, head: &Head<'_>| {
                    selected.has_listed(shard, &head.version) || self.keys.lock().covers(head)
                };
                match self.read(&object) {
                    Ok((shard, head))
                        if selected.shards.contains(shard)
                            && (is_initial || !has_listed(shard, &head)) => {}
                    Ok((_, head)) => return passed(&head.version),
                    Err(error) => return Some(Err(error)),
                }
                let is_all = selected.shards == self.all;
                let object = if is_all { object } else { detached(object) };
                Some(Ok(RawEvent { kind, object }))
            }
            Err(RequestError::TooLarge(ref large)) => match self.may_contain(selected, large) {
                Ok(true) => Some(event),
                Ok(false) => passed(&large.resource_version),
                Err(error) => Some(Err(error)),
            },
            Err(_) => Some(event),
        }
    }

    /// Returns the `shardSelector` of a request for these shards, or `None` if it needs none, or
    /// the server takes none. No selector selects nothing, so a request for no shard has none.
    fn selector(&self, shards: ShardSet) -> Option<String> {
        // Relaxed: the flag guards no other data.
        let is_left_out = shards == self.all
            || shards.is_empty()
            || self.refuses_selectors.load(Ordering::Relaxed);
        self.by.selector(shards, self.count).filter(|_| !is_left_out)
    }

    /// Sends a request for these shards. If the server refuses it, and may have refused its
    /// selector, repeats it without one.
    async fn request<R>(
        &self,
        shards: ShardSet,
        send: impl Fn(KubeListerWatcher) -> BoxFuture<'static, Result<R, RequestError>>,
    ) -> Result<R, RequestError> {
        let selector = self.selector(shards);
        let selects = selector.is_some();
        let refusal = match send(self.source.selecting(selector)).await {
            Err(error) if selects && error.may_be_of_a_parameter() => error,
            answer => return answer,
        };
        let Ok(answer) = send(self.source.selecting(None)).await else { return Err(refusal) };
        self.metrics.record(Metrics::selector_refused);
        // A failure of the server may have another cause, so a later request has a selector again.
        let (is_known, consequence) = if refusal.is_server_failure() {
            (&self.has_failed, "later requests have a selector again")
        } else {
            (&self.refuses_selectors, "this replica receives the objects of all shards from now on")
        };
        // Relaxed: the flags guard no other data.
        if !is_known.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                resource = self.source.scope().0,
                error = crate::error_chain(&refusal),
                "the server did not answer a request with a shardSelector, but answered it without \
                 one, so the answer has the objects of all shards, and this replica drops those of \
                 others; {consequence}"
            );
        }
        Ok(answer)
    }
}

/// Returns the object in memory of its own. Objects wait to be compared or decoded, and until then
/// each one would hold the text of the dropped objects that was received with it. A large object
/// has memory of its own already, with its share of the process's budget.
fn detached(object: Bytes) -> Bytes {
    if object.len() > LARGE { object } else { Bytes::copy_from_slice(&object) }
}

impl Selected {
    /// Returns whether a list of the shard is newer than an event of this version.
    fn has_listed(&self, shard: u8, version: &str) -> bool {
        let floor = self.floors.get(usize::from(shard)).and_then(Option::as_ref);
        floor.is_some_and(|floor| {
            ResourceVersion::parse(version).is_some_and(|version| version <= *floor)
        })
    }
}

impl ListerWatcher for Arc<Filter> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.list_within(request, ObjectLimit::default())
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        self.watch_within(request, ObjectLimit::default())
    }

    fn list_within(
        &self,
        request: ListRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        Box::pin(async move {
            let selected = Arc::clone(&self.selected.lock());
            if request.continue_token.is_none() {
                self.keys.lock().begin_again();
                self.begin_counts(selected.shards);
            }
            let send = |source: KubeListerWatcher| {
                let (request, limit) = (request.clone(), limit.clone());
                async move { source.list_within(request, limit).await }.boxed()
            };
            let list = self.request(selected.shards, send).await?;
            let filter = Arc::clone(self);
            Ok(list.map(move |listed| filter.filter_list(&selected, listed)).boxed())
        })
    }

    fn watch_within(
        &self,
        request: WatchRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        Box::pin(async move {
            let selected = Arc::clone(&self.selected.lock());
            // A watch without a version begins with all objects, too.
            let mut initial =
                request.send_initial_events || !is_point_in_time(&request.resource_version);
            let send = |source: KubeListerWatcher| {
                let (request, limit) = (request.clone(), limit.clone());
                async move { source.watch_within(request, limit).await }.boxed()
            };
            let watch = self.request(selected.shards, send).await?;
            let filter = Arc::clone(self);
            let filter = move |event| ready(filter.filter_event(&selected, &mut initial, event));
            Ok(watch.filter_map(filter).boxed())
        })
    }

    fn types(&self) -> Option<(&str, &str)> {
        self.source.types()
    }

    fn scope(&self) -> (&str, &str) {
        self.source.scope()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::api::storage::v1::VolumeAttachment;
    use kube::{Client, Resource};
    use tower::service_fn;

    use super::*;
    use crate::lister_watcher::PageMeta;

    /// Returns a filter of two shards, over a server that is not asked.
    fn filter() -> Filter {
        filter_of::<ConfigMap>(ShardBy::Key)
    }

    fn filter_of<K: Resource<DynamicType = ()>>(by: ShardBy) -> Filter {
        let service = |_: http::Request<kube::client::Body>| async {
            Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
        };
        let client = Client::new(service_fn(service), "default");
        let source = KubeListerWatcher::new::<K>(client, &(), None);
        let metrics = Arc::new(Metrics::of("shop", "counter"));
        Filter::new(source, by, ShardCount::new(2).unwrap(), metrics)
    }

    /// Returns the counts after a list of the first shard of one object, whose namespace is in it.
    fn counts_of<K: Resource<DynamicType = ()>>(is_sharded: bool) -> Option<Vec<usize>> {
        let filter = filter_of::<K>(ShardBy::Namespace);
        filter.select([0].into_iter().collect());
        let selected = Arc::clone(&filter.selected.lock());
        filter.begin_counts(selected.shards);
        let meta = PageMeta { resource_version: "9".into(), is_sharded, ..PageMeta::default() };
        let item = br#"{"metadata":{"namespace":"shop","name":"a","resourceVersion":"1"}}"#;
        for part in [Listed::Meta(meta), Listed::Items(vec![Bytes::from_static(item)])] {
            filter.filter_list(&selected, Ok(part)).unwrap();
        }
        filter.take_counts()
    }

    #[tokio::test]
    async fn objects_are_not_counted_if_the_server_selects_or_may_have_selected() {
        assert_eq!(counts_of::<ConfigMap>(false), Some(vec![1, 0]));
        assert_eq!(counts_of::<ConfigMap>(true), None);
        // This kind could be a custom one, because its group has a dot.
        assert_eq!(counts_of::<VolumeAttachment>(false), None);
    }

    #[tokio::test]
    async fn number_of_objects_on_later_pages_is_kept_only_if_all_shards_are_listed() {
        let filter = filter();
        let remaining = |shards: &[u8]| {
            let selected =
                Selected { shards: shards.iter().copied().collect(), ..Selected::default() };
            let meta = PageMeta { remaining: Some(90), ..PageMeta::default() };
            match filter.filter_list(&selected, Ok(Listed::Meta(meta))) {
                Ok(Listed::Meta(meta)) => meta.remaining,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((remaining(&[0]), remaining(&[0, 1])), (None, Some(90)));
    }

    #[tokio::test]
    async fn kept_objects_do_not_hold_the_text_of_dropped_ones() {
        let filter = filter();
        let objects: Vec<_> = (1..=8)
            .map(|n| format!(r#"{{"metadata":{{"name":"o{n}","resourceVersion":"{n}"}}}}"#))
            .collect();
        let text = Bytes::from(objects.concat());
        let mut rest = text.clone();
        let items: Vec<_> = objects.iter().map(|object| rest.split_to(object.len())).collect();
        let list = |shards: &[u8]| {
            let selected =
                Selected { shards: shards.iter().copied().collect(), ..Selected::default() };
            match filter.filter_list(&selected, Ok(Listed::Items(items.clone()))) {
                Ok(Listed::Items(kept)) => kept,
                other => panic!("{other:?}"),
            }
        };
        let is_within = |kept: &Bytes| text.as_ptr_range().contains(&kept.as_ptr());
        let of_one = list(&[0]);
        assert!((1..8).contains(&of_one.len()) && !of_one.iter().any(is_within), "{of_one:?}");
        assert!(of_one.iter().all(|kept| items.contains(kept)));
        let of_both = list(&[0, 1]);
        assert!(of_both == items && of_both.iter().all(is_within), "nothing is dropped");

        let large = Bytes::from(vec![b' '; LARGE + 1]);
        assert_eq!(detached(large.clone()).as_ptr(), large.as_ptr(), "it holds its share");

        let event = |shards: &[u8], item: &Bytes| {
            let selected =
                Selected { shards: shards.iter().copied().collect(), floors: vec![None; 2] };
            let event = RawEvent { kind: EventType::Added, object: item.clone() };
            filter.filter_event(&selected, &mut true, Ok(event))
        };
        for item in &items {
            let is_kept = of_one.contains(item);
            let kept = event(&[0], item).map(|event| event.unwrap().object);
            assert_eq!(kept.as_ref(), is_kept.then_some(item));
            assert!(!kept.is_some_and(|kept| is_within(&kept)));
        }
    }

    #[tokio::test]
    async fn list_at_a_lower_version_removes_the_floors_above_it() {
        let filter = filter();
        filter.set_floor([0].into_iter().collect(), "9");
        filter.set_floor([1].into_iter().collect(), "12");
        let has_listed = |shard, version| filter.selected.lock().has_listed(shard, version);
        assert!(has_listed(0, "9") && !has_listed(0, "10") && has_listed(1, "12"));
        filter.listed("12");
        assert!(has_listed(0, "9") && has_listed(1, "12"));
        filter.listed("10");
        assert!(has_listed(0, "9") && !has_listed(1, "3"));
    }
}
