//! Tests of programs that are compiled twice: with kube's runtime and with this project's. A change
//! of imports is the only difference.

#![allow(clippy::duplicate_mod)] // Each program is two modules.
#![allow(clippy::default_trait_access)] // Programs write `Default::default()` for a configuration.
#![allow(clippy::needless_pass_by_value)] // Error policies get an `Arc`.
#![allow(deprecated)] // kube's `metadata_watcher`, which operators call.

#[cfg(unix)]
#[path = "../common/alone.rs"]
mod alone;
mod examples;
mod stage;
mod wirings;
