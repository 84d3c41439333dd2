//! Informers against an API server in this process (client-go's `shared_informer_test.go`, `controller_test.go` and the tests
//! of its factories). Where time matters the clock is paused; nowhere is slept.

mod buffers;
mod dashboard;
mod factory;
mod handlers;
mod late;
mod lifecycle;
mod metrics;
mod relists;
mod resyncs;
mod rig;
