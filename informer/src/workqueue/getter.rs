//! The future of [`get`](super::WorkQueue::get).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::task::coop::poll_proceed;

use super::Key;
use super::item::Item;
use super::shared::{NextItem, SharedQueue};
use super::sync::mutant;

/// A call of [`get`](super::WorkQueue::get).
pub(super) struct Getter<'q, K: Key> {
    shared: &'q Arc<SharedQueue<K>>,
    /// The number of the getter among those that sleep, once it sleeps.
    asleep: Option<u32>,
}

impl<'q, K: Key> Getter<'q, K> {
    pub(super) fn new(shared: &'q Arc<SharedQueue<K>>) -> Self {
        Self { shared, asleep: None }
    }
}

impl<K: Key> Future for Getter<'_, K> {
    type Output = Option<Item<K>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.asleep {
            // A caller that always finds a key never waits, and would starve other tasks.
            None => ready!(poll_proceed(context)).made_progress(),
            Some(getter) if self.shared.sleeps_on(getter, context.waker()) => return Poll::Pending,
            Some(_) => self.asleep = None,
        }
        match self.shared.take() {
            NextItem::Item(item) => return Poll::Ready(Some(item)),
            NextItem::ShutDown => return Poll::Ready(None),
            NextItem::Empty(_) => {}
        }
        self.take_or_sleep(context)
    }
}

impl<K: Key> Getter<'_, K> {
    /// Takes a key, or begins to sleep.
    fn take_or_sleep(&mut self, context: &mut Context<'_>) -> Poll<Option<Item<K>>> {
        // The waker is user code, so it is cloned with no lock held. A key may have been added
        // since the last check, so the queue is checked again.
        let waker = context.waker().clone();
        mutant!(NoSecondCheck => {
            self.asleep = Some(self.shared.state.lock().sleepers.add(waker));
            return Poll::Pending;
        });
        match self.shared.take() {
            NextItem::Item(item) => Poll::Ready(Some(item)),
            NextItem::ShutDown => Poll::Ready(None),
            NextItem::Empty(mut state) => {
                self.asleep = Some(state.sleepers.add(waker));
                Poll::Pending
            }
        }
    }
}

impl<K: Key> Drop for Getter<'_, K> {
    fn drop(&mut self) {
        if let Some(getter) = self.asleep {
            self.shared.give_up(getter);
        }
    }
}
