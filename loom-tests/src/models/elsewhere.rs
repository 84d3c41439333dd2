//! Models of a queue over an external store, which the handlers update. A slot exists only while
//! its key is pending or being handled. So the queue must not read a key from the store while a
//! handler changes the key.

use std::collections::BTreeMap;

use deltafifo::mutants::slots;
use deltafifo::{BoxError, DeltaFifo, DeltaFifoBuilder, DeltaType, KeyFunc, KnownObjects};
use loom::sync::{Arc, Mutex};

use crate::explore::Model;
use crate::rig::{Access, Fifo, Log, Object, show, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "elsewhere::delete",
        bound: None,
        at_least: 17_320,
        outcomes: &["[+a1 -a1], , stored: ", "[+a1], [-a1], stored: "],
        body: delete,
    },
    Model {
        name: "elsewhere::delete_twice",
        bound: None,
        at_least: 78_680,
        outcomes: &["[-a1], , stored: "],
        body: delete_twice,
    },
    Model {
        name: "elsewhere::sweep",
        bound: None,
        at_least: 152_000,
        outcomes: &["1 deleted, [~a2 -a2], , stored: ", "1 deleted, [~a2], [-a2], stored: "],
        body: sweep,
    },
    Model {
        name: "elsewhere::listed_and_handled",
        bound: Some(6), // 3.2 s
        at_least: 22_600,
        outcomes: &[", [=a1], stored: a1", "[=a1], , stored: a1"],
        body: listed_and_handled,
    },
    Model {
        name: "elsewhere::an_update_between",
        bound: Some(5), // 32 s
        at_least: 127_800,
        outcomes: &["0 deleted, [~a2], stored: a2", "1 deleted, [-a1 ~a2], stored: a2"],
        body: an_update_between,
    },
    Model {
        name: "elsewhere::commit_superseded",
        bound: Some(3), // 25 s
        at_least: 108_000,
        outcomes: &["committed, [+b1], stored: a1 b1", "superseded, [+b1], stored: a1 b1"],
        body: commit_superseded,
    },
    Model {
        name: "elsewhere::listed_late",
        bound: None,
        at_least: 7290,
        outcomes: &["kept, 0 deleted, , stored: a1", "superseded, 0 deleted, , stored: a1"],
        body: listed_late,
    },
    Model {
        name: "elsewhere::resync",
        bound: Some(6), // 2.8 s
        at_least: 15_500,
        outcomes: &["[~a2], , stored: a2", "[~a2], [:a2], stored: a2"],
        body: resync,
    },
    Model {
        name: "elsewhere::passed_and_listed",
        bound: Some(4), // 3 s
        at_least: 26_200,
        outcomes: &[
            "[=a1 ~a2 =a3], , stored: a3, slots: 0",
            "[=a1 ~a2], [=a3], stored: a3, slots: 0",
        ],
        body: passed_and_listed,
    },
    Model {
        name: "elsewhere::deleted_past_and_listed",
        bound: Some(4), // 3 s
        at_least: 24_800,
        outcomes: &[
            "[=a1 -a1 =a3], , stored: a3, slots: 0",
            "[=a1 -a1], [=a3], stored: a3, slots: 0",
        ],
        body: deleted_past_and_listed,
    },
];

#[derive(Clone)]
pub(super) struct Outside(Arc<Mutex<BTreeMap<String, Arc<Object>>>>);

impl KnownObjects<Object> for Outside {
    fn list_keys(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Object>>, BoxError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }
}

impl Outside {
    /// Handles one key, if one is pending. Returns its deltas, or the empty string.
    pub(super) fn handle(&self, fifo: &Fifo) -> String {
        let Some(item) = fifo.try_pop() else { return String::new() };
        for delta in item.deltas() {
            let mut objects = self.0.lock().unwrap();
            match delta.object.object() {
                Some(object) if delta.kind != DeltaType::Deleted => {
                    objects.insert(item.key().to_owned(), object.clone());
                }
                _ => drop(objects.remove(item.key())),
            }
        }
        let shown = show(item.deltas(), item.key());
        item.done();
        shown
    }

    /// Handles all pending keys. Returns their deltas, and the contents of the store.
    pub(super) fn rest(&self, fifo: &Fifo) -> String {
        let log = Log::default();
        while let Some(shown) = Some(self.handle(fifo)).filter(|shown| !shown.is_empty()) {
            log.add(&shown);
        }
        format!("{}, {}", log.text(), self.stored())
    }

    pub(super) fn stored(&self) -> String {
        let stored: Vec<_> = self
            .0
            .lock()
            .unwrap()
            .values()
            .map(|object| format!("{}{}", object.key, object.read()))
            .collect();
        format!("stored: {}", stored.join(" "))
    }
}

pub(super) fn known(objects: &[Arc<Object>]) -> (Arc<Fifo>, Outside) {
    let (builder, outside) = over(objects);
    (Arc::new(builder.build()), outside)
}

pub(super) fn over(objects: &[Arc<Object>]) -> (DeltaFifoBuilder<Object, Access>, Outside) {
    let stored = objects.iter().map(|object| (object.key.to_owned(), object.clone())).collect();
    let outside = Outside(Arc::new(Mutex::new(stored)));
    // loom's `Arc` cannot be coerced to a trait object.
    let shared: std::sync::Arc<dyn KnownObjects<Object>> = std::sync::Arc::new(outside.clone());
    let builder =
        DeltaFifo::builder(KeyFunc::meta_namespace(Access)).known_objects(Arc::from_std(shared));
    (builder, outside)
}

/// Runs `work` while a handler may run. Returns all handled deltas, and the contents of the store.
pub(super) fn during_a_handler(
    fifo: &Arc<Fifo>,
    outside: &Outside,
    work: impl FnOnce(&Fifo),
) -> String {
    let store = outside.clone();
    let consumer = spawn_with(fifo, move |fifo| store.handle(fifo));
    work(fifo);
    let first = consumer.join().unwrap();
    format!("{first}, {}", outside.rest(fifo))
}

/// Checks that a deletion takes effect whether the key is pending, being handled, or known.
fn delete() -> String {
    let (fifo, outside) = known(&[]);
    fifo.add(Object::new("a", 1)).unwrap();
    during_a_handler(&fifo, &outside, |fifo| fifo.delete(Object::new("a", 1)).unwrap())
}

/// Checks that a deletion that follows the one being handled is dropped.
fn delete_twice() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1)]);
    fifo.delete(Object::new("a", 1)).unwrap();
    during_a_handler(&fifo, &outside, |fifo| fifo.delete(Object::new("a", 1)).unwrap())
}

fn sweep() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1)]);
    fifo.update(Object::new("a", 2)).unwrap();
    let mut deleted = 0;
    let handled = during_a_handler(&fifo, &outside, |fifo| {
        deleted = fifo.begin_replace().commit("1").unwrap().deleted
    });
    format!("{deleted} deleted, {handled}")
}

/// Checks that a listed key is not deleted even if, before the commit, its handler has ended and
/// its slot is gone.
fn listed_and_handled() -> String {
    let (fifo, outside) = known(&[]);
    during_a_handler(&fifo, &outside, |fifo| {
        let mut relist = fifo.begin_replace();
        relist.offer(vec![Object::new("a", 1)]).unwrap();
        assert_eq!(relist.commit("1").unwrap().deleted, 0);
    })
}

/// Checks that a commit does not delete a key that was written after its relist began.
fn an_update_between() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1)]);
    let relist = fifo.begin_replace();
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    let deleted = relist.commit("1").unwrap().deleted;
    producer.join().unwrap();
    format!("{deleted} deleted, {}", outside.rest(&fifo))
}

/// Checks that an older relist does not delete the keys that it listed, even if a newer one begins
/// during the older one's sweep.
fn commit_superseded() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1)]);
    let mut relist = fifo.begin_replace();
    relist.keep("a").unwrap();
    let newer = spawn_with(&fifo, |fifo| drop(fifo.begin_replace()));
    // A key that is written while the newer relist is open replaces the older relist's list of
    // keys.
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("b", 1)).unwrap());
    let committed = if relist.commit("1").is_ok() { "committed" } else { "superseded" };
    newer.join().unwrap();
    producer.join().unwrap();
    format!("{committed}, {}", outside.rest(&fifo))
}

/// Checks that an older relist that lists a key late does not undo the listing by a newer one.
fn listed_late() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1)]);
    let mut relist = fifo.begin_replace();
    let newer = spawn_with(&fifo, |fifo| {
        let mut relist = fifo.begin_replace();
        relist.keep("a").unwrap();
        relist.commit("2").unwrap().deleted
    });
    let kept = if relist.keep("b").is_ok() { "kept" } else { "superseded" };
    drop(relist);
    let deleted = newer.join().unwrap();
    format!("{kept}, {deleted} deleted, {}", outside.rest(&fifo))
}

/// Checks that a Sync has the object that is known when the resync runs, and that a pending key
/// gets no Sync.
fn resync() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1)]);
    fifo.update(Object::new("a", 2)).unwrap();
    during_a_handler(&fifo, &outside, DeltaFifo::resync)
}

/// Checks a key that passed the backlog in the live lane and is handled while a relist lists it
/// again. The key's old entry in the backlog is used again, and no slot is left at the end.
fn passed_and_listed() -> String {
    live_and_listed(|fifo| fifo.update(Object::new("a", 2)).unwrap())
}

/// Deletes a key in the live lane, so that only the key's old entry in the backlog keeps the slot
/// alive, and then lists the key.
fn deleted_past_and_listed() -> String {
    live_and_listed(|fifo| fifo.delete(Object::new("a", 1)).unwrap())
}

fn live_and_listed(live: impl FnOnce(&Fifo)) -> String {
    let (builder, outside) = over(&[]);
    let fifo = Arc::new(builder.live_lane(true).build());
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    live(&fifo);
    let handled = during_a_handler(&fifo, &outside, |fifo| {
        drop(fifo.replace(vec![Object::new("a", 3)], "2"))
    });
    format!("{handled}, slots: {}", slots(&fifo))
}
