//! What the engine is compared with, by property tests and by fuzzing alike: operations that both
//! can make up, a model of client-go's `DeltaFIFO` written as plainly as it can be, and the engine
//! and the model side by side.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `model` | the plain queue, with a rule for keys whose handlers run |
//! | `op`, `bytes` | operations on a few keys; how a fuzzer's bytes spell them |
//! | `strategy` | the same operations for proptest (feature `strategies`) |
//! | `pair` | the engine and the model side by side, with several handlers at once |
//! | `indexed` | the indexer beside a map that is searched from end to end |
//! | `keys` | keys of any text, in the queue and in the store |
//! | `caches` | `Fifo`, `Heap` and the caches beside lists and maps that are searched from end to end |
//! | `selectors` | label selectors beside a plain reading of their text, listers beside a filter |
//! | `workqueue` | the work queue of `deltafifo-informer` beside a plain one (feature `workqueue`) |
//! | `clock` | time that passes when a test says so |
//! | `object`, `rig` | what the queues hold; a queue over any kind of known objects |
#![forbid(unsafe_code)]

mod bytes;
pub mod caches;
mod clock;
pub mod indexed;
pub mod keys;
mod model;
mod object;
mod op;
mod pair;
mod rig;
pub mod selectors;
#[cfg(feature = "strategies")]
pub mod strategy;
#[cfg(feature = "workqueue")]
pub mod workqueue;

pub use bytes::{Bytes, of_bytes, read, write};
pub use clock::ManualClock;
pub use model::{Model, Taken, Unchanged};
pub use object::{
    Obj, ObjMeta, abort_if_locked, deltas, key_func, nameless, obj, show, show_one, tombstone,
    versioned,
};
pub use op::{KEYS, Known, Op, Place, Setup, Step, TransformKind, Verdict};
pub use pair::run;
pub use rig::{Fifo, Guard, KNOWING, MODES, Mode, Outside, Rig};
