//! Objects of a few keys in two bytes, and lists of them in three.

use std::sync::{Arc, Weak};

use deltafifo::{ExplicitKey, KeySource};

use crate::{Obj, tombstone, versioned};

/// How many keys there are; a list has a bit for each.
const COUNT: u8 = 12;

/// The key of a place; any beyond [`COUNT`] is that of an object without a name.
#[must_use]
pub(super) fn key(place: u8) -> String {
    if place < COUNT { place.to_string() } else { String::new() }
}

/// All keys.
pub(super) fn keys() -> impl Iterator<Item = String> {
    (0..COUNT).map(key)
}

/// One byte in 16 is an object without a name.
fn place(byte: u8) -> u8 {
    let place = byte % 16;
    if place == 15 { COUNT } else { place % COUNT }
}

/// An object: its place, and a number of which there are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spelled(pub u8, pub u64);

impl Spelled {
    pub(super) fn key(self) -> String {
        key(self.0)
    }

    pub(super) fn read(byte: u8, n: u8) -> Self {
        Self(place(byte), u64::from(n % 9))
    }

    /// Up to 14 of them: the keys whose bits are set, up or down, perhaps the first of them twice,
    /// perhaps one without a name.
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

/// Which key is meant, and how it is told: by an object, by itself, by a tombstone with or without
/// an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told(pub u8, pub How);

/// How a key is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say it")]
pub enum How {
    Object,
    Key,
    Tombstone,
    FullTombstone,
}

impl Told {
    pub(super) fn read(byte: u8, how: u8) -> Self {
        let how = [How::Object, How::Key, How::Tombstone, How::FullTombstone][usize::from(how % 4)];
        let place = place(byte);
        // Only an object can be without a name.
        if place < COUNT { Self(place, how) } else { Self(place, How::Object) }
    }

    pub(super) fn key(self) -> String {
        key(self.0)
    }

    /// Does something with what tells it.
    pub(super) fn tell<R>(self, made: &mut Made, tell: impl FnOnce(KeySource<'_, Obj>) -> R) -> R {
        let (Self(place, how), key) = (self, key(self.0));
        match how {
            How::Object => tell((&*made.object(Spelled(place, 0))).into()),
            How::Key => tell(ExplicitKey(&key).into()),
            How::Tombstone => tell((&tombstone(&key, None)).into()),
            How::FullTombstone => {
                tell((&tombstone(&key, Some(made.object(Spelled(place, 0))))).into())
            }
        }
    }
}

/// Objects that were made, each with a version of its own, to see that all are released in the end.
#[derive(Default)]
pub(super) struct Made(Vec<Weak<Obj>>);

impl Made {
    pub(super) fn object(&mut self, Spelled(place, n): Spelled) -> Arc<Obj> {
        let object = versioned(&key(place), n, &self.0.len().to_string());
        self.0.push(Arc::downgrade(&object));
        object
    }

    pub(super) fn list(&mut self, list: &[Spelled]) -> Vec<Arc<Obj>> {
        list.iter().map(|&spelled| self.object(spelled)).collect()
    }

    pub(super) fn assert_released(&self) {
        assert!(self.0.iter().all(|object| object.strong_count() == 0), "every object is released");
    }
}

/// In an order of its own.
pub(super) fn sorted(mut objects: Vec<Arc<Obj>>) -> Vec<Arc<Obj>> {
    objects.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    objects
}
