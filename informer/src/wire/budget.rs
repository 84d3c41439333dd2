//! The memory that large objects may use in this process before they are decoded.
//!
//! An object longer than [`LARGE`] acquires a share of the budget before more of it is read. The
//! share is for the largest size that it may have: if shares grew with the objects, two half-read
//! objects could wait for each other forever. The share shrinks to the true size when the object
//! is complete, moves with its bytes, and is returned when they are dropped.
//!
//! A reflector that holds shares may be stuck. Its queue may be full until another reflector has
//! read a list, and that other reflector may be waiting for a share. Or the server may send nothing
//! more. Therefore a reflector that sees no share returned for [`MAX_WAIT`] continues without one.
//! From then on, until a share is returned, all reflectors that need a share continue at once
//! without one.
//!
//! [`LARGE`]: super::LARGE

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use deltafifo::locks::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The time that a reflector waits while no share is returned, before it continues without one.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The number of bytes per permit of the semaphore.
const UNIT: usize = 1 << 10;
/// The default budget, in bytes.
const BUDGET: usize = 128 << 20;

static PROCESS: LazyLock<Mutex<Arc<Budget>>> =
    LazyLock::new(|| Mutex::new(Arc::new(Budget::new(BUDGET))));

/// Sets the number of bytes that large objects, of more than 1 MiB each, may use in this process
/// before they are decoded. The default is 128 MiB. Objects that are being read keep their share of
/// the previous budget.
///
/// All reflectors share the budget. While an object is being read, it counts as
/// [`max_object_size`](crate::reflector::ReflectorBuilder::max_object_size); an object that does
/// not fit waits. A reflector whose queue is full keeps the shares of the objects that it has read.
/// If no share is returned for ten seconds, a waiting reflector reads its object in excess of the
/// budget, so that no reflector is blocked by another.
pub fn set_large_object_budget(bytes: usize) {
    *PROCESS.lock() = Arc::new(Budget::new(bytes));
}

/// Returns the budget of this process.
pub(crate) fn process_budget() -> Arc<Budget> {
    Arc::clone(&PROCESS.lock())
}

/// A budget of bytes, shared by all large objects.
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    most: u32,
    /// The number of shares that were returned.
    returned: Arc<AtomicU64>,
    /// The value of `returned` plus one at the time when a reflector last gave up waiting. 0 if
    /// none has.
    gave_up_at: AtomicU64,
}

/// A part of the budget, returned when it is dropped. Empty if the wait for it was given up.
pub(crate) struct Share {
    permit: Option<OwnedSemaphorePermit>,
    returned: Arc<AtomicU64>,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let most = units(bytes).max(1);
        Self {
            permits: Arc::new(Semaphore::new(most as usize)),
            most,
            returned: Arc::default(),
            gave_up_at: AtomicU64::new(0),
        }
    }

    /// Waits for a share of `bytes` bytes, or of the whole budget if that is smaller.
    pub(crate) async fn share(&self, bytes: usize) -> Share {
        let mut permit =
            pin!(Arc::clone(&self.permits).acquire_many_owned(units(bytes).min(self.most)));
        loop {
            // All accesses are Relaxed: the values are hints, and no other memory depends on them.
            let returned = self.returned.load(Ordering::Relaxed);
            let is_stuck = self.gave_up_at.load(Ordering::Relaxed) == returned + 1;
            let wait = if is_stuck { Duration::ZERO } else { MAX_WAIT };
            match timeout(wait, permit.as_mut()).await {
                Ok(permit) => {
                    return Share { permit: permit.ok(), returned: Arc::clone(&self.returned) };
                }
                Err(_) if returned != self.returned.load(Ordering::Relaxed) => {}
                Err(_) => {
                    if !is_stuck {
                        self.gave_up_at.store(returned + 1, Ordering::Relaxed);
                        tracing::warn!(
                            bytes,
                            "the budget for large objects is used up, and nothing was returned for {MAX_WAIT:?}; large \
                             objects are read in excess of it until a share is returned"
                        );
                    }
                    return Share { permit: None, returned: Arc::clone(&self.returned) };
                }
            }
        }
    }
}

fn units(bytes: usize) -> u32 {
    // The upper bound is one that a semaphore supports on every platform.
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(u32::MAX >> 4)
}

impl Share {
    /// Gives the part of the share that exceeds `bytes` back to the budget.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let Some(permit) = &mut self.permit else { return };
        let too_many = permit.num_permits().saturating_sub(units(bytes) as usize);
        drop(permit.split(too_many));
        self.returned.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `bytes` as bytes that hold this share until the last reference to them is dropped.
    pub(crate) fn held_by(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(HeldBytes { bytes, _share: self })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.permit.take().is_some() {
            self.returned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Bytes with their share of the budget.
struct HeldBytes {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use futures_util::FutureExt;
    use tokio::time::{Instant, sleep};

    use super::{Budget, MAX_WAIT};

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn share_stays_with_the_bytes_and_shrinks_to_their_size() {
        let budget = Budget::new(4 * MIB);
        let mut share = budget.share(4 * MIB).await;
        assert!(budget.share(1).now_or_never().is_none(), "the whole budget is taken");
        share.shrink_to(MIB);
        let _rest = budget.share(3 * MIB).now_or_never().expect("the rest was returned");
        let part = share.held_by(Bytes::from(vec![0; MIB])).slice(7..8);
        assert!(budget.share(1).now_or_never().is_none(), "a part of the bytes holds the share");
        drop(part);
        assert!(budget.share(MIB).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn object_larger_than_the_budget_takes_all_of_it() {
        for budget in [Budget::new(MIB), Budget::new(0), Budget::new(usize::MAX)] {
            let all = budget.share(usize::MAX).now_or_never().expect("the whole budget is free");
            assert!(budget.share(1).now_or_never().is_none());
            drop(all);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiter_waits_while_shares_are_returned_and_proceeds_when_none_are() {
        let (budget, began) = (Budget::new(2 * MIB), Instant::now());
        let _stuck = budget.share(MIB).await;
        let others = async {
            for _ in 0..5 {
                let share = budget.share(MIB).await;
                sleep(MAX_WAIT * 4 / 5).await;
                drop(share);
            }
        };
        let waiter = async {
            // Behind the first of the others and before the second.
            sleep(Duration::from_secs(1)).await;
            drop(budget.share(2 * MIB).await);
            began.elapsed()
        };
        let (delay, ()) = tokio::join!(waiter, others);
        assert!((MAX_WAIT..=MAX_WAIT * 3).contains(&delay), "{delay:?}");
    }
}
