//! Owner references: the part of an owned object that a controller keeps, and the search for the
//! references that name a main object.

use deltafifo::Meta;
use kube::Resource;
use serde::Deserialize;

use super::key::{StoreKey, key};
use crate::KubeMeta;
use crate::runtime::form::Form;

/// The part of an owned object's metadata that names the object and its owners.
#[derive(Clone, Deserialize)]
pub(super) struct Owned {
    metadata: Metadata,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: Option<Box<str>>,
    name: Option<Box<str>>,
    uid: Option<Box<str>>,
    resource_version: Option<Box<str>>,
    owner_references: Option<Box<[Owner]>>,
}

/// An owner reference. Kubernetes requires all fields, but one incomplete reference must not make
/// the whole object unreadable; `k8s-openapi`, which kube decodes with, does not require them
/// either.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: Option<Box<str>>,
    kind: Option<Box<str>>,
    name: Option<Box<str>>,
}

/// The [`Meta`] implementation for [`Owned`].
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

/// The group and kind of a controller's main objects, for matching owner references. The version
/// is ignored, because a reference keeps the version that it was written with.
pub(super) struct OwnerKind {
    group: String,
    kind: String,
}

impl OwnerKind {
    pub(super) fn of<K: Resource>(types: &K::DynamicType) -> Self {
        Self { group: K::group(types).into_owned(), kind: K::kind(types).into_owned() }
    }

    /// Returns the key of an owner of this kind. Returns `None` for an owner of another kind, and
    /// for a reference without apiVersion or name (`k8s-openapi` decodes a missing field as an
    /// empty string). Whether this kind is namespaced is not known here, so the key of a
    /// cluster-scoped owner may have a namespace that it should not have.
    fn owner(
        &self,
        namespace: Option<&str>,
        api_version: &str,
        kind: &str,
        name: &str,
    ) -> Option<StoreKey> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let is_complete = !api_version.is_empty() && !name.is_empty();
        (is_complete && kind == self.kind && group == self.group).then(|| key(namespace, name))
    }

    /// Returns the keys of those owners of `object` that are of this kind.
    pub(super) fn of_owned(&self, object: &Owned) -> impl Iterator<Item = StoreKey> {
        let Metadata { namespace, owner_references, .. } = &object.metadata;
        let owners = owner_references.iter().flatten();
        owners.filter_map(move |Owner { api_version, kind, name }| {
            self.owner(
                namespace.as_deref(),
                api_version.as_deref()?,
                kind.as_deref()?,
                name.as_deref()?,
            )
        })
    }

    /// Calls `request` with the key of each owner of `object` that is of this kind. `object` comes
    /// from a stream of the user.
    pub(super) fn of_resource<K: Resource>(&self, object: &K, request: &mut dyn FnMut(StoreKey)) {
        let meta = object.meta();
        for owner in meta.owner_references.iter().flatten() {
            let namespace = meta.namespace.as_deref();
            let owner = self.owner(namespace, &owner.api_version, &owner.kind, &owner.name);
            owner.into_iter().for_each(&mut *request);
        }
    }

    /// Calls `request` with the key of each owner of `object` that is of this kind. `object` comes
    /// from an informer that the user runs, and is not decoded.
    pub(super) fn of_child<F: Form>(&self, object: &F, request: &mut dyn FnMut(StoreKey))
    where
        KubeMeta: Meta<F>,
    {
        let namespace = KubeMeta.namespace(object);
        object.each_owner(|api_version, kind, name| {
            self.owner(namespace, api_version, kind, name).into_iter().for_each(&mut *request);
        });
    }
}
