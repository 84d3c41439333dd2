//! What is told to the log, through `tracing`: slow handlers, with the key and how much waits; and what a log that panics
//! may harm, which is nothing.

use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Mode, ObjMeta, Rig, obj};
use deltafifo::{Indexer, KeyFunc};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Longer than a handler may take unreported. The handler's slowness is what is tested; nothing waits for it.
const SLOW: Duration = Duration::from_millis(110);

/// Keeps the warnings' fields.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<Warning>>>);

#[derive(Clone, Default)]
struct Warning {
    key: String,
    depth: u64,
}

impl Visit for Warning {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "depth" {
            self.depth = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "key" {
            value.clone_into(&mut self.key);
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut warning = Warning::default();
        event.record(&mut warning);
        self.0.lock().unwrap().push(warning);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// What is reported while `handle` works on a queue of `keys` keys.
fn reported(keys: u64, handle: impl FnOnce(&Rig)) -> Vec<Warning> {
    let warnings = Warnings::default();
    let rig = Rig::new(Mode::Fused);
    (0..keys).for_each(|n| rig.fifo.add(obj(&format!("k{n}"), n)).unwrap());
    tracing::subscriber::with_default(warnings.clone(), || handle(&rig));
    warnings.0.lock().unwrap().clone()
}

#[test]
fn a_slow_pop_over_a_deep_queue_is_reported() {
    let slow = |rig: &Rig| {
        let item = rig.fifo.pop().unwrap();
        thread::sleep(SLOW);
        item.done();
    };
    let warnings = reported(20, slow);
    assert_eq!(warnings.len(), 1);
    assert_eq!((warnings[0].key.as_str(), warnings[0].depth), ("k0", 19));
    assert!(reported(5, slow).is_empty(), "nobody waits for it");
    assert!(reported(20, |rig| rig.fifo.pop().unwrap().done()).is_empty(), "it was quick");
}

#[test]
fn a_slow_batch_is_reported_also_when_it_empties_the_queue() {
    let warnings = reported(20, |rig| {
        let mut batch = rig.fifo.pop_batch(64).unwrap();
        while let Some(item) = batch.next() {
            if item.key() == "k7" {
                thread::sleep(SLOW);
            }
            item.done();
        }
    });
    assert_eq!(warnings.len(), 1);
    assert_eq!((warnings[0].key.as_str(), warnings[0].depth), ("k0", 20), "the first of the batch, and what waited");
}

/// A log that panics with whatever it is told.
struct Fails(Arc<AtomicUsize>);

impl Subscriber for Fails {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("a log that panics"));
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[test]
fn a_log_that_panics_keeps_no_key() {
    let rig = Rig::new(Mode::Fused);
    let told = Arc::new(AtomicUsize::new(0));
    rig.fifo.replace((0..20).map(|n| obj(&format!("k{n}"), n)).collect(), "1").unwrap();
    tracing::subscriber::with_default(Fails(told.clone()), || {
        let slow = rig.fifo.pop().unwrap();
        thread::sleep(SLOW);
        slow.done();
        assert!(rig.fifo.process(|_| -> Result<(), ()> { resume_unwind(Box::new("a handler")) }).is_err());
        let mut batch = rig.fifo.pop_batch(2).unwrap();
        thread::sleep(SLOW);
        while let Some(item) = batch.next() {
            item.done();
        }
    });
    assert_eq!(told.load(Ordering::SeqCst), 3);
    rig.drain();
    assert!(rig.fifo.has_synced());
    rig.fifo.replace((0..20).map(|n| obj(&format!("k{n}"), n)).collect(), "2").unwrap();
    assert_eq!(rig.drain().len(), 20, "no key is kept");
}

#[test]
fn a_sound_index_logs_nothing() {
    let told = Arc::new(AtomicUsize::new(0));
    let builder = Indexer::builder(KeyFunc::meta_namespace(ObjMeta));
    let store = builder.index("parity", |object| Ok(vec![(object.n % 2).to_string()])).build().unwrap();
    tracing::subscriber::with_default(Fails(told.clone()), || {
        (1..4).for_each(|n| store.update(obj("x", n)).unwrap());
        store.delete(&*obj("x", 3)).unwrap();
    });
    assert_eq!(told.load(Ordering::SeqCst), 0);
}
