//! Models of user code that calls the queue: wakers, and destructors of objects. If the queue ran
//! them under one of its locks, they would wait for themselves, which loom reports as a deadlock.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc as StdArc, Mutex, Weak};
use std::task::{Context, Wake, Waker};

use deltafifo::{DeltaFifo, InOrderFifo, Indexer, KeyFunc, KeyScope, Meta, ScopeId};
use loom::sync::Arc;
use loom::thread;

use crate::explore::Model;
use crate::rig::VERSIONS;

pub const MODELS: &[Model] = &[
    Model {
        name: "user_code::waker_calls_the_queue",
        bound: None,
        at_least: 1,
        outcomes: &["7 woken"],
        body: wakers,
    },
    Model {
        name: "user_code::waker_of_two_threads",
        bound: Some(3), // 0.1 s
        at_least: 100,
        outcomes: &["woken"],
        body: waker_of_two_threads,
    },
    Model {
        name: "user_code::peeked_copy_is_the_last",
        bound: Some(2), // 0.1 s
        at_least: 75,
        outcomes: &["handled", "pending"],
        body: peeked_copy_is_the_last,
    },
    Model {
        name: "user_code::unchanged_object_is_the_last",
        bound: Some(2), // 16 s
        at_least: 10_700,
        outcomes: &["stored: 1", "stored: 2"],
        body: unchanged_object_is_the_last,
    },
    Model {
        name: "user_code::probed_object_is_the_last",
        bound: Some(2), // 3 s
        at_least: 5300,
        outcomes: &["stored: 2"],
        body: probed_object_is_the_last,
    },
    Model {
        name: "user_code::object_found_twice_is_the_last",
        bound: Some(2), // 4 s
        at_least: 1_900,
        outcomes: &["read"],
        body: object_found_twice_is_the_last,
    },
    Model {
        name: "user_code::refused_in_order_lists",
        bound: None,
        at_least: 1,
        outcomes: &["2 dropped"],
        body: refused_in_order_lists,
    },
];

type CuriousFifo = DeltaFifo<Curious, CuriousAccess>;

/// An object whose destructor calls the queue, which locks each of its shards exclusively.
struct Curious {
    number: usize,
    fifo: Weak<CuriousFifo>,
}

impl Drop for Curious {
    fn drop(&mut self) {
        if let Some(fifo) = self.fifo.upgrade() {
            fifo.list_keys();
        }
    }
}

/// The metadata accessor. All objects have the key `a`.
struct CuriousAccess;

impl Meta<Curious> for CuriousAccess {
    fn namespace<'a>(&self, _object: &'a Curious) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, _object: &'a Curious) -> Option<&'a str> {
        Some("a")
    }

    fn version<'a>(&self, object: &'a Curious) -> Option<&'a str> {
        VERSIONS.get(object.number).copied()
    }
}

/// Creates a queue over a store that holds object 1.
fn fifo() -> StdArc<CuriousFifo> {
    StdArc::new_cyclic(|fifo| {
        let store = Indexer::builder(KeyFunc::meta_namespace(CuriousAccess)).build().unwrap();
        store.add(Arc::new(Curious { number: 1, fifo: fifo.clone() })).unwrap();
        DeltaFifo::over(store).skip_unchanged(true).build()
    })
}

fn object(fifo: &StdArc<CuriousFifo>, number: usize) -> Arc<Curious> {
    Arc::new(Curious { number, fifo: StdArc::downgrade(fifo) })
}

fn handle_one(fifo: &CuriousFifo) {
    if let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
}

/// A waker that calls the queue, which locks each of its shards exclusively.
struct CallingWaker {
    fifo: Weak<CuriousFifo>,
    called: AtomicUsize,
}

impl Wake for CallingWaker {
    fn wake(self: StdArc<Self>) {
        if let Some(fifo) = self.fifo.upgrade() {
            fifo.list_keys();
        }
        self.called.fetch_add(1, Ordering::Relaxed);
    }
}

fn calling_waker(fifo: &StdArc<CuriousFifo>) -> (StdArc<CallingWaker>, Waker) {
    let calling_waker =
        StdArc::new(CallingWaker { fifo: StdArc::downgrade(fifo), called: AtomicUsize::new(0) });
    (calling_waker.clone(), Waker::from(calling_waker))
}

/// Runs every step that wakes a consumer, one after the other, with a waker that calls the queue.
fn wakers() -> String {
    let fifo = fifo();
    let steps: [fn(&StdArc<CuriousFifo>); 7] = [
        |fifo| fifo.update(object(fifo, 2)).unwrap(),
        |fifo| fifo.resync(),
        |fifo| fifo.update_batch(vec![object(fifo, 3)]).unwrap(),
        |fifo| assert_eq!(fifo.replace(vec![object(fifo, 4)], "4").unwrap().deleted, 0),
        // The sweep of the commit wakes.
        |fifo| assert_eq!(fifo.replace(vec![], "5").unwrap().deleted, 1),
        |fifo| fifo.add(object(fifo, 6)).unwrap(),
        |fifo| fifo.close(),
    ];
    let mut woken = 0;
    for step in steps {
        let (calling_waker, waker) = calling_waker(&fifo);
        let mut waiting = pin!(fifo.pop_async());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        step(&fifo);
        woken += calling_waker.called.load(Ordering::Relaxed);
        handle_one(&fifo);
    }
    format!("{woken} woken")
}

/// Drops an item, which queues its key again, while another thread offers an update of the key. A
/// consumer is woken, with a waker that calls the queue.
fn waker_of_two_threads() -> String {
    let fifo = fifo();
    fifo.update(object(&fifo, 2)).unwrap();
    let item = fifo.try_pop().unwrap();
    let (calling_waker, waker) = calling_waker(&fifo);
    let mut waiting = pin!(fifo.pop_async());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let producer = {
        let fifo = fifo.clone();
        thread::spawn(move || fifo.update(object(&fifo, 3)).unwrap())
    };
    drop(item);
    producer.join().unwrap();
    if calling_waker.called.load(Ordering::Relaxed) > 0 {
        "woken".to_owned()
    } else {
        "pending".to_owned()
    }
}

/// Copies pending deltas while a handler replaces the known object. The copy may then be the last
/// to hold the old object.
fn peeked_copy_is_the_last() -> String {
    let fifo = fifo();
    fifo.update(object(&fifo, 2)).unwrap();
    let consumer = {
        let fifo = fifo.clone();
        thread::spawn(move || handle_one(&fifo))
    };
    let peeked = fifo.get_by_key("a").is_some();
    consumer.join().unwrap();
    if peeked { "pending".to_owned() } else { "handled".to_owned() }
}

/// Replaces the known object with object 2, on a new thread.
fn replacing(fifo: &StdArc<CuriousFifo>) -> thread::JoinHandle<()> {
    let fifo = fifo.clone();
    thread::spawn(move || {
        fifo.update(object(&fifo, 2)).unwrap();
        handle_one(&fifo);
    })
}

fn stored(fifo: &CuriousFifo) -> String {
    let stored: Vec<_> =
        fifo.store().list().iter().map(|object| object.number.to_string()).collect();
    format!("stored: {}", stored.join(" "))
}

/// Compares the version of the known object in a relist while a handler replaces the object.
fn unchanged_object_is_the_last() -> String {
    let fifo = fifo();
    let writer = replacing(&fifo);
    fifo.replace(vec![object(&fifo, 1)], "1").unwrap();
    writer.join().unwrap();
    handle_one(&fifo);
    stored(&fifo)
}

/// Probes a version while a handler replaces the known object. The probe may then be the last to
/// hold the old object.
fn probed_object_is_the_last() -> String {
    let fifo = fifo();
    let writer = replacing(&fifo);
    let needed = fifo.begin_replace().probe(&[("a", "1")]).unwrap();
    assert_eq!(needed.len(), 1);
    writer.join().unwrap();
    stored(&fifo)
}

/// An object whose destructor calls a function.
struct Calling {
    key: &'static str,
    call: Box<dyn Fn() + Send + Sync>,
}

impl Calling {
    fn new(key: &'static str, call: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { key, call: Box::new(call) })
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        (self.call)();
    }
}

/// The accessor of [`Calling`].
struct ByKey;

impl Meta<Calling> for ByKey {
    fn namespace<'a>(&self, _object: &'a Calling) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, object: &'a Calling) -> Option<&'a str> {
        Some(object.key)
    }
}

/// Looks up an object that has two index values, while the object is replaced. The look-up may then
/// be the last to hold the old object, whose destructor changes the index.
fn object_found_twice_is_the_last() -> String {
    let both = |_: &Calling| Ok(vec!["x".to_owned(), "y".to_owned()]);
    let keys = KeyFunc::meta_namespace(ByKey);
    let store = StdArc::new(Indexer::builder(keys).index("both", both).build().unwrap());
    let changed = StdArc::downgrade(&store);
    let changes_the_index = move || {
        if let Some(store) = changed.upgrade() {
            store.add(Calling::new("b", || ())).unwrap();
        }
    };
    store.add(Calling::new("a", changes_the_index)).unwrap();
    let writer = {
        let store = store.clone();
        thread::spawn(move || store.add(Calling::new("a", || ())).unwrap())
    };
    assert!(!store.index("both", &Calling { key: "a", call: Box::new(|| ()) }).unwrap().is_empty());
    writer.join().unwrap();
    "read".to_owned()
}

/// Offers two lists that an in-order queue refuses at the last moment, because its transformer has
/// changed the scopes. During the list of the whole queue the transformer adds a scope; during the
/// list of that scope it removes the scope. The destructor of each object calls `add_scope`.
fn refused_in_order_lists() -> String {
    type InOrder = InOrderFifo<Calling, ByKey>;
    let scope: StdArc<Mutex<Option<ScopeId>>> = StdArc::default();
    let dropped = StdArc::new(AtomicUsize::new(0));
    let known_scope = scope.clone();
    let fifo = StdArc::new_cyclic(|fifo: &Weak<InOrder>| {
        let fifo = fifo.clone();
        let changes_scopes = move |object| {
            let fifo = fifo.upgrade().unwrap();
            let before = known_scope.lock().unwrap().clone();
            if let Some(scope) = before {
                fifo.remove_scope(&scope).unwrap();
            } else {
                let added = fifo.add_scope(KeyScope::keys("all", |_| true)).unwrap();
                *known_scope.lock().unwrap() = Some(added);
            }
            Ok(object)
        };
        InOrderFifo::builder(KeyFunc::meta_namespace(ByKey)).transformer(changes_scopes).build()
    });
    let object = || {
        let (fifo, dropped) = (StdArc::downgrade(&fifo), dropped.clone());
        Calling::new("a", move || {
            if let Some(fifo) = fifo.upgrade() {
                let _ = fifo.add_scope(KeyScope::namespace("another"));
            }
            // Relaxed: the thread that drops the objects reads the number.
            dropped.fetch_add(1, Ordering::Relaxed);
        })
    };
    assert!(fifo.replace(vec![object()], "1").is_err());
    let added = scope.lock().unwrap().clone().unwrap();
    assert!(fifo.replace_in(&added, vec![object()], "1").is_err());
    scope.lock().unwrap().take();
    format!("{} dropped", dropped.load(Ordering::Relaxed))
}
