//! Tests of packed objects.

mod bases;
mod concurrency;
mod contents;
mod dictionaries;
mod metadata;
mod refusals;
pub(super) mod rig;
