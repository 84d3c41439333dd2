//! Finds shared metadata for an object that cannot share the metadata of its own workload. Such an
//! object shares the metadata of an object of the same shape, often of another workload. The shape
//! of an object is a hash of its label keys and the kinds of its owners.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::header::SharedHeader;
use super::sync::{Mutex, RandomState};

/// The metadata of one object of each shape. The handles are weak: the objects that share the
/// metadata keep it alive.
#[derive(Default)]
pub(super) struct Shapes(Mutex<HashMap<u64, Weak<SharedHeader>, RandomState>>);

impl Shapes {
    /// Returns the metadata of an object of this shape. If none is alive, stores and returns the
    /// result of `new`.
    pub(super) fn get(&self, shape: u64, new: impl FnOnce() -> SharedHeader) -> Arc<SharedHeader> {
        let mut shapes = self.0.lock();
        if let Some(shared) = shapes.get(&shape).and_then(Weak::upgrade) {
            return shared;
        }
        let shared = Arc::new(new());
        if shapes.len() == shapes.capacity() {
            shapes.retain(|_, handle| handle.strong_count() > 0);
        }
        shapes.insert(shape, Arc::downgrade(&shared));
        shared
    }
}
