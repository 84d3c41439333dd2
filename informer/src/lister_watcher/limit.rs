//! How large objects may be, and what a reflector has to know of the reading of large ones.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{RawObject, TooLarge};
use crate::wire::{LARGE, Share, Whole, process_budget};

/// The most bytes of JSON that an object may have: 64 MiB by default. A lister-watcher that reads
/// bodies passes over a larger object without keeping it, and yields
/// [`RequestError::TooLarge`](super::RequestError::TooLarge) in its place.
///
/// Pass clones of the one that came with the request on to the sources that are asked. They share
/// what a reflector has to know to tell a server that sends nothing from one whose large object is
/// on its way.
#[derive(Clone)]
pub struct ObjectLimit {
    bytes: usize,
    progress: Arc<Mutex<Progress>>,
}

/// What there is of large objects while they are not complete. A reflector that waits for one is
/// not to take the server for silent.
#[derive(Default)]
struct Progress {
    /// How many wait for a share of the budget, and since when there have been any.
    waiting: usize,
    since: Option<Instant>,
    /// How long some have waited, before that.
    waited: Duration,
    /// When the last one got it, or bytes of an object came that is not complete.
    last: Option<Instant>,
}

impl ObjectLimit {
    /// So many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes, progress: Arc::default() }
    }

    /// How many bytes that is.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits for a share of the process's budget.
    pub(super) async fn share(&self, bytes: usize) -> Share {
        let _waiting = Waiting::of(&self.progress);
        process_budget().share(bytes).await
    }

    /// Bytes of an object came that is not complete.
    pub(super) fn goes_on(&self) {
        self.progress.lock().last = Some(Instant::now());
    }

    /// How long `silence` has yet to go on before the server is silent; none if nothing of a large
    /// object has come for so long.
    pub(crate) fn left_of(&self, silence: Duration) -> Option<Duration> {
        let progress = self.progress.lock();
        if progress.waiting > 0 {
            return Some(silence);
        }
        silence.checked_sub(progress.last?.elapsed()).filter(|left| !left.is_zero())
    }

    /// Returns for how long large objects have waited for shares so far. This is no time of the
    /// server's.
    pub(crate) fn waited(&self) -> Duration {
        let progress = self.progress.lock();
        progress.waited + progress.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether it has to wait for a share before it can be handed out.
    pub(super) fn waits_for_share(whole: &Whole) -> bool {
        matches!(whole, Whole::Read(bytes, None) if bytes.len() > LARGE)
    }

    /// An item of a list.
    pub(super) async fn item(&self, whole: Whole) -> RawObject {
        match whole {
            Whole::Read(bytes, None) if bytes.len() <= LARGE => bytes.into(),
            Whole::Read(bytes, share) => self.held(bytes, share).await.into(),
            Whole::Skipped(outline) => TooLarge::of(outline, self.bytes).into(),
        }
    }

    /// `bytes` with a share of the budget, if they are large.
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

/// A wait for a share.
struct Waiting<'p>(&'p Mutex<Progress>);

impl<'p> Waiting<'p> {
    fn of(progress: &'p Mutex<Progress>) -> Self {
        let mut locked = progress.lock();
        locked.waiting += 1;
        locked.since.get_or_insert_with(Instant::now);
        Self(progress)
    }
}

impl Drop for Waiting<'_> {
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
