//! The size limit of objects, and the progress of large objects that are being read. A large object
//! waits for a share of the memory budget that all large objects of the process have together
//! (`wire/budget.rs`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo::locks::Mutex;
use tokio::time::Instant;

use super::{RawObject, TooLarge};
use crate::wire::{CompleteText, LARGE, Share, process_budget};

/// The largest number of bytes of JSON that an object may have: 64 MiB by default. A
/// lister-watcher that reads bodies skips a larger object without keeping it, and yields
/// [`RequestError::TooLarge`](super::RequestError::TooLarge) in its place.
///
/// A lister-watcher that calls others passes them clones of the limit of the request. Clones share
/// the progress of large objects, by which the reflector distinguishes a silent server from one
/// that is sending a large object.
#[derive(Clone)]
pub struct ObjectLimit {
    bytes: usize,
    progress: Arc<Mutex<LargeObjectProgress>>,
}

/// The progress of incomplete large objects. While there is progress, the reflector does not treat
/// the server as silent.
#[derive(Default)]
struct LargeObjectProgress {
    /// The number of objects that wait for a share of the budget.
    waiting: usize,
    /// The time since which at least one object has been waiting for a share, or `None` if none
    /// waits.
    since: Option<Instant>,
    /// The total of earlier periods in which objects waited for shares.
    waited: Duration,
    /// The time at which an object last got its share, or bytes of an incomplete object last
    /// arrived.
    last: Option<Instant>,
}

impl ObjectLimit {
    /// Creates a limit of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes, progress: Arc::default() }
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits for a share of the process's budget.
    pub(super) async fn share(&self, bytes: usize) -> Share {
        let _waiting = ShareWait::of(&self.progress);
        process_budget().share(bytes).await
    }

    /// Records that bytes of an incomplete object arrived.
    pub(super) fn goes_on(&self) {
        self.progress.lock().last = Some(Instant::now());
    }

    /// Returns how much of the timeout `silence` is left, counted from the last progress of a
    /// large object; `None` if there was no progress for that long.
    pub(crate) fn left_of(&self, silence: Duration) -> Option<Duration> {
        let progress = self.progress.lock();
        if progress.waiting > 0 {
            return Some(silence);
        }
        silence.checked_sub(progress.last?.elapsed()).filter(|left| !left.is_zero())
    }

    /// Returns how long large objects have waited for shares so far. The server is not responsible
    /// for this time.
    pub(crate) fn waited(&self) -> Duration {
        let progress = self.progress.lock();
        progress.waited + progress.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns whether the item must wait for a share before it can be emitted.
    pub(super) fn waits_for_share(whole: &CompleteText) -> bool {
        matches!(whole, CompleteText::Read(bytes, None) if bytes.len() > LARGE)
    }

    /// Returns an item of a list as a raw object, after it has got its share.
    pub(super) async fn item(&self, whole: CompleteText) -> RawObject {
        match whole {
            CompleteText::Read(bytes, None) if bytes.len() <= LARGE => bytes.into(),
            CompleteText::Read(bytes, share) => self.held(bytes, share).await.into(),
            CompleteText::Skipped(outline) => TooLarge::of(outline, self.bytes).into(),
        }
    }

    /// Returns `bytes`; if they are large, they hold a share of the budget.
    pub(super) async fn held(&self, bytes: Bytes, share: Option<Share>) -> Bytes {
        match share {
            Some(mut share) => {
                share.shrink_to(bytes.len());
                share.held_by(bytes)
            }
            None if bytes.len() > LARGE => self.share(bytes.len()).await.held_by(bytes),
            None => bytes,
        }
    }
}

impl Default for ObjectLimit {
    fn default() -> Self {
        Self::new(64 << 20)
    }
}

/// A wait for a share, counted in the progress until it is dropped.
struct ShareWait<'p>(&'p Mutex<LargeObjectProgress>);

impl<'p> ShareWait<'p> {
    fn of(progress: &'p Mutex<LargeObjectProgress>) -> Self {
        let mut locked = progress.lock();
        locked.waiting += 1;
        locked.since.get_or_insert_with(Instant::now);
        Self(progress)
    }
}

impl Drop for ShareWait<'_> {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        progress.waiting -= 1;
        progress.last = Some(Instant::now());
        if progress.waiting == 0 {
            let waited = progress.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            progress.waited += waited;
        }
    }
}
