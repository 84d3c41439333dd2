//! Checks keys of arbitrary text. The key function must build the expected key, and each key must
//! find exactly the objects that are stored under it.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltafifo::{DeltaFifo, DeltaType, ExplicitKey, Indexer, KeyError, KeyFunc, NAMESPACE_INDEX};

use crate::{Bytes, Fifo, Obj, ObjMeta, deltas, key_func, tombstone};

/// The length, in bytes, of the longest text that [`text`] generates instead of reading it. It is
/// longer than the part of a key that a slot holds inline, and longer than the stack buffer to
/// which keys are written.
const LONGEST: usize = 300;

/// Reads objects from `bytes`, each with a namespace and a name. Passes them through two queues:
/// one with client-go's key function, and one whose keys are the names alone.
///
/// # Panics
/// Panics if a key is wrong, or does not find the right object.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let objects: Vec<_> = (0..).map_while(|n| object(&mut bytes, n)).collect();
    let fifo: Fifo = DeltaFifo::builder(key_func()).build();
    for object in &objects {
        sources(&fifo, object);
    }
    queue(key_func(), &objects, meta_namespace_key);
    // A custom key function may return any text, even an empty one.
    queue(KeyFunc::custom(ObjMeta, |object: &Obj| Ok(object.name.clone())), &objects, |object| {
        Some(object.name.clone())
    });
}

fn object(bytes: &mut Bytes<'_>, n: u64) -> Option<Arc<Obj>> {
    let (ns, name) = (text(bytes)?, text(bytes)?);
    Some(Arc::new(Obj { ns, name, version: String::new(), n }))
}

/// Reads a length and then a text of that many bytes. Invalid UTF-8 becomes replacement
/// characters. A length of 250 or more stands for a text of up to [`LONGEST`] bytes that is
/// generated and not read. Returns `None` at the end of `bytes`.
fn text(bytes: &mut Bytes<'_>) -> Option<String> {
    let length = usize::from(bytes.next()?);
    // The largest lengths mean a long text, which a fuzzer would seldom produce.
    if length >= 250 {
        return Some("k".repeat(LONGEST - (255 - length)));
    }
    let text: Option<Vec<u8>> = (0..length).map(|_| bytes.next()).collect();
    Some(String::from_utf8_lossy(&text?).into_owned())
}

fn meta_namespace_key(object: &Obj) -> Option<String> {
    let separator = if object.ns.is_empty() { "" } else { "/" };
    (!object.name.is_empty()).then(|| [&*object.ns, separator, &*object.name].concat())
}

/// Checks that the queue computes the same key for an object, for the key itself, for a tombstone
/// and for deltas, and that it refuses an object without a key.
fn sources(fifo: &Fifo, object: &Arc<Obj>) {
    let Some(key) = meta_namespace_key(object) else {
        assert!(matches!(key_func().key(object), Err(KeyError::NoName)));
        assert!(fifo.key_of(&deltas([(DeltaType::Added, object.clone())])).is_err());
        return assert!(fifo.add(object.clone()).is_err() && fifo.list_keys().is_empty());
    };
    assert_eq!(key_func().key(object).ok().as_deref(), Some(&*key));
    let of = [
        fifo.key_of(&**object),
        fifo.key_of(ExplicitKey(&key)),
        fifo.key_of(&tombstone(&key, None)),
        fifo.key_of(&deltas([(DeltaType::Added, object.clone())])),
    ];
    assert!(of.iter().all(|of| of.as_ref().is_ok_and(|of| *of == key)), "{of:?}");
}

fn queue(keys: KeyFunc<Obj, ObjMeta>, objects: &[Arc<Obj>], key: impl Fn(&Obj) -> Option<String>) {
    let fifo: Fifo =
        DeltaFifo::over(Indexer::builder(keys).build().expect("no index twice")).build();
    let (mut newest, mut order) = (BTreeMap::new(), Vec::new());
    for object in objects {
        let key = key(object);
        assert_eq!(fifo.add(object.clone()).is_ok(), key.is_some());
        if let Some(key) = key
            && newest.insert(key.clone(), object.clone()).is_none()
        {
            order.push(key);
        }
    }
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    assert!(sorted(fifo.list_keys()).iter().eq(newest.keys()));
    for key in near(&order) {
        assert_eq!(fifo.get_by_key(&key).is_some(), newest.contains_key(&key), "{key:?}");
    }
    for key in &order {
        let mut item = fifo.try_pop().expect("as many items as keys");
        assert_eq!(item.key(), key);
        item.apply(|_| ()).expect("there is no index that could fail");
    }
    assert!(fifo.try_pop().is_none());
    let store = fifo.store();
    assert!(sorted(store.list_keys()).iter().eq(newest.keys()));
    for key in near(&order) {
        assert_eq!(store.get_by_key(&key), newest.get(&key).cloned(), "{key:?}");
    }
    // A slash in a name, which Kubernetes does not allow, changes the namespace of the key.
    if objects.iter().all(|object| !object.name.contains('/') && !object.ns.contains('/')) {
        for object in newest.values() {
            let found = store.by_index(NAMESPACE_INDEX, &object.ns).expect("it is built in");
            assert_eq!(found.len(), newest.values().filter(|other| other.ns == object.ns).count());
        }
    }
    for key in &order {
        fifo.delete(tombstone(key, None)).expect("a tombstone has a key");
        fifo.try_pop()
            .expect("the key was known")
            .apply(|_| ())
            .expect("there is no index that could fail");
    }
    assert!(store.is_empty() && store.list_keys().is_empty());
}

/// Returns the keys, and keys that differ from them by one character at the end.
fn near(keys: &[String]) -> impl Iterator<Item = String> {
    keys.iter().flat_map(|key| {
        let mut shorter = key.clone();
        shorter.pop();
        [key.clone(), format!("{key}k"), format!("{key}\0"), shorter]
    })
}
