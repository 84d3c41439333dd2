//! The gates in front of the work on shards: they decide for each shard whether work may start, and
//! count the work in progress.
//!
//! The driver of the member opens and closes the gate of each shard. Controllers ask for a
//! [`Permit`] for each piece of work. The steps of a gate are in `core/src/engine/gate.rs`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltafifo::gate::Gates;
use kube::Client;
use tokio::runtime::Handle;

use super::hash::{ObjectId, ShardBy};
use super::permit::{HeldShard, Permit};
use super::shards::{ShardCount, ShardSet};
use crate::lease::{Clock, Clocks, Hold};

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
    shards: Gates<HeldShard>,
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
        let shards = Gates::new(count.get());
        Self(Arc::new(Inner { count, by, client, clock, tick, shards }))
    }

    /// Admits work on a shard from now on, until the deadline. Call it in the member's runtime.
    ///
    /// Work that was admitted before the shard was closed continues with its permits, if `lease` is
    /// the same and they are not lost.
    pub(crate) fn open(&self, shard: u8, lease: &ShardTerm, deadline: Clocks) {
        let is_continued = |held: &HeldShard| {
            let is_same = held.lease == *lease;
            if is_same {
                held.owner.extend(deadline);
            }
            is_same
        };
        self.0.shards.open(shard, is_continued, || self.hold(shard, lease, deadline));
    }

    fn hold(&self, shard: u8, lease: &ShardTerm, deadline: Clocks) -> HeldShard {
        let Inner { client, clock, tick, .. } = &*self.0;
        let (owner, hold) = Hold::new(deadline, *clock, *tick);
        HeldShard {
            shard,
            lease: lease.clone(),
            owner,
            hold,
            runtime: Handle::current(),
            client: client.clone(),
            fenced: OnceLock::new(),
        }
    }

    /// Moves the deadline of all permits, and of the work that is admitted.
    pub(crate) fn extend(&self, deadline: Clocks) {
        for held in self.0.count.all().filter_map(|shard| self.0.shards.held(shard)) {
            held.hold().owner.extend(deadline);
        }
    }

    /// Returns whether the hold on a shard was found to have ended: it admits no more work.
    pub(crate) fn has_expired(&self, shard: u8) -> bool {
        self.0.shards.held(shard).is_some_and(|held| !held.hold().hold.is_held())
    }

    /// Admits no more work on a shard. Permits that are out stay held.
    pub(crate) fn close(&self, shard: u8) {
        self.0.shards.close(shard);
    }

    /// Admits no more work on a shard. Permits that are out are lost.
    pub(crate) fn revoke(&self, shard: u8) {
        self.0.shards.revoke(shard);
    }

    /// Waits until a shard is closed and has no work in progress. Reports each shard once after it
    /// was closed. No work of the shard is admitted after the report, until the shard is opened.
    /// Cancel safe.
    pub(crate) async fn idle(&self) -> u8 {
        self.0.shards.idle().await
    }

    /// Returns the shards on which work is admitted, or in progress.
    pub(crate) fn working(&self) -> ShardSet {
        self.0.count.all().filter(|shard| !self.0.shards.is_idle(*shard)).collect()
    }

    /// Waits until no shard that was closed has work in progress.
    pub(crate) async fn all_idle(&self) {
        self.0.shards.all_idle().await;
    }

    /// Returns a permit for a piece of work that is about to start, or `None` if this member may
    /// not start work on the shard.
    pub(crate) fn admit(&self, shard: u8) -> Option<Permit> {
        self.0.shards.admit(shard).map(Permit)
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

    /// Creates a gate of four shards, which are open for ten seconds.
    #[cfg(all(test, feature = "runtime"))]
    pub(crate) fn with_open_shards() -> Self {
        let rig = tests::rig();
        (0..4).for_each(|shard| rig.open(shard, 1));
        rig.gate
    }
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

    /// The number of threads of some tests: one more than a gate has stripes.
    const THREADS: usize = 9;

    /// Takes permits in threads of their own, so that they enter by different stripes.
    fn permits_of_threads(gate: &Gate, shard: u8) -> Vec<Permit> {
        let admit = || {
            let gate = gate.clone();
            std::thread::spawn(move || gate.admit(shard).unwrap())
        };
        let threads: Vec<_> = (0..THREADS).map(|_| admit()).collect();
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
        let client = permits[THREADS / 2].client();
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

    #[test]
    fn client_sends_nothing_once_the_runtime_of_the_member_has_ended() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (main, driver) = (runtime(), runtime());
        let mut rig = main.block_on(async { rig() });
        driver.block_on(async { rig.open(1, 1) });
        let permit = rig.gate.admit(1).unwrap();
        let client = permit.client();
        drop(driver);
        for request in [write(), Request::get("/").body(Vec::new()).unwrap()] {
            let error = main.block_on(client.request_text(request)).unwrap_err();
            assert!(!crate::leader_election::is_lost(&error), "{error:?}");
        }
        assert!(rig.requests.try_recv().is_err(), "no request was sent");
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
            for method in ["POST", "PUT", "PATCH", "DELETE"] {
                let request = Request::builder().method(method).uri("/").body(Vec::new());
                let error = client.request_text(request.unwrap()).await.unwrap_err();
                assert!(crate::leader_election::is_lost(&error), "{method}: {error:?}");
            }
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
