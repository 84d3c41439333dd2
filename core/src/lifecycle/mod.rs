//! The lifecycle of a [`DeltaFifo`](crate::DeltaFifo) or [`InOrderFifo`](crate::InOrderFifo): the
//! initial population (`initial`), the number of pending deltas (`depth`), and the waiters for
//! both and for the close.

mod depth;
mod initial;

pub(crate) use depth::Depth;
pub(crate) use initial::{Initial, Marks};

/// The lifecycle of one queue.
pub(crate) struct Lifecycle {
    pub(crate) initial: Initial,
    pub(crate) depth: Depth,
}

impl Lifecycle {
    /// Creates the lifecycle of an empty queue without a high-water mark.
    pub(crate) fn new() -> Self {
        Self { initial: Initial::new(), depth: Depth::new(None) }
    }

    /// Subtracts handled items: `weight` from the pending deltas, and `marks` from the outstanding
    /// items of the initial population. Returns the waits that ended.
    #[inline]
    pub(crate) fn settled(&self, weight: usize, marks: usize) -> Ended {
        Ended { room: self.depth.subtract(weight), synced: self.initial.settled(marks) }
    }

    /// Wakes the waiters whose wait is over according to `ended`. Must be called with no lock held,
    /// because wakers are user code.
    #[inline]
    pub(crate) fn announce(&self, ended: Ended) {
        if ended.room {
            self.depth.announce();
        }
        if ended.synced {
            self.initial.announce();
        }
    }

    /// Wakes all waiters, because the queue is closed.
    pub(crate) fn announce_close(&self) {
        self.initial.announce();
        self.depth.announce();
    }
}

/// The kinds of waits that ended because some deltas were handled.
#[derive(Clone, Copy)]
#[must_use = "a producer or a caller may be waiting"]
pub(crate) struct Ended {
    /// Whether the gauge of pending deltas fell below the high-water mark.
    pub(crate) room: bool,
    /// Whether the initial population ended.
    pub(crate) synced: bool,
}
