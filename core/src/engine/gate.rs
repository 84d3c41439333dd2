//! Gates in front of work. The owner of the gates opens and closes each gate, and waits until no
//! work is in progress behind a gate that it has closed.
//!
//! An open gate has a *hold*: the claim by which this process may work behind the gate, for example
//! a hold on the lease of a shard. All work behind the gate must be in the tenure of that hold:
//!
//! ```text
//! open     the owner removes the gate from `unreported`, publishes the hold and ends the former
//!          one; then the gate admits work
//! close    the gate admits no more work; then the owner adds it to `unreported` and wakes its task
//!          that waits for `idle`
//! revoke   close; then the owner ends the hold
//! idle     the owner removes a gate without work from `unreported`, then ends the hold
//! admit    a thread reads the hold, then counts the work, then checks that the hold continues
//! ```
//!
//! A gate consists of *stripes*, each for some of the threads, so that threads that work behind one
//! gate do not wait for each other. The models are in `loom-tests/src/models/gate.rs`.

use std::collections::BTreeSet;
use std::mem;

use super::admission::Admission;
use super::sync::{Arc, Event, Mutex, RwLock, STRIPES, mutant, thread_number};
use super::tenure::{Tenure, Work};
use super::wait::wait_async;

/// A claim by which this process may work behind a gate.
pub trait Hold {
    /// Returns whether the hold continues. Once false, the result stays false.
    fn is_held(&self) -> bool;

    /// Ends the hold. Called at least once, with no lock held.
    fn end(&self);
}

/// A set of gates with one owner, numbered from 0. All are closed at first. Any thread may start
/// work. Only the owner takes the other steps, one at a time, except that a wait for
/// [`idle`](Self::idle) may be in progress while the owner closes gates.
pub struct Gates<H: Hold> {
    all: Vec<Arc<Gate<H>>>,
    /// The gates that were closed and that [`idle`](Self::idle) has not reported since.
    unreported: Mutex<BTreeSet<u8>>,
    /// The signal that a gate was closed, or that the work behind a closed gate has ended.
    idle: Arc<Event>,
}

/// A gate. Its stripes are opened and closed together.
struct Gate<H: Hold> {
    stripes: [Stripe<H>; STRIPES],
    idle: Arc<Event>,
}

/// A part of a gate for some of the threads. All work writes to its stripe, so no two stripes share
/// a cache line.
#[repr(align(128))]
struct Stripe<H: Hold> {
    /// The work in progress, in all tenures.
    admission: Admission,
    /// The tenure of the gate's hold, from the time before the gate is opened until the closed gate
    /// is reported to be idle.
    tenure: RwLock<Option<Arc<StripeTenure<H>>>>,
}

/// A hold on a gate, which the tenures of all stripes share.
pub struct Held<H: Hold> {
    hold: H,
    gate: Arc<Gate<H>>,
}

/// The tenure of a hold, for work that enters by one stripe. All work changes the count of its
/// handles, so it has cache lines of its own.
#[repr(align(128))]
pub struct StripeTenure<H: Hold> {
    held: Arc<Held<H>>,
    stripe: usize,
}

impl<H: Hold> Gates<H> {
    /// Creates closed gates, at most 256.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let idle = Arc::new(Event::new());
        let all = (0..count).map(|_| Arc::new(Gate::new(idle.clone()))).collect();
        Self { all, unreported: Mutex::new(BTreeSet::new()), idle }
    }

    fn gate(&self, number: u8) -> &Arc<Gate<H>> {
        &self.all[usize::from(number)]
    }

    /// Returns the hold on a gate, if it has one. The hold may have ended.
    #[must_use]
    pub fn held(&self, number: u8) -> Option<Arc<Held<H>>> {
        Gate::held(self.gate(number))
    }

    /// Admits work from now on. If the hold on the gate has not ended and `is_continued` returns
    /// true, that hold continues. Otherwise it ends, and `hold` returns the next one.
    ///
    /// Work that was admitted before the gate was closed stays in progress. Its tenure has ended,
    /// unless the hold continues.
    pub fn open(
        &self,
        number: u8,
        is_continued: impl FnOnce(&H) -> bool,
        hold: impl FnOnce() -> H,
    ) {
        let gate = self.gate(number);
        self.unreported.lock().remove(&number);
        mutant!(AdmitsBeforePublication => gate.open());
        let is_held = |hold: &H| hold.is_held();
        mutant!(EndedHoldIsContinued => let is_held = |_: &H| true);
        let continues =
            Gate::held(gate).is_some_and(|held| is_held(&held.hold) && is_continued(&held.hold));
        mutant!(ReopeningEndsTheHold => let continues = false);
        if !continues {
            Gate::replace(gate, Some(hold()));
        }
        // Last: work that finds the former hold and is admitted must see that it has ended.
        gate.open();
    }

    /// Admits no more work. Work that was admitted stays in its tenure.
    pub fn close(&self, number: u8) {
        mutant!(ClosedGateIsNotedFirst => {
            self.unreported.lock().insert(number);
            self.idle.notify(usize::MAX);
            self.gate(number).close();
            return;
        });
        self.gate(number).close();
        self.unreported.lock().insert(number);
        self.idle.notify(usize::MAX);
    }

    /// Admits no more work, and ends the hold on the gate.
    pub fn revoke(&self, number: u8) {
        self.close(number);
        mutant!(RevokedHoldContinues => return);
        if let Some(held) = self.held(number) {
            held.hold.end();
        }
    }

    /// Waits until a gate is closed and has no work in progress, and ends its hold. Reports each
    /// gate once after it was closed. No work is admitted after the report, until the gate is
    /// opened. Cancel safe.
    pub async fn idle(&self) -> u8 {
        let idle = wait_async(&self.idle, || {
            let mut unreported = self.unreported.lock();
            let is_idle = |number: &u8| self.is_idle(*number);
            let idle = unreported.iter().copied().find(is_idle);
            mutant!(FirstGateIsAwaited => let idle = unreported.first().copied().filter(is_idle));
            let idle = idle?;
            mutant!(IdleGateReportsTheFirst => let idle = *unreported.first()?);
            mutant!(ReportedGateIsReportedAgain => return Some(idle));
            unreported.remove(&idle);
            Some(idle)
        });
        let number = idle.await;
        mutant!(DroppedWaitLosesItsGate => {
            use std::task::Poll;
            let mut is_first = true;
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
        });
        mutant!(OneReportForIdleGates => {
            let mut unreported = self.unreported.lock();
            let idle: Vec<u8> = unreported.iter().copied().filter(|n| self.is_idle(*n)).collect();
            idle.iter().for_each(|number| _ = unreported.remove(number));
            drop(unreported);
            idle.iter().for_each(|number| Gate::replace(self.gate(*number), None));
        });
        mutant!(ReportedHoldContinues => return number);
        Gate::replace(self.gate(number), None);
        number
    }

    /// Waits until no gate that was closed has work in progress.
    pub async fn all_idle(&self) {
        mutant!(LaterCloseIsNotAwaited => {
            let closed = self.unreported.lock().len();
            for _ in 0..closed {
                self.idle().await;
            }
            return;
        });
        mutant!(AllIdleReportsNone => {
            let all = || self.unreported.lock().iter().all(|number| self.is_idle(*number));
            return wait_async(&self.idle, || all().then_some(())).await;
        });
        while !self.unreported.lock().is_empty() {
            self.idle().await;
        }
    }

    /// Returns whether a gate is closed and has no work in progress. Once true, the result stays
    /// true until the gate is opened.
    #[must_use]
    pub fn is_idle(&self, number: u8) -> bool {
        self.gate(number).is_idle()
    }

    /// Starts a piece of work. Returns `None` if the gate is closed or its hold has ended.
    #[inline]
    #[must_use]
    pub fn admit(&self, number: u8) -> Option<Work<StripeTenure<H>>> {
        let stripe = &self.gate(number).stripes[stripe_of_thread()];
        // If the gate is opened for another hold from here on, this tenure refuses.
        let tenure = stripe.tenure.read().clone();
        Work::start(tenure?)
    }
}

impl<H: Hold> Drop for Gates<H> {
    /// Ends the holds. A hold has a handle of its gate, and the gate has the hold, so neither would
    /// ever be freed.
    fn drop(&mut self) {
        mutant!(DroppedGatesKeepHolds => return);
        self.all.iter().for_each(|gate| Gate::replace(gate, None));
    }
}

impl<H: Hold> Gate<H> {
    fn new(idle: Arc<Event>) -> Self {
        let stripe = |_| Stripe { admission: Admission::default(), tenure: RwLock::new(None) };
        Self { stripes: std::array::from_fn(stripe), idle }
    }

    fn held(gate: &Arc<Self>) -> Option<Arc<Held<H>>> {
        // All stripes have the tenures of one hold.
        gate.stripes[0].tenure.read().as_ref().map(|tenure| tenure.held.clone())
    }

    /// Publishes a hold, or none. The former one ends.
    fn replace(gate: &Arc<Self>, next: Option<H>) {
        let held = next.map(|hold| Arc::new(Held { hold, gate: gate.clone() }));
        let former = Self::held(gate);
        for (number, stripe) in gate.stripes.iter().enumerate() {
            let tenure = held.as_ref().map(|held| StripeTenure::new(held, number));
            // Dropped after the lock is released: a hold may have destructors of user code.
            let former = mem::replace(&mut *stripe.tenure.write(), tenure);
            drop(former);
        }
        mutant!(FormerHoldContinues => return);
        mutant!(HoldEndsUnderLock => let former = former.inspect(|former| {
            let _locked = gate.stripes[0].tenure.write();
            former.hold.end();
        }));
        if let Some(former) = former {
            former.hold.end();
        }
    }

    fn open(&self) {
        self.stripes.iter().for_each(|stripe| stripe.admission.open());
    }

    fn close(&self) {
        mutant!(ClosesOwnStripe => return self.stripes[stripe_of_thread()].admission.close());
        self.stripes.iter().for_each(|stripe| stripe.admission.close());
    }

    /// Returns whether the gate is closed and has no work in progress. A stripe that is closed and
    /// has no work stays so until the gate is opened, so the stripes need not be read at one time.
    fn is_idle(&self) -> bool {
        mutant!(OwnStripeIsEnough => {
            return self.stripes[stripe_of_thread()].admission.is_idle();
        });
        self.stripes.iter().all(|stripe| stripe.admission.is_idle())
    }
}

impl<H: Hold> Held<H> {
    /// Returns the hold.
    #[inline]
    #[must_use]
    pub fn hold(&self) -> &H {
        &self.hold
    }

    /// Starts a piece of work that belongs to work in progress, even if the gate is closed. Returns
    /// `None` if the gate is closed and no work is in progress, or if the hold has ended.
    #[must_use]
    pub fn join(held: &Arc<Self>) -> Option<Work<StripeTenure<H>>> {
        let own = stripe_of_thread();
        let join = |offset| Work::join(&StripeTenure::new(held, (own + offset) % STRIPES));
        mutant!(JoinsOwnStripe => return join(0).filter(|_| held.hold.is_held()));
        let work = (0..STRIPES).find_map(join);
        mutant!(JoinsEndedHold => return work);
        work.filter(|_| held.hold.is_held())
    }
}

impl<H: Hold> StripeTenure<H> {
    fn new(held: &Arc<Held<H>>, stripe: usize) -> Arc<Self> {
        Arc::new(Self { held: held.clone(), stripe })
    }

    /// Returns the hold.
    #[inline]
    #[must_use]
    pub fn held(&self) -> &Arc<Held<H>> {
        &self.held
    }
}

impl<H: Hold> Tenure for StripeTenure<H> {
    #[inline]
    fn gate(&self) -> &Admission {
        &self.held.gate.stripes[self.stripe].admission
    }

    #[inline]
    fn is_held(&self) -> bool {
        self.held.hold.is_held()
    }

    fn idle(&self) {
        mutant!(EndedWorkWakesNoOwner => return);
        self.held.gate.idle.notify(usize::MAX);
    }
}

/// Returns the stripe that the work of the current thread enters.
fn stripe_of_thread() -> usize {
    thread_number() % STRIPES
}
