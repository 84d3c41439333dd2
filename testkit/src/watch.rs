//! The responses to watch requests: the existing objects, if the client asked for them, and then
//! the changes.

use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec;

use bytes::BytesMut;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Sleep, sleep};

use crate::Resource;
use crate::answer::{self, Call};
use crate::body::{Body, FillResult, Source};
use crate::object::{Object, Shape};
use crate::options::ListOptions;
use crate::selector::Filter;
use crate::server::ServerState;
use crate::status::{self, Refused};
use crate::store::{Change, Signal, Watcher};
use crate::table;
use crate::walk::{Position, Walk};

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Opens a watch, which starts with the last `repeated` changes before its version.
pub(crate) fn answer(call: &Call<'_>, repeated: usize) -> Refused<Response<Body>> {
    let options = ListOptions::read(call)?;
    let settings = &call.server.settings;
    options.check_watch(settings.watch_lists)?;
    let begins_with_list = options.send_initial_events == Some(true);
    let from = options.version.unwrap_or_default();
    let is_initial = options.send_initial_events.unwrap_or(from == 0);
    let deadline = options.timeout.map(|timeout| Box::pin(sleep(timeout)));

    let mut store = call.server.store.lock();
    let version = store.version;
    let id = store.watch_id();
    let collection = &mut store.collections[call.place];
    if begins_with_list && from > version {
        return Err(Box::new(status::too_large(from, version)));
    }
    if !is_initial && from != 0 && from < collection.floor {
        let event = event_line("ERROR", &status::to_json(&status::too_old(from, collection.floor)));
        return Ok(answer::json(StatusCode::OK, Body::whole(event)));
    }
    let initial = is_initial
        .then(|| collection.walk(version, &Position::start(), options.filter.clone(), usize::MAX));
    let since = if is_initial || from == 0 { version } else { from };
    let first =
        collection.log.partition_point(|change| change.version <= since).saturating_sub(repeated);
    let missed: Vec<Arc<Change>> = collection.log.range(first..).cloned().collect();
    let (watcher, signals) = Watcher::new(id, options.bookmarks, settings.watch_buffer);
    collection.watchers.push(watcher);
    drop(store);
    call.server.pulse();

    let watch = WatchBody {
        resource: Arc::clone(&call.resource),
        shape: call.shape(),
        has_columns: true,
        filter: options.filter,
        initial,
        initial_end: (begins_with_list && options.bookmarks).then_some(version),
        missed: missed.into_iter(),
        behind: if since > version { since } else { 0 },
        signals,
        deadline,
        bookmarks: settings.bookmarks.filter(|_| options.bookmarks).map(Bookmarks::every),
        open: Open { server: Arc::clone(call.server), place: call.place, id },
    };
    Ok(answer::json(
        StatusCode::OK,
        Body::streamed(Source::Watch(Box::new(watch)), settings.frame_size),
    ))
}

/// The events of a watch, produced while they are read.
pub(crate) struct WatchBody {
    resource: Arc<Resource>,
    shape: Shape,
    /// Whether the next event has the columns of a table, as only the first event has.
    has_columns: bool,
    filter: Arc<Filter>,
    /// The initial events that are not yet sent.
    initial: Option<Walk>,
    /// The version of the bookmark after the initial events.
    initial_end: Option<u64>,
    /// The changes from before the watch was opened that it must still send.
    missed: vec::IntoIter<Arc<Change>>,
    /// The version that a watch from a future version waits for: it sends no changes up to this
    /// version, and no bookmarks before it. 0 if the watch does not wait.
    behind: u64,
    signals: Receiver<Signal>,
    deadline: Option<Pin<Box<Sleep>>>,
    bookmarks: Option<Bookmarks>,
    open: Open,
}

impl WatchBody {
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
        enough: usize,
    ) -> Poll<FillResult> {
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(FillResult::All);
        }
        if self.bookmarks.as_mut().is_some_and(|bookmarks| bookmarks.are_due(cx)) {
            self.open.bookmark();
        }
        self.fill_initial(out, enough);
        while out.is_empty() {
            if let Some(change) = self.missed.next() {
                self.change(&change, out);
                continue;
            }
            match ready!(self.signals.poll_recv(cx)) {
                Some(Signal::Change(change)) => self.change(&change, out),
                Some(Signal::Bookmark(version)) if version < self.behind => {}
                Some(Signal::Bookmark(version)) => self.bookmark(version, false, out),
                Some(Signal::Error(status)) => {
                    line(out, "ERROR", |out| put(out, &status::to_json(&status)));
                    return Poll::Ready(FillResult::All);
                }
                Some(Signal::Break) => return Poll::Ready(FillResult::Broken),
                None => return Poll::Ready(FillResult::All),
            }
        }
        Poll::Ready(FillResult::Some)
    }

    fn fill_initial(&mut self, out: &mut BytesMut, enough: usize) {
        while out.len() < enough
            && let Some(walk) = &mut self.initial
        {
            if let Some(object) = walk.next() {
                self.event("ADDED", &object, out);
                continue;
            }
            self.initial = None;
            if let Some(version) = self.initial_end {
                self.bookmark(version, true, out);
            }
        }
    }

    /// Writes the event of a change. If the object starts matching the filter, the watch gets an
    /// addition; if it stops matching, a deletion.
    fn change(&mut self, change: &Change, out: &mut BytesMut) {
        if change.version <= self.behind {
            return;
        }
        let seen = |object: &Option<Arc<Object>>| {
            object.clone().filter(|object| self.filter.matches(object))
        };
        match (seen(&change.before), seen(&change.after)) {
            (None, Some(after)) => self.event("ADDED", &after, out),
            (Some(_), Some(after)) => self.event("MODIFIED", &after, out),
            (Some(before), None) => self.event("DELETED", &before.at(change.version), out),
            (None, None) => {}
        }
    }

    fn event(&mut self, kind: &str, object: &Object, out: &mut BytesMut) {
        if let Shape::Row(_) = self.shape {
            let table = object.alone(&self.resource, self.shape, take(&mut self.has_columns));
            line(out, kind, |out| put(out, &table));
        } else {
            line(out, kind, |out| object.write(&self.resource, self.shape, out));
        }
    }

    fn bookmark(&mut self, version: u64, ends_initial: bool, out: &mut BytesMut) {
        let (kind, api_version) = self.shape.types(&self.resource);
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if ends_initial {
            metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        let mut object = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        if let Shape::Row(_) = self.shape {
            let row = json!({ "cells": ["", null], "object": object });
            object = table::of_one(&row, &version.to_string(), take(&mut self.has_columns));
        }
        line(out, "BOOKMARK", |out| put(out, &object));
    }
}

/// Writes one event. The field `type` comes first, as in the real server.
fn line(out: &mut BytesMut, kind: &str, object: impl FnOnce(&mut BytesMut)) {
    out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
    object(out);
    out.extend_from_slice(b"}\n");
}

fn put(out: &mut BytesMut, json: &Value) {
    out.extend_from_slice(json.to_string().as_bytes());
}

fn event_line(kind: &str, object: &Value) -> BytesMut {
    let mut out = BytesMut::new();
    line(&mut out, kind, |out| put(out, object));
    out
}

/// The timer of periodic bookmarks.
struct Bookmarks {
    period: Duration,
    next: Pin<Box<Sleep>>,
}

impl Bookmarks {
    fn every(period: Duration) -> Self {
        Self { period, next: Box::pin(sleep(period)) }
    }

    /// Returns whether a bookmark is due. Several missed bookmarks count as one.
    fn are_due(&mut self, cx: &mut Context<'_>) -> bool {
        let mut due = false;
        while self.next.as_mut().poll(cx).is_ready() {
            self.next.as_mut().reset(Instant::now() + self.period);
            due = true;
        }
        due
    }
}

/// The registration of an open watch. Dropping it removes the watch from the store, unless the
/// server has ended the watch already.
struct Open {
    server: Arc<ServerState>,
    place: usize,
    id: u64,
}

impl Open {
    /// Sends a bookmark of the newest version, behind all changes up to it.
    fn bookmark(&self) {
        let store = self.server.store.lock();
        if let Some(watcher) =
            store.collections[self.place].watchers.iter().find(|watcher| watcher.id == self.id)
        {
            // If the buffer has no room, the bookmark is dropped, as in the real server.
            watcher.send(Signal::Bookmark(store.version));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut store = self.server.store.lock();
        store.collections[self.place].watchers.retain(|watcher| watcher.id != self.id);
        drop(store);
        self.server.pulse();
    }
}
