//! The metadata of a stored object that can be read without unpacking the object.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

use super::bytes::{Reader, put_bytes, put_number};
use super::common::Common;
use super::fields::{Fields, Text};
use super::texts::{Texts, put_text};
use super::uid::{lengthen, shorten};

const NAME: u64 = 1;
const VERSION: u64 = 1 << 1;
const UID: u64 = 1 << 2;
const SHORT_UID: u64 = 1 << 3;
const NAMESPACE: u64 = 1 << 4;
const SHARED_NAMESPACE: u64 = 1 << 5;
const LABELS_AND_OWNERS: u64 = 1 << 6;
const ANNOTATIONS: u64 = 1 << 7;
const FINALIZERS: u64 = 1 << 8;
const GENERATION: u64 = 1 << 9;
const DELETION: u64 = 1 << 10;
const NAMED: u64 = 1 << 11;

/// Metadata in one buffer: flags for the present fields, the length of the object's text, and then
/// the fields in the order of their flags.
///
/// The buffer leaves out what `shared` already stores: an equal namespace, and labels and owners
/// if both are equal. If the labels or owners differ, the buffer contains both, but leaves out
/// each text that is equal to the text at its place in `shared`.
pub(super) struct Header {
    bytes: Box<[u8]>,
    shared: Arc<SharedHeader>,
}

/// The namespace, labels and owner references that the headers of many objects refer to. They are
/// those of one object of a group of similar objects (see [`base`](super::base)), or of one of the
/// objects with the same [`shape`].
#[derive(Clone)]
pub(super) struct SharedHeader {
    /// The namespace, the labels and the owners.
    bytes: Box<[u8]>,
}

/// Returns a hash of the keys of the labels and the kinds of the owners. Objects of one kind often
/// have these in common, even objects of different workloads.
pub(super) fn shape(fields: &Fields, state: &impl BuildHasher) -> u64 {
    let keys: Vec<_> = fields.labels().map(|(key, _)| key).collect();
    let text = |text: &Option<Text>| text.as_ref().map(|Text(text)| text.to_string());
    let kinds = fields.owners().map(|owner| (text(&owner.kind), text(&owner.api_version)));
    state.hash_one((keys, kinds.collect::<Vec<_>>()))
}

impl SharedHeader {
    pub(super) fn new(fields: &Fields) -> Self {
        let namespace = fields.namespace.as_ref().map_or("", |Text(text)| text);
        let none = Texts::default();
        let labels = labels(fields.labels(), none);
        Self::from_parts([namespace.as_bytes(), &labels, &owners(fields, none)])
    }

    /// Creates a shared header with a copy of the namespace, the labels and the owners of an
    /// object.
    pub(super) fn of(view: &View) -> Self {
        let none = Texts::default();
        let mut owners = Vec::new();
        let mut from = view.owners;
        while let Some((flags, texts)) = from.owner() {
            owners.push(flags);
            for text in texts {
                put_text(&mut owners, text, &[]);
            }
        }
        let namespace = view.namespace.unwrap_or_default().as_bytes();
        Self::from_parts([namespace, &labels(view.labels(), none), &owners])
    }

    /// Returns whether the labels and the owners are equal to those of `other`.
    pub(super) fn has_labels_and_owners_of(&self, other: &Self) -> bool {
        self.parts()[1..] == other.parts()[1..]
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

/// Returns the encoded labels, without the texts that `shared` has in the same places. Empty if
/// there are no labels.
fn labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>, mut shared: Texts) -> Vec<u8> {
    let mut out = Vec::new();
    for text in labels.flat_map(|(key, value)| [key, value]) {
        put_text(&mut out, text.as_bytes(), shared.text());
    }
    out
}

/// Returns the encoded owner references, without the texts that `shared` has in the same places.
/// Empty if there are no owner references.
fn owners(fields: &Fields, mut shared: Texts) -> Vec<u8> {
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
        let uid = short.as_ref().map_or(uid.as_bytes(), <[u8; _]>::as_slice);
        let texts = [&owner.name, &owner.kind, &owner.api_version];
        let texts = texts.map(|text| text.as_ref().unwrap_or(&NONE).0.as_bytes());
        let (_, common) = shared.owner().unwrap_or_default();
        for (text, common) in [uid].iter().chain(&texts).zip(common) {
            put_text(&mut out, text, common);
        }
    }
    out
}

impl Header {
    /// Creates the header of an object whose text has `length` bytes. `shared` is the shared
    /// header that it refers to. `whole` holds the object's own labels and owners, to compare with
    /// those of `shared`.
    pub(super) fn new(
        fields: &Fields,
        length: usize,
        shared: &Arc<SharedHeader>,
        whole: &SharedHeader,
        common: &Common,
    ) -> Self {
        let namespace = fields.namespace.as_ref().map_or(&[][..], |Text(text)| text.as_bytes());
        let [shared_namespace, shared_labels, shared_owners] = shared.parts();
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
        if !shared.has_labels_and_owners_of(whole) {
            flags |= LABELS_AND_OWNERS;
            put_bytes(&mut out, &labels(fields.labels(), Texts::new(shared_labels)));
            put_bytes(&mut out, &owners(fields, Texts::new(shared_owners)));
        }
        let annotations = fields.annotations_hash(&common.state);
        for (flag, hash) in
            [(ANNOTATIONS, annotations), (FINALIZERS, fields.finalizers_hash(&common.state))]
        {
            if let Some(hash) = hash {
                flags |= flag;
                out.extend_from_slice(&hash.to_le_bytes());
            }
        }
        if let Some(generation) = fields.generation {
            flags |= GENERATION;
            put_number(&mut out, generation.cast_unsigned());
        }
        if fields.deletion_timestamp.is_some() {
            flags |= DELETION;
        }
        if fields.named.iter().any(Option::is_some) {
            flags |= NAMED;
            let object = (namespace, bytes(fields.name.as_ref()));
            for (field, value) in common.named.iter().zip(&fields.named) {
                put_field(&mut out, value.as_deref(), |text| field.values.number(text, &object));
            }
        }
        let mut bytes = Vec::with_capacity(out.len() + 8);
        put_number(&mut bytes, flags);
        put_number(&mut bytes, length as u64);
        bytes.extend_from_slice(&out);
        Self { bytes: bytes.into(), shared: shared.clone() }
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
        let [shared_namespace, shared_labels, shared_owners] = self.shared.parts();
        let name = has(NAME).then(|| reader.text());
        let version = has(VERSION).then(|| reader.text());
        let uid = has(UID).then(|| Uid { text: reader.text(), is_short: has(SHORT_UID) });
        let namespace = match (has(NAMESPACE), has(SHARED_NAMESPACE)) {
            (true, true) => Some(std::str::from_utf8(shared_namespace).unwrap_or_default()),
            (true, false) => Some(reader.text()),
            (false, _) => None,
        };
        let [labels, owners] = if has(LABELS_AND_OWNERS) {
            let [labels, owners] = [reader.bytes(), reader.bytes()];
            [Texts::over(labels, shared_labels), Texts::over(owners, shared_owners)]
        } else {
            [shared_labels, shared_owners].map(Texts::new)
        };
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
            named: if has(NAMED) { reader } else { Reader::default() },
        }
    }

    /// Returns the length of the buffer. The shared header is not included.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// The decoded fields of a header.
pub(super) struct View<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) uid: Option<Uid<'a>>,
    pub(super) version: Option<&'a str>,
    labels: Texts<'a>,
    owners: Texts<'a>,
    pub(super) annotations: Option<u64>,
    pub(super) finalizers: Option<u64>,
    pub(super) generation: Option<i64>,
    pub(super) has_deletion_timestamp: bool,
    named: Reader<'a>,
}

impl<'a> View<'a> {
    /// Returns the values of the fields that the user has named, in the order of `Common::named`,
    /// and then `None` without end. The value of a field that the object does not have is `None`.
    pub(super) fn named(&self) -> impl Iterator<Item = Option<FieldValue<'a>>> + use<'a> {
        let mut named = self.named;
        std::iter::repeat_with(move || take_field(&mut named))
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut labels = self.labels;
        std::iter::from_fn(move || {
            let (key, value) = (labels.next_text()?, labels.text());
            Some((as_str(key), as_str(value)))
        })
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = OwnerReference<'a>> + use<'a> {
        let mut owners = self.owners;
        std::iter::from_fn(move || {
            let (flags, texts) = owners.owner()?;
            let [uid, name, kind, api_version] = texts.map(as_str);
            let uid = Uid { text: uid, is_short: flags & 4 != 0 }.text();
            let (controller, block_owner_deletion) = (flags & 1 != 0, flags & 2 != 0);
            Some(OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion })
        })
    }
}

/// The value of a named field in a header.
pub(super) enum FieldValue<'a> {
    Text(&'a str),
    /// The number of the value in [`Interned`](super::interned::Interned).
    Number(u16),
}

/// Appends the value of a named field: 0 if there is none; twice its number plus 2 if `number`
/// returns one; otherwise twice the length of its text plus 1, and the text.
fn put_field(out: &mut Vec<u8>, text: Option<&str>, number: impl Fn(&str) -> Option<u16>) {
    let Some(text) = text else { return put_number(out, 0) };
    if let Some(number) = number(text) {
        put_number(out, 2 * u64::from(number) + 2);
    } else {
        put_number(out, 2 * text.len() as u64 + 1);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Reads a value that [`put_field`] has written.
fn take_field<'a>(from: &mut Reader<'a>) -> Option<FieldValue<'a>> {
    let code = from.number().checked_sub(1)?;
    Some(if code % 2 == 0 {
        FieldValue::Text(as_str(from.take(usize::try_from(code / 2).unwrap_or(usize::MAX))))
    } else {
        FieldValue::Number(u16::try_from(code / 2).unwrap_or(u16::MAX))
    })
}

fn as_str(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or_default()
}

#[derive(Clone, Copy)]
pub(super) struct Uid<'a> {
    /// The uid, or its short form. Two uids are equal if these texts are equal.
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
