//! Futures and the cooperative budget of tokio's tasks.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::task::coop::has_budget_remaining;

/// Polls `future` only while its task has cooperative budget left. A tokio resource that is polled
/// without budget is pending, and wakes its future only after the whole task has returned.
/// `FuturesUnordered` does not notice this, and would poll each of its futures in vain. This
/// future wakes itself at once instead, and `FuturesUnordered` pauses once two of its futures have
/// woken themselves.
pub(crate) async fn within_budget<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        if has_budget_remaining() {
            return future.as_mut().poll(context);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
