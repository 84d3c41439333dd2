//! The applied version of a store: the greatest version whose marker, and everything before it,
//! has been handled; and waiting for a version.
//!
//! The applied version is shared by the readers of the store, which may outlive its writer, and
//! the writer, which holds a [`Source`]. The writer is a queue that tracks applied versions
//! (`engine/ledger.rs`), or an indexer without a queue.
//!
//! The versions of an API server only grow, until it is restored from a backup: they then continue
//! from an older version, and the same number means another state. A version is therefore stored as
//! a [`Point`], with the number of its *history*. A complete list at a lower version than the
//! greatest marker begins the next history. Points compare by history first, so a marker of an
//! earlier history that completes late changes nothing, whatever its version.
//!
//! A store can be fed in parts, for example scopes. The applied version is then the lowest of the
//! parts' versions. A part that is added, or counts again after a waiver, begins the next
//! *edition*: markers of earlier editions say nothing about that part. A wait for everything that
//! was offered before it (`DeltaFifo::handled`) also begins an edition. Unlike a new history, a new
//! edition does not end the wait for a version.

use crate::engine::sync::{Arc, Event, IntoNotification, Mutex, mutant};
use crate::engine::wait::{wait, wait_async};
use crate::error::{VersionError, WaitError};
use crate::version::ResourceVersion;

pub(crate) struct Applied {
    state: Mutex<AppliedState>,
    /// The event that is notified when the version rises, when it can no longer rise, and when a
    /// history begins.
    changed: Event,
}

struct AppliedState {
    /// The greatest version reached. If it belongs to an earlier history or edition, it says
    /// nothing about the current one.
    reached: Option<Point>,
    /// The greatest version with a marker. It belongs to the current history.
    marked: Option<Point>,
    /// The number of the current edition.
    edition: u64,
    /// The number of parts that feed the store, 0 if it is fed as a whole.
    parts: usize,
    writer: WriterState,
}

/// A version with the numbers of its history and of its edition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    history: u64,
    /// The edition in which the point was formed; 0 for a point of a single part, which is only
    /// compared with points of that part.
    edition: u64,
    version: ResourceVersion,
}

impl Point {
    #[cfg(test)]
    pub(crate) fn first(version: &str) -> Self {
        Self { history: 0, edition: 0, version: parse(version).unwrap() }
    }
}

/// A version that a caller waits for.
struct AwaitedVersion {
    history: u64,
    version: ResourceVersion,
}

/// The origin of a version: a bookmark or a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Bookmark,
    /// A complete list, which is authoritative even if its version is lower.
    List,
}

impl AppliedState {
    /// Returns the number of the current history.
    fn history(&self) -> u64 {
        self.marked.as_ref().map_or(0, |marked| marked.history)
    }

    /// Returns whether `point` belongs to the current history and edition.
    fn is_current(&self, point: &Point) -> bool {
        point.history == self.history() && point.edition == self.edition
    }

    fn mark(&mut self, point: &Point) {
        if self.marked.as_ref() < Some(point) {
            self.marked = Some(point.clone());
        }
    }
}

/// The state of the store's writer. It only moves to a later variant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WriterState {
    Open,
    /// The writer is closed. Versions that have a marker may still be reached.
    Closed,
    /// The writer is dropped. Nothing more is applied.
    Gone,
    /// The queue does not track applied versions.
    Untracked,
}

impl Applied {
    pub(crate) fn new() -> Self {
        let state = AppliedState {
            reached: None,
            marked: None,
            edition: 0,
            parts: 0,
            writer: WriterState::Open,
        };
        Self { state: Mutex::new(state), changed: Event::new() }
    }

    /// Returns the applied version, as text without leading zeros.
    pub(crate) fn version(&self) -> Option<String> {
        let state = self.state.lock();
        state
            .reached
            .as_ref()
            .filter(|point| state.is_current(point))
            .map(|point| point.version.to_string())
    }

    /// Returns the point for `version`, whose marker is about to be queued. A list at a lower
    /// version than the greatest marked one begins a new history, and the caller must then call
    /// [`announce`](Self::announce) with no lock held. A list at version 0 does not begin one: 0
    /// names no state, and some API servers use it for every list. Returns an error if the queue
    /// does not track applied versions, and for a bookmark of a store that is fed in parts, because
    /// the bookmark would also cover parts that were not listed.
    pub(crate) fn expect(
        &self,
        version: ResourceVersion,
        origin: Origin,
    ) -> Result<Point, VersionError> {
        let mut state = self.state.lock();
        if state.writer == WriterState::Untracked {
            return Err(VersionError::NotTracked { version: version.to_string() });
        }
        if origin == Origin::Bookmark && state.parts > 0 {
            return Err(VersionError::HasScopes { version: version.to_string() });
        }
        let is_lower = state.marked.as_ref().is_some_and(|marked| version < marked.version);
        let begins = origin == Origin::List && is_lower && !version.is_zero();
        let history = state.history() + u64::from(begins);
        let point = Point { history, edition: state.edition, version };
        state.mark(&point);
        Ok(point)
    }

    /// Returns the number of the current history.
    pub(crate) fn history(&self) -> u64 {
        self.state.lock().history()
    }

    /// Returns the point for `version` of one part of the store's input, for example a scope.
    /// Everything of the part up to `reached` has been offered. `began` is the
    /// [history](Self::history) that was current when the part's list began, or `None` if the
    /// version is that of a bookmark, which belongs to the history of the part's last list. (In a
    /// queue that does not track applied versions `began` always is `None`.) `added` is the history
    /// that was current when the part was added. A bookmark before the first list belongs to it,
    /// because its watch may have been opened before a restore that another list has shown since.
    ///
    /// Each part is listed separately, and its lists begin histories. A list belongs to the history
    /// in which it began, because the server may have answered it before a restore that another
    /// list has shown since. A list at a lower version than the part has reached (unless the
    /// version is 0) shows a restore after the part's last list, and so belongs at least to the
    /// history after that of the last list. So the history of a list does not depend on the order
    /// in which lists of different parts end. A point of an earlier history is less than every
    /// point of the current one. Returns an error if the queue does not track applied versions.
    pub(crate) fn expect_part(
        &self,
        reached: Option<&Point>,
        version: ResourceVersion,
        began: Option<u64>,
        added: u64,
    ) -> Result<Point, VersionError> {
        let mut state = self.state.lock();
        if state.writer == WriterState::Untracked {
            return Err(VersionError::NotTracked { version: version.to_string() });
        }
        let history = match (began, reached) {
            (Some(began), Some(reached)) => {
                let is_lower = version < reached.version && !version.is_zero();
                mutant!(ListIsOfTheCurrentHistory => let began = state.history());
                began.max(reached.history + u64::from(is_lower))
            }
            (Some(began), None) => began,
            (None, Some(reached)) => reached.history,
            (None, None) => added,
        };
        if history > state.history() {
            let (edition, version) = (state.edition, ResourceVersion::zero());
            state.marked = Some(Point { history, edition, version });
        }
        Ok(Point { history, edition: 0, version })
    }

    /// Returns the point for `least`, up to which everything of every part was offered, and whose
    /// marker is about to be queued. Returns `None` if a marker of this point or of a greater one
    /// was queued before: another one would change nothing.
    pub(crate) fn expect_least(&self, least: Point) -> Option<Point> {
        let mut state = self.state.lock();
        let point = Point { edition: state.edition, ..least };
        // The point at version 0 with which a history begins has no marker (see `expect_part`).
        if Some(&point) <= state.marked.as_ref() && !point.version.is_zero() {
            return None;
        }
        state.mark(&point);
        Some(point)
    }

    /// Records that the store's input has a new part. The store then has no applied version until a
    /// point that includes every part is applied.
    pub(crate) fn add_part(&self) {
        self.state.lock().parts += 1;
        mutant!(NewScopeIsAhead => return);
        self.begin_edition();
    }

    /// Begins the next edition: the store then has no applied version until a point that is formed
    /// after this call is applied.
    pub(crate) fn begin_edition(&self) {
        self.state.lock().edition += 1;
    }

    /// Records that a part of the store's input was removed.
    pub(crate) fn remove_part(&self) {
        self.state.lock().parts -= 1;
    }

    /// Records that everything up to `point` is applied, and wakes waiters. Does nothing if `point`
    /// is not greater than the last one. Must be called with no lock held.
    pub(crate) fn raise(&self, point: Point) {
        let mut state = self.state.lock();
        if state.reached.as_ref() >= Some(&point) {
            return;
        }
        state.reached = Some(point);
        drop(state);
        mutant!(AppliedWakesNoWaiter => return);
        self.announce();
    }

    /// Records that the queue does not track applied versions.
    pub(crate) fn untracked(&self) {
        self.set_writer(WriterState::Untracked);
    }

    /// Records that the queue is closed.
    pub(crate) fn close(&self) {
        self.set_writer(WriterState::Closed);
    }

    fn set_writer(&self, writer: WriterState) {
        let mut state = self.state.lock();
        state.writer = state.writer.max(writer);
        drop(state);
        mutant!(AppliedCloseWakesNoWaiter => return);
        self.announce();
    }

    /// Wakes waiters. Must be called with no lock held.
    pub(crate) fn announce(&self) {
        self.changed.notify(usize::MAX.additional());
    }

    /// Parses a version to wait for. It is assumed to belong to the current history.
    fn awaited(&self, version: &str) -> Result<AwaitedVersion, VersionError> {
        Ok(AwaitedVersion { version: parse(version)?, history: self.state.lock().history() })
    }

    /// Returns `Ok` if `awaited` is reached, the error if it can no longer be reached, and `None`
    /// if the caller has to wait.
    fn check(&self, awaited: &AwaitedVersion) -> Option<Result<(), WaitError>> {
        let state = self.state.lock();
        let covers = |point: &Option<Point>| {
            let current = point.as_ref().filter(|point| state.is_current(point));
            current.is_some_and(|point| point.version >= awaited.version)
        };
        let text = || awaited.version.to_string();
        if awaited.history < state.history() {
            return Some(Err(WaitError::Rewound { version: text() }));
        }
        if covers(&state.reached) {
            return Some(Ok(()));
        }
        match state.writer {
            WriterState::Open => None,
            WriterState::Closed if covers(&state.marked) => None,
            WriterState::Closed | WriterState::Gone => {
                Some(Err(WaitError::Closed { version: text() }))
            }
            WriterState::Untracked => {
                Some(Err(VersionError::NotTracked { version: text() }.into()))
            }
        }
    }

    /// Blocks until `version` is reached.
    pub(crate) fn wait(&self, version: &str) -> Result<(), WaitError> {
        let awaited = self.awaited(version)?;
        wait(&self.changed, || self.check(&awaited))
    }

    /// Waits like [`wait`](Self::wait), for async callers.
    pub(crate) async fn wait_async(&self, version: &str) -> Result<(), WaitError> {
        let awaited = self.awaited(version)?;
        wait_async(&self.changed, || self.check(&awaited)).await
    }
}

/// Parses a version. Fails if it is not a decimal number, because it can then not be compared.
pub(crate) fn parse(version: &str) -> Result<ResourceVersion, VersionError> {
    ResourceVersion::parse(version)
        .ok_or_else(|| VersionError::NotANumber { version: version.to_owned() })
}

/// A guard that the store's writer holds. Its drop records that nothing more is applied, which ends
/// the waits.
pub(crate) struct Source(Arc<Applied>);

impl Source {
    pub(crate) fn of(applied: &Arc<Applied>) -> Self {
        Self(applied.clone())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.0.set_writer(WriterState::Gone);
    }
}
