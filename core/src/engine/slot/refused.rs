//! Code that must not compile. `tests/engine/refused.rs` builds the crate with each value of
//! `deltafifo_refused` and expects one error for each call of the macro. No other build contains
//! this file.

use super::known::KnownArc;
use super::lane::{BacklogSlot, StaleSlot, Ticket};
use super::word::Word;
use super::{IndexedSlot, QueuedSlot, RunningSlot, Slot, SlotOwner};

/// The owners of objects must be invariant in the object's type. If this conversion compiled, a
/// caller could store a `'short` object through the returned reference, and read it as a `'static`
/// one through `owner`.
#[cfg(deltafifo_refused = "shortened lifetime")]
macro_rules! refused {
    ($name:ident: $owner:ident) => {
        fn $name<'short>(owner: &'short $owner<&'static str>) -> &'short $owner<&'short str> {
            owner
        }
    };
}

/// A slot or token of objects that are not `Sync` must be neither `Send` nor `Sync`: it gives
/// access to `Arc`s that other threads hold as well.
#[cfg(deltafifo_refused = "shared cell")]
macro_rules! refused {
    ($name:ident: $owner:ident) => {
        fn $name(owner: $owner<std::cell::Cell<u8>>) -> impl Send {
            owner
        }
    };
}

refused!(word: Word);
refused!(known: KnownArc);
refused!(slot: Slot);
refused!(owner: SlotOwner);
refused!(queued: QueuedSlot);
refused!(running: RunningSlot);
refused!(indexed: IndexedSlot);
refused!(backlog: BacklogSlot);
refused!(stale: StaleSlot);
refused!(ticket: Ticket);
