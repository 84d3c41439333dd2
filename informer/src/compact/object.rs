//! The compressed form of an object, which an informer stores instead of the object.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use deltafifo::{BoxError, Fields, Labels, Meta, Owners};
use serde::de::DeserializeOwned;

use super::codec::CodecError;
use super::common::Common;
use super::error::{DecodeError, DecodeFailure, UnnamedField};
use super::header::{FieldValue, Header, OwnerReference, SharedHeader, Uid};
use super::stored::{Reference, Stored};
use super::sync::{Mutex, Ordering, mutant};
use super::values::Own;
use crate::KubeMeta;
use crate::meta::object_key;

/// An object of type `K` as compressed JSON, with a header of its metadata that needs no decoding.
///
/// [`Compactor::pack`](super::Compactor::pack) creates it. Reading the header unpacks nothing.
/// [`decode`](Self::decode) unpacks and decodes the JSON, which takes up to twice as long as
/// decoding alone. The compactor may pack the object again while it is read; the JSON never
/// changes.
///
/// `Debug` prints the key and sizes, never data.
pub struct Compact<K> {
    header: Header,
    stored: Mutex<Stored>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Compact<K> {
    pub(super) fn new(header: Header, stored: Stored) -> Self {
        let counts = &stored.with.common.counts;
        counts.packed.fetch_add(1, Ordering::Relaxed);
        counts.objects.fetch_add(1, Ordering::Relaxed);
        counts.raw_bytes.fetch_add(header.length(), Ordering::Relaxed);
        let bytes = size_of::<Self>() + header.size() + stored.bytes.len();
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        Self { header, stored: Mutex::new(stored), kind: PhantomData }
    }

    /// Returns the namespace; `None` for a cluster-scoped object. O(1).
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.header.view().namespace
    }

    /// Returns the name, or `None` if the metadata has none. O(1).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.header.view().name
    }

    /// Returns the uid, or `None` if the metadata has none. O(1). A UUID is a new string for each
    /// call.
    #[must_use]
    pub fn uid(&self) -> Option<Cow<'_, str>> {
        self.header.view().uid.map(Uid::text)
    }

    /// Returns the resource version, or `None` if the metadata has none. O(1).
    #[must_use]
    pub fn resource_version(&self) -> Option<&str> {
        self.header.view().version
    }

    /// Returns the generation, which the API server raises with each change of the spec, or `None`
    /// if the metadata has none. O(1).
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.header.view().generation
    }

    /// Returns whether the object has a deletion timestamp: its deletion waits for finalizers or
    /// for its grace period. O(1).
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.header.view().has_deletion_timestamp
    }

    /// Returns a hash of the finalizers, or `None` if the object has no such field. O(1): the hash
    /// is in the header.
    ///
    /// The hash detects changes: compare the hashes of two objects from one
    /// [`Compactor`](super::Compactor). Equal finalizers have equal hashes. Different finalizers
    /// have different hashes, except with a probability of 2⁻⁶⁴.
    #[must_use]
    pub fn finalizers_hash(&self) -> Option<u64> {
        self.header.view().finalizers
    }

    /// Returns a hash of the annotations, or `None` if the object has no such field. It detects
    /// changes, like [`finalizers_hash`](Self::finalizers_hash). O(1).
    #[must_use]
    pub fn annotations_hash(&self) -> Option<u64> {
        self.header.view().annotations
    }

    /// Returns the labels in the order of their keys. O(labels).
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.header.view().labels()
    }

    /// Returns the owner references, in the order in which the object has them. O(owners).
    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.header.view().owners()
    }

    /// Returns a field that was [named](super::CompactorBuilder::field) to the compactor: the
    /// contents of a string, or the text of a number or boolean. Returns `None` if the object has
    /// no such field, or if it is of another type. O(named fields).
    ///
    /// # Errors
    /// [`UnnamedField`] if the field was not named.
    pub fn field(&self, pointer: &str) -> Result<Option<Cow<'_, str>>, UnnamedField> {
        let stored = self.stored.lock();
        let mut named = stored.with.common.named.iter().zip(self.header.view().named());
        let (field, value) = named
            .find(|(field, _)| field.pointer.text == pointer)
            .ok_or_else(|| UnnamedField(pointer.to_owned()))?;
        Ok(value.map(|value| match value {
            FieldValue::Text(text) => text.into(),
            FieldValue::Number(number) => field.values.text(number).into(),
        }))
    }

    /// Returns the length of the JSON, in bytes. O(1).
    #[must_use]
    pub fn raw_size(&self) -> usize {
        self.header.length()
    }

    /// Returns the number of bytes of memory that the object takes, without the parts that it
    /// shares with others: its base, the dictionary, and metadata and values of
    /// [named fields](super::CompactorBuilder::field) that other objects also have. O(1).
    #[must_use]
    pub fn size(&self) -> usize {
        self.fixed_size() + self.stored.lock().bytes.len()
    }

    /// Returns the number of bytes that the object takes without its packed text.
    pub(super) fn fixed_size(&self) -> usize {
        size_of::<Self>() + self.header.size()
    }

    /// Returns the JSON as it was received, without the members that were pruned. An item of a list
    /// has no `apiVersion` and `kind`, which [`decode`](Self::decode) adds. O(length of the JSON
    /// and of its base).
    ///
    /// # Errors
    /// [`DecodeError`] if the stored bytes do not unpack.
    pub fn raw_json(&self) -> Result<String, DecodeError> {
        self.text().map_err(|error| self.error(error))
    }

    /// Decodes the object. O(length of the JSON and of its base).
    ///
    /// # Errors
    /// [`DecodeError`] if the stored bytes do not unpack, if the JSON does not decode into `K`, or
    /// if the decoder panics. The object stays stored.
    pub fn decode(&self) -> Result<K, DecodeError>
    where
        K: DeserializeOwned,
    {
        let from = Instant::now();
        let stored = self.stored();
        let common = &stored.with.common;
        let decoded = self
            .text_of(&stored)
            .map_err(DecodeFailure::from)
            .and_then(|text| decode(&text, common));
        common.counts.decodes.fetch_add(1, Ordering::Relaxed);
        common.counts.failed_decodes.fetch_add(decoded.is_err().into(), Ordering::Relaxed);
        let nanos = u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX);
        common.counts.decode_nanos.fetch_add(nanos, Ordering::Relaxed);
        decoded.map_err(|error| self.error(error))
    }

    /// Returns the decoded object, shared with other callers.
    ///
    /// If the compactor keeps [decoded objects](super::CompactorBuilder::decoded_cache), the object
    /// may come from there: while it is kept, all callers receive the same `Arc` for a version, and
    /// concurrent callers wait for the one that decodes it. Otherwise, or if the object has no uid
    /// or version, it is [decoded](Self::decode) for this call.
    ///
    /// # Errors
    /// As for [`decode`](Self::decode).
    pub fn decode_shared(&self) -> Result<Arc<K>, DecodeError>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let with = self.with();
        if let Some(cache) = &with.common.decoded
            && let Some(uid) = self.uid().filter(|uid| !uid.is_empty())
            && let Some(version) = self.resource_version().filter(|version| !version.is_empty())
        {
            return cache.get_or_decode((&uid, version), self.raw_size(), || self.decode());
        }
        self.decode().map(Arc::new)
    }

    fn key(&self) -> String {
        let view = self.header.view();
        object_key(view.namespace, view.name.unwrap_or_default()).into_owned()
    }

    fn error(&self, failure: impl Into<DecodeFailure>) -> DecodeError {
        DecodeError::new(self.key(), failure)
    }

    /// Returns the values that the header contains, and that are therefore left out of the packed
    /// text.
    pub(super) fn own(&self) -> Own<'_> {
        let view = self.header.view();
        Own::new(view.name, view.uid.map(Uid::text).unwrap_or_default(), view.version)
    }

    pub(super) fn text(&self) -> Result<String, CodecError> {
        self.text_of(&self.stored())
    }

    fn text_of(&self, stored: &Stored) -> Result<String, CodecError> {
        let text = stored.unpack(self.raw_size(), &self.own())?;
        // Damaged bytes may unpack to something else than the text.
        String::from_utf8(text).map_err(|_| CodecError::Utf8)
    }

    /// Returns the namespace, labels and owners, which similar objects are likely to have too.
    pub(super) fn shared(&self) -> SharedHeader {
        SharedHeader::of(&self.header.view())
    }

    /// Returns the current packed text.
    pub(super) fn stored(&self) -> Stored {
        mutant!(ObjectIsReadInParts => return self.stored_in_parts());
        self.stored.lock().clone()
    }

    /// Returns the base or dictionary that the text is packed with.
    pub(super) fn with(&self) -> Arc<Reference> {
        self.stored.lock().with.clone()
    }

    /// Stores another packed form of the same text. Readers that have begun before use the old
    /// form.
    pub(super) fn replace(&self, stored: Stored) {
        let counts = stored.with.common.clone();
        // Added first, so that the sum is never negative beside another call.
        counts.counts.bytes.fetch_add(stored.bytes.len(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.stored.lock(), stored);
        mutant!(ReplacedStaysCounted => if before.with.base().is_none() { return; });
        counts.counts.bytes.fetch_sub(before.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(fuzzing)]
impl<K> Compact<K> {
    /// Damages the stored bytes for the fuzz target `compact`: cuts them to `length`, changes the
    /// byte at `at` by `xor`, and replaces the base or dictionary with that of `other`.
    pub fn damage(&self, other: &Self, at: usize, xor: u8, length: usize) {
        let mut bytes = self.stored().bytes.into_vec();
        bytes.truncate(length);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= xor;
        }
        self.replace(Stored { bytes: bytes.into(), with: other.stored().with });
    }
}

fn decode<K: DeserializeOwned>(text: &str, common: &Common) -> Result<K, DecodeFailure> {
    match deltafifo::panics::caught(|| common.decode(text)) {
        Ok(decoded) => Ok(decoded?),
        Err(message) => Err(DecodeFailure::Panicked(message)),
    }
}

impl<K> Drop for Compact<K> {
    fn drop(&mut self) {
        let (fixed, raw) = (self.fixed_size(), self.raw_size());
        let stored = self.stored.lock();
        let counts = &stored.with.common.counts;
        counts.objects.fetch_sub(1, Ordering::Relaxed);
        counts.raw_bytes.fetch_sub(raw, Ordering::Relaxed);
        counts.bytes.fetch_sub(fixed + stored.bytes.len(), Ordering::Relaxed);
        let named = &stored.with.common.named;
        if !named.is_empty() {
            for (field, value) in named.iter().zip(self.header.view().named()) {
                if let Some(FieldValue::Number(number)) = value {
                    field.values.release(number);
                }
            }
        }
    }
}

impl<K> fmt::Debug for Compact<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compact")
            .field("key", &self.key())
            .field("size", &self.size())
            .field("raw_size", &self.raw_size())
            .finish_non_exhaustive()
    }
}

/// Reads the metadata from the header. `uid` returns a short form of the uid, which is good only
/// for comparisons: two uids are equal if their short forms are. [`Compact::uid`] returns the uid
/// itself.
impl<K: 'static> Meta<Compact<K>> for KubeMeta {
    fn namespace<'a>(&self, object: &'a Compact<K>) -> Option<&'a str> {
        object.namespace()
    }

    fn name<'a>(&self, object: &'a Compact<K>) -> Option<&'a str> {
        object.name()
    }

    fn version<'a>(&self, object: &'a Compact<K>) -> Option<&'a str> {
        object.resource_version()
    }

    fn uid<'a>(&self, object: &'a Compact<K>) -> Option<&'a str> {
        object.header.view().uid.map(|uid| uid.text)
    }

    fn written_uid<'a>(&self, object: &'a Compact<K>) -> Option<Cow<'a, str>> {
        object.uid()
    }
}

impl<K: 'static> Owners<Compact<K>> for KubeMeta {
    fn owners<'a>(&self, object: &'a Compact<K>) -> Vec<Cow<'a, str>> {
        object.owner_references().map(|owner| owner.uid).collect()
    }
}

/// Reads a field that was [named](super::CompactorBuilder::field), and decodes nothing.
impl<K: 'static> Fields<Compact<K>> for KubeMeta {
    fn field<'a>(
        &self,
        object: &'a Compact<K>,
        pointer: &str,
    ) -> Result<Option<Cow<'a, str>>, BoxError> {
        Ok(object.field(pointer)?)
    }
}

impl<K: 'static> Labels<Compact<K>> for KubeMeta {
    fn label<'a>(&self, object: &'a Compact<K>, key: &str) -> Option<&'a str> {
        object.header.view().labels().find(|(found, _)| *found == key).map(|(_, value)| value)
    }
}

/// The code of a deliberate defect (`sync/mutants.rs`).
#[cfg(deltafifo_shuttle)]
mod defects {
    use super::{Compact, Stored};

    impl<K> Compact<K> {
        /// Returns the current packed text, with the defect `ObjectIsReadInParts`: the object can
        /// be packed again between the two reads.
        pub(super) fn stored_in_parts(&self) -> Stored {
            let bytes = self.stored.lock().bytes.clone();
            Stored { bytes, with: self.stored.lock().with.clone() }
        }
    }
}
