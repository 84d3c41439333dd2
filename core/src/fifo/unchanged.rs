//! Finds the objects of a relist that are unchanged, and so need not be queued.

use super::{DeltaFifo, KnownPlace};
use crate::engine::release::UserCode;
use crate::engine::slot::{RunningSlot, Slot, State, Version};
use crate::engine::sync::{Arc, mutant};
use crate::{DeltaType, Meta};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Checks a slot whose object was listed with `version`, with the shard's lock held.
    pub(super) fn check_listed(&self, slot: &Slot<T>, version: Version<'_>) -> ListedCheck<T> {
        mutant!(SkipIgnoresTheHandler => return ListedCheck::of_idle(slot));
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
        ListedCheck::of_idle(slot)
    }

    /// Returns whether the checked object has this version, which is computed only if it is
    /// needed. If the version had to be read from the object, notes it in the slot of `key`. Called
    /// with no lock held, because the accessor is user code.
    pub(super) fn is_unchanged<'v>(
        &self,
        check: ListedCheck<T>,
        hash: u64,
        key: &[u8],
        version: impl FnOnce() -> Version<'v>,
    ) -> bool {
        if self.transform.alters_versions() {
            return false;
        }
        let ListedCheck::Idle { known, has_room } = check else {
            return matches!(check, ListedCheck::Noted);
        };
        let (known, version) = (UserCode::new(known), version());
        let found = self.core.keys.meta().version(&known);
        let is_unchanged = !version.is_empty()
            && found.is_some_and(|found| Version::of(found.as_bytes()) == version);
        if is_unchanged && has_room && version.number() != 0 {
            self.note_unchanged(hash, key, &known, version.number());
        }
        is_unchanged
    }

    /// Notes the version of an unchanged object in its slot, unless a handler has replaced the
    /// object. The lock is exclusive, so an idle slot stays idle until the note is written.
    fn note_unchanged(&self, hash: u64, key: &[u8], known: &Arc<T>, number: u64) {
        let shard = self.core.table.shard(hash).write();
        let place = shard.place_of(hash, key);
        let Some(mut claimed) = place.and_then(|place| shard.at(place).claim()) else { return };
        let is_known = claimed.known_ref().is_some_and(|now| Arc::ptr_eq(&now, known));
        mutant!(NoteIgnoresTheWriter => let is_known = true);
        if is_known {
            claimed.note_version(number);
        }
        let is_idle = claimed.idle().is_ok();
        assert!(is_idle, "deltas are pushed to a slot only with its shard locked");
    }

    /// Notes the version of the known object in the slot, so that a relist need not read the
    /// object, if a delta of this type may come from a list. For an event it would often be the
    /// consumer's only read of the object; the next relist notes that version.
    #[inline(never)] // Only queues that skip what is unchanged need it.
    pub(super) fn note_listed_version(&self, kind: DeltaType, running: &mut RunningSlot<T>) {
        if !matches!(kind, DeltaType::Replaced | DeltaType::Sync) {
            return;
        }
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
    /// The slot is idle, and has this known object. `has_room` says whether its version can be
    /// noted in the slot.
    Idle { known: Arc<T>, has_room: bool },
    /// The object cannot be skipped.
    Needed,
}

impl<T> ListedCheck<T> {
    /// Checks a slot that was seen idle, and has not noted the listed version. If it has noted
    /// another version, the object has changed.
    fn of_idle(slot: &Slot<T>) -> Self {
        match slot.known() {
            Some(known) if !slot.has_noted() => Self::Idle { known, has_room: slot.has_room() },
            _ => Self::Needed,
        }
    }
}

/// The code of deliberate defects (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{ListedCheck, Slot, State, Version};

    impl<T> ListedCheck<T> {
        /// Checks a slot, with the defect `KnownReadBeforeTheWord`: a handler can change the known
        /// object between the two reads.
        pub(super) fn known_first(slot: &Slot<T>) -> Self {
            let known = Self::of_idle(slot);
            if slot.state() == State::Idle { known } else { Self::Needed }
        }

        /// Checks a slot, with the defect `NoteReadBeforeTheWord`: a handler can change the note
        /// between the two reads.
        pub(super) fn note_first(slot: &Slot<T>, version: Version<'_>) -> Self {
            match (slot.is_noted(version.number()), slot.state()) {
                (true, State::Idle) => Self::Noted,
                (false, State::Idle) => Self::of_idle(slot),
                _ => Self::Needed,
            }
        }
    }
}
