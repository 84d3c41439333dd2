//! The protocol between changes and walks. If a handler is added or resynced while objects change,
//! it decides for each object whether a worker or the walk notifies the handler.
//!
//! A key is **active** while a worker applies a change of the key to the store and offers the
//! change to all handlers. In this time no other worker has the key. (While a list of an in-order
//! queue is applied, all keys are active.) [`ActiveKeys`] has the active key of each worker. Each
//! handler has an **inbox**: the state behind the handler's lock, which is its buffer and the
//! position of its walk over the store.
//!
//! ```text
//!   worker:  set the active key | apply | offer to every inbox | clear the active key
//!            | settle, if a walk passed the key
//!   walk:    lock the inbox: read a stride of the store | check the active keys
//!            | push the objects whose keys are not active
//! ```
//!
//! Changes of keys that the walk has not reached are left to the walk: `offer` drops them. When the
//! walk reaches a key, the key is
//!
//! * **not active.** Then each change of the key is either both stored and offered, or neither. So
//!   the object that was read is the state after all changes that were offered before, and before
//!   all changes that will be offered later. (If a worker begins between the read and the check,
//!   the check finds its active key. If it begins after the check, its offer waits for the inbox's
//!   lock, and comes after the object that was read.)
//! * **active.** The read may have seen the state before or after the change, or no object, and
//!   the change may or may not be offered yet. So the walk discards the object that it read, and
//!   records the key as **passed**. The worker's next offer of the key counts as the first
//!   notification. If the worker offers nothing more, it **settles** the key at the end, while it
//!   still has the key: the handler is notified of the stored object.
//!
//! While all keys are active, a walk waits until the worker has ended its work on them. So the
//! first notification of a key always has the state after all changes that were not offered to the
//! handler, and the last one has the stored state. Notifications of a key are in order because only
//! the worker that has the key offers them.
//!
//! In the walk of a periodic resync the handler already knows the objects. So `offer` drops no
//! change, and no key is recorded as passed: the walk leaves an active key out.
//!
//! | rule | because otherwise |
//! | --- | --- |
//! | a handler is on the list before its walk begins | changes offered in between would reach it neither by an offer nor by the walk |
//! | a walk reads the store before it checks the active keys | a worker could begin, store and end in between, and the handler would be notified twice |
//! | whether the walk has reached a key follows from the key's place in the order, also if the key is not stored | a deletion that is stored and not offered yet could be offered to a handler that was never notified of the object |
//! | a worker clears its active key before it settles | a walk in between would record a passed key that no worker will settle |
//! | a worker releases the key only after it has settled | another worker's change would be offered before the settled state |
//!
//! Lock order: an inbox's lock, then the lock of one active key or one shard of the store. No user
//! code runs under any of them: objects that are no longer needed are collected in
//! [`DeferredDrops`], and dropped after unlocking.

mod active_keys;
#[cfg(test)]
mod tests;
mod walk;

use deltafifo::panics::ignore_panic;
use deltafifo::{WalkPosition, WalkStep};
use tokio::time::Instant;

use super::buffers::{Buffer, Compress, Log, StepBuffer};
use super::notification::Cause;
use super::step::{CurrentState, Step};
use crate::shared_informer::sync::{Arc, mutant};
pub(super) use active_keys::ActiveKeys;
pub(super) use walk::WalkedStore;
use walk::{Reason, Walk};

/// Objects that are dropped after the inbox is unlocked, because their destructors are user code.
pub(super) struct DeferredDrops<K> {
    steps: Vec<Step<K>>,
    buffers: Vec<Box<dyn StepBuffer<K>>>,
    found: Vec<(Box<str>, Arc<K>)>,
}

impl<K> Default for DeferredDrops<K> {
    fn default() -> Self {
        Self { steps: Vec::new(), buffers: Vec::new(), found: Vec::new() }
    }
}

impl<K> DeferredDrops<K> {
    /// Drops the objects one by one, and catches the panic of each. If one destructor panicked
    /// while another panic unwinds, the process would abort.
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

/// The next action of a handler.
pub(super) enum NextAction<K> {
    Step(Step<K>),
    ResyncBegins,
    ResyncEnds,
    /// Nothing: a stride of the walk pushed no step, but the walk has not ended.
    Stride,
}

/// The buffer of a handler, and the state of its walk.
pub(super) struct Inbox<K> {
    policy: Buffer,
    waiting: Box<dyn StepBuffer<K>>,
    walk: Option<Walk>,
    /// A full buffer that was replaced. It is dropped when the handler takes its next step, so that
    /// the worker, which has to offer to all handlers, does not spend time on it.
    dropped: Option<Box<dyn StepBuffer<K>>>,
    /// The time at which the oldest step of the dropped buffer was pushed. It counts as the age of
    /// the new buffer, which would otherwise not show that a handler hangs.
    dropped_since: Option<Instant>,
    /// Whether `ResyncBegins` must be delivered.
    announces_resync: bool,
    /// The number of steps before `ResyncEnds`, if it must be delivered.
    ends_in: Option<usize>,
    /// The number of steps of the initial list that the handler has taken and not yet handled.
    initial_in_progress: usize,
    informer_has_synced: bool,
    has_synced: bool,
}

impl<K: Send + Sync + 'static> Inbox<K> {
    /// Creates the inbox of a new handler, which begins with a walk.
    pub(super) fn new(policy: Buffer) -> Self {
        let waiting: Box<dyn StepBuffer<K>> = match policy {
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

    /// Offers a change of a key. The key must be active. Returns whether the buffer overran.
    pub(super) fn offer(
        &mut self,
        known: &dyn WalkedStore<K>,
        mut step: Step<K>,
        drops: &mut DeferredDrops<K>,
    ) -> bool {
        // A periodic walk repeats objects that the handler knows, so a change during it is
        // delivered as always. Other walks bring states that the handler was not notified of.
        if let Some(walk) = self.walk.as_mut().filter(|walk| walk.reason != Reason::Period) {
            let is_ahead = |at| !known.has_walked(at, &step.key);
            // The walk has not reached the key yet, and will read the state after this change.
            let is_ahead = walk.at.is_some_and(is_ahead);
            mutant!(KeyAheadOfWalkIsDelivered => let is_ahead = false);
            if is_ahead {
                drops.steps.push(step);
                return false;
            }
            // The walk passed the key and discarded the object that it read, so this is the first
            // notification.
            if let Some(passed) = walk.passed.iter().position(|key| *key == step.key) {
                walk.passed.swap_remove(passed);
                let delivered = step.delivered.take();
                mutant!(PassedKeyCountsAsDelivered => { step.delivered = delivered.clone(); });
                // The destructor of the object is user code, so it runs after unlocking.
                if let Some(delivered) = delivered {
                    drops.found.push((Box::default(), delivered));
                }
                // The step takes the place of the walk's notification, for which the sync waits.
                step.is_in_initial_list |= !self.has_synced;
            }
        }
        // The buffer is full: a walk over the store replaces all that waits, and will read the
        // state after this change too.
        if matches!(self.policy, Buffer::DropAndResync(most) if self.waiting.changes() >= most.max(1))
        {
            self.restart(step.since);
            drops.steps.push(step);
            return true;
        }
        self.push(step, drops);
        // The step may have been for the last key that the walk passed.
        self.finish_walk();
        false
    }

    fn restart(&mut self, since: Instant) {
        self.dropped_since = Some(self.waiting.oldest().unwrap_or(since));
        let dropped = std::mem::replace(&mut self.waiting, Box::new(Log::new()));
        // There is at most one such buffer: the walk does not advance before the handler takes it,
        // so until then all changes are left to the walk.
        self.dropped = Some(dropped);
        self.walk = Some(Walk::new(Reason::Dropped));
        (self.announces_resync, self.ends_in) = (true, None);
    }

    fn push(&mut self, step: Step<K>, drops: &mut DeferredDrops<K>) {
        drops.steps.extend(self.waiting.push(step).into_iter().flatten());
    }

    /// Ends a worker's work on `key`, or on all keys if it is `None`, after the active key was
    /// cleared. If a walk has passed the key and no offer followed, the handler is notified of the
    /// stored object.
    pub(super) fn settle(
        &mut self,
        known: &dyn WalkedStore<K>,
        key: Option<&Arc<str>>,
        drops: &mut DeferredDrops<K>,
    ) {
        let Some(walk) = &mut self.walk else { return };
        let Some(key) = key else {
            // While all keys were active, the walk passed none of them, but waited where it is.
            walk.waits = false;
            return;
        };
        // Without a record, the walk has not passed the key, or an offer has followed.
        let Some(passed) = walk.passed.iter().position(|passed| passed == key) else { return };
        walk.passed.swap_remove(passed);
        // If nothing is stored, the object was deleted before the walk delivered it, so there is
        // nothing to notify the handler of.
        if let Some(now) = known.get(key) {
            let step = self.walked_step(key.clone(), now);
            self.push(step, drops);
        }
        // This may have been the last passed key.
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
            now: CurrentState::Stored(now),
            cause,
            is_in_initial_list,
            is_walked: true,
            since: Instant::now(),
        }
    }

    /// Advances the walk by one stride, if there is a walk and the buffer is nearly empty.
    fn stride(
        &mut self,
        known: &dyn WalkedStore<K>,
        active_keys: &ActiveKeys,
        drops: &mut DeferredDrops<K>,
    ) {
        // The handler sets the pace, so a walk adds at most about one stride to the buffer.
        if !self.waiting.takes_stride() {
            return;
        }
        let Some(walk) = self.walk.as_mut().filter(|walk| !walk.waits) else { return };
        let Some(from) = walk.at else { return };
        let WalkStep { objects, next } = known.walk(from);
        // The active keys are checked after the read: see the table above.
        let is_before =
            |at: Option<WalkPosition>, key: &str| at.is_none_or(|at| known.has_walked(at, key));
        let is_in_stride = |key: &str| {
            mutant!(PassesOnlyStoredKeys => if !defects::has_key(&objects, key) { return false });
            is_before(next, key) && !is_before(Some(from), key)
        };
        let Some(passed) = active_keys.pass(is_in_stride) else {
            // Any of these objects may be changing, so the stride is read again after the settle.
            walk.waits = true;
            return drops.found.extend(objects);
        };
        walk.at = next;
        let is_period = walk.reason == Reason::Period;
        mutant!(ChecksActiveKeysBeforeRead => let objects = known.walk(from).objects);
        for (key, object) in objects {
            // An active key is left to its worker. A resync also skips keys that the buffer already
            // has a step of.
            let is_active = passed.iter().any(|passed| **passed == *key);
            mutant!(ResyncDeliversActiveKey => let is_active = is_active && !is_period);
            if is_active || is_period && self.waiting.covers(&key) {
                drops.found.push((key, object));
                continue;
            }
            let step = self.walked_step(key.into(), object);
            self.push(step, drops);
        }
        // A resync records no passed keys: its handler knows the objects, and `offer` passes it
        // every change.
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

    /// Advances the walk by at most one stride, and returns the handler's next action. Returns
    /// `None` if there is none before the next change.
    pub(super) fn take(
        &mut self,
        known: &dyn WalkedStore<K>,
        active_keys: &ActiveKeys,
        drops: &mut DeferredDrops<K>,
    ) -> Option<NextAction<K>> {
        // Before the walk advances: only then can the new buffer overrun, and there is room for one
        // dropped buffer.
        drops.buffers.extend(self.dropped.take());
        // `ResyncBegins` precedes every object of the new walk. The handler that takes it does not
        // hang, so the age of the dropped buffer counts no longer.
        if std::mem::take(&mut self.announces_resync) {
            self.dropped_since = None;
            return Some(NextAction::ResyncBegins);
        }
        // Every step of the resync has been taken. A later stride or change comes behind its end.
        if self.ends_in.take_if(|steps| *steps == 0).is_some() {
            return Some(NextAction::ResyncEnds);
        }
        self.stride(known, active_keys, drops);
        // A stride may push no step, if all of its keys are active or none is stored.
        let Some(step) = self.waiting.pop() else {
            return self.can_continue().then_some(NextAction::Stride);
        };
        // `syncs` must not count the step as processed before the handler has returned.
        self.initial_in_progress += usize::from(step.is_in_initial_list);
        self.ends_in = self.ends_in.map(|steps| steps.saturating_sub(1));
        Some(NextAction::Step(step))
    }

    /// Returns whether another call of `take` may return something, even without a change.
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

    /// Records that the informer has delivered its initial list.
    pub(super) fn informer_has_synced(&mut self) {
        self.informer_has_synced = true;
    }

    /// Returns whether the handler has processed the initial population. Returns true only once:
    /// later calls return false.
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

/// The code of a deliberate defect (`shared_informer/sync/mutants.rs`).
#[cfg(deltafifo_shuttle)]
mod defects {
    /// Returns whether an object that a stride has read has this key. With the defect
    /// `PassesOnlyStoredKeys` a stride passes no other active key.
    pub(super) fn has_key<O>(objects: &[(Box<str>, O)], key: &str) -> bool {
        objects.iter().any(|(stored, _)| **stored == *key)
    }
}
