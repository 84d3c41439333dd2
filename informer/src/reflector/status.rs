//! The state of a reflector's watch, for users and for metrics.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use tokio::time::Instant;

/// The present state of the watch of a reflector or informer.
///
/// Times are those of tokio's clock: `last_event.elapsed()` is the age of an event, even in a test
/// that pauses the clock.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WatchStatus {
    /// Whether a watch is open: the server has accepted it and has not ended it. A dead connection
    /// counts as open until the reflector detects it. False for a moment between two watches, and
    /// while objects are listed by another request.
    pub is_open: bool,
    /// The time of the last event, bookmark or end of a list. `None` before the first.
    pub last_event: Option<Instant>,
    /// The last reported error, or `None`. It stays after a recovery: compare its time with
    /// `last_event`.
    pub last_error: Option<LastError>,
}

/// An error that was reported to `on_error`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LastError {
    /// The text of the error.
    pub message: String,
    /// The time of the report.
    pub at: Instant,
}

/// The recorded status of a watch. The reflector, or the feed from a kube watcher, updates it.
#[derive(Default)]
pub(crate) struct Status {
    now: Mutex<WatchStatus>,
    /// The time when the last run began.
    began: Mutex<Option<Instant>>,
}

impl Status {
    pub(crate) fn get(&self) -> WatchStatus {
        self.now.lock().clone()
    }

    /// Records the start of a run.
    pub(crate) fn begins(&self) {
        *self.began.lock() = Some(Instant::now());
    }

    /// Records an event, a bookmark or the end of a list. Returns the time.
    pub(crate) fn record_event(&self) -> Instant {
        let now = Instant::now();
        self.now.lock().last_event = Some(now);
        now
    }

    /// Records an error.
    pub(crate) fn failed(&self, message: String) {
        self.now.lock().last_error = Some(LastError { message, at: Instant::now() });
    }

    /// Records an open watch, for the lifetime of the guard.
    pub(crate) fn open(self: &Arc<Self>) -> OpenWatch {
        self.now.lock().is_open = true;
        OpenWatch(Arc::clone(self))
    }

    /// Returns the time since the last event of this run, or since the start of the run if there
    /// was no event. Returns `None` before the first run.
    pub(crate) fn age(&self) -> Option<Duration> {
        let last = self.now.lock().last_event.max(*self.began.lock());
        last.map(|last| last.elapsed())
    }
}

/// The guard of an open watch.
pub(crate) struct OpenWatch(Arc<Status>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.now.lock().is_open = false;
    }
}
