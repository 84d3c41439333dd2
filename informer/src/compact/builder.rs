//! The settings of a compactor.

use std::marker::PhantomData;
use std::sync::Arc;

use tokio::sync::watch;

use super::cache::Cache;
use super::common::{Common, Counts, NamedField};
use super::compactor::Compactor;
use super::decoded::DecodedCache;
use super::groups::Groups;
use super::interned::Interned;
use super::shapes::Shapes;
use super::stored::Reference;
use super::sync::{AtomicU64, AtomicUsize, FIRST_TRAINING, HashState, Mutex, RwLock};
use crate::pointer::{InvalidPointer, Pointer};
use crate::wire::{Prune, Types};

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

impl<K> CompactorBuilder<K> {
    pub(super) fn new() -> Self {
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
    /// takes longer than packing, and [`Compact::decode`](super::Compact::decode) returns the error
    /// in any case.
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

    /// Keeps recently decoded objects for
    /// [`Compact::decode_shared`](super::Compact::decode_shared), up to `bytes` bytes. Off by
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

    /// Keeps a field of each object uncompressed, for [`Compact::field`](super::Compact::field) and
    /// for indexes, which then need not decode the object. `pointer` is a JSON pointer (RFC 6901),
    /// such as `/spec/nodeName`. The field is read before [`without`](Self::without) cuts members
    /// out. A value adds its text and up to four bytes to the size of the first object that has it.
    /// To the size of a later object it usually adds at most four bytes, for up to 16,384 values of
    /// a field at a time. Packing an object needs one more pass over its JSON.
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
