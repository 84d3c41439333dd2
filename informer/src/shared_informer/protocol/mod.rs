//! How changes and walks meet: what a handler that comes while objects change is told, and by whom.
//!
//! A worker that applies a change to the store and then tells of it has something on its **desk**:
//! from before the first to after the last, and while it has the key (or, for a list of an
//! in-order queue, everything) for itself. A handler's **intake** is what is behind the handler's
//! lock: what waits for it, and how far it has walked the store.
//!
//! ```text
//!   worker:  desk = key | apply | tell every intake | desk = nothing | settle, if a walk passed over
//!   walk:    intake locked: read a step of the store | look at the desks | take what is on none of them
//! ```
//!
//! What a walk has not come to is left to it (`offer` drops it). What it comes to is
//!
//! * on no desk: then no change of it can have been stored and not told, or told and not stored,
//!   so what was read is what a handler is told that heard of all changes before, and of none
//!   after. (A worker that begins between the read and the look is seen on its desk. One that
//!   begins after the look tells what it does when the intake is unlocked, over what was read.)
//! * on a desk: it may have been read as it was or as it is, or be gone already, and be told still
//!   or not. So what was read is left, the key is noted as **passed**, and the next that the
//!   worker tells of it counts as the first; if it tells nothing more, it settles the matter at
//!   the end, while it has the key still, by what is stored.
//!
//! With everything on a desk a walk waits for the end of that. So a handler's first word of a key
//! is always the state after all that it was not told of, and the last is what is stored; what it
//! is told of a key is in order because who tells it has the key.
//!
//! | rule | because otherwise |
//! | --- | --- |
//! | a handler is on the list before it begins to walk | what is told meanwhile would reach it neither way |
//! | a walk reads first and then looks at the desks | a worker could begin, store and end in between, and tell the change again |
//! | a key counts as come by where it would be, stored or not | its deletion could be stored and not told, and be told to who never heard of it |
//! | a worker clears its desk before it settles | a walk in between would note a key that nobody settles any more |
//! | it lets the key go only after that | another's change would be told before what is settled |
//!
//! Locks: an intake's, then one desk's or one shard's of the store. No user code runs under any of
//! them: what is of no more use comes back to whoever called, to be dropped later.

mod desks;
#[cfg(test)]
mod tests;
mod walk;

use deltafifo::{WalkPosition, WalkStep};
use tokio::time::Instant;

use super::buffers::{Buffer, Compress, Log, Waiting};
use super::notification::Cause;
use super::step::{Now, Step};
use super::sync::{Arc, mutant};
use crate::strangers::unharmed;
pub(super) use desks::Desks;
pub(super) use walk::Known;
use walk::{Reason, Walk};

/// What is to be dropped when the intake is unlocked.
pub(super) struct Spent<K> {
    steps: Vec<Step<K>>,
    buffers: Vec<Box<dyn Waiting<K>>>,
    found: Vec<(Box<str>, Arc<K>)>,
}

impl<K> Default for Spent<K> {
    fn default() -> Self {
        Self { steps: Vec::new(), buffers: Vec::new(), found: Vec::new() }
    }
}

impl<K> Spent<K> {
    /// Drops all of it. One by one: a second object whose drop panics, beside a first, would end
    /// the process.
    pub(super) fn end(self) {
        let Self { steps, buffers, found } = self;
        let waiting =
            buffers.into_iter().flat_map(|mut buffer| std::iter::from_fn(move || buffer.pop()));
        for Step { told, now, .. } in steps.into_iter().chain(waiting) {
            unharmed(|| drop(told));
            unharmed(|| drop(now));
        }
        for (_, object) in found {
            unharmed(|| drop(object));
        }
    }
}

/// What comes next for a handler.
pub(super) enum Next<K> {
    Step(Step<K>),
    ResyncBegins,
    ResyncEnds,
    /// A stride of the walk came by nothing to tell: there may be more.
    Stride,
}

/// What is behind a handler's lock.
pub(super) struct Intake<K> {
    policy: Buffer,
    waiting: Box<dyn Waiting<K>>,
    walk: Option<Walk>,
    /// What was too much: it is for who takes to drop, and not for whoever tells all handlers.
    dropped: Option<Box<dyn Waiting<K>>>,
    /// Since when the oldest of that waited: who hangs is seen to hang.
    dropped_since: Option<Instant>,
    /// A resync is to be announced, and its end when so many more steps were taken.
    begins: bool,
    ends_in: Option<usize>,
    /// Steps of the initial list that are with the handler.
    initial_in_hand: usize,
    informer_has_synced: bool,
    has_synced: bool,
}

impl<K: Send + Sync + 'static> Intake<K> {
    /// Of a handler that knows nothing yet: it walks.
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
            begins: false,
            ends_in: None,
            initial_in_hand: 0,
            informer_has_synced: false,
            has_synced: false,
        }
    }

    /// Somebody who has the key tells of it. Whether that was too much.
    pub(super) fn offer(
        &mut self,
        known: &dyn Known<K>,
        mut step: Step<K>,
        spent: &mut Spent<K>,
    ) -> bool {
        if let Some(walk) = self.walk.as_mut().filter(|walk| walk.reason != Reason::Period) {
            let is_ahead = |at| !known.has_walked(at, &step.key);
            if mutant!(WhatIsAheadIsTold => false; walk.at.is_some_and(is_ahead)) {
                spent.steps.push(step);
                return false;
            }
            if let Some(passed) = walk.passed.iter().position(|key| *key == step.key) {
                walk.passed.swap_remove(passed);
                if let Some(told) = mutant!(PassedWasTold => None; step.told.take()) {
                    spent.found.push((Box::default(), told));
                }
                step.is_in_initial_list |= !self.has_synced;
            }
        }
        if matches!(self.policy, Buffer::DropAndResync(most) if self.waiting.changes() >= most.max(1))
        {
            self.start_anew(step.since);
            spent.steps.push(step);
            return true;
        }
        self.push(step, spent);
        self.finish_walk();
        false
    }

    fn start_anew(&mut self, since: Instant) {
        self.dropped_since = Some(self.waiting.oldest().unwrap_or(since));
        let dropped = std::mem::replace(&mut self.waiting, Box::new(Log::new()));
        // One at a time: until it is taken everything is left to the walk.
        self.dropped = Some(dropped);
        self.walk = Some(Walk::new(Reason::Dropped));
        (self.begins, self.ends_in) = (true, None);
    }

    fn push(&mut self, step: Step<K>, spent: &mut Spent<K>) {
        spent.steps.extend(self.waiting.push(step).into_iter().flatten());
    }

    /// Whoever had `key` in hand, or everything, is at the end of it.
    pub(super) fn settle(
        &mut self,
        known: &dyn Known<K>,
        key: Option<&Arc<str>>,
        spent: &mut Spent<K>,
    ) {
        let Some(walk) = &mut self.walk else { return };
        let Some(key) = key else {
            walk.waits = false;
            return;
        };
        let Some(passed) = walk.passed.iter().position(|passed| passed == key) else { return };
        walk.passed.swap_remove(passed);
        if let Some(now) = known.get(key) {
            let step = self.first_word(key.clone(), now);
            self.push(step, spent);
        }
        self.finish_walk();
    }

    /// What a walk tells of an object.
    fn first_word(&self, key: Arc<str>, now: Arc<K>) -> Step<K> {
        let (told, cause, is_in_initial_list) = match self.walk.as_ref().map(|walk| walk.reason) {
            Some(Reason::Period) => (Some(now.clone()), Cause::Resync, false),
            Some(Reason::Dropped) => (None, Cause::Resync, !self.has_synced),
            Some(Reason::Late) | None => (None, Cause::Initial, true),
        };
        Step {
            key,
            told,
            now: Now::Stored(now),
            cause,
            is_in_initial_list,
            is_walked: true,
            since: Instant::now(),
        }
    }

    /// A stride of the walk, if there is one and little waits.
    fn stride(&mut self, known: &dyn Known<K>, desks: &Desks, spent: &mut Spent<K>) {
        if !self.waiting.takes_stride() {
            return;
        }
        let Some(walk) = self.walk.as_mut().filter(|walk| !walk.waits) else { return };
        let Some(from) = walk.at else { return };
        let WalkStep { objects, next } = known.walk(from);
        // Only now: see above.
        let is_before =
            |at: Option<WalkPosition>, key: &str| at.is_none_or(|at| known.has_walked(at, key));
        let came_by = |key: &str| {
            let is_stored = mutant!(OnlyWhatIsStoredIsPassed => objects.iter().any(|(stored, _)| **stored == *key); true);
            is_stored && is_before(next, key) && !is_before(Some(from), key)
        };
        let Some(passed) = desks.pass(came_by) else {
            walk.waits = true;
            return spent.found.extend(objects);
        };
        walk.at = next;
        let is_period = walk.reason == Reason::Period;
        for (key, object) in mutant!(LooksBeforeItReads => known.walk(from).objects; objects) {
            // Who has it in hand, or what waits, is going to tell of it anyway.
            let is_in_hand = passed.iter().any(|passed| **passed == *key);
            let is_left = mutant!(ResyncTellsWhatIsInHand => is_in_hand && !is_period; is_in_hand);
            if is_left || is_period && self.waiting.covers(&key) {
                spent.found.push((key, object));
                continue;
            }
            let step = self.first_word(key.into(), object);
            self.push(step, spent);
        }
        if let Some(walk) =
            self.walk.as_mut().filter(|_| mutant!(PassedIsNotNoted => false; !is_period))
        {
            walk.passed.extend(passed);
        }
        self.finish_walk();
    }

    fn finish_walk(&mut self) {
        let is_over = |walk: &mut Walk| {
            walk.at.is_none() && mutant!(WalkEndsOverWhatItPassed => true; walk.passed.is_empty())
        };
        let Some(walk) = self.walk.take_if(is_over) else { return };
        if walk.reason == Reason::Dropped {
            self.ends_in = Some(self.waiting.len());
        }
    }

    /// What the handler is to be told next, after a stride at most.
    pub(super) fn take(
        &mut self,
        known: &dyn Known<K>,
        desks: &Desks,
        spent: &mut Spent<K>,
    ) -> Option<Next<K>> {
        spent.buffers.extend(self.dropped.take());
        if std::mem::take(&mut self.begins) {
            self.dropped_since = None;
            return Some(Next::ResyncBegins);
        }
        if self.ends_in.take_if(|steps| *steps == 0).is_some() {
            return Some(Next::ResyncEnds);
        }
        self.stride(known, desks, spent);
        let Some(step) = self.waiting.pop() else { return self.goes_on().then_some(Next::Stride) };
        self.initial_in_hand += usize::from(step.is_in_initial_list);
        self.ends_in = self.ends_in.map(|steps| steps.saturating_sub(1));
        Some(Next::Step(step))
    }

    /// Whether there may be something to take without anybody's change.
    fn goes_on(&self) -> bool {
        let walks = self.walk.as_ref().is_some_and(|walk| walk.at.is_some() && !walk.waits);
        self.ends_in == Some(0) || walks
    }

    /// The handler has been told of a step of the initial list.
    pub(super) fn initial_done(&mut self) {
        self.initial_in_hand -= 1;
    }

    /// Everything is to be told once more, if nothing of the kind is under way.
    pub(super) fn resync(&mut self) {
        self.walk.get_or_insert_with(|| Walk::new(Reason::Period));
    }

    /// The informer's first list is told.
    pub(super) fn informer_has_synced(&mut self) {
        self.informer_has_synced = true;
    }

    /// Whether the handler has been told of all that is initial, now for the first time.
    pub(super) fn syncs(&mut self) -> bool {
        let walks = self.walk.as_ref().is_some_and(|walk| walk.reason != Reason::Period);
        let told = !walks && !self.begins && self.waiting.initial() + self.initial_in_hand == 0;
        let syncs = self.informer_has_synced && told && !self.has_synced;
        self.has_synced |= syncs;
        syncs
    }

    /// Whether the informer is to wait for this handler.
    pub(super) fn holds_back(&self) -> bool {
        matches!(self.policy, Buffer::HoldBack(most) if self.waiting.changes() >= most.max(1))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn oldest(&self) -> Option<Instant> {
        self.dropped_since.or_else(|| self.waiting.oldest())
    }

    /// Nothing waits any more.
    pub(super) fn clear(&mut self, spent: &mut Spent<K>) {
        spent.buffers.push(std::mem::replace(&mut self.waiting, Box::new(Log::new())));
        spent.buffers.extend(self.dropped.take());
        self.dropped_since = None;
        self.walk = None;
    }
}
