//! The sources of a reflector's objects: a [`ListerWatcher`] lists a page and watches from a
//! version (client-go `ListerWatcher`). Objects are raw JSON, item by item, so objects that are
//! not needed are never decoded.
//!
//! * [`KubeListerWatcher`]: an API server, through kube's client.
//! * [`Merged`]: several sources as one, which fails as a whole.
//! * `Scripted`: a script of responses, for tests (feature `scripted`, off by default).

mod body;
mod coalesce;
mod error;
mod kube;
mod limit;
mod merged;
mod pages;
mod query;
#[cfg(feature = "scripted")]
mod scripted;
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
pub(crate) use error::is_unavailable;
pub use limit::ObjectLimit;
pub use merged::Merged;
pub(crate) use pages::Pages;
pub(crate) use query::{FIELDS, LABELS, Query, QueryError, field_terms};
#[cfg(feature = "scripted")]
pub use scripted::{Request, Scripted};

/// A source of one kind of object, which can be listed and watched.
///
/// Each call of a method that lists or watches makes one request, without retries and pauses:
/// these are the reflector's task. Dropping a stream ends its request.
///
/// A stream ends with its first error, except for [`RequestError::TooLarge`], which takes the
/// place of one object. A list whose last part is this error counts as cut: it has failed, and
/// deletes nothing. A complete list therefore yields at least an empty [`Listed::Items`] after its
/// last `TooLarge`.
pub trait ListerWatcher: Send + Sync + 'static {
    /// Lists a page, or all objects.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>>;

    /// Watches objects. The stream ends when the server ends the watch.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>>;

    /// Lists like [`list`](Self::list), and skips objects larger than `limit`. A reflector calls
    /// this method. The default implementation ignores the limit; a lister-watcher that reads
    /// bodies itself, or wraps another one, overrides it.
    fn list_within(
        &self,
        request: ListRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        drop(limit);
        self.list(request)
    }

    /// Lists like [`list`](Self::list), for a caller that reads no more than the metadata of the
    /// objects. The list is not a part of the lists and watches that a reflector makes. The default
    /// implementation lists whole objects. A lister-watcher that can list metadata alone, or wraps
    /// another one, overrides it.
    fn list_metadata(
        &self,
        request: ListRequest,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.list(request)
    }

    /// Watches like [`watch`](Self::watch), and skips objects larger than `limit`: see
    /// [`list_within`](Self::list_within).
    fn watch_within(
        &self,
        request: WatchRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        drop(limit);
        self.watch(request)
    }

    /// Returns `apiVersion` and `kind` for list items that do not have them. By default returns
    /// `None`: nothing is added to items.
    fn types(&self) -> Option<(&str, &str)> {
        None
    }

    /// Returns the resource (`deployments.v1.apps`) and the namespace (empty for all namespaces),
    /// as the labels of [metrics](crate::metrics) and spans.
    fn scope(&self) -> (&str, &str) {
        ("", "")
    }

    /// Returns whether the events come from several watches. If so, an event does not imply that
    /// all events with older versions have been received; only bookmarks do.
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

    fn list_metadata(
        &self,
        request: ListRequest,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.as_ref().list_metadata(request)
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

/// The parameters of a list (client-go `ListOptions`).
#[doc(alias = "ListOptions")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// The version: `0` for any state, even from the server's cache; empty for the newest state;
    /// otherwise the least version of the state.
    pub resource_version: String,
    /// Whether to send `resourceVersionMatch=NotOlderThan`. It is false where that is the server's
    /// default for `resource_version`.
    pub not_older_than: bool,
    /// The largest number of objects per page; 0 for all objects in one page.
    pub limit: u32,
    /// The continue token of the previous page.
    pub continue_token: Option<String>,
}

/// The parameters of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchRequest {
    /// The version after which events are sent; with initial events, the least version of the
    /// initial state.
    pub resource_version: String,
    /// Whether the server sends all objects first, and then a bookmark that marks their end
    /// (`WatchList`).
    pub send_initial_events: bool,
    /// The time after which the server ends the watch, in seconds.
    pub timeout_seconds: u32,
}

/// The parts of a list response, in the order of their arrival.
pub type ListStream = BoxStream<'static, Result<Listed, RequestError>>;

/// A part of a list response. Exactly one part is the [`Meta`](Self::Meta). It may come before or
/// after the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The metadata of the list.
    Meta(PageMeta),
    /// Items, each as JSON.
    Items(Vec<Bytes>),
}

/// An object that has not been decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawObject {
    /// The JSON of the object.
    Json(Bytes),
    /// The object was larger than the [limit](ObjectLimit) and was skipped.
    TooLarge(Box<TooLarge>),
}

/// An object that was skipped because it is larger than an [`ObjectLimit`]. Fields that were not
/// found are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TooLarge {
    /// The type of the event, if the object was in a watch.
    pub event: Option<EventType>,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's version.
    pub resource_version: String,
    /// The length of the object's JSON, in bytes.
    pub size: usize,
    /// The limit, in bytes.
    pub limit: usize,
}

impl TooLarge {
    pub(crate) fn of(outline: Outline, limit: usize) -> Self {
        let size = outline.size;
        let [namespace, name, resource_version] = outline.head().map(Option::unwrap_or_default);
        Self { event: None, namespace, name, resource_version, size, limit }
    }

    /// Reads an object whose JSON is in memory.
    pub(crate) fn read(object: &[u8], limit: usize) -> Self {
        // Use the parser of objects that arrive in pieces, so that the result does not depend on
        // how an object arrives.
        let mut outline = Outline::of_item();
        outline.push(object);
        Self::of(outline, limit)
    }

    /// Returns `namespace/name`, or `name`, or `None` if no name was found.
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
    /// Returns the JSON, unless the object is too large.
    pub(crate) fn json(&self) -> Option<&Bytes> {
        match self {
            Self::Json(json) => Some(json),
            Self::TooLarge(_) => None,
        }
    }

    /// Returns the number of bytes of the object that are in memory.
    pub(crate) fn len(&self) -> usize {
        self.json().map_or(0, Bytes::len)
    }

    /// Splits a watch event into its type and its object.
    pub(crate) fn of_event(
        event: Result<RawEvent, RequestError>,
    ) -> Result<(EventType, Self), RequestError> {
        match event {
            Ok(RawEvent { kind, object }) => Ok((kind, object.into())),
            // The type was not found: treat it as a change of the object.
            Err(RequestError::TooLarge(large)) => {
                Ok((large.event.unwrap_or(EventType::Modified), Self::TooLarge(large)))
            }
            Err(error) => Err(error),
        }
    }

    /// Joins the object with the type of its event: the inverse of [`of_event`](Self::of_event).
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

/// The metadata of a list response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageMeta {
    /// The version of the list.
    pub resource_version: String,
    /// The token of the next page, if there is one.
    pub continue_token: Option<String>,
    /// The approximate number of objects on later pages, if the response contains it.
    pub remaining: Option<u64>,
    /// Whether the response says that the server has selected objects by a `shardSelector`.
    pub is_sharded: bool,
}

/// Returns whether a version identifies a state. An empty version and "0" do not. Some aggregated
/// API servers return no other version, for their lists or for all objects.
pub(crate) fn is_point_in_time(version: &str) -> bool {
    !matches!(version, "" | "0")
}

/// The events of a watch. An ERROR event is an error of the stream, with its status.
pub type WatchStream = BoxStream<'static, Result<RawEvent, RequestError>>;

/// A watch event, with its object as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// The type of the event.
    pub kind: EventType,
    /// The object after the event; for a deletion, its last state. Only the metadata of a bookmark
    /// is used.
    pub object: Bytes,
}

/// The type of a watch event (client-go `watch.EventType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An object was created, or the selectors match it now.
    Added,
    /// An object was changed.
    Modified,
    /// An object was deleted, or the selectors no longer match it.
    Deleted,
    /// All events up to a version have been sent.
    Bookmark,
}
