//! The pods of a real LIST response. The content, not the file's name, decides whether it is JSON
//! or gzipped JSON.

use std::fmt::{self, Write};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use deltafifo_informer::KubeMeta;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::Source;

/// The limit for the unpacked size, in bytes. Without it, a small packed file could unpack to more
/// than the memory holds.
const MAX_BYTES: u64 = if cfg!(any(test, fuzzing)) { 1 << 16 } else { 1 << 30 };

/// The limit for the number of pods. A pod of a few bytes of text takes a few kilobytes of memory.
const MAX_PODS: usize = if cfg!(any(test, fuzzing)) { 8 } else { 1 << 20 };

/// An input file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file cannot be read.
    #[error("input {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file starts as gzip, and is truncated or damaged.
    #[error("input {}: truncated or damaged gzip: {source}", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// The error of the decoder.
        source: io::Error,
    },
    /// The file is not the JSON of a list.
    #[error("input {}: truncated or not JSON of a List: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The error of the decoder.
        source: serde_json::Error,
    },
    /// The JSON is not a list.
    #[error("input {}: not a List: its kind is {kind:?}", path.display())]
    NotAList {
        /// The file.
        path: PathBuf,
        /// The kind in the file.
        kind: String,
    },
    /// The list is not a list of pods.
    #[error("input {}: a {kind} of {api_version:?}: only a PodList of \"v1\" can be used", path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// The kind of the list.
        kind: String,
        /// The API version of the list.
        api_version: String,
    },
    /// The items of the list are not pods.
    #[error("input {}: items are not pods: {source}", path.display())]
    Items {
        /// The file.
        path: PathBuf,
        /// The error of the decoder.
        source: serde_json::Error,
    },
    /// The list has more items than the limit, which protects the memory.
    #[error("input {}: more than {MAX_PODS} items", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
    },
    /// The list is empty.
    #[error("input {}: the list is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A pod has no name, and so no key.
    #[error("input {}: item {index} is not a pod with a name", path.display())]
    Nameless {
        /// The file.
        path: PathBuf,
        /// The index of the pod in the list, from 0.
        index: usize,
    },
}

/// A source that repeats the pods of a list under new names. Every object is a deep copy of a pod.
#[derive(Debug)]
pub struct Pods {
    items: Vec<Pod>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    /// Not used. Parsing it finds a truncated text here already.
    #[serde(default, rename = "items")]
    _items: IgnoredAny,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    items: Items,
}

/// The pods of a list. After the first pod without a name, or the first one beyond the limit, the
/// remaining items are skipped.
#[derive(Default)]
struct Items {
    pods: Vec<Pod>,
    nameless: Option<usize>,
    too_many: bool,
}

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;

        impl<'de> Visitor<'de> for ItemsVisitor {
            type Value = Items;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence of pods")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items, A::Error> {
                let mut items = Items::default();
                while items.nameless.is_none() && !items.too_many {
                    let Some(pod) = seq.next_element::<Pod>()? else { return Ok(items) };
                    if pod.metadata.name.as_deref().unwrap_or_default().is_empty() {
                        items.nameless = Some(items.pods.len());
                    }
                    items.pods.push(pod);
                    items.too_many = items.pods.len() > MAX_PODS;
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(items)
            }
        }

        deserializer.deserialize_seq(ItemsVisitor)
    }
}

/// Reads all of `file`. More than `most` bytes are an error.
fn read_bounded(file: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    if file.take(limit + 1).read_to_end(&mut data)? as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("more than {limit} bytes"),
        ));
    }
    Ok(data)
}

impl Pods {
    /// Reads a LIST response from a file.
    ///
    /// # Errors
    /// [`InputError`] if the file is missing or truncated, is not a list, is a list of another
    /// kind, or is empty.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        match File::open(path) {
            Ok(file) => Self::decode(path, file),
            Err(source) => Err(InputError::Unreadable { path: path.to_owned(), source }),
        }
    }

    /// Decodes a LIST response; `path` is its name in errors.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn decode(path: &Path, file: impl Read) -> Result<Self, InputError> {
        let path = path.to_owned();
        let mut data = match read_bounded(file, MAX_BYTES) {
            Ok(data) => data,
            Err(source) => return Err(InputError::Unreadable { path, source }),
        };
        if data.starts_with(&[0x1f, 0x8b]) {
            data = match read_bounded(GzDecoder::new(data.as_slice()), MAX_BYTES) {
                Ok(plain) => plain,
                Err(source) => return Err(InputError::Gzip { path, source }),
            };
        }
        // The kind is checked first, so that a list of another kind is reported as that, and not as
        // a list of invalid pods.
        let head: Head = match serde_json::from_slice(&data) {
            Ok(head) => head,
            Err(source) => return Err(InputError::Json { path, source }),
        };
        if !head.kind.ends_with("List") {
            return Err(InputError::NotAList { path, kind: head.kind });
        }
        if head.kind != "PodList" || head.api_version != "v1" {
            return Err(InputError::OtherKind {
                path,
                kind: head.kind,
                api_version: head.api_version,
            });
        }
        let Body { items } = match serde_json::from_slice(&data) {
            Ok(body) => body,
            Err(source) => return Err(InputError::Items { path, source }),
        };
        match items {
            Items { nameless: Some(index), .. } => Err(InputError::Nameless { path, index }),
            Items { too_many: true, .. } => Err(InputError::TooMany { path }),
            Items { pods, .. } if pods.is_empty() => Err(InputError::Empty { path }),
            Items { pods, .. } => Ok(Self { items: pods }),
        }
    }
}

impl Source for Pods {
    type Object = Pod;
    type Meta = KubeMeta;

    fn make(&self, index: usize, version: Option<String>) -> Pod {
        let mut pod = self.items[index % self.items.len()].clone();
        let round = index / self.items.len();
        if round > 0
            && let Some(name) = &mut pod.metadata.name
        {
            let _ = write!(name, "-r{round}"); // writing to a String cannot fail
        }
        if version.is_some() {
            pod.metadata.resource_version = version;
        }
        pod
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(file: impl Read) -> Option<String> {
        Pods::decode(Path::new("there"), file).err().map(|error| error.to_string())
    }

    #[test]
    fn endless_input_is_rejected() {
        let packed = flate2::read::GzEncoder::new(
            io::repeat(b'[').take(1 << 20),
            flate2::Compression::default(),
        );
        for message in [rejection(io::repeat(b'[')), rejection(packed)] {
            assert!(message.is_some_and(|message| message.contains("more than 65536 bytes")));
        }
    }

    #[test]
    fn list_with_too_many_pods_is_rejected() {
        for (pods, reason) in
            [(8, None), (9, Some("more than 8 items")), (100, Some("more than 8 items"))]
        {
            let items = vec![r#"{"metadata":{"name":"a"}}"#; pods].join(",");
            let list = format!(r#"{{"kind":"PodList","apiVersion":"v1","items":[{items}]}}"#);
            assert_eq!(
                rejection(list.as_bytes()).as_deref(),
                reason.map(|reason| format!("input there: {reason}")).as_deref()
            );
        }
    }
}
