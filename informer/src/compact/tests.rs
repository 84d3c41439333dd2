use std::fmt::Write;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use deltafifo::{KeyFunc, Labels, Meta};
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DynamicObject, PartialObjectMeta};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Compact, CompactStats, Compactor, DecodeFailure, PackError};
use crate::KubeMeta;

/// The number of objects in a test that needs many. (Fewer under Miri, which packs about one a
/// second.)
const MANY: usize = if cfg!(miri) { 12 } else { 200 };

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
    list(include_bytes!("../../../bench/data/pods-mixed.json.gz"))
}

fn alike() -> Vec<String> {
    list(include_bytes!("../../../bench/data/pods.json.gz"))
}

pub(super) fn pods() -> Compactor<Pod> {
    Compactor::builder().types("v1", "Pod").build()
}

/// Returns pod `number` of a workload. Its text is not similar to the texts of other workloads.
pub(super) fn pod(workload: usize, number: usize) -> String {
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
pub(super) fn job(workload: usize, group: usize, number: usize) -> String {
    let pod = pod(workload, number).replace(&format!("\"generateName\":\"w{workload}-\","), "");
    let pod = pod.replace(&format!("w{workload}"), "job");
    pod.replace("\"app\":\"job\"", &format!("\"job-name\":\"j{group}\""))
}

/// Returns a later version of the pod `json`.
pub(super) fn update(json: &str, version: usize) -> String {
    let field = "\"resourceVersion\":\"";
    let (before, after) = json.split_once(field).unwrap();
    let (_, after) = after.split_once('"').unwrap();
    format!("{before}{field}{version}\"{after}")
}

pub(super) fn pack(compactor: &Compactor<Pod>, json: &str) -> Arc<Compact<Pod>> {
    compactor.pack(json.as_bytes()).unwrap()
}

/// Checks that `object` has the text and the metadata of `json`.
fn compare(object: &Compact<Pod>, json: &str) {
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
fn second_member_makes_the_first_a_difference() {
    let compactor = pods();
    let first = compactor.pack(pod(1, 1).as_bytes()).unwrap();
    let (alone, bases) = (first.size(), compactor.stats().bases);
    let second = compactor.pack(pod(1, 2).as_bytes()).unwrap();
    assert_eq!((bases, compactor.stats().bases), (0, 1));
    assert!(first.size() + 300 < alone, "{} of {alone} bytes", first.size());
    compare(&first, &pod(1, 1));
    compare(&second, &pod(1, 2));
    assert_eq!(compactor.stats().bytes, first.size() + second.size());
}

#[test]
fn objects_and_bases_are_freed_with_the_last_handle() {
    let compactor = pods();
    let objects: Vec<_> =
        (0..40).map(|at| compactor.pack(pod(at / 4, at).as_bytes()).unwrap()).collect();
    assert_eq!(compactor.stats().bases, 10);
    drop(objects);
    let stats = compactor.stats();
    assert_eq!(CompactStats { dictionary_bytes: 0, packed: 0, ..stats }, CompactStats::default());
}

#[test]
fn group_that_has_died_out_begins_again() {
    let compactor = pods();
    for _ in 0..3 {
        let objects = [1, 2, 3].map(|at| compactor.pack(pod(1, at).as_bytes()).unwrap());
        compare(&objects[2], &pod(1, 3));
        assert_eq!(compactor.stats().bases, 1);
    }
}

#[test]
fn base_that_has_grown_old_is_replaced() {
    let compactor = pods();
    // The workload changes, its generated names do not.
    let changed = |at| pod(2, at).replace("\"generateName\":\"w2-\"", "\"generateName\":\"w1-\"");
    let old: Vec<_> = (0..8).map(|at| compactor.pack(pod(1, at).as_bytes()).unwrap()).collect();
    let new: Vec<_> =
        (100..140).map(|at| compactor.pack(changed(at).as_bytes()).unwrap()).collect();
    assert_eq!(compactor.stats().bases, 2);
    let last = new.last().unwrap();
    assert!(last.size() < new[0].size() / 2, "{} {}", last.size(), new[0].size());
    compare(last, &changed(139));
    old.iter().enumerate().for_each(|(at, object)| compare(object, &pod(1, at)));
    drop(old);
    for object in &new {
        compactor.repack(object);
    }
    assert_eq!(compactor.stats().bases, 1, "the old base is freed");
}

#[test]
fn base_is_not_replaced_because_one_of_its_members_has_changed() {
    let compactor = pods();
    let mut objects: Vec<_> = (0..20).map(|at| pack(&compactor, &pod(1, at))).collect();
    for version in 100..140 {
        // Pod 5 gets the content of another workload, and stays in its group by `generateName`.
        let json = pod(2, 5).replace("\"generateName\":\"w2-\"", "\"generateName\":\"w1-\"");
        objects[5] = pack(&compactor, &update(&json, version));
        assert_eq!(compactor.stats().bases, 1, "version {version}");
    }
    let sibling = pack(&compactor, &pod(1, 20));
    assert!(Arc::ptr_eq(&sibling.with(), &objects[0].with()));
}

#[test]
fn base_that_few_objects_hold_is_given_up() {
    let compactor = pods();
    let mut objects: Vec<_> =
        (0..MANY.max(50)).map(|at| compactor.pack(pod(1, at).as_bytes()).unwrap()).collect();
    objects.truncate(2);
    assert_eq!(compactor.stats().bases, 1);
    for object in &objects {
        compactor.repack(object);
    }
    assert_eq!(compactor.stats().bases, 0);
    compare(&objects[1], &pod(1, 1));
}

#[test]
fn base_stays_while_its_members_are_updated() {
    let compactor = pods();
    let mut objects: Vec<_> = (0..20).map(|at| pack(&compactor, &pod(1, at))).collect();
    let rounds = if cfg!(miri) { 3 } else { 30 };
    for round in 1..rounds {
        for (at, object) in objects.iter_mut().enumerate() {
            *object = pack(&compactor, &update(&pod(1, at), 1000 * round + at));
        }
    }
    for object in &objects {
        compactor.repack(object);
    }
    assert_eq!(compactor.stats().bases, 1);
    assert!(objects.iter().all(|object| object.stored().with.base().is_some()));
}

#[test]
fn base_that_one_group_replaces_stays_for_other_groups() {
    let compactor = pods();
    let objects: Vec<_> = (0..20).map(|at| pack(&compactor, &job(1, at, at))).collect();
    let _same: Vec<_> = (20..28).map(|at| pack(&compactor, &job(1, 0, at))).collect();
    let _changed: Vec<_> = (100..140).map(|at| pack(&compactor, &job(2, 0, at))).collect();
    assert_eq!(compactor.stats().bases, 2, "group 0 has a new base");
    let before = objects[5].size();
    for object in &objects {
        compactor.repack(object);
    }
    assert!(objects[5].size() < before + 100, "{} from {before}", objects[5].size());
    objects.iter().enumerate().for_each(|(at, object)| compare(object, &job(1, at, at)));
}

#[test]
fn update_of_a_lone_object_makes_no_base() {
    for has_uid in [true, false] {
        let compactor = pods();
        let uid = "\"uid\":\"00000001-0000-4000-8000-000000000000\",";
        let json = if has_uid { pod(1, 1) } else { pod(1, 1).replace(uid, "") };
        let mut object = pack(&compactor, &json);
        for version in 2..5 {
            let json = update(&json, version);
            // The next version is packed while the store has the one before.
            object = pack(&compactor, &json);
            assert_eq!(compactor.stats().bases, 0);
            compare(&object, &json);
        }
        let _sibling = pack(&compactor, &pod(1, 2));
        assert_eq!(compactor.stats().bases, 1);
        assert!(object.stored().with.base().is_some(), "the newest version is the first member");
    }
}

#[test]
fn update_of_a_lone_object_keeps_the_base_of_a_similar_one() {
    let compactor = pods();
    let mut objects: Vec<_> = (0..3).map(|at| pack(&compactor, &job(1, at, at))).collect();
    for (at, object) in objects.iter_mut().enumerate() {
        for version in 10..13 {
            *object = pack(&compactor, &update(&job(1, at, at), version));
        }
    }
    assert_eq!(compactor.stats().bases, 1);
    let base = objects[0].stored().with;
    assert!(objects.iter().all(|object| Arc::ptr_eq(&object.stored().with, &base)));
}

#[test]
fn lone_object_is_packed_with_a_similar_one() {
    let compactor = pods();
    let objects: Vec<_> = (0..20).map(|at| pack(&compactor, &job(1, at, at))).collect();
    assert_eq!(compactor.stats().bases, 1);
    objects.iter().enumerate().for_each(|(at, object)| compare(object, &job(1, at, at)));
}

#[test]
fn lone_objects_share_the_keys_of_their_labels() {
    let compactor = pods();
    let label = |key: usize, at: usize| format!(r#""example.com/a-long-key-{key}":"{at}","#);
    let labels = |at: usize| (0..9).map(|key| label(key, at)).collect::<String>();
    let labelled = |at: usize| pod(at, at).replace("\"app\"", &(labels(at) + "\"app\""));
    let pack = |json: String| compactor.pack(json.as_bytes()).unwrap();
    let keys = 9 * "example.com/a-long-key-0".len();
    for at in 1..3 {
        let (object, without) = (pack(labelled(at)), pack(pod(at + 7, at)));
        compare(&object, &labelled(at));
        let bytes = object.fixed_size() - without.fixed_size();
        assert!(bytes < keys / 4, "{bytes} for keys of {keys}");
    }
}

#[test]
fn dictionary_is_trained_at_the_end_of_a_list_unless_refused() {
    for train in [true, false] {
        let compactor = Compactor::<Pod>::builder().train(train).build();
        let objects: Vec<_> = (0..MANY).map(|at| pack(&compactor, &pod(at, at))).collect();
        let before = compactor.stats();
        compactor.end_list();
        for object in &objects {
            compactor.repack(object);
        }
        let after = compactor.stats();
        assert_eq!((before.dictionary_bytes, after.dictionary_bytes > 0), (0, train));
        assert_eq!(after.bytes < before.bytes, train);
        objects.iter().enumerate().for_each(|(at, object)| compare(object, &pod(at, at)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "packs too many objects")]
fn object_after_the_list_leaves_the_training_to_the_background() {
    let compactor = pods();
    crate::reflector::Decode::end_list(&compactor);
    let lists = compactor.lists.subscribe();
    let objects: Vec<_> = (0..300).map(|at| pack(&compactor, &pod(at, at))).collect();
    assert_eq!(compactor.stats().dictionary_bytes, 0);
    assert!(lists.has_changed().unwrap());
    compactor.end_list();
    assert!(compactor.stats().dictionary_bytes > 0);
    drop(objects);
    // Many more workloads come and go before the next training.
    let pack_many = |from: usize| {
        let objects: Vec<_> =
            (from..).take(2500).map(|at| pack(&compactor, &pod(at, at))).collect();
        objects.len()
    };
    let mut lists = compactor.lists.subscribe();
    pack_many(1000);
    assert!(lists.has_changed().unwrap());
    compactor.end_list();
    lists.mark_unchanged();
    pack_many(10_000);
    assert!(lists.has_changed().unwrap());
}

#[test]
fn end_of_a_list_packs_no_text_again() {
    let compactor = pods();
    let objects: Vec<_> = (0..MANY + 4).map(|at| pack(&compactor, &pod(at % MANY, at))).collect();
    let before = compactor.stats();
    compactor.end_list();
    let trained = compactor.stats();
    assert!(trained.dictionary_bytes > 0);
    let sizes = |stats: CompactStats| (stats.bytes, stats.base_bytes);
    assert_eq!(sizes(trained), sizes(before));
    for object in &objects {
        compactor.repack(object);
    }
    assert!(compactor.stats().base_bytes < before.base_bytes, "the pass packs the bases again");
    objects.iter().enumerate().for_each(|(at, object)| compare(object, &pod(at % MANY, at)));
}

#[test]
fn objects_that_may_be_secrets_train_no_dictionary() {
    for (types, is_trained) in [
        (None, false),
        (Some(("v1", "Secret")), false),
        (Some(("v1", "Pod")), true),
        (Some(("example.com/v1", "Secret")), true),
    ] {
        let builder = Compactor::<Value>::builder();
        let compactor = match types {
            Some((api_version, kind)) => builder.types(api_version, kind).build(),
            None => builder.build(),
        };
        let pack = |at| compactor.pack(pod(at, at).as_bytes()).unwrap();
        let _objects: Vec<_> = (0..MANY).map(pack).collect();
        compactor.end_list();
        assert_eq!(compactor.stats().dictionary_bytes > 0, is_trained, "{types:?}");
    }
}

#[test]
fn large_texts_train_no_dictionary() {
    let compactor = pods();
    let large = |at| pod(at, at).replace("LAST", &"x".repeat(200 << 10));
    let _objects: Vec<_> = (0..10).map(|at| pack(&compactor, &large(at))).collect();
    compactor.end_list();
    assert_eq!(compactor.stats().dictionary_bytes, 0);
}

#[test]
fn one_object_trains_no_dictionary() {
    let compactor = pods();
    let object = compactor.pack(pod(1, 1).as_bytes()).unwrap();
    compactor.end_list();
    assert_eq!(compactor.stats().dictionary_bytes, 0);
    compare(&object, &pod(1, 1));
}

#[test]
#[should_panic(expected = "the JSON pointer \"spec/nodeName\" does not begin with `/`")]
fn pointer_without_a_leading_slash_is_refused() {
    let _ = Compactor::<Pod>::builder().field("spec/nodeName");
}

#[test]
fn field_of_few_values_takes_few_bytes_of_each_object() {
    let node = |at: usize| format!("ip-10-0-123-{}.eu-central-1.compute.internal", 100 + at % 10);
    let json = |at| {
        let spec = format!("\"spec\":{{\"nodeName\":\"{}\",", node(at));
        pod(at % 7, at).replace("\"spec\":{", &spec)
    };
    let (count, pointer) = (5 * MANY, "/spec/nodeName");
    let packed = |compactor: &Compactor<Pod>| -> Vec<_> {
        (0..count).map(|at| pack(compactor, &json(at))).collect()
    };
    let (without, with) = (pods(), Compactor::builder().field(pointer).types("v1", "Pod").build());
    let (_objects, mut objects) = (packed(&without), packed(&with));
    let bytes = with.stats().bytes.saturating_sub(without.stats().bytes) / count;
    assert!(bytes <= 7 || cfg!(miri), "{bytes} bytes");
    for (at, object) in objects.iter_mut().enumerate().skip(count / 2) {
        *object = pack(&with, &update(&json(at + 1), at));
    }
    for (at, object) in objects.iter().enumerate() {
        let node = node(at + at / (count / 2));
        assert_eq!(object.field(pointer).unwrap().as_deref(), Some(&*node), "{at}");
    }
}

#[test]
fn field_that_was_not_named_is_an_error() {
    let object = Compactor::<Pod>::builder().field("/spec/nodeName").field("/kind").build();
    let object = pack(&object, r#"{"metadata":{"name":"a"},"kind":"Pod"}"#);
    assert_eq!(object.field("/spec/nodeName").unwrap(), None);
    assert_eq!(object.field("/kind").unwrap().as_deref(), Some("Pod"));
    let error = object.field("/spec/nodename").unwrap_err().to_string();
    assert!(error.starts_with("field \"/spec/nodename\" of a compact object"), "{error}");
}

#[test]
fn object_of_another_compactor_is_not_packed_again() {
    let build = || Compactor::<Pod>::builder().field("/kind").types("v1", "Pod").build();
    let (own, other) = (build(), build());
    let json = pod(1, 1);
    let [first, second] = [&own, &own].map(|own| pack(own, &json));
    other.end_list();
    let bytes = other.stats();
    for object in [&first, &second] {
        other.repack(object);
    }
    assert_eq!(other.stats(), bytes);
    assert_eq!(first.field("/kind").unwrap().as_deref(), second.field("/kind").unwrap().as_deref());
    drop((first, second));
    assert_eq!(own.stats().objects, 0);
}

#[test]
fn bases_that_exceed_the_cache_are_unpacked_again() {
    let compactor = Compactor::<Pod>::builder().base_cache(2 * pod(1, 1).len()).build();
    let workloads = MANY.min(20);
    let objects: Vec<_> = (0..3 * workloads)
        .map(|at| compactor.pack(pod(at % workloads, at).as_bytes()).unwrap())
        .collect();
    assert!(compactor.stats().unpacked_base_bytes <= 2 * pod(1, 1).len() + 100);
    objects.iter().enumerate().for_each(|(at, object)| compare(object, &pod(at % workloads, at)));
    assert!(compactor.stats().unpacked_base_bytes <= 2 * pod(1, 1).len() + 100);
}

#[test]
fn readers_see_one_text_while_bases_and_dictionaries_change() {
    let compactor = pods();
    let objects: Vec<Arc<Compact<Pod>>> =
        (0..MANY).map(|at| compactor.pack(pod(at, at).as_bytes()).unwrap()).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for from in 0..2 {
            let (objects, is_over) = (&objects, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    for (at, object) in objects.iter().enumerate().skip(from * MANY / 2) {
                        assert_eq!(object.raw_json().unwrap(), pod(at, at));
                    }
                }
            });
        }
        let siblings: Vec<_> =
            (0..MANY).map(|at| compactor.pack(pod(at, 1000).as_bytes()).unwrap()).collect();
        compactor.end_list();
        drop(siblings);
        for object in &objects {
            compactor.repack(object);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn several_threads_pack_members_of_one_group() {
    let compactor = pods();
    thread::scope(|scope| {
        for thread in 0..4 {
            let compactor = &compactor;
            scope.spawn(move || {
                let numbers = (0..MANY / 4).map(|at| thread * (MANY / 4) + at);
                let packed: Vec<_> = numbers
                    .map(|at| (at, compactor.pack(pod(at % 3, at).as_bytes()).unwrap()))
                    .collect();
                for (at, object) in packed {
                    compare(&object, &pod(at % 3, at));
                }
            });
        }
    });
}

#[test]
fn text_that_cannot_be_stored_is_refused() {
    let compactor = Compactor::<Pod>::builder().without(&["status"]).validate(true).build();
    let refused = |json: &[u8]| compactor.pack(json).unwrap_err();
    for json in [&b""[..], b"null", b"[1]", b"{", b"{}\x0c", br#"{"a":1}}"#, br#"{"status":tru}"#] {
        assert!(matches!(refused(json), PackError::Json(_)), "{json:?}");
    }
    for json in [&b"{\"metadata\":{\"name\":\"\xff\"}}"[..], b"{\"status\":\"\xff\"}"] {
        assert!(matches!(refused(json), PackError::Utf8(_)), "{json:?}");
    }
    let twice = br#"{"metadata":{"name":"a","name":"b"}}"#;
    assert!(matches!(refused(twice), PackError::Metadata(_)));
    let no_pod = br#"{"metadata":{"name":"a"},"spec":7}"#;
    assert!(matches!(refused(no_pod), PackError::Decode(_)));
    assert_eq!(compactor.stats(), CompactStats::default());
}

#[test]
fn text_that_is_not_an_object_is_named_so_with_and_without_pruning() {
    let pruning = Compactor::<Value>::builder().without(&["status"]).build();
    let texts =
        ["", " ", "null", "[]", r#"[{"name":"a"}]"#, r#""x""#, "1", "true", "{", r#"{"a":tru}"#];
    for compactor in [Compactor::builder().build(), pruning] {
        for json in texts {
            let refused = compactor.pack(json.as_bytes()).unwrap_err();
            assert!(matches!(refused, PackError::Json(_)), "{json:?}: {refused:?}");
            assert!(refused.to_string().contains("not a JSON object"), "{json:?}: {refused}");
        }
        // These are objects, whose metadata the header cannot store.
        for metadata in ["[]", r#"{"name":7}"#, r#"{"name":"\ud800"}"#, r#"{"generation":1e999}"#] {
            let json = format!(r#"{{"metadata":{metadata}}}"#);
            let refused = compactor.pack(json.as_bytes()).unwrap_err();
            assert!(matches!(refused, PackError::Metadata(_)), "{json}: {refused:?}");
        }
    }
}

#[test]
fn object_of_another_shape_stays_stored_and_its_error_names_the_key() {
    let json = r#"{"metadata":{"namespace":"shop","name":"a"},"spec":7}"#;
    let object = pods().pack(json.as_bytes()).unwrap();
    let error = object.decode().unwrap_err();
    assert_eq!(error.key(), "shop/a");
    assert!(matches!(error.failure(), DecodeFailure::Json(_)));
    assert!(error.to_string().contains("shop/a"));
    assert_eq!(object.raw_json().unwrap(), json);
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

/// Returns object `number` of a workload that has been changed `roll` times. The content is unique
/// to the workload and the number of changes.
fn small(workload: usize, roll: usize, number: usize) -> String {
    let seed = (workload * 2 + roll + 1) as u64;
    let noise = |at: u64| format!("{:016x}", (seed + at).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    format!(
        r#"{{"metadata":{{"name":"w{workload}-{roll}-{number}","generateName":"w{workload}-{roll}-","uid":"{number}"}},"data":"{}{}"}}"#,
        noise(0),
        noise(1 << 40)
    )
}

#[test]
fn ten_thousand_workloads_that_roll_at_once_leave_nothing_behind() {
    let workloads = if cfg!(miri) { 10 } else { 10_000 };
    let compactor = Compactor::<Value>::builder().train(true).build();
    let pack = |roll| -> Vec<_> {
        let pack = |at| compactor.pack(small(at % workloads, roll, at).as_bytes()).unwrap();
        (0..2 * workloads).map(pack).collect()
    };
    let pass = |objects: &[_]| {
        compactor.end_list();
        for object in objects {
            compactor.repack(object);
        }
        let stats = compactor.stats();
        (stats.bytes + stats.base_bytes, stats)
    };
    let old = pack(0);
    let (before, _) = pass(&old);
    let new = pack(1);
    let (both, stats) = pass(&new);
    assert_eq!((stats.packed, stats.objects), (4 * workloads as u64, 4 * workloads));
    assert!(both < before * 5 / 2, "{both} bytes with the new objects, {before} without");
    drop(old);
    let (after, stats) = pass(&new);
    assert!(after < before * 5 / 4, "{after} bytes after the change, {before} before");
    assert!(stats.bases <= workloads && stats.unpacked_base_bytes <= 4 << 20, "{stats:?}");
    assert!(compactor.groups.count() <= workloads, "{}", compactor.groups.count());
    for (at, object) in new.iter().enumerate() {
        assert_eq!(object.raw_json().unwrap(), small(at % workloads, 1, at));
    }
}

#[test]
#[cfg(miri)]
fn codec_without_memory_loses_nothing() {
    use super::standin::IS_OUT_OF_MEMORY;

    let compactor = pods();
    let first = pack(&compactor, &pod(1, 1));
    IS_OUT_OF_MEMORY.set(true);
    let second = pack(&compactor, &pod(1, 2));
    assert_eq!(second.raw_json().unwrap(), pod(1, 2), "it is stored unpacked");
    for _ in 0..2 {
        let error = first.decode().unwrap_err();
        assert_eq!(error.key(), "shop/w1-1");
        assert!(matches!(error.failure(), DecodeFailure::Unpack(_)));
        compactor.end_list();
        [&first, &second].map(|object| compactor.repack(object));
    }
    IS_OUT_OF_MEMORY.set(false);
    let third = pack(&compactor, &pod(1, 3));
    for (at, object) in [first, second, third].iter().enumerate() {
        compare(object, &pod(1, at + 1));
    }
}

#[test]
#[cfg(miri)]
fn object_that_cannot_be_packed_again_keeps_its_form() {
    use super::standin::DOES_NOT_PACK;

    let compactor = pods();
    let objects: Vec<_> = (0..16).map(|at| pack(&compactor, &pod(at / 2, at))).collect();
    let bytes = || {
        let stats = compactor.stats();
        stats.bytes + stats.base_bytes
    };
    let before = bytes();
    DOES_NOT_PACK.set(true);
    // Trains a dictionary, with which all bases and some objects would be packed again.
    compactor.end_list();
    for object in &objects {
        compactor.repack(object);
    }
    DOES_NOT_PACK.set(false);
    assert_eq!(bytes(), before);
    for object in &objects {
        compactor.repack(object);
    }
    assert!(bytes() < before, "{} bytes, {before} before", bytes());
    for (at, object) in objects.iter().enumerate() {
        compare(object, &pod(at / 2, at));
    }
}

#[test]
fn debug_prints_no_data() {
    let json = r#"{"metadata":{"name":"a","labels":{"b":"hidden"}},"data":{"c":"hidden"}}"#;
    let object = Compactor::<ConfigMap>::builder().build().pack(json.as_bytes()).unwrap();
    let debug = format!("{object:?}");
    assert!(debug.contains("\"a\"") && !debug.contains("hidden"), "{debug}");
}

#[test]
fn accessor_of_other_objects_reads_compact_ones() {
    let compactor = pods();
    let [one, again, other] = [1, 1, 2].map(|at| compactor.pack(pod(1, at).as_bytes()).unwrap());
    assert_eq!(KeyFunc::meta_namespace(KubeMeta).key(&*one).unwrap(), "shop/w1-1");
    assert_eq!(KubeMeta.version(&*one), Some("1"));
    assert_eq!(KubeMeta.label(&*one, "app"), Some("w1"));
    assert_eq!(KubeMeta.label(&*one, "ap"), None);
    assert_eq!(KubeMeta.uid(&*one), KubeMeta.uid(&*again));
    assert_ne!(KubeMeta.uid(&*one), KubeMeta.uid(&*other));
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

#[test]
fn validated_object_whose_destructor_panics_is_stored() {
    #[derive(Deserialize)]
    struct Panicking {}

    impl Drop for Panicking {
        fn drop(&mut self) {
            panic!("the destructor of a decoded object");
        }
    }

    let compactor = Compactor::<Panicking>::builder().validate(true).build();
    let object = compactor.pack(br#"{"metadata":{"name":"a"}}"#).unwrap();
    assert_eq!(object.name(), Some("a"));
}

#[test]
fn hashes_change_with_annotations_and_finalizers() {
    let compactor = Compactor::<ConfigMap>::builder().build();
    let hashes = |annotations: &str, finalizers: &str| {
        let json = format!(
            r#"{{"metadata":{{"name":"a","annotations":{annotations},"finalizers":{finalizers}}}}}"#
        );
        let object = compactor.pack(json.as_bytes()).unwrap();
        (object.annotations_hash(), object.finalizers_hash())
    };
    let (annotations, finalizers) = hashes(r#"{"a":"b"}"#, r#"["x"]"#);
    assert_eq!(hashes(r#"{"a":"b"}"#, r#"["y"]"#).0, annotations);
    assert_eq!(hashes(r#"{"a":"c"}"#, r#"["x"]"#).1, finalizers);
    assert_ne!(hashes(r#"{"a":"c"}"#, r#"["y"]"#), (annotations, finalizers));
    assert_ne!(hashes(r#"{"a":"c"}"#, "null").0, annotations);
    assert_eq!(hashes("null", "null"), (None, None));
}

#[test]
fn hashes_do_not_depend_on_how_equal_metadata_is_written() {
    let compactor = Compactor::<ConfigMap>::builder().build();
    let hash = |field: &str, value: &str| {
        let json = format!(r#"{{"metadata":{{"name":"a","{field}":{value}}}}}"#);
        let object = compactor.pack(json.as_bytes()).unwrap();
        object.annotations_hash().or(object.finalizers_hash()).unwrap()
    };
    let annotations = hash("annotations", r#"{"x":"1","y":"2"}"#);
    for equal in [
        r#"{"y":"2","x":"1"}"#,
        r#"{ "x": "1", "y": "2" }"#,
        r#"{"\u0078":"\u0031","y":"2"}"#,
        r#"{"x":"0","y":"2","x":"1"}"#,
    ] {
        assert_eq!(hash("annotations", equal), annotations, "{equal}");
    }
    for other in [r#"{"x":"2","y":"1"}"#, r#"{"x":"1"}"#, "{}", r#"{"x":1}"#, r#"["x","1"]"#] {
        assert_ne!(hash("annotations", other), annotations, "{other}");
    }
    let finalizers = hash("finalizers", r#"["x","y"]"#);
    assert_eq!(hash("finalizers", r#"[ "\u0078", "y" ]"#), finalizers);
    for other in [r#"["y","x"]"#, r#"["xy"]"#, "[]", r#""xy""#] {
        assert_ne!(hash("finalizers", other), finalizers, "{other}");
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
