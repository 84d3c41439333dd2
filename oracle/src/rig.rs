//! A queue over any kind of known objects. One kind is an external store that tests can script.
#![allow(
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "a panic here fails the test that uses this module"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use deltafifo::{BoxError, DeltaFifo, DeltaFifoBuilder, DeltaType, Indexer, KnownObjects, Popped};

use crate::{Obj, ObjMeta, key_func, show};

/// The queue of the engine.
pub type Fifo = DeltaFifo<Obj, ObjMeta>;
/// An item of that queue.
pub type Guard<'f> = Popped<'f, Obj, ObjMeta>;

type Hook = Box<dyn FnMut(&str) + Send>;

/// A store that the queue reads but does not own.
#[derive(Default)]
pub struct Outside {
    /// The stored objects.
    pub objects: Mutex<BTreeMap<String, Arc<Obj>>>,
    /// Keys whose look-up fails.
    pub failing: Mutex<Vec<String>>,
    /// Keys that a listing contains although their look-up finds nothing.
    pub ghosts: Mutex<Vec<String>>,
    /// A hook that runs once, after the next listing is computed and before it is returned.
    pub after_list: Mutex<Option<Hook>>,
    /// A hook that runs once, after the next look-up is computed and before it is returned.
    pub after_get: Mutex<Option<Hook>>,
}

impl Outside {
    /// Stores an object.
    pub fn put(&self, object: &Arc<Obj>) {
        self.objects.lock().unwrap().insert(key_func().key(object).unwrap(), object.clone());
    }

    /// Runs `hook` once, after the next listing, with an empty text.
    pub fn once_after_list(&self, hook: impl FnMut(&str) + Send + 'static) {
        *self.after_list.lock().unwrap() = Some(Box::new(hook));
    }

    /// Runs `hook` once, after the next look-up, with the key of the look-up.
    pub fn once_after_get(&self, hook: impl FnMut(&str) + Send + 'static) {
        *self.after_get.lock().unwrap() = Some(Box::new(hook));
    }
}

fn run_once(hook: &Mutex<Option<Hook>>, key: &str) {
    let hook = hook.lock().unwrap().take();
    if let Some(mut hook) = hook {
        hook(key);
    }
}

impl KnownObjects<Obj> for Outside {
    fn list_keys(&self) -> Vec<String> {
        let mut listed: Vec<_> = self.objects.lock().unwrap().keys().cloned().collect();
        listed.extend(self.ghosts.lock().unwrap().iter().cloned());
        run_once(&self.after_list, "");
        listed
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Obj>>, BoxError> {
        if self.failing.lock().unwrap().iter().any(|failing| failing == key) {
            return Err("the external store fails".into());
        }
        let found = self.objects.lock().unwrap().get(key).cloned();
        run_once(&self.after_get, key);
        Ok(found)
    }
}

/// The kind of known objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The engine's own store.
    Fused,
    /// A store that the queue does not own ([`Outside`]).
    Elsewhere,
    /// No known objects.
    Nowhere,
}

/// Every mode.
pub const MODES: [Mode; 3] = [Mode::Fused, Mode::Elsewhere, Mode::Nowhere];
/// The modes with known objects.
pub const KNOWING: [Mode; 2] = [Mode::Fused, Mode::Elsewhere];

/// A queue over one kind of known objects.
pub struct Rig {
    /// The kind of known objects.
    pub mode: Mode,
    /// The queue.
    pub fifo: Arc<Fifo>,
    /// The external store. Empty in the other modes.
    pub outside: Arc<Outside>,
}

impl Rig {
    /// Creates a queue that has no known objects yet. In every queue of a rig, the deletions of a
    /// relist and the Syncs of a resync are in key order.
    pub fn new(mode: Mode) -> Self {
        Self::with(mode, |builder| builder)
    }

    /// Creates a queue with the options that `options` sets.
    pub fn with(
        mode: Mode,
        options: impl FnOnce(DeltaFifoBuilder<Obj, ObjMeta>) -> DeltaFifoBuilder<Obj, ObjMeta>,
    ) -> Self {
        Self::knowing(mode, &[], options)
    }

    /// Creates a queue with these known objects, and the options that `options` sets.
    pub fn knowing(
        mode: Mode,
        known: &[Arc<Obj>],
        options: impl FnOnce(DeltaFifoBuilder<Obj, ObjMeta>) -> DeltaFifoBuilder<Obj, ObjMeta>,
    ) -> Self {
        let outside = Arc::new(Outside::default());
        let builder = match mode {
            Mode::Fused => {
                let store = Indexer::builder(key_func()).build().unwrap();
                for object in known {
                    store.add(object.clone()).unwrap();
                }
                DeltaFifo::over(store)
            }
            Mode::Elsewhere => {
                for object in known {
                    outside.put(object);
                }
                DeltaFifo::builder(key_func()).known_objects(outside.clone())
            }
            Mode::Nowhere => DeltaFifo::builder(key_func()),
        };
        Self { mode, fifo: Arc::new(options(builder.ordered_walks(true)).build()), outside }
    }

    /// Applies an item to the store, as a handler does.
    pub fn apply(&self, guard: &mut Guard<'_>) {
        match self.mode {
            Mode::Fused => guard.apply(|_| ()).unwrap(),
            Mode::Elsewhere => {
                let mut objects = self.outside.objects.lock().unwrap();
                for delta in guard.deltas() {
                    if delta.kind == DeltaType::Deleted {
                        objects.remove(guard.key());
                    } else if let Some(object) = delta.object.object() {
                        objects.insert(guard.key().to_owned(), object.clone());
                    }
                }
            }
            Mode::Nowhere => {}
        }
    }

    /// Handles the next key. Returns the key and its deltas as the text `key: deltas`, or `None` if
    /// nothing is pending.
    pub fn handle(&self) -> Option<String> {
        let mut guard = self.fifo.try_pop()?;
        let shown = format!("{}: {}", guard.key(), show(guard.deltas()));
        self.apply(&mut guard);
        guard.done();
        Some(shown)
    }

    /// Handles all pending keys. Returns the text of each, as [`handle`](Self::handle) does.
    pub fn drain(&self) -> Vec<String> {
        std::iter::from_fn(|| self.handle()).collect()
    }

    /// Makes `objects` known by adding and handling them.
    pub fn know(&self, objects: impl IntoIterator<Item = Arc<Obj>>) {
        objects.into_iter().for_each(|object| self.fifo.add(object).unwrap());
        self.drain();
    }

    /// Returns the stored objects as `key=n`, sorted.
    pub fn stored(&self) -> Vec<String> {
        let objects = match self.mode {
            Mode::Fused => self.fifo.store().list(),
            _ => self.outside.objects.lock().unwrap().values().cloned().collect(),
        };
        let mut stored: Vec<_> = objects
            .iter()
            .map(|object| format!("{}={}", key_func().key(object).unwrap(), object.n))
            .collect();
        stored.sort();
        stored
    }

    /// Returns the pending deltas of `key` as text, or `None` if there are none.
    pub fn pending(&self, key: &str) -> Option<String> {
        self.fifo.get_by_key(key).map(|deltas| show(&deltas))
    }
}
