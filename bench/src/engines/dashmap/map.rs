//! The concurrent map of the engine `dashmap`, and the type of its keys.

use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;

/// A key, shared between the maps of an engine.
pub(super) type Key = Arc<str>;
pub(super) type Map<V> = DashMap<Key, V, RandomState>;
