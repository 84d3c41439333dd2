//! The wirings, compiled with this project's runtime.

pub use deltafifo_informer::runtime;

#[path = "programs/cached.rs"]
pub mod cached;
#[path = "programs/context.rs"]
pub mod context;
#[path = "programs/filtered.rs"]
pub mod filtered;
#[path = "programs/finalized.rs"]
pub mod finalized;
#[path = "programs/mapped.rs"]
pub mod mapped;
#[path = "programs/readers.rs"]
pub mod readers;
#[path = "programs/related.rs"]
pub mod related;
#[path = "programs/subscribed.rs"]
pub mod subscribed;
#[path = "programs/warmed.rs"]
pub mod warmed;

/// Whether the runtime is this project's.
const OURS: bool = true;

#[path = "tests/others.rs"]
mod others;
#[path = "tests/plain.rs"]
mod plain;
#[cfg(unix)]
#[path = "tests/signals.rs"]
mod signals;
#[path = "tests/streams.rs"]
mod streams;
