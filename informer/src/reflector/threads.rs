//! The threads that work for a reflector: what may block, or run user code, is no work for the async ones.

use std::sync::Arc;

use tokio::sync::RwLock;
use tokio::task::spawn_blocking;
use tracing::Span;

use super::error::{ReflectorError, caught};

/// Each piece of work holds a share, to its end: it goes on when the run that waits for it is dropped.
#[derive(Clone, Default)]
pub(super) struct Threads(Arc<RwLock<()>>);

impl Threads {
    /// Runs `work`, which may run user code, where it may block.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, ReflectorError> {
        let share = Arc::clone(&self.0).read_owned().await;
        let span = Span::current();
        let working = spawn_blocking(move || {
            let done = caught(|| span.in_scope(work));
            drop(share);
            done
        });
        match working.await {
            Ok(done) => done,
            // The runtime shuts down, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until nothing works any more.
    pub(super) async fn idle(&self) {
        drop(self.0.write().await);
    }
}
