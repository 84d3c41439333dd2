//! Work with a permit, in a sharded controller, or without one.

use std::sync::Arc;

use deltafifo::panics::FirstPanic;
use futures_util::FutureExt;
use futures_util::future::{Either, join_all};
use tokio::sync::Mutex;

#[cfg(feature = "leader-election")]
pub(super) use super::fill::Fills;
#[cfg(feature = "leader-election")]
pub(super) use super::sharded::{Sharding, is_in_shards};
#[cfg(not(feature = "leader-election"))]
pub(super) use super::unsharded::{
    Announcement, Fills, Participation, PausedPermit, Permit, Sharding, is_in_shards,
};
#[cfg(feature = "leader-election")]
pub(super) use crate::sharding::{Announcement, Participation, PausedPermit, Permit};
use crate::util::catching::catching;

/// Returns the permit for work on an object of the shard, or `Some(None)` in a controller that is
/// not sharded, or `None` if the work must not start: also if the object has no shard, or it is not
/// known.
#[allow(clippy::option_option)]
pub(super) fn admit(sharding: Option<&Sharding>, shard: Option<u8>) -> Option<Option<Permit>> {
    match sharding {
        Some(sharding) => sharding.admit(shard?).map(Some),
        None => Some(None),
    }
}

/// Continues paused work like [`admit`], if it has a permit.
#[allow(clippy::option_option)]
pub(super) fn resume(paused: Option<PausedPermit>) -> Option<Option<Permit>> {
    match paused {
        Some(paused) => paused.resume().map(Some),
        None => Some(None),
    }
}

/// Calls a function, with the permit as the current one if there is one.
pub(super) fn in_permit<T>(permit: Option<&Permit>, call: impl FnOnce() -> T) -> T {
    match permit {
        Some(permit) => permit.enter(call),
        None => call(),
    }
}

/// Runs `work`, and drops it when the permit is lost. Returns `None` in that case.
pub(super) fn with_permit<T: Send + 'static, W: Future<Output = T> + Send + 'static>(
    permit: Option<Permit>,
    work: W,
) -> impl Future<Output = Option<T>> + Send + use<T, W> {
    match permit {
        // Boxed, so that the future of a controller without shards is as small as its work.
        Some(permit) => Either::Left(permit.run(work).boxed()),
        None => Either::Right(work.map(Some)),
    }
}

/// Runs `calls` one after another, each with its permit. A call is dropped when its permit is lost,
/// also while it waits for the calls before it: otherwise it would keep its shard for as long as
/// these take. Returns the first panic of a call. A panic does not end the other calls.
pub(super) async fn in_turn<W>(calls: Vec<(Option<Permit>, W)>) -> FirstPanic
where
    W: Future<Output: Send + 'static> + Send + 'static,
{
    // `join_all` polls the calls in order, and the lock serves them in the order of these polls.
    let turn = Arc::new(Mutex::new(()));
    let calls = calls.into_iter().map(|(permit, call)| {
        let turn = Arc::clone(&turn);
        let call = async move {
            let _turn = turn.lock().await;
            call.await
        };
        catching(with_permit(permit, call))
    });
    let mut user_calls = FirstPanic::default();
    for ended in join_all(calls).await {
        if let Err(panic) = ended {
            user_calls.keep(panic);
        }
    }
    user_calls
}

#[cfg(all(test, feature = "leader-election"))]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use futures_util::{FutureExt, poll};
    use tokio::sync::{mpsc, oneshot};

    use super::in_turn;
    use crate::sharding::Gate;

    #[tokio::test(start_paused = true)]
    async fn call_that_waits_for_another_is_dropped_when_its_permit_is_lost() {
        let gate = Gate::with_open_shards();
        let calls = [(0, pending().boxed()), (1, async {}.boxed())];
        let mut running =
            pin!(in_turn(calls.map(|(shard, call)| (gate.admit(shard), call)).into()));
        assert!(poll!(&mut running).is_pending());
        gate.revoke(1);
        assert!(poll!(&mut running).is_pending(), "the first call continues");
        assert_eq!(gate.idle().now_or_never(), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn next_call_begins_when_the_running_call_loses_its_permit() {
        let gate = Gate::with_open_shards();
        let (sender, ran) = oneshot::channel();
        let next = async move { sender.send(()).unwrap() };
        let calls = [(0, pending().boxed()), (1, next.boxed())];
        let mut running =
            pin!(in_turn(calls.map(|(shard, call)| (gate.admit(shard), call)).into()));
        assert!(poll!(&mut running).is_pending());
        gate.revoke(0);
        running.now_or_never().expect("the calls have ended").resume();
        assert_eq!(ran.await, Ok(()));
        assert_eq!(gate.idle().now_or_never(), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_run_in_order_and_one_at_a_time() {
        let gate = Gate::with_open_shards();
        let (sender, mut ran) = mpsc::unbounded_channel();
        let call = |shard: u8| {
            let sender = sender.clone();
            let call = async move {
                sender.send((shard, "begins")).unwrap();
                tokio::task::yield_now().await;
                sender.send((shard, "ends")).unwrap();
            };
            (gate.admit(shard), call)
        };
        in_turn([2, 0, 1].map(call).into()).await.resume();
        for shard in [2, 0, 1] {
            assert_eq!(ran.recv().await, Some((shard, "begins")));
            assert_eq!(ran.recv().await, Some((shard, "ends")));
        }
    }
}
