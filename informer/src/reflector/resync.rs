//! The periodic resync of a target.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::error::{ReflectorError, caught};
use super::target::Target;
use super::threads::Threads;
use crate::util::time::period;

type ShouldResync = dyn Fn() -> bool + Send + Sync;

/// The period of a target's resyncs, and the condition for them.
#[derive(Clone)]
pub(crate) struct Resync {
    period: Duration,
    should_resync: Arc<ShouldResync>,
}

impl Resync {
    /// Creates a resync with the period `every`. Returns `None` if that is 0.
    pub(super) fn new(
        every: Duration,
        should_resync: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Option<Self> {
        period(every).map(|period| Self { period, should_resync: Arc::new(should_resync) })
    }

    /// Resyncs `target` each period, on a thread that may block, and passes errors to `report`.
    pub(crate) async fn run<K: 'static>(
        &self,
        target: &Arc<dyn Target<K>>,
        threads: &Threads,
        report: impl Fn(&ReflectorError),
    ) -> Infallible {
        loop {
            sleep(self.period).await;
            let resynced = match caught(|| (self.should_resync)()) {
                Ok(false) => continue,
                Ok(true) => {
                    let target = Arc::clone(target);
                    threads.run(move || target.resync()).await
                }
                Err(panicked) => Err(panicked),
            };
            match resynced {
                Ok(Ok(())) => {}
                Ok(Err(error)) => report(&error.into()),
                Err(error) => report(&error),
            }
        }
    }
}
