//! The consumers of a round. They take keys in every way, and end handlers in every way.
//!
//! The deltas of producers' keys are never lost: a handler stores the object before it fails or
//! panics, or it requeues the delta. Handlers of other keys may lose deltas, until the last
//! relist.

use std::panic::resume_unwind;
use std::sync::atomic::Ordering;

use super::PRODUCERS;
use super::common::{Guard, Mode, block_on};
use super::plan::{Dice, Plan, number};
use super::verdict::Tally;
use super::world::{CloseOnPanic, Handled, Key, Note, World};
use deltafifo::{Change, DeltaType, KnownObjects, ProcessError};

struct Consumer<'w> {
    world: &'w World,
    tally: &'w Tally,
    dice: Dice,
    handled: Vec<Handled>,
    /// The largest number among the objects in the current item that the key's owner offered.
    newest: u64,
}

/// The way in which a handler ends. Outside of `process`, the ways `Fails`, `Panics` and
/// `PanicsInApply` are the same as `Done`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Fails,
    Panics,
    /// The callback of `apply` panics.
    PanicsInApply,
    PutsBack,
    /// The handler drops the item without settling it, as a cancelled future does. In the callback
    /// of `process` it calls `retry` instead.
    Cancelled,
    /// The handler stores nothing. In the callback of `process` it then fails or panics; otherwise
    /// it calls `done`.
    Loses,
}

/// Takes items until the queue is closed and empty.
pub fn consume(world: &World, consumer: u64, tally: &Tally) -> Vec<Handled> {
    let _close = CloseOnPanic(world);
    let dice = world.dice(300 + consumer);
    let mut consumer = Consumer { world, tally, dice, handled: Vec::new(), newest: 0 };
    while consumer.take() {}
    consumer.handled
}

impl Consumer<'_> {
    /// Takes one item or batch, in a randomly chosen way. Returns false once the queue is closed
    /// and empty.
    fn take(&mut self) -> bool {
        let fifo = &self.world.rig.fifo;
        match self.dice.roll(4) {
            0 => fifo.pop().is_ok_and(|guard| self.handle(guard)),
            1 => block_on(fifo.pop_async()).is_ok_and(|guard| self.handle(guard)),
            2 => match fifo.process(|guard| self.within(guard)) {
                Ok(()) => true,
                Err(ProcessError::Closed(_)) => false,
                Err(failure) => self.expected(&failure),
            },
            _ => {
                let Ok(mut batch) = fifo.pop_batch(1 + self.dice.below(40)) else { return false };
                // Sometimes the rest of the batch is given back.
                while self.dice.roll(40) > 0
                    && let Some(guard) = batch.next()
                {
                    self.handle(guard);
                }
                true
            }
        }
    }

    /// Counts an expected failure of a handler, and returns true. Panics for any other failure: the
    /// queue catches the panics of handlers, so failed assertions inside them must be recognised
    /// here.
    fn expected(&self, failure: &ProcessError<&str>) -> bool {
        match failure {
            ProcessError::Panicked { message, .. } if message == EXPECTED => &self.tally.panicked,
            ProcessError::Handler { error: EXPECTED, .. } => &self.tally.failed,
            failure => panic!("{failure}"),
        }
        .fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Handles an item that the consumer holds. Returns true: the queue may have more.
    fn handle(&mut self, mut guard: Guard<'_>) -> bool {
        let end = self.end(&guard);
        self.begin(&guard, end);
        match end {
            End::Done | End::Fails | End::Panics | End::PanicsInApply => {
                self.store(&mut guard, false);
                self.release(&guard);
                // After the apply, neither a drop nor a requeue returns the item to the queue.
                match self.dice.roll(3) {
                    0 if self.world.rig.mode == Mode::Fused => drop(guard),
                    1 if self.world.rig.mode == Mode::Fused => guard.requeue(),
                    _ => guard.done(),
                }
            }
            End::PutsBack => {
                self.release(&guard);
                guard.requeue();
            }
            End::Cancelled => {
                self.release(&guard);
                drop(guard);
            }
            End::Loses => {
                self.release(&guard);
                guard.done();
            }
        }
        true
    }

    /// Handles an item in the callback of `process`.
    fn within(&mut self, guard: &mut Guard<'_>) -> Result<(), &'static str> {
        let end = self.end(guard);
        self.begin(guard, end);
        match end {
            End::PutsBack | End::Cancelled => guard.retry(),
            End::Loses => {}
            _ => {
                // A panic that is caught further out: the remaining deltas are still stored.
                let panics = end == End::PanicsInApply;
                let stored = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    self.store(guard, panics);
                }));
                if let Err(panic) = stored {
                    self.release(guard);
                    resume_unwind(panic);
                }
            }
        }
        self.release(guard);
        match end {
            End::Done => Ok(()),
            // Skips the panic hook, whose messages would hide real ones.
            End::Panics => resume_unwind(Box::new(EXPECTED)),
            End::Loses if self.dice.roll(2) == 0 => resume_unwind(Box::new(EXPECTED)),
            _ => Err(EXPECTED),
        }
    }

    fn end(&mut self, guard: &Guard<'_>) -> End {
        let may_lose =
            number(guard.key()) >= Plan::owned(PRODUCERS - 1).end && !self.world.is_mending();
        let (end, counted) = match self.dice.roll(60) {
            0 | 1 => (End::PutsBack, Some(&self.tally.put_back)),
            2 | 3 => (End::Cancelled, Some(&self.tally.cancelled)),
            4 | 5 => (End::Fails, None),
            6 => (End::Panics, None),
            7 => (End::PanicsInApply, None),
            8..12 if may_lose => (End::Loses, Some(&self.tally.lost)),
            _ => (End::Done, None),
        };
        if let Some(counted) = counted {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        end
    }

    /// Begins a handler: checks that no other handler of the key runs, and records the deltas that
    /// the handler got, unless they will be handed out again.
    fn begin(&mut self, guard: &Guard<'_>, end: End) {
        let number = number(guard.key());
        let key = &self.world.keys[number];
        assert_eq!(
            key.handlers.fetch_add(1, Ordering::Relaxed),
            0,
            "two handlers of {} at once",
            guard.key()
        );
        assert!(!guard.deltas().is_empty(), "an empty pop of {}", guard.key());
        let pop = key.pops.fetch_add(1, Ordering::Relaxed);
        self.check_sync(guard, key);
        let is_redelivered = matches!(end, End::PutsBack | End::Cancelled);
        self.newest = 0;
        if !is_redelivered && number < Plan::owned(PRODUCERS - 1).end {
            let notes = owner_notes(guard);
            let owners = notes.iter().filter(|note| matches!(note.kind, 'A' | 'U'));
            self.newest = owners.map(|note| note.n).max().unwrap_or(0);
            self.handled.push(Handled { key: number, pop, notes });
        }
    }

    /// Checks that a Sync at the head of the item has the stored object. A Sync behind requeued
    /// deltas may have an older one.
    fn check_sync(&self, guard: &Guard<'_>, key: &Key) {
        let Some(first) = guard.deltas().first().filter(|delta| delta.kind == DeltaType::Sync)
        else {
            return;
        };
        self.tally.syncs.fetch_add(1, Ordering::Relaxed);
        let stored = match self.world.rig.mode {
            Mode::Fused => self.world.rig.fifo.store().get_by_key(guard.key()),
            _ => self.world.rig.outside.get_by_key(guard.key()).unwrap(),
        };
        let stored =
            stored.unwrap_or_else(|| panic!("a Sync of {}, which is not known", guard.key()));
        assert_eq!(first.object.object().unwrap().n, stored.n, "a stale Sync of {}", guard.key());
        assert_eq!(stored.n, key.stored.load(Ordering::Relaxed), "{} was not stored", guard.key());
    }

    /// Applies the item, and checks that the changes that `apply` passes on start from the object
    /// that the key's last handler stored.
    fn store(&self, guard: &mut Guard<'_>, panics: bool) {
        let key = &self.world.keys[number(guard.key())];
        let before = key.stored.load(Ordering::Relaxed);
        let last = guard.deltas().last().unwrap();
        let after =
            if last.kind == DeltaType::Deleted { 0 } else { last.object.object().unwrap().n };
        key.stored.store(after, Ordering::Relaxed);
        if self.world.rig.mode != Mode::Fused {
            self.world.rig.apply(guard);
            return;
        }
        let mut now = before;
        let applied = guard.apply(|change| {
            let (was, becomes) = match change {
                Change::Added { new, .. } => (0, new.n),
                Change::Updated { old, new, .. } => (old.n, new.n),
                Change::Deleted { old, .. } => (old.map_or(0, |old| old.n), 0),
            };
            assert_eq!(was, now, "the old object was not the stored one");
            now = becomes;
            if panics {
                resume_unwind(Box::new(EXPECTED));
            }
        });
        applied.unwrap();
        assert_eq!(now, after, "the new object was not stored");
    }

    /// Releases the key, as the last step of a handler.
    fn release(&self, guard: &Guard<'_>) {
        let key = &self.world.keys[number(guard.key())];
        key.handled.fetch_max(self.newest, Ordering::Relaxed);
        key.handlers.fetch_sub(1, Ordering::Relaxed);
    }
}

const EXPECTED: &str = "expected by this test";

/// Returns all deltas of an item except each Sync, which no producer or relist has offered.
pub fn owner_notes(guard: &Guard<'_>) -> Vec<Note> {
    let offered = guard.deltas().iter().filter(|delta| delta.kind != DeltaType::Sync);
    let notes = offered.map(|delta| Note {
        kind: delta.kind.to_string().chars().next().unwrap(),
        // Over an external store only the last relist may delete a key whose object is not known.
        n: delta.object.object().map_or(0, |object| object.n),
    });
    notes.collect()
}
