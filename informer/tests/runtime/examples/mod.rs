//! Nineteen programs in the shape of those of kube-rs' examples that use its runtime: each makes
//! the calls of one example. `ci/kube-examples.sh` compiles them one by one, and counts.

#![allow(dead_code)] // Some need a cluster, and are only compiled.

mod kubes;
mod ours;
