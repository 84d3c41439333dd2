//! Objects that have owners: what is kept of one that a controller watches for that alone, and which owners are its business.

use deltafifo::Meta;
use kube::Resource;
use serde::Deserialize;

use super::key::{Key, key};

/// Of an owned object's metadata, what says whose it is.
#[derive(Deserialize)]
pub(super) struct Owned {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: Option<Box<str>>,
    name: Option<Box<str>>,
    uid: Option<Box<str>>,
    resource_version: Option<Box<str>>,
    owner_references: Option<Box<[Owner]>>,
}

/// An owner reference. Its fields are required in Kubernetes, but one reference that lacks some must
/// not make the whole object unreadable: `k8s-openapi`, which kube reads with, requires none either.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: Option<Box<str>>,
    kind: Option<Box<str>>,
    name: Option<Box<str>>,
}

/// Reads an [`Owned`].
pub(super) struct OwnedMeta;

impl Meta<Owned> for OwnedMeta {
    fn namespace<'a>(&self, object: &'a Owned) -> Option<&'a str> {
        object.metadata.namespace.as_deref()
    }

    fn name<'a>(&self, object: &'a Owned) -> Option<&'a str> {
        object.metadata.name.as_deref()
    }

    fn version<'a>(&self, object: &'a Owned) -> Option<&'a str> {
        object.metadata.resource_version.as_deref()
    }

    fn uid<'a>(&self, object: &'a Owned) -> Option<&'a str> {
        object.metadata.uid.as_deref()
    }
}

/// The kind of a controller's objects, as owners are said to be of it. The version does not count: references keep the one of the
/// day they were written.
pub(super) struct OwnerKind {
    group: String,
    kind: String,
}

impl OwnerKind {
    pub(super) fn of<K: Resource>(types: &K::DynamicType) -> Self {
        Self { group: K::group(types).into_owned(), kind: K::kind(types).into_owned() }
    }

    /// Returns the key of an owner of this kind; `None` for another kind, and for a reference that lacks
    /// its apiVersion or name (an empty text, as `k8s-openapi` reads it) and so names no owner. Whether
    /// owners of this kind have a namespace is not known here: the key may have one too many.
    fn owner(&self, namespace: Option<&str>, api_version: &str, kind: &str, name: &str) -> Option<Key> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let is_complete = !api_version.is_empty() && !name.is_empty();
        (is_complete && kind == self.kind && group == self.group).then(|| key(namespace, name))
    }

    /// The owners of an object of which little was kept.
    pub(super) fn of_owned(&self, object: &Owned) -> impl Iterator<Item = Key> {
        let Metadata { namespace, owner_references, .. } = &object.metadata;
        let owners = owner_references.iter().flatten();
        owners.filter_map(move |Owner { api_version, kind, name }| {
            self.owner(namespace.as_deref(), api_version.as_deref()?, kind.as_deref()?, name.as_deref()?)
        })
    }

    /// The owners of any object.
    pub(super) fn of_child<Child: Resource>(&self, object: &Child) -> impl Iterator<Item = Key> {
        let meta = object.meta();
        let owners = meta.owner_references.iter().flatten();
        owners.filter_map(move |owner| {
            self.owner(meta.namespace.as_deref(), &owner.api_version, &owner.kind, &owner.name)
        })
    }
}
