//! LIST responses in files. All engines of the workload `cache` read their objects from these
//! files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::build_in_parts;
use super::cluster::Cluster;
use super::input::InputError;

/// The number of objects per changed object: one object in a hundred has changed in the second
/// list.
const CHANGES: usize = 100;

/// Two LIST responses in files: a first list, and a later one in which one object in a hundred has
/// changed. Dropping the value deletes the files.
#[derive(Debug)]
pub struct ListFiles {
    directory: TempDir,
}

/// An error that prevents the lists from being made.
#[derive(Debug, thiserror::Error)]
pub enum ListFilesError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot write the lists: is there room for two of them in the temporary directory?")]
    Write(#[from] io::Error),
}

impl ListFiles {
    /// Multiplies the pods of `input` to `objects` pods, or to slightly fewer if random names
    /// collide, and writes both lists. With `replicas`, the pods are those of generated Kubernetes
    /// workloads with this many replicas each. Without, they are copies, which differ from their
    /// model only in their names, ids and versions. Both list the pods in the order of their keys,
    /// as an API server does. The list of `input` must not be empty.
    pub fn write(
        input: &Path,
        objects: usize,
        replicas: Option<NonZero<usize>>,
    ) -> Result<Self, ListFilesError> {
        let cluster = Cluster::read(input)?;
        let mut pods = multiply(&cluster, objects, replicas);
        let files = Self { directory: TempDir::new()? };
        write_list(&files.first(), "1", &pods)?;
        for (at, (_, pod)) in pods.iter_mut().enumerate().skip(CHANGES / 2).step_by(CHANGES) {
            *pod = changed(pod, at);
        }
        write_list(&files.second(), "2", &pods)?;
        Ok(files)
    }

    /// Returns the path of the first list.
    pub fn first(&self) -> PathBuf {
        self.directory.path().join("first.json")
    }

    /// Returns the path of the list with changes.
    pub fn second(&self) -> PathBuf {
        self.directory.path().join("second.json")
    }
}

/// Returns keys and texts of distinct pods, in the order of their keys.
fn multiply(
    cluster: &Cluster,
    objects: usize,
    replicas: Option<NonZero<usize>>,
) -> Vec<(String, Vec<u8>)> {
    let make = |index| match replicas {
        Some(replicas) => cluster.pod(index, replicas.get()),
        None => cluster.copy(index),
    };
    let mut pods = build_in_parts(objects, make);
    pods.sort();
    // Two random names of a workload may be equal.
    pods.dedup_by(|one, other| one.0 == other.0);
    pods
}

/// Returns a later state of the pod at position `at`: with another version and status message.
fn changed(pod: &[u8], at: usize) -> Vec<u8> {
    let mut pod: Value = serde_json::from_slice(pod).unwrap_or_default();
    pod["metadata"]["resourceVersion"] = (200_000_000 + at).to_string().into();
    pod["status"]["message"] = "changed".into();
    pod.to_string().into_bytes()
}

fn write_list(path: &Path, version: &str, pods: &[(String, Vec<u8>)]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    write!(
        file,
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":["#
    )?;
    for (at, (_, pod)) in pods.iter().enumerate() {
        if at > 0 {
            file.write_all(b",")?;
        }
        file.write_all(pod)?;
    }
    file.write_all(b"]}\n")?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use serde_json::json;

    use super::*;

    /// Returns the version of each key.
    fn versions(path: &Path) -> BTreeMap<String, String> {
        let list: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(list["kind"], "PodList");
        let items = list["items"].as_array().unwrap();
        let text = |pod: &Value, field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
        let keys: Vec<_> = items.iter().map(|pod| text(pod, "name")).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        items.iter().map(|pod| (text(pod, "name"), text(pod, "resourceVersion"))).collect()
    }

    #[test]
    fn second_list_has_the_same_keys_and_one_change_in_a_hundred() {
        let pod = |name: &str| {
            json!({ "metadata": { "name": name, "namespace": "shop", "resourceVersion": "7" },
                "spec": { "containers": [] }, "status": {} })
        };
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("input.json");
        fs::write(&input, json!({ "items": [pod("a"), pod("b")] }).to_string()).unwrap();
        for replicas in [NonZero::new(20), None] {
            let files = ListFiles::write(&input, 400, replicas).unwrap();
            let (first, second) = (versions(&files.first()), versions(&files.second()));
            assert_eq!(first.len(), 400);
            assert!(first.keys().eq(second.keys()));
            let changed = first.iter().filter(|(key, version)| second[*key] != **version).count();
            assert_eq!(changed, 4, "{replicas:?}");
        }
    }
}
