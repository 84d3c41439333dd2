//! From raw JSON to objects, on several threads when there is much of it.

use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::wire::{Head, with_types};

/// Below this many bytes a thread is not worth it.
const WORTH_A_THREAD: usize = 256 << 10;
/// The most threads that one relist decodes on.
const MOST_THREADS: usize = 8;

/// Decodes objects of one kind.
pub(super) struct Decoder {
    /// `apiVersion` and `kind`, for what does not say them.
    types: Option<(String, String)>,
}

/// A raw object, and whether it says its kind.
pub(super) struct Raw {
    pub(super) object: Bytes,
    pub(super) has_kind: bool,
}

impl Raw {
    pub(super) fn of(object: &Bytes, head: &Head<'_>) -> Self {
        Self { object: object.clone(), has_kind: head.has_kind }
    }
}

impl Decoder {
    pub(super) fn new(types: Option<(&str, &str)>) -> Self {
        let types = types.map(|(api_version, kind)| (api_version.to_owned(), kind.to_owned()));
        Self { types }
    }

    pub(super) fn one<K: DeserializeOwned>(&self, raw: &Raw) -> Result<Arc<K>, serde_json::Error> {
        match &self.types {
            Some((api_version, kind)) if !raw.has_kind => {
                serde_json::from_slice(&with_types(&raw.object, api_version, kind))
            }
            _ => serde_json::from_slice(&raw.object),
        }
        .map(Arc::new)
    }

    /// Each of `raw`, in order.
    pub(super) fn all<K: DeserializeOwned + Send + Sync>(&self, raw: &[Raw]) -> Vec<Result<Arc<K>, serde_json::Error>> {
        let bytes: usize = raw.iter().map(|raw| raw.object.len()).sum();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = (bytes / WORTH_A_THREAD).clamp(1, cores.min(MOST_THREADS));
        let mut parts = raw.chunks(raw.len().div_ceil(threads).max(1));
        let mine = parts.next().unwrap_or_default();
        thread::scope(|scope| {
            let others: Vec<_> = parts.map(|part| scope.spawn(|| self.part(part))).collect();
            let mut decoded = self.part(mine);
            for other in others {
                // A decoder that panics does so here.
                decoded.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            decoded
        })
    }

    fn part<K: DeserializeOwned>(&self, raw: &[Raw]) -> Vec<Result<Arc<K>, serde_json::Error>> {
        raw.iter().map(|raw| self.one(raw)).collect()
    }
}
