//! What the tests share: an object, a store elsewhere that can be scripted, a queue over any kind of known objects, and
//! deltas as short text.
#![allow(dead_code)] // Each test file uses a part of it.

pub mod model;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use deltafifo::{
    BoxError, DeletedFinalStateUnknown, Delta, DeltaFifo, DeltaFifoBuilder, DeltaObject, DeltaType, Deltas, Indexer,
    KeyFunc, KnownObjects, Meta, Popped,
};

/// What the queues hold. Its version is its number unless a test says otherwise.
#[derive(Debug, PartialEq, Eq)]
pub struct Obj {
    pub ns: String,
    pub name: String,
    pub version: String,
    pub n: u64,
}

pub struct ObjMeta;

impl Meta<Obj> for ObjMeta {
    fn namespace<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(&object.ns)
    }
    fn name<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(&object.name)
    }
    fn version<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(&object.version)
    }
}

/// The object of `key` (`ns/name` or `name`) with the number `n`.
pub fn obj(key: &str, n: u64) -> Arc<Obj> {
    versioned(key, n, &n.to_string())
}

pub fn versioned(key: &str, n: u64, version: &str) -> Arc<Obj> {
    let (ns, name) = key.split_once('/').unwrap_or(("", key));
    Arc::new(Obj { ns: ns.to_owned(), name: name.to_owned(), version: version.to_owned(), n })
}

/// An object without a name.
pub fn nameless() -> Arc<Obj> {
    obj("", 0)
}

pub fn tombstone(key: &str, obj: Option<Arc<Obj>>) -> DeletedFinalStateUnknown<Obj> {
    DeletedFinalStateUnknown { key: key.into(), obj }
}

pub fn keys() -> KeyFunc<Obj, ObjMeta> {
    KeyFunc::meta_namespace(ObjMeta)
}

pub fn deltas(list: impl IntoIterator<Item = (DeltaType, Arc<Obj>)>) -> Deltas<Obj> {
    list.into_iter().map(|(kind, object)| Delta::new(kind, object)).collect()
}

/// `A1`, `U2`, `R3`, `S4`, `D5`; a tombstone is `D(5)`, or `D()` without an object.
pub fn show_one(delta: &Delta<Obj>) -> String {
    let kind = &delta.kind.to_string()[..1];
    match &delta.object {
        DeltaObject::Object(object) => format!("{kind}{}", object.n),
        DeltaObject::Tombstone(tombstone) => {
            format!("{kind}({})", tombstone.obj.as_ref().map_or(String::new(), |object| object.n.to_string()))
        }
    }
}

pub fn show(deltas: &Deltas<Obj>) -> String {
    deltas.iter().map(show_one).collect::<Vec<_>>().join(" ")
}

pub type Fifo = DeltaFifo<Obj, ObjMeta>;
pub type Guard<'f> = Popped<'f, Obj, ObjMeta>;

type Hook = Box<dyn FnMut(&str) + Send>;

/// A store that the queue consults but does not own.
#[derive(Default)]
pub struct Outside {
    pub objects: Mutex<BTreeMap<String, Arc<Obj>>>,
    /// Keys whose look-up fails.
    pub failing: Mutex<Vec<String>>,
    /// Keys that are listed but not found.
    pub ghosts: Mutex<Vec<String>>,
    /// Run once, after the next listing or look-up has been answered and before the caller gets the answer.
    pub after_list: Mutex<Option<Hook>>,
    pub after_get: Mutex<Option<Hook>>,
}

impl Outside {
    pub fn put(&self, object: &Arc<Obj>) {
        self.objects.lock().unwrap().insert(keys().key(object).unwrap(), object.clone());
    }

    pub fn once_after_list(&self, hook: impl FnMut(&str) + Send + 'static) {
        *self.after_list.lock().unwrap() = Some(Box::new(hook));
    }

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
            return Err("the store elsewhere fails".into());
        }
        let found = self.objects.lock().unwrap().get(key).cloned();
        run_once(&self.after_get, key);
        Ok(found)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Fused,
    Elsewhere,
    Nowhere,
}

pub const MODES: [Mode; 3] = [Mode::Fused, Mode::Elsewhere, Mode::Nowhere];
pub const KNOWING: [Mode; 2] = [Mode::Fused, Mode::Elsewhere];

/// A queue over known objects of some kind.
pub struct Rig {
    pub mode: Mode,
    pub fifo: Arc<Fifo>,
    pub outside: Arc<Outside>,
}

impl Rig {
    pub fn new(mode: Mode) -> Self {
        Self::with(mode, |builder| builder)
    }

    /// With ordered walks and what `options` adds.
    pub fn with(
        mode: Mode,
        options: impl FnOnce(DeltaFifoBuilder<Obj, ObjMeta>) -> DeltaFifoBuilder<Obj, ObjMeta>,
    ) -> Self {
        Self::knowing(mode, &[], options)
    }

    /// With objects that are known before the queue begins.
    pub fn knowing(
        mode: Mode,
        known: &[Arc<Obj>],
        options: impl FnOnce(DeltaFifoBuilder<Obj, ObjMeta>) -> DeltaFifoBuilder<Obj, ObjMeta>,
    ) -> Self {
        let outside = Arc::new(Outside::default());
        let builder = match mode {
            Mode::Fused => {
                let store = Indexer::builder(keys()).build().unwrap();
                for object in known {
                    store.add(object.clone()).unwrap();
                }
                DeltaFifo::over(store)
            }
            Mode::Elsewhere => {
                for object in known {
                    outside.put(object);
                }
                DeltaFifo::builder(keys()).known_objects(outside.clone())
            }
            Mode::Nowhere => DeltaFifo::builder(keys()),
        };
        Self { mode, fifo: Arc::new(options(builder.ordered_walks(true)).build()), outside }
    }

    /// What a handler does: brings the store up to date.
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

    /// Handles the next key: `key: deltas`.
    pub fn handle(&self) -> Option<String> {
        let mut guard = self.fifo.try_pop()?;
        let shown = format!("{}: {}", guard.key(), show(guard.deltas()));
        self.apply(&mut guard);
        guard.done();
        Some(shown)
    }

    /// Handles everything.
    pub fn drain(&self) -> Vec<String> {
        std::iter::from_fn(|| self.handle()).collect()
    }

    /// Makes `objects` known, by adding and handling them.
    pub fn know(&self, objects: impl IntoIterator<Item = Arc<Obj>>) {
        objects.into_iter().for_each(|object| self.fifo.add(object).unwrap());
        self.drain();
    }

    /// `key=n`, sorted.
    pub fn stored(&self) -> Vec<String> {
        let objects = match self.mode {
            Mode::Fused => self.fifo.store().list(),
            _ => self.outside.objects.lock().unwrap().values().cloned().collect(),
        };
        let mut stored: Vec<_> =
            objects.iter().map(|object| format!("{}={}", keys().key(object).unwrap(), object.n)).collect();
        stored.sort();
        stored
    }

    /// What is pending for `key`.
    pub fn pending(&self, key: &str) -> Option<String> {
        self.fifo.get_by_key(key).map(|deltas| show(&deltas))
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs `work`, which must end: turns a deadlock into a failure instead of a hanging run.
pub fn ends<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let result = work();
        drop(send);
        result
    });
    assert_ne!(
        receive.recv_timeout(Duration::from_secs(if cfg!(miri) { 3600 } else { 120 })),
        Err(mpsc::RecvTimeoutError::Timeout),
        "it hangs"
    );
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
