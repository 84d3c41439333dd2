//! The values of a named field that several objects have. The header of an object contains the
//! number of such a value instead of its text.

use std::hash::{BuildHasher, Hash};
use std::mem;

use hashbrown::HashTable;

use super::sync::{Mutex, RandomState};

/// The largest number of values that have numbers.
const MOST: usize = 1 << 14;
/// The number of entries of [`Table::seen`].
const SEEN: usize = 1 << 13;

/// The numbers of the values of one field. A value gets a number when a second object has it, and
/// loses the number with the last object that contains it. A value that only one object has, in any
/// number of versions, gets none.
#[derive(Default)]
pub(super) struct Interned {
    state: RandomState,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The numbers in use, by the hash of their value.
    numbers: HashTable<u16>,
    /// The value of each number. Empty, without holders, if the number is in `free`.
    values: Vec<Value>,
    free: Vec<u16>,
    /// The values that were last found without a number, each with the object that had it: half of
    /// the hash of the value, and half of the hash of the object. The entry of a value is at the
    /// first half modulo [`SEEN`], where it takes the place of another value. These 64 KiB are not
    /// freed before the table.
    seen: Vec<(u32, u32)>,
}

struct Value {
    text: Box<str>,
    /// The number of headers that contain the number.
    holders: usize,
}

impl Interned {
    /// Returns the number of the value `text` for the header of an object. The caller calls
    /// [`release`](Self::release) when the header is dropped. Returns `None` if the value gets no
    /// number: no other object has had it lately, or [`MOST`] other values have numbers. `object`
    /// is the same for all versions of an object.
    pub(super) fn number(&self, text: &str, object: impl Hash) -> Option<u16> {
        let (of_text, of_object) = (self.state.hash_one(text), self.state.hash_one(object));
        let mut table = self.table.lock();
        let Table { numbers, values, .. } = &mut *table;
        if let Some(&number) = numbers.find(of_text, |at| *values[usize::from(*at)].text == *text) {
            values[usize::from(number)].holders += 1;
            return Some(number);
        }
        if numbers.len() == MOST || !table.is_shared(of_text, of_object) {
            return None;
        }
        let Table { numbers, values, free, .. } = &mut *table;
        let number = free.pop().or_else(|| u16::try_from(values.len()).ok())?;
        values.resize_with(values.len().max(usize::from(number) + 1), Value::none);
        values[usize::from(number)] = Value { text: text.into(), holders: 1 };
        let hash = |at: &u16| self.state.hash_one(&*values[usize::from(*at)].text);
        numbers.insert_unique(of_text, number, hash);
        Some(number)
    }

    /// Returns the value with this number. The header of the caller's object contains the number.
    pub(super) fn text(&self, number: u16) -> String {
        self.table.lock().values[usize::from(number)].text.to_string()
    }

    /// Frees the value with this number if no other header contains the number.
    pub(super) fn release(&self, number: u16) {
        let mut table = self.table.lock();
        let Table { numbers, values, free, .. } = &mut *table;
        let value = &mut values[usize::from(number)];
        value.holders -= 1;
        if value.holders > 0 {
            return;
        }
        let of_text = self.state.hash_one(&*mem::replace(value, Value::none()).text);
        if let Ok(entry) = numbers.find_entry(of_text, |at| *at == number) {
            entry.remove();
        }
        free.push(number);
        if numbers.is_empty() {
            (*numbers, *values, *free) = Default::default();
        }
    }
}

impl Table {
    /// Returns whether another object has had the value lately, and remembers this one.
    fn is_shared(&mut self, of_text: u64, of_object: u64) -> bool {
        self.seen.resize(SEEN, (0, 0));
        let [text, object] = [of_text, of_object].map(|hash| (hash >> 32) as u32);
        let seen = &mut self.seen[text as usize % SEEN];
        let (last_text, last_object) = mem::replace(seen, (text, object));
        last_text == text && last_object != object
    }
}

impl Value {
    fn none() -> Self {
        Self { text: Box::default(), holders: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Interned, MOST, SEEN, Value};

    /// The bytes of [`Table::seen`](super::Table::seen).
    const OF_SEEN: usize = SEEN * size_of::<(u32, u32)>();

    /// Returns how many bytes the table takes, without those of the allocator.
    fn bytes(interned: &Interned) -> usize {
        let table = interned.table.lock();
        let texts: usize = table.values.iter().map(|value| value.text.len()).sum();
        texts
            + table.numbers.allocation_size()
            + table.values.capacity() * size_of::<Value>()
            + table.free.capacity() * size_of::<u16>()
            + table.seen.capacity() * size_of::<(u32, u32)>()
    }

    #[test]
    fn value_gets_a_number_with_its_second_object_and_loses_it_with_the_last() {
        let interned = Interned::default();
        assert_eq!(interned.number("node-1", "a"), None);
        assert_eq!(interned.number("node-1", "a"), None, "another version of the object");
        assert_eq!(interned.number("node-1", "b"), Some(0));
        assert_eq!(interned.number("node-1", "a"), Some(0));
        assert_eq!(interned.text(0), "node-1");
        interned.release(0);
        assert_eq!(interned.text(0), "node-1");
        interned.release(0);
        assert_eq!(bytes(&interned), OF_SEEN);
        assert_eq!(interned.number("node-2", "a"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "so many values take most of an hour, on one thread of safe code")]
    fn numbers_are_used_again_and_values_beyond_their_number_have_none() {
        let interned = Interned::default();
        let number = |value: usize| {
            let text = format!("node-{value}");
            interned.number(&text, "a").or_else(|| interned.number(&text, "b"))
        };
        let mut texts = 0;
        for value in 0..MOST {
            assert_eq!(number(value).map(usize::from), Some(value));
            texts += interned.text(value.try_into().unwrap()).len();
            if value == MOST / 2 {
                // The table has just grown.
                let of_values = bytes(&interned) - OF_SEEN;
                assert!((of_values - texts) / value <= 56, "{of_values} bytes");
            }
        }
        assert!(bytes(&interned) - texts < 664 << 10, "{} bytes", bytes(&interned));
        assert_eq!(number(MOST), None);
        interned.release(7);
        assert_eq!(number(MOST), Some(7));
        assert_eq!(interned.text(7), format!("node-{MOST}"));
        (0..MOST).for_each(|value| interned.release(value.try_into().unwrap()));
        assert_eq!(bytes(&interned), OF_SEEN);
    }
}
