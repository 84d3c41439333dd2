//! A digest of a store. Two stores that hold the same keys in the same versions have equal
//! digests.

use deltafifo::Meta;

use crate::data::{Fnv, with_key};

/// A sum of hashes of objects' keys and versions. It does not depend on the order of the objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Digest {
    sum: u64,
    len: usize,
}

impl Digest {
    /// Returns the digest of these objects.
    #[cfg(any(test, feature = "peers"))]
    pub fn of<T>(meta: &impl Meta<T>, objects: impl IntoIterator<Item: AsRef<T>>) -> Self {
        let mut digest = Self::default();
        objects.into_iter().for_each(|object| digest.add(meta, object.as_ref()));
        digest
    }

    pub fn add<T>(&mut self, meta: &impl Meta<T>, object: &T) {
        self.add_hash(Fnv::new(), meta, object);
    }

    /// Adds an object that an index returned for `value`. The hash includes the value.
    pub fn add_indexed<T>(&mut self, value: &str, meta: &impl Meta<T>, object: &T) {
        self.add_hash(Fnv::new().text(value).text("\0"), meta, object);
    }

    fn add_hash<T>(&mut self, hash: Fnv, meta: &impl Meta<T>, object: &T) {
        let hash = with_key(meta, object, |key| hash.text(key));
        let hash = hash.text("\0").text(meta.version(object).unwrap_or_default());
        self.sum = self.sum.wrapping_add(hash.value());
        self.len += 1;
    }

    /// Returns how many objects were added.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the sum as text, because not every JSON reader keeps all 64 bits of a number.
    pub fn hex(&self) -> String {
        format!("{:016x}", self.sum)
    }
}
