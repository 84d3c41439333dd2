//! Objects of workloads, and a comparison of packed objects with their texts.

use std::fmt::Write;
use std::sync::Arc;

use deltafifo::Meta;
use k8s_openapi::api::core::v1::Pod;

use crate::KubeMeta;
use crate::compact::{Compact, Compactor};

/// The number of objects in a test that needs many. (Fewer under Miri, which packs about one a
/// second.)
pub(super) const MANY: usize = if cfg!(miri) { 12 } else { 200 };

pub(in crate::compact) fn pods() -> Compactor<Pod> {
    Compactor::builder().types("v1", "Pod").build()
}

/// Returns pod `number` of a workload. Its text is not similar to the texts of other workloads.
pub(in crate::compact) fn pod(workload: usize, number: usize) -> String {
    let mut env = String::new();
    for at in 0..30 {
        let value = workload.wrapping_mul(0x9E37_79B9).wrapping_add(at).wrapping_mul(0x85EB_CA6B);
        let _ = write!(env, r#"{{"name":"V{at}","value":"{value:x}"}},"#);
    }
    format!(
        r#"{{"metadata":{{"namespace":"shop","name":"w{workload}-{number}","resourceVersion":"{number}",
        "uid":"{number:08x}-0000-4000-8000-000000000000","generateName":"w{workload}-","labels":{{"app":"w{workload}"}}}},
        "spec":{{"containers":[{{"name":"main","env":[{env}{{"name":"LAST"}}]}}]}}}}"#
    )
}

/// Returns pod `number` of the job `group`, with the content of a pod of `workload`. The pod's name
/// does not contain the workload, and its label makes the job its group.
pub(in crate::compact) fn job(workload: usize, group: usize, number: usize) -> String {
    let pod = pod(workload, number).replace(&format!("\"generateName\":\"w{workload}-\","), "");
    let pod = pod.replace(&format!("w{workload}"), "job");
    pod.replace("\"app\":\"job\"", &format!("\"job-name\":\"j{group}\""))
}

/// Returns a later version of the pod `json`.
pub(in crate::compact) fn update(json: &str, version: usize) -> String {
    let field = "\"resourceVersion\":\"";
    let (before, after) = json.split_once(field).unwrap();
    let (_, after) = after.split_once('"').unwrap();
    format!("{before}{field}{version}\"{after}")
}

pub(in crate::compact) fn pack(compactor: &Compactor<Pod>, json: &str) -> Arc<Compact<Pod>> {
    compactor.pack(json.as_bytes()).unwrap()
}

/// Checks that `object` has the text and the metadata of `json`.
pub(super) fn compare(object: &Compact<Pod>, json: &str) {
    assert_eq!(object.raw_json().unwrap(), json);
    assert_eq!(object.raw_size(), json.len());
    let expected: Pod = serde_json::from_str(json).unwrap();
    let metadata = &expected.metadata;
    assert_eq!(object.namespace(), metadata.namespace.as_deref());
    assert_eq!(object.name(), metadata.name.as_deref());
    assert_eq!(object.uid().as_deref(), metadata.uid.as_deref());
    assert_eq!(KubeMeta.written_uid(object).as_deref(), metadata.uid.as_deref());
    assert_eq!(object.resource_version(), metadata.resource_version.as_deref());
    assert_eq!(object.generation(), metadata.generation);
    assert_eq!(object.is_being_deleted(), metadata.deletion_timestamp.is_some());
    assert_eq!(object.annotations_hash().is_some(), metadata.annotations.is_some());
    assert_eq!(object.finalizers_hash().is_some(), metadata.finalizers.is_some());
    let labels = metadata.labels.iter().flatten();
    assert!(object.labels().eq(labels.map(|(key, value)| (key.as_str(), value.as_str()))));
    let owners: Vec<_> = object.owner_references().collect();
    let expected_owners = metadata.owner_references.iter().flatten();
    assert_eq!(owners.len(), expected_owners.clone().count());
    for (found, owner) in owners.iter().zip(expected_owners) {
        assert_eq!(
            (found.api_version, found.kind, found.name, &*found.uid),
            (&*owner.api_version, &*owner.kind, &*owner.name, &*owner.uid)
        );
        assert_eq!(found.controller, owner.controller == Some(true));
        assert_eq!(found.block_owner_deletion, owner.block_owner_deletion == Some(true));
    }
    assert_eq!(object.decode().unwrap(), expected);
}
