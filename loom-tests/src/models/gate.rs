//! Models of the gates in front of the work on shards. The gates of a member are these: the
//! informer adds the lease, the clocks and the client of a hold.
//!
//! The owner closes a gate and waits until it is idle, revokes the hold, or opens the gate again,
//! while other threads start and end work. loom reports an owner that is never woken as a deadlock.

use std::future::Future;
use std::pin::pin;
use std::sync::Weak;
use std::task::{Context, Poll, Waker};

use deltafifo::gate::{Gates, Held, Hold, StripeTenure};
use deltafifo::tenure::{Deadline, Nanos, Tenure, Work};
use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

use crate::explore::Model;

pub const MODELS: &[Model] = &[
    Model {
        name: "gate::admit_and_idle",
        bound: None,
        at_least: 65_760,
        outcomes: &["idle, 0 done", "idle, 1 done"],
        body: admit_and_idle,
    },
    Model {
        name: "gate::two_threads_admit_and_idle",
        bound: Some(2), // 0.2 s
        at_least: 930,
        outcomes: &["idle, 0 done", "idle, 1 done", "idle, 2 done"],
        body: two_threads_admit_and_idle,
    },
    Model {
        name: "gate::closed_while_the_owner_waits",
        bound: None,
        at_least: 44,
        outcomes: &["idle"],
        body: closed_while_the_owner_waits,
    },
    Model {
        name: "gate::work_ends_after_close",
        bound: Some(2), // 1.3 s
        at_least: 4700,
        outcomes: &["idle, 2 done"],
        body: work_ends_after_close,
    },
    Model {
        name: "gate::admit_and_revoke",
        bound: None,
        at_least: 120,
        outcomes: &["refused", "lost"],
        body: admit_and_revoke,
    },
    Model {
        name: "gate::request_and_end_of_its_permit",
        bound: Some(3), // 0.1 s
        at_least: 780,
        outcomes: &["refused, 1 done", "sent, 2 done"],
        body: request_and_end_of_its_permit,
    },
    Model {
        name: "gate::request_and_revoke",
        bound: Some(3), // 8 s
        at_least: 41_870,
        outcomes: &["refused", "sent"],
        body: request_and_revoke,
    },
    Model {
        name: "gate::opened_for_another_hold",
        bound: Some(3), // 0.6 s
        at_least: 2970,
        outcomes: &["refused", "of hold 1", "of hold 2"],
        body: opened_for_another_hold,
    },
    Model {
        name: "gate::opened_for_another_hold_with_work_in_progress",
        bound: Some(3), // 0.2 s
        at_least: 1130,
        outcomes: &["idle, 2 done"],
        body: opened_for_another_hold_with_work_in_progress,
    },
    Model {
        name: "gate::paused_and_opened_for_another_hold",
        bound: Some(3), // 1 s
        at_least: 5370,
        outcomes: &["refused", "resumed"],
        body: paused_and_opened_for_another_hold,
    },
    Model {
        name: "gate::opened_again_for_its_hold",
        bound: Some(2), // 0.9 s
        at_least: 3700,
        outcomes: &["refused, 1 done", "admitted, 2 done"],
        body: opened_again_for_its_hold,
    },
    Model {
        name: "gate::revoked_and_opened_again",
        bound: Some(3), // 0.2 s
        at_least: 2110,
        outcomes: &["refused", "of hold 1", "of hold 2"],
        body: revoked_and_opened_again,
    },
    Model {
        name: "gate::hold_that_ends_calls_the_gate",
        bound: None,
        at_least: 1,
        outcomes: &["ended"],
        body: hold_that_ends_calls_the_gate,
    },
    Model {
        name: "gate::dropped_with_work_in_progress",
        bound: None,
        at_least: 480,
        outcomes: &["held", "lost"],
        body: dropped_with_work_in_progress,
    },
    Model {
        name: "gate::pending_wait_is_dropped",
        bound: Some(3), // 0.2 s
        at_least: 1020,
        outcomes: &["reported by the first wait", "reported by the second wait"],
        body: pending_wait_is_dropped,
    },
    Model {
        name: "gate::two_gates_become_idle",
        bound: Some(2), // 0.9 s
        at_least: 5420,
        outcomes: &["idle"],
        body: two_gates_become_idle,
    },
    Model {
        name: "gate::idle_beside_work_behind_another_gate",
        bound: None,
        at_least: 17_130,
        outcomes: &["1, then 0"],
        body: idle_beside_work_behind_another_gate,
    },
    Model {
        name: "gate::all_idle_beside_work_that_ends",
        bound: Some(2), // 1 s
        at_least: 5260,
        outcomes: &["idle"],
        body: all_idle_beside_work_that_ends,
    },
    Model {
        name: "gate::all_idle_beside_a_gate_that_is_closed_again",
        bound: Some(2), // 1.3 s
        at_least: 7170,
        outcomes: &["idle"],
        body: all_idle_beside_a_gate_that_is_closed_again,
    },
];

/// The only gate of most of these models.
const GATE: u8 = 0;

/// The mark that the owner leaves in the count when the gate was reported to be idle: from here on
/// another member may work on the shard.
const REPORTED: usize = 1000;

/// The time of these models, and a deadline after it.
const NOW: Nanos = Nanos { monotonic: 10, wall: 10 };
const LATER: Nanos = Nanos { monotonic: 20, wall: 20 };

/// A hold on a lease.
struct Lease {
    term: usize,
    deadline: Deadline,
}

impl Lease {
    fn new(term: usize) -> Self {
        Self { term, deadline: Deadline::new(LATER) }
    }
}

impl Hold for Lease {
    fn is_held(&self) -> bool {
        self.deadline.is_ahead(|| NOW)
    }

    fn end(&self) {
        self.deadline.end();
    }
}

type Piece = Work<StripeTenure<Lease>>;

fn term_of(work: &Piece) -> usize {
    work.tenure().held().hold().term
}

/// The count of the ended work behind a gate, as in the models of `admission`: work adds 1 when it
/// begins and 9 when it ends.
struct Count(AtomicUsize);

impl Count {
    fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Does a piece of work that was admitted, and ends it.
    fn end(&self, work: Piece) {
        self.add(1);
        self.add(9);
        drop(work);
    }

    /// Fails if another member may work on the shard.
    fn add(&self, amount: usize) {
        let before = self.0.fetch_add(amount, Ordering::Relaxed);
        assert!(before < REPORTED, "work continues after the gate was reported to be idle");
    }

    /// Takes note that the gate was reported to be idle. All work must have ended, and none may
    /// follow. Returns the number of the pieces of work.
    fn reported(&self) -> usize {
        let done = self.0.fetch_add(REPORTED, Ordering::Relaxed);
        assert!(done < REPORTED, "the gate is reported twice");
        assert_eq!(done % 10, 0, "the gate is reported to be idle, and work is in progress");
        done / 10
    }
}

/// Polls a future once.
fn poll_once<R>(future: impl Future<Output = R>) -> Poll<R> {
    pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A shard with its gate.
struct Shard {
    gates: Gates<Lease>,
    work: Count,
}

impl Shard {
    /// Returns a shard that is open in the first term.
    fn open() -> Arc<Self> {
        let shard = Arc::new(Self { gates: Gates::new(1), work: Count::new() });
        shard.open_in(1);
        shard
    }

    fn open_in(&self, term: usize) {
        self.gates.open(GATE, |lease| lease.term == term, || Lease::new(term));
    }

    /// Waits until the closed gate is idle. All work must have ended, and none may follow.
    fn idle(&self) -> String {
        let held = self.gates.held(GATE).unwrap();
        assert_eq!(block_on(self.gates.idle()), GATE);
        let done = self.work.reported();
        assert!(!held.hold().is_held(), "the hold continues after the report");
        assert_eq!(poll_once(self.gates.idle()), Poll::Pending, "the gate is reported twice");
        format!("idle, {done} done")
    }
}

/// Two shards of one owner.
struct Two {
    gates: Gates<Lease>,
    work: [Count; 2],
}

impl Two {
    /// Returns shards that are open, and a piece of work behind each gate.
    fn with_work() -> (Arc<Self>, [Piece; 2]) {
        let two = Arc::new(Self { gates: Gates::new(2), work: [Count::new(), Count::new()] });
        let work = [0, 1].map(|gate| two.admit(gate));
        (two, work)
    }

    /// Opens a gate, and starts a piece of work behind it.
    fn admit(&self, gate: u8) -> Piece {
        self.gates.open(gate, |_| false, || Lease::new(1));
        self.gates.admit(gate).unwrap()
    }

    fn close(&self) {
        (0..2).for_each(|gate| self.gates.close(gate));
    }

    fn count(&self, gate: u8) -> &Count {
        &self.work[usize::from(gate)]
    }

    /// Starts a thread that ends the work behind a gate.
    fn end(two: &Arc<Self>, gate: u8, work: Piece) -> JoinHandle<()> {
        let two = two.clone();
        thread::spawn(move || two.count(gate).end(work))
    }

    /// Waits for the report of a gate, whose only piece of work must have ended.
    fn idle(&self) -> u8 {
        let gate = block_on(self.gates.idle());
        assert_eq!(self.count(gate).reported(), 1);
        gate
    }
}

/// Starts a thread with the shard.
fn spawn<R: 'static>(
    shard: &Arc<Shard>,
    work: impl FnOnce(&Shard) -> R + 'static,
) -> JoinHandle<R> {
    let shard = shard.clone();
    thread::spawn(move || work(&shard))
}

/// Starts a thread that does a piece of work, if it is admitted. Returns its term, or 0 if it was
/// refused.
fn worker(shard: &Arc<Shard>) -> JoinHandle<usize> {
    spawn(shard, |shard| {
        shard.gates.admit(GATE).map_or(0, |work| {
            let term = term_of(&work);
            shard.work.end(work);
            term
        })
    })
}

fn of_hold(term: usize) -> String {
    if term == 0 { "refused".to_owned() } else { format!("of hold {term}") }
}

fn admit_and_idle() -> String {
    let shard = Shard::open();
    let worker = worker(&shard);
    shard.gates.close(GATE);
    assert!(shard.gates.admit(GATE).is_none(), "a closed gate admits work");
    let seen = shard.idle();
    worker.join().unwrap();
    seen
}

/// Checks that a closed gate is idle only once the work of threads that enter by different stripes
/// has ended, and that it then admits none.
fn two_threads_admit_and_idle() -> String {
    let shard = Shard::open();
    let workers = [worker(&shard), worker(&shard)];
    shard.gates.close(GATE);
    let seen = shard.idle();
    workers.into_iter().for_each(|worker| _ = worker.join().unwrap());
    seen
}

/// Checks that the close of a gate without work wakes a task of the owner that waits.
fn closed_while_the_owner_waits() -> String {
    let shard = Shard::open();
    let waiting = spawn(&shard, |shard| assert_eq!(block_on(shard.gates.idle()), GATE));
    shard.gates.close(GATE);
    waiting.join().unwrap();
    "idle".to_owned()
}

/// Checks that the owner is woken when the last piece of work of any stripe has ended.
fn work_ends_after_close() -> String {
    let shard = Shard::open();
    let own = shard.gates.admit(GATE).unwrap();
    let other = spawn(&shard, |shard| shard.gates.admit(GATE).unwrap()).join().unwrap();
    shard.gates.close(GATE);
    let workers = [own, other].map(|work| spawn(&shard, |shard| shard.work.end(work)));
    let seen = shard.idle();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    seen
}

/// Checks that work is refused or lost when the hold was revoked, and that lost work keeps the gate
/// from being idle.
fn admit_and_revoke() -> String {
    let shard = Shard::open();
    let worker = spawn(&shard, |shard| shard.gates.admit(GATE));
    shard.gates.revoke(GATE);
    assert!(shard.gates.admit(GATE).is_none(), "a revoked gate admits work");
    let Some(lost) = worker.join().unwrap() else {
        shard.idle();
        return "refused".to_owned();
    };
    assert!(!lost.tenure().is_held(), "work is held after its hold was revoked");
    assert!(!shard.gates.is_idle(GATE), "a revoked gate is idle, and work is in progress");
    shard.work.end(lost);
    shard.idle();
    "lost".to_owned()
}

/// Returns whether the client of a permit may send a request. The request is work until it is
/// answered.
fn request(shard: &Shard, held: &Arc<Held<Lease>>) -> &'static str {
    match Held::join(held) {
        Some(work) => {
            shard.work.end(work);
            "sent"
        }
        None => "refused",
    }
}

/// Checks that a client that outlives its permit sends nothing once the gate is idle, and that it
/// sends while the permit of another thread keeps the gate from being idle.
fn request_and_end_of_its_permit() -> String {
    let shard = Shard::open();
    let permit = shard.gates.admit(GATE).unwrap();
    let held = permit.tenure().held().clone();
    shard.gates.close(GATE);
    let client = spawn(&shard, {
        let held = held.clone();
        move |shard| request(shard, &held)
    });
    shard.work.end(permit);
    let seen = shard.idle();
    let sent = client.join().unwrap();
    assert_eq!(request(&shard, &held), "refused", "a request follows the report");
    seen.replace("idle", sent)
}

/// Checks that no request begins after its hold was revoked, although work is in progress.
fn request_and_revoke() -> String {
    let shard = Shard::open();
    let permit = shard.gates.admit(GATE).unwrap();
    let held = permit.tenure().held().clone();
    let client = spawn(&shard, {
        let held = held.clone();
        move |shard| request(shard, &held)
    });
    shard.gates.revoke(GATE);
    assert_eq!(request(&shard, &held), "refused", "a request follows the revocation");
    shard.work.end(permit);
    shard.idle();
    client.join().unwrap().to_owned()
}

/// Checks that work which is admitted after a hand-over is in the tenure of the next hold. The
/// worker knows that the gate was closed, so the first tenure is over for it.
fn opened_for_another_hold() -> String {
    let shard = Shard::open();
    let closed = Arc::new(AtomicUsize::new(0));
    let worker = spawn(&shard, {
        let closed = closed.clone();
        move |shard| {
            let was_closed = closed.load(Ordering::Acquire) == 1;
            let Some(work) = shard.gates.admit(GATE) else { return 0 };
            let term = term_of(&work);
            assert!(term == 2 || !was_closed, "work is admitted in a tenure that is over");
            shard.work.end(work);
            term
        }
    });
    shard.gates.close(GATE);
    closed.store(1, Ordering::Release);
    shard.open_in(2);
    assert_eq!(shard.gates.admit(GATE).map(|work| term_of(&work)), Some(2));
    shard.gates.close(GATE);
    shard.idle();
    of_hold(worker.join().unwrap())
}

/// Checks that work of the former hold is lost, and that it keeps the gate from being idle only
/// until it ends.
fn opened_for_another_hold_with_work_in_progress() -> String {
    let shard = Shard::open();
    let former = shard.gates.admit(GATE).unwrap();
    shard.gates.close(GATE);
    shard.open_in(2);
    assert!(!former.tenure().is_held(), "work of the former hold is held");
    let former = spawn(&shard, |shard| shard.work.end(former));
    let next = shard.gates.admit(GATE).unwrap();
    assert!(next.tenure().is_held(), "work of the next hold is not held");
    shard.gates.close(GATE);
    shard.work.end(next);
    let seen = shard.idle();
    former.join().unwrap();
    seen
}

/// Checks that work which was paused resumes in its own tenure only, and is not in progress while
/// it is paused.
fn paused_and_opened_for_another_hold() -> String {
    let shard = Shard::open();
    let paused = shard.gates.admit(GATE).unwrap().tenure().clone();
    let worker = spawn(&shard, {
        let paused = paused.clone();
        move |shard| match Work::start(paused) {
            Some(work) => {
                shard.work.end(work);
                "resumed"
            }
            None => "refused",
        }
    });
    shard.gates.close(GATE);
    shard.idle();
    shard.open_in(2);
    assert!(Work::start(paused).is_none(), "work of the former hold resumes");
    assert!(shard.gates.admit(GATE).is_some(), "the former hold keeps the gate closed");
    worker.join().unwrap().to_owned()
}

/// Checks that work goes on when the gate is opened again for its hold, and that it is counted.
fn opened_again_for_its_hold() -> String {
    let shard = Shard::open();
    let permit = shard.gates.admit(GATE).unwrap();
    shard.gates.close(GATE);
    let worker = worker(&shard);
    shard.open_in(1);
    assert!(permit.tenure().is_held(), "a gate that is opened again loses its work");
    assert!(shard.gates.admit(GATE).is_some());
    shard.gates.close(GATE);
    let first = spawn(&shard, |shard| shard.work.end(permit));
    let seen = shard.idle();
    first.join().unwrap();
    let is_admitted = if worker.join().unwrap() == 1 { "admitted" } else { "refused" };
    seen.replace("idle", is_admitted)
}

/// Checks that a hold which was revoked does not continue when the gate is opened for the same
/// lease.
fn revoked_and_opened_again() -> String {
    let shard = Shard::open();
    let worker = worker(&shard);
    shard.gates.revoke(GATE);
    let mut is_asked = false;
    shard.gates.open(
        GATE,
        |_| {
            is_asked = true;
            true
        },
        || Lease::new(2),
    );
    assert!(!is_asked, "a hold that has ended continues");
    assert!(shard.gates.admit(GATE).is_some(), "an open gate refuses work");
    shard.gates.close(GATE);
    shard.idle();
    of_hold(worker.join().unwrap())
}

/// A hold whose end calls the gate, as the task that it wakes may do.
struct Curious(Weak<Gates<Self>>);

impl Hold for Curious {
    fn is_held(&self) -> bool {
        true
    }

    fn end(&self) {
        if let Some(gates) = self.0.upgrade() {
            drop(gates.admit(GATE));
            gates.close(GATE);
        }
    }
}

/// Checks that a hold ends with no lock held.
fn hold_that_ends_calls_the_gate() -> String {
    let gates = std::sync::Arc::new(Gates::new(1));
    let open = || gates.open(GATE, |_| false, || Curious(std::sync::Arc::downgrade(&gates)));
    open();
    open();
    gates.revoke(GATE);
    assert_eq!(block_on(gates.idle()), GATE);
    "ended".to_owned()
}

/// Checks that work which outlives its gates is lost, and that nothing is leaked.
fn dropped_with_work_in_progress() -> String {
    let shard = Shard::open();
    let [lost, other] = [(); 2].map(|()| shard.gates.admit(GATE).unwrap());
    let worker = thread::spawn(move || other.tenure().is_held());
    drop(shard);
    assert!(!lost.tenure().is_held(), "work is held although its gates are dropped");
    (if worker.join().unwrap() { "held" } else { "lost" }).to_owned()
}

/// Checks that a wait which is dropped loses no gate: the next one reports the gate. The owner
/// drops its wait whenever another event comes first.
fn pending_wait_is_dropped() -> String {
    let shard = Shard::open();
    let work = shard.gates.admit(GATE).unwrap();
    shard.gates.close(GATE);
    let worker = spawn(&shard, |shard| shard.work.end(work));
    let first = poll_once(shard.gates.idle());
    let by = match first {
        Poll::Ready(gate) => {
            assert_eq!((gate, shard.work.reported()), (GATE, 1));
            "first"
        }
        Poll::Pending => {
            assert_eq!(shard.idle(), "idle, 1 done");
            "second"
        }
    };
    worker.join().unwrap();
    format!("reported by the {by} wait")
}

/// Checks that each of two gates is reported once, and after its own work has ended.
fn two_gates_become_idle() -> String {
    let (two, [work, other]) = Two::with_work();
    two.close();
    let workers = [Two::end(&two, 0, work), Two::end(&two, 1, other)];
    assert_ne!(two.idle(), two.idle());
    assert_eq!(poll_once(two.gates.idle()), Poll::Pending, "a gate is reported twice");
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    "idle".to_owned()
}

/// Checks that a gate is reported although work continues behind another gate that was closed
/// before, and that this work stays in its tenure.
fn idle_beside_work_behind_another_gate() -> String {
    let (two, [work, other]) = Two::with_work();
    two.close();
    let worker = Two::end(&two, 1, other);
    let first = two.idle();
    assert!(work.tenure().is_held(), "the report of another gate ends the hold");
    two.count(0).end(work);
    let second = two.idle();
    worker.join().unwrap();
    format!("{first}, then {second}")
}

/// Checks that the wait for all gates ends after the work behind each, and with their holds.
fn all_idle_beside_work_that_ends() -> String {
    let (two, [work, other]) = Two::with_work();
    let holds = [&work, &other].map(|work| work.tenure().held().clone());
    two.close();
    let workers = [Two::end(&two, 0, work), Two::end(&two, 1, other)];
    block_on(two.gates.all_idle());
    assert_eq!([0, 1].map(|gate| two.count(gate).reported()), [1, 1]);
    assert!(holds.iter().all(|held| !held.hold().is_held()), "a hold continues after the wait");
    assert_eq!(poll_once(two.gates.idle()), Poll::Pending, "a gate is reported after the wait");
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    "idle".to_owned()
}

/// Checks that the wait for all gates also awaits a gate that is closed while the wait is in
/// progress, and awaits the others as well. The gate was reported before, and opened again.
fn all_idle_beside_a_gate_that_is_closed_again() -> String {
    let (two, [work, other]) = Two::with_work();
    two.gates.close(1);
    drop(other);
    assert_eq!(block_on(two.gates.idle()), 1);
    let other = two.admit(1);
    two.gates.close(0);
    let closing = thread::spawn({
        let two = two.clone();
        move || {
            two.gates.close(1);
            two.count(0).end(work);
        }
    });
    let worker = Two::end(&two, 1, other);
    block_on(two.gates.all_idle());
    assert_eq!([0, 1].map(|gate| two.count(gate).reported()), [1, 1]);
    closing.join().unwrap();
    worker.join().unwrap();
    "idle".to_owned()
}
