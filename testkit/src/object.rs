//! Objects: metadata, other fields, and their JSON.

use bytes::{BufMut, BytesMut};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::Resource;
use crate::status::{self, Refused};
use crate::table::{self, Included};
use crate::types;

pub(crate) type Fields = Map<String, Value>;

/// The key of an object. Keys are in the order of lists: by namespace, then by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The namespace; empty for an object that is not in a namespace.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The content of an object that is to be written. `kind` and `apiVersion` are not kept, because
/// its resource has them.
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

/// The parts of an object that a response shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The whole object.
    Whole,
    /// The object without `kind` and `apiVersion`: an item of a list of a built-in kind.
    Item,
    /// The metadata alone, as kind `PartialObjectMetadata`.
    Partial,
    /// The object as a row of a table.
    Row(Included),
}

/// Returns the text of `field`, or `""` if there is none.
pub(crate) fn text<'a>(fields: &'a Fields, field: &str) -> &'a str {
    fields.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the uid of the object that was created at this version.
fn uid_of(version: u64) -> String {
    // The first digits differ from uid to uid, as those of random uids do. The hashes of uids that
    // differ only in their last digits are in few ranges of a `shardSelector`.
    let [.., a, b, c, d] = version.wrapping_mul(0x9e37_79b9).to_be_bytes();
    let first = u32::from_be_bytes([a, b, c, d]);
    format!("{first:08x}-0000-4000-8000-{version:012x}")
}

/// Returns whether this server has given the uid to an object at `newest` or before.
pub(crate) fn is_own_uid(uid: &str, newest: u64) -> bool {
    let version = uid.rsplit('-').next().and_then(|end| u64::from_str_radix(end, 16).ok());
    version.is_some_and(|version| version <= newest && uid_of(version) == uid)
}

impl Draft {
    /// Reads an object. Refuses a value that is not an object, or an object of another kind.
    pub(crate) fn new(value: Value, resource: &Resource) -> Refused<Self> {
        Self::read(value, resource).map_err(|why| Box::new(status::undecodable(resource, &why)))
    }

    /// Reads an object of a client. Refuses metadata of other types, too, and a custom resource
    /// without `kind` and `apiVersion`.
    pub(crate) fn decode(value: Value, resource: &Resource) -> Refused<Self> {
        let has = |field: &str| value.get(field).is_some_and(|text| !text.is_null() && text != "");
        if resource.is_custom()
            && let Some(missing) = ["kind", "apiVersion"].into_iter().find(|field| !has(field))
        {
            let why = format!("it has no {missing}, which a custom resource must have");
            return Err(Box::new(status::undecodable(resource, &why)));
        }
        let draft = Self::new(value, resource)?;
        match types::fault(&draft.metadata, &Fields::new()) {
            Some(why) => Err(Box::new(status::undecodable(resource, &why))),
            None => Ok(draft),
        }
    }

    /// Reads the result of a patch. Refuses what [`decode`](Self::decode) refuses, but not metadata
    /// that the object had before.
    pub(crate) fn patched(value: Value, resource: &Resource, before: &Fields) -> Refused<Self> {
        let refuse = |why: String| Box::new(status::invalid_patch(&why));
        let draft = Self::read(value, resource).map_err(refuse)?;
        match types::fault(&draft.metadata, before) {
            Some(why) => Err(refuse(why)),
            None => Ok(draft),
        }
    }

    /// Reads an object. Returns an error that says why it cannot be read.
    fn read(value: Value, resource: &Resource) -> Result<Self, String> {
        let Value::Object(mut rest) = value else {
            return Err("it is not a JSON object".to_owned());
        };
        for (field, known) in [("apiVersion", resource.api_version()), ("kind", resource.kind())] {
            match rest.remove(field) {
                None | Some(Value::Null) => {}
                Some(actual) if actual == known || actual == "" => {}
                Some(actual) => return Err(format!("its {field} is {actual}")),
            }
        }
        match rest.remove("metadata") {
            None | Some(Value::Null) => Ok(Self { metadata: Fields::new(), rest }),
            Some(Value::Object(metadata)) => Ok(Self { metadata, rest }),
            Some(_) => Err("its metadata is not a JSON object".to_owned()),
        }
    }

    /// Returns the object with this content, key and version. An object that a dry run creates has
    /// version 0, which means none.
    pub(crate) fn seal(mut self, key: Key, version: u64) -> Object {
        self.metadata.insert("name".to_owned(), key.name.as_str().into());
        match key.namespace.as_str() {
            "" => self.metadata.remove("namespace"),
            namespace => self.metadata.insert("namespace".to_owned(), namespace.into()),
        };
        match version {
            0 => self.metadata.remove("resourceVersion"),
            _ => self.metadata.insert("resourceVersion".to_owned(), version.to_string().into()),
        };
        Object { key, version, draft: self }
    }

    /// Sets the metadata of a new object: a uid, and the time of its creation.
    pub(crate) fn stamp(&mut self, version: u64, created: &str) {
        self.metadata.insert("uid".to_owned(), uid_of(version).into());
        self.metadata.insert("creationTimestamp".to_owned(), created.into());
        self.metadata.remove("deletionTimestamp");
        self.metadata.remove("deletionGracePeriodSeconds");
    }

    /// Returns the finalizers, which delay the deletion of the object.
    pub(crate) fn finalizers(&self) -> impl Iterator<Item = &str> {
        let all = self.metadata.get("finalizers").and_then(Value::as_array);
        all.into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().any(|known| known == name)
    }

    pub(crate) fn set_finalizers<'a>(&mut self, finalizers: impl Iterator<Item = &'a str>) {
        let finalizers: Vec<Value> = finalizers.map(Value::from).collect();
        if finalizers.is_empty() {
            self.metadata.remove("finalizers");
        } else {
            self.metadata.insert("finalizers".to_owned(), finalizers.into());
        }
    }

    /// Gives the metadata the form in which the real server stores it: unknown fields, `selfLink`,
    /// and empty lists and maps are dropped. A null in a list or map becomes an empty value of its
    /// type.
    pub(crate) fn normalize(&mut self) {
        types::prune(&mut self.metadata);
        self.metadata.remove("selfLink");
        let fields = [
            ("annotations", json!("")),
            ("finalizers", json!("")),
            ("labels", json!("")),
            ("ownerReferences", json!({})),
        ];
        for (field, empty) in fields {
            let fill = |value: &mut Value| {
                if value.is_null() {
                    value.clone_from(&empty);
                }
            };
            let is_empty = match self.metadata.get_mut(field) {
                Some(Value::Array(list)) => {
                    list.iter_mut().for_each(fill);
                    list.is_empty()
                }
                Some(Value::Object(map)) => {
                    map.values_mut().for_each(fill);
                    map.is_empty()
                }
                Some(Value::Null) => true,
                _ => false,
            };
            if is_empty {
                self.metadata.remove(field);
            }
        }
    }

    /// Returns whether the object is marked for deletion.
    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.contains_key("deletionTimestamp")
    }

    /// Returns the value at a path of field names, for example `spec` and `nodeName`.
    pub(crate) fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Value> {
        let mut path = path.into_iter();
        let first = match path.next()? {
            "metadata" => self.metadata.get(path.next()?),
            field => self.rest.get(field),
        };
        path.try_fold(first?, |value, field| value.get(field))
    }
}

impl Object {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.draft.metadata.get("labels")?.get(key)?.as_str()
    }

    pub(crate) fn uid(&self) -> &str {
        text(&self.draft.metadata, "uid")
    }

    /// Returns a copy of the object with another version. Deletion events contain the last state
    /// of an object with the version of the deletion.
    pub(crate) fn at(&self, version: u64) -> Self {
        self.draft.clone().seal(self.key.clone(), version)
    }

    pub(crate) fn to_json(&self, resource: &Resource, shape: Shape) -> Value {
        serde_json::to_value(ShapedObject { object: self, resource, shape }).unwrap_or_default()
    }

    /// Appends the object as JSON.
    pub(crate) fn write(&self, resource: &Resource, shape: Shape, out: &mut BytesMut) {
        if let Shape::Row(included) = shape {
            out.extend_from_slice(table::row(self, resource, included).to_string().as_bytes());
            return;
        }
        serde_json::to_writer(out.writer(), &ShapedObject { object: self, resource, shape })
            .expect("JSON values are written to memory");
    }

    /// Returns the object as an answer of its own: an object in a row is a whole table.
    pub(crate) fn alone(&self, resource: &Resource, shape: Shape, has_columns: bool) -> Value {
        match shape {
            Shape::Row(included) => {
                let row = table::row(self, resource, included);
                table::of_one(&row, &self.version.to_string(), has_columns)
            }
            shape => self.to_json(resource, shape),
        }
    }
}

/// An object in a shape, which [`Serialize`] writes.
struct ShapedObject<'a> {
    object: &'a Object,
    resource: &'a Resource,
    shape: Shape,
}

impl Serialize for ShapedObject<'_> {
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
    /// Returns `kind` and `apiVersion` of one object in this shape.
    pub(crate) fn types(self, resource: &Resource) -> (&str, &str) {
        match self {
            // A row of a bookmark has metadata only.
            Self::Partial | Self::Row(_) => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            Self::Whole | Self::Item => (resource.kind(), resource.api_version()),
        }
    }
}
