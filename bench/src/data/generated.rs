//! Objects made out of nothing: the metadata of Pods, to the bit what the peer in Go makes.

use std::collections::BTreeMap;
use std::fmt::Write;

use deltafifo::Meta;

use super::{Source, splitmix64};

const NAMESPACES: usize = 500;
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A generated object: metadata only, as a cache that was told to keep no more would hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// All there is.
    pub metadata: ObjectMeta,
}

/// The metadata of a generated object. Every string is its own allocation, since a decoder shares
/// none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Unique id.
    pub uid: String,
    /// Version.
    pub resource_version: String,
    /// Two labels.
    pub labels: BTreeMap<String, String>,
}

/// Reads the metadata of an [`Object`].
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

/// Makes objects for a run of so many.
#[derive(Clone, Copy, Debug)]
pub struct Generated {
    /// How many objects the run has; the namespaces hold equal shares of them.
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
                namespace: exact(9, format_args!("team-{:04}", index / per_namespace % NAMESPACES)),
                name: exact(17, format_args!("web-{index:07}-{}", suffix(index))),
                uid: exact(
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
                    ("app".to_owned(), "web".to_owned()),
                    ("pod-template-hash".to_owned(), suffix(index / 10)),
                ]),
            },
        }
    }
}

/// Formats into a string that is as long as need be: growing would double it.
fn exact(length: usize, text: std::fmt::Arguments<'_>) -> String {
    let mut made = String::with_capacity(length);
    let _ = made.write_fmt(text); // writing to a String cannot fail
    made
}

/// The kind of suffix that Kubernetes gives to names, made from a number.
fn suffix(number: usize) -> String {
    let bytes = splitmix64(number as u64).to_le_bytes();
    bytes[..5]
        .iter()
        .map(|byte| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()]))
        .collect()
}
