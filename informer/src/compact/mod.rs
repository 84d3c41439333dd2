//! Objects stored compressed and decoded on demand.

mod prune;
