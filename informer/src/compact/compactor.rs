//! Packs the objects of one informer.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::base::{Base, is_worth_it};
use super::builder::CompactorBuilder;
use super::codec::With;
use super::common::Common;
use super::error::PackError;
use super::fields::{self, Fields, Text};
use super::groups::{Groups, Relative};
use super::header::{Header, SharedHeader, shape};
use super::object::Compact;
use super::prune::cut;
use super::sketch;
use super::stored::{self, Reference, Stored};
use super::sync::{AtomicU64, AtomicUsize, Mutex, RwLock, mutant};
use super::values::{BaseText, Document};
use crate::wire::trim;

/// A packer of the objects of one informer. For each object, it finds a similar one that is stored
/// already.
///
/// An object is stored as its difference from a *base*, a copy of another object of its group: of
/// the same controller, or else with the same `generateName`, or else with the same labels, or
/// else with the same name. A group of one object has no base. Its object is compared with recent
/// objects by content. If none of them is similar, it is packed with a dictionary that was trained
/// on texts of other groups. Bases and dictionaries are never shared between compactors.
///
/// All methods can be called from several threads at a time.
///
/// ```
/// use deltafifo_informer::compact::Compactor;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let maps = Compactor::<ConfigMap>::builder().without(&["metadata", "managedFields"]).build();
/// let json = r#"{"metadata":{"name":"a","managedFields":[]},"data":{"key":"value"}}"#;
/// let map = maps.pack(json.as_bytes())?;
/// assert_eq!(map.name(), Some("a"));
/// assert_eq!(map.raw_json()?, r#"{"metadata":{"name":"a"},"data":{"key":"value"}}"#);
/// assert_eq!(map.decode()?.data.unwrap()["key"], "value");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Compactor<K> {
    pub(super) validate: bool,
    pub(super) train: bool,
    pub(super) common: Arc<Common>,
    /// The current dictionary, or [`Material::Nothing`](super::stored::Material::Nothing) if there
    /// is none.
    pub(super) dictionary: RwLock<Arc<Reference>>,
    pub(super) groups: Groups<K>,
    /// The number of groups at which the next dictionary is trained; `TRAINING_DUE` while a
    /// training is due. Every access is relaxed, since the number guards no other memory: the
    /// dictionary has a lock of its own. A thread that reads an old number trains once too often,
    /// or leaves the training to a later object.
    pub(super) train_at: AtomicUsize,
    /// The lock that is held while a dictionary is trained.
    pub(super) training: Mutex<()>,
    /// How often the informer was asked for its work in the background: at the end of each list,
    /// and if a later object makes a training due.
    pub(super) lists: watch::Sender<u64>,
    /// The number of passes over all objects of the informer.
    pub(super) passes: AtomicU64,
}

impl<K> Compactor<K> {
    /// Returns a builder of a compactor.
    pub fn builder() -> CompactorBuilder<K> {
        CompactorBuilder::new()
    }

    /// Packs one object as it was received, without blank space around it.
    ///
    /// # Errors
    /// [`PackError`] if `json` is not UTF-8, if it is not a JSON object, or if its metadata cannot
    /// be read. If objects are [validated](CompactorBuilder::validate), also if `json` does not
    /// decode into `K` or the decoder panics. It is not an error if libzstd runs out of memory: the
    /// object is then stored uncompressed.
    pub fn pack(&self, json: &[u8]) -> Result<Arc<Compact<K>>, PackError>
    where
        K: DeserializeOwned,
    {
        // Members that are cut out must be UTF-8 too, as in objects that are decoded.
        let whole = std::str::from_utf8(json)?;
        let json = trim(whole.as_bytes());
        let mut out = Vec::new();
        let text = std::str::from_utf8(cut(&self.common.prune, json, &mut out)?)?;
        let mut fields = fields::read(text).map_err(|error| PackError::unreadable(text, error))?;
        if self.validate {
            let decoded: K = deltafifo::panics::caught(|| self.common.decode(text))
                .map_err(PackError::Panicked)?
                .map_err(PackError::Decode)?;
            // A destructor that panics does not make the object undecodable.
            let _ = deltafifo::panics::caught(|| drop(decoded));
        }
        let named = self.common.named.iter();
        fields.named = named.map(|field| field.pointer.read(whole)).collect();
        Ok(self.store_shortest(&Document::with_fields(text.as_bytes(), &fields), &fields))
    }

    /// Stores a text in the shortest form that is found.
    fn store_shortest(&self, document: &Document, fields: &Fields) -> Arc<Compact<K>> {
        let Some(group) = fields.group(&self.common.state) else {
            return self.compact(document, fields, Stored::pack(document, &self.dictionary()));
        };
        // A first member that is an earlier version of the object is about to be replaced, so it
        // does not count as another member of the group.
        let earlier = match self.groups.find(group) {
            Some(Relative::First(first)) if is_version_of(&first, fields) => Some(first),
            Some(relative) => {
                let stored = match relative {
                    Relative::Base(base) => self.against_base(group, &base, document, fields),
                    Relative::First(first) => self.against_first(group, &first, document),
                };
                let stored = stored.unwrap_or_else(|| Stored::pack(document, &self.dictionary()));
                return self.compact(document, fields, stored);
            }
            None => None,
        };
        let features = sketch::features(document.text);
        let similar = match earlier {
            Some(earlier) => Some((group, Relative::First(earlier))),
            None => self.groups.similar(&features),
        };
        let stored = similar.and_then(|(group, relative)| match relative {
            Relative::Base(base) => self.difference(&base, document),
            Relative::First(first) if is_version_of(&first, fields) => {
                self.difference(&first.with(), document)
            }
            Relative::First(first) => self.against_first(group, &first, document),
        });
        let stored = stored.unwrap_or_else(|| Stored::pack(document, &self.dictionary()));
        mutant!(DictionaryIsReadTwice => let stored = self.with_newest_dictionary(stored));
        let object = self.compact(document, fields, stored);
        self.train_if_due(self.groups.add_first(group, &features, &object));
        object
    }

    fn compact(&self, document: &Document, fields: &Fields, stored: Stored) -> Arc<Compact<K>> {
        let Common { state, shapes, .. } = &*self.common;
        let whole = SharedHeader::new(fields);
        let of_base = stored.with.base().map(|base| &base.shared);
        let shared = match of_base.filter(|shared| shared.has_labels_and_owners_of(&whole)) {
            Some(shared) => shared.clone(),
            None => shapes.get(shape(fields, state), || whole.clone()),
        };
        let header = Header::new(fields, document.text.len(), &shared, &whole, &self.common);
        Arc::new(Compact::new(header, stored))
    }

    /// Returns `document` as the difference from the base `with`; `None` if `with` is no base, or
    /// if the difference is too large to be used.
    pub(super) fn difference(&self, with: &Arc<Reference>, document: &Document) -> Option<Stored> {
        let base = with.base()?;
        let stored = Stored::pack(document, with);
        self.is_worth_it(&stored, base, document).then_some(stored)
    }

    /// Returns whether `document` should be stored as its difference from `base`.
    fn is_worth_it(&self, difference: &Stored, base: &Base, document: &Document) -> bool {
        let dictionary = self.dictionary();
        let bytes = difference.bytes.len();
        is_worth_it(bytes, base.estimate(document.text.len(), &dictionary))
            || is_worth_it(bytes, Stored::pack(document, &dictionary).bytes.len())
    }

    /// Returns `document` as the difference from the base of its group. If that base is outdated,
    /// the text of `document` becomes the new base. Returns `None` if the difference is too large
    /// to be used.
    fn against_base(
        &self,
        group: u64,
        reference: &Arc<Reference>,
        document: &Document,
        fields: &Fields,
    ) -> Option<Stored> {
        let base = reference.base()?;
        let stored = Stored::pack(document, reference);
        if base.note(fields.identity(&self.common.state), stored.bytes.len()) {
            mutant!(BaseIsChangedInPlace => base.keep(Arc::new(BaseText::new(document.text))); return Some(stored));
            let (dictionary, shared) = (self.dictionary(), SharedHeader::new(fields));
            let text = Arc::new(BaseText::new(document.text));
            let new = Base::create(&self.common, text, &dictionary, shared);
            self.groups.set_base(group, &new);
            base.set_replaced();
            return Some(Stored::pack(document, &new));
        }
        self.is_worth_it(&stored, base, document).then_some(stored)
    }

    /// Returns `document` as the difference from `first`, whose text becomes the base of `group`.
    /// If `first` is itself stored as the difference from a base that no group has replaced, and
    /// the difference from that base is at most 1.5 times as large, that base becomes the base of
    /// `group` instead. Returns `None` if no difference is small enough.
    fn against_first(
        &self,
        group: u64,
        first: &Arc<Compact<K>>,
        document: &Document,
    ) -> Option<Stored> {
        let before = first.stored();
        let first_text = before.unpack(first.raw_size(), &first.own()).ok()?;
        let first_text = Arc::new(BaseText::new(first_text));
        let own = stored::pack(document, With::Base(&first_text)).ok()??;
        if before.with.base().is_some_and(|base| !base.is_replaced()) {
            let stored = Stored::pack(document, &before.with);
            // A new base would take as much memory as several differences save.
            if stored.bytes.len() <= own.len() + own.len() / 2 {
                self.groups.set_base(group, &before.with);
                return Some(stored);
            }
        }
        let dictionary = self.dictionary();
        let alone = Stored::pack(document, &dictionary);
        if !is_worth_it(own.len(), alone.bytes.len()) {
            return None;
        }
        let base = Base::create(&self.common, first_text.clone(), &dictionary, first.shared());
        self.groups.set_base(group, &base);
        first.replace(Stored::pack(&Document::new(&first_text, first.own()), &base));
        Some(Stored { bytes: own, with: base })
    }

    pub(super) fn dictionary(&self) -> Arc<Reference> {
        self.dictionary.read().clone()
    }
}

#[cfg(fuzzing)]
impl<K: DeserializeOwned> Compactor<K> {
    /// Decodes `json` without packing it, for the fuzz target `prune`. The members that
    /// [`pack`](Self::pack) cuts out of the text are left out by the decoder.
    ///
    /// # Errors
    /// If `json` does not decode into `K`.
    pub fn decode(&self, json: &str) -> serde_json::Result<K> {
        self.common.decode(json)
    }
}

/// Returns whether `object` is a version of the object that has these fields.
fn is_version_of<K>(object: &Compact<K>, fields: &Fields) -> bool {
    let is = |found: Option<&str>, field: &Option<Text>| {
        found == field.as_ref().map(|Text(text)| &**text)
    };
    if object.uid().is_some() {
        return is(object.uid().as_deref(), &fields.uid);
    }
    fields.uid.is_none()
        && is(object.namespace(), &fields.namespace)
        && is(object.name(), &fields.name)
}

/// The code of a deliberate defect (`sync/mutants.rs`).
#[cfg(deltafifo_shuttle)]
mod defects {
    use super::{Compactor, Stored};

    impl<K> Compactor<K> {
        /// Replaces the dictionary of `stored` by the newest one, unless the text is a difference
        /// from a base: the defect `DictionaryIsReadTwice`, since the text may be packed with an
        /// older dictionary.
        pub(super) fn with_newest_dictionary(&self, stored: Stored) -> Stored {
            let is_base = stored.with.base().is_some();
            Stored { with: if is_base { stored.with } else { self.dictionary() }, ..stored }
        }
    }
}
