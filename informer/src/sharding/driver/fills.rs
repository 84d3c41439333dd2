//! The orders of a member to the participants, to fill and to release shards.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::sharding::error::GroupError;
use crate::sharding::group::GroupContext;
#[cfg(test)]
use crate::sharding::mutants::TaskMutant;
use crate::sharding::shards::ShardSet;

/// The shortest time for which a fill waits for further shards. The owners of shards that move to
/// one member at a time release them within milliseconds of each other, unless work continues.
const GATHERS_FOR: Duration = Duration::from_millis(100);

/// The shards that the participants hold for a member, or were ordered to fill. There is one fill
/// at a time.
pub(super) struct FillOrders<'g> {
    context: &'g GroupContext,
    current: Option<FillInProgress<'g>>,
    /// The orders that wait for the end of `current`. One list serves all of them.
    waiting: Vec<(u8, u64)>,
    /// The time of the monotonic clock of the first order in `waiting`.
    waiting_since: Duration,
    /// The duration of the last fill, without the wait before it.
    last: Duration,
    /// The shards that the participants were ordered to fill, and that were not released since.
    held: ShardSet,
}

/// A fill in progress: the shards with the numbers of their orders, without those that were
/// released since. There is at least one.
struct FillInProgress<'g> {
    orders: Vec<(u8, u64)>,
    /// The time of the monotonic clock of the first order.
    ordered: Duration,
    began: Instant,
    filled: BoxFuture<'g, ()>,
}

impl<'g> FillOrders<'g> {
    pub(super) fn new(context: &'g GroupContext) -> Self {
        Self {
            context,
            current: None,
            waiting: Vec::new(),
            waiting_since: Duration::ZERO,
            last: Duration::ZERO,
            held: ShardSet::default(),
        }
    }

    /// Records the order to fill a shard.
    pub(super) fn order(&mut self, shard: u8, number: u64) {
        self.held.insert(shard);
        if self.waiting.is_empty() {
            self.waiting_since = self.context.clock.now().monotonic;
        }
        self.waiting.push((shard, number));
    }

    /// Begins to fill the shards that wait for it, unless a fill is in progress, or the member
    /// expects further shards. Returns the time of the monotonic clock until which it waits for
    /// these.
    ///
    /// One list serves all shards that were claimed before it. A shard that is claimed during a
    /// list waits for its end, and then for another one. So this wait may take as long as a list,
    /// but no longer, because work of an owner may continue for long.
    pub(super) fn begin(&mut self, expects_shard: impl FnOnce() -> bool) -> Option<Duration> {
        if self.current.is_some() || self.waiting.is_empty() {
            return None;
        }
        let context = self.context;
        let waits_for = self.last.max(GATHERS_FOR).min(context.timing.retry_period);
        let begins_at = self.waiting_since.saturating_add(waits_for);
        if context.clock.now().monotonic < begins_at && expects_shard() {
            return Some(begins_at);
        }
        let orders = std::mem::take(&mut self.waiting);
        let shards = orders.iter().map(|(shard, _)| *shard).collect();
        let report = move |participant, waited| {
            let group = context.title();
            context.report(&GroupError::NotFilled { group, participant, waited });
        };
        let filled = context.participants.fill(shards, report).boxed();
        #[cfg(test)]
        let filled = if TaskMutant::StoreIsNotFilled.is_chosen() {
            std::future::ready(()).boxed()
        } else {
            filled
        };
        let (ordered, began) = (self.waiting_since, Instant::now());
        self.current = Some(FillInProgress { orders, ordered, began, filled });
        None
    }

    /// Waits until the fill in progress has ended, or for ever if there is none.
    pub(super) async fn wait(&mut self) {
        match &mut self.current {
            Some(fill) => (&mut fill.filled).await,
            None => std::future::pending().await,
        }
    }

    /// Ends the fill in progress. Returns its shards, with the numbers of their orders.
    pub(super) fn end(&mut self) -> Vec<(u8, u64)> {
        let Some(FillInProgress { orders, ordered, began, .. }) = self.current.take() else {
            return Vec::new();
        };
        self.last = began.elapsed();
        let delay = self.context.clock.now().monotonic.saturating_sub(ordered);
        self.context.metrics.record(|metrics| metrics.filled(delay));
        orders
    }

    /// Releases the shards that the member does not hold any more. This happens before a later
    /// claim, so that a fill after that lists again.
    pub(super) fn release(&mut self, holds: impl Fn(u8) -> bool) {
        let released: ShardSet = self.held.iter().filter(|shard| !holds(*shard)).collect();
        if !released.is_empty() {
            self.held = self.held.without(released);
            let is_held = |(shard, _): &(u8, u64)| !released.contains(*shard);
            self.waiting.retain(is_held);
            if let Some(fill) = &mut self.current {
                fill.orders.retain(is_held);
            }
            // Later orders would wait for a list that nobody needs.
            self.current.take_if(|fill| fill.orders.is_empty());
            self.context.participants.release(released);
        }
    }
}
