//! A lister-watcher that says what a test tells it to (client-go's `testLW`), and keeps what it
//! was asked.

use std::collections::VecDeque;

use deltafifo::locks::Mutex;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;

use super::{
    ListRequest, ListStream, Listed, ListerWatcher, RawEvent, RequestError, WatchRequest,
    WatchStream,
};

/// Answers that are given one after the other, whatever is asked.
///
/// When there is no answer left, a request waits for ever, and [`asked`](Self::asked_times) tells
/// that it came: so a test ends by itself where its script does.
///
/// ```
/// use deltafifo_informer::lister_watcher::{ListRequest, Listed, ListerWatcher, PageMeta, Scripted};
/// use futures_util::StreamExt;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = PageMeta { resource_version: "7".to_owned(), ..PageMeta::default() };
/// let script = Scripted::new().list([Ok(Listed::Meta(page.clone())), Ok(Listed::Items(vec!["{}".into()]))]);
/// let mut list = ListerWatcher::list(&script, ListRequest::default()).await?;
/// assert_eq!(list.next().await.unwrap()?, Listed::Meta(page));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Scripted {
    lists: Mutex<VecDeque<Result<ListStream, RequestError>>>,
    watches: Mutex<VecDeque<Result<WatchStream, RequestError>>>,
    asked: watch::Sender<Vec<Asked>>,
}

/// What was asked of a [`Scripted`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A list.
    List(ListRequest),
    /// A watch.
    Watch(WatchRequest),
}

impl Scripted {
    /// One that has no answers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next list is answered with these parts.
    #[must_use]
    pub fn list(self, parts: impl IntoIterator<Item = Result<Listed, RequestError>>) -> Self {
        let parts: Vec<_> = parts.into_iter().collect();
        self.list_stream(stream::iter(parts).boxed())
    }

    /// The next list is this one.
    #[must_use]
    pub fn list_stream(self, parts: ListStream) -> Self {
        self.lists.lock().push_back(Ok(parts));
        self
    }

    /// The next list fails at once.
    #[must_use]
    pub fn list_fails(self, error: RequestError) -> Self {
        self.lists.lock().push_back(Err(error));
        self
    }

    /// The next watch sends these events, and ends.
    #[must_use]
    pub fn watch(self, events: impl IntoIterator<Item = Result<RawEvent, RequestError>>) -> Self {
        let events: Vec<_> = events.into_iter().collect();
        self.watch_stream(stream::iter(events).boxed())
    }

    /// The next watch sends these events, and then nothing more.
    #[must_use]
    pub fn watch_on(
        self,
        events: impl IntoIterator<Item = Result<RawEvent, RequestError>>,
    ) -> Self {
        let events: Vec<_> = events.into_iter().collect();
        self.watch_stream(stream::iter(events).chain(stream::pending()).boxed())
    }

    /// The next watch is this one.
    #[must_use]
    pub fn watch_stream(self, events: WatchStream) -> Self {
        self.watches.lock().push_back(Ok(events));
        self
    }

    /// The next watch fails at once.
    #[must_use]
    pub fn watch_fails(self, error: RequestError) -> Self {
        self.watches.lock().push_back(Err(error));
        self
    }

    /// What was asked so far, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    /// Waits until it was asked that often.
    pub async fn asked_times(&self, times: usize) {
        let mut asked = self.asked.subscribe();
        // It fails only when the sender is gone, which is here.
        let _ = asked.wait_for(|asked| asked.len() >= times).await;
    }

    fn note(&self, asked: Asked) {
        self.asked.send_modify(|all| all.push(asked));
    }
}

impl ListerWatcher for Scripted {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.note(Asked::List(request));
        let answer = self.lists.lock().pop_front();
        Box::pin(async move { answer.unwrap_or_else(|| Ok(stream::pending().boxed())) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        self.note(Asked::Watch(request));
        let answer = self.watches.lock().pop_front();
        Box::pin(async move { answer.unwrap_or_else(|| Ok(stream::pending().boxed())) })
    }
}
