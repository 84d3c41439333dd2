//! The threads that work for a reflector: what may block, or run user code, is no work for the
//! async ones.

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::Span;

use super::error::{ReflectorError, caught};
use crate::shares::Shares;

/// Each piece of work holds a share, to its end: it goes on when the run that waits for it is
/// dropped, or not polled.
#[derive(Clone, Default)]
pub(crate) struct Threads {
    pub(crate) shares: Shares,
}

impl Threads {
    /// Runs `work`, which may run user code, where it may block.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, ReflectorError> {
        let share = self.shares.take();
        let span = Span::current();
        let (tell, told) = oneshot::channel();
        spawn_blocking(move || {
            let done = caught(|| span.in_scope(work));
            // If nobody waits any more, the drop of what was done belongs to the work.
            drop(tell.send(done));
            drop(share);
        });
        match told.await {
            Ok(done) => done,
            // The runtime shuts down, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }
}
