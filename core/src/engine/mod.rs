//! The concurrent data structures of queues and stores. Nothing here is for users; the informer of
//! this workspace uses `gate`, `room` and `tenure`, too.
//!
//! | module | contents |
//! | --- | --- |
//! | `sync` | the facade over std, parking_lot, crossbeam, loom and shuttle |
//! | `slot` | the state of one key: pending deltas, the known object; all of the crate's `unsafe` |
//! | `buckets`, `shard`, `table` | the hash map from a key to its slot |
//! | `by_namespace` | the map from a namespace to its keys, for queues with scopes |
//! | `ready_queue` | the order of keys that have pending deltas, and the consumers that wait for them |
//! | `ledger` | epochs and holds, for queues that track applied versions |
//! | `wait`, `clock` | how threads and tasks wait; coarse time |
//! | `release` | drops many objects, although the destructor of one may panic |
//! | `admission` | counts work that a gate has admitted |
//! | `tenure` | work that a gate has admitted in a tenure, and the deadline of a tenure |
//! | `gate` | the gates of one owner, with the holds and the work behind them |
//! | `room` | when a collection gives back memory |

pub mod admission;
pub(crate) mod buckets;
pub(crate) mod by_namespace;
pub(crate) mod clock;
pub mod gate;
pub(crate) mod ledger;
pub(crate) mod ready_queue;
pub(crate) mod release;
pub mod room;
pub(crate) mod shard;
pub(crate) mod slot;
pub(crate) mod sync;
pub(crate) mod table;
pub mod tenure;
pub(crate) mod wait;
