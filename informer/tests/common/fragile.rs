//! Objects that panic when they are dropped, for tests that such a panic affects nothing else.

#![allow(dead_code)] // Each of the two test programs uses a part of it.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo::Meta;
use deltafifo_oracle::abort_if_locked;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// The data of an object that does not panic when it is dropped.
pub const CALM: &str = "calm";

static BROKEN: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of objects that panicked when they were dropped. Objects that did not panic
/// because their thread was already unwinding count as well.
pub fn broken() -> usize {
    // Relaxed: only a count.
    BROKEN.load(Ordering::Relaxed)
}

/// A config map that panics when it is dropped, unless its data is [`CALM`].
#[derive(Clone, Debug, Deserialize)]
pub struct Fragile {
    pub metadata: ObjectMeta,
    data: BTreeMap<String, String>,
}

impl Fragile {
    pub fn new(name: &str, version: u32, data: &str) -> Arc<Self> {
        let (name, resource_version) = (Some(name.to_owned()), Some(version.to_string()));
        let data = BTreeMap::from([("data".to_owned(), data.to_owned())]);
        Arc::new(Self {
            metadata: ObjectMeta { name, resource_version, ..ObjectMeta::default() },
            data,
        })
    }

    pub fn data(&self) -> &str {
        &self.data["data"]
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        abort_if_locked("an object's destructor");
        if self.data() != CALM {
            BROKEN.fetch_add(1, Ordering::Relaxed);
            if !std::thread::panicking() {
                resume_unwind(Box::new("broken"));
            }
        }
    }
}

pub struct FragileMeta;

impl Meta<Fragile> for FragileMeta {
    fn namespace<'a>(&self, fragile: &'a Fragile) -> Option<&'a str> {
        fragile.metadata.namespace.as_deref()
    }

    fn name<'a>(&self, fragile: &'a Fragile) -> Option<&'a str> {
        fragile.metadata.name.as_deref()
    }

    fn version<'a>(&self, fragile: &'a Fragile) -> Option<&'a str> {
        fragile.metadata.resource_version.as_deref()
    }

    fn uid<'a>(&self, fragile: &'a Fragile) -> Option<&'a str> {
        fragile.metadata.uid.as_deref()
    }
}
