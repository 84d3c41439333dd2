//! A number by which two stores are compared: equal when they hold the same keys in the same
//! versions.

use deltafifo::Meta;

use crate::data::{Fnv, with_key};

/// Sums a hash of every object's key and version. The sum does not depend on the order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Digest {
    sum: u64,
    len: usize,
}

impl Digest {
    /// Takes an object in.
    pub fn add<T>(&mut self, meta: &impl Meta<T>, object: &T) {
        self.add_after(Fnv::new(), meta, object);
    }

    /// Takes an object in that was found under a value: under another one it counts otherwise.
    pub fn add_found<T>(&mut self, value: &str, meta: &impl Meta<T>, object: &T) {
        self.add_after(Fnv::new().text(value).text("\0"), meta, object);
    }

    fn add_after<T>(&mut self, hash: Fnv, meta: &impl Meta<T>, object: &T) {
        let hash = with_key(meta, object, |key| hash.text(key));
        let hash = hash.text("\0").text(meta.version(object).unwrap_or_default());
        self.sum = self.sum.wrapping_add(hash.value());
        self.len += 1;
    }

    /// How many objects were taken in.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a figure, not a collection")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The sum as text, since not every reader of JSON takes 64 bits whole.
    #[must_use]
    pub fn hex(&self) -> String {
        format!("{:016x}", self.sum)
    }
}
