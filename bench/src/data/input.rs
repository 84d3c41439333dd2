//! The pods of a real LIST response, JSON or gzipped JSON whatever the file is called.

use std::fmt::Write;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{KubeMeta, Source};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It cannot be read at all.
    #[error("input {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It begins as gzip and does not end as such.
    #[error("input {}: truncated or damaged gzip: {source}", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        source: io::Error,
    },
    /// It is not the JSON of a list.
    #[error("input {}: truncated or not JSON of a List: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        source: serde_json::Error,
    },
    /// It is JSON of something else.
    #[error("input {}: not a List: its kind is {kind:?}", path.display())]
    NotAList {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: String,
    },
    /// It is a list of something else.
    #[error("input {}: a {kind} of {api_version:?}: only a PodList of \"v1\" can be used", path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: String,
        /// Of which API.
        api_version: String,
    },
    /// Its items do not decode as pods.
    #[error("input {}: items are not pods: {source}", path.display())]
    Items {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        source: serde_json::Error,
    },
    /// There is nothing in it.
    #[error("input {}: the list is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An object without a name has no key.
    #[error("input {}: item {index} is not a pod with a name", path.display())]
    Nameless {
        /// The file.
        path: PathBuf,
        /// Its place in the list, from 0.
        index: usize,
    },
}

/// Repeats the pods of a list under new names. Every object is a deep copy of one of them.
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
    /// Only skipped, so that text that ends too early is found here.
    #[serde(default, rename = "items")]
    _items: IgnoredAny,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    items: Vec<Pod>,
}

impl Pods {
    /// Reads a LIST response.
    ///
    /// # Errors
    /// [`InputError`] when the file is missing, truncated, not a list, a list of another kind, or empty.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let path = path.to_owned();
        let mut data = match std::fs::read(&path) {
            Ok(data) => data,
            Err(source) => return Err(InputError::Unreadable { path, source }),
        };
        if data.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            if let Err(source) = GzDecoder::new(data.as_slice()).read_to_end(&mut plain) {
                return Err(InputError::Gzip { path, source });
            }
            data = plain;
        }
        // The kind comes first: what is wrong with a list of something else is not how its items look.
        let head: Head = match serde_json::from_slice(&data) {
            Ok(head) => head,
            Err(source) => return Err(InputError::Json { path, source }),
        };
        if !head.kind.ends_with("List") {
            return Err(InputError::NotAList { path, kind: head.kind });
        }
        if head.kind != "PodList" || head.api_version != "v1" {
            return Err(InputError::OtherKind { path, kind: head.kind, api_version: head.api_version });
        }
        let Body { items } = match serde_json::from_slice(&data) {
            Ok(body) => body,
            Err(source) => return Err(InputError::Items { path, source }),
        };
        if items.is_empty() {
            return Err(InputError::Empty { path });
        }
        match items.iter().position(|pod| pod.metadata.name.as_deref().unwrap_or_default().is_empty()) {
            Some(index) => Err(InputError::Nameless { path, index }),
            None => Ok(Self { items }),
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
