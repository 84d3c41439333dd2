//! The server through real clients: kube's `Api`, kube-runtime's watcher, and HTTP as it is.

mod common;
mod faults;
mod generated;
mod history;
mod list;
mod pages;
mod requests;
mod strange;
mod threads;
mod watch;
mod watch_lists;
mod watcher;
mod writes;
