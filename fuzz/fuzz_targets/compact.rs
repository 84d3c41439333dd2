//! Packs arbitrary texts with one compactor. Either the compactor refuses a text, or unpacking
//! returns the text unchanged, except for the members that the compactor cuts out. This must hold
//! even after dictionaries have been trained and the text has been packed again. If the packed
//! bytes, their base or their dictionary are damaged, unpacking must return an error that names the
//! key, or a text of the same length.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use deltafifo_informer::compact::{Compact, Compactor, PackError};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

type Objects<'i> = Vec<(&'i [u8], Arc<Compact<Value>>)>;

/// The settings of the compactor, as the first byte of an input chooses them.
#[derive(Clone, Copy)]
struct Choices {
    trains: bool,
    prunes: bool,
    caches_bases: bool,
}

fuzz_target!(|input: &[u8]| {
    let [choices, at, xor, kept, texts @ ..] = input else { return };
    let choices = Choices {
        trains: choices & 1 != 0,
        prunes: choices & 2 != 0,
        caches_bases: choices & 4 != 0,
    };
    let compactor = compactor(choices);
    let mut objects: Objects = Vec::new();
    for text in texts.split(|byte| *byte == b'\n') {
        match compactor.pack(text) {
            Ok(object) => objects.push((text, object)),
            Err(error) => check_refused(text, &error),
        }
    }
    compare(&objects, choices);
    compactor.end_list();
    compare(&objects, choices);
    objects.iter().for_each(|(_, object)| compactor.repack(object));
    compare(&objects, choices);

    let count = objects.len();
    for place in 0..count {
        let (object, other) = (&objects[place].1, &objects[usize::from(*kept) % count].1);
        object.damage(other, usize::from(*at), *xor, usize::from(*kept));
        match object.raw_json() {
            Ok(text) => assert_eq!(text.len(), object.raw_size()),
            Err(error) => assert_eq!(error.key(), key(object)),
        }
        let _ = object.decode();
        compactor.repack(object);
    }
    drop(objects);
    let stats = compactor.stats();
    assert_eq!((stats.objects, stats.bytes, stats.raw_bytes, stats.bases), (0, 0, 0, 0));
    assert_eq!((stats.base_bytes, stats.unpacked_base_bytes), (0, 0));
});

fn compactor(choices: Choices) -> Compactor<Value> {
    let mut builder = Compactor::builder().train(choices.trains);
    if choices.prunes {
        builder = builder.without(&["metadata", "managedFields"]).without(&["status"]);
    }
    if !choices.caches_bases {
        builder = builder.base_cache(0);
    }
    builder.build()
}

/// Checks that a refused text is not a JSON object, or is one with `metadata`. The compactor may
/// refuse metadata that it cannot read.
fn check_refused(text: &[u8], error: &PackError) {
    if let Ok(Value::Object(members)) = serde_json::from_slice(text) {
        assert!(members.contains_key("metadata"), "{error:?}");
    }
}

fn compare(objects: &Objects, choices: Choices) {
    for (text, object) in objects {
        let found = object.raw_json().expect("it is not damaged");
        assert_eq!(found.len(), object.raw_size());
        // A value that a parser refuses, such as a number that is too large, is kept unchanged.
        let received = serde_json::from_slice::<Value>(text).map(|value| pruned(value, choices));
        let decoded = object.decode();
        assert_eq!(decoded.ok(), serde_json::from_str(&found).ok());
        if !choices.prunes {
            assert_eq!(found.as_bytes(), text.trim_ascii());
        } else if let Ok(received) = received {
            assert_eq!(serde_json::from_str::<Value>(&found).expect("it is JSON"), received);
        }
        let value: Value = serde_json::from_str(&found).unwrap_or_default();
        if value != Value::Null {
            compare_header(object, &value["metadata"]);
        }
    }
}

fn compare_header(object: &Compact<Value>, metadata: &Value) {
    let text = |name: &str| metadata[name].as_str();
    assert_eq!(object.name(), text("name"));
    assert_eq!(object.namespace(), text("namespace"));
    assert_eq!(object.uid().as_deref(), text("uid"));
    assert_eq!(object.resource_version(), text("resourceVersion"));
    assert_eq!(object.generation(), metadata["generation"].as_i64());
    assert_eq!(object.is_being_deleted(), !metadata["deletionTimestamp"].is_null());
    assert_eq!(object.annotations_hash().is_some(), !metadata["annotations"].is_null());
    assert_eq!(object.finalizers_hash().is_some(), !metadata["finalizers"].is_null());
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let labels: BTreeMap<_, _> = labels.map(|(key, value)| (&**key, value.as_str())).collect();
    assert!(object.labels().map(|(key, value)| (key, Some(value))).eq(labels));
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let found: Vec<_> = object.owner_references().collect();
    assert_eq!(found.len(), owners.clone().count());
    for (found, owner) in found.iter().zip(owners) {
        let text = |name: &str| owner[name].as_str().unwrap_or_default();
        assert_eq!((found.api_version, found.kind), (text("apiVersion"), text("kind")));
        assert_eq!((found.name, &*found.uid), (text("name"), text("uid")));
        assert_eq!(found.controller, owner["controller"] == true);
        assert_eq!(found.block_owner_deletion, owner["blockOwnerDeletion"] == true);
    }
}

/// Removes the members from `value` that the compactor cuts out.
fn pruned(mut value: Value, choices: Choices) -> Value {
    if choices.prunes {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        if let Some(members) = value.as_object_mut() {
            members.remove("status");
        }
    }
    value
}

fn key(object: &Compact<Value>) -> String {
    let name = object.name().unwrap_or_default();
    match object.namespace().filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
