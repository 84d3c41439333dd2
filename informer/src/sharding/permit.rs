//! A permit to work on an object of a shard.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use deltafifo::gate::{self, Held, StripeTenure};
use deltafifo::tenure::Work;
use kube::Client;
use tokio::runtime::Handle;

use super::gate::ShardTerm;
#[cfg(test)]
use super::mutants::TaskMutant;
use crate::lease::{Hold, HoldOwner, fenced};

tokio::task_local! {
    /// The permit of the reconcile or deletion handler that this task runs.
    static CURRENT: Permit;
}

/// A permit to work on the objects of a shard. It is lost when this member loses the shard.
///
/// Clones are cheap. Each clone is *work on the shard*: another member gets the shard only after
/// all clones are dropped, or after the Lease of this member has expired. A
/// [sharded](crate::Controller::sharded) controller holds a permit until the future of a reconcile
/// has been dropped. If the reconcile starts a thread or task that works longer, this thread or
/// task must hold a clone.
///
/// ```
/// use deltafifo_informer::sharding::Permit;
///
/// # async fn index(parts: Vec<String>) -> Option<usize> {
/// // In a reconcile of a sharded controller:
/// let held = Permit::current()?;
/// let index = move || parts.iter().take_while(|_| held.is_held()).count();
/// tokio::task::spawn_blocking(index).await.ok()
/// # }
/// ```
pub struct Permit(pub(super) Work<StripeTenure<HeldShard>>);

/// A permit whose piece of work is paused. It does not keep the shard from other members.
pub(crate) struct PausedPermit(Arc<StripeTenure<HeldShard>>);

impl PausedPermit {
    /// Continues the work. Returns `None` if the member may start no work on the shard, or has
    /// given the shard up since the pause began.
    pub(crate) fn resume(self) -> Option<Permit> {
        // The hold of this tenure has ended if the shard was given up.
        Work::start(self.0).map(Permit)
    }
}

/// The hold of this member on a shard, which its permits share.
pub(super) struct HeldShard {
    pub(super) shard: u8,
    pub(super) lease: ShardTerm,
    pub(super) owner: HoldOwner,
    pub(super) hold: Hold,
    /// The runtime of the member, which outlives the tasks of a reconciler's own runtime.
    pub(super) runtime: Handle,
    pub(super) client: Client,
    /// The client that permits share, which is built when the first permit needs it.
    pub(super) fenced: OnceLock<Client>,
}

impl gate::Hold for HeldShard {
    #[inline]
    fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    fn end(&self) {
        self.owner.end();
    }
}

impl Permit {
    fn held(&self) -> &HeldShard {
        self.0.tenure().held().hold()
    }

    /// Returns the permit of the reconcile or deletion handler of a sharded controller that the
    /// current task runs. Returns `None` elsewhere, also in a task that a reconcile has spawned.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Runs `work` until it has ended, or until the permit is lost. Then drops `work`, and returns
    /// `None`. Within `work` this permit is the current one.
    pub(crate) async fn run<T>(self, work: impl Future<Output = T>) -> Option<T> {
        #[cfg(test)]
        if TaskMutant::WorkOutlivesPermit.is_chosen() {
            return Some(CURRENT.scope(self, work).await);
        }
        let tenure = Arc::clone(self.0.tenure());
        let hold = &tenure.held().hold().hold;
        // The scope drops `work` before it drops the permit.
        let mut work = pin!(CURRENT.scope(self, work));
        // An async block, so that `ended` is called only when it is polled.
        let mut lost = pin!(async { hold.clone().ended().await });
        let mut is_first = true;
        poll_fn(|context| {
            // Work that ends at its first poll needs no timer, which `lost` would set.
            let is_lost =
                if is_first { !hold.is_held() } else { lost.as_mut().poll(context).is_ready() };
            if is_lost {
                return Poll::Ready(None);
            }
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            if std::mem::take(&mut is_first) {
                return lost.as_mut().poll(context).map(|()| None);
            }
            Poll::Pending
        })
        .await
    }

    /// Pauses this piece of work.
    pub(crate) fn pause(self) -> PausedPermit {
        PausedPermit(Arc::clone(self.0.tenure()))
    }

    /// Calls a function with this permit as the current one.
    pub(crate) fn enter<T>(&self, call: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), call)
    }

    /// Returns whether this member may still work on the shard. The answer becomes false at the
    /// drain timeout after the shard was assigned to another member, and at the latest at the
    /// member's renew deadline. Reads two clocks.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held().hold.is_held()
    }

    /// Waits until the permit is lost. After a suspension of the machine, it returns within a retry
    /// period after the machine has resumed.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.held().hold.clone().ended()
    }

    /// Returns a client that refuses mutating requests once the permit is lost, like the [client of
    /// a term](crate::leader_election::Term::client), with the same limits.
    /// [`is_lost`](crate::sharding::is_lost) recognises the error of a refused request. If the
    /// caller of a request is dropped, a request that has been sent is not cancelled, and counts as
    /// work on the shard until it is answered.
    ///
    /// You may keep the client after you have dropped the permits. It refuses mutating requests
    /// once the shard has moved.
    ///
    /// The client has a task in the runtime in which the group
    /// [runs](crate::sharding::ShardGroup::run_until). Once that runtime has ended, all requests of
    /// the client fail, also reads, and `is_lost` does not recognise their error.
    #[must_use]
    pub fn client(&self) -> Client {
        let HeldShard { fenced: cell, runtime, client, hold, .. } = self.held();
        #[cfg(test)]
        if TaskMutant::ClientIsNotFenced.is_chosen() {
            return client.clone();
        }
        let build = || {
            // The client starts a task. It must not end with the runtime of this caller.
            let _runtime = runtime.enter();
            // Weak: the hold owns this client.
            let held = Arc::downgrade(self.0.tenure().held());
            fenced(client, hold, move || Held::join(&held.upgrade()?))
        };
        cell.get_or_init(build).clone()
    }

    /// Returns the number of the shard.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.held().shard
    }

    /// Returns the number of transitions (`leaseTransitions`) of the shard's Lease. Together with
    /// [`uid`](Self::uid) it is a fencing token: later owners of the shard have larger numbers, up
    /// to `i32::MAX`. If the Lease is deleted and created again, it has another uid, and the number
    /// starts again.
    #[must_use]
    pub fn transitions(&self) -> i32 {
        self.held().lease.transitions
    }

    /// Returns the uid of the shard's Lease.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.held().lease.uid
    }

    /// Returns the identity of the member that holds the shard.
    #[must_use]
    pub fn member(&self) -> &str {
        &self.held().lease.member
    }
}

impl Clone for Permit {
    fn clone(&self) -> Self {
        Self(Work::join(self.0.tenure()).expect("this permit is work in progress"))
    }
}
