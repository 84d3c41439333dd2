//! Reads of an index.

use super::{Core, NAMESPACE_INDEX, Values};
use crate::Meta;
use crate::engine::release::{OneByOne, Rest, UserCode};
use crate::engine::slot::{IndexedObject, IndexedSlot};
use crate::engine::sync::{Arc, mutant};
use crate::error::IndexError;
use crate::panics::ignore_error;

/// Objects, each with the result of the caller's function for its slot.
type Answers<R, T> = OneByOne<Vec<(R, Arc<T>)>>;

impl<T, M: Meta<T>> Core<T, M> {
    /// Calls `of` with the values of the index of that name. Fails if there is no such index.
    pub(super) fn values<R>(
        &self,
        name: &str,
        of: impl FnOnce(&Values<T>) -> R,
    ) -> Result<R, IndexError> {
        if name == NAMESPACE_INDEX {
            return Ok(of(&self.namespaces));
        }
        self.indexes.with(name, |index| of(&index.values))
    }

    /// Returns the objects that have any of `values` in the index of that name, each once, with
    /// the result of `with` for its slot. An object that has one of the values before and after an
    /// update is not missed. O(answers).
    pub(super) fn find<R>(
        &self,
        name: &str,
        values: &[&str],
        with: impl Fn(&IndexedSlot<T>) -> R,
    ) -> Result<Answers<R, T>, IndexError> {
        let (mut found, mut unchecked) = (OneByOne(Vec::new()), OneByOne(Vec::new()));
        self.values(name, |of_index| {
            of_index.for_each_of(values, |slot| {
                mutant!(FoundReleasedUnderLock => drop(slot.known()));
                match slot.found() {
                    Some(IndexedObject::Checked(object)) => found.push((with(slot), object)),
                    Some(IndexedObject::Unchecked(object)) => unchecked.push((with(slot), object)),
                    None => {}
                }
            });
        })?;
        // With no lock held, because index functions and destructors are user code.
        let mut unchecked = Rest(unchecked.take().into_iter());
        for (result, object) in unchecked.0.by_ref() {
            let object = UserCode::new(object);
            let has_one = |of_object: Vec<String>| {
                let has =
                    |value: &&str| of_object.binary_search_by(|one| (**one).cmp(value)).is_ok();
                values.iter().any(has)
            };
            let matches = ignore_error(self.values_of(name, &object)).is_some_and(has_one);
            mutant!(MovingIsNotChecked => let matches = true);
            if matches {
                found.push((result, object.into_inner()));
            }
        }
        Ok(found)
    }
}
