//! Models of work in tenures: work that is paused while its shard is given up, revoked or opened
//! for another tenure, and the deadline that work checks while its owner moves it.
//!
//! The owner of the gate takes the steps of `core/src/engine/gate.rs`, in their order: it ends a
//! tenure before it opens the gate for the next one. The models of `gate` run that file.

use deltafifo::Admission;
use deltafifo::tenure::{Deadline, Nanos, Tenure, Work};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::explore::Model;

pub const MODELS: &[Model] = &[
    Model {
        name: "tenure::paused_and_given_up",
        bound: None,
        at_least: 270,
        outcomes: &["refused, idle", "resumed, idle", "resumed, busy"],
        body: paused_and_given_up,
    },
    Model {
        name: "tenure::paused_and_opened_for_another",
        bound: None,
        at_least: 570,
        outcomes: &["refused, moved", "resumed, moved", "resumed, kept"],
        body: paused_and_opened_for_another,
    },
    Model {
        name: "tenure::paused_and_opened_again",
        bound: None,
        at_least: 300,
        outcomes: &["refused", "resumed"],
        body: paused_and_opened_again,
    },
    Model {
        name: "tenure::paused_and_revoked",
        bound: Some(3), // 0.5 s
        at_least: 3690,
        outcomes: &["refused, idle", "refused, busy", "resumed, idle", "resumed, busy"],
        body: paused_and_revoked,
    },
    Model {
        name: "tenure::deadline_is_moved",
        bound: None,
        at_least: 900,
        outcomes: &["passed, passed", "ahead, ahead"],
        body: deadline_is_moved,
    },
    Model {
        name: "tenure::deadline_of_two_is_moved",
        bound: Some(3), // 4 s
        at_least: 32480,
        outcomes: &["passed", "ahead"],
        body: deadline_of_two_is_moved,
    },
    Model {
        name: "tenure::wall_clock_was_set_back",
        bound: None,
        at_least: 110,
        outcomes: &["passed"],
        body: wall_clock_was_set_back,
    },
];

/// A shard, and the count of its ended work as in the models of `admission`: work adds 1 when it
/// begins and 9 when it ends.
#[derive(Default)]
struct Shard {
    gate: Admission,
    work: AtomicUsize,
}

/// A hold on the shard.
struct Hold {
    shard: Arc<Shard>,
    deadline: Deadline,
}

/// The mark that the owner leaves in the count when it has found the gate idle: from here on
/// another member may work on the shard.
const CLAIMED: usize = 1000;

/// The present time of these models, and deadlines before and after it.
const NOW: Nanos = Nanos { monotonic: 15, wall: 15 };
const EARLIER: Nanos = Nanos { monotonic: 10, wall: 10 };
const LATER: Nanos = Nanos { monotonic: 20, wall: 20 };

impl Tenure for Hold {
    fn gate(&self) -> &Admission {
        &self.shard.gate
    }

    fn is_held(&self) -> bool {
        self.deadline.is_ahead(|| NOW)
    }

    fn idle(&self) {}
}

impl Hold {
    /// Returns the hold on a shard whose gate is open.
    fn open() -> Arc<Self> {
        let hold = Self { shard: Arc::default(), deadline: Deadline::new(LATER) };
        hold.shard.gate.open();
        Arc::new(hold)
    }

    /// Returns whether the gate is idle. If it is, ends the hold, because another member may hold
    /// the shard now.
    fn give_up(&self) -> bool {
        let is_idle = self.shard.gate.is_idle();
        if is_idle {
            let before = self.shard.work.fetch_add(CLAIMED, Ordering::Relaxed);
            assert_eq!(before % 10, 0, "the gate is idle, and work is in progress");
            self.deadline.end();
        }
        is_idle
    }
}

impl Shard {
    /// Fails if another member may work on the shard.
    fn add(&self, amount: usize) {
        let before = self.work.fetch_add(amount, Ordering::Relaxed);
        assert!(before < CLAIMED, "work continues after the shard was given up");
    }
}

/// Resumes a piece of work that is paused, in a thread. Returns whether it was resumed.
fn resumed(hold: &Arc<Hold>) -> thread::JoinHandle<&'static str> {
    let paused = hold.clone();
    thread::spawn(move || {
        let Some(work) = Work::start(paused) else { return "refused" };
        work.tenure().shard.add(1);
        work.tenure().shard.add(9);
        "resumed"
    })
}

fn paused_and_given_up() -> String {
    let hold = Hold::open();
    let worker = resumed(&hold);
    hold.shard.gate.close();
    let is_idle = hold.give_up();
    let resumed = worker.join().unwrap();
    format!("{resumed}, {}", if is_idle { "idle" } else { "busy" })
}

/// Checks that work of a tenure does not continue in the next one.
fn paused_and_opened_for_another() -> String {
    let hold = Hold::open();
    let worker = resumed(&hold);
    hold.shard.gate.close();
    let is_moved = hold.give_up();
    if is_moved {
        hold.shard.gate.open();
    }
    let resumed = worker.join().unwrap();
    format!("{resumed}, {}", if is_moved { "moved" } else { "kept" })
}

/// Checks that paused work may continue if the tenure is the same, and that it is counted.
fn paused_and_opened_again() -> String {
    let hold = Hold::open();
    let worker = resumed(&hold);
    hold.shard.gate.close();
    hold.shard.gate.open();
    let resumed = worker.join().unwrap();
    hold.shard.gate.close();
    assert!(hold.give_up(), "ended work counts");
    resumed.to_owned()
}

/// Checks that work which is resumed in the moment of a revocation counts in the next tenure, and
/// that none is resumed after it.
fn paused_and_revoked() -> String {
    let hold = Hold::open();
    let worker = resumed(&hold);
    hold.shard.gate.close();
    hold.deadline.end();
    hold.shard.gate.open();
    assert!(Work::start(hold.clone()).is_none(), "work of a revoked tenure starts");
    hold.shard.gate.close();
    let is_idle = hold.give_up();
    let resumed = worker.join().unwrap();
    format!("{resumed}, {}", if is_idle { "idle" } else { "busy" })
}

fn checked(deadline: &Deadline, now: Nanos) -> &'static str {
    if deadline.is_ahead(|| now) { "ahead" } else { "passed" }
}

/// Checks that a thread which has found the deadline to have passed finds so again.
fn deadline_is_moved() -> String {
    let deadline = Arc::new(Deadline::new(EARLIER));
    let worker = thread::spawn({
        let deadline = deadline.clone();
        move || [checked(&deadline, NOW), checked(&deadline, NOW)].join(", ")
    });
    deadline.extend(LATER);
    worker.join().unwrap()
}

/// Checks that what one thread has found binds all that are in order after it.
fn deadline_of_two_is_moved() -> String {
    let deadline = Arc::new(Deadline::new(EARLIER));
    let workers = [(); 2].map(|()| {
        let deadline = deadline.clone();
        thread::spawn(move || checked(&deadline, NOW))
    });
    deadline.extend(LATER);
    let found = workers.map(|worker| worker.join().unwrap());
    let expected = if found.contains(&"passed") { "passed" } else { "ahead" };
    assert_eq!(checked(&deadline, NOW), expected, "the check after {found:?}");
    expected.to_owned()
}

/// Checks that no mixture of two deadlines is later than both. The first one has passed by the
/// monotonic clock. The second one was set after the wall clock was set back, and has passed by
/// that clock.
fn wall_clock_was_set_back() -> String {
    let deadline = Arc::new(Deadline::new(Nanos { monotonic: 10, wall: 100 }));
    let worker = thread::spawn({
        let deadline = deadline.clone();
        move || checked(&deadline, Nanos { monotonic: 15, wall: 70 })
    });
    deadline.extend(Nanos { monotonic: 20, wall: 65 });
    worker.join().unwrap().to_owned()
}
