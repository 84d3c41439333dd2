//! Code that must not compile. `tests/engine/refused.rs` builds the crate with each value of
//! `deltafifo_refused` and expects one error for each call of the macro. No other build contains
//! this file.

use super::known::KnownArc;
use super::lane::{BacklogSlot, StaleSlot, Ticket};
use super::word::Word;
use super::{IndexedSlot, QueuedSlot, RunningSlot, Slot, SlotOwner};

/// A short-lived object could be pushed through the result, and read as a `'static` one through
/// `owner`.
#[cfg(deltafifo_refused = "shortened lifetime")]
macro_rules! refused {
    ($name:ident: $owner:ident) => {
        fn $name<'short>(owner: &'short $owner<&'static str>) -> &'short $owner<&'short str> {
            owner
        }
    };
}

/// Through a slot and its tokens a thread reaches `Arc`s that other threads hold, too.
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
