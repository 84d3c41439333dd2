//! Tests of objects that come back as they were written, also unusual ones.

use std::fmt::Write;
use std::io::Read;

use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DynamicObject, PartialObjectMeta};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::rig::{compare, pack, pod, pods};
use crate::compact::{Compactor, DecodeFailure};

fn list(packed: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Box<RawValue>>,
    }
    let mut json = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut json).unwrap();
    let list: List = serde_json::from_slice(&json).unwrap();
    list.items.into_iter().map(|item| item.get().to_owned()).collect()
}

fn mixed() -> Vec<String> {
    list(include_bytes!("../../../../bench/data/pods-mixed.json.gz"))
}

fn alike() -> Vec<String> {
    list(include_bytes!("../../../../bench/data/pods.json.gz"))
}

#[test]
#[cfg_attr(miri, ignore = "Miri takes too long to read megabytes")]
fn real_objects_come_back_whole() {
    for list in [mixed(), alike()] {
        let compactor = pods();
        let pack = |json: &String| compactor.pack(json.as_bytes()).unwrap();
        let objects: Vec<_> = list.iter().map(pack).collect();
        compactor.end_list();
        for object in &objects {
            compactor.repack(object);
        }
        for (object, json) in objects.iter().zip(&list) {
            compare(object, json);
        }
        let stats = compactor.stats();
        assert_eq!(stats.objects, list.len());
        assert_eq!(stats.raw_bytes, list.iter().map(String::len).sum::<usize>());
        let bytes = (stats.bytes + stats.base_bytes) / stats.objects;
        assert!(bytes * 4 < stats.raw_bytes / stats.objects, "{bytes} bytes for each: {stats:?}");
    }
}

#[test]
fn number_beyond_u64_is_stored_as_written() {
    let numbers = ["18446744073709551616", "-123456789012345678901234567890", "1E+999"];
    let json = |at: usize, seconds: &str, unknown: &str| {
        let fields = format!(r#""activeDeadlineSeconds":{seconds},"unknown":[{unknown}],"#);
        pod(1, at).replace(r#""spec":{"#, &format!(r#""spec":{{{fields}"#))
    };
    let compactor = pods();
    let objects: Vec<_> = (0..)
        .zip(numbers)
        .map(|(at, number)| (json(2 * at, "7", number), json(2 * at + 1, number, "7")))
        .map(|texts| (pack(&compactor, &texts.0), pack(&compactor, &texts.1), texts))
        .collect();
    assert_eq!(compactor.stats().bases, 1);
    for (at, (unknown, typed, texts)) in objects.iter().enumerate() {
        assert_eq!(unknown.raw_json().unwrap(), texts.0);
        assert_eq!(typed.raw_json().unwrap(), texts.1);
        let decoded = unknown.decode().unwrap();
        assert_eq!(decoded.spec.unwrap().active_deadline_seconds, Some(7));
        let error = typed.decode().unwrap_err();
        assert_eq!(error.key(), format!("shop/w1-{}", 2 * at + 1));
        assert!(matches!(error.failure(), DecodeFailure::Json(_)), "{error:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri takes too long to read megabytes")]
fn large_and_deep_objects_are_stored() {
    let compactor = Compactor::<Value>::builder().build();
    let mut state = 1u64;
    let mut noise = String::new();
    while noise.len() < 10 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let _ = write!(noise, "{state:x}");
    }
    let large = format!(r#"{{"metadata":{{"name":"large"}},"data":"{noise}"}}"#);
    let large = [&large, &large.replace("large", "other")].map(|json| {
        let object = compactor.pack(json.as_bytes()).unwrap();
        assert!(object.raw_json().unwrap() == *json);
        object
    });
    assert_eq!(large[0].decode().unwrap()["metadata"]["name"], "large");
    let deep = format!(
        r#"{{"metadata":{{"name":"deep"}},"a":{}1{}}}"#,
        "[".repeat(9999),
        "]".repeat(9999)
    );
    let deep = compactor.pack(deep.as_bytes()).unwrap();
    assert!(matches!(deep.decode().unwrap_err().failure(), DecodeFailure::Json(_)));
}

#[test]
fn types_are_added_when_an_object_is_decoded() {
    let json = r#"{"metadata":{"name":"a"},"data":{}}"#;
    let dynamic = Compactor::<DynamicObject>::builder().types("v1", "ConfigMap").build();
    let object = dynamic.pack(json.as_bytes()).unwrap();
    assert_eq!(object.decode().unwrap().types.unwrap().kind, "ConfigMap");
    assert_eq!(object.raw_json().unwrap(), json);
    let partial = Compactor::<PartialObjectMeta<ConfigMap>>::builder().build();
    let object = partial.pack(json.as_bytes()).unwrap();
    assert_eq!(object.decode().unwrap().metadata.name.as_deref(), Some("a"));
}

#[test]
fn types_that_were_left_out_are_not_added_again() {
    for validate in [false, true] {
        let builder = Compactor::<Value>::builder().types("v1", "Pod").without(&["kind"]);
        let compactor = builder.validate(validate).build();
        let object = compactor.pack(br#"{"kind":"Pod","metadata":{"name":"a"}}"#).unwrap();
        let expected = serde_json::json!({ "apiVersion": "v1", "metadata": { "name": "a" } });
        assert_eq!(object.decode().unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]
    #[test]
    fn any_objects_come_back_in_any_company(
        objects in prop::collection::vec((0usize..4, "[ -~]{0,40}", any::<i64>()), 1..20),
        end_list_after in 0usize..20,
    ) {
        let compactor = Compactor::<Value>::builder().base_cache(256).build();
        let mut packed = Vec::new();
        for (at, (group, text, number)) in objects.iter().enumerate() {
            let json = serde_json::json!({
                "metadata": { "name": format!("o{at}"), "generateName": format!("g{group}") },
                "data": [text.repeat(1 + group * 7), number],
            });
            let object = compactor.pack(json.to_string().as_bytes()).unwrap();
            packed.push((json, object));
            if at == end_list_after {
                compactor.end_list();
            }
        }
        for (_, object) in &packed { compactor.repack(object); }
        for (json, object) in &packed {
            prop_assert_eq!(&object.decode().unwrap(), json);
            prop_assert_eq!(object.raw_json().unwrap(), json.to_string());
        }
    }

    #[test]
    fn any_labels_and_owners_come_back(
        pods in prop::collection::vec(
            (
                prop::collection::btree_map("[a-z/]{1,3}", "[ -~]{0,3}|\\PC{0,9}", 0..5),
                prop::collection::vec(("[A-Z]{0,2}", "\\PC{0,3}", any::<[Option<bool>; 2]>()), 0..4),
                any::<Option<i64>>(),
                any::<bool>(),
            ),
            1..12,
        ),
    ) {
        let compactor = Compactor::<Pod>::builder().train(true).build();
        let mut packed = Vec::new();
        for (at, (labels, owners, generation, is_deleted)) in pods.iter().enumerate() {
            let owners: Vec<_> = owners
                .iter()
                .map(|(kind, name, [controller, blocks])| serde_json::json!({
                    "apiVersion": "v1", "kind": kind, "name": name, "controller": controller,
                    "uid": format!("0f8fad5b-d9cb-469f-a165-7086772895{:02x}", name.len()),
                    "blockOwnerDeletion": blocks,
                }))
                .collect();
            let json = serde_json::json!({ "metadata": {
                "name": format!("o{at}"), "labels": labels, "ownerReferences": owners,
                "generation": generation,
                "deletionTimestamp": is_deleted.then_some("2026-07-01T12:00:00Z"),
            } });
            let json = json.to_string();
            packed.push((pack(&compactor, &json), json));
        }
        compactor.end_list();
        for (object, json) in &packed {
            compactor.repack(object);
            compare(object, json);
        }
    }
}
