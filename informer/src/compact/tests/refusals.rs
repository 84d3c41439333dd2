//! Tests of texts that are refused when they are packed or decoded.

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::Value;

use super::rig::pods;
use crate::compact::{CompactStats, Compactor, DecodeFailure, PackError};

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
