//! Sources of objects.

use super::LabelMap;

/// A source of the objects of a run. Every call of `make` creates a new object, as a decoder
/// would, so a relist never contains the objects that are already stored. Every object has a name.
pub trait Source: Send + Sync {
    /// The type of the objects.
    type Object: Clone + Send + Sync + 'static;
    /// The accessor of the objects' metadata.
    type Meta: LabelMap<Self::Object> + Copy + Default + 'static;

    /// Creates object number `index`, with its original version if `version` is `None`.
    fn make(&self, index: usize, version: Option<String>) -> Self::Object;
}
