//! Work that goes on when whoever waits for it is gone, and who waits until it has ended all the
//! same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::sleep::sleep_until_some;

/// How much works: each piece of work holds a [`Share`], to its end.
#[derive(Clone, Default)]
pub(crate) struct Shares(Arc<Held>);

#[derive(Default)]
struct Held {
    shares: AtomicUsize,
    /// None is held any more.
    back: Notify,
}

impl Shares {
    /// For a piece of work that is about to begin.
    pub(crate) fn take(&self) -> Share {
        // Relaxed: whoever takes one has another, or is found by what orders it behind who asks.
        self.0.shares.fetch_add(1, Ordering::Relaxed);
        Share(self.0.clone())
    }

    /// Whether nothing works.
    pub(crate) fn are_back(&self) -> bool {
        // Acquire: all that was done with shares, of which each was given back by a Release.
        self.0.shares.load(Ordering::Acquire) == 0
    }

    /// Waits until nothing works any more.
    pub(crate) async fn back(&self) {
        sleep_until_some(&self.0.back, || self.are_back().then_some(())).await;
    }
}

/// Something works until this is dropped.
pub(crate) struct Share(Arc<Held>);

impl Drop for Share {
    fn drop(&mut self) {
        // Release: partner of the look of who waits; Acquire: of the others', whose work the last
        // one hands on.
        if self.0.shares.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.back.notify_waiters();
        }
    }
}
