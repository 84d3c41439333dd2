//! Tests of the data: the generator creates the objects that the peer in Go (`peers/client-go`)
//! creates.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Generated, ListPlan, ObjectAccess, Source, Zipf, build, splitmix64, uniform_key};
use crate::digest::Digest;

fn digest(plan: &ListPlan) -> String {
    Digest::of(&ObjectAccess, build(&Generated { objects: 1000 }, plan)).hex()
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
    let golden: Value = serde_json::from_str(include_str!("../../peers/client-go/golden.json"))
        .expect("it is JSON");
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
