//! Tests of controllers with kube's API, against an API server in this process. The clock is
//! paused, and only the functions that are given to a controller sleep.

// `twins` compiles one controller twice, and examples share modules.
#![allow(clippy::duplicate_mod)]

#[cfg(unix)]
#[path = "../common/alone.rs"]
mod alone;
mod backoff;
mod clusters;
#[cfg(feature = "compact")]
mod compact;
mod configured;
mod debounced;
#[cfg(feature = "compact")]
mod decoding;
mod deleted;
#[path = "../common/deployed.rs"]
mod deployed;
mod dynamic;
mod finalizers;
mod gone;
mod kind_config_map;
mod kubes_store;
mod named;
mod namespaces;
mod next;
mod one_at_a_time;
mod optional;
mod own_writes;
mod owned;
mod priorities;
mod retry;
mod rig;
mod runs;
mod shared;
mod shared_triggers;
mod shutdown;
mod store;
mod stream_methods;
mod streams;
mod subscribers;
mod triggers;
mod twins;
mod watch_errors;
mod watched;
mod watcher_events;
#[path = "../common/without.rs"]
mod without;
mod writers;
