//! Which objects of a relist are unchanged, and so need not be queued.

use super::super::{DeltaFifo, Known};
use crate::Meta;
use crate::engine::slot::{RunningSlot, Slot, State, Version};
use crate::engine::sync::{Arc, mutant};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// A look, with the shard's lock held, at a slot whose object was listed with `version`.
    pub(in crate::fifo) fn look(&self, slot: &Slot<T>, version: Version<'_>) -> Look<T> {
        mutant!(SkipIgnoresTheHandler => return slot.known().map_or(Look::Needed, Look::Idle));
        mutant!(KnownReadBeforeTheWord => {
            let known = slot.known().map_or(Look::Needed, Look::Idle);
            return if slot.state() == State::Idle { known } else { Look::Needed };
        });
        mutant!(NoteReadBeforeTheWord => if slot.is_noted(version.number()) {
            return if slot.state() == State::Idle { Look::Noted } else { Look::Needed };
        });
        // The word first: what is known, or noted, while it says idle, or after, is at least as
        // new.
        if !matches!(self.known, Known::Fused) || slot.state() != State::Idle {
            return Look::Needed;
        }
        if slot.is_noted(version.number()) {
            return Look::Noted;
        }
        slot.known().map_or(Look::Needed, Look::Idle)
    }

    /// Whether the object of that look is of `version`, as received, which is only asked for when
    /// the look does not say. Called with no lock held: the accessor is user code.
    pub(in crate::fifo) fn is_unchanged<'v>(&self, look: Look<T>, version: impl FnOnce() -> Version<'v>) -> bool {
        !self.transform.alters_versions()
            && match look {
                Look::Noted => true,
                Look::Idle(known) => {
                    let version = version();
                    !version.is_empty()
                        && self
                            .core
                            .keys
                            .meta()
                            .version(&known)
                            .is_some_and(|known| Version::of(known.as_bytes()) == version)
                }
                Look::Needed => false,
            }
    }

    /// Notes in the slot the version of what it knows, so that a relist need not look at the
    /// object.
    #[inline(never)] // Only queues that skip what is unchanged need it.
    pub(in crate::fifo) fn note_version(&self, running: &mut RunningSlot<T>) {
        let number = |known: &T| {
            self.core.keys.meta().version(known).map_or(0, |version| Version::of(version.as_bytes()).number())
        };
        let number = running.known_ref().map_or(0, |known| number(&known));
        running.note_version(number);
    }
}

/// What a relist that skips what is unchanged finds under a key.
pub(in crate::fifo) enum Look<T> {
    /// An idle slot, which knows an object that is noted to be of that version.
    Noted,
    /// An idle slot, and what it knows.
    Idle(Arc<T>),
    /// Nothing that can be skipped.
    Needed,
}
