//! A lister-watcher that follows the script of a test (client-go's `testLW`), and records its
//! requests.

use std::collections::VecDeque;

use deltafifo::locks::Mutex;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;

use super::{
    ListRequest, ListStream, Listed, ListerWatcher, RawEvent, RequestError, WatchRequest,
    WatchStream,
};

/// A lister-watcher with a queue of list responses and a queue of watch responses. Each request
/// gets the next response of its kind, whatever its parameters are.
///
/// When no response of its kind is left, a request gets a stream that yields nothing and does not
/// end. The request is recorded first, so a test can wait for it with
/// [`wait_for_requests`](Self::wait_for_requests) and end where its script ends.
///
/// ```
/// use deltafifo_informer::lister_watcher::{
///     ListRequest, Listed, ListerWatcher, PageMeta, Scripted,
/// };
/// use futures_util::StreamExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = PageMeta { resource_version: "7".to_owned(), ..PageMeta::default() };
/// let items = Listed::Items(vec!["{}".into()]);
/// let script = Scripted::new().list([Ok(Listed::Meta(page.clone())), Ok(items)]);
/// let mut list = ListerWatcher::list(&script, ListRequest::default()).await?;
/// assert_eq!(list.next().await.unwrap()?, Listed::Meta(page));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "FakeControllerSource")]
#[derive(Default)]
pub struct Scripted {
    lists: Mutex<VecDeque<Result<ListStream, RequestError>>>,
    watches: Mutex<VecDeque<Result<WatchStream, RequestError>>>,
    requests: watch::Sender<Vec<Request>>,
}

/// A request to a [`Scripted`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A list request.
    List(ListRequest),
    /// A watch request.
    Watch(WatchRequest),
}

impl Scripted {
    /// Creates a script without responses.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a list response of these parts.
    #[must_use]
    pub fn list(self, parts: impl IntoIterator<Item = Result<Listed, RequestError>>) -> Self {
        let parts: Vec<_> = parts.into_iter().collect();
        self.list_stream(stream::iter(parts).boxed())
    }

    /// Adds a list response that is this stream.
    #[must_use]
    pub fn list_stream(self, parts: ListStream) -> Self {
        self.lists.lock().push_back(Ok(parts));
        self
    }

    /// Adds a list request that fails at once.
    #[must_use]
    pub fn list_fails(self, error: RequestError) -> Self {
        self.lists.lock().push_back(Err(error));
        self
    }

    /// Adds a watch that sends these events, and ends.
    #[must_use]
    pub fn watch(self, events: impl IntoIterator<Item = Result<RawEvent, RequestError>>) -> Self {
        let events: Vec<_> = events.into_iter().collect();
        self.watch_stream(stream::iter(events).boxed())
    }

    /// Adds a watch that sends these events, and then stays open without an event.
    #[must_use]
    pub fn watch_on(
        self,
        events: impl IntoIterator<Item = Result<RawEvent, RequestError>>,
    ) -> Self {
        let events: Vec<_> = events.into_iter().collect();
        self.watch_stream(stream::iter(events).chain(stream::pending()).boxed())
    }

    /// Adds a watch that is this stream.
    #[must_use]
    pub fn watch_stream(self, events: WatchStream) -> Self {
        self.watches.lock().push_back(Ok(events));
        self
    }

    /// Adds a watch request that fails at once.
    #[must_use]
    pub fn watch_fails(self, error: RequestError) -> Self {
        self.watches.lock().push_back(Err(error));
        self
    }

    /// Returns the requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.borrow().clone()
    }

    /// Waits until there have been `times` requests.
    pub async fn wait_for_requests(&self, times: usize) {
        let mut requests = self.requests.subscribe();
        // It fails only if the sender is dropped, and `self` owns the sender.
        let _ = requests.wait_for(|requests| requests.len() >= times).await;
    }

    fn record(&self, request: Request) {
        self.requests.send_modify(|all| all.push(request));
    }
}

impl ListerWatcher for Scripted {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.record(Request::List(request));
        let answer = self.lists.lock().pop_front();
        Box::pin(async move { answer.unwrap_or_else(|| Ok(stream::pending().boxed())) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        self.record(Request::Watch(request));
        let answer = self.watches.lock().pop_front();
        Box::pin(async move { answer.unwrap_or_else(|| Ok(stream::pending().boxed())) })
    }
}
