//! Informers against an API server in this process (client-go's `shared_informer_test.go`, `controller_test.go` and the tests
//! of its factories: each file says which). Where time matters the clock is paused; nowhere is slept. Elsewhere are
//! `TestProcessDeltasInBatch` (transactions: `core/tests/engine/store.rs`) and what a tombstone is called,
//! `TestDeletionHandlingObjectToName` and its neighbours (`core/tests/in_order/real_fifo.rs`).

mod buffers;
mod dashboard;
mod drops;
mod factory;
#[path = "../common/fragile.rs"]
mod fragile;
mod handlers;
mod late;
mod lifecycle;
mod metrics;
mod oracle;
mod relists;
mod removal;
mod resyncs;
mod rig;
mod shared;
mod stress;
mod workers;
