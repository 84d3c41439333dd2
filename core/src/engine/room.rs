//! When a collection gives back memory that it does not need any more.

/// A collection keeps room for this many entries, however few it has.
pub const LEAST_ROOM: usize = 64;

/// Returns the room to which a collection of `entries` entries shrinks, if it has room for more
/// than eight times as many and for more than [`LEAST_ROOM`]. Twice the entries fit into the
/// smaller one, so about as many removals as it has entries come before the next time.
#[inline]
#[must_use]
pub fn less_room(entries: usize, room: usize) -> Option<usize> {
    (room > LEAST_ROOM && entries < room / 8).then_some(2 * entries)
}
