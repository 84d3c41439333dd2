//! From an object to its key: the one place where keys are built. A key is written into a caller's buffer on the stack,
//! hashed once, and then lives in the slot; no `String` is made on the way.

use std::ops::Deref;

use crate::engine::release::UserCode;
use crate::engine::sync::assert_none_held;
use crate::error::{BoxError, KeyError};
use crate::{DeletedFinalStateUnknown, DeltaObject, Deltas, Meta};

/// A key given instead of the object it belongs to (client-go `ExplicitKey`): it is its own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplicitKey<'a>(pub &'a str);

/// Anything that has a key: what `key_of` and `get` accept.
pub enum KeySource<'a, T> {
    /// An object: the key function decides.
    Object(&'a T),
    /// A tombstone carries its key.
    Tombstone(&'a DeletedFinalStateUnknown<T>),
    /// Deltas have the key of their newest object.
    Deltas(&'a Deltas<T>),
    /// The key itself.
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

/// The key function of a queue or store, together with the [`Meta`] accessor that it, the namespace index and the
/// versions use (client-go `KeyFunc`).
///
/// ```
/// use deltafifo::{KeyFunc, NoMeta};
///
/// // The default, `namespace/name` or `name`: KeyFunc::meta_namespace(PodMeta)
/// let by_number = KeyFunc::custom(NoMeta, |n: &u32| Ok(format!("number-{n}")));
/// assert_eq!(by_number.key(&7).unwrap(), "number-7");
/// ```
pub struct KeyFunc<T, M> {
    meta: M,
    custom: Option<CustomKey<T>>,
}

impl<T, M: Meta<T>> KeyFunc<T, M> {
    /// `namespace/name`, or `name` for a cluster-scoped object (client-go `MetaNamespaceKeyFunc`).
    pub fn meta_namespace(meta: M) -> Self {
        Self { meta, custom: None }
    }

    /// A function of your own. It runs with no lock held; its error aborts the operation that asked. It needs the object: for one
    /// that cannot be read, of which only namespace and name are known, a reflector has to look for its key among the others, and
    /// may not find it (`Target` of `deltafifo-informer` says when).
    pub fn custom(meta: M, key: impl Fn(&T) -> Result<String, BoxError> + Send + Sync + 'static) -> Self {
        Self { meta, custom: Some(UserCode::new(Box::new(key))) }
    }

    /// The accessor.
    pub fn meta(&self) -> &M {
        &self.meta
    }

    /// The key of `object`.
    ///
    /// # Errors
    /// [`KeyError`] when the object has no name, or the custom function failed.
    pub fn key(&self, object: &T) -> Result<String, KeyError> {
        self.key_of(&KeySource::Object(object))
    }

    /// Whether a key is `namespace/name`, or `name`: so that it can be told without the object, and an update never moves an
    /// object between namespaces.
    #[must_use]
    pub fn is_meta_namespace(&self) -> bool {
        self.custom.is_none()
    }

    /// Appends the key of `object` to `buffer`.
    #[inline]
    pub(crate) fn write(&self, object: &T, buffer: &mut impl KeySink) -> Result<(), KeyError> {
        if let Some(custom) = &self.custom {
            assert_none_held();
            buffer.put(&custom(object).map_err(KeyError::Function)?);
            return Ok(());
        }
        let name = self.meta.name(object).filter(|name| !name.is_empty()).ok_or(KeyError::NoName)?;
        if let Some(namespace) = self.meta.namespace(object).filter(|namespace| !namespace.is_empty()) {
            buffer.put(namespace);
            buffer.put("/");
        }
        buffer.put(name);
        Ok(())
    }

    /// The key of an object, a tombstone, deltas or an explicit key.
    pub(crate) fn key_of(&self, source: &KeySource<'_, T>) -> Result<String, KeyError> {
        let mut buffer = KeyBuf::new();
        self.write_source(source, &mut buffer)?;
        Ok(as_str(&buffer).to_owned())
    }

    pub(crate) fn write_source(&self, source: &KeySource<'_, T>, buffer: &mut KeyBuf) -> Result<(), KeyError> {
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

/// Where keys are written: a stack buffer for one key, an arena for a page of them.
pub(crate) trait KeySink {
    fn put(&mut self, text: &str);
}

/// Nearly all keys are shorter (Kubernetes allows 63 + 1 + 253 bytes).
const INLINE: usize = 128;

/// One key while it is written, without an allocation for most. A `SmallVec` took 56 or 78 instructions a piece of a key,
/// as the compiler liked, and an offer writes three (`bench/LOG.md`).
pub(crate) struct KeyBuf {
    inline: [u8; INLINE],
    length: usize,
    /// The key, if it is longer.
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

/// What stands before the slash of a `namespace/name`. Namespaces are short: to look for it in the way of long texts, as
/// `split_once` does, takes three times as many instructions.
pub(crate) fn namespace_of(key: &str) -> &str {
    let slash = key.bytes().position(|byte| byte == b'/');
    slash.map_or("", |slash| &key[..slash])
}

/// The key as text. Keys are only ever built from whole `str`s, so this cannot fail; should it, an empty key is a
/// smaller harm than a panic in the queue.
pub(crate) fn as_str(key: &[u8]) -> &str {
    std::str::from_utf8(key).unwrap_or_default()
}
