//! Tests of the server with real clients: kube's `Api`, kube-runtime's watcher, and raw HTTP.

mod apply;
mod bodies;
mod collector;
mod common;
mod deletion;
mod discovery;
mod dry_runs;
mod faults;
mod generated;
mod history;
mod list;
mod malformed;
mod metadata;
mod pages;
mod refusals;
mod requests;
mod scales;
mod selectors;
mod serve;
mod shards;
mod threads;
mod watch;
mod watch_lists;
mod watcher;
mod writes;
