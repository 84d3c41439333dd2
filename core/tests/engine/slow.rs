//! Tests of logging through `tracing`: slow handlers with their key and the depth of the queue,
//! and log subscribers that panic or call the store.

use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Mode, Obj, ObjMeta, Rig, ends, obj};
use deltafifo::{Indexer, KeyFunc};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The time that a slow handler takes: longer than a handler may run without a warning. The delay
/// is the subject of the test, not synchronisation.
const SLOW: Duration = Duration::from_millis(110);

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

/// A log subscriber that passes each event to a function.
struct Log<F>(F);

impl<F: Fn(&Event<'_>) + 'static> Subscriber for Log<F> {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        (self.0)(event);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// Returns the warnings that are logged while `handle` works on a queue of `keys` keys.
fn reported(keys: u64, handle: impl FnOnce(&Rig)) -> Vec<Warning> {
    let warnings = Arc::<Mutex<Vec<Warning>>>::default();
    let kept = warnings.clone();
    let log = Log(move |event: &Event<'_>| {
        if *event.metadata().level() == Level::WARN {
            let mut warning = Warning::default();
            event.record(&mut warning);
            kept.lock().unwrap().push(warning);
        }
    });
    let rig = Rig::new(Mode::Fused);
    (0..keys).for_each(|n| rig.fifo.add(obj(&format!("k{n}"), n)).unwrap());
    tracing::subscriber::with_default(log, || handle(&rig));
    warnings.lock().unwrap().clone()
}

#[test]
fn slow_pop_with_a_deep_queue_is_logged() {
    let slow = |rig: &Rig| {
        let item = rig.fifo.pop().unwrap();
        thread::sleep(SLOW);
        item.done();
    };
    let warnings = reported(20, slow);
    assert_eq!(warnings.len(), 1);
    assert_eq!((warnings[0].key.as_str(), warnings[0].depth), ("k0", 19));
    assert!(reported(5, slow).is_empty(), "no other key waits");
    assert!(reported(20, |rig| rig.fifo.pop().unwrap().done()).is_empty(), "the handler was fast");
}

#[test]
fn slow_batch_is_logged_even_if_it_empties_the_queue() {
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
    assert_eq!(
        (warnings[0].key.as_str(), warnings[0].depth),
        ("k0", 20),
        "the first key of the batch, and the number of pending keys"
    );
}

/// Returns how often a subscriber that always panics was called during `work`.
fn calls_of_a_panicking_log(work: impl FnOnce()) -> usize {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let log = Log(move |_: &Event<'_>| {
        count.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("a log subscriber that panics"));
    });
    tracing::subscriber::with_default(log, work);
    calls.load(Ordering::SeqCst)
}

#[test]
fn panicking_log_subscriber_blocks_no_key() {
    let rig = Rig::new(Mode::Fused);
    rig.fifo.replace((0..20).map(|n| obj(&format!("k{n}"), n)).collect(), "1").unwrap();
    let calls = calls_of_a_panicking_log(|| {
        let slow = rig.fifo.pop().unwrap();
        thread::sleep(SLOW);
        slow.done();
        assert!(
            rig.fifo
                .process(|_| -> Result<(), ()> { resume_unwind(Box::new("a handler")) })
                .is_err()
        );
        let mut batch = rig.fifo.pop_batch(2).unwrap();
        thread::sleep(SLOW);
        while let Some(item) = batch.next() {
            item.done();
        }
    });
    assert_eq!(calls, 3);
    rig.drain();
    assert!(rig.fifo.has_synced());
    rig.fifo.replace((0..20).map(|n| obj(&format!("k{n}"), n)).collect(), "2").unwrap();
    assert_eq!(rig.drain().len(), 20, "no key is kept");
}

#[test]
fn index_without_failures_logs_nothing() {
    let builder = Indexer::builder(KeyFunc::meta_namespace(ObjMeta));
    let store =
        builder.index("parity", |object| Ok(vec![(object.n % 2).to_string()])).build().unwrap();
    let calls = calls_of_a_panicking_log(|| {
        (1..4).for_each(|n| store.update(obj("x", n)).unwrap());
        store.delete(&*obj("x", 3)).unwrap();
    });
    assert_eq!(calls, 0);
}

/// Checks that a log subscriber can write a key while the store logs an error about this key: an
/// index function returned different values for the same object. The store logs this on the thread
/// that writes the key.
#[test]
fn log_subscriber_can_write_the_key_whose_index_values_differ() {
    ends(|| {
        let calls = AtomicUsize::new(0);
        let values = move |_: &Obj| {
            let is_first = calls.fetch_add(1, Ordering::SeqCst) == 0;
            Ok(if is_first { vec!["x".to_owned(), "y".to_owned()] } else { vec!["x".to_owned()] })
        };
        let store = Indexer::builder(KeyFunc::meta_namespace(ObjMeta)).index("impure", values);
        let store = Arc::new(store.build().unwrap());
        store.add(obj("a", 1)).unwrap();
        let (written, logged) = (store.clone(), Arc::new(AtomicUsize::new(0)));
        let count = logged.clone();
        let log = Log(move |event: &Event<'_>| {
            if *event.metadata().level() == Level::ERROR
                && count.fetch_add(1, Ordering::SeqCst) == 0
            {
                written.add(obj("a", 3)).unwrap();
            }
        });
        tracing::subscriber::with_default(log, || store.add(obj("a", 2)).unwrap());
        assert_eq!(logged.load(Ordering::SeqCst), 1);
        assert_eq!(store.get_by_key("a").unwrap().n, 3);
        assert_eq!(store.index_keys("impure", "x").unwrap(), ["a"]);
        assert!(store.index_keys("impure", "y").unwrap().is_empty());
    });
}
