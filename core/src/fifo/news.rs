//! What others are told when a step is over: sleeping consumers of keys, and who waits for room or for the initial
//! population of its end. Telling runs wakers, which are user code and may panic. So all of it comes last, with everything
//! counted and queued and no lock held, and one panic does not keep the news from the others.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::DeltaFifo;
use crate::Meta;

/// See the module.
#[must_use = "somebody may be waiting for it"]
pub(super) struct News {
    /// Keys that were queued.
    pub(super) queued: usize,
    /// Whether the depth fell below the mark.
    pub(super) room: bool,
    /// Whether the initial population ended.
    pub(super) synced: bool,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    #[inline]
    pub(super) fn tell(&self, news: &News) {
        if news.queued > 0 || news.room || news.synced {
            let room = || {
                if news.room {
                    self.depth.announce();
                }
            };
            let synced = || {
                if news.synced {
                    self.initial.announce();
                }
            };
            each([&|| self.queue.wake(news.queued), &room, &synced]);
        }
    }
}

/// Does all three, and then goes on with the first panic.
pub(super) fn each(told: [&dyn Fn(); 3]) {
    for told in told.map(|tell| catch_unwind(AssertUnwindSafe(tell))) {
        told.unwrap_or_else(|panic| resume_unwind(panic));
    }
}
