//! The feed of a handler: its inbox behind a lock, its waker, and its observable state. The
//! handler's thread, task or stream takes notifications with [`Feed::poll`].

mod delivery;

use std::task::Waker;
use std::time::Duration;

use deltafifo::panics::ignore_panic;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::Span;

use super::handler::HandlerOptions;
use super::protocol::{ActiveKeys, DeferredDrops, Inbox, WalkedStore};
use super::step::Step;
use crate::metrics::Named;
use crate::shared_informer::error::OnError;
use crate::shared_informer::metrics::HandlerMetrics;
use crate::shared_informer::sync::{Arc, Mutex, mutant};
use crate::util::sleep::{wait_until_some, with_catching_waker};
use crate::util::time::period;
pub(super) use delivery::Delivery;

/// The shortest resync period, as in client-go.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// A filter: returns whether a handler is notified of an object.
pub(super) type Matches<K> = dyn Fn(&K) -> bool + Send + Sync;

/// The feed of one handler.
pub(in crate::shared_informer) struct Feed<K> {
    known: Arc<dyn WalkedStore<K>>,
    active_keys: Arc<ActiveKeys>,
    matches: Option<Box<Matches<K>>>,
    resync: Option<Duration>,
    /// Whether the handler is a stream, which has no calls to wait for.
    is_stream: bool,
    pub(super) on_error: OnError,
    metrics: Named<HandlerMetrics>,
    /// The span in which all work for the handler runs.
    pub(super) span: Span,
    locked: Mutex<Locked<K>>,
    /// The signal that the buffer has room again, or that the feed has ended.
    room: Notify,
    state: watch::Sender<HandlerState>,
}

/// The state that the lock protects.
struct Locked<K> {
    inbox: Inbox<K>,
    /// The largest number of steps that were ever in the buffer.
    high_water: usize,
    /// The waker of the thread, task or stream that waits for a step.
    sleeper: Option<Waker>,
    has_ended: bool,
    /// The time at which the next resync is due.
    due: Option<Instant>,
}

/// The observable state of a handler.
#[derive(Clone, Copy, Default)]
pub(super) struct HandlerState {
    pub(super) has_synced: bool,
    /// Whether the handler was removed, so that no further call begins.
    pub(super) is_removed: bool,
    /// Whether the handler was removed and no call is running.
    pub(super) has_ended: bool,
}

/// Actions that run after the lock is released, because they are or may be user code.
struct AfterUnlock<K> {
    drops: DeferredDrops<K>,
    wake: Option<Waker>,
    has_synced: bool,
}

impl<K: Send + Sync + 'static> Feed<K> {
    pub(super) fn new(
        known: Arc<dyn WalkedStore<K>>,
        active_keys: Arc<ActiveKeys>,
        options: HandlerOptions<K>,
        of_informer: Option<Duration>,
        is_stream: bool,
        on_error: OnError,
    ) -> Self {
        let HandlerOptions { buffer, resync, matches, name: _ } = options;
        let resync =
            resync.or(of_informer).and_then(period).map(|period| period.max(SHORTEST_RESYNC));
        let due = resync.map(|period| Instant::now() + period);
        let locked = Locked {
            inbox: Inbox::new(buffer),
            high_water: 0,
            sleeper: None,
            has_ended: false,
            due,
        };
        let state = watch::Sender::new(HandlerState::default());
        Self {
            known,
            active_keys,
            matches,
            resync,
            is_stream,
            on_error,
            metrics: Named(None),
            span: Span::none(),
            locked: Mutex::new(locked),
            room: Notify::new(),
            state,
        }
    }

    /// Sets the metrics and the span.
    pub(in crate::shared_informer) fn visible(
        self,
        metrics: Named<HandlerMetrics>,
        span: Span,
    ) -> Self {
        Self { metrics, span, ..self }
    }

    /// Changes the locked state, wakes the handler, and runs the deferred actions. Does nothing and
    /// returns `None` if the feed has ended.
    fn with<R>(
        &self,
        change: impl FnOnce(&mut Locked<K>, &mut DeferredDrops<K>) -> R,
    ) -> Option<R> {
        let mut after_unlock =
            AfterUnlock { drops: DeferredDrops::default(), wake: None, has_synced: false };
        let done = {
            let mut locked = self.locked.lock();
            if locked.has_ended {
                None
            } else {
                let done = change(&mut locked, &mut after_unlock.drops);
                locked.update_high_water();
                after_unlock.has_synced = locked.inbox.syncs();
                let sleeper = locked.sleeper.take();
                mutant!(ChangeWakesNoHandler => let sleeper = None);
                Some((done, sleeper))
            }
        };
        let done = done.map(|(done, sleeper)| {
            after_unlock.wake = sleeper;
            done
        });
        self.finish(after_unlock);
        done
    }

    fn finish(&self, after_unlock: AfterUnlock<K>) {
        let AfterUnlock { drops, wake, has_synced } = after_unlock;
        if has_synced {
            self.state.send_modify(|state| state.has_synced = true);
        }
        ignore_panic(|| wake.into_iter().for_each(Waker::wake));
        drops.drop_all();
    }

    /// Offers a change of a key. The key must be active.
    pub(super) fn offer(&self, step: Step<K>) {
        if self.with(|locked, drops| locked.inbox.offer(self.known.as_ref(), step, drops))
            == Some(true)
        {
            self.metrics.record(HandlerMetrics::overrun);
        }
    }

    /// Ends a worker's work on a key, or on all keys if it is `None`: see [`Inbox::settle`].
    pub(super) fn settle(&self, key: Option<&Arc<str>>) {
        self.with(|locked, drops| locked.inbox.settle(self.known.as_ref(), key, drops));
    }

    /// Records that the informer's initial list has been offered to all handlers.
    pub(super) fn informer_has_synced(&self) {
        self.with(|locked, _| locked.inbox.informer_has_synced());
    }

    /// Starts a resync if one is due. Returns the time at which the next one is due, or `None` if
    /// the handler has no resyncs or the feed has ended.
    pub(super) fn tick(&self, now: Instant) -> Option<Instant> {
        let period = self.resync?;
        self.with(|locked, _| {
            if locked.due.is_some_and(|due| due <= now) {
                locked.inbox.resync();
                locked.due = now.checked_add(period);
            }
            locked.due
        })?
    }

    /// Waits until the buffer has room, if its policy is [`HoldBack`](super::Buffer::HoldBack).
    pub(super) async fn hold_back(&self) {
        let is_full = || {
            let locked = self.locked.lock();
            !locked.has_ended && locked.inbox.holds_back()
        };
        wait_until_some(&self.room, || (!is_full()).then_some(())).await;
    }

    /// Ends the feed: no further call begins, and the buffer is emptied. Calling it again has no
    /// effect.
    pub(super) fn remove(&self) {
        let mut drops = DeferredDrops::default();
        let sleeper = {
            let mut locked = self.locked.lock();
            locked.has_ended = true;
            locked.inbox.clear(&mut drops);
            locked.sleeper.take()
        };
        self.state.send_modify(|state| {
            state.is_removed = true;
            state.has_ended |= self.is_stream;
            mutant!(RemovalDoesNotWait => { state.has_ended = true; });
        });
        self.finish(AfterUnlock { drops, wake: sleeper, has_synced: false });
        self.record_waiting();
        mutant!(RemovalWakesNoWaiter => return);
        self.room.notify_waiters();
    }

    /// Records that the handler's thread, task or stream has ended.
    pub(super) fn has_ended(&self) {
        self.remove();
        self.state.send_modify(|state| state.has_ended = true);
    }

    /// Waits until no call is running and none can begin.
    pub(super) async fn ended(&self) {
        // It fails only if the sender is dropped, and `self` owns the sender.
        let _ = with_catching_waker(self.state().wait_for(|state| state.has_ended)).await;
    }

    pub(super) fn state(&self) -> watch::Receiver<HandlerState> {
        self.state.subscribe()
    }

    pub(super) fn resync_period(&self) -> Option<Duration> {
        self.resync
    }

    pub(super) fn depth(&self) -> usize {
        self.locked.lock().inbox.len()
    }

    pub(super) fn high_water(&self) -> usize {
        self.locked.lock().high_water
    }

    pub(super) fn age(&self) -> Option<Duration> {
        let oldest = self.locked.lock().inbox.oldest();
        oldest.map(|since| Instant::now().saturating_duration_since(since))
    }
}

impl<K: Send + Sync + 'static> Feed<K> {
    /// Records the gauges. If the feed ends while they are recorded, they are recorded a second
    /// time, so that the values after the end are recorded last.
    pub(super) fn sample(&self) {
        self.record_waiting();
        if self.locked.lock().has_ended {
            self.record_waiting();
        }
    }

    fn record_waiting(&self) {
        self.metrics.record(|metrics| {
            let (depth, most, oldest) = {
                let locked = self.locked.lock();
                (locked.inbox.len(), locked.high_water, locked.inbox.oldest())
            };
            metrics.waiting(depth, most, oldest);
        });
    }
}

impl<K: Send + Sync + 'static> Locked<K> {
    fn update_high_water(&mut self) {
        self.high_water = self.high_water.max(self.inbox.len());
    }
}
