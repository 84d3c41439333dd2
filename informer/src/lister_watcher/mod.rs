//! Where a reflector's objects come from: a [`ListerWatcher`] lists a page and watches from a
//! version (client-go `ListerWatcher`). It hands out raw JSON, item by item: what is not needed is
//! never decoded.
//!
//! * [`KubeListerWatcher`]: an API server, through kube's client.
//! * [`Merged`]: several of them as one, as for some namespaces of many.
//! * [`Scripted`]: says what a test tells it to.

mod body;
mod error;
mod kube;
mod limit;
mod merged;
mod patience;
mod query;
mod scripted;
mod tokens;
mod unclonable;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::wire::{Head, Outline, WireError};

pub use self::kube::KubeListerWatcher;
pub(crate) use self::kube::resource;
pub use error::RequestError;
#[cfg(feature = "runtime")]
pub(crate) use error::says_unavailable;
pub use limit::ObjectLimit;
pub use merged::Merged;
pub(crate) use query::Query;
pub use query::QueryError;
pub use scripted::{Asked, Scripted};
pub(crate) use tokens::Tokens;

/// Lists and watches one kind of object.
///
/// The two methods are one request each, and nothing is repeated or waited for in them: that is
/// the reflector's part. A dropped stream ends its request.
///
/// A stream ends with its first error, except for [`RequestError::TooLarge`]: that takes the place
/// of one object, and the stream goes on. A list that ends with it was cut there by something in
/// between, and counts as failed, so that nothing is deleted by it: after the last such error a
/// complete list yields at least an empty [`Listed::Items`].
pub trait ListerWatcher: Send + Sync + 'static {
    /// Lists a page, or everything.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>>;

    /// Watches: the stream ends when the server ends it.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>>;

    /// Lists as [`list`](Self::list) does, and passes over objects larger than `limit`: this is
    /// what a reflector calls. By default the limit has no effect. A lister-watcher that reads
    /// bodies itself, or wraps another one, implements this, too.
    fn list_within(
        &self,
        request: ListRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        drop(limit);
        self.list(request)
    }

    /// Watches as [`watch`](Self::watch) does, and passes over objects larger than `limit`: see
    /// [`list_within`](Self::list_within).
    fn watch_within(
        &self,
        request: WatchRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        drop(limit);
        self.watch(request)
    }

    /// `apiVersion` and `kind`, for items of lists that do not say them.
    fn types(&self) -> Option<(&str, &str)> {
        None
    }

    /// What it lists, as [metrics](crate::metrics) and spans say it: the resource,
    /// `deployments.v1.apps`, and the namespace, empty for all.
    fn scope(&self) -> (&str, &str) {
        ("", "")
    }

    /// Whether the events are of several watches, so that one of them does not say that all older
    /// ones have come: only bookmarks do.
    fn is_merged(&self) -> bool {
        false
    }
}

impl<S: ListerWatcher + ?Sized> ListerWatcher for Arc<S> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.as_ref().list(request)
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        self.as_ref().watch(request)
    }

    fn list_within(
        &self,
        request: ListRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.as_ref().list_within(request, limit)
    }

    fn watch_within(
        &self,
        request: WatchRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        self.as_ref().watch_within(request, limit)
    }

    fn types(&self) -> Option<(&str, &str)> {
        self.as_ref().types()
    }

    fn scope(&self) -> (&str, &str) {
        self.as_ref().scope()
    }

    fn is_merged(&self) -> bool {
        self.as_ref().is_merged()
    }
}

/// What is asked of a list (client-go `ListOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// `0`: anything, even from a server's cache. Empty: the newest. Otherwise at least as new as
    /// this.
    pub resource_version: String,
    /// That `resource_version` must be said to be the least that will do: it is not, where it is
    /// the rule anyway.
    pub not_older_than: bool,
    /// Objects a page; 0 for all at once.
    pub limit: u32,
    /// From the page before.
    pub continue_token: Option<String>,
}

/// What is asked of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchRequest {
    /// Events after this version; with initial events, a state at least as new as this.
    pub resource_version: String,
    /// Whether all objects are to be sent first, and then a bookmark that says that they were
    /// (`WatchList`).
    pub send_initial_events: bool,
    /// When the server is to end the watch, in seconds.
    pub timeout_seconds: u32,
}

/// A list response as it arrives.
pub type ListStream = BoxStream<'static, Result<Listed, RequestError>>;

/// A part of a list response. Exactly one is the [`Meta`](Self::Meta); it may stand before the
/// items or behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// What the list says of itself.
    Meta(PageMeta),
    /// Items, each as JSON.
    Items(Vec<Bytes>),
}

/// An object that is not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawObject {
    /// Its JSON.
    Json(Bytes),
    /// It has more bytes than its reflector [allows](ObjectLimit), and was passed over.
    TooLarge(Box<TooLarge>),
}

/// An object that is larger than an [`ObjectLimit`], and was passed over: what was read of it. A
/// field that was not found is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TooLarge {
    /// What happened to it, if it comes in a watch.
    pub event: Option<EventType>,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub resource_version: String,
    /// How many bytes of JSON it has.
    pub size: usize,
    /// How many it may have.
    pub limit: usize,
}

impl TooLarge {
    pub(crate) fn of(outline: Outline, limit: usize) -> Self {
        let size = outline.size;
        let [namespace, name, resource_version] = outline.head().map(Option::unwrap_or_default);
        Self { event: None, namespace, name, resource_version, size, limit }
    }

    /// Returns the same of an object whose JSON is in memory.
    pub(crate) fn read(object: &[u8], limit: usize) -> Self {
        // As one that comes in pieces, so that it makes no difference how it comes.
        let mut outline = Outline::of_item();
        outline.push(object);
        Self::of(outline, limit)
    }

    /// `namespace/name`, or `name`, if it says that.
    #[must_use]
    pub fn key(&self) -> Option<String> {
        (!self.name.is_empty()).then(|| self.head().key().into_owned())
    }

    fn head(&self) -> Head<'_> {
        let [namespace, name, version] = [&self.namespace, &self.name, &self.resource_version]
            .map(|field| Cow::Borrowed(field.as_str()));
        Head { namespace, name, version }
    }
}

impl RawObject {
    /// Returns its JSON, unless it is too large.
    pub(crate) fn json(&self) -> Option<&Bytes> {
        match self {
            Self::Json(json) => Some(json),
            Self::TooLarge(_) => None,
        }
    }

    /// Bytes that are in memory for it.
    pub(crate) fn len(&self) -> usize {
        self.json().map_or(0, Bytes::len)
    }

    /// Splits an event of a watch into what happened and to which object.
    pub(crate) fn of_event(
        event: Result<RawEvent, RequestError>,
    ) -> Result<(EventType, Self), RequestError> {
        match event {
            Ok(RawEvent { kind, object }) => Ok((kind, object.into())),
            // An event that does not say what happened to the object is a change of it.
            Err(RequestError::TooLarge(large)) => {
                Ok((large.event.unwrap_or(EventType::Modified), Self::TooLarge(large)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the event of a watch that [`of_event`](Self::of_event) splits.
    pub(crate) fn into_event(self, kind: EventType) -> Result<RawEvent, RequestError> {
        match self {
            Self::Json(object) => Ok(RawEvent { kind, object }),
            Self::TooLarge(large) => {
                Err(RequestError::TooLarge(Box::new(TooLarge { event: Some(kind), ..*large })))
            }
        }
    }

    pub(crate) fn head(&self) -> Result<Head<'_>, WireError> {
        match self {
            Self::Json(json) => Head::of(json),
            Self::TooLarge(large) => Ok(large.head()),
        }
    }
}

impl From<Bytes> for RawObject {
    fn from(json: Bytes) -> Self {
        Self::Json(json)
    }
}

impl From<TooLarge> for RawObject {
    fn from(large: TooLarge) -> Self {
        Self::TooLarge(Box::new(large))
    }
}

/// What a list response says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageMeta {
    /// Its version.
    pub resource_version: String,
    /// For the next page, if there is one.
    pub continue_token: Option<String>,
    /// How many objects are on the pages after it, about, if the server tells.
    pub remaining: Option<u64>,
}

/// Whether a version says from when something is. Empty and "0" ask for any state, and some
/// aggregated API servers give their lists, or all objects, no other.
pub(crate) fn is_point_in_time(version: &str) -> bool {
    !matches!(version, "" | "0")
}

/// The events of a watch. An ERROR event is an error here, with its status.
pub type WatchStream = BoxStream<'static, Result<RawEvent, RequestError>>;

/// An event of a watch, its object as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// What happened.
    pub kind: EventType,
    /// To which object: its state after it, or for a deletion the last one. Of a bookmark only the
    /// metadata counts.
    pub object: Bytes,
}

/// What a watch event says (client-go `watch.EventType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// There is a new object, or one that the selectors match now.
    Added,
    /// An object changed.
    Modified,
    /// An object is gone, or the selectors do not match it any more.
    Deleted,
    /// Everything up to a version has been sent.
    Bookmark,
}
