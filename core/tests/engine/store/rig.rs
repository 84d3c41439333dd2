//! A store with two indexes.

use std::sync::Arc;

use crate::common::{Obj, ObjMeta, keys};
use deltafifo::{BoxError, Indexer};

/// Returns every prime divisor of the object's number. Returns an error for 13.
pub fn primes(object: &Obj) -> Result<Vec<String>, BoxError> {
    if object.n == 13 {
        return Err("unlucky".into());
    }
    Ok([2, 3, 5, 7]
        .iter()
        .filter(|&&prime| object.n.is_multiple_of(prime))
        .map(ToString::to_string)
        .collect())
}

/// Returns index values that are unsorted and contain duplicates.
#[allow(clippy::unnecessary_wraps)] // The signature of an index function.
pub fn digits(object: &Obj) -> Result<Vec<String>, BoxError> {
    Ok(object.n.to_string().chars().rev().map(String::from).collect())
}

pub fn indexed() -> Indexer<Obj, ObjMeta> {
    Indexer::builder(keys()).index("primes", primes).index("digits", digits).build().unwrap()
}

#[allow(clippy::needless_pass_by_value)] // It is called on returned lists.
pub fn numbers(objects: Vec<Arc<Obj>>) -> Vec<u64> {
    let mut numbers: Vec<_> = objects.iter().map(|object| object.n).collect();
    numbers.sort_unstable();
    numbers
}
