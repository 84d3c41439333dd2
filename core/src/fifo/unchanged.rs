//! Finds the objects of a relist that are unchanged, and so need not be queued.

use super::{DeltaFifo, KnownPlace};
use crate::Meta;
use crate::engine::release::UserCode;
use crate::engine::slot::{RunningSlot, Slot, State, Version};
use crate::engine::sync::{Arc, mutant};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Checks a slot whose object was listed with `version`, with the shard's lock held.
    pub(super) fn check_listed(&self, slot: &Slot<T>, version: Version<'_>) -> ListedCheck<T> {
        mutant!(SkipIgnoresTheHandler => return slot.known().map_or(ListedCheck::Needed, ListedCheck::Idle));
        mutant!(KnownReadBeforeTheWord => return ListedCheck::known_first(slot));
        mutant!(NoteReadBeforeTheWord => return ListedCheck::note_first(slot, version));
        // The word is read first: an object or a note that is read while the word says idle, or
        // later, is at least as new.
        if !matches!(self.known, KnownPlace::Fused) || slot.state() != State::Idle {
            return ListedCheck::Needed;
        }
        if slot.is_noted(version.number()) {
            return ListedCheck::Noted;
        }
        slot.known().map_or(ListedCheck::Needed, ListedCheck::Idle)
    }

    /// Returns whether the checked object has this version, which is computed only if it is
    /// needed. Called with no lock held, because the accessor is user code.
    pub(super) fn is_unchanged<'v>(
        &self,
        check: ListedCheck<T>,
        version: impl FnOnce() -> Version<'v>,
    ) -> bool {
        !self.transform.alters_versions()
            && match check {
                ListedCheck::Noted => true,
                ListedCheck::Idle(known) => {
                    let (known, version) = (UserCode::new(known), version());
                    !version.is_empty()
                        && self
                            .core
                            .keys
                            .meta()
                            .version(&known)
                            .is_some_and(|known| Version::of(known.as_bytes()) == version)
                }
                ListedCheck::Needed => false,
            }
    }

    /// Notes the version of the known object in the slot, so that a relist need not read the
    /// object.
    #[inline(never)] // Only queues that skip what is unchanged need it.
    pub(super) fn note_version(&self, running: &mut RunningSlot<T>) {
        let number = |known: &T| {
            self.core
                .keys
                .meta()
                .version(known)
                .map_or(0, |version| Version::of(version.as_bytes()).number())
        };
        let number = running.known_ref().map_or(0, |known| number(&known));
        running.note_version(number);
    }
}

/// The state of a key, for a relist that skips unchanged objects.
pub(super) enum ListedCheck<T> {
    /// The slot is idle, and the version that is recorded in it is the listed one.
    Noted,
    /// The slot is idle, and has this known object.
    Idle(Arc<T>),
    /// The object cannot be skipped.
    Needed,
}

/// The code of deliberate defects (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{ListedCheck, Slot, State, Version};

    impl<T> ListedCheck<T> {
        /// Checks a slot, with the defect `KnownReadBeforeTheWord`: a handler can change the known
        /// object between the two reads.
        pub(super) fn known_first(slot: &Slot<T>) -> Self {
            let known = slot.known().map_or(Self::Needed, Self::Idle);
            if slot.state() == State::Idle { known } else { Self::Needed }
        }

        /// Checks a slot, with the defect `NoteReadBeforeTheWord`: a handler can change the note
        /// between the two reads.
        pub(super) fn note_first(slot: &Slot<T>, version: Version<'_>) -> Self {
            match (slot.is_noted(version.number()), slot.state()) {
                (true, State::Idle) => Self::Noted,
                (false, State::Idle) => slot.known().map_or(Self::Needed, Self::Idle),
                _ => Self::Needed,
            }
        }
    }
}
