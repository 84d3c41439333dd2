//! What a reflector knows of its watch, for users and for metrics.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use tokio::time::Instant;

/// How the watch of a reflector or informer is, as of now.
///
/// Times are those of tokio's clock: `last_event.elapsed()` is the age of an event, also in a test
/// that pauses the clock.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WatchStatus {
    /// Whether a watch is open: the server has accepted it and has not ended it. A connection that
    /// is dead counts as open until that shows. It is false for a moment between two watches, and
    /// while objects are listed by another request.
    pub is_open: bool,
    /// When the last event, bookmark or end of a list came. `None` if nothing has come yet.
    pub last_event: Option<Instant>,
    /// The last error that was reported. It stays when everything is well again: compare its time
    /// with `last_event`. `None` if there was none.
    pub last_error: Option<LastError>,
}

/// An error as it was reported to `on_error`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LastError {
    /// Its text.
    pub message: String,
    /// When it was reported.
    pub at: Instant,
}

/// The status as it changes.
#[derive(Default)]
pub(crate) struct Status {
    now: Mutex<WatchStatus>,
    /// When the last run began.
    began: Mutex<Option<Instant>>,
}

impl Status {
    pub(crate) fn get(&self) -> WatchStatus {
        self.now.lock().clone()
    }

    /// A run begins.
    pub(crate) fn begins(&self) {
        *self.began.lock() = Some(Instant::now());
    }

    /// An event, a bookmark or the end of a list has come. Returns the time.
    pub(crate) fn heard(&self) -> Instant {
        let now = Instant::now();
        self.now.lock().last_event = Some(now);
        now
    }

    /// An error is reported.
    pub(crate) fn failed(&self, message: String) {
        self.now.lock().last_error = Some(LastError { message, at: Instant::now() });
    }

    /// A watch is open for as long as the guard lives.
    pub(crate) fn open(self: &Arc<Self>) -> Open {
        self.now.lock().is_open = true;
        Open(Arc::clone(self))
    }

    /// How long ago something came, or this run began if nothing has come in it.
    pub(crate) fn age(&self) -> Option<Duration> {
        let last = self.now.lock().last_event.max(*self.began.lock());
        last.map(|last| last.elapsed())
    }
}

/// An open watch.
pub(crate) struct Open(Arc<Status>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.now.lock().is_open = false;
    }
}
