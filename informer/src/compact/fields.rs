//! The metadata of an object, read from its text before the text is compressed.
//!
//! This pass also proves that the text is JSON: it goes through all of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Reads the metadata of the object `json`. An object without metadata has no fields.
///
/// # Errors
/// If `json` is not a JSON object, if a field of the metadata has a wrong type, or if a label or a
/// field that Kubernetes defines occurs twice: readers of such an object would not agree on its
/// metadata.
pub(super) fn read(json: &str) -> serde_json::Result<Fields<'_>> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Option<Struct<Fields<'a>>>,
    }

    let Struct(Object { metadata }) = serde_json::from_str(json)?;
    Ok(metadata.map(|Struct(fields)| fields).unwrap_or_default())
}

/// The fields of an object's metadata that are stored in a header or determine the group. The
/// fields that begin with an underscore are declared only because serde refuses duplicates of
/// declared fields, and ignores all others.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "they are the names of Kubernetes")]
pub(super) struct Fields<'a> {
    #[serde(borrow)]
    pub(super) namespace: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) generate_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) resource_version: Option<Text<'a>>,
    pub(super) generation: Option<i64>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    finalizers: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<LabelFields<'a>>,
    #[serde(borrow)]
    owner_references: Option<Vec<Struct<OwnerFields<'a>>>>,
    /// The fields that the user has named, in the order of `Common::named`. They are not part of
    /// the metadata, and are read separately.
    #[serde(skip)]
    pub(super) named: Vec<Option<Cow<'a, str>>>,
    #[serde(rename = "creationTimestamp")]
    _creation_timestamp: Option<IgnoredAny>,
    #[serde(rename = "deletionGracePeriodSeconds")]
    _deletion_grace_period_seconds: Option<IgnoredAny>,
    #[serde(rename = "managedFields")]
    _managed_fields: Option<IgnoredAny>,
    #[serde(rename = "selfLink")]
    _self_link: Option<IgnoredAny>,
}

/// An owner reference, field by field as in the JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerFields<'a> {
    #[serde(borrow)]
    pub(super) api_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Text<'a>>,
    pub(super) controller: Option<bool>,
    pub(super) block_owner_deletion: Option<bool>,
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Labels in the order of their keys.
struct LabelFields<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'a> Fields<'a> {
    /// Returns the labels in the order of their keys.
    pub(super) fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let labels = self.labels.as_ref().map_or(&[][..], |labels| &labels.0);
        labels.iter().map(|(key, value)| (&*key.0, &*value.0))
    }

    pub(super) fn owners(&self) -> impl ExactSizeIterator<Item = &OwnerFields<'a>> {
        self.owner_references
            .iter()
            .flatten()
            .map(|Struct(owner)| owner)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Returns a hash of the finalizers.
    pub(super) fn finalizers_hash(&self, state: &impl BuildHasher) -> Option<u64> {
        self.finalizers.map(|json| hash_of_value::<Vec<Text>>(json, state))
    }

    /// Returns a hash of the annotations. It does not depend on their order.
    pub(super) fn annotations_hash(&self, state: &impl BuildHasher) -> Option<u64> {
        self.annotations.map(|json| hash_of_value::<BTreeMap<Text, Text>>(json, state))
    }

    /// Returns a hash that is equal for objects of one workload. It is the hash of the
    /// controller's uid, or else of the prefix of the generated name, or else of the labels, or
    /// else of the name (for a `ConfigMap` that every namespace has). `None` if the object has
    /// none of these.
    pub(super) fn group(&self, state: &impl BuildHasher) -> Option<u64> {
        let controller = self.owners().find(|owner| owner.controller == Some(true));
        let controller = controller.and_then(|owner| owner.uid.as_ref());
        if let Some(Text(uid)) = controller.or(self.generate_name.as_ref()) {
            return Some(state.hash_one(uid));
        }
        if self.labels().len() > 0 {
            return Some(state.hash_one(self.labels().collect::<Vec<_>>()));
        }
        self.name.as_ref().map(|Text(name)| state.hash_one(("name", name)))
    }

    /// Returns a number that is equal for all versions of an object: a hash of the uid, or else of
    /// the namespace and the name.
    pub(super) fn identity(&self, state: &impl BuildHasher) -> u32 {
        let hash = if let Some(Text(uid)) = &self.uid {
            state.hash_one(uid)
        } else {
            let key = [&self.namespace, &self.name];
            state.hash_one(key.map(|text| text.as_ref().map(|Text(text)| text)))
        };
        (hash >> 32) as u32
    }
}

/// Returns a hash of the value of type `T` that `json` contains, or of the text if there is none. A
/// server need not write equal values alike: blank space and escapes do not change the hash of a
/// value.
fn hash_of_value<'a, T: Deserialize<'a> + Hash>(
    json: &'a RawValue,
    state: &impl BuildHasher,
) -> u64 {
    match serde_json::from_str::<T>(json.get()) {
        Ok(value) => state.hash_one(value),
        Err(_) => state.hash_one(json.get()),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LabelFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LabelsVisitor<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for LabelsVisitor<'a> {
            type Value = LabelFields<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels: Vec<(Text, Text)> = Vec::new();
                while let Some(label) = map.next_entry()? {
                    labels.push(label);
                }
                // An API server writes them in this order.
                labels.sort_by(|(one, _), (other, _)| one.0.cmp(&other.0));
                if labels.windows(2).any(|pair| pair[0].0.0 == pair[1].0.0) {
                    return Err(A::Error::custom("duplicate label"));
                }
                Ok(LabelFields(labels))
            }
        }

        deserializer.deserialize_map(LabelsVisitor(PhantomData))
    }
}

/// A wrapper of a struct that is read from a JSON object only. Derived code would accept an array,
/// too.
struct Struct<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Struct<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Struct<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Struct<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Struct)
            }
        }

        deserializer.deserialize_map(Object(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn null_fields_count_as_missing() {
        let json = r#"{"metadata":{"name":null,"labels":null,"annotations":null,"generation":null,
            "deletionTimestamp":null,"ownerReferences":null,"finalizers":null}}"#;
        for json in [json, r#"{"metadata":null}"#, "{}"] {
            let fields = read(json).unwrap();
            assert!(fields.name.is_none() && fields.deletion_timestamp.is_none(), "{json}");
            assert!(fields.annotations.is_none() && fields.finalizers.is_none(), "{json}");
            assert_eq!((fields.labels().len(), fields.owners().len()), (0, 0), "{json}");
        }
    }

    #[test]
    fn metadata_that_readers_would_not_agree_on_is_refused() {
        for json in [
            "[]",
            "null",
            "7",
            r#"[{"name":"a"}]"#,
            r#"{"metadata":{"name":"a"}} x"#,
            r#"{"metadata":["a"]}"#,
            r#"{"metadata":{"name":7}}"#,
            r#"{"metadata":{"name":"a","name":"b"}}"#,
            r#"{"metadata":{"n\u0061me":"a","name":"b"}}"#,
            r#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#,
            r#"{"metadata":{"creationTimestamp":"a","creationTimestamp":"b"}}"#,
            r#"{"metadata":{"generation":9223372036854775808}}"#,
            r#"{"metadata":{"labels":{"a":"b","a":"c"}}}"#,
            r#"{"metadata":{"labels":{"a":null}}}"#,
            r#"{"metadata":{"labels":["a","b"]}}"#,
            r#"{"metadata":{"ownerReferences":[["v1"]]}}"#,
            r#"{"metadata":{"ownerReferences":[{"uid":"a","uid":"b"}]}}"#,
            r#"{"metadata":{"name":"a"},"spec":{"a":tru}}"#,
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    #[test]
    fn duplicate_of_a_field_of_object_meta_is_refused_and_of_an_unknown_field_is_ignored() {
        for field in [
            "annotations",
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "finalizers",
            "generateName",
            "generation",
            "labels",
            "managedFields",
            "name",
            "namespace",
            "ownerReferences",
            "resourceVersion",
            "selfLink",
            "uid",
        ] {
            let json = format!(r#"{{"metadata":{{"{field}":null,"{field}":null}}}}"#);
            let error = read(&json).err().expect(field).to_string();
            assert!(error.contains("duplicate field"), "{field}: {error}");
        }
        assert!(read(r#"{"metadata":{"unknown":1,"unknown":2}}"#).is_ok());
    }

    #[test]
    fn deep_nesting_outside_the_metadata_is_read() {
        let deep = if cfg!(miri) { 1_000 } else { 100_000 };
        let json = format!(r#"{{"a":{}{},"metadata":{{}}}}"#, "[".repeat(deep), "]".repeat(deep));
        assert!(read(&json).is_ok());
    }

    #[test]
    fn group_is_found_by_controller_then_generated_name_then_labels_then_name() {
        let group = |metadata: &str| {
            let json = format!(r#"{{"metadata":{{{metadata}}}}}"#);
            read(&json).unwrap().group(&foldhash::fast::FixedState::default())
        };
        let owner = |uid: &str, is_controller: bool| {
            format!(r#""ownerReferences":[{{"uid":"{uid}","controller":{is_controller}}}]"#)
        };
        let (named, labels) = (r#""name":"a""#, r#""labels":{"a":"b","c":"d"}"#);
        let generated = r#""generateName":"a-""#;
        assert_eq!(group(""), None);
        let all = [
            group(&format!("{named},{labels},{generated},{}", owner("1", true))),
            group(&format!("{named},{labels},{generated},{}", owner("1", false))),
            group(&format!("{named},{labels}")),
            group(named),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(one.is_some());
            assert!(!all[..at].contains(one), "{all:?}");
        }
        assert_eq!(all[0], group(&format!(r#""name":"b",{}"#, owner("1", true))));
        assert_ne!(all[0], group(&owner("2", true)));
        assert_eq!(all[1], group(generated));
        assert_eq!(all[2], group(r#""labels":{"c":"d","a":"b"}"#), "in any order");
    }
}
