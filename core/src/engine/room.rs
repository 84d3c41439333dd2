//! Decides when a collection frees memory that it no longer needs.

/// A collection keeps room for this many entries, however few it has.
pub const LEAST_ROOM: usize = 64;

/// Returns the room to which a collection of `entries` entries shrinks, if it has room for more
/// than eight times as many and for more than [`LEAST_ROOM`]. Twice as many entries fit into the
/// smaller collection. So it shrinks again only after about as many removals as it has entries.
#[inline]
#[must_use]
pub fn less_room(entries: usize, room: usize) -> Option<usize> {
    (room > LEAST_ROOM && entries < room / 8).then_some(2 * entries)
}
