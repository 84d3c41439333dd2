//! Operations on a few keys.

/// How many keys there are.
const COUNT: u8 = 12;

/// How a key is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which key.
    pub key: u8,
    /// How high it is.
    pub priority: i32,
    /// After how many seconds.
    pub after: Option<u64>,
    /// Whether the rate limiter is asked.
    pub limited: bool,
}

/// How a processing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It says so.
    Done,
    /// The item is dropped.
    Dropped,
    /// The reconciler panics.
    Panicked,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Asks for a key.
    Add(Asked),
    /// Takes a key if there is one.
    Take,
    /// Wants a key, and sleeps if there is none.
    Get,
    /// Of those who sleep, which one looks again.
    Look(u8),
    /// Of those who sleep, which one goes away.
    Leave(u8),
    /// Of the items in hand, which one ends.
    End(u8, Ending),
    /// Adds and takes with nobody holding on: what makes turns.
    Cycle(u8, i32),
    /// A key's failures count no more.
    Forget(u8),
    /// So many seconds pass.
    Pass(u64),
    /// Ends the queue.
    ShutDown,
    /// Ends the queue and waits for what is in work.
    Drain,
}

impl From<[u8; 4]> for Op {
    fn from([what, a, b, c]: [u8; 4]) -> Self {
        let (key, priority) = (a % COUNT, i32::from(b % 6) - 2);
        match what {
            255 => return Self::ShutDown,
            254 => return Self::Drain,
            _ => {}
        }
        match what % 32 {
            0..=7 => {
                // Mostly at once; after nothing at all, too.
                let after = [None, None, None, Some(u64::from(c >> 4) % 5)][usize::from(c % 4)];
                Self::Add(Asked { key, priority, after, limited: c & 0xc == 0xc })
            }
            8..=10 => Self::Take,
            11..=13 => {
                Self::End(a, [Ending::Done, Ending::Dropped, Ending::Panicked][usize::from(b % 3)])
            }
            14 | 15 => Self::Get,
            16 => Self::Look(a),
            17 => Self::Leave(a),
            18 => Self::Forget(key),
            19 | 20 => Self::Pass(u64::from(a % 3) + 1),
            _ => Self::Cycle(key, priority),
        }
    }
}
