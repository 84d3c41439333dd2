//! An API server that answers list requests from files. The first list comes from one file. The
//! watch that follows ends with the error of an expired version, and the next list comes from the
//! other file.

use std::convert::Infallible;
use std::fs::{self, File};
use std::future::{pending, ready};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tower::service_fn;

use super::ChildError;
use crate::watch_requests::{EXPIRED, has_parameter, is_watch};

/// The number of bytes that are read from a file at a time.
const PIECE: usize = 256 << 10;

/// A list whose objects are kept as JSON.
#[derive(Deserialize)]
pub(super) struct List<'a> {
    #[serde(borrow)]
    pub(super) items: Vec<&'a RawValue>,
}

/// An API server with two lists. Clones share their state.
#[derive(Clone)]
pub(super) struct ListServer {
    lists: Arc<[PathBuf; 2]>,
    /// Whether the second list is served.
    is_second: watch::Sender<bool>,
}

impl ListServer {
    pub(super) fn new(lists: [PathBuf; 2]) -> Self {
        Self { lists: Arc::new(lists), is_second: watch::Sender::new(false) }
    }

    /// Returns a client of this server.
    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let answer = move |request: Request<Body>| {
            let body = if is_watch(&request) {
                let follows_first = has_parameter(&request, "resourceVersion=1");
                expiring(server.is_second.subscribe(), follows_first).left_stream()
            } else {
                pieces(server.list()).right_stream()
            };
            let body = StreamBody::new(body.map(|piece| piece.map(Frame::data)));
            ready(Ok::<_, Infallible>(Response::new(UnsyncBoxBody::new(body))))
        };
        Client::new(service_fn(answer), "default")
    }

    /// Ends the open watch with the error of an expired version. From now on the second list is
    /// served.
    pub(super) fn relist(&self) {
        self.is_second.send_replace(true);
    }

    /// Returns the path of the list that is currently served.
    pub(super) fn list(&self) -> &PathBuf {
        &self.lists[usize::from(*self.is_second.borrow())]
    }

    /// Returns the JSON of up to `most` objects, spread over the current list.
    pub(super) fn objects(&self, most: usize) -> Result<Vec<Box<str>>, ChildError> {
        let text = fs::read_to_string(self.list())?;
        let List { items } = serde_json::from_str(&text)?;
        let step = items.len().div_ceil(most).max(1);
        Ok(items.iter().step_by(step).map(|item| item.get().into()).collect())
    }
}

/// Returns the body of a list response: the content of a file, in pieces of [`PIECE`] bytes.
fn pieces(path: &PathBuf) -> impl Stream<Item = io::Result<Bytes>> + use<> {
    let mut file = File::open(path);
    stream::iter(std::iter::from_fn(move || {
        let file = match &mut file {
            Ok(file) => file,
            Err(error) => return Some(Err(io::Error::new(error.kind(), "cannot open the list"))),
        };
        let mut piece = Vec::with_capacity(PIECE);
        match file.take(PIECE as u64).read_to_end(&mut piece) {
            Ok(0) => None,
            Ok(_) => Some(Ok(piece.into())),
            Err(error) => Some(Err(error)),
        }
    }))
}

/// Returns the body of a watch response. A watch that follows the first list ends with the error of
/// an expired version as soon as the second list is served. A later watch has no events, and does
/// not end.
fn expiring(
    mut is_second: watch::Receiver<bool>,
    follows_first: bool,
) -> impl Stream<Item = io::Result<Bytes>> {
    stream::once(async move {
        if !follows_first {
            return pending().await;
        }
        // Fails only if the server is gone; then there is no second list.
        let _ = is_second.wait_for(|is_second| *is_second).await;
        Ok(Bytes::from_static(EXPIRED))
    })
}
