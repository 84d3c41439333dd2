//! Building blocks of the models: objects, queues, and the notation of outcomes.
//!
//! The last letter of a key chooses its shard: `a` and `c` share one, `b` and `d` the other. An
//! object is written as its key and its number. A delta is written as `+a1` (added), `~a1`
//! (updated), `-a1` (deleted), `=a1` (replaced), `:a1` (sync), or `-a?` (a deletion whose last
//! state is unknown). A pop is written as its deltas in brackets.

#![cfg_attr(deltafifo_shuttle, allow(dead_code))] // Only the models use most of these functions.

use std::sync::Mutex as StdMutex;

use crate::checker::sync::Arc;
use crate::checker::sync::atomic::{AtomicUsize, Ordering};
use crate::checker::thread::{self, JoinHandle};
use deltafifo::{
    Change, Closed, DeltaFifo, DeltaFifoBuilder, DeltaType, Deltas, Indexer, KeyFunc, Labels, Meta,
    Popped, mutants,
};

pub const VERSIONS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// An object that detects when a thread reads it before it is completely written.
pub struct Object {
    pub key: &'static str,
    pub number: usize,
    finished: AtomicUsize,
}

impl Object {
    pub fn new(key: &'static str, number: usize) -> Arc<Self> {
        let object = Arc::new(Self { key, number, finished: AtomicUsize::new(0) });
        // Relaxed, here and in `read`: the queue and the store must make it visible.
        object.finished.store(1, Ordering::Relaxed);
        object
    }

    /// Returns the number. Fails if this thread cannot see the whole object.
    pub fn read(&self) -> usize {
        assert_eq!(
            self.finished.load(Ordering::Relaxed),
            1,
            "an object is visible before it is completely written"
        );
        self.number
    }
}

/// The metadata accessor of [`Object`]. A key is a name without a namespace, and the version is the
/// number.
#[derive(Clone, Copy)]
pub struct Access;

impl Meta<Object> for Access {
    fn namespace<'a>(&self, _object: &'a Object) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.key)
    }

    fn version<'a>(&self, object: &'a Object) -> Option<&'a str> {
        VERSIONS.get(object.number).copied()
    }
}

/// The value of every label is the parity of the object's number.
impl Labels<Object> for Access {
    fn label<'a>(&self, object: &'a Object, _key: &str) -> Option<&'a str> {
        Some(parity(object))
    }
}

pub type Fifo = DeltaFifo<Object, Access>;
pub type Item<'f> = Popped<'f, Object, Access>;

/// The name of the index by parity, whose values are `odd` and `even`.
pub const PARITY: &str = "parity";

/// Creates a queue fused with a store that has the index by parity.
pub fn indexed() -> Arc<Fifo> {
    Arc::new(indexed_with(|builder| builder))
}

/// Creates a queue like [`indexed`], with further options.
pub fn indexed_with(
    options: impl FnOnce(DeltaFifoBuilder<Object, Access>) -> DeltaFifoBuilder<Object, Access>,
) -> Fifo {
    let store = Indexer::builder(KeyFunc::meta_namespace(Access));
    let store =
        store.index(PARITY, |object: &Object| Ok(vec![parity(object).to_owned()])).build().unwrap();
    options(DeltaFifo::over(store)).build()
}

pub fn parity(object: &Object) -> &'static str {
    if object.number.is_multiple_of(2) { "even" } else { "odd" }
}

/// Returns the contents of an index by parity as text: the value, `even` or `odd`, of each object.
/// Fails if an object is under a value that it does not have.
pub fn by_parity(fifo: &Fifo, index: &str) -> String {
    let mut found = String::new();
    for value in ["even", "odd"] {
        for object in fifo.store().by_index(index, value).unwrap() {
            object.read();
            assert_eq!(parity(&object), value, "an object under a value that it does not have");
            found.push_str(value);
        }
    }
    found
}

/// Creates a queue without a store.
pub fn bare() -> Arc<Fifo> {
    Arc::new(DeltaFifo::builder(KeyFunc::meta_namespace(Access)).build())
}

/// Returns the builder of a queue fused with a store that holds `objects`.
pub fn fused_with(objects: &[Arc<Object>]) -> DeltaFifoBuilder<Object, Access> {
    let store = Indexer::builder(KeyFunc::meta_namespace(Access)).build().unwrap();
    objects.iter().for_each(|object| store.add(object.clone()).unwrap());
    DeltaFifo::over(store)
}

/// Creates a queue fused with a store that holds `objects`.
pub fn fused(objects: &[Arc<Object>]) -> Arc<Fifo> {
    Arc::new(fused_with(objects).build())
}

pub fn sign(kind: DeltaType) -> char {
    match kind {
        DeltaType::Added => '+',
        DeltaType::Updated => '~',
        DeltaType::Deleted => '-',
        DeltaType::Replaced => '=',
        DeltaType::Sync => ':',
    }
}

/// Formats a pop: `[+a1 ~a2]`. Reads every object.
pub fn show(deltas: &Deltas<Object>, key: &str) -> String {
    let shown: Vec<_> = deltas
        .iter()
        .map(|delta| {
            let number =
                delta.object.object().map_or("?".to_owned(), |object| object.read().to_string());
            format!("{}{key}{number}", sign(delta.kind))
        })
        .collect();
    assert!(!shown.is_empty(), "a pop returned no deltas");
    format!("[{}]", shown.join(" "))
}

/// Returns the mutant called `name`.
pub fn mutant(name: &str) -> Option<mutants::Mutant> {
    mutants::ALL.iter().map(|(mutant, _)| *mutant).find(|mutant| format!("{mutant:?}") == name)
}

/// The log of an iteration: the steps of its threads, in the order of the schedule. It uses no
/// type of loom, because it must not synchronise the threads.
#[derive(Default)]
pub struct Log(StdMutex<String>);

impl Log {
    pub fn add(&self, step: &str) {
        let mut log = self.0.lock().unwrap();
        if !log.is_empty() {
            log.push(' ');
        }
        log.push_str(step);
    }

    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

/// A detector of two faults: handlers of one key that overlap, and a handler that does not see the
/// writes of the previous one.
#[derive(Default)]
pub struct Exclusive {
    running: StdMutex<bool>,
    handled: AtomicUsize,
    truth: StdMutex<usize>,
}

impl Exclusive {
    pub fn handle(&self, handler: impl FnOnce()) {
        assert!(
            !std::mem::replace(&mut *self.running.lock().unwrap(), true),
            "two handlers of one key overlap"
        );
        // Relaxed: the slot's word must make the last handler's work visible.
        let before = self.handled.load(Ordering::Relaxed);
        assert_eq!(
            before,
            *self.truth.lock().unwrap(),
            "a handler does not see the work of the previous one"
        );
        handler();
        self.handled.store(before + 1, Ordering::Relaxed);
        *self.truth.lock().unwrap() += 1;
        *self.running.lock().unwrap() = false;
    }
}

/// Pops one key if one is pending, applies it if `is_fused`, and settles it as handled. Returns
/// whether there was one.
pub fn pop_one(fifo: &Fifo, log: &Log, is_fused: bool) -> bool {
    let Some(item) = fifo.try_pop() else { return false };
    log.add(&show(item.deltas(), item.key()));
    end(item, is_fused);
    true
}

/// Pops one key like [`pop_one`], and returns its deltas instead of logging them.
pub fn pop_and_show(fifo: &Fifo, is_fused: bool) -> String {
    let log = Log::default();
    pop_one(fifo, &log, is_fused);
    log.text()
}

/// Waits for one key and handles it without applying it. Returns `closed` if the queue is closed
/// and empty.
pub fn wait_and_show(fifo: &Fifo) -> String {
    end_and_show(fifo.pop())
}

/// Formats the result of a wait, and settles the item.
pub fn end_and_show(waited: Result<Item<'_>, Closed>) -> String {
    let Ok(item) = waited else { return "closed".to_owned() };
    let shown = show(item.deltas(), item.key());
    item.done();
    shown
}

pub fn end(mut item: Item<'_>, is_fused: bool) {
    if is_fused {
        item.apply(|change| {
            if let Change::Added { new, .. } | Change::Updated { new, .. } = change {
                new.read();
            }
        })
        .unwrap();
    }
    item.done();
}

/// Handles all remaining keys like [`pop_one`]. Must be called when no other thread uses the queue
/// any more.
pub fn drain(fifo: &Fifo, log: &Log, is_fused: bool) {
    while pop_one(fifo, log, is_fused) {}
}

/// Handles all remaining keys of a queue that is fused with a store. Returns the whole log, and the
/// contents of the store.
pub fn rest(fifo: &Fifo, log: &Log) -> String {
    drain(fifo, log, true);
    format!("{}, stored: {}", log.text(), stored(fifo))
}

/// Calls `work` with the queue on a new thread.
pub fn spawn_with<Q: Send + Sync + 'static, R: Send + 'static>(
    fifo: &Arc<Q>,
    work: impl FnOnce(&Q) -> R + Send + 'static,
) -> JoinHandle<R> {
    let fifo = fifo.clone();
    thread::spawn(move || work(&fifo))
}

/// Returns the contents of the store, sorted: `a1 b2`.
pub fn stored(fifo: &Fifo) -> String {
    show_all(&fifo.store().list())
}

/// Formats objects, sorted. Reads every object.
pub fn show_all(objects: &[Arc<Object>]) -> String {
    let mut shown: Vec<_> =
        objects.iter().map(|object| format!("{}{}", object.key, object.read())).collect();
    shown.sort_unstable();
    shown.join(" ")
}
