//! Operations on a work queue with a few keys.

/// The number of keys.
const COUNT: u8 = 12;

/// The arguments of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddArgs {
    /// The key.
    pub key: u8,
    /// The priority.
    pub priority: i32,
    /// The delay in seconds; `None` for an add without a delay.
    pub after: Option<u64>,
    /// Whether the add is rate-limited.
    pub limited: bool,
}

/// The end of the processing of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `done` is called.
    Done,
    /// The item is dropped.
    Dropped,
    /// The reconciler panics.
    Panicked,
}

/// An operation on the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Adds a key.
    Add(AddArgs),
    /// Takes a key if there is one.
    Take,
    /// Gets a key. The getter sleeps if there is none.
    Get,
    /// Polls one of the sleeping getters again, by its position among them. The position wraps
    /// around.
    Poll(u8),
    /// Drops one of the sleeping getters, by its position among them. The position wraps around.
    DropGetter(u8),
    /// Ends the processing of one of the items in work, by its position among them. The position
    /// wraps around.
    End(u8, Ending),
    /// Adds a key with this priority, and then takes the next item and drops it.
    Cycle(u8, i32),
    /// Forgets the failures of a key.
    Forget(u8),
    /// Advances the clock by this many seconds.
    Pass(u64),
    /// Shuts the queue down.
    ShutDown,
    /// Shuts the queue down and waits for the items in work.
    Drain,
}

impl From<[u8; 4]> for Op {
    fn from([code, a, b, c]: [u8; 4]) -> Self {
        let (key, priority) = (a % COUNT, i32::from(b % 6) - 2);
        match code {
            255 => return Self::ShutDown,
            254 => return Self::Drain,
            _ => {}
        }
        match code % 32 {
            0..=7 => {
                // Mostly without a delay. A delay of zero occurs as well.
                let after = [None, None, None, Some(u64::from(c >> 4) % 5)][usize::from(c % 4)];
                Self::Add(AddArgs { key, priority, after, limited: c & 0xc == 0xc })
            }
            8..=10 => Self::Take,
            11..=13 => {
                Self::End(a, [Ending::Done, Ending::Dropped, Ending::Panicked][usize::from(b % 3)])
            }
            14 | 15 => Self::Get,
            16 => Self::Poll(a),
            17 => Self::DropGetter(a),
            18 => Self::Forget(key),
            19 | 20 => Self::Pass(u64::from(a % 3) + 1),
            _ => Self::Cycle(key, priority),
        }
    }
}
