//! Generated objects with the metadata of pods. The peer in Go (`peers/client-go`) generates the
//! same objects, byte for byte.

use std::collections::BTreeMap;
use std::fmt::Write;

use deltafifo::{Labels, Meta};

use super::{LabelMap, Source, splitmix64};

const APPS: usize = 1000;
const NAMESPACES: usize = 500;
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A generated object. It has only metadata, like an object in a cache of metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The metadata.
    pub metadata: ObjectMeta,
}

/// The metadata of a generated object. Every string has an allocation of its own, as after
/// decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMeta {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The unique id.
    pub uid: String,
    /// The resource version.
    pub resource_version: String,
    /// Two labels.
    pub labels: BTreeMap<String, String>,
}

/// The accessor of the metadata of an [`Object`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectAccess;

impl Meta<Object> for ObjectAccess {
    fn namespace<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(&object.metadata.namespace)
    }

    fn name<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(&object.metadata.name)
    }

    fn version<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(&object.metadata.resource_version)
    }

    fn uid<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(&object.metadata.uid)
    }
}

impl Labels<Object> for ObjectAccess {
    fn label<'a>(&self, object: &'a Object, key: &str) -> Option<&'a str> {
        object.metadata.labels.get(key).map(String::as_str)
    }
}

impl LabelMap<Object> for ObjectAccess {
    fn labels<'a>(&self, object: &'a Object) -> &'a BTreeMap<String, String> {
        &object.metadata.labels
    }
}

/// A generator of the objects of a run.
#[derive(Clone, Copy, Debug)]
pub struct Generated {
    /// The number of objects of the run. They are divided equally between the namespaces.
    pub objects: usize,
}

impl Source for Generated {
    type Object = Object;
    type Meta = ObjectAccess;

    fn make(&self, index: usize, version: Option<String>) -> Object {
        let x = splitmix64(index as u64);
        let per_namespace = self.objects.div_ceil(NAMESPACES);
        Object {
            metadata: ObjectMeta {
                namespace: format_exact(
                    9,
                    format_args!("team-{:04}", index / per_namespace % NAMESPACES),
                ),
                name: format_exact(17, format_args!("web-{index:07}-{}", suffix(index))),
                uid: format_exact(
                    36,
                    format_args!(
                        "{:08x}-{:04x}-4{:03x}-8{:03x}-{index:012x}",
                        x >> 32,
                        x >> 16 & 0xffff,
                        x & 0xfff,
                        x >> 12 & 0xfff
                    ),
                ),
                resource_version: version.unwrap_or_else(|| (1_000_000 + index).to_string()),
                labels: BTreeMap::from([
                    ("app".to_owned(), format_exact(8, format_args!("app-{:04}", index % APPS))),
                    ("pod-template-hash".to_owned(), suffix(index / 10)),
                ]),
            },
        }
    }
}

/// Formats a text into a string of capacity `length`. A string that grows would end with up to
/// twice the capacity.
fn format_exact(length: usize, text: std::fmt::Arguments<'_>) -> String {
    let mut made = String::with_capacity(length);
    let _ = made.write_fmt(text); // writing to a String cannot fail
    made
}

/// Returns a suffix of the kind that Kubernetes appends to names, derived from a number.
fn suffix(number: usize) -> String {
    let bytes = splitmix64(number as u64).to_le_bytes();
    bytes[..5]
        .iter()
        .map(|byte| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()]))
        .collect()
}
