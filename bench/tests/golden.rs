//! Tests of the data: the generator creates the objects that the peer in Go (`peers/client-go`)
//! creates, and the pods of the real list can be read.

use std::sync::Arc;

use deltafifo_bench::data::{
    Generated, ListPlan, ObjectAccess, Source, Zipf, build, splitmix64, uniform_key,
};
use deltafifo_bench::digest::Digest;
use serde_json::{Value, json};

fn digest(plan: &ListPlan) -> String {
    let mut digest = Digest::default();
    for object in build(&Generated { objects: 1000 }, plan) {
        digest.add(&ObjectAccess, &*object);
    }
    digest.hex()
}

#[test]
fn generated_data_equals_the_golden_file_of_the_peer_in_go() {
    let hash = |state| (format!("{state}"), format!("{:016x}", splitmix64(state)));
    let object = |index: usize| {
        let metadata = Generated { objects: 1_000_000 }.make(index, None).metadata;
        json!({
            "index": index,
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "labels": metadata.labels,
        })
    };
    let uniform = [0, 1, 2, 3, 4].map(|event| uniform_key(event, 1000));
    let zipf = Zipf::new(1000);
    let zipf = [0, 1, 2, 3, 4].map(|event| zipf.key(event));
    let made = json!({
        "splitmix64": Value::from_iter([0, 1, 12345, u64::MAX].map(hash)),
        "objects_of_1000000": [object(0), object(1), object(12345)],
        "digest_list_a_of_1000": digest(&ListPlan::same(1000)),
        "digest_list_c_of_1000": digest(&ListPlan::churn(1000)),
        "uniform_keys_of_1000": uniform,
        "zipf_keys_of_1000": zipf,
    });
    let golden: Value =
        serde_json::from_str(include_str!("../peers/client-go/golden.json")).expect("it is JSON");
    assert_eq!(made, golden);
}

/// Checks that two lists of the same plan have equal objects in the order of their numbers, but
/// share none of them.
#[test]
fn lists_are_fresh_and_in_order() {
    let source = Generated { objects: 101 };
    let lists = [(); 2].map(|()| build(&source, &ListPlan::same(101)));
    for (index, (one, other)) in lists[0].iter().zip(&lists[1]).enumerate() {
        assert!(!Arc::ptr_eq(one, other));
        assert_eq!(one, other);
        assert_eq!(**one, source.make(index, None));
    }
}

#[cfg(feature = "peers")]
#[test]
fn real_list_has_whole_pods_that_repeat() {
    use deltafifo_bench::data::Pods;

    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/pods.json.gz");
    let pods = Pods::read(&path).expect("it is a list of pods");
    let first = pods.make(0, None);
    assert!(first.metadata.uid.is_some() && first.spec.is_some(), "{first:?}");
    let repeated = first.metadata.name.map(|name| name + "-r1");
    assert_eq!(pods.make(1500, None).metadata.name, repeated, "1500 pods");
}
