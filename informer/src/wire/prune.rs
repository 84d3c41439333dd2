//! Decodes an object without the members that the user removes. These members use no memory, and
//! no time except for skipping them. Also adds `apiVersion` and `kind` to an item of a list that
//! does not have them.
//!
//! A serde type asks its deserializer for a value of a certain shape, and passes a visitor for it.
//! The deserializers and visitors of the object, and of the objects on the path to a removed
//! member, are wrapped here; all others are used unchanged.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny,
    IntoDeserializer, MapAccess, SeqAccess, Visitor,
};

/// The members of an object that are removed.
#[derive(Clone, Debug, Default)]
pub struct Prune {
    members: HashMap<String, Member>,
}

/// The treatment of a member of an object: left out, or kept without some of its own members.
#[derive(Clone, Debug)]
pub(crate) enum Member {
    LeftOut,
    /// The member is kept, without some of its own members.
    Pruned(Prune),
}

impl Prune {
    /// Removes the member at the end of `path`, which begins at the object. An empty path removes
    /// nothing.
    pub(crate) fn leave_out(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert((*last).to_owned(), Member::LeftOut);
            }
            [first, rest @ ..] => {
                let stays = || Member::Pruned(Self::default());
                if let Member::Pruned(member) =
                    self.members.entry((*first).to_owned()).or_insert_with(stays)
                {
                    member.leave_out(rest);
                }
            }
        }
    }

    /// Removes all members that `other` removes.
    #[cfg(feature = "compact")]
    pub(crate) fn leave_out_all(&mut self, other: &Self) {
        for (name, member) in &other.members {
            match member {
                Member::LeftOut => self.leave_out(&[name]),
                Member::Pruned(other) => {
                    let stays = || Member::Pruned(Self::default());
                    let mine = self.members.entry(name.clone()).or_insert_with(stays);
                    if let Member::Pruned(mine) = mine {
                        mine.leave_out_all(other);
                    }
                }
            }
        }
    }

    #[cfg(feature = "compact")]
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the change to the member `name`; `None` if it stays whole.
    #[cfg(feature = "compact")]
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members.get(name)
    }

    /// Decodes an object without the removed members. Adds `types` if the object has none.
    ///
    /// The text is a `str`, because serde would otherwise check each string in it. With one check
    /// of the whole text, pods decode in two thirds of the time.
    pub(crate) fn decode<K: DeserializeOwned>(
        &self,
        text: &str,
        types: Option<&Types>,
    ) -> serde_json::Result<K> {
        if self.members.is_empty() && types.is_none() {
            return serde_json::from_str(text);
        }
        let mut inner = serde_json::Deserializer::from_str(text);
        let object = K::deserialize(Pruned { inner: &mut inner, prune: self, types })?;
        inner.end()?;
        Ok(object)
    }
}

/// The `apiVersion` and `kind` of a list's items.
#[derive(Debug)]
pub struct Types {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

impl Types {
    pub(crate) fn new((api_version, kind): (&str, &str)) -> Self {
        Self { api_version: api_version.to_owned(), kind: kind.to_owned() }
    }
}

/// A wrapper of a deserializer, visitor or seed of the object, or of an object on the path to a
/// removed member.
struct Pruned<'p, T> {
    inner: T,
    prune: &'p Prune,
    /// The `apiVersion` and `kind` to add. `Some` for the object itself only.
    types: Option<&'p Types>,
}

impl<'p, T> Pruned<'p, T> {
    fn of<U>(&self, inner: U) -> Pruned<'p, U> {
        Pruned { inner, prune: self.prune, types: self.types }
    }
}

/// Implements methods of a wrapped deserializer by the same methods of the inner one, with an
/// unchanged visitor: no path to a removed member leads through a value of the requested type.
macro_rules! delegate_deserialize {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method($($argument,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Pruned<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.of(visitor);
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.of(visitor);
        self.inner.deserialize_map(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.of(visitor);
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.of(visitor);
        self.inner.deserialize_option(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.of(visitor);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    delegate_deserialize! {
        deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128() deserialize_f32()
        deserialize_f64() deserialize_char() deserialize_str() deserialize_string() deserialize_bytes()
        deserialize_byte_buf() deserialize_unit() deserialize_unit_struct(name: &'static str) deserialize_seq()
        deserialize_tuple(len: usize) deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) deserialize_identifier()
        deserialize_ignored_any()
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Implements methods of a wrapped visitor by the same methods of the inner one: no path to a
/// removed member leads through a value of the visited type.
macro_rules! delegate_visit {
    ($($method:ident($type:ty))*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Pruned<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let (missing, value) =
            (self.types.map(|types| Missing::of(types, self.prune)), MemberValue::Plain);
        let members = PrunedMembers { inner: map, prune: self.prune, missing, value };
        self.inner.visit_map(members)
    }

    fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<V::Value, D::Error> {
        let some = self.of(some);
        self.inner.visit_some(some)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, newtype: D) -> Result<V::Value, D::Error> {
        let newtype = self.of(newtype);
        self.inner.visit_newtype_struct(newtype)
    }

    delegate_visit! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128) visit_u8(u8)
        visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128) visit_f32(f32) visit_f64(f64) visit_char(char)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(seq)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(data)
    }
}

/// The members of an object without the removed ones, followed by the `apiVersion` and `kind` to
/// add if the object does not have them.
struct PrunedMembers<'p, A> {
    inner: A,
    prune: &'p Prune,
    missing: Option<Missing<'p>>,
    /// The treatment of the value whose name was returned last.
    value: MemberValue<'p>,
}

/// The treatment of a member's value.
enum MemberValue<'p> {
    /// The value is passed on unchanged.
    Plain,
    /// The value is passed on without some of its members.
    Pruned(&'p Prune),
    /// The value is that of an added `apiVersion` or `kind`.
    Text(&'p str),
}

/// The `apiVersion` and `kind` to add to an object. Each becomes `None` when the object turns out
/// to have it, and both become `None` when the object turns out to have a `kind`.
struct Missing<'p> {
    api_version: Option<&'p str>,
    kind: Option<&'p str>,
}

impl<'p> Missing<'p> {
    const API_VERSION: &'static str = "apiVersion";
    const KIND: &'static str = "kind";

    fn of(types: &'p Types, prune: &Prune) -> Self {
        let stays = |name| !matches!(prune.members.get(name), Some(Member::LeftOut));
        Self {
            api_version: stays(Self::API_VERSION).then_some(&types.api_version),
            kind: stays(Self::KIND).then_some(&types.kind),
        }
    }

    /// Records that the object has this member.
    fn record(&mut self, name: &str) {
        match name {
            Self::API_VERSION => self.api_version = None,
            // An object with a `kind` is taken to have both.
            Self::KIND => (self.api_version, self.kind) = (None, None),
            _ => {}
        }
    }

    /// Takes the next member to add, `apiVersion` before `kind`. Returns its name and value, or
    /// `None` if no member is left to add.
    fn take(&mut self) -> Option<(&'static str, &'p str)> {
        let api_version = self.api_version.take().map(|value| (Self::API_VERSION, value));
        api_version.or_else(|| self.kind.take().map(|value| (Self::KIND, value)))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for PrunedMembers<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        while let Some(name) = self.inner.next_key_seed(MemberName)? {
            if let Some(missing) = &mut self.missing {
                missing.record(&name);
            }
            self.value = match self.prune.members.get(name.as_ref()) {
                Some(Member::LeftOut) => {
                    self.inner.next_value::<IgnoredAny>()?;
                    continue;
                }
                Some(Member::Pruned(prune)) => MemberValue::Pruned(prune),
                None => MemberValue::Plain,
            };
            return match name {
                Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)),
                Cow::Owned(name) => seed.deserialize(name.into_deserializer()),
            }
            .map(Some);
        }
        let Some((name, value)) = self.missing.as_mut().and_then(Missing::take) else {
            return Ok(None);
        };
        self.value = MemberValue::Text(value);
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match std::mem::replace(&mut self.value, MemberValue::Plain) {
            MemberValue::Plain => self.inner.next_value_seed(seed),
            MemberValue::Pruned(prune) => {
                self.inner.next_value_seed(Pruned { inner: seed, prune, types: None })
            }
            MemberValue::Text(text) => seed.deserialize(text.into_deserializer()),
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Pruned<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        let value = self.of(value);
        self.inner.deserialize(value)
    }
}

/// A seed that reads a member's name, borrowed if it has no escapes.
struct MemberName;

impl<'de> DeserializeSeed<'de> for MemberName {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for MemberName {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(name.into())
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(name.to_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::DynamicObject;
    use proptest::prelude::*;
    use serde_json::value::RawValue;
    use serde_json::{Map, Value, json};

    use super::{Prune, Types};

    fn without(paths: &[&[&str]]) -> Prune {
        let mut prune = Prune::default();
        for path in paths {
            prune.leave_out(path);
        }
        prune
    }

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "a", "annotations": { "big.example.com/x": "y", "b": "c" }, "managedFields": [{}] },
            "spec": { "nodeName": "n", "containers": [{ "name": "managedFields" }] },
            "status": { "phase": "Running" },
        })
    }

    #[test]
    fn typed_and_dynamic_objects_lack_the_pruned_fields() {
        let paths: [&[&str]; 3] = [
            &["metadata", "managedFields"],
            &["metadata", "annotations", "big.example.com/x"],
            &["status"],
        ];
        let prune = without(&paths);
        let json = pod().to_string();
        let pod: Pod = prune.decode(&json, None).unwrap();
        assert_eq!((pod.metadata.name.as_deref(), pod.metadata.managed_fields), (Some("a"), None));
        assert_eq!(
            pod.metadata.annotations.unwrap().into_iter().collect::<Vec<_>>(),
            [("b".into(), "c".into())]
        );
        assert_eq!(
            (pod.spec.unwrap().containers[0].name.as_str(), pod.status),
            ("managedFields", None)
        );
        let object: DynamicObject = prune.decode(&json, None).unwrap();
        assert_eq!(
            (object.metadata.managed_fields, object.types.unwrap().kind),
            (None, "Pod".to_owned())
        );
        assert_eq!(
            (&object.data["spec"]["nodeName"], object.data.get("status")),
            (&json!("n"), None)
        );
    }

    #[test]
    fn missing_kind_and_api_version_are_added() {
        let types = Types { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
        let leave_out: [&[&str]; 2] = [&["status"], &["kind"]];
        for prune in [without(&[]), without(&leave_out[..1])] {
            for (json, api_version, kind) in [
                (r#"{"metadata":{"name":"a"},"status":{}}"#, "v1", "Pod"),
                ("{}", "v1", "Pod"),
                (r#"{"apiVersion":"v2","metadata":{}}"#, "v2", "Pod"),
                (r#"{"kind":"Other","apiVersion":"v2"}"#, "v2", "Other"),
            ] {
                let object: Value = prune.decode(json, Some(&types)).unwrap();
                assert_eq!(
                    (object["apiVersion"].as_str(), object["kind"].as_str()),
                    (Some(api_version), Some(kind)),
                    "{json}"
                );
                let object: DynamicObject = prune.decode(json, Some(&types)).unwrap();
                let found = object.types.unwrap();
                assert_eq!(
                    (found.api_version.as_str(), found.kind.as_str()),
                    (api_version, kind),
                    "{json}"
                );
            }
            let pod: Pod = prune.decode(r#"{"metadata":{"name":"a"}}"#, Some(&types)).unwrap();
            assert_eq!(pod.metadata.name.as_deref(), Some("a"));
            assert!(prune.decode::<Value>("{} x", Some(&types)).is_err());
        }
        for json in [r#"{"kind":"Pod","apiVersion":"v1"}"#, "{}"] {
            let object: Value = without(&leave_out).decode(json, Some(&types)).unwrap();
            assert_eq!(
                object,
                json!({ "apiVersion": "v1" }),
                "a removed member is not added again"
            );
        }
    }

    #[test]
    fn raw_values_stay_whole() {
        let json = pod().to_string();
        let raw: Box<RawValue> = without(&[&["status"]]).decode(&json, None).unwrap();
        assert_eq!(raw.get(), json);
    }

    #[test]
    fn value_that_is_not_an_object_gives_the_same_error() {
        let prune = without(&[&["metadata", "managedFields"]]);
        for json in [
            "",
            "null",
            "1",
            "[]",
            "{",
            r#"{"metadata":1}"#,
            r#"{"metadata":{"managedFields":}}"#,
            "{} {}",
        ] {
            let error =
                |decoded: serde_json::Result<Pod>| decoded.map(|_| ()).unwrap_err().to_string();
            let (found, plain) =
                (error(prune.decode(json, None)), error(serde_json::from_str(json)));
            assert_eq!(found, plain, "{json}");
        }
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from)
        ];
        let name = || prop::sample::select(vec!["a", "b", "c", "\"\\"]).prop_map(str::to_owned);
        let value = leaf.prop_recursive(4, 32, 4, move |value| {
            prop_oneof![
                prop::collection::vec(value.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(name(), value, 0..4)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        });
        let name = || prop::sample::select(vec!["a", "b", "c", "\"\\"]).prop_map(str::to_owned);
        prop::collection::btree_map(name(), value, 0..4)
            .prop_map(|all| Value::Object(all.into_iter().collect()))
    }

    /// Removes the member at the end of `path` from a decoded object.
    fn take_out(object: &mut Map<String, Value>, path: &[&str]) {
        match path {
            [] => {}
            [last] => drop(object.remove(*last)),
            [first, rest @ ..] => {
                if let Some(Value::Object(member)) = object.get_mut(*first) {
                    take_out(member, rest);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn pruning_equals_removal_after_decoding(
            object in object(),
            paths in prop::collection::vec(prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "\"\\"]), 0..4), 0..4),
        ) {
            let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
            let mut expected = object.as_object().unwrap().clone();
            for path in &paths {
                take_out(&mut expected, path);
            }
            let found: Value = without(&paths).decode(&object.to_string(), None).unwrap();
            prop_assert_eq!(found, Value::Object(expected));
        }
    }
}
