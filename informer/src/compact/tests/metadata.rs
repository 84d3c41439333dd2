//! Tests of what can be read without decoding: metadata, labels and named fields.

use deltafifo::{KeyFunc, Labels, Meta};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use super::rig::{MANY, compare, pack, pod, pods, update};
use crate::KubeMeta;
use crate::compact::Compactor;

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
    let with = Compactor::builder().field(pointer).unwrap().types("v1", "Pod").build();
    let without = pods();
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
    let builder = Compactor::<Pod>::builder().field("/spec/nodeName").unwrap();
    let object =
        pack(&builder.field("/kind").unwrap().build(), r#"{"metadata":{"name":"a"},"kind":"Pod"}"#);
    assert_eq!(object.field("/spec/nodeName").unwrap(), None);
    assert_eq!(object.field("/kind").unwrap().as_deref(), Some("Pod"));
    let error = object.field("/spec/nodename").unwrap_err().to_string();
    assert!(error.starts_with("field \"/spec/nodename\" of a compact object"), "{error}");
}

#[test]
fn pointer_without_a_leading_slash_is_refused() {
    let error = Compactor::<Pod>::builder().field("spec/nodeName").map(drop).unwrap_err();
    let expected = "the JSON pointer \"spec/nodeName\" does not begin with `/`";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn debug_prints_no_data() {
    let json = r#"{"metadata":{"name":"a","labels":{"b":"hidden"}},"data":{"c":"hidden"}}"#;
    let object = Compactor::<ConfigMap>::builder().build().pack(json.as_bytes()).unwrap();
    let debug = format!("{object:?}");
    assert!(debug.contains("\"a\"") && !debug.contains("hidden"), "{debug}");
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
