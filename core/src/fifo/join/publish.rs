//! The third step: queues the slots that have become pending, in list order.

use super::Share;
use crate::Meta;
use crate::engine::ledger::Epoch;
use crate::engine::ready_queue::Lane;
use crate::engine::slot::Ticket;
use crate::engine::sync::{RUN, mutant};
use crate::fifo::DeltaFifo;

/// Slots that are pending and not yet in the queue, with their indices in the stride. The drop
/// queues them, so they are queued however the thread ends.
pub(super) struct Unpublished<'f, T: Send + Sync, M: Meta<T>> {
    pub(super) fifo: &'f DeltaFifo<T, M>,
    pub(super) lane: Lane,
    /// The epoch on which there is a hold while `slots` is not empty, in a queue that tracks the
    /// applied version.
    pub(super) since: Option<Epoch>,
    pub(super) slots: Vec<(u32, Ticket<T>)>,
}

impl<T: Send + Sync, M: Meta<T>> Drop for Unpublished<'_, T, M> {
    fn drop(&mut self) {
        self.fifo.publish(self.lane, self.since, self.slots.drain(..).map(|(_, slot)| slot));
    }
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Runs the third step: queues the slots that have become pending, in list order.
    pub(super) fn publish_in_order(
        &self,
        lane: Lane,
        since: Option<Epoch>,
        stride: usize,
        in_order: &mut Vec<Option<Ticket<T>>>,
        shares: &mut [Share<'_, T, M>],
    ) {
        in_order.resize_with(stride, || None);
        for (index, slot) in shares.iter_mut().flat_map(|share| share.queued.slots.drain(..)) {
            in_order[index as usize] = Some(slot);
        }
        self.publish(lane, since, in_order.iter_mut().filter_map(Option::take));
    }

    /// Queues slots that were pushed while the caller had a hold on `since`, which it still has.
    /// `since` is `None` if versions are not tracked.
    fn publish(&self, lane: Lane, since: Option<Epoch>, slots: impl Iterator<Item = Ticket<T>>) {
        let mut slots = slots.peekable();
        let mut count = 0;
        while slots.peek().is_some() {
            let run: Vec<_> = slots.by_ref().take(RUN).collect();
            count += run.len();
            self.push_run(lane, run, since);
        }
        mutant!(RunWakesOne => return self.queue.wake(count.min(1)));
        // After all of them, because a waker may run user code.
        self.queue.wake(count);
    }
}
