//! Models of the gate in front of a shard's work: nothing is admitted after the gate was found
//! idle, work in progress keeps it from being idle, and the last piece of work wakes the waiter.

use deltafifo::Admission;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

use crate::explore::Model;

pub const MODELS: &[Model] = &[
    Model {
        name: "admission::admit_and_close",
        bound: None,
        at_least: 690,
        outcomes: &["busy", "idle, 0 done", "idle, 1 done"],
        body: admit_and_close,
    },
    Model {
        name: "admission::two_admitted_and_close",
        bound: Some(3), // 0.5 s
        at_least: 5330,
        outcomes: &["busy", "idle, 0 done", "idle, 1 done", "idle, 2 done"],
        body: two_admitted_and_close,
    },
    Model {
        name: "admission::request_without_a_permit",
        bound: None,
        at_least: 270,
        outcomes: &["busy", "idle, 0 done", "idle, 1 done"],
        body: request_without_a_permit,
    },
    Model {
        name: "admission::work_sees_what_was_done_before_open",
        bound: None,
        at_least: 18,
        outcomes: &["refused", "admitted"],
        body: work_sees_what_was_done_before_open,
    },
    Model {
        name: "admission::last_piece_wakes",
        bound: Some(3), // 0.7 s
        at_least: 6590,
        outcomes: &["idle"],
        body: last_piece_wakes,
    },
    Model {
        name: "admission::opened_again_while_draining",
        bound: Some(3), // 0.7 s
        at_least: 3650,
        outcomes: &["refused, busy", "refused, idle", "admitted, busy", "admitted, idle"],
        body: opened_again_while_draining,
    },
    Model {
        name: "admission::stripes_of_one_gate",
        bound: Some(3), // 3 s
        at_least: 25840,
        outcomes: &["busy", "idle, 0 done", "idle, 1 done", "idle, 2 done"],
        body: stripes_of_one_gate,
    },
];

/// A gate, and the count of ended work. Work adds 1 when it begins and 9 when it ends, so that a
/// count that is not a multiple of 10 shows work in progress. Both are separate, relaxed steps:
/// the gate must order them.
#[derive(Default)]
struct Gated {
    gate: Admission,
    work: AtomicUsize,
    idle: Notified,
}

struct Notified(Notify);

impl Default for Notified {
    fn default() -> Self {
        Self(Notify::new())
    }
}

/// The mark that the driver leaves in the count when it has found the gate idle.
const CLAIMED: usize = 1000;

impl Gated {
    fn open() -> Arc<Self> {
        let gated = Arc::new(Self::default());
        gated.gate.open();
        gated
    }

    /// Runs a piece of work that was counted, and ends it.
    fn work(&self) {
        self.add(1);
        self.add(9);
        self.leave();
    }

    fn leave(&self) {
        if self.gate.leave() {
            self.idle.0.notify();
        }
    }

    /// Adds to the count in two steps. Work of one gate may run at the same time, so an addition
    /// must not be lost; it fails if the gate was found idle before.
    fn add(&self, amount: usize) {
        let before = self.work.fetch_add(amount, Ordering::Relaxed);
        assert!(before < CLAIMED, "work continues after the gate was found idle");
    }

    /// Returns whether the gate is idle. If it is, all work must have ended, and none may follow.
    fn check_idle(&self) -> String {
        if !self.gate.is_idle() {
            return "busy".to_owned();
        }
        let done = self.work.load(Ordering::Relaxed);
        assert_eq!(done % 10, 0, "the gate is idle, and work is in progress");
        self.work.fetch_add(CLAIMED, Ordering::Relaxed);
        format!("idle, {} done", done / 10)
    }
}

fn admitted(gated: &Arc<Gated>) -> thread::JoinHandle<bool> {
    let gated = gated.clone();
    thread::spawn(move || {
        let is_admitted = gated.gate.admit();
        if is_admitted {
            gated.work();
        }
        is_admitted
    })
}

fn admit_and_close() -> String {
    let gated = Gated::open();
    let worker = admitted(&gated);
    gated.gate.close();
    assert!(!gated.gate.admit(), "a closed gate admits work");
    let seen = gated.check_idle();
    worker.join().unwrap();
    seen
}

fn two_admitted_and_close() -> String {
    let gated = Gated::open();
    let workers = [admitted(&gated), admitted(&gated)];
    gated.gate.close();
    let seen = gated.check_idle();
    for worker in workers {
        worker.join().unwrap();
    }
    seen
}

/// Checks that a client that outlives its permit sends nothing once the gate is idle.
fn request_without_a_permit() -> String {
    let gated = Gated::open();
    let client = thread::spawn({
        let gated = gated.clone();
        move || {
            if gated.gate.join() {
                gated.work();
            }
        }
    });
    gated.gate.close();
    let seen = gated.check_idle();
    client.join().unwrap();
    seen
}

fn work_sees_what_was_done_before_open() -> String {
    let gated = Arc::new(Gated::default());
    let term = Arc::new(AtomicUsize::new(0));
    let worker = thread::spawn({
        let (gated, term) = (gated.clone(), term.clone());
        move || {
            if !gated.gate.admit() {
                return "refused";
            }
            assert_eq!(term.load(Ordering::Relaxed), 1, "the work does not see its term");
            assert!(!gated.gate.leave());
            "admitted"
        }
    });
    term.store(1, Ordering::Relaxed);
    gated.gate.open();
    worker.join().unwrap().to_owned()
}

/// Checks that a gate of two stripes is idle once each of them is: work enters by one of them, and
/// a request joins the work of either.
fn stripes_of_one_gate() -> String {
    let gated = Gated::open();
    let other = Arc::new(Admission::default());
    other.open();
    let worker = thread::spawn({
        let (gated, other) = (gated.clone(), other.clone());
        move || {
            if other.admit() {
                gated.add(1);
                gated.add(9);
                let _ = other.leave();
            }
        }
    });
    let client = thread::spawn({
        let (gated, other) = (gated.clone(), other.clone());
        move || {
            if let Some(stripe) = [&gated.gate, &*other].into_iter().find(|stripe| stripe.join()) {
                gated.add(1);
                gated.add(9);
                let _ = stripe.leave();
            }
        }
    });
    gated.gate.close();
    other.close();
    let seen = if other.is_idle() { gated.check_idle() } else { "busy".to_owned() };
    worker.join().unwrap();
    client.join().unwrap();
    seen
}

/// Checks that the last piece of work wakes a driver that found the closed gate busy.
fn last_piece_wakes() -> String {
    let gated = Gated::open();
    let workers = [(); 2].map(|()| {
        assert!(gated.gate.admit());
        let gated = gated.clone();
        thread::spawn(move || gated.leave())
    });
    gated.gate.close();
    // loom's `Notify` wakes without a reason as well.
    while !gated.gate.is_idle() {
        gated.idle.0.wait();
    }
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    "idle".to_owned()
}

/// Checks that work of before counts when a gate that drains is opened and closed again.
fn opened_again_while_draining() -> String {
    let gated = Gated::open();
    assert!(gated.gate.admit());
    gated.gate.close();
    let first = thread::spawn({
        let gated = gated.clone();
        move || gated.work()
    });
    gated.gate.open();
    let second = admitted(&gated);
    gated.gate.close();
    let seen = gated.check_idle();
    first.join().unwrap();
    let is_admitted = if second.join().unwrap() { "admitted" } else { "refused" };
    format!("{is_admitted}, {}", &seen[..4])
}
