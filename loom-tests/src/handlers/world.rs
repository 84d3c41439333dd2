//! The informer, and the history of each key, recorded by the key's only writer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use deltafifo::{KeyFunc, Meta};
use deltafifo_informer::SharedInformer;
use deltafifo_informer::lister_watcher::Scripted;
use serde::Deserialize;
use shuttle::rand::{Rng, thread_rng};

use super::log::History;

#[derive(Clone, Deserialize)]
pub struct InformerObject {
    #[serde(skip)]
    key: &'static str,
    text: String,
    pub version: u64,
    /// The uid, which differs for each life of the key.
    pub life: String,
    /// A token whose reference count shows whether an object is still kept.
    #[serde(skip)]
    _alive: Arc<()>,
}

impl InformerObject {
    pub fn key(&self) -> &'static str {
        self.key
    }

    pub fn shown(&self) -> String {
        format!("{}{}", self.key, self.version)
    }
}

/// The metadata accessor of [`InformerObject`]. A key is a name without a namespace.
pub struct InformerAccess;

impl Meta<InformerObject> for InformerAccess {
    fn namespace<'a>(&self, _object: &'a InformerObject) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, object: &'a InformerObject) -> Option<&'a str> {
        Some(object.key)
    }

    fn version<'a>(&self, object: &'a InformerObject) -> Option<&'a str> {
        Some(&object.text)
    }

    fn uid<'a>(&self, object: &'a InformerObject) -> Option<&'a str> {
        Some(&object.life)
    }
}

#[derive(Default)]
pub struct KeyState {
    pub history: History,
    versions: u64,
    lives: u64,
}

pub struct InformerWorld {
    pub informer: SharedInformer<InformerObject, InformerAccess>,
    /// The state of each key, behind a std lock: a lock of shuttle could synchronise threads that
    /// the informer fails to synchronise.
    pub keys: Mutex<BTreeMap<&'static str, KeyState>>,
    /// The stored version of each key at the end, once it is known.
    pub last: OnceLock<BTreeMap<&'static str, u64>>,
    pub errors: Arc<Mutex<Vec<String>>>,
    pub alive: Arc<()>,
}

impl InformerWorld {
    pub fn new() -> Self {
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let reported = errors.clone();
        let informer =
            SharedInformer::with_keys(Scripted::new(), KeyFunc::meta_namespace(InformerAccess));
        let informer =
            informer.on_error(move |error| reported.lock().unwrap().push(error.to_string()));
        let informer =
            if thread_rng().gen_bool(0.3) { informer.in_order() } else { informer.workers(2) };
        let informer = informer.build().expect("an informer without indexes builds");
        Self {
            informer,
            keys: Mutex::default(),
            last: OnceLock::new(),
            errors,
            alive: Arc::default(),
        }
    }

    /// Records and returns the next object of a key. Only the key's writer may call it.
    pub fn next_object(&self, key: &'static str) -> Arc<InformerObject> {
        let mut keys = self.keys.lock().unwrap();
        let state = keys.entry(key).or_default();
        state.versions += 1;
        state.history.push(Some(state.versions));
        self.object(key, state)
    }

    /// Records the deletion of a key. Returns its last object.
    pub fn delete_object(&self, key: &'static str) -> Arc<InformerObject> {
        let mut keys = self.keys.lock().unwrap();
        let state = keys.entry(key).or_default();
        let last = self.object(key, state);
        state.history.push(None);
        state.lives += 1;
        last
    }

    /// Returns the newest recorded object of a key. Returns `None` if no object was recorded, or
    /// if the key's deletion was recorded last.
    pub fn stored(&self, key: &'static str) -> Option<Arc<InformerObject>> {
        let keys = self.keys.lock().unwrap();
        let state = keys.get(key).filter(|state| state.history.now().is_some())?;
        Some(self.object(key, state))
    }

    fn object(&self, key: &'static str, state: &KeyState) -> Arc<InformerObject> {
        let (version, life) = (state.versions, state.lives.to_string());
        Arc::new(InformerObject {
            key,
            text: version.to_string(),
            version,
            life,
            _alive: self.alive.clone(),
        })
    }

    /// Returns a list with objects of some of the keys. Records a deletion of the others.
    pub fn list_some(&self, keys: &[&'static str]) -> Vec<Arc<InformerObject>> {
        let some = keys.iter().filter_map(|key| match thread_rng().gen_range(0..3) {
            0 => {
                self.delete_object(key);
                None
            }
            1 => self.stored(key),
            _ => Some(self.next_object(key)),
        });
        some.collect()
    }
}
