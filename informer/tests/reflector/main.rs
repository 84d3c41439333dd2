//! Tests of the reflector against a scripted lister-watcher: its requests, its deltas, and its
//! reaction to every fault (client-go's `reflector_test.go` and `reflector_watchlist_test.go`).
//! Clocks are paused, so waits take no time.

mod endless;
mod faults;
#[path = "../common/fragile.rs"]
mod fragile;
mod lists;
mod merged;
mod other_keys;
mod panics;
mod refused;
mod rig;
mod room;
mod targets;
mod unversioned;
mod watch_lists;
mod watch_status;
mod watches;
