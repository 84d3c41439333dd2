//! What a reflector feeds, behind one trait.
//!
//! * `pieces.rs`: a queue of deltas, which takes a relist in pieces.
//! * `whole.rs`: everything else takes it as a whole.

mod pieces;
mod whole;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use deltafifo::{Closed, DeletedFinalStateUnknown, DeltaObject, IndexReader, Meta, Refused, RelistError, StoreError};
use futures_util::future::BoxFuture;

pub use whole::Plain;

/// Anything that a reflector can feed.
///
/// A [`DeltaFifo`](deltafifo::DeltaFifo) gets a relist in pieces, so that nothing is decoded that
/// did not change, and consumers have the first page while the last is on its way. Everything else
/// gets it as a whole: an [`InOrderFifo`](deltafifo::InOrderFifo), and any
/// [`Store`](deltafifo::Store) by [`Plain`].
///
/// # Keys of a function of yours
///
/// Of an object that cannot be read, or that your function gives no key, nothing but its name is
/// known. Where keys are names ([`KeyFunc::meta_namespace`](deltafifo::KeyFunc::meta_namespace))
/// that is its key, and what is known under it stays. Where they are not
/// ([`KeyFunc::custom`](deltafifo::KeyFunc::custom)), the key is that of an object of this name:
/// it is looked for once a relist, and for each deletion of a watch that cannot be read, by a look
/// at all objects. A `DeltaFifo` looks at what is queued and at [its
/// store](deltafifo::DeltaFifo::store), an `InOrderFifo` at its store only. What is in neither
/// place is taken for gone by a relist, and for never known by a deletion: in an `InOrderFifo`
/// what is still queued; in a `DeltaFifo` what a handler has in hand and has not applied, and,
/// over known objects elsewhere, all that is not queued.
pub trait Target<K>: Send + Sync + 'static {
    /// Begins a relist.
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>>;

    /// A new object.
    ///
    /// # Errors
    /// It was not stored, or not completely: see [`ReflectorStore`](deltafifo::ReflectorStore).
    fn add(&self, object: Arc<K>) -> Result<(), StoreError>;

    /// A changed object.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn update(&self, object: Arc<K>) -> Result<(), StoreError>;

    /// An object is gone.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn delete(&self, object: DeltaObject<K>) -> Result<(), StoreError>;

    /// Everything up to `version` has been told.
    fn bookmark(&self, version: &str);

    /// Tells of everything known once more.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn resync(&self) -> Result<(), StoreError>;

    /// Waits until there is room.
    ///
    /// # Errors
    /// [`Closed`]: nobody takes anything any more.
    fn ready(&self) -> BoxFuture<'_, Result<(), Closed>>;

    /// Waits until nobody takes anything any more.
    fn closed(&self) -> BoxFuture<'_, Closed>;

    /// The key of the object that is called `namespace/name`, or `name`: for one of which nothing
    /// but that can be read. None when keys are not names, and no such object is found.
    fn key_of_named<'a>(&self, name: &'a str) -> Option<Cow<'a, str>>;
}

/// A relist in progress. Dropped, it is abandoned: nothing is deleted. A name here is
/// `namespace/name`, or `name`.
pub trait Pieces<K>: Send + 'static {
    /// About how many objects are to come in all.
    fn expect(&mut self, objects: usize);

    /// Of each listed (name, version), whether the object is needed.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError>;

    /// Takes the objects that were needed, in list order, with their names. What is refused comes
    /// back.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    fn offer(&mut self, names: &[&str], objects: Vec<Arc<K>>) -> Result<Vec<Refused>, RelistError>;

    /// An object that was listed, perhaps, is gone again. None: of what is called `name` nothing
    /// but that can be read.
    ///
    /// # Errors
    /// [`StoreError::Relist`]. Any other says why the object was refused: what is called `name` is
    /// deleted all the same.
    fn delete(&mut self, name: &str, object: Option<DeltaObject<K>>) -> Result<(), StoreError>;

    /// What is called `name` is listed, but its object cannot be had: what is known of it stays as
    /// it is.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    fn keep(&mut self, name: &str) -> Result<(), RelistError>;

    /// Makes the commit delete nothing: an object is listed whose name is not known, so that any
    /// object that is not listed may be it. Returns whether this is possible; if not, which is the
    /// default, the list is given up.
    fn keep_unlisted(&mut self) -> bool {
        false
    }

    /// Makes the relist take every object, also one of the version that is stored: versions of
    /// before do not compare with those of this list. A target that never skips an object has
    /// nothing to do.
    fn ignore_versions(&mut self) {}

    /// Ends the relist: what was not listed is gone. Of what is refused only now the reasons come
    /// back; each says which object it is about.
    ///
    /// # Errors
    /// Nothing is deleted, or not everything is stored: the error says which.
    fn commit(self: Box<Self>, version: &str) -> Result<Vec<StoreError>, StoreError>;
}

/// Names with their keys.
type Named<'n> = Vec<(&'n str, Cow<'n, str>)>;

/// The keys of objects that are called so. Where keys are not names, only those of `pending` and
/// stored objects are found.
fn keys_of_named<'n, K, M: Meta<K>>(
    names: impl IntoIterator<Item = &'n str>,
    pending: impl FnOnce() -> Vec<Arc<K>>,
    store: &IndexReader<K, M>,
) -> Named<'n> {
    let keys = store.keys();
    let names = names.into_iter();
    if keys.is_meta_namespace() {
        return names.map(|name| (name, name.into())).collect();
    }
    let names: HashSet<&str> = names.collect();
    if names.is_empty() {
        return Vec::new();
    }
    // Keys of a function of yours: only a look at every object tells, but one look for all names.
    let mut found = Named::new();
    let mut look = |object: &K| {
        let (namespace, name) = (keys.meta().namespace(object), keys.meta().name(object).unwrap_or_default());
        let name = match namespace {
            None | Some("") => names.get(name),
            Some(namespace) => names.get(format!("{namespace}/{name}").as_str()),
        };
        found.extend(name.and_then(|name| Some((*name, keys.key(object).ok()?.into()))));
    };
    // In this order: what is pending may be stored meanwhile.
    for object in pending() {
        look(&object);
    }
    store.for_each(|object| look(object));
    found
}

/// The deletion of what is under `key`, of which nothing else can be read.
pub(super) fn tombstone<K>(key: &str) -> DeltaObject<K> {
    DeltaObject::from(DeletedFinalStateUnknown { key: key.into(), obj: None })
}

/// The deletion of what is called so, of which nothing else can be read.
pub(super) fn gone<K: 'static>(target: &dyn Target<K>, name: &str) -> Option<DeltaObject<K>> {
    target.key_of_named(name).map(|key| tombstone(&key))
}
