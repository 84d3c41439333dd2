//! Key functions. A key is written into a buffer on the caller's stack, hashed once, and then
//! stored in the slot; no `String` is allocated on the way.

use std::ops::Deref;

use crate::engine::release::UserCode;
use crate::engine::sync::assert_none_held;
use crate::error::{BoxError, KeyError};
use crate::{DeletedFinalStateUnknown, DeltaObject, Deltas, Meta};

/// A key that is passed where an object is expected (client-go `ExplicitKey`), to look an object up
/// by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplicitKey<'a>(pub &'a str);

/// The argument of `key_of` and `get`: anything that has a key.
pub enum KeySource<'a, T> {
    /// An object. The key function computes its key.
    Object(&'a T),
    /// A tombstone, which contains its key.
    Tombstone(&'a DeletedFinalStateUnknown<T>),
    /// Deltas. Their key is the key of their newest object.
    Deltas(&'a Deltas<T>),
    /// A key.
    Explicit(ExplicitKey<'a>),
}

impl<'a, T> From<&'a T> for KeySource<'a, T> {
    fn from(object: &'a T) -> Self {
        KeySource::Object(object)
    }
}

impl<'a, T> From<&'a DeletedFinalStateUnknown<T>> for KeySource<'a, T> {
    fn from(tombstone: &'a DeletedFinalStateUnknown<T>) -> Self {
        KeySource::Tombstone(tombstone)
    }
}

impl<'a, T> From<&'a DeltaObject<T>> for KeySource<'a, T> {
    fn from(object: &'a DeltaObject<T>) -> Self {
        match object {
            DeltaObject::Object(object) => KeySource::Object(object),
            DeltaObject::Tombstone(tombstone) => KeySource::Tombstone(tombstone),
        }
    }
}

impl<'a, T> From<&'a Deltas<T>> for KeySource<'a, T> {
    fn from(deltas: &'a Deltas<T>) -> Self {
        KeySource::Deltas(deltas)
    }
}

impl<'a, T> From<ExplicitKey<'a>> for KeySource<'a, T> {
    fn from(key: ExplicitKey<'a>) -> Self {
        KeySource::Explicit(key)
    }
}

type CustomKey<T> = UserCode<Box<dyn Fn(&T) -> Result<String, BoxError> + Send + Sync>>;

/// The key function of a queue or store, with the [`Meta`] accessor that reads the metadata for
/// keys, for the namespace index and for versions (client-go `KeyFunc`).
///
/// ```
/// use deltafifo::{KeyFunc, NoMeta};
///
/// // The default, `namespace/name` or `name`: KeyFunc::meta_namespace(PodMeta)
/// let by_number = KeyFunc::custom(NoMeta, |n: &u32| Ok(format!("number-{n}")));
/// assert_eq!(by_number.key(&7).unwrap(), "number-7");
/// ```
pub struct KeyFunc<T, M> {
    meta: UserCode<M>,
    custom: Option<CustomKey<T>>,
}

impl<T, M: Meta<T>> KeyFunc<T, M> {
    /// Creates the default key function: `namespace/name`, or `name` for a cluster-scoped object
    /// (client-go `MetaNamespaceKeyFunc`).
    #[doc(alias = "MetaNamespaceKeyFunc")]
    pub fn meta_namespace(meta: M) -> Self {
        Self { meta: UserCode::new(meta), custom: None }
    }

    /// Creates a key function from a closure. The closure runs with no lock held; an error aborts
    /// the operation that needed the key.
    ///
    /// The closure needs the object. If an object cannot be decoded and only its namespace and
    /// name are known, a reflector has to search for its key among the known objects, and may not
    /// find it (see `Target` of `deltafifo-informer`).
    pub fn custom(
        meta: M,
        key: impl Fn(&T) -> Result<String, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self { meta: UserCode::new(meta), custom: Some(UserCode::new(Box::new(key))) }
    }

    /// Returns the accessor.
    #[doc(hidden)]
    pub fn meta(&self) -> &M {
        &self.meta
    }

    /// Returns the key of `object`.
    ///
    /// # Errors
    /// [`KeyError`] if the object has no name, or if the custom function failed.
    pub fn key(&self, object: &T) -> Result<String, KeyError> {
        self.key_of(&KeySource::Object(object))
    }

    /// Returns whether keys are `namespace/name` or `name`. If so, a key can be computed without
    /// the object, and an update never moves an object to another namespace.
    #[doc(hidden)]
    #[must_use]
    pub fn is_meta_namespace(&self) -> bool {
        self.custom.is_none()
    }

    /// Returns the value of `object` in the namespace index: the part of its key before the first
    /// slash, or the empty string without a slash. If the key function is custom, the value is the
    /// namespace that the accessor returns.
    pub(crate) fn namespace<'a>(&self, object: &'a T) -> &'a str {
        let meta = self.meta();
        match meta.namespace(object).unwrap_or_default() {
            namespace if self.custom.is_some() => namespace,
            "" => namespace_of(meta.name(object).unwrap_or_default()),
            namespace => namespace.split('/').next().unwrap_or_default(),
        }
    }

    /// Appends the key of `object` to `buffer`.
    #[inline]
    pub(crate) fn write(&self, object: &T, buffer: &mut impl KeySink) -> Result<(), KeyError> {
        if let Some(custom) = &self.custom {
            assert_none_held();
            buffer.put(&custom(object).map_err(KeyError::Function)?);
            return Ok(());
        }
        let meta = self.meta();
        let name = meta.name(object).filter(|name| !name.is_empty()).ok_or(KeyError::NoName)?;
        if let Some(namespace) = meta.namespace(object).filter(|namespace| !namespace.is_empty()) {
            buffer.put(namespace);
            buffer.put("/");
        }
        buffer.put(name);
        Ok(())
    }

    /// Returns the key of an object, a tombstone, deltas or an explicit key.
    pub(crate) fn key_of(&self, source: &KeySource<'_, T>) -> Result<String, KeyError> {
        let mut buffer = KeyBuf::new();
        self.write_source(source, &mut buffer)?;
        Ok(as_str(&buffer).to_owned())
    }

    pub(crate) fn write_source(
        &self,
        source: &KeySource<'_, T>,
        buffer: &mut KeyBuf,
    ) -> Result<(), KeyError> {
        match source {
            KeySource::Object(object) => self.write(object, buffer)?,
            KeySource::Tombstone(tombstone) => buffer.put(&tombstone.key),
            KeySource::Explicit(ExplicitKey(key)) => buffer.put(key),
            KeySource::Deltas(deltas) => {
                let newest = deltas.newest().ok_or(KeyError::ZeroLengthDeltas)?;
                self.write_source(&KeySource::from(&newest.object), buffer)?;
            }
        }
        Ok(())
    }
}

/// A destination for keys: a stack buffer for one key, or an arena for a page of keys.
pub(crate) trait KeySink {
    fn put(&mut self, text: &str);
}

/// The size, in bytes, of the buffer for a key: larger than nearly all keys (Kubernetes allows up
/// to 63 + 1 + 253 bytes).
const INLINE: usize = 128;

/// A buffer for one key, which allocates only for long keys. A `SmallVec` took 56 or 78
/// instructions per part of a key, depending on the compiler's choices, and an offer writes three
/// parts (`bench/LOG.md`).
pub(crate) struct KeyBuf {
    inline: [u8; INLINE],
    length: usize,
    /// The whole key, if it is longer than `inline`.
    long: Vec<u8>,
}

impl KeyBuf {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { inline: [0; INLINE], length: 0, long: Vec::new() }
    }

    #[cold]
    fn put_long(&mut self, text: &str) {
        if let Some(all) = self.inline.get(..self.length) {
            self.long.extend_from_slice(all);
        }
        self.long.extend_from_slice(text.as_bytes());
    }
}

impl Deref for KeyBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.inline.get(..self.length).unwrap_or(&self.long)
    }
}

impl KeySink for KeyBuf {
    #[inline]
    fn put(&mut self, text: &str) {
        let end = self.length + text.len();
        match self.inline.get_mut(self.length..end) {
            Some(room) => room.copy_from_slice(text.as_bytes()),
            None => self.put_long(text),
        }
        self.length = end;
    }
}

impl KeySink for String {
    #[inline]
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

/// Returns the part of a `namespace/name` key before the slash, or the empty string. Namespaces
/// are short, and for short texts `split_once`, whose search is tuned for long ones, takes three
/// times as many instructions.
pub(crate) fn namespace_of(key: &str) -> &str {
    let slash = key.bytes().position(|byte| byte == b'/');
    slash.map_or("", |slash| &key[..slash])
}

/// Returns the key as text. Keys are built from whole `str`s only, so the conversion cannot fail;
/// if it did, an empty key would do less harm than a panic in the queue.
pub(crate) fn as_str(key: &[u8]) -> &str {
    std::str::from_utf8(key).unwrap_or_default()
}
