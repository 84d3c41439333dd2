//! The applied version of a store: the greatest whose marker, and everything before it, is handled; and the wait for one.
//!
//! It belongs to the store's readers, who outlive the queue and do not know it. Whoever writes the store has its
//! [`Source`]: a queue that tracks what is applied (`engine/ledger.rs`), or an indexer alone.
//!
//! Versions of one API server only rise, until it is restored from a backup: then they rise again from an older one, and
//! the same number means another state. So a version is kept as a [`Point`]: with the number of its *history*. A complete
//! list at a lower version than the greatest marker begins the next history. Points compare by history first, so a
//! marker of a former history that is completed late changes nothing, whatever its version.

use crate::engine::sync::{Arc, Event, IntoNotification, Mutex, mutant};
use crate::engine::wait::{wait, wait_async};
use crate::error::{VersionError, WaitError};
use crate::version::ResourceVersion;

pub(crate) struct Applied {
    state: Mutex<State>,
    /// Notified when the version rises, when it will not rise any more, and when a history begins.
    changed: Event,
}

struct State {
    /// The greatest that was reached. Of a former history it says nothing of the present one.
    reached: Option<Point>,
    /// The greatest that has a marker: it is of the present history.
    marked: Option<Point>,
    writer: Writer,
}

/// A version, and of which history it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    history: u64,
    version: ResourceVersion,
}

impl Point {
    #[cfg(test)]
    pub(crate) fn first(version: &str) -> Self {
        Self { history: 0, version: parse(version).unwrap() }
    }
}

/// Where a version comes from up to which everything was offered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Bookmark,
    /// A complete list: the truth, whatever was said before.
    List,
}

impl State {
    /// The number of the present history.
    fn history(&self) -> u64 {
        self.marked.as_ref().map_or(0, |marked| marked.history)
    }
}

/// Who writes the store: only ever a later one of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Writer {
    Open,
    /// Closed: what has a marker may still be reached.
    Closed,
    /// Gone: nothing is applied any more.
    Gone,
    /// A queue that does not ask what is applied.
    Untracked,
}

impl Applied {
    pub(crate) fn new() -> Self {
        let state = State { reached: None, marked: None, writer: Writer::Open };
        Self { state: Mutex::new(state), changed: Event::new() }
    }

    /// The version, as text without leading zeros.
    pub(crate) fn version(&self) -> Option<String> {
        let state = self.state.lock();
        state.reached.as_ref().filter(|point| point.history == state.history()).map(|point| point.version.to_string())
    }

    /// Says of which history `version` is, whose marker is about to be queued. A list at a lower version than the
    /// greatest marked one begins a history; not at version 0, which names no state: some API servers list everything
    /// so. The caller [announces](Self::announce) that, with no lock held. An error when nobody would notice that the
    /// version is applied.
    pub(crate) fn expect(&self, version: ResourceVersion, origin: Origin) -> Result<Point, VersionError> {
        let mut state = self.state.lock();
        if state.writer == Writer::Untracked {
            return Err(VersionError::NotTracked { version: version.to_string() });
        }
        let is_lower = state.marked.as_ref().is_some_and(|marked| version < marked.version);
        let begins = origin == Origin::List && is_lower && !version.is_zero();
        let point = Point { history: state.history() + u64::from(begins), version };
        if state.marked.as_ref() < Some(&point) {
            state.marked = Some(point.clone());
        }
        Ok(point)
    }

    /// Everything up to `point` is applied. The greatest stays. Wakes waiters: with no lock held.
    pub(crate) fn raise(&self, point: Point) {
        let mut state = self.state.lock();
        if state.reached.as_ref() >= Some(&point) {
            return;
        }
        state.reached = Some(point);
        drop(state);
        mutant!(AppliedTellsNobody => return);
        self.announce();
    }

    /// The queue is one that does not track.
    pub(crate) fn untracked(&self) {
        self.becomes(Writer::Untracked);
    }

    /// The queue is closed.
    pub(crate) fn close(&self) {
        self.becomes(Writer::Closed);
    }

    fn becomes(&self, writer: Writer) {
        let mut state = self.state.lock();
        state.writer = state.writer.max(writer);
        drop(state);
        mutant!(AppliedCloseTellsNobody => return);
        self.announce();
    }

    /// Wakes waiters: with no lock held.
    pub(crate) fn announce(&self) {
        self.changed.notify(usize::MAX.additional());
    }

    /// A version to wait for, which is taken to be of the present history.
    fn wanted(&self, version: &str) -> Result<Point, VersionError> {
        Ok(Point { version: parse(version)?, history: self.state.lock().history() })
    }

    /// Whether `wanted` is reached, or cannot be reached any more. None: it may be.
    fn look(&self, wanted: &Point) -> Option<Result<(), WaitError>> {
        let state = self.state.lock();
        let text = || wanted.version.to_string();
        if wanted.history < state.history() {
            return Some(Err(WaitError::Rewound { version: text() }));
        }
        if state.reached.as_ref() >= Some(wanted) {
            return Some(Ok(()));
        }
        match state.writer {
            Writer::Open => None,
            Writer::Closed if state.marked.as_ref() >= Some(wanted) => None,
            Writer::Closed | Writer::Gone => Some(Err(WaitError::Closed { version: text() })),
            Writer::Untracked => Some(Err(VersionError::NotTracked { version: text() }.into())),
        }
    }

    /// Blocks until `version` is reached.
    pub(crate) fn wait(&self, version: &str) -> Result<(), WaitError> {
        let wanted = self.wanted(version)?;
        wait(&self.changed, || self.look(&wanted))
    }

    /// The same for async callers.
    pub(crate) async fn wait_async(&self, version: &str) -> Result<(), WaitError> {
        let wanted = self.wanted(version)?;
        wait_async(&self.changed, || self.look(&wanted)).await
    }
}

/// A version that compares.
pub(crate) fn parse(version: &str) -> Result<ResourceVersion, VersionError> {
    ResourceVersion::parse(version).ok_or_else(|| VersionError::NotANumber { version: version.to_owned() })
}

/// Belongs to who writes the store. When it is dropped nothing is applied any more.
pub(crate) struct Source(Arc<Applied>);

impl Source {
    pub(crate) fn of(applied: &Arc<Applied>) -> Self {
        Self(applied.clone())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.0.becomes(Writer::Gone);
    }
}
