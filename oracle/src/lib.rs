//! The oracle of the engine, for property tests and for fuzzing: operations that both can
//! generate, a plain model of client-go's `DeltaFIFO`, and a comparison of the engine with the
//! model.
//!
//! | file | contents |
//! | --- | --- |
//! | `model` | the plain queue, with a rule for keys whose handlers run |
//! | `op`, `bytes` | operations on a few keys, and their encoding as bytes for a fuzzer |
//! | `strategy` | the operations for proptest (feature `strategies`) |
//! | `pair` | the engine and the model side by side, with several concurrent handlers |
//! | `indexed` | the indexer, compared with a map that is searched from end to end |
//! | `keys` | keys of arbitrary text, in the queue and in the store |
//! | `caches` | `Fifo`, `Heap` and the caches, compared with lists and maps that are searched from end to end |
//! | `selectors` | label selectors compared with a plain parser, and listers with a filter |
//! | `workqueue` | the work queue of `deltafifo-informer`, compared with a plain one (feature `workqueue`) |
//! | `clock` | a clock that a test advances |
//! | `object`, `rig` | the objects of the queues; a queue over any kind of known objects |
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
pub use model::{Model, TakenItem, Unchanged};
pub use object::{
    Obj, ObjMeta, abort_if_locked, deltas, key_func, nameless, obj, show, show_one, tombstone,
    versioned,
};
pub use op::{Change, KEYS, Known, Op, PARTS, Part, Place, Setup, Step, TransformKind, Verdict};
pub use pair::run;
pub use rig::{Fifo, Guard, KNOWING, MODES, Mode, Outside, Rig};
