//! Several lister-watchers as one, which fails as a whole.
//!
//! Each source continues from a version of its own, which is kept here. The version that the
//! reflector receives is the least of these, so all events up to it have been delivered. A watch
//! ends, or fails, as soon as the watch of one source does.

use std::sync::Arc;

use async_stream::try_stream;
use deltafifo::ResourceVersion;
use deltafifo::locks::Mutex;
use futures_util::future::{BoxFuture, try_join_all};
use futures_util::stream::{self, StreamExt};

use super::body::flattened;
use super::{
    EventType, ListRequest, ListStream, Listed, ListerWatcher, ObjectLimit, PageMeta, Pages,
    RawEvent, RawObject, RequestError, WatchRequest, WatchStream, is_point_in_time,
};
use crate::wire::{WireError, bookmark, ends_initial_events};

/// Several lister-watchers as one. It lists its sources one after the other, and watches all of
/// them at once. If one source fails, the others stop until it succeeds. For the namespaces that an
/// account may list, use an informer of [`Namespaces`](crate::shared_informer::Namespaces), in
/// which a namespace that fails delays no other.
///
/// There must be at least one source. All sources must have the same kind of object and the same
/// API server, so that their versions can be compared, and no object may be in two sources.
///
/// A `Merged` records the version that its reflector has reached in each source, so each reflector
/// needs a `Merged` of its own. If two reflectors shared one, each would continue from the version
/// that the other has reached, and miss the events before it.
pub struct Merged {
    sources: Arc<[Box<dyn ListerWatcher>]>,
    /// The namespaces of the sources, joined with commas: `blue,green`.
    namespaces: String,
    reached: Arc<Mutex<SourcesProgress>>,
}

/// The state of all sources.
struct SourcesProgress(Vec<SourceProgress>);

#[derive(Clone, Default)]
struct SourceProgress {
    /// The version up to which all events of the source were received.
    reached: Option<ResourceVersion>,
    /// Whether the continue token of a page expired. If so, the next list of the source is a single
    /// page, not older than the first page of the failed list.
    whole: bool,
}

impl SourcesProgress {
    fn of_sources(number: usize) -> Self {
        Self(vec![SourceProgress::default(); number])
    }

    /// Records the version of a source's first page: no later page is older.
    ///
    /// # Errors
    /// [`RequestError::Wire`]: the version is not a number, so it cannot be compared with the
    /// versions of other sources.
    fn list(&mut self, number: usize, version: &str) -> Result<(), RequestError> {
        let Some(version) = ResourceVersion::parse(version) else {
            let fault = "a list whose version is not a number, so the lists of several sources cannot be merged";
            return Err(WireError::not_that(fault, version.as_bytes()).into());
        };
        if let Some(source) = self.0.get_mut(number) {
            source.reached = Some(version);
        }
        Ok(())
    }

    /// Records the version of an event or bookmark of a source. A version that is not a point in
    /// time, such as 0, is ignored.
    fn set(&mut self, number: usize, version: &str) {
        if !is_point_in_time(version) {
            return;
        }
        if let (Some(source), Some(version)) =
            (self.0.get_mut(number), ResourceVersion::parse(version))
        {
            source.reached = Some(version);
        }
    }

    fn of(&self, number: usize) -> Option<&ResourceVersion> {
        self.0.get(number)?.reached.as_ref()
    }

    /// Returns the version to request for a list of one source, given the least version that the
    /// reflector has requested for all sources: the version that the source has reached if that is
    /// newer, otherwise `requested`. Also returns `requested` if it asks for any state or for the
    /// newest.
    fn state(&self, number: usize, requested: &str) -> String {
        let own = self.of(number).filter(|_| !matches!(requested, "" | "0"));
        own.map_or_else(|| requested.to_owned(), |own| newer(own, requested))
    }

    /// Returns the version after which a source's watch starts, if the reflector has requested a
    /// watch of all sources from `requested`. It is the source's own version, up to which its
    /// events were received.
    fn changes(&self, number: usize, requested: &str) -> String {
        let own = self.of(number).filter(|_| !matches!(requested, "" | "0"));
        own.map_or_else(|| requested.to_owned(), ResourceVersion::to_string)
    }

    /// Returns the first request of a source's list, if the reflector has made the request
    /// `requested` for all sources.
    fn first_page(&self, number: usize, requested: &ListRequest) -> ListRequest {
        match self.of(number).filter(|_| self.0.get(number).is_some_and(|source| source.whole)) {
            Some(page) => {
                let resource_version = newer(page, &requested.resource_version);
                ListRequest { resource_version, not_older_than: true, ..ListRequest::default() }
            }
            None => ListRequest {
                resource_version: self.state(number, &requested.resource_version),
                ..requested.clone()
            },
        }
    }

    /// Records the failure of a source's list. The reflector lists all sources again.
    fn failed(
        &mut self,
        number: usize,
        request: &ListRequest,
        error: RequestError,
    ) -> RequestError {
        if error.is_version_unavailable()
            && let Some(source) = self.0.get_mut(number)
        {
            // Without a token, the single page itself is not available.
            source.whole = request.continue_token.is_some();
        }
        error
    }

    /// Records that all sources have been listed.
    fn listed(&mut self) {
        self.0.iter_mut().for_each(|source| source.whole = false);
    }

    /// Returns the least version of the sources, or an empty string while a source has none.
    fn least(&self) -> String {
        let least = self.0.iter().map(|source| source.reached.as_ref()).min().flatten();
        least.map(ResourceVersion::to_string).unwrap_or_default()
    }
}

/// Returns the newer of the two versions.
fn newer(own: &ResourceVersion, requested: &str) -> String {
    ResourceVersion::parse(requested).as_ref().unwrap_or(own).max(own).to_string()
}

impl Merged {
    /// Creates a lister-watcher of these sources.
    #[must_use]
    pub fn new(sources: Vec<Box<dyn ListerWatcher>>) -> Self {
        let reached = SourcesProgress::of_sources(sources.len());
        let namespaces =
            sources.iter().map(|source| source.scope().1).collect::<Vec<_>>().join(",");
        Self { sources: sources.into(), namespaces, reached: Arc::new(Mutex::new(reached)) }
    }

    /// Lists all pages of all sources, as one list, by calling `list` for each page. Records the
    /// versions in `reached`.
    fn list_sources(
        &self,
        request: ListRequest,
        reached: Arc<Mutex<SourcesProgress>>,
        list: impl for<'p> Fn(
            &'p dyn ListerWatcher,
            ListRequest,
        ) -> BoxFuture<'p, Result<ListStream, RequestError>>
        + Send
        + Sync
        + 'static,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        let sources = Arc::clone(&self.sources);
        let pieces = try_stream! {
            for (number, source) in sources.iter().enumerate() {
                let mut request = reached.lock().first_page(number, &request);
                let mut pages = Pages::new("a list of a merged source");
                loop {
                    let failed = |error| reached.lock().failed(number, &request, error);
                    let mut page = list(&**source, request.clone()).await.map_err(failed)?;
                    while let Some(listed) = page.next().await {
                        pages.record(&listed);
                        match listed {
                            Ok(Listed::Meta(_)) => {}
                            Ok(items) => yield Ok(items),
                            Err(large @ RequestError::TooLarge(_)) => yield Err(large),
                            Err(error) => Err(failed(error))?,
                        }
                    }
                    let meta = pages.end_page()?;
                    if request.continue_token.is_none() {
                        let listed = reached.lock().list(number, &meta.resource_version);
                        listed?;
                    }
                    // The page may have no items, and the reader's timeout needs a sign of
                    // progress.
                    yield Ok(Listed::Items(Vec::new()));
                    request.continue_token = meta.continue_token;
                    if request.continue_token.is_none() {
                        break;
                    }
                }
            }
            reached.lock().listed();
            let resource_version = reached.lock().least();
            yield Ok(Listed::Meta(PageMeta { resource_version, ..PageMeta::default() }));
        };
        Box::pin(std::future::ready(Ok(flattened(pieces))))
    }
}

impl ListerWatcher for Merged {
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
        self.list_sources(request, Arc::clone(&self.reached), move |source, request| {
            source.list_within(request, limit.clone())
        })
    }

    fn list_metadata(
        &self,
        request: ListRequest,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        // The watch continues from the versions of the reflector's lists, and not of this one.
        let reached = Arc::new(Mutex::new(SourcesProgress::of_sources(self.sources.len())));
        self.list_sources(request, reached, |source, request| source.list_metadata(request))
    }

    fn watch_within(
        &self,
        request: WatchRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        Box::pin(async move {
            let requested = self.sources.iter().enumerate().map(|(number, source)| {
                let (reached, requested) = (self.reached.lock(), &request.resource_version);
                let resource_version = if request.send_initial_events {
                    reached.state(number, requested)
                } else {
                    reached.changes(number, requested)
                };
                drop(reached);
                let begins = if request.send_initial_events {
                    WatchPhase::Initial
                } else if is_point_in_time(&resource_version) {
                    WatchPhase::Changes
                } else {
                    WatchPhase::Objects
                };
                let request = WatchRequest { resource_version, ..request.clone() };
                let watch = source.watch_within(request, limit.clone());
                async move { watch.await.map(|events| (begins, events)) }
            });
            Ok(merge(try_join_all(requested).await?, self.reached.clone()))
        })
    }

    fn types(&self) -> Option<(&str, &str)> {
        self.sources.first()?.types()
    }

    fn scope(&self) -> (&str, &str) {
        (self.sources.first().map_or("", |source| source.scope().0), &self.namespaces)
    }

    fn is_merged(&self) -> bool {
        true
    }
}

/// The phase of a source's watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchPhase {
    /// Initial events, up to the bookmark that ends them.
    Initial,
    /// All objects, as ADDED events: the watch started without a version. The first event of
    /// another type shows that all of them were received.
    Objects,
    /// Changes, after all objects were received.
    Changes,
}

/// Merges the events of all sources. The stream ends as soon as the watch of one source ends or
/// fails. Each bookmark has the least of the versions that the sources have reached.
fn merge(
    watches: Vec<(WatchPhase, WatchStream)>,
    reached: Arc<Mutex<SourcesProgress>>,
) -> WatchStream {
    let (mut phases, watches): (Vec<_>, Vec<_>) = watches.into_iter().unzip();
    let tagged = watches.into_iter().enumerate().map(|(number, events)| {
        let events = events.map(Some).chain(stream::iter([None]));
        events.map(move |event| (number, event)).boxed()
    });
    let mut events = stream::select_all(tagged);
    flattened(try_stream! {
        while let Some((number, Some(event))) = events.next().await {
            let (kind, object) = RawObject::of_event(event)?;
            let head = object.head()?;
            let Some(phase) = phases.get_mut(number) else { continue };
            if *phase == WatchPhase::Objects && kind != EventType::Added {
                *phase = WatchPhase::Changes;
            }
            if kind != EventType::Bookmark {
                let (version, phase) = (head.version.clone().into_owned(), *phase);
                yield object.into_event(kind);
                // Record the version only when the next event is polled: until then the reader may
                // drop this one. In other phases the events have the versions of the objects, which
                // are older than the state.
                if phase == WatchPhase::Changes {
                    reached.lock().set(number, &version);
                }
                continue;
            }
            let ends = object.json().map_or(Ok(false), |object| ends_initial_events(object))?;
            if ends && head.version.is_empty() {
                Err(RequestError::without_version("the end of the initial events"))?;
            }
            let ended = ends && *phase == WatchPhase::Initial;
            if ended {
                *phase = WatchPhase::Changes;
            }
            let least = {
                let mut reached = reached.lock();
                reached.set(number, &head.version);
                reached.least()
            };
            if !phases.contains(&WatchPhase::Initial) {
                yield Ok(RawEvent { kind: EventType::Bookmark, object: bookmark(&least, ended).into() });
            }
        }
    })
}
