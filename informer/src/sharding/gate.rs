//! The gate in front of the work on shards: it decides for each shard whether work may start, and
//! counts the work in progress.
//!
//! The driver of the member opens and closes the gate of each shard. Controllers ask it for a
//! [`Permit`] for each piece of work.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltafifo::locks::{Mutex, RwLock};
use deltafifo::{Admission, thread_number};
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::hash::{ObjectId, ShardBy};
use super::permit::{HeldShard, Permit, Tenure};
use super::shards::{ShardCount, ShardSet};
use crate::lease::{Clock, Clocks, Hold, HoldOwner};
use crate::util::sleep::wait_until_some;

/// Decides for each shard whether work may start. Clones share one gate. All shards are closed at
/// first.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

struct Inner {
    count: ShardCount,
    by: ShardBy,
    client: Client,
    clock: Clock,
    tick: Duration,
    shards: Vec<ShardGate>,
    /// The shards that were closed and that [`Gate::idle`] has not reported since.
    unreported: Mutex<BTreeSet<u8>>,
    /// The signal that a shard was closed, or that the work on a closed shard has ended.
    idle: Arc<Notify>,
}

/// The gate of one shard.
#[derive(Default)]
struct ShardGate {
    /// The hold of this member on the shard, from the time before the gate is opened until the
    /// closed gate is reported to be idle.
    held: RwLock<Option<Held>>,
    stripes: Stripes,
}

/// A hold on a shard, and the handle that ends it when the last clone is dropped.
#[derive(Clone)]
struct Held {
    owner: Arc<HoldOwner>,
    shard: Arc<HeldShard>,
}

/// The stripes of a shard's gate. All are opened and closed together.
pub(super) type Stripes = Arc<[Stripe; STRIPES]>;

/// The number of stripes of a gate. More threads than that share stripes.
const STRIPES: usize = 8;

/// A part of a shard's gate for some of the threads. Every permit writes to its stripe, so stripes
/// share no cache line, and threads that work on one shard do not wait for each other.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Stripe {
    /// The work in progress, of all tenures.
    pub(super) admission: Admission,
    /// The tenure of the hold on the shard.
    tenure: RwLock<Option<Arc<Tenure>>>,
}

/// The claim by which a member holds a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardTerm {
    /// The uid of the shard's Lease.
    pub(crate) uid: Arc<str>,
    /// The number of transitions of the shard's Lease.
    pub(crate) transitions: i32,
    /// The identity of the member.
    pub(crate) member: Arc<str>,
}

impl Gate {
    /// Creates a gate. Permits use `client` for their requests. If the wall clock ends a hold, that
    /// is noticed within `tick`.
    pub(crate) fn new(
        count: ShardCount,
        by: ShardBy,
        client: Client,
        clock: Clock,
        tick: Duration,
    ) -> Self {
        let idle = Arc::new(Notify::new());
        let shards = (0..count.get()).map(|_| ShardGate::default()).collect();
        let unreported = Mutex::default();
        Self(Arc::new(Inner { count, by, client, clock, tick, shards, unreported, idle }))
    }

    /// Admits work on a shard from now on, until the deadline. Call it in the member's runtime.
    ///
    /// Work that was admitted before the shard was closed goes on with its permits, if `lease` is
    /// the same and they are not lost.
    pub(crate) fn open(&self, shard: u8, lease: &ShardTerm, deadline: Clocks) {
        let gate = self.shard(shard);
        self.0.unreported.lock().remove(&shard);
        let is_of = |held: &Held| held.shard.lease == *lease && held.shard.hold.is_held();
        // A hold that ends or moves wakes user code, so this happens with no lock held.
        if let Some(held) = gate.held().filter(is_of) {
            held.owner.extend(deadline);
        } else {
            gate.replace(Some(self.hold(shard, lease, deadline)));
        }
        // Last: work that was admitted before the new hold is published would find the former one,
        // which has ended, and would come to nothing.
        gate.stripes.iter().for_each(|stripe| stripe.admission.open());
    }

    fn hold(&self, shard: u8, lease: &ShardTerm, deadline: Clocks) -> Held {
        let Inner { client, clock, tick, idle, .. } = &*self.0;
        let (owner, hold) = Hold::new(deadline, *clock, *tick);
        let shard = Arc::new(HeldShard {
            shard,
            lease: lease.clone(),
            hold,
            stripes: Arc::clone(&self.shard(shard).stripes),
            idle: Arc::clone(idle),
            runtime: Handle::current(),
            client: client.clone(),
            fenced: OnceLock::new(),
        });
        Held { owner: Arc::new(owner), shard }
    }

    /// Moves the deadline of all permits, and of the work that is admitted.
    pub(crate) fn extend(&self, deadline: Clocks) {
        for gate in &self.0.shards {
            if let Some(held) = gate.held() {
                held.owner.extend(deadline);
            }
        }
    }

    /// Returns whether the hold on a shard was found to have ended: it admits no more work.
    pub(crate) fn has_expired(&self, shard: u8) -> bool {
        self.shard(shard).held().is_some_and(|held| !held.shard.hold.is_held())
    }

    /// Admits no more work on a shard. Permits that are out stay held.
    pub(crate) fn close(&self, shard: u8) {
        self.shard(shard).stripes.iter().for_each(|stripe| stripe.admission.close());
        self.0.unreported.lock().insert(shard);
        self.0.idle.notify_waiters();
    }

    /// Admits no more work on a shard. Permits that are out are lost.
    pub(crate) fn revoke(&self, shard: u8) {
        self.close(shard);
        if let Some(held) = self.shard(shard).held() {
            held.owner.end();
        }
    }

    /// Waits until a shard is closed and has no work in progress. Reports each shard once after it
    /// was closed. No work of the shard is admitted after the report, until the shard is opened.
    /// Cancel safe.
    pub(crate) async fn idle(&self) -> u8 {
        let idle = wait_until_some(&self.0.idle, || {
            let mut unreported = self.0.unreported.lock();
            let is_idle = |shard: &u8| self.shard(*shard).is_idle();
            let idle = unreported.iter().copied().find(is_idle)?;
            unreported.remove(&idle);
            Some(idle)
        });
        let shard = idle.await;
        self.shard(shard).replace(None);
        shard
    }

    /// Returns the shards on which work is admitted, or in progress.
    pub(crate) fn working(&self) -> ShardSet {
        self.0.count.all().filter(|shard| !self.shard(*shard).is_idle()).collect()
    }

    /// Waits until no shard that was closed has work in progress.
    pub(crate) async fn all_idle(&self) {
        while !self.0.unreported.lock().is_empty() {
            self.idle().await;
        }
    }

    /// Returns a permit for a piece of work that is about to start, or `None` if this member may
    /// not start work on the shard.
    pub(crate) fn admit(&self, shard: u8) -> Option<Permit> {
        // If the gate is opened for another tenure from here on, this one refuses.
        let tenure = self.shard(shard).stripes[stripe_of_thread()].tenure.read().clone();
        Permit::start(tenure?)
    }

    /// Returns the shard of an object, or `None` if the object does not have the property that
    /// decides it.
    pub(crate) fn shard_of(&self, object: ObjectId<'_>) -> Option<u8> {
        self.0.by.shard_of(object, self.0.count)
    }

    /// Returns all shards.
    pub(crate) fn shards(&self) -> ShardSet {
        self.0.count.all().collect()
    }

    /// Returns the property that decides to which shard an object belongs.
    pub(crate) fn by(&self) -> ShardBy {
        self.0.by
    }

    fn shard(&self, shard: u8) -> &ShardGate {
        &self.0.shards[usize::from(shard)]
    }

    /// Creates a gate of four shards, which are open for ten seconds.
    #[cfg(all(test, feature = "runtime"))]
    pub(crate) fn with_open_shards() -> Self {
        let rig = tests::rig();
        (0..4).for_each(|shard| rig.open(shard, 1));
        rig.gate
    }
}

impl Drop for Inner {
    /// Drops the holds. A tenure has a handle of the stripes, and its stripe has the tenure, so
    /// neither would ever be freed.
    fn drop(&mut self) {
        self.shards.iter().for_each(|gate| gate.replace(None));
    }
}

impl ShardGate {
    fn held(&self) -> Option<Held> {
        self.held.read().clone()
    }

    /// Publishes a hold, or none. The former one ends, which wakes user code, so this happens with
    /// no lock held.
    fn replace(&self, held: Option<Held>) {
        for (number, stripe) in self.stripes.iter().enumerate() {
            let tenure = held.as_ref().map(|held| Tenure::new(&held.shard, number));
            let former = mem::replace(&mut *stripe.tenure.write(), tenure);
            drop(former);
        }
        let former = mem::replace(&mut *self.held.write(), held);
        drop(former);
    }

    /// Returns whether the gate is closed and all work has ended. Once true, the result stays true
    /// until the gate is opened: the same is true of each stripe.
    fn is_idle(&self) -> bool {
        self.stripes.iter().all(|stripe| stripe.admission.is_idle())
    }
}

/// Returns the stripe that the work of the current thread enters.
pub(super) fn stripe_of_thread() -> usize {
    thread_number() % STRIPES
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use futures_util::{FutureExt, poll};
    use http::{Request, Response};
    use kube::client::Body;
    use tokio::sync::mpsc;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A gate of four shards, and the requests that its permits send. A request is answered when it
    /// is taken from the channel and its answer is sent.
    pub(super) struct Rig {
        pub(super) gate: Gate,
        clock: Clock,
        requests: mpsc::UnboundedReceiver<tokio::sync::oneshot::Sender<()>>,
    }

    pub(super) fn rig() -> Rig {
        let (sender, requests) = mpsc::unbounded_channel();
        let service = tower::service_fn(move |_: Request<Body>| {
            let (answer, answered) = tokio::sync::oneshot::channel();
            let sent = sender.send(answer);
            async move {
                sent.expect("the test takes requests");
                answered.await.expect("the test answers requests");
                Ok::<_, std::io::Error>(Response::new(Body::empty()))
            }
        });
        let clock = Clock::new();
        let count = ShardCount::new(4).unwrap();
        let client = Client::new(service, "default");
        let gate = Gate::new(count, ShardBy::Key, client, clock, 2 * SECOND);
        Rig { gate, clock, requests }
    }

    impl Rig {
        pub(super) fn open(&self, shard: u8, transitions: i32) {
            self.gate.open(shard, &term(transitions), self.clock.now().after(10 * SECOND));
        }

        fn reported(&self) -> Option<u8> {
            self.gate.idle().now_or_never()
        }
    }

    fn term(transitions: i32) -> ShardTerm {
        ShardTerm { uid: "lease".into(), transitions, member: "here".into() }
    }

    fn write() -> Request<Vec<u8>> {
        Request::post("/").body(Vec::new()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_admitted_while_the_shard_is_open() {
        let rig = rig();
        assert!(rig.gate.admit(1).is_none(), "a gate is closed at first");
        rig.open(1, 7);
        let permit = rig.gate.admit(1).unwrap();
        assert!(permit.is_held());
        assert_eq!((permit.shard(), permit.transitions()), (1, 7));
        assert_eq!((permit.uid(), permit.member()), ("lease", "here"));
        assert!(rig.gate.admit(2).is_none());
        rig.gate.close(1);
        assert!(rig.gate.admit(1).is_none());
        assert!(permit.is_held(), "work goes on while the shard drains");
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_ends_permits_unless_it_is_extended() {
        let rig = rig();
        rig.open(0, 1);
        rig.open(3, 1);
        let [open, drained] = [0, 3].map(|shard| rig.gate.admit(shard).unwrap());
        rig.gate.close(3);
        tokio::time::advance(9 * SECOND).await;
        rig.gate.extend(rig.clock.now().after(10 * SECOND));
        tokio::time::advance(9 * SECOND).await;
        assert!(open.is_held() && drained.is_held());
        let began = tokio::time::Instant::now();
        drained.lost().await;
        assert_eq!(began.elapsed(), SECOND);
        assert!(!open.is_held());
        assert!(rig.gate.admit(0).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn closed_shard_is_reported_once_when_its_last_permit_is_dropped() {
        let rig = rig();
        rig.open(2, 1);
        let permit = rig.gate.admit(2).unwrap();
        let clone = permit.clone();
        assert_eq!(rig.reported(), None, "an open shard is not reported");
        rig.gate.close(2);
        drop(permit);
        let mut idle = pin!(rig.gate.idle());
        assert!(poll!(&mut idle).is_pending());
        drop(clone);
        assert_eq!(idle.await, 2);
        assert_eq!(rig.reported(), None);
        rig.gate.close(2);
        assert_eq!(rig.reported(), Some(2), "each call of close is reported");
    }

    #[tokio::test(start_paused = true)]
    async fn shard_that_was_never_opened_is_reported_when_it_is_closed() {
        let rig = rig();
        let mut idle = pin!(rig.gate.idle());
        assert!(poll!(&mut idle).is_pending());
        rig.gate.revoke(0);
        assert_eq!(idle.await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn revoked_shard_loses_its_permits_and_is_idle_when_they_are_dropped() {
        let rig = rig();
        rig.open(1, 1);
        rig.open(2, 1);
        let [revoked, other] = [1, 2].map(|shard| rig.gate.admit(shard).unwrap());
        let mut lost = pin!(revoked.lost());
        assert!(poll!(&mut lost).is_pending());
        rig.gate.revoke(1);
        lost.await;
        assert!(!revoked.is_held() && other.is_held());
        assert!(rig.gate.admit(1).is_none());
        assert_eq!(rig.reported(), None, "the work has not been dropped yet");
        drop(revoked);
        assert_eq!(rig.reported(), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn shard_that_is_opened_again_while_it_drains_keeps_its_permits() {
        let rig = rig();
        rig.open(1, 1);
        let permit = rig.gate.admit(1).unwrap();
        rig.gate.close(1);
        rig.open(1, 1);
        assert!(permit.is_held() && rig.gate.admit(1).is_some());
        drop(permit);
        assert_eq!(rig.reported(), None, "the shard is open");
    }

    #[tokio::test(start_paused = true)]
    async fn shard_that_is_opened_after_a_revocation_counts_the_lost_permits() {
        let rig = rig();
        rig.open(1, 1);
        let lost = rig.gate.admit(1).unwrap();
        rig.gate.revoke(1);
        rig.open(1, 1);
        let permit = rig.gate.admit(1).unwrap();
        assert!(permit.is_held() && !lost.is_held());
        rig.gate.close(1);
        drop(permit);
        assert_eq!(rig.reported(), None);
        drop(lost);
        assert_eq!(rig.reported(), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_work_keeps_no_shard_and_resumes_only_in_its_own_tenure() {
        let rig = rig();
        rig.open(1, 1);
        let [kept, moved] = [(); 2].map(|()| rig.gate.admit(1).unwrap().pause());
        rig.gate.close(1);
        rig.open(1, 1);
        assert!(kept.resume().is_some(), "the shard was not given up");
        rig.gate.close(1);
        assert_eq!(rig.reported(), Some(1));
        rig.open(1, 2);
        assert!(moved.resume().is_none() && rig.gate.admit(1).is_some());
        rig.gate.close(1);
        assert_eq!(rig.reported(), Some(1));
    }

    /// Takes permits in threads of their own, so that they enter by different stripes.
    fn permits_of_threads(gate: &Gate, shard: u8) -> Vec<Permit> {
        let admit = || {
            let gate = gate.clone();
            std::thread::spawn(move || gate.admit(shard).unwrap())
        };
        let threads: Vec<_> = (0..=STRIPES).map(|_| admit()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn shard_is_idle_when_the_work_of_every_thread_has_ended() {
        let rig = rig();
        rig.open(1, 1);
        let permits = permits_of_threads(&rig.gate, 1);
        rig.gate.close(1);
        for permit in permits {
            assert!(!rig.gate.working().is_empty());
            assert_eq!(rig.reported(), None);
            drop(permit);
        }
        assert!(rig.gate.working().is_empty());
        assert_eq!(rig.reported(), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn client_writes_while_any_thread_works_on_the_closed_shard() {
        let mut rig = rig();
        rig.open(1, 1);
        let permits = permits_of_threads(&rig.gate, 1);
        // Not the first permit: the last one may have entered by the same stripe.
        let client = permits[STRIPES / 2].client();
        rig.gate.close(1);
        for permit in permits {
            let request = pin!(client.request_text(write()));
            let (answered, ()) = futures_util::join!(request, async {
                rig.requests.recv().await.unwrap().send(()).unwrap();
            });
            assert!(answered.is_ok());
            drop(permit);
        }
        // The work of a request may end after its answer has arrived.
        assert_eq!(rig.gate.idle().await, 1);
        assert!(client.request_text(write()).await.is_err());
    }

    #[test]
    fn client_does_not_depend_on_the_runtime_of_its_first_caller() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let driver = runtime();
        let mut rig = driver.block_on(async { rig() });
        driver.block_on(async { rig.open(1, 1) });
        let permit = rig.gate.admit(1).unwrap();
        // With no runtime, and in one that ends.
        drop(permit.client());
        let client = runtime().block_on(async { permit.client() });
        let answered = driver.block_on(async {
            let answer = async { rig.requests.recv().await.unwrap().send(()).unwrap() };
            futures_util::join!(client.request_text(write()), answer).0
        });
        assert!(answered.is_ok(), "{answered:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn request_in_flight_keeps_the_shard_from_being_idle() {
        let mut rig = rig();
        rig.open(1, 1);
        let permit = rig.gate.admit(1).unwrap();
        let client = permit.client();
        rig.gate.close(1);
        let request = async move { client.request_text(write()).await };
        let request = tokio::spawn(request);
        let answer = rig.requests.recv().await.unwrap();
        drop(permit);
        request.abort();
        assert_eq!(rig.reported(), None, "the request of a dropped caller is in flight");
        answer.send(()).unwrap();
        assert_eq!(rig.gate.idle().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn client_refuses_writes_when_the_permit_is_lost_or_the_shard_has_moved() {
        let mut rig = rig();
        rig.open(1, 1);
        rig.open(2, 1);
        let [lost, moved] = [1, 2].map(|shard| rig.gate.admit(shard).unwrap());
        let clients = [lost.client(), moved.client()];
        rig.gate.revoke(1);
        rig.gate.close(2);
        drop(moved);
        assert_eq!(rig.gate.idle().await, 2);
        for client in clients {
            let error = client.request_text(write()).await.unwrap_err();
            assert!(crate::leader_election::is_lost(&error), "{error:?}");
        }
        assert!(rig.requests.try_recv().is_err(), "no request was sent");
    }

    #[tokio::test(start_paused = true)]
    async fn gate_that_is_dropped_ends_the_permits() {
        let rig = rig();
        rig.open(1, 1);
        let permit = rig.gate.admit(1).unwrap();
        drop(rig);
        assert!(!permit.is_held());
        permit.lost().await;
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_dropped_before_its_permit_when_the_permit_is_lost() {
        struct AtDrop<F: FnMut()>(F);
        impl<F: FnMut()> Drop for AtDrop<F> {
            fn drop(&mut self) {
                (self.0)();
            }
        }

        let rig = rig();
        rig.open(1, 1);
        let permit = rig.gate.admit(1).unwrap();
        let (gate, mut is_idle_at_drop) = (rig.gate.clone(), true);
        let mut work = Box::pin(permit.run(async {
            let _check = AtDrop(|| is_idle_at_drop = gate.idle().now_or_never().is_some());
            assert_eq!(Permit::current().unwrap().shard(), 1);
            pending::<()>().await;
        }));
        assert!(poll!(&mut work).is_pending());
        assert!(Permit::current().is_none());
        rig.gate.revoke(1);
        assert_eq!(work.await, None);
        assert!(!is_idle_at_drop);
        assert_eq!(rig.reported(), Some(1));
    }
}
