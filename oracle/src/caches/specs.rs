//! Objects of a few keys, encoded in two bytes, and lists of such objects, encoded in three. A
//! *place* is the number of a key.

use std::sync::{Arc, Weak};

use deltafifo::{ExplicitKey, KeySource};

use crate::{Obj, tombstone, versioned};

/// The number of keys. The code of a list has one bit for each.
const COUNT: u8 = 12;

/// Returns the key of a place. From [`COUNT`] on, a place stands for an object without a name, and
/// the key is empty.
#[must_use]
pub(super) fn key(place: u8) -> String {
    if place < COUNT { place.to_string() } else { String::new() }
}

/// Returns all keys.
pub(super) fn keys() -> impl Iterator<Item = String> {
    (0..COUNT).map(key)
}

/// Returns the place that a byte encodes. One byte in 16 stands for an object without a name.
fn place(byte: u8) -> u8 {
    let place = byte % 16;
    if place == 15 { COUNT } else { place % COUNT }
}

/// An object: its place, and one of a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSpec(pub u8, pub u64);

impl ObjectSpec {
    pub(super) fn key(self) -> String {
        key(self.0)
    }

    pub(super) fn read(byte: u8, n: u8) -> Self {
        Self(place(byte), u64::from(n % 9))
    }

    /// Returns up to 14 objects: one for each place whose bit is set in the twelve lowest bits of
    /// `low` and `high`, in ascending or descending order. The first place may be repeated at the
    /// end, and an object without a name may follow. The other bits of `high` choose these options,
    /// and `n` the numbers of the objects.
    pub(super) fn list([low, high, n]: [u8; 3]) -> Vec<Self> {
        let set = u16::from_le_bytes([low, high]);
        let mut places: Vec<_> = (0..COUNT).filter(|place| set >> place & 1 == 1).collect();
        if high & 0x10 != 0 {
            places.reverse();
        }
        if high & 0x20 != 0 {
            places.extend(places.first().copied());
        }
        if high >= 0xc0 {
            places.push(COUNT);
        }
        (0_u8..)
            .zip(places)
            .map(|(number, place)| Self(place, u64::from(n.wrapping_add(number * 5) % 9)))
            .collect()
    }
}

/// A key: its place, and the form in which it is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec(pub u8, pub KeyForm);

/// The form of a key: an object, the key itself, or a tombstone with or without an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the variants describe them")]
pub enum KeyForm {
    Object,
    Key,
    Tombstone,
    FullTombstone,
}

impl KeySpec {
    pub(super) fn read(byte: u8, how: u8) -> Self {
        let how = [KeyForm::Object, KeyForm::Key, KeyForm::Tombstone, KeyForm::FullTombstone]
            [usize::from(how % 4)];
        let place = place(byte);
        // Only an object can be without a name.
        if place < COUNT { Self(place, how) } else { Self(place, KeyForm::Object) }
    }

    pub(super) fn key(self) -> String {
        key(self.0)
    }

    /// Calls `use_key` with the key in this form.
    pub(super) fn with_source<R>(
        self,
        created: &mut Created,
        use_key: impl FnOnce(KeySource<'_, Obj>) -> R,
    ) -> R {
        let (Self(place, how), key) = (self, key(self.0));
        match how {
            KeyForm::Object => use_key((&*created.object(ObjectSpec(place, 0))).into()),
            KeyForm::Key => use_key(ExplicitKey(&key).into()),
            KeyForm::Tombstone => use_key((&tombstone(&key, None)).into()),
            KeyForm::FullTombstone => {
                use_key((&tombstone(&key, Some(created.object(ObjectSpec(place, 0))))).into())
            }
        }
    }
}

/// A record of all created objects, each with a version of its own. Checks at the end that all of
/// them are released.
#[derive(Default)]
pub(super) struct Created(Vec<Weak<Obj>>);

impl Created {
    pub(super) fn object(&mut self, ObjectSpec(place, n): ObjectSpec) -> Arc<Obj> {
        let object = versioned(&key(place), n, &self.0.len().to_string());
        self.0.push(Arc::downgrade(&object));
        object
    }

    pub(super) fn list(&mut self, list: &[ObjectSpec]) -> Vec<Arc<Obj>> {
        list.iter().map(|&spec| self.object(spec)).collect()
    }

    pub(super) fn assert_released(&self) {
        assert!(self.0.iter().all(|object| object.strong_count() == 0), "every object is released");
    }
}

/// Sorts objects by name and version.
pub(super) fn sorted(mut objects: Vec<Arc<Obj>>) -> Vec<Arc<Obj>> {
    objects.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    objects
}
