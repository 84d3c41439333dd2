//! Several lister-watchers as one: some namespaces of many, which the account may not list all of.
//!
//! Each part goes on from a version of its own, which is remembered here; the version that the
//! reflector sees is the least of them, so that everything up to it has been told. A watch ends,
//! or fails, with the first of its parts.

use std::sync::Arc;

use async_stream::try_stream;
use deltafifo::ResourceVersion;
use deltafifo::locks::Mutex;
use futures_util::future::{BoxFuture, try_join_all};
use futures_util::stream::{self, StreamExt};

use super::body::flattened;
use super::{
    EventType, ListRequest, ListStream, Listed, ListerWatcher, ObjectLimit, PageMeta, RawEvent,
    RawObject, RequestError, Tokens, WatchRequest, WatchStream, is_point_in_time,
};
use crate::wire::{WireError, bookmark, ends_initial_events};

/// Lists one part after the other, and watches all at once.
///
/// There must be a part, all must be of one kind of object and of one API server, whose versions
/// compare, and no object may be in two.
///
/// It remembers how far its one reflector has come in each part, so each reflector needs one of
/// its own: of two that share one, each would go on from where the other is, and never hear of
/// what is between.
pub struct Merged {
    parts: Arc<[Box<dyn ListerWatcher>]>,
    /// Those of the parts, `blue,green`.
    namespaces: String,
    reached: Arc<Mutex<Reached>>,
}

/// What is remembered of the parts.
struct Reached(Vec<Part>);

#[derive(Clone, Default)]
struct Part {
    /// How far it has come.
    reached: Option<ResourceVersion>,
    /// A page's token expired: the next list is to be of one page, and not older than that page.
    whole: bool,
}

impl Reached {
    /// All pages of a part are not older than this.
    ///
    /// # Errors
    /// [`WireError`]: it is no number, and so does not compare with those of the other parts.
    fn list(&mut self, part: usize, version: &str) -> Result<(), RequestError> {
        let Some(version) = ResourceVersion::parse(version) else {
            let what =
                "a list whose version is no number, so that lists of several parts cannot be one";
            return Err(WireError::not_that(what, version.as_bytes()).into());
        };
        if let Some(part) = self.0.get_mut(part) {
            part.reached = Some(version);
        }
        Ok(())
    }

    /// An event or a bookmark of a part came. One without a version of its own says nothing.
    fn set(&mut self, part: usize, version: &str) {
        if !is_point_in_time(version) {
            return;
        }
        if let (Some(part), Some(version)) = (self.0.get_mut(part), ResourceVersion::parse(version))
        {
            part.reached = Some(version);
        }
    }

    fn of(&self, part: usize) -> Option<&ResourceVersion> {
        self.0.get(part)?.reached.as_ref()
    }

    /// How new a part's state must be, when all of them are asked for one not older than `asked`:
    /// than its own, if that is newer, unless any or the newest will do.
    fn state(&self, part: usize, asked: &str) -> String {
        let own = self.of(part).filter(|_| !matches!(asked, "" | "0"));
        own.map_or_else(|| asked.to_owned(), |own| newer(own, asked))
    }

    /// From which version on a part's changes are to come, when all of them are asked for those
    /// since `asked`: from its own, up to which it has told everything.
    fn changes(&self, part: usize, asked: &str) -> String {
        let own = self.of(part).filter(|_| !matches!(asked, "" | "0"));
        own.map_or_else(|| asked.to_owned(), ResourceVersion::to_string)
    }

    /// What to ask of a part, when all of them are asked for `asked`.
    fn first_page(&self, part: usize, asked: &ListRequest) -> ListRequest {
        match self.of(part).filter(|_| self.0.get(part).is_some_and(|part| part.whole)) {
            Some(page) => {
                let resource_version = newer(page, &asked.resource_version);
                ListRequest { resource_version, not_older_than: true, ..ListRequest::default() }
            }
            None => ListRequest {
                resource_version: self.state(part, &asked.resource_version),
                ..asked.clone()
            },
        }
    }

    /// A list of a part failed. Those that list all parts are to begin anew: what it gave by now
    /// may be gone.
    fn failed(&mut self, part: usize, request: &ListRequest, error: RequestError) -> RequestError {
        if error.is_version_unavailable()
            && let Some(part) = self.0.get_mut(part)
        {
            // Without a token it is the list of one page itself that cannot be had.
            part.whole = request.continue_token.is_some();
        }
        error
    }

    /// All parts are listed.
    fn listed(&mut self) {
        self.0.iter_mut().for_each(|part| part.whole = false);
    }

    /// The least, or empty while a part has none.
    fn least(&self) -> String {
        let least = self.0.iter().map(|part| part.reached.as_ref()).min().flatten();
        least.map(ResourceVersion::to_string).unwrap_or_default()
    }
}

/// The newer of the two.
fn newer(own: &ResourceVersion, asked: &str) -> String {
    ResourceVersion::parse(asked).as_ref().unwrap_or(own).max(own).to_string()
}

impl Merged {
    /// `parts` as one.
    #[must_use]
    pub fn new(parts: Vec<Box<dyn ListerWatcher>>) -> Self {
        let reached = Reached(vec![Part::default(); parts.len()]);
        let namespaces = parts.iter().map(|part| part.scope().1).collect::<Vec<_>>().join(",");
        Self { parts: parts.into(), namespaces, reached: Arc::new(Mutex::new(reached)) }
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
        let (parts, reached) = (Arc::clone(&self.parts), Arc::clone(&self.reached));
        // All pages of all parts as one list.
        let list = try_stream! {
            for (number, part) in parts.iter().enumerate() {
                let mut request = reached.lock().first_page(number, &request);
                let mut tokens = Tokens::default();
                loop {
                    let failed = |error| reached.lock().failed(number, &request, error);
                    let mut page = part.list_within(request.clone(), limit.clone()).await.map_err(failed)?;
                    let (mut meta, mut ends_too_large) = (None::<PageMeta>, false);
                    while let Some(listed) = page.next().await {
                        ends_too_large = matches!(listed, Err(RequestError::TooLarge(_)));
                        match listed {
                            Ok(Listed::Meta(found)) => meta = Some(found),
                            Ok(items) => yield Ok(items),
                            Err(large @ RequestError::TooLarge(_)) => yield Err(large),
                            Err(error) => Err(failed(error))?,
                        }
                    }
                    if ends_too_large {
                        Err(RequestError::cut_at_large())?;
                    }
                    let said = meta.filter(|meta| !meta.resource_version.is_empty());
                    let meta = said.ok_or_else(|| RequestError::without_version("a list of a part"))?;
                    if request.continue_token.is_none() {
                        let listed = reached.lock().list(number, &meta.resource_version);
                        listed?;
                    }
                    // A reader gives up a list that falls silent, and a page may have no items.
                    yield Ok(Listed::Items(Vec::new()));
                    request.continue_token = tokens.next(meta.continue_token)?;
                    if request.continue_token.is_none() {
                        break;
                    }
                }
            }
            reached.lock().listed();
            let resource_version = reached.lock().least();
            yield Ok(Listed::Meta(PageMeta { resource_version, ..PageMeta::default() }));
        };
        Box::pin(std::future::ready(Ok(flattened(list))))
    }

    fn watch_within(
        &self,
        request: WatchRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        Box::pin(async move {
            let asked = self.parts.iter().enumerate().map(|(part, source)| {
                let (reached, asked) = (self.reached.lock(), &request.resource_version);
                let resource_version = if request.send_initial_events {
                    reached.state(part, asked)
                } else {
                    reached.changes(part, asked)
                };
                drop(reached);
                let begins = if request.send_initial_events {
                    Begins::Initial
                } else if is_point_in_time(&resource_version) {
                    Begins::Changes
                } else {
                    Begins::Objects
                };
                let request = WatchRequest { resource_version, ..request.clone() };
                let watch = source.watch_within(request, limit.clone());
                async move { watch.await.map(|events| (begins, events)) }
            });
            Ok(merge(try_join_all(asked).await?, self.reached.clone()))
        })
    }

    fn types(&self) -> Option<(&str, &str)> {
        self.parts.first()?.types()
    }

    fn scope(&self) -> (&str, &str) {
        (self.parts.first().map_or("", |part| part.scope().0), &self.namespaces)
    }

    fn is_merged(&self) -> bool {
        true
    }
}

/// What a part's watch sends next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    /// Initial events, to the bookmark that ends them.
    Initial,
    /// All objects, as ADDED events: it was asked from no version. The first event of another type
    /// shows that they have all come.
    Objects,
    /// What happens.
    Changes,
}

/// The events of all parts.
fn merge(watches: Vec<(Begins, WatchStream)>, reached: Arc<Mutex<Reached>>) -> WatchStream {
    let (mut sends, watches): (Vec<_>, Vec<_>) = watches.into_iter().unzip();
    let tagged = watches.into_iter().enumerate().map(|(part, events)| {
        let events = events.map(Some).chain(stream::iter([None]));
        events.map(move |event| (part, event)).boxed()
    });
    let mut events = stream::select_all(tagged);
    flattened(try_stream! {
        while let Some((part, Some(event))) = events.next().await {
            let (kind, object) = RawObject::of_event(event)?;
            let head = object.head()?;
            let Some(sent) = sends.get_mut(part) else { continue };
            if *sent == Begins::Objects && kind != EventType::Added {
                *sent = Begins::Changes;
            }
            if kind != EventType::Bookmark {
                let (version, sent) = (head.version.clone().into_owned(), *sent);
                yield object.into_event(kind);
                // Only when more is asked for: the reader may never use the event. And the
                // versions of what comes first are the objects' own, older than what comes.
                if sent == Begins::Changes {
                    reached.lock().set(part, &version);
                }
                continue;
            }
            let ends = object.json().map_or(Ok(false), |object| ends_initial_events(object))?;
            if ends && head.version.is_empty() {
                Err(RequestError::without_version("the end of the initial events"))?;
            }
            let ended = ends && *sent == Begins::Initial;
            if ended {
                *sent = Begins::Changes;
            }
            let least = {
                let mut reached = reached.lock();
                reached.set(part, &head.version);
                reached.least()
            };
            if !sends.contains(&Begins::Initial) {
                yield Ok(RawEvent { kind: EventType::Bookmark, object: bookmark(&least, ended).into() });
            }
        }
    })
}
