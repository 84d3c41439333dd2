//! The metadata of a stored object that can be read without unpacking the object.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

use super::bytes::{Reader, put_bytes, put_number};
use super::fields::{Fields, Text};
use super::uid::{lengthen, shorten};

const NAME: u64 = 1;
const VERSION: u64 = 1 << 1;
const UID: u64 = 1 << 2;
const SHORT_UID: u64 = 1 << 3;
const NAMESPACE: u64 = 1 << 4;
const SHARED_NAMESPACE: u64 = 1 << 5;
const LABELS: u64 = 1 << 6;
const OWNERS: u64 = 1 << 7;
const ANNOTATIONS: u64 = 1 << 8;
const FINALIZERS: u64 = 1 << 9;
const GENERATION: u64 = 1 << 10;
const DELETION: u64 = 1 << 11;

/// Metadata in one buffer: flags for the present fields, and then these fields in the order of the
/// flags. A namespace, labels or owners that the object has in common with its siblings are in
/// `shared` only.
pub(super) struct Header {
    bytes: Box<[u8]>,
    shared: Option<Arc<SharedHeader>>,
}

/// Namespace, labels and owner references of a group's members. An object that differs in one of
/// them has its own.
pub(super) struct SharedHeader {
    /// The namespace, the labels and the owners.
    bytes: Box<[u8]>,
}

impl SharedHeader {
    pub(super) fn new(fields: &Fields) -> Self {
        let namespace = fields.namespace.as_ref().map_or("", |Text(text)| text);
        Self::from_parts([namespace.as_bytes(), &labels(fields), &owners(fields)])
    }

    /// Copies the metadata of an object.
    pub(super) fn of(view: &View) -> Self {
        let namespace = view.namespace.unwrap_or_default().as_bytes();
        Self::from_parts([namespace, view.labels.0, view.owners.0])
    }

    fn from_parts(parts: [&[u8]; 3]) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            put_bytes(&mut bytes, part);
        }
        Self { bytes: bytes.into() }
    }

    /// Returns the namespace, the labels and the owners.
    fn parts(&self) -> [&[u8]; 3] {
        let mut reader = Reader(&self.bytes);
        [reader.bytes(), reader.bytes(), reader.bytes()]
    }

    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

fn bytes<'a>(text: Option<&'a Text>) -> Option<Cow<'a, [u8]>> {
    text.map(|Text(text)| text.as_bytes().into())
}

/// Returns the labels as they are stored; nothing if there are none.
fn labels(fields: &Fields) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in fields.labels() {
        put_bytes(&mut out, key.as_bytes());
        put_bytes(&mut out, value.as_bytes());
    }
    out
}

/// Returns the owner references as they are stored; nothing if there are none.
fn owners(fields: &Fields) -> Vec<u8> {
    const NONE: Text = Text(Cow::Borrowed(""));
    let mut out = Vec::new();
    for owner in fields.owners() {
        let uid = &owner.uid.as_ref().unwrap_or(&NONE).0;
        let short = shorten(uid);
        out.push(
            u8::from(owner.controller == Some(true))
                | u8::from(owner.block_owner_deletion == Some(true)) << 1
                | u8::from(short.is_some()) << 2,
        );
        put_bytes(&mut out, short.as_ref().map_or(uid.as_bytes(), <[u8; _]>::as_slice));
        for text in [&owner.name, &owner.kind, &owner.api_version] {
            put_bytes(&mut out, text.as_ref().unwrap_or(&NONE).0.as_bytes());
        }
    }
    out
}

impl Header {
    /// Stores `fields` of an object whose text has `length` bytes. `state` hashes finalizers and
    /// annotations.
    pub(super) fn new(
        fields: &Fields,
        length: usize,
        shared: Option<&Arc<SharedHeader>>,
        state: &impl BuildHasher,
    ) -> Self {
        let [namespace, labels, owners] = [
            fields.namespace.as_ref().map_or(&[][..], |Text(text)| text.as_bytes()),
            &labels(fields),
            &owners(fields),
        ];
        let [shared_namespace, shared_labels, shared_owners] =
            shared.map_or([&[][..]; 3], |shared| shared.parts());
        let mut flags = 0;
        let mut out = Vec::with_capacity(128);
        let short = fields.uid.as_ref().and_then(|Text(uid)| shorten(uid));
        if short.is_some() {
            flags |= SHORT_UID;
        }
        let texts: [(u64, Option<Cow<[u8]>>); 3] = [
            (NAME, bytes(fields.name.as_ref())),
            (VERSION, bytes(fields.resource_version.as_ref())),
            (UID, short.map(|uid| uid.to_vec().into()).or_else(|| bytes(fields.uid.as_ref()))),
        ];
        for (flag, text) in texts {
            if let Some(text) = text {
                flags |= flag;
                put_bytes(&mut out, &text);
            }
        }
        if fields.namespace.is_some() {
            flags |= NAMESPACE;
            if namespace == shared_namespace {
                flags |= SHARED_NAMESPACE;
            } else {
                put_bytes(&mut out, namespace);
            }
        }
        for (flag, part, shared) in
            [(LABELS, labels, shared_labels), (OWNERS, owners, shared_owners)]
        {
            if part != shared {
                flags |= flag;
                put_bytes(&mut out, part);
            }
        }
        for (flag, json) in [(ANNOTATIONS, fields.annotations), (FINALIZERS, fields.finalizers)] {
            if let Some(json) = json {
                flags |= flag;
                out.extend_from_slice(&state.hash_one(json.get()).to_le_bytes());
            }
        }
        if let Some(generation) = fields.generation {
            flags |= GENERATION;
            put_number(&mut out, generation.cast_unsigned());
        }
        if fields.deletion_timestamp.is_some() {
            flags |= DELETION;
        }
        let mut bytes = Vec::with_capacity(out.len() + 8);
        put_number(&mut bytes, flags);
        put_number(&mut bytes, length as u64);
        bytes.extend_from_slice(&out);
        let is_shared = flags & (SHARED_NAMESPACE | LABELS | OWNERS) != LABELS | OWNERS;
        Self { bytes: bytes.into(), shared: shared.filter(|_| is_shared).cloned() }
    }

    /// Returns the length of the object's text.
    pub(super) fn length(&self) -> usize {
        let mut reader = Reader(&self.bytes);
        reader.number();
        usize::try_from(reader.number()).unwrap_or(usize::MAX)
    }

    pub(super) fn view(&self) -> View<'_> {
        let mut reader = Reader(&self.bytes);
        let flags = reader.number();
        reader.number();
        let has = |flag| flags & flag != 0;
        let [shared_namespace, shared_labels, shared_owners] =
            self.shared.as_ref().map_or([&[][..]; 3], |shared| shared.parts());
        let name = has(NAME).then(|| reader.text());
        let version = has(VERSION).then(|| reader.text());
        let uid = has(UID).then(|| Uid { text: reader.text(), is_short: has(SHORT_UID) });
        let namespace = match (has(NAMESPACE), has(SHARED_NAMESPACE)) {
            (true, true) => Some(std::str::from_utf8(shared_namespace).unwrap_or_default()),
            (true, false) => Some(reader.text()),
            (false, _) => None,
        };
        let labels = Reader(if has(LABELS) { reader.bytes() } else { shared_labels });
        let owners = Reader(if has(OWNERS) { reader.bytes() } else { shared_owners });
        let annotations = has(ANNOTATIONS).then(|| reader.word());
        let finalizers = has(FINALIZERS).then(|| reader.word());
        let generation = has(GENERATION).then(|| reader.number().cast_signed());
        View {
            namespace,
            name,
            uid,
            version,
            labels,
            owners,
            annotations,
            finalizers,
            generation,
            has_deletion_timestamp: has(DELETION),
        }
    }

    /// Returns the length of the buffer. The shared header is not included.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// A header that has been taken apart.
pub(super) struct View<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) uid: Option<Uid<'a>>,
    pub(super) version: Option<&'a str>,
    labels: Reader<'a>,
    owners: Reader<'a>,
    pub(super) annotations: Option<u64>,
    pub(super) finalizers: Option<u64>,
    pub(super) generation: Option<i64>,
    pub(super) has_deletion_timestamp: bool,
}

impl<'a> View<'a> {
    pub(super) fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = self.labels;
        std::iter::from_fn(move || (!reader.0.is_empty()).then(|| (reader.text(), reader.text())))
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = OwnerReference<'a>> + use<'a> {
        let mut reader = self.owners;
        std::iter::from_fn(move || {
            let (flags, rest) = reader.0.split_first()?;
            reader.0 = rest;
            Some(OwnerReference {
                uid: Uid { text: reader.text(), is_short: flags & 4 != 0 }.text(),
                name: reader.text(),
                kind: reader.text(),
                api_version: reader.text(),
                controller: flags & 1 != 0,
                block_owner_deletion: flags & 2 != 0,
            })
        })
    }
}

#[derive(Clone, Copy)]
pub(super) struct Uid<'a> {
    /// Equal for equal uids.
    pub(super) text: &'a str,
    is_short: bool,
}

impl<'a> Uid<'a> {
    pub(super) fn text(self) -> Cow<'a, str> {
        if self.is_short { lengthen(self.text) } else { self.text.into() }
    }
}

/// An owner reference of a [`Compact`](super::Compact) object. Fields that the object does not
/// have are empty or false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// `apiVersion` of the owner.
    pub api_version: &'a str,
    /// `kind` of the owner.
    pub kind: &'a str,
    /// Name of the owner.
    pub name: &'a str,
    /// Uid of the owner.
    pub uid: Cow<'a, str>,
    /// Whether the owner is the object's controller.
    pub controller: bool,
    /// Whether the owner cannot be deleted in the foreground before this object.
    pub block_owner_deletion: bool,
}
