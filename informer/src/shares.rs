//! Work that goes on when whoever waits for it is gone, and who waits until it has ended all the same.

use std::sync::Arc;

use tokio::sync::watch;

use crate::sleep::soundly;

/// How much works: each piece of work holds a [`Share`], to its end.
#[derive(Clone, Default)]
pub(crate) struct Shares(Arc<watch::Sender<usize>>);

impl Shares {
    /// For a piece of work that is about to begin.
    pub(crate) fn take(&self) -> Share {
        self.0.send_modify(|held| *held += 1);
        Share(self.0.clone())
    }

    /// Whether nothing works.
    pub(crate) fn are_back(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Waits until nothing works any more.
    pub(crate) async fn back(&self) {
        // It fails only when the sender is gone, which is here.
        let _ = soundly(self.0.subscribe().wait_for(|held| *held == 0)).await;
    }
}

/// Something works until this is dropped.
pub(crate) struct Share(Arc<watch::Sender<usize>>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}
