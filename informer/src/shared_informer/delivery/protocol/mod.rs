//! The protocol between changes and walks: decides whether a worker or a walk notifies a handler
//! of an object, when the handler is added or resynced while objects change.
//!
//! Each worker has a **desk**, which names the key that the worker has in hand (or, for a list of
//! an in-order queue, all keys): from before it applies a change to the store until after it has
//! offered the change to all handlers. In this time no other worker has the key. Each handler has
//! an **inbox**: the state behind the handler's lock, which is its buffer and the position of its
//! walk over the store.
//!
//! ```text
//!   worker:  desk = key | apply | offer to every inbox | desk = nothing | settle, if a walk passed the key
//!   walk:    inbox locked: read a stride of the store | check the desks | push what is on no desk
//! ```
//!
//! Changes of keys that the walk has not reached are left to the walk: `offer` drops them. A key
//! that the walk reaches is
//!
//! * on no desk. Then every change of it is either stored and offered, or neither. So the object
//!   that was read is the state after all changes that were offered before, and before all that will
//!   be offered later. (A worker that begins between the read and the check is seen on its desk. One
//!   that begins after the check waits for the inbox's lock to offer, after what was read.)
//! * on a desk. The read may have seen the state before or after the change, or no object, and the
//!   change may or may not be offered yet. So what was read is discarded, and the key is noted as
//!   **passed**. The worker's next offer of it counts as the first notification. If the worker offers
//!   nothing more, it settles the key at the end, while it still has it: the handler is notified of
//!   what is stored.
//!
//! While a worker has all keys in hand, a walk waits for its end. So the first notification of a
//! key is always the state after all changes that were not offered to the handler, and the last is
//! the stored state. Notifications of a key are in order because only the worker that has the key
//! offers them.
//!
//! | rule | because otherwise |
//! | --- | --- |
//! | a handler is on the list before its walk begins | changes offered in between would reach it neither by an offer nor by the walk |
//! | a walk reads the store before it checks the desks | a worker could begin, store and end in between, and the handler would be notified twice |
//! | a key counts as reached by its place in the order, stored or not | a deletion could be stored and not offered yet, and be offered to a handler that never saw the object |
//! | a worker clears its desk before it settles | a walk in between would note a key that no worker settles any more |
//! | a worker releases the key only after it has settled | another worker's change would be offered before the settled state |
//!
//! Lock order: an inbox's lock, then the lock of one desk or one shard of the store. No user code
//! runs under any of them: objects that are no longer needed are returned to the caller, to be
//! dropped after unlocking.

mod active_keys;
#[cfg(test)]
mod tests;
mod walk;

use deltafifo::panics::ignore_panic;
use deltafifo::{WalkPosition, WalkStep};
use tokio::time::Instant;

use super::buffers::{Buffer, Compress, Log, Waiting};
use super::notification::Cause;
use super::step::{Now, Step};
use crate::shared_informer::sync::{Arc, mutant};
pub(super) use active_keys::ActiveKeys;
pub(super) use walk::Known;
use walk::{Reason, Walk};

/// Objects to drop after the inbox is unlocked, because their destructors are user code.
pub(super) struct DeferredDrops<K> {
    steps: Vec<Step<K>>,
    buffers: Vec<Box<dyn Waiting<K>>>,
    found: Vec<(Box<str>, Arc<K>)>,
}

impl<K> Default for DeferredDrops<K> {
    fn default() -> Self {
        Self { steps: Vec::new(), buffers: Vec::new(), found: Vec::new() }
    }
}

impl<K> DeferredDrops<K> {
    /// Drops the objects one by one, each with its panic caught. If two destructors panicked at
    /// once, the process would abort.
    pub(super) fn drop_all(self) {
        let Self { steps, buffers, found } = self;
        let waiting =
            buffers.into_iter().flat_map(|mut buffer| std::iter::from_fn(move || buffer.pop()));
        for Step { delivered, now, .. } in steps.into_iter().chain(waiting) {
            ignore_panic(|| drop(delivered));
            ignore_panic(|| drop(now));
        }
        for (_, object) in found {
            ignore_panic(|| drop(object));
        }
    }
}

/// What a handler does next.
pub(super) enum NextAction<K> {
    Step(Step<K>),
    ResyncBegins,
    ResyncEnds,
    /// A stride of the walk found nothing to notify of; there may be more.
    Stride,
}

/// The state behind a handler's lock.
pub(super) struct Inbox<K> {
    policy: Buffer,
    waiting: Box<dyn Waiting<K>>,
    walk: Option<Walk>,
    /// The full buffer that was replaced. The handler drops it, and not the worker that offers to
    /// all handlers.
    dropped: Option<Box<dyn Waiting<K>>>,
    /// When the oldest step of that buffer was offered, so that the age shows a handler that
    /// hangs.
    dropped_since: Option<Instant>,
    /// Whether a resync must be announced, and after how many more steps its end.
    announces_resync: bool,
    ends_in: Option<usize>,
    /// Steps of the initial list that were taken by the handler and are not done.
    initial_in_progress: usize,
    informer_has_synced: bool,
    has_synced: bool,
}

impl<K: Send + Sync + 'static> Inbox<K> {
    /// Creates the inbox of a new handler, which begins with a walk.
    pub(super) fn new(policy: Buffer) -> Self {
        let waiting: Box<dyn Waiting<K>> = match policy {
            Buffer::Compress => Box::new(Compress::new()),
            Buffer::HoldBack(_) | Buffer::DropAndResync(_) => Box::new(Log::new()),
        };
        Self {
            policy,
            waiting,
            walk: Some(Walk::new(Reason::Late)),
            dropped: None,
            dropped_since: None,
            announces_resync: false,
            ends_in: None,
            initial_in_progress: 0,
            informer_has_synced: false,
            has_synced: false,
        }
    }

    /// Offers a change of a key. The caller has the key in hand. Returns whether the buffer
    /// overran.
    pub(super) fn offer(
        &mut self,
        known: &dyn Known<K>,
        mut step: Step<K>,
        drops: &mut DeferredDrops<K>,
    ) -> bool {
        if let Some(walk) = self.walk.as_mut().filter(|walk| walk.reason != Reason::Period) {
            let is_ahead = |at| !known.has_walked(at, &step.key);
            // The walk has yet to reach the key, and will read the state after this change.
            let is_ahead = walk.at.is_some_and(is_ahead);
            mutant!(KeyAheadOfWalkIsDelivered => let is_ahead = false);
            if is_ahead {
                drops.steps.push(step);
                return false;
            }
            // The walk passed the key and discarded what it read, so this is the first
            // notification.
            if let Some(passed) = walk.passed.iter().position(|key| *key == step.key) {
                walk.passed.swap_remove(passed);
                let delivered = step.delivered.take();
                mutant!(PassedKeyCountsAsDelivered => { step.delivered = delivered.clone(); });
                if let Some(delivered) = delivered {
                    drops.found.push((Box::default(), delivered));
                }
                step.is_in_initial_list |= !self.has_synced;
            }
        }
        if matches!(self.policy, Buffer::DropAndResync(most) if self.waiting.changes() >= most.max(1))
        {
            self.restart(step.since);
            drops.steps.push(step);
            return true;
        }
        self.push(step, drops);
        self.finish_walk();
        false
    }

    fn restart(&mut self, since: Instant) {
        self.dropped_since = Some(self.waiting.oldest().unwrap_or(since));
        let dropped = std::mem::replace(&mut self.waiting, Box::new(Log::new()));
        // At most one is kept: until the handler takes it, all changes are left to the walk.
        self.dropped = Some(dropped);
        self.walk = Some(Walk::new(Reason::Dropped));
        (self.announces_resync, self.ends_in) = (true, None);
    }

    fn push(&mut self, step: Step<K>, drops: &mut DeferredDrops<K>) {
        drops.steps.extend(self.waiting.push(step).into_iter().flatten());
    }

    /// Called by a worker at the end of its work on `key` (or on all keys), with its desk cleared.
    /// Notifies the handler of a key that a walk has passed and no offer has covered.
    pub(super) fn settle(
        &mut self,
        known: &dyn Known<K>,
        key: Option<&Arc<str>>,
        drops: &mut DeferredDrops<K>,
    ) {
        let Some(walk) = &mut self.walk else { return };
        let Some(key) = key else {
            walk.waits = false;
            return;
        };
        let Some(passed) = walk.passed.iter().position(|passed| passed == key) else { return };
        walk.passed.swap_remove(passed);
        if let Some(now) = known.get(key) {
            let step = self.walked_step(key.clone(), now);
            self.push(step, drops);
        }
        self.finish_walk();
    }

    /// Returns the step for an object that a walk has read.
    fn walked_step(&self, key: Arc<str>, now: Arc<K>) -> Step<K> {
        let (delivered, cause, is_in_initial_list) =
            match self.walk.as_ref().map(|walk| walk.reason) {
                Some(Reason::Period) => (Some(now.clone()), Cause::Resync, false),
                Some(Reason::Dropped) => (None, Cause::Resync, !self.has_synced),
                Some(Reason::Late) | None => (None, Cause::Initial, true),
            };
        Step {
            key,
            delivered,
            now: Now::Stored(now),
            cause,
            is_in_initial_list,
            is_walked: true,
            since: Instant::now(),
        }
    }

    /// Advances the walk by one stride, if there is a walk and the buffer is nearly empty.
    fn stride(
        &mut self,
        known: &dyn Known<K>,
        active_keys: &ActiveKeys,
        drops: &mut DeferredDrops<K>,
    ) {
        if !self.waiting.takes_stride() {
            return;
        }
        let Some(walk) = self.walk.as_mut().filter(|walk| !walk.waits) else { return };
        let Some(from) = walk.at else { return };
        let WalkStep { objects, next } = known.walk(from);
        // The desks are checked after the read: see the table above.
        let is_before =
            |at: Option<WalkPosition>, key: &str| at.is_none_or(|at| known.has_walked(at, key));
        let is_in_stride = |key: &str| {
            mutant!(PassesOnlyStoredKeys => {
                if !objects.iter().any(|(stored, _)| **stored == *key) {
                    return false;
                }
            });
            is_before(next, key) && !is_before(Some(from), key)
        };
        let Some(passed) = active_keys.pass(is_in_stride) else {
            walk.waits = true;
            return drops.found.extend(objects);
        };
        walk.at = next;
        let is_period = walk.reason == Reason::Period;
        mutant!(ChecksActiveKeysBeforeRead => let objects = known.walk(from).objects);
        for (key, object) in objects {
            // The worker that has the key in hand will offer it, or the buffer already has a step
            // of it.
            let is_active = passed.iter().any(|passed| **passed == *key);
            mutant!(ResyncDeliversActiveKey => let is_active = is_active && !is_period);
            if is_active || is_period && self.waiting.covers(&key) {
                drops.found.push((key, object));
                continue;
            }
            let step = self.walked_step(key.into(), object);
            self.push(step, drops);
        }
        mutant!(PassedKeyIsNotRecorded => let is_period = true);
        if !is_period && let Some(walk) = &mut self.walk {
            walk.passed.extend(passed);
        }
        self.finish_walk();
    }

    fn finish_walk(&mut self) {
        let is_over = |walk: &mut Walk| {
            mutant!(WalkEndsWithPassedKeys => { return walk.at.is_none(); });
            walk.at.is_none() && walk.passed.is_empty()
        };
        let Some(walk) = self.walk.take_if(is_over) else { return };
        if walk.reason == Reason::Dropped {
            self.ends_in = Some(self.waiting.len());
        }
    }

    /// Returns the handler's next step, after at most one stride of the walk.
    pub(super) fn take(
        &mut self,
        known: &dyn Known<K>,
        active_keys: &ActiveKeys,
        drops: &mut DeferredDrops<K>,
    ) -> Option<NextAction<K>> {
        drops.buffers.extend(self.dropped.take());
        if std::mem::take(&mut self.announces_resync) {
            self.dropped_since = None;
            return Some(NextAction::ResyncBegins);
        }
        if self.ends_in.take_if(|steps| *steps == 0).is_some() {
            return Some(NextAction::ResyncEnds);
        }
        self.stride(known, active_keys, drops);
        let Some(step) = self.waiting.pop() else {
            return self.can_continue().then_some(NextAction::Stride);
        };
        self.initial_in_progress += usize::from(step.is_in_initial_list);
        self.ends_in = self.ends_in.map(|steps| steps.saturating_sub(1));
        Some(NextAction::Step(step))
    }

    /// Returns whether there may be something to take without a further change.
    fn can_continue(&self) -> bool {
        let walks = self.walk.as_ref().is_some_and(|walk| walk.at.is_some() && !walk.waits);
        self.ends_in == Some(0) || walks
    }

    /// Records that the handler has processed a step of the initial list.
    pub(super) fn initial_done(&mut self) {
        self.initial_in_progress -= 1;
    }

    /// Starts a resync, unless a walk is in progress.
    pub(super) fn resync(&mut self) {
        self.walk.get_or_insert_with(|| Walk::new(Reason::Period));
    }

    /// Records that the informer has delivered its first list.
    pub(super) fn informer_has_synced(&mut self) {
        self.informer_has_synced = true;
    }

    /// Returns whether the handler has processed the initial population, the first time that this
    /// is true.
    pub(super) fn syncs(&mut self) -> bool {
        let walks = self.walk.as_ref().is_some_and(|walk| walk.reason != Reason::Period);
        let is_done = !walks
            && !self.announces_resync
            && self.waiting.initial() + self.initial_in_progress == 0;
        let syncs = self.informer_has_synced && is_done && !self.has_synced;
        self.has_synced |= syncs;
        syncs
    }

    /// Returns whether the informer must wait for this handler.
    pub(super) fn holds_back(&self) -> bool {
        matches!(self.policy, Buffer::HoldBack(most) if self.waiting.changes() >= most.max(1))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn oldest(&self) -> Option<Instant> {
        self.dropped_since.or_else(|| self.waiting.oldest())
    }

    /// Empties the buffer and ends the walk.
    pub(super) fn clear(&mut self, drops: &mut DeferredDrops<K>) {
        drops.buffers.push(std::mem::replace(&mut self.waiting, Box::new(Log::new())));
        drops.buffers.extend(self.dropped.take());
        self.dropped_since = None;
        self.walk = None;
    }
}
