//! The end of a handler: the slot goes idle, goes back to the queue, or is retired.
//!
//! A deletion, a Sync or an `add_if_not_present` that is pushed while the handler runs is accepted
//! or rejected by the state of the key after the handler: a deletion needs a known object or a
//! pending delta, a Sync needs a known object and no pending delta, and an `add_if_not_present`
//! needs no pending delta. Settle decides this, as if the delta had been pushed just after the
//! handler. If the next take decided it, a pop could find that no delta is left.
//!
//! If the slot then has neither a known object nor a pending delta, the thread that settles it
//! retires it while it is still RUNNING. If it became EMPTY first, a producer could push to it, and
//! another consumer could take and free it, before that thread retires it.

use super::wakeups::Wakeups;
use super::{DeltaFifo, KnownPlace};
use crate::engine::ready_queue::Lane;
use crate::engine::release::OneByOne;
use crate::engine::slot::{Content, Pending, Rule, RunningSlot};
use crate::engine::sync::mutant;
use crate::error::BoxError;
use crate::panics::{fallible, ignore_panic};
use crate::{DeltaObject, Meta, error_chain};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Settles `running`, and with it this number of marks of the initial population.
    pub(super) fn settle(&self, running: RunningSlot<T>, marks: usize) -> Settled<T> {
        self.settle_behind(Vec::new(), running, marks)
    }

    /// Settles `running`, and puts `front` back in front of newer deltas. The caller has a hold on
    /// the epoch of `front`.
    #[cold]
    pub(super) fn put_back(
        &self,
        front: Pending<T>,
        running: RunningSlot<T>,
        marks: usize,
    ) -> Settled<T> {
        self.life.depth.add(front.weight());
        self.settle_behind(vec![front], running, marks)
    }

    #[inline]
    fn settle_behind(
        &self,
        kept: Vec<Pending<T>>,
        running: RunningSlot<T>,
        marks: usize,
    ) -> Settled<T> {
        let mut left_out = None;
        let queued = self.end(running, kept, &mut left_out);
        let (weight, left_out_marks) =
            left_out.as_ref().map_or((0, 0), |left_out| (left_out.weight, left_out.marks));
        mutant!(LeftOutKeepsItsMark => let left_out_marks = 0);
        let ended = self.life.settled(weight, marks + left_out_marks);
        let wakeups = Wakeups { queued: queued.unwrap_or(0), ended };
        mutant!(SettleDoesNotWake => let wakeups = Wakeups { queued: 0, ended });
        self.wake(&wakeups);
        Settled { is_queued: queued.is_some(), left_out }
    }

    /// Ends `running`. Puts `kept` in front of the deltas that were pushed while it ran. Returns
    /// the number of consumers to wake if the slot is queued again, and `None` if it is not.
    #[inline]
    fn end(
        &self,
        mut running: RunningSlot<T>,
        mut kept: Vec<Pending<T>>,
        left_out: &mut Option<Box<LeftOut<T>>>,
    ) -> Option<usize> {
        // Each attempt is one compare-exchange, which fails if a delta was pushed since the last
        // take: only the owner of the slot can queue such a delta.
        loop {
            if kept.is_empty() {
                // An idle slot without a known object would stay in the table.
                let ended = if running.is_known() {
                    running.idle()
                } else {
                    self.core.table.retire(running)
                };
                match ended {
                    Ok(()) => return None,
                    Err(again) => running = again,
                }
            } else {
                // From RUNNING to a list in one step: no producer finds the slot idle and queues it
                // a second time.
                match self.queue_again(running, kept) {
                    Ok(wakeups) => return Some(wakeups),
                    Err((again, unsent)) => (running, kept) = (again, unsent),
                }
            }
            // They go behind `kept`, which is older. The loop goes on only as long as producers
            // push between two attempts.
            let pushed = running.take_pushed();
            self.decide(&running, &mut kept, pushed, left_out);
            mutant!(PutBackBehind => if kept.len() > 1 { kept.rotate_left(1) });
        }
    }

    /// Queues `running` with `kept`, and returns how many consumers to wake. If deltas were pushed
    /// since the last take, queues nothing and returns both arguments as the error.
    // Most handlers end with nothing pushed over them, and do not pay for this code.
    #[inline(never)]
    fn queue_again(
        &self,
        running: RunningSlot<T>,
        kept: Vec<Pending<T>>,
    ) -> Result<usize, (RunningSlot<T>, Vec<Pending<T>>)> {
        let lane = if kept.iter().any(Pending::is_live) { Lane::Live } else { Lane::Backlog };
        let now = self.queue.now();
        let since = now
            .and_then(|now| kept.iter().map(|pending| pending.since?.epoch(now)).min().flatten());
        mutant!(PushedOverCountsFromTheEnd => let since = now);
        let slot = running.requeue(kept)?;
        // Before it is queued: it goes behind markers that came after its offer.
        mutant!(QueuedAgainIsNotParked => let since = None);
        self.queue.park(&slot, since);
        let Some(ticket) = self.queue.ticket_of(lane, slot) else { return Ok(0) };
        self.queue.push(lane, ticket);
        mutant!(SettledBacklogWakesNoConsumer => if lane == Lane::Backlog { return Ok(0); });
        Ok(1)
    }

    /// Checks the deltas of `pushed`. Appends those that have an effect to `kept`, and adds the
    /// others to `left_out`.
    #[inline(never)] // As `queue_again`.
    fn decide(
        &self,
        running: &RunningSlot<T>,
        kept: &mut Vec<Pending<T>>,
        pushed: Vec<Pending<T>>,
        left_out: &mut Option<Box<LeftOut<T>>>,
    ) {
        // Oldest first, so `kept` is at each step what is pending before the delta.
        for mut pending in pushed {
            // Without a rule, the delta was accepted when it was pushed.
            let Some(rule) = pending.undecided.take() else {
                kept.push(pending);
                continue;
            };
            // The external store is asked last: it is user code. If it fails, a deletion is kept,
            // because only a relist would repeat it; a Sync is not: the next resync repeats it.
            let counts = match rule {
                Rule::Always => true,
                Rule::IfAbsent => kept.is_empty(),
                Rule::IfExists => {
                    !kept.is_empty() || self.is_known_after(running, &mut pending, true, left_out)
                }
                Rule::IfIdle => {
                    kept.is_empty() && self.is_known_after(running, &mut pending, false, left_out)
                }
            };
            if counts {
                kept.push(pending);
            } else {
                // The producer has counted it. Its object is dropped by the caller, once the key is
                // settled: if the destructor panicked here, the key would stay running.
                let left_out = left_out.get_or_insert_default();
                left_out.weight += pending.weight();
                left_out.marks += usize::from(pending.initial);
                pending.content.release_into(&mut left_out.objects);
            }
        }
    }

    /// Returns whether the key has a known object now that its handler has ended, or while an offer
    /// holds the idle key as a handler would. An external store is asked for the object. If
    /// `pending` was not offered with an object of its own (a Sync, or a deletion by a sweep), it
    /// gets the store's object. If the store fails, returns `otherwise`.
    fn is_known_after(
        &self,
        running: &RunningSlot<T>,
        pending: &mut Pending<T>,
        otherwise: bool,
        left_out: &mut Option<Box<LeftOut<T>>>,
    ) -> bool {
        let objects = match &self.known {
            KnownPlace::Fused => return running.is_known(),
            KnownPlace::Nowhere => return false,
            KnownPlace::Elsewhere { objects, .. } => objects,
        };
        // Destructors settle slots too: there a panic of the store would abort the process.
        let found = match fallible(|| objects.get_by_key(running.key())) {
            Ok(found) => found,
            Err(error) => {
                log_failed_lookup(running.key(), error, otherwise);
                return otherwise;
            }
        };
        let known = found.is_some();
        if !known && matches!(pending.content, Content::Again(..)) {
            ignore_panic(|| {
                tracing::debug!(
                    key = running.key(),
                    "a listed key has no object any more; it is not synced"
                );
            });
        }
        let unused = match &mut pending.content {
            Content::Swept(_, object) | Content::Again(_, object) => {
                std::mem::replace(object, found)
            }
            Content::Object(..) | Content::Tombstone(_) | Content::Sealed(_) => found,
        };
        left_out.get_or_insert_default().objects.extend(unused.map(DeltaObject::from));
        known
    }
}

/// Logs that the external store failed when it was asked for the object of a key: at the end of a
/// handler or, if the key was idle, in the offer itself
/// ([`push_and_ask`](DeltaFifo::push_and_ask)). `is_kept` is whether the delta is kept
/// nevertheless. Panics of the error are ignored.
#[cold]
fn log_failed_lookup(key: &str, error: BoxError, is_kept: bool) {
    // Each call of the error's code is separate: if its text and its destructor panicked in one
    // call, the process would abort.
    let text = ignore_panic(|| error_chain(&*error));
    ignore_panic(|| drop(error));
    ignore_panic(|| {
        let error = text.as_deref().unwrap_or("its text cannot be formatted");
        if is_kept {
            tracing::error!(
                key,
                error,
                "known objects failed when they were asked about a key; its deletion is handed out \
                 nevertheless"
            );
        } else {
            tracing::error!(
                key,
                error,
                "known objects failed when they were asked about a key; its Sync is dropped, and \
                 the next resync repeats it"
            );
        }
    });
}

/// The result of a settle.
#[must_use = "its objects are released when it is dropped: last"]
pub(super) struct Settled<T> {
    /// Whether the slot is queued again.
    pub(super) is_queued: bool,
    /// The deltas that were rejected, if there are any. Boxed, because most settles have none, and
    /// room for them would cost each settle some forty instructions.
    pub(super) left_out: Option<Box<LeftOut<T>>>,
}

/// The deltas that [`decide`](DeltaFifo::decide) rejected: their number (`weight`) and marks, to be
/// subtracted, and the objects that are no longer needed. The objects' destructors may panic, so
/// they run only after the key is settled.
pub(super) struct LeftOut<T> {
    weight: usize,
    marks: usize,
    pub(super) objects: OneByOne<Vec<DeltaObject<T>>>,
}

impl<T> Default for LeftOut<T> {
    fn default() -> Self {
        Self { weight: 0, marks: 0, objects: OneByOne::default() }
    }
}
