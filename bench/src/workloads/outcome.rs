//! The result of a run: the counts of the handler, and the content of the store. `report/check.rs`
//! compares it between engines. It is collected outside the measured time.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::fill::ChildError;
use crate::data::Source;
use crate::digest::Digest;
use crate::engines::{Counts, ListEngine};

/// Returns an error if the counts of the handler are not the expected ones.
pub(super) fn expect(
    what: impl Display,
    counts: Counts,
    expected: Counts,
) -> Result<(), ChildError> {
    if counts == expected {
        return Ok(());
    }
    Err(format!("{what}: the handler counted {counts:?}, expected {expected:?}").into())
}

/// Inserts the handler's counts and the store's size and digest into `extra`.
pub(super) fn add_outcome<S: Source>(
    counts: Counts,
    engine: &impl ListEngine<S::Object>,
    extra: &mut Map<String, Value>,
) {
    add_counts(counts, extra);
    add_store::<S>(engine, extra);
}

/// Inserts the counts of the handler into `extra`.
pub(super) fn add_counts(counts: Counts, extra: &mut Map<String, Value>) {
    extra.insert("adds".into(), counts.adds.into());
    extra.insert("updates".into(), counts.updates.into());
    extra.insert("deletes".into(), counts.deletes.into());
}

/// Inserts the size and the digest of the store into `extra`.
pub(super) fn add_store<S: Source>(
    engine: &impl ListEngine<S::Object>,
    extra: &mut Map<String, Value>,
) {
    let mut digest = Digest::default();
    engine.for_each_known(|object| digest.add(&S::Meta::default(), object));
    extra.insert("store_len".into(), digest.len().into());
    extra.insert("store_digest".into(), digest.hex().into());
}
