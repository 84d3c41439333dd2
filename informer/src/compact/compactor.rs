//! Packs the objects of one informer.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::base::{Base, is_worth_it};
use super::cache::Cache;
use super::codec::{Dictionary, With};
use super::common::{Common, Counts, NamedField};
use super::decoded::DecodedCache;
use super::error::PackError;
use super::fields::{self, Fields, Text};
use super::groups::{Groups, Relative};
use super::header::{Header, SharedHeader, shape};
use super::interned::Interned;
use super::object::Compact;
use super::prune::cut;
use super::shapes::Shapes;
use super::sketch;
use super::stored::{self, Material, Reference, Stored};
use super::sync::{
    AtomicU64, AtomicUsize, FEWEST_SAMPLES, FIRST_TRAINING, HashState, Mutex, Ordering, RwLock,
    mutant,
};
use super::values::{BaseText, Document};
use crate::pointer::{InvalidPointer, Pointer};
use crate::wire::{Prune, Types, trim};

/// The factor by which the number of groups must grow after a training before packing an object
/// trains the next dictionary. [`Compactor::end_list`] may train it earlier.
const GROWTH: usize = 8;
/// The value of `train_at` while a training is due.
const TRAINING_DUE: usize = usize::MAX;
/// The largest number of bytes of samples. Training takes about 100 ms for each MiB.
const SAMPLE_BYTES: usize = 1 << 20;
/// The largest size of a text that is a sample, in bytes. Larger texts would leave room for too few
/// others.
const LARGEST_SAMPLE: usize = SAMPLE_BYTES / FEWEST_SAMPLES;

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
    validate: bool,
    train: bool,
    common: Arc<Common>,
    /// The current dictionary, or [`Material::Nothing`] if there is none.
    dictionary: RwLock<Arc<Reference>>,
    pub(super) groups: Groups<K>,
    /// The number of groups at which the next dictionary is trained; [`TRAINING_DUE`] while a
    /// training is due. Every access is relaxed, since the number guards no other memory: the
    /// dictionary has a lock of its own. A thread that reads an old number trains once too often,
    /// or leaves the training to a later object.
    train_at: AtomicUsize,
    /// The lock that is held while a dictionary is trained.
    training: Mutex<()>,
    /// How often the informer was asked for its work in the background: at the end of each list,
    /// and if a later object makes a training due.
    pub(super) lists: watch::Sender<u64>,
    /// The number of passes over all objects of the informer.
    pub(super) passes: AtomicU64,
}

/// A builder of a [`Compactor`].
#[must_use]
pub struct CompactorBuilder<K> {
    prune: Prune,
    types: Option<Types>,
    validate: bool,
    /// Whether dictionaries are trained. `None` means: if the objects are known not to be Secrets.
    train: Option<bool>,
    base_cache: usize,
    decoded_cache: usize,
    pointers: Vec<Pointer>,
    kind: PhantomData<fn() -> K>,
}

/// The memory that the objects of a [`Compactor`] take now, by kind, and counts of the compactor's
/// work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactStats {
    /// The number of objects that have been packed so far.
    pub packed: u64,
    /// The number of objects that are alive.
    pub objects: usize,
    /// The number of bytes that these objects take, without what they share: bases, dictionaries,
    /// metadata, and values of [named fields](CompactorBuilder::field).
    pub bytes: usize,
    /// The number of bytes of the JSON of these objects.
    pub raw_bytes: usize,
    /// The number of bases that are alive.
    pub bases: usize,
    /// The number of bytes that the packed bases take.
    pub base_bytes: usize,
    /// The number of bytes of the texts of bases that are kept unpacked. Hashes of their values are
    /// not counted: up to 2 KiB for each of these bases.
    pub unpacked_base_bytes: usize,
    /// The number of bytes that the dictionaries take.
    pub dictionary_bytes: usize,
    /// The number of calls of [`Compact::decode`] so far.
    pub decodes: u64,
    /// The number of these calls that failed.
    pub failed_decodes: u64,
    /// The time that all calls of [`Compact::decode`] took together.
    pub decode_time: Duration,
    /// The number of calls of [`Compact::decode_shared`] so far that found the object in the
    /// [cache](CompactorBuilder::decoded_cache) of decoded objects.
    pub decoded_hits: u64,
    /// The number of these calls so far that did not find the object there, and decoded it. Calls
    /// for an object without a uid or a resource version are not counted.
    pub decoded_misses: u64,
    /// The number of bytes that the objects in this cache are assumed to take.
    pub decoded_bytes: usize,
    /// The number of passes that the informer has made over all stored objects, to pack some of
    /// them again. The informer makes one after each list, and one a minute while objects change.
    pub passes: u64,
}

impl<K> CompactorBuilder<K> {
    fn new() -> Self {
        Self {
            prune: Prune::default(),
            types: None,
            validate: false,
            train: None,
            base_cache: 4 << 20,
            decoded_cache: 0,
            pointers: Vec::new(),
            kind: PhantomData,
        }
    }

    /// Cuts the member at the end of `path`, which begins at the object, out of each object (see
    /// [`without`](crate::reflector::ReflectorBuilder::without)).
    pub fn without(mut self, path: &[&str]) -> Self {
        self.prune.leave_out(path);
        self
    }

    /// Sets `apiVersion` and `kind` for objects whose JSON has none, such as the items of a list.
    /// By default such objects are decoded without `apiVersion` and `kind`.
    pub fn types(mut self, api_version: &str, kind: &str) -> Self {
        self.types = Some(Types::new((api_version, kind)));
        self
    }

    /// Sets whether an object is refused if it does not decode into `K`. Off by default: decoding
    /// takes longer than packing, and [`Compact::decode`] returns the error in any case.
    pub fn validate(mut self, validate: bool) -> Self {
        self.validate = validate;
        self
    }

    /// Sets whether dictionaries are trained. By default they are if [`types`](Self::types) says
    /// that the objects are not Secrets. An informer sets the types if its source knows them
    /// ([`ListerWatcher::types`](crate::ListerWatcher::types)). A dictionary contains parts of
    /// objects, unpacked, for as long as any object is packed with it.
    pub fn train(mut self, train: bool) -> Self {
        self.train = Some(train);
        self
    }

    /// Sets how many bytes of bases are kept unpacked, 4 MiB by default. Any other base is unpacked
    /// again for each object that is packed or decoded with it.
    pub fn base_cache(mut self, bytes: usize) -> Self {
        self.base_cache = bytes;
        self
    }

    /// Keeps recently decoded objects for [`Compact::decode_shared`], up to `bytes` bytes. Off by
    /// default, and with 0. The `Store` and the reconciles of a controller use it, too.
    ///
    /// The size of a decoded object is not known. It is assumed to be seven times the length of its
    /// JSON, which is true for pods. A cache of 1 MiB or more may be divided into shards of about
    /// 512 KiB or more, and an object that is larger than a shard is not kept. A version that was
    /// replaced or deleted stays until newer objects need its room.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo_informer::compact::Compactor;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let maps = Compactor::<ConfigMap>::builder().decoded_cache(1 << 20).build();
    /// let map = maps.pack(br#"{"metadata":{"name":"a","uid":"1","resourceVersion":"7"}}"#)?;
    /// assert!(Arc::ptr_eq(&map.decode_shared()?, &map.decode_shared()?));
    /// assert_eq!(maps.stats().decodes, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decoded_cache(mut self, bytes: usize) -> Self {
        self.decoded_cache = bytes;
        self
    }

    /// Keeps a field of each object uncompressed, for [`Compact::field`] and for indexes, which
    /// then need not decode the object. `pointer` is a JSON pointer (RFC 6901), such as
    /// `/spec/nodeName`. The field is read before [`without`](Self::without) cuts members out. A
    /// value adds its text and up to four bytes to the size of the first object that has it. To the
    /// size of a later object it usually adds at most four bytes, for up to 16,384 values of a
    /// field at a time. Packing an object needs one more pass over its JSON.
    ///
    /// ```
    /// use deltafifo_informer::compact::Compactor;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = Compactor::<Pod>::builder().field("/spec/nodeName")?.build();
    /// let pod = pods.pack(br#"{"metadata":{"name":"a"},"spec":{"nodeName":"n1"}}"#)?;
    /// assert_eq!(pod.field("/spec/nodeName")?.as_deref(), Some("n1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidPointer`] if the pointer does not begin with `/`.
    pub fn field(mut self, pointer: &str) -> Result<Self, InvalidPointer> {
        self.name(Pointer::parse(pointer)?);
        Ok(self)
    }

    fn name(&mut self, pointer: Pointer) {
        if self.pointers.iter().all(|named| named.text != pointer.text) {
            self.pointers.push(pointer);
        }
    }

    /// Builds the compactor.
    #[must_use]
    pub fn build(self) -> Compactor<K> {
        let is_secret = |types: &Types| types.api_version == "v1" && types.kind == "Secret";
        let is_other = self.types.as_ref().is_some_and(|types| !is_secret(types));
        let train = self.train.unwrap_or(is_other);
        let named = |pointer| NamedField { pointer, values: Interned::default() };
        let named = self.pointers.into_iter().map(named).collect();
        let common = Arc::new(Common {
            prune: self.prune,
            types: self.types,
            named,
            cache: Cache::new(self.base_cache),
            decoded: (self.decoded_cache > 0).then(|| DecodedCache::new(self.decoded_cache)),
            counts: Counts::default(),
            shapes: Shapes::default(),
            state: HashState::default(),
        });
        Compactor {
            validate: self.validate,
            train,
            dictionary: RwLock::new(Reference::new(&common, None)),
            common,
            groups: Groups::new(),
            train_at: AtomicUsize::new(FIRST_TRAINING),
            training: Mutex::new(()),
            lists: watch::Sender::new(0),
            passes: AtomicU64::new(0),
        }
    }

    /// Builds the compactor of an informer, whose own settings are `prune`, `types` and the
    /// pointers of `fields`.
    pub(crate) fn build_for(
        mut self,
        prune: &Prune,
        types: Option<Types>,
        fields: &[String],
    ) -> Compactor<K> {
        // The builder of the informer has refused pointers that are invalid.
        for pointer in fields.iter().filter_map(|pointer| Pointer::parse(pointer).ok()) {
            self.name(pointer);
        }
        self.prune.leave_out_all(prune);
        self.types = self.types.or(types);
        self.build()
    }
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
    fn difference(&self, with: &Arc<Reference>, document: &Document) -> Option<Stored> {
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

    fn dictionary(&self) -> Arc<Reference> {
        self.dictionary.read().clone()
    }

    /// Trains a dictionary, or asks for a training, if the number of `groups` makes one due.
    fn train_if_due(&self, groups: usize) {
        let train_at = self.train_at.load(Ordering::Relaxed);
        // Only one of the threads that reach the number trains, or asks for a training.
        let exchange = |at| {
            self.train_at.compare_exchange(at, TRAINING_DUE, Ordering::Relaxed, Ordering::Relaxed)
        };
        if groups >= train_at && exchange(train_at).is_ok() {
            // Until the first list has ended, objects are packed on threads that may block. Later
            // ones may be packed in the task of a watch, so the training is left to the background.
            if *self.lists.borrow() > 0 {
                self.lists.send_modify(|lists| *lists += 1);
            } else {
                let _guard = self.training.lock();
                self.train();
            }
        }
    }

    /// Trains a dictionary on the text of each base and of the first member of each group without a
    /// base, or on each n-th of these texts if all of them would exceed [`SAMPLE_BYTES`]. Texts of
    /// more than [`LARGEST_SAMPLE`] bytes are left out. Trains nothing if dictionaries are switched
    /// off, or if there are fewer than [`FEWEST_SAMPLES`] texts. The caller must hold `training`.
    fn train(&self) {
        let groups = self.groups.count();
        self.train_at.store((groups * GROWTH).max(FIRST_TRAINING), Ordering::Relaxed);
        if !self.train {
            return;
        }
        let (bases, mut firsts) = self.groups.all();
        let mut bases: Vec<_> = bases.iter().filter_map(|base| base.base()).collect();
        bases.retain(|base| base.length <= LARGEST_SAMPLE);
        firsts.retain(|first| first.raw_size() <= LARGEST_SAMPLE);
        let texts = bases.len() + firsts.len();
        if texts < FEWEST_SAMPLES {
            return;
        }
        // The samples are spread over all groups: a list comes in key order, and its first objects
        // belong to one namespace.
        let lengths = bases.iter().map(|base| base.length);
        let bytes: usize = lengths.chain(firsts.iter().map(|first| first.raw_size())).sum();
        let text = |at: usize| match bases.get(at) {
            Some(base) => Some(base.text().ok()?.to_vec()),
            None => Some(firsts.get(at - bases.len())?.text().ok()?.into_bytes()),
        };
        let (mut samples, mut lengths) = (Vec::new(), Vec::new());
        let step = bytes.div_ceil(SAMPLE_BYTES).max(1);
        for text in (0..texts).step_by(step).filter_map(text) {
            let text = Document::plain(&text).cut(None).text;
            samples.extend_from_slice(&text);
            lengths.push(text.len());
            if samples.len() >= SAMPLE_BYTES {
                break;
            }
        }
        if let Some(dictionary) = Dictionary::train(&samples, &lengths) {
            let dictionary = Reference::new(&self.common, Some(dictionary));
            let _old = std::mem::replace(&mut *self.dictionary.write(), dictionary);
        }
    }

    /// Does the work that is due at the end of a list. Frees the memory that is still used for
    /// groups whose objects were all dropped. Trains a dictionary if there is none, or if there are
    /// more than 48 groups, and more than 1.5 times as many as at the last training. Training takes
    /// about 100 ms. So call this method on a thread that may block. Then pass all stored objects
    /// to [`repack`](Self::repack).
    pub fn end_list(&self) {
        self.groups.purge();
        let _guard = self.training.lock();
        let train_at = self.train_at.load(Ordering::Relaxed);
        let is_untrained = matches!(self.dictionary().kind, Material::Nothing);
        let has_grown = || self.groups.count() * 2 > train_at / GROWTH * 3;
        if train_at == TRAINING_DUE || is_untrained || has_grown() {
            self.train();
        }
    }

    /// Packs an object again if its group has a newer base, if few objects still hold its base, or
    /// if its dictionary was replaced. If the dictionary of its base was replaced, packs the base
    /// again. Call this method from time to time for all stored objects. Does nothing for an object
    /// of another compactor.
    pub fn repack(&self, object: &Arc<Compact<K>>) {
        let with = object.with();
        if !Arc::ptr_eq(&with.common, &self.common) {
            return;
        }
        let dictionary = self.dictionary();
        let keeps_base = match with.base() {
            Some(base) => {
                // After an error the base is unchanged. A later pass packs it.
                let _ = base.repack(&dictionary);
                // This handle does not count, but that of the object does.
                let is_used_up = base.is_used_up(Arc::strong_count(&with) - 1);
                if !is_used_up && !base.is_replaced() {
                    return;
                }
                !is_used_up
            }
            None if Arc::ptr_eq(&with, &dictionary) => return,
            None => false,
        };
        let Ok(text) = object.text() else { return };
        let fields = fields::read(&text).ok();
        let group = fields.and_then(|fields| fields.group(&self.common.state));
        let stored = match group.and_then(|group| self.groups.find(group)) {
            Some(Relative::Base(base)) if !Arc::ptr_eq(&base, &with) => {
                self.difference(&base, &Document::new(text.as_bytes(), object.own()))
            }
            // Another group has replaced the base. This group keeps it.
            _ if keeps_base => return,
            _ => None,
        };
        match stored {
            Some(stored) => object.replace(stored),
            None => Self::repack_with(object, &dictionary),
        }
    }

    fn repack_with(object: &Compact<K>, with: &Arc<Reference>) {
        let Ok(text) = object.text() else { return };
        // After an error the object keeps the form that it has, which takes less memory than the
        // whole text.
        if let Ok(stored) = Stored::try_pack(&Document::new(text.as_bytes(), object.own()), with) {
            object.replace(stored);
        }
    }

    /// Returns the memory that the objects take now, and how often they were packed and decoded.
    pub fn stats(&self) -> CompactStats {
        let Common { counts, decoded, .. } = &*self.common;
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        CompactStats {
            packed: counts.packed.load(Ordering::Relaxed),
            objects: load(&counts.objects),
            bytes: load(&counts.bytes),
            raw_bytes: load(&counts.raw_bytes),
            bases: load(&counts.bases),
            base_bytes: load(&counts.base_bytes),
            unpacked_base_bytes: load(&self.common.cache.bytes),
            dictionary_bytes: load(&counts.dictionary_bytes),
            decodes: counts.decodes.load(Ordering::Relaxed),
            failed_decodes: counts.failed_decodes.load(Ordering::Relaxed),
            decode_time: Duration::from_nanos(counts.decode_nanos.load(Ordering::Relaxed)),
            decoded_hits: decoded.as_ref().map_or(0, DecodedCache::hits),
            decoded_misses: decoded.as_ref().map_or(0, DecodedCache::misses),
            decoded_bytes: decoded.as_ref().map_or(0, DecodedCache::bytes),
            passes: self.passes.load(Ordering::Relaxed),
        }
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
