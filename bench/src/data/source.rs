//! Where objects come from.

use deltafifo::Meta;

/// Makes the objects of a run. Every call makes a fresh one, as a decoder would: a relist never
/// brings the objects that are already known. Every object has a name.
pub trait Source: Send + Sync {
    /// What is made.
    type Object: Clone + Send + Sync + 'static;
    /// How its metadata is read.
    type Meta: Meta<Self::Object> + Copy + Default + 'static;

    /// Makes object number `index`, with its own version if `version` is `None`.
    fn make(&self, index: usize, version: Option<String>) -> Self::Object;
}
