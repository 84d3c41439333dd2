//! The end of a handler: the slot goes idle, goes back to the queue, or is retired.
//!
//! Deltas that were pushed while the handler ran under a rule that depends on what it leaves
//! behind (a deletion, a Sync, `add_if_not_present`) are decided here, as if they had come just
//! after the handler. Decided at the next take instead, there would be empty pops. A slot that
//! ends with nothing known is retired by its owner, still running: after EMPTY another consumer
//! could push, take and free it in between.

use super::news::News;
use super::{DeltaFifo, Known};
use crate::Meta;
use crate::engine::ready_queue::Lane;
use crate::engine::slot::{Pending, Rule, RunningSlot, What};
use crate::engine::sync::{Arc, mutant};
use crate::error::unharmed;

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Settles `running`, and `marks` of the initial population with it.
    pub(super) fn settle(&self, running: RunningSlot<T>, marks: usize) -> Settled<T> {
        self.settle_behind(Vec::new(), running, marks)
    }

    /// The same, and `front` goes back in front of what came meanwhile. The caller has a hold on
    /// the epoch that it is of.
    #[cold]
    pub(super) fn put_back(&self, front: Pending<T>, running: RunningSlot<T>, marks: usize) -> Settled<T> {
        self.depth.add(front.weight());
        self.settle_behind(vec![front], running, marks)
    }

    #[inline]
    fn settle_behind(&self, kept: Vec<Pending<T>>, running: RunningSlot<T>, marks: usize) -> Settled<T> {
        let mut left_out = None;
        let queued = self.end(running, kept, &mut left_out);
        let (weight, left_out_marks) = left_out.as_ref().map_or((0, 0), |left_out| (left_out.weight, left_out.marks));
        let news = News {
            queued: mutant!(SettleDoesNotWake => 0; queued.unwrap_or(0)),
            room: self.depth.subtract(weight),
            synced: self.initial.settled(marks + mutant!(LeftOutKeepsItsMark => 0; left_out_marks)),
        };
        self.tell(&news);
        Settled { is_queued: queued.is_some(), _left_out: left_out }
    }

    /// Ends `running`, with `kept` in front of what was pushed over it. If the slot is queued
    /// again, for how many consumers that is news.
    #[inline]
    fn end(
        &self,
        mut running: RunningSlot<T>,
        mut kept: Vec<Pending<T>>,
        left_out: &mut Option<Box<LeftOut<T>>>,
    ) -> Option<usize> {
        loop {
            if kept.is_empty() {
                let ended = if running.is_known() { running.idle() } else { self.core.table.retire(running) };
                match ended {
                    Ok(()) => return None,
                    Err(again) => running = again,
                }
            } else {
                match self.queue_again(running, kept) {
                    Ok(news) => return Some(news),
                    Err((again, unsent)) => (running, kept) = (again, unsent),
                }
            }
            let pushed = running.take_pushed();
            self.decide(&running, &mut kept, pushed, left_out);
            mutant!(PutBackBehind => if kept.len() > 1 { kept.rotate_left(1) });
        }
    }

    /// Queues `running` with `kept`, and says for how many consumers that is news; both come back
    /// when more was pushed over it.
    #[inline(never)] // Most handlers end with nothing pushed over them, and do not pay for the code of it.
    fn queue_again(
        &self,
        running: RunningSlot<T>,
        kept: Vec<Pending<T>>,
    ) -> Result<usize, (RunningSlot<T>, Vec<Pending<T>>)> {
        let lane = if kept.iter().any(Pending::is_live) { Lane::Live } else { Lane::Backlog };
        let now = self.queue.now();
        let oldest = now.and_then(|now| kept.iter().map(|pending| pending.since?.epoch(now)).min().flatten());
        let since = mutant!(PushedOverCountsFromTheEnd => now; oldest);
        let slot = running.requeue(kept)?;
        // Before it is queued: markers stand where it goes that it was offered before.
        mutant!(QueuedAgainIsNotParked => (); self.queue.park(&slot, since));
        let Some(ticket) = self.queue.ticket_of(lane, slot) else { return Ok(0) };
        self.queue.push(lane, ticket);
        mutant!(SettledBacklogWakesNobody => if lane == Lane::Backlog { return Ok(0); });
        Ok(1)
    }

    /// Appends to `kept` what of `pushed` counts.
    #[inline(never)] // As `queue_again`.
    fn decide(
        &self,
        running: &RunningSlot<T>,
        kept: &mut Vec<Pending<T>>,
        pushed: Vec<Pending<T>>,
        left_out: &mut Option<Box<LeftOut<T>>>,
    ) {
        for mut pending in pushed {
            let Some(rule) = pending.undecided.take() else {
                kept.push(pending);
                continue;
            };
            let counts = match rule {
                Rule::Always => true,
                Rule::IfAbsent => kept.is_empty(),
                Rule::IfExists => !kept.is_empty() || self.is_known_after(running, &mut pending, true, left_out),
                Rule::IfIdle => kept.is_empty() && self.is_known_after(running, &mut pending, false, left_out),
            };
            if counts {
                kept.push(pending);
            } else {
                let left_out = left_out.get_or_insert_default();
                left_out.weight += pending.weight();
                left_out.marks += usize::from(pending.initial);
                left_out.pending.push(pending);
            }
        }
    }

    /// Whether the key is known now that its handler has ended. A store elsewhere is asked, and
    /// what it says becomes the object of `pending` where that stands for the newest state; when
    /// it fails, `otherwise`.
    fn is_known_after(
        &self,
        running: &RunningSlot<T>,
        pending: &mut Pending<T>,
        otherwise: bool,
        left_out: &mut Option<Box<LeftOut<T>>>,
    ) -> bool {
        let objects = match &self.known {
            Known::Fused => return running.is_known(),
            Known::Nowhere => return false,
            Known::Elsewhere { objects, .. } => objects,
        };
        // A slot is settled in destructors too: a panic of the store's must not become an abort.
        let found = unharmed(|| objects.get_by_key(running.key()));
        let Some(Ok(found)) = found else {
            unharmed(|| tracing::error!(key = running.key(), "known objects failed while a handler's end was settled"));
            return otherwise;
        };
        let known = found.is_some();
        if !known && matches!(pending.what, What::Again(..)) {
            unharmed(|| tracing::debug!(key = running.key(), "a listed key has no object any more; it is not synced"));
        }
        left_out.get_or_insert_default().objects.extend(match &mut pending.what {
            What::Swept(object) | What::Again(_, object) => std::mem::replace(object, found),
            What::Object(..) | What::Tombstone(_) | What::Sealed(_) => found,
        });
        known
    }
}

/// What a settle came to.
#[must_use = "its objects are released when it is dropped: last"]
pub(super) struct Settled<T> {
    /// Whether the slot is queued again.
    pub(super) is_queued: bool,
    /// Of most there is none, and room for it in every settled slot would cost them some forty
    /// instructions.
    _left_out: Option<Box<LeftOut<T>>>,
}

/// What the decisions took out of the counts, and the objects that are not needed any more. Should
/// the drop of one panic, its key is settled already.
struct LeftOut<T> {
    weight: usize,
    marks: usize,
    pending: Vec<Pending<T>>,
    objects: Vec<Arc<T>>,
}

impl<T> Default for LeftOut<T> {
    fn default() -> Self {
        Self { weight: 0, marks: 0, pending: Vec::new(), objects: Vec::new() }
    }
}
