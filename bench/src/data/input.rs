//! The pods of a real LIST response. Its content, not the name of its file, decides whether it is
//! read as JSON or as gzipped JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use deltafifo_informer::KubeMeta;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

use super::{LabelMap, Source};

/// The limit for the unpacked size, in bytes. Without it, a small packed file could unpack to more
/// than the memory holds.
const MAX_BYTES: u64 = if cfg!(any(test, fuzzing)) { 1 << 16 } else { 1 << 30 };

/// The error of an input file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the input {}", path.display())]
pub struct InputError {
    path: PathBuf,
    source: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("unreadable")]
    Unreadable(#[source] io::Error),
    #[error("truncated or damaged gzip")]
    Gzip(#[source] io::Error),
    #[error("truncated, or not a list of pods in JSON")]
    Json(#[source] serde_json::Error),
    #[error("a {kind:?} of {api_version:?}: only a PodList of \"v1\" can be used")]
    OtherKind { kind: String, api_version: String },
    #[error("the list is empty")]
    Empty,
    /// An item has no name, and so no key.
    #[error("item {0} is not a pod with a name")]
    Nameless(usize),
}

/// A source that repeats the pods of a list under new names. Every object is a deep copy of a pod.
#[derive(Debug)]
pub struct Pods {
    items: Vec<Pod>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodList {
    kind: String,
    api_version: String,
    items: Vec<Pod>,
}

impl InputError {
    fn at(path: &Path) -> impl FnOnce(Problem) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }

    #[cfg(feature = "peers")]
    pub(super) fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> Self {
        move |error| Self::at(path)(Problem::Json(error))
    }
}

/// Reads the JSON of an input file, which may be gzipped.
#[cfg(feature = "peers")]
pub(super) fn read(path: &Path) -> Result<Vec<u8>, InputError> {
    let file = File::open(path).map_err(Problem::Unreadable);
    file.and_then(unpacked).map_err(InputError::at(path))
}

fn unpacked(file: impl Read) -> Result<Vec<u8>, Problem> {
    let data = read_bounded(file).map_err(Problem::Unreadable)?;
    if data.starts_with(&[0x1f, 0x8b]) {
        return read_bounded(GzDecoder::new(&*data)).map_err(Problem::Gzip);
    }
    Ok(data)
}

/// Reads all of `file`. Returns an error if it has more than [`MAX_BYTES`].
fn read_bounded(file: impl Read) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    if file.take(MAX_BYTES + 1).read_to_end(&mut data)? as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("more than {MAX_BYTES} bytes")));
    }
    Ok(data)
}

impl Pods {
    /// Reads a LIST response from a file.
    ///
    /// # Errors
    /// [`InputError`] if the file cannot be read, is too long, truncated or damaged; if it is not a
    /// list of pods, or its list is empty; or if a pod has no name.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let file = File::open(path).map_err(Problem::Unreadable);
        Self::decode(path, file.map_err(InputError::at(path))?)
    }

    /// Decodes a LIST response; `path` is its name in errors.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn decode(path: &Path, file: impl Read) -> Result<Self, InputError> {
        Self::of(file).map_err(InputError::at(path))
    }

    fn of(file: impl Read) -> Result<Self, Problem> {
        let list = serde_json::from_slice(&unpacked(file)?).map_err(Problem::Json)?;
        let PodList { kind, api_version, items } = list;
        if kind != "PodList" || api_version != "v1" {
            return Err(Problem::OtherKind { kind, api_version });
        }
        let is_nameless = |pod: &Pod| pod.metadata.name.as_deref().unwrap_or_default().is_empty();
        match items.iter().position(is_nameless) {
            Some(index) => Err(Problem::Nameless(index)),
            None if items.is_empty() => Err(Problem::Empty),
            None => Ok(Self { items }),
        }
    }
}

impl LabelMap<Pod> for KubeMeta {
    fn labels<'a>(&self, pod: &'a Pod) -> &'a BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        pod.metadata.labels.as_ref().unwrap_or(&NONE)
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
    use deltafifo::Meta;
    use flate2::Compression;
    use flate2::read::GzEncoder;

    use super::*;
    use crate::causes::with_causes;

    const TWO_PODS: &[u8] =
        br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
        {"metadata":{"name":"a","namespace":"x","resourceVersion":"3"}},
        {"metadata":{"name":"b","namespace":"x","resourceVersion":"4"}}]}"#;

    fn zipped(plain: impl Read) -> Vec<u8> {
        let mut data = Vec::new();
        GzEncoder::new(plain, Compression::default()).read_to_end(&mut data).expect("it is packed");
        data
    }

    /// Returns the text of the error with which an input is rejected, or `None` if it is accepted.
    fn rejection(file: impl Read) -> Option<String> {
        Pods::decode(Path::new("file"), file).err().map(|error| with_causes(&error))
    }

    #[test]
    fn pods_repeat_under_new_names() {
        for content in [TWO_PODS.to_vec(), zipped(TWO_PODS)] {
            let pods = Pods::decode(Path::new("file"), &*content).expect("it is a list of pods");
            let made = (0..5).map(|index| {
                let pod = pods.make(index, (index == 4).then(|| "2000004".to_owned()));
                let [namespace, name, version] =
                    [KubeMeta.namespace(&pod), KubeMeta.name(&pod), KubeMeta.version(&pod)]
                        .map(Option::unwrap_or_default);
                format!("{namespace}/{name}@{version}")
            });
            let expected = ["x/a@3", "x/b@4", "x/a-r1@3", "x/b-r1@4", "x/a-r2@2000004"];
            assert_eq!(made.collect::<Vec<_>>(), expected);
        }
    }

    /// Checks the limit for the unpacked size, which is 64 KiB in tests and in builds for the
    /// fuzzer.
    #[test]
    fn endless_input_is_rejected() {
        let packed = zipped(io::repeat(b'[').take(1 << 20));
        for message in [rejection(io::repeat(b'[')), rejection(&*packed)] {
            assert!(message.is_some_and(|message| message.contains("more than 65536 bytes")));
        }
    }

    #[test]
    fn unusable_input_is_rejected_with_its_reason() {
        let packed = zipped(TWO_PODS);
        let cases: [(&[u8], &str); 10] = [
            (b"", "truncated"),
            (&TWO_PODS[..100], "truncated"),
            (&packed[..packed.len() / 2], "truncated"),
            (br#"{"kind":"Pod","apiVersion":"v1"}"#, "only a PodList"),
            (b"{}", "only a PodList"),
            (br#"{"kind":"NodeList","apiVersion":"v1","items":[{}]}"#, "NodeList"),
            (br#"{"kind":"PodList","apiVersion":"v1","items":[]}"#, "empty"),
            (br#"{"kind":"PodList","apiVersion":"v1"}"#, "empty"),
            (br#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{}}]}"#, "item 0"),
            (br#"{"kind":"PodList","apiVersion":"v1","items":{"a":1}}"#, "not a list of pods"),
        ];
        for (index, (content, reason)) in cases.into_iter().enumerate() {
            let message = rejection(content).expect("it is rejected");
            assert!(message.contains(reason), "case {index}: {message}");
        }
    }
}
