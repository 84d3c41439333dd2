//! An object: its metadata, the rest, and how it is written in an answer.

use bytes::{BufMut, BytesMut};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::Resource;
use crate::status::{self, Refused};

pub(crate) type Fields = Map<String, Value>;

/// Where an object is. In the order of lists: by namespace, then by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// `""` for what is in none.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What somebody wants an object to be. `kind` and `apiVersion` are its resource's, so they are
/// not kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    pub(crate) metadata: Fields,
    pub(crate) rest: Fields,
}

/// An object at a version.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) draft: Draft,
}

/// How much of an object an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of it.
    Whole,
    /// All but `kind` and `apiVersion`: an item of a built-in kind's list.
    Item,
    /// The metadata, as the kind `PartialObjectMetadata`.
    Partial,
}

/// The text at `field`; `""` when there is none.
pub(crate) fn text<'a>(fields: &'a Fields, field: &str) -> &'a str {
    fields.get(field).and_then(Value::as_str).unwrap_or_default()
}

impl Draft {
    /// Refuses what is no object, or another kind's.
    pub(crate) fn new(value: Value, resource: &Resource) -> Refused<Self> {
        let refuse = |why: &str| {
            let (kind, api_version) = (resource.kind(), resource.api_version());
            Err(Box::new(status::bad_request(&format!(
                "{kind} in version {api_version:?} cannot be handled: {why}"
            ))))
        };
        let Value::Object(mut rest) = value else {
            return refuse("it is no JSON object");
        };
        for (field, known) in [("apiVersion", resource.api_version()), ("kind", resource.kind())] {
            match rest.remove(field) {
                None | Some(Value::Null) => {}
                Some(said) if said == known => {}
                Some(said) => return refuse(&format!("its {field} is {said}")),
            }
        }
        match rest.remove("metadata") {
            None | Some(Value::Null) => Ok(Self { metadata: Fields::new(), rest }),
            Some(Value::Object(metadata)) => Ok(Self { metadata, rest }),
            Some(_) => refuse("its metadata is no JSON object"),
        }
    }

    pub(crate) fn parse(json: &[u8], resource: &Resource) -> Refused<Self> {
        let value = serde_json::from_slice(json).map_err(|error| {
            status::bad_request(&format!(
                "the body of the request is no JSON ({}): {error}",
                resource.kind()
            ))
        })?;
        Self::new(value, resource)
    }

    /// The object that it becomes.
    pub(crate) fn seal(mut self, key: Key, version: u64) -> Object {
        self.metadata.insert("name".to_owned(), key.name.as_str().into());
        match key.namespace.as_str() {
            "" => self.metadata.remove("namespace"),
            namespace => self.metadata.insert("namespace".to_owned(), namespace.into()),
        };
        self.metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        Object { key, version, draft: self }
    }

    /// Marks it as new: a uid of its own, and when it was made.
    pub(crate) fn begin(&mut self, version: u64, created: &str) {
        self.metadata
            .insert("uid".to_owned(), format!("00000000-0000-4000-8000-{version:012x}").into());
        self.metadata.insert("creationTimestamp".to_owned(), created.into());
        self.metadata.remove("deletionTimestamp");
        self.metadata.remove("deletionGracePeriodSeconds");
    }

    /// Whether something holds the object back when it is deleted.
    pub(crate) fn has_finalizers(&self) -> bool {
        self.metadata
            .get("finalizers")
            .and_then(Value::as_array)
            .is_some_and(|finalizers| !finalizers.is_empty())
    }
}

impl Object {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.draft.metadata.get("labels")?.get(key)?.as_str()
    }

    pub(crate) fn uid(&self) -> &str {
        text(&self.draft.metadata, "uid")
    }

    /// The same object, said to be of another version: what a deletion shows.
    pub(crate) fn at(&self, version: u64) -> Self {
        self.draft.clone().seal(self.key.clone(), version)
    }

    pub(crate) fn to_json(&self, resource: &Resource, shape: Shape) -> Value {
        serde_json::to_value(Shown { object: self, resource, shape }).unwrap_or_default()
    }

    /// Appends it as JSON.
    pub(crate) fn write(&self, resource: &Resource, shape: Shape, out: &mut BytesMut) {
        serde_json::to_writer(out.writer(), &Shown { object: self, resource, shape })
            .expect("JSON values are written to memory");
    }
}

struct Shown<'a> {
    object: &'a Object,
    resource: &'a Resource,
    shape: Shape,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.shape != Shape::Item {
            let (kind, api_version) = self.shape.types(self.resource);
            map.serialize_entry("kind", kind)?;
            map.serialize_entry("apiVersion", api_version)?;
        }
        map.serialize_entry("metadata", &self.object.draft.metadata)?;
        if self.shape != Shape::Partial {
            for (field, value) in &self.object.draft.rest {
                map.serialize_entry(field, value)?;
            }
        }
        map.end()
    }
}

impl Shape {
    /// `kind` and `apiVersion` of one object.
    pub(crate) fn types(self, resource: &Resource) -> (&str, &str) {
        match self {
            Self::Partial => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            Self::Whole | Self::Item => (resource.kind(), resource.api_version()),
        }
    }
}
