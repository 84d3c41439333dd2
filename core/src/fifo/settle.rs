//! The end of a handler: the slot goes idle, goes back to the queue, or is retired.
//!
//! Deltas that were pushed while the handler ran under a rule that depends on what it leaves behind (a deletion, a
//! Sync, `add_if_not_present`) are decided here, as if they had come just after the handler. Decided at the next take
//! instead, there would be empty pops. A slot that ends with nothing known is retired by its owner, still running: after
//! EMPTY another consumer could push, take and free it in between.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{DeltaFifo, Known};
use crate::slot::{Pending, Rule, RunningSlot, What};
use crate::sync::Arc;
use crate::{Deltas, Meta};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Settles `running`. `front`, if any, goes back in front of what came meanwhile. Whether the slot is queued again.
    pub(super) fn settle(&self, mut running: RunningSlot<T>, front: Option<Deltas<T>>) -> bool {
        let mut kept = Vec::new();
        if let Some(deltas) = front.filter(|deltas| !deltas.is_empty()) {
            self.initial.touch();
            let sealed = Pending::new(What::Sealed(deltas.into_iter().collect()));
            self.depth.add(sealed.weight());
            kept.push(sealed);
        }
        loop {
            if kept.is_empty() {
                let ended = if running.is_known() { running.idle() } else { self.core.table.retire(running) };
                match ended {
                    Ok(()) => return false,
                    Err(again) => running = again,
                }
            } else {
                match running.requeue(kept) {
                    Ok(slot) => {
                        self.queue.push(slot);
                        self.queue.wake(1);
                        return true;
                    }
                    Err((again, unsent)) => (running, kept) = (again, unsent),
                }
            }
            let pushed = running.take_pushed();
            self.decide(&running, &mut kept, pushed);
        }
    }

    /// Appends to `kept` what of `pushed` counts.
    fn decide(&self, running: &RunningSlot<T>, kept: &mut Vec<Pending<T>>, pushed: Vec<Pending<T>>) {
        let mut dropped = Dropped::default();
        for mut pending in pushed {
            let Some(rule) = pending.undecided.take() else {
                kept.push(pending);
                continue;
            };
            let counts = match rule {
                Rule::Always => true,
                Rule::IfAbsent => kept.is_empty(),
                Rule::IfExists => !kept.is_empty() || self.is_known_after(running, &mut pending, true),
                Rule::IfIdle => kept.is_empty() && self.is_known_after(running, &mut pending, false),
            };
            if counts {
                kept.push(pending);
            } else {
                dropped.weight += pending.weight();
                dropped.marks += usize::from(pending.initial);
            }
        }
        self.depth.subtract(dropped.weight);
        self.initial.settled(dropped.marks);
    }

    /// Whether the key is known now that its handler has ended. A store elsewhere is asked, and what it says becomes the
    /// object of `pending` where that stands for the newest state; when it fails, `otherwise`.
    fn is_known_after(&self, running: &RunningSlot<T>, pending: &mut Pending<T>, otherwise: bool) -> bool {
        let objects = match &self.known {
            Known::Fused => return running.is_known(),
            Known::Nowhere => return false,
            Known::Elsewhere { objects, .. } => objects,
        };
        // A slot is settled in destructors too: a panic of the store's must not become an abort.
        let found = catch_unwind(AssertUnwindSafe(|| objects.get_by_key(running.key())));
        let Ok(Ok(found)) = found else {
            tracing::error!(key = running.key(), "known objects failed while a handler's end was settled");
            return otherwise;
        };
        let known = found.is_some();
        if !known && matches!(pending.what, What::Again(..)) {
            tracing::debug!(key = running.key(), "a listed key has no object any more; it is not synced");
        }
        match &mut pending.what {
            What::Swept(object) | What::Again(_, object) => *object = found,
            What::Object(..) | What::Tombstone(_) | What::Sealed(_) => drop::<Option<Arc<T>>>(found),
        }
        known
    }
}

/// What the decisions took out of the counts.
#[derive(Default)]
struct Dropped {
    weight: usize,
    marks: usize,
}
