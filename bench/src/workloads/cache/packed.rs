//! Caches that pack each object separately: with gzip, as Argo CD does, or as CBOR, as was
//! proposed for client-go. A packed object has a header with the metadata that the header of a
//! compact object has. Objects with equal namespaces, labels and owners share these.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::sync::Arc;

use deltafifo::{BoxError, Indexer, KeyFunc, Meta};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde::Deserialize;

use super::server::{List, ListServer};
use super::{CacheEngine, ChildError};
use crate::data::build_in_parts;
use crate::digest::Digest;

/// A format in which an object is packed.
pub(super) trait Codec: Send + Sync + 'static {
    /// Packs the JSON of an object.
    fn pack(json: &str) -> Result<Vec<u8>, BoxError>;

    /// Decodes an object.
    fn decode(packed: &[u8]) -> Result<Pod, BoxError>;
}

/// JSON compressed with gzip at its fastest level.
pub(super) struct Gzip;

impl Codec for Gzip {
    fn pack(json: &str) -> Result<Vec<u8>, BoxError> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(json.as_bytes())?;
        Ok(encoder.finish()?)
    }

    fn decode(packed: &[u8]) -> Result<Pod, BoxError> {
        let mut json = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }
}

/// CBOR, with the names of all fields.
pub(super) struct Cbor;

impl Codec for Cbor {
    fn pack(json: &str) -> Result<Vec<u8>, BoxError> {
        let mut out = Vec::new();
        ciborium::into_writer(&serde_json::from_str::<serde_json::Value>(json)?, &mut out)?;
        Ok(out)
    }

    fn decode(packed: &[u8]) -> Result<Pod, BoxError> {
        Ok(ciborium::from_reader(packed)?)
    }
}

/// A store of packed objects. It reads each list from its file, packs the objects on every core,
/// and keeps the stored objects whose versions have not changed.
pub(super) struct PackedStore<C> {
    server: ListServer,
    store: Indexer<Packed, PackedMeta>,
    shared: Mutex<HashSet<Arc<Shared>>>,
    codec: PhantomData<fn() -> C>,
}

struct Packed {
    name: Box<str>,
    version: Box<str>,
    uid: Box<str>,
    shared: Arc<Shared>,
    bytes: Box<[u8]>,
}

/// Metadata that the replicas of a Kubernetes workload have in common.
#[derive(PartialEq, Eq, Hash)]
struct Shared {
    namespace: Box<str>,
    labels: BTreeMap<Box<str>, Box<str>>,
    owners: Vec<Owner>,
}

#[derive(PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    controller: Option<bool>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Box<str>,
    resource_version: Box<str>,
    uid: Box<str>,
    #[serde(default)]
    namespace: Box<str>,
    #[serde(default)]
    labels: BTreeMap<Box<str>, Box<str>>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Clone, Copy)]
struct PackedMeta;

impl Meta<Packed> for PackedMeta {
    fn namespace<'a>(&self, object: &'a Packed) -> Option<&'a str> {
        Some(&object.shared.namespace)
    }

    fn name<'a>(&self, object: &'a Packed) -> Option<&'a str> {
        Some(&object.name)
    }

    fn version<'a>(&self, object: &'a Packed) -> Option<&'a str> {
        Some(&object.version)
    }

    fn uid<'a>(&self, object: &'a Packed) -> Option<&'a str> {
        Some(&object.uid)
    }
}

impl<C: Codec> PackedStore<C> {
    pub(super) fn new(server: &ListServer) -> Result<Self, ChildError> {
        let store = Indexer::builder(KeyFunc::meta_namespace(PackedMeta)).build()?;
        let (server, shared) = (server.clone(), Mutex::default());
        Ok(Self { server, store, shared, codec: PhantomData })
    }

    fn list(&self) -> Result<(), BoxError> {
        let text = fs::read_to_string(self.server.list())?;
        let List { items } = serde_json::from_str(&text)?;
        let packed = build_in_parts(items.len(), |at| self.object(items[at].get()));
        let objects = packed.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(self.store.replace(objects)?)
    }

    /// Returns the stored object if the object in `json` has the same version; otherwise packs
    /// `json`.
    fn object(&self, json: &str) -> Result<Arc<Packed>, BoxError> {
        let Item { metadata } = serde_json::from_str(json)?;
        let Metadata { name, resource_version: version, uid, .. } = metadata;
        let stored = self.store.get_by_key(&format!("{}/{name}", metadata.namespace));
        if let Some(stored) = stored.filter(|stored| stored.version == version) {
            return Ok(stored);
        }
        let shared = self.interned(Shared {
            namespace: metadata.namespace,
            labels: metadata.labels,
            owners: metadata.owner_references,
        });
        Ok(Arc::new(Packed { name, version, uid, shared, bytes: C::pack(json)?.into() }))
    }

    fn interned(&self, shared: Shared) -> Arc<Shared> {
        let mut all = self.shared.lock();
        if let Some(equal) = all.get(&shared) {
            return equal.clone();
        }
        let shared = Arc::new(shared);
        all.insert(shared.clone());
        shared
    }
}

impl<C: Codec> CacheEngine for PackedStore<C> {
    async fn listed(&self, _list: u64) -> Result<(), ChildError> {
        self.list().map_err(|error| -> ChildError { error })
    }

    fn keys(&self) -> Vec<String> {
        self.store.list_keys()
    }

    fn get(&self, key: &str) -> bool {
        let object = self.store.get_by_key(key);
        object.is_some_and(|object| black_box(C::decode(&object.bytes)).is_ok())
    }

    fn get_header(&self, key: &str) -> bool {
        let object = self.store.get_by_key(key);
        object
            .map(|object| {
                black_box((&object.name, &object.uid, &object.version));
                black_box(object.shared.labels.get("app"));
            })
            .is_some()
    }

    fn digest(&self) -> Digest {
        Digest::of(&PackedMeta, self.store.list())
    }
}

#[cfg(test)]
mod tests {
    use super::{Cbor, Codec, Gzip};

    #[test]
    fn packed_pod_decodes_to_the_same_pod() {
        let json = r#"{"metadata":{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z"},
            "spec":{"containers":[{"name":"b","resources":{"limits":{"cpu":"1"}},
            "livenessProbe":{"httpGet":{"port":80}},"ports":[{"containerPort":80}]}]}}"#;
        let pod = serde_json::from_str(json).unwrap();
        assert_eq!(Gzip::decode(&Gzip::pack(json).unwrap()).unwrap(), pod);
        assert_eq!(Cbor::decode(&Cbor::pack(json).unwrap()).unwrap(), pod);
    }
}
