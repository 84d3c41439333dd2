//! The applied version of a store: the greatest whose marker, and everything before it, is handled; and the wait for one.
//!
//! It belongs to the store's readers, who outlive the queue and do not know it. Whoever writes the store has its
//! [`Source`]: a queue that tracks what is applied (`ledger.rs`), or an indexer alone.

use crate::error::{VersionError, WaitError};
use crate::sync::{Arc, Event, IntoNotification, Mutex, mutant};
use crate::version::ResourceVersion;
use crate::wait::{wait, wait_async};

pub(crate) struct Applied {
    state: Mutex<State>,
    /// Told when the version rises, and when it will not rise any more.
    changed: Event,
}

struct State {
    version: Option<ResourceVersion>,
    /// The greatest that has a marker.
    marked: Option<ResourceVersion>,
    writer: Writer,
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
        let state = State { version: None, marked: None, writer: Writer::Open };
        Self { state: Mutex::new(state), changed: Event::new() }
    }

    /// The version, as text without leading zeros.
    pub(crate) fn version(&self) -> Option<String> {
        self.state.lock().version.as_ref().map(ResourceVersion::to_string)
    }

    /// A marker of `version` is about to be queued. An error when nobody would notice that it is applied.
    pub(crate) fn expect(&self, version: &ResourceVersion) -> Result<(), VersionError> {
        let mut state = self.state.lock();
        if state.writer == Writer::Untracked {
            return Err(VersionError::NotTracked { version: version.to_string() });
        }
        if state.marked.as_ref() < Some(version) {
            state.marked = Some(version.clone());
        }
        Ok(())
    }

    /// Everything up to `version` is applied. The greatest stays. Tells who waits: with no lock held.
    pub(crate) fn raise(&self, version: ResourceVersion) {
        let mut state = self.state.lock();
        if state.version.as_ref() >= Some(&version) {
            return;
        }
        state.version = Some(version);
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

    fn announce(&self) {
        self.changed.notify(usize::MAX.additional());
    }

    /// Whether `version` is reached, or cannot be reached any more. None: it may be.
    fn look(&self, version: &ResourceVersion) -> Option<Result<(), WaitError>> {
        let state = self.state.lock();
        if state.version.as_ref() >= Some(version) {
            return Some(Ok(()));
        }
        let text = || version.to_string();
        match state.writer {
            Writer::Open => None,
            Writer::Closed if state.marked.as_ref() >= Some(version) => None,
            Writer::Closed | Writer::Gone => Some(Err(WaitError::Closed { version: text() })),
            Writer::Untracked => Some(Err(VersionError::NotTracked { version: text() }.into())),
        }
    }

    /// Blocks until `version` is reached.
    pub(crate) fn wait(&self, version: &str) -> Result<(), WaitError> {
        let version = parse(version)?;
        wait(&self.changed, || self.look(&version))
    }

    /// The same for async callers.
    pub(crate) async fn wait_async(&self, version: &str) -> Result<(), WaitError> {
        let version = parse(version)?;
        wait_async(&self.changed, || self.look(&version)).await
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
