//! Blocking threads for a reflector: work that may block, or that runs user code, must not run on
//! the runtime's workers.

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::Span;

use super::error::{ReflectorError, caught};
use crate::util::in_flight::InFlight;

#[cfg(test)]
thread_local! {
    /// Whether the tasks of this thread do such work themselves. A test sets it, so that the order
    /// of its tasks does not depend on other threads.
    pub(crate) static RUNS_INLINE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A handle of the blocking threads. Each piece of work holds a guard until its end, and keeps
/// running if the run that waits for it is dropped or not polled.
#[derive(Clone, Default)]
pub(crate) struct Threads {
    pub(crate) work: InFlight,
}

impl Threads {
    /// Runs `work`, which may run user code, on a thread that may block.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, ReflectorError> {
        let guard = self.work.begin();
        let span = Span::current();
        #[cfg(test)]
        if RUNS_INLINE.get() {
            return caught(|| span.in_scope(work));
        }
        let (sender, receiver) = oneshot::channel();
        spawn_blocking(move || {
            let done = caught(|| span.in_scope(work));
            // If the receiver is gone, the result is dropped here, as a part of the work.
            drop(sender.send(done));
            drop(guard);
        });
        match receiver.await {
            Ok(done) => done,
            // The runtime is shutting down, which ends this task as well.
            Err(_) => std::future::pending().await,
        }
    }
}
