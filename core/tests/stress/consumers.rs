//! Consumers: take keys in every way there is, and end handlers in every way they can end.
//!
//! The keys of producers are never lost: their handlers store what they were told, before they
//! fail or panic, or put it back. The others' handlers may lose it, until the last relist.

use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::PRODUCERS;
use super::common::{Guard, Mode, block_on};
use super::plan::{Dice, Plan, number};
use super::verdict::Tally;
use super::world::{CloseOnPanic, Handled, Key, Told, World};
use deltafifo::{Change, DeltaType, KnownObjects, PopError, ProcessError};

struct Consumer<'w> {
    world: &'w World,
    tally: &'w Tally,
    dice: Dice,
    handled: Vec<Handled>,
    /// The newest number of its owner's that the handler in hand handles.
    newest: u64,
}

/// How a handler ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Fails,
    Panics,
    /// Inside what it is told of the store's change.
    PanicsInApply,
    PutsBack,
    /// Dropped without a verdict, as a cancelled future does.
    Cancelled,
    /// Fails or panics without having stored anything.
    Loses,
}

/// Takes until the queue is closed and empty.
pub fn consume(world: &World, consumer: u64, tally: &Tally) -> Vec<Handled> {
    let _close = CloseOnPanic(world);
    let dice = world.dice(300 + consumer);
    let mut consumer = Consumer { world, tally, dice, handled: Vec::new(), newest: 0 };
    while consumer.take() {}
    consumer.handled
}

impl Consumer<'_> {
    /// One take in one of the ways; false once the queue is closed and empty.
    fn take(&mut self) -> bool {
        let fifo = &self.world.rig.fifo;
        match self.dice.roll(7) {
            0 => fifo.pop().is_ok_and(|guard| self.handle(guard)),
            1 => block_on(fifo.pop_async()).is_ok_and(|guard| self.handle(guard)),
            2 => match fifo.pop_deadline(Instant::now()) {
                Ok(guard) => self.handle(guard),
                Err(PopError::TimedOut) => true,
                Err(PopError::Closed(_)) => false,
            },
            3 => match fifo.process(|guard| self.within(guard)) {
                Ok(()) => true,
                Err(ProcessError::Closed(_)) => false,
                Err(failure) => self.expected(&failure),
            },
            4 => match fifo.process_batch(1 + self.dice.below(40), |guard| self.within(guard)) {
                Ok(report) => report.failures.iter().all(|failure| self.expected(failure)),
                Err(_) => false,
            },
            way => {
                let max = 1 + self.dice.below(40);
                let batch = if way == 5 {
                    fifo.pop_batch(max)
                } else {
                    block_on(fifo.pop_batch_async(max))
                };
                let Ok(mut batch) = batch else { return false };
                // Now and then the rest is given back.
                while self.dice.roll(40) > 0
                    && let Some(guard) = batch.next()
                {
                    self.handle(guard);
                }
                true
            }
        }
    }

    /// The queue catches the handlers' panics, also those of the assertions here, which must not
    /// be lost by that.
    fn expected(&self, failure: &ProcessError<&str>) -> bool {
        match failure {
            ProcessError::Panicked { message, .. } if message == EXPECTED => &self.tally.panicked,
            ProcessError::Handler { source: EXPECTED, .. } => &self.tally.failed,
            failure => panic!("{failure}"),
        }
        .fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A handler that owns its guard.
    fn handle(&mut self, mut guard: Guard<'_>) -> bool {
        let end = self.end(&guard);
        self.begin(&guard, end);
        match end {
            End::Done | End::Fails | End::Panics | End::PanicsInApply => {
                self.store(&mut guard, false);
                self.leave(&guard);
                // Once applied, neither a drop nor a wish to have it back brings it again.
                match self.dice.roll(3) {
                    0 if self.world.rig.mode == Mode::Fused => drop(guard),
                    1 if self.world.rig.mode == Mode::Fused => guard.requeue(),
                    _ => guard.done(),
                }
            }
            End::PutsBack => {
                self.leave(&guard);
                guard.requeue();
            }
            End::Cancelled => {
                self.leave(&guard);
                drop(guard);
            }
            End::Loses => {
                self.leave(&guard);
                guard.done();
            }
        }
        true
    }

    /// A handler that is called.
    fn within(&mut self, guard: &mut Guard<'_>) -> Result<(), &'static str> {
        let end = self.end(guard);
        self.begin(guard, end);
        match end {
            End::PutsBack | End::Cancelled => guard.retry(),
            End::Loses => {}
            _ => {
                // As a panic that is caught further out: the rest of the deltas is stored all the
                // same.
                let panics = end == End::PanicsInApply;
                let stored = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    self.store(guard, panics);
                }));
                if let Err(panic) = stored {
                    self.leave(guard);
                    resume_unwind(panic);
                }
            }
        }
        self.leave(guard);
        match end {
            End::Done => Ok(()),
            // Without the panic hook, whose messages would hide real ones.
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

    /// Notes what the handler was told, unless it will come again.
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
        let comes_again = matches!(end, End::PutsBack | End::Cancelled);
        self.newest = 0;
        if !comes_again && number < Plan::owned(PRODUCERS - 1).end {
            let told = told(guard);
            let owners = told.iter().filter(|told| matches!(told.kind, 'A' | 'U'));
            self.newest = owners.map(|told| told.n).max().unwrap_or(0);
            self.handled.push(Handled { key: number, pop, told });
        }
    }

    /// A Sync that stands first holds what is stored. (Behind others, which were put back, it may
    /// be older.)
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
        assert_eq!(
            stored.n,
            key.stored.load(Ordering::Relaxed),
            "{} was stored by nobody",
            guard.key()
        );
    }

    /// Brings the store up to date, and checks what the handler is told of that against what its
    /// last handler did.
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
            assert_eq!(was, now, "not what was stored before");
            now = becomes;
            if panics {
                resume_unwind(Box::new(EXPECTED));
            }
        });
        applied.unwrap();
        assert_eq!(now, after, "not what was to be stored");
    }

    /// The last thing before the key is given up.
    fn leave(&self, guard: &Guard<'_>) {
        let key = &self.world.keys[number(guard.key())];
        key.handled.fetch_max(self.newest, Ordering::Relaxed);
        key.handlers.fetch_sub(1, Ordering::Relaxed);
    }
}

const EXPECTED: &str = "as the plan has it";

/// What a handler is told that its key's owner has offered: Syncs were not.
pub fn told(guard: &Guard<'_>) -> Vec<Told> {
    let offered = guard.deltas().iter().filter(|delta| delta.kind != DeltaType::Sync);
    let told = offered.map(|delta| Told {
        kind: delta.kind.to_string().chars().next().unwrap(),
        // Only the last relist may delete what nobody knows any more, over a store elsewhere.
        n: delta.object.object().map_or(0, |object| object.n),
    });
    told.collect()
}
