//! The future of [`get`](super::WorkQueue::get).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Key;
use super::item::Item;
use super::shared::{NextItem, SharedQueue};

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

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(getter) = self.asleep {
            if self.shared.sleeps_on(getter, context.waker()) {
                return Poll::Pending;
            }
            self.asleep = None;
        }
        let mut waker = None;
        loop {
            match self.shared.take() {
                NextItem::Item(item) => return Poll::Ready(Some(item)),
                NextItem::ShutDown => return Poll::Ready(None),
                NextItem::Empty(mut state) => {
                    if let Some(waker) = waker.take() {
                        self.asleep = Some(state.sleepers.add(waker));
                        return Poll::Pending;
                    }
                }
            }
            // The waker is user code, so it is cloned with no lock held. Then a key may have been
            // added, so the queue is checked again.
            waker = Some(context.waker().clone());
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
