//! The objects of the queues, and a short text form of deltas.

use std::io::Write;
use std::sync::Arc;

use deltafifo::{DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, Deltas, KeyFunc, Meta};

/// An object. Its version is its number unless a test sets another one.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields have the names of Kubernetes' metadata")]
pub struct Obj {
    pub ns: String,
    pub name: String,
    pub version: String,
    pub n: u64,
}

/// A destructor is user code, which must not run while the thread holds a lock of the engine.
impl Drop for Obj {
    fn drop(&mut self) {
        abort_if_locked("an object's destructor");
    }
}

/// Aborts the process if the current thread holds a lock of the engine. Only debug builds track
/// the locks. It aborts instead of panicking because the engine catches panics of user code.
pub fn abort_if_locked(user_code: &str) {
    let held = deltafifo::locks::held();
    if held > 0 {
        let trace = std::backtrace::Backtrace::force_capture();
        // Not `eprintln`: the test runner buffers its output until the end of the test.
        let _ = writeln!(
            std::io::stderr(),
            "{user_code} runs while its thread holds {held} locks\n{trace}"
        );
        std::process::abort();
    }
}

/// The metadata accessor of [`Obj`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjMeta;

impl Meta<Obj> for ObjMeta {
    fn namespace<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        abort_if_locked("an accessor");
        Some(&object.ns)
    }

    fn name<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        abort_if_locked("an accessor");
        Some(&object.name)
    }

    fn version<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        abort_if_locked("an accessor");
        Some(&object.version)
    }
}

/// Returns the object of `key` (`ns/name` or `name`) with the number `n`.
#[must_use]
pub fn obj(key: &str, n: u64) -> Arc<Obj> {
    versioned(key, n, &n.to_string())
}

/// Returns the object of `key` with the number `n` and this version.
#[must_use]
pub fn versioned(key: &str, n: u64, version: &str) -> Arc<Obj> {
    let (ns, name) = key.split_once('/').unwrap_or(("", key));
    Arc::new(Obj { ns: ns.to_owned(), name: name.to_owned(), version: version.to_owned(), n })
}

/// Returns an object without a name, and so without a key.
#[must_use]
pub fn nameless() -> Arc<Obj> {
    obj("", 0)
}

/// Returns a tombstone for `key`, with the last known state `obj` if there is one.
#[must_use]
pub fn tombstone(key: &str, obj: Option<Arc<Obj>>) -> DeletedFinalStateUnknown<Obj> {
    DeletedFinalStateUnknown::new(key, obj)
}

/// Returns client-go's key function.
#[must_use]
pub fn key_func() -> KeyFunc<Obj, ObjMeta> {
    KeyFunc::meta_namespace(ObjMeta)
}

/// Builds deltas as a caller of `add_if_not_present` would.
pub fn deltas(list: impl IntoIterator<Item = (DeltaType, Arc<Obj>)>) -> Deltas<Obj> {
    list.into_iter().map(|(kind, object)| Delta::new(kind, object)).collect()
}

/// Formats a delta: `A1`, `U2`, `R3`, `S4`, `D5`; a tombstone is `D(5)`, or `D()` without an
/// object, and `D!(5)` if its scope was removed.
#[must_use]
pub fn show_one(delta: &Delta<Obj>) -> String {
    let kind = &delta.kind.to_string()[..1];
    match &delta.object {
        DeltaObject::Object(object) => format!("{kind}{}", object.n),
        DeltaObject::Tombstone(tombstone) => {
            let mark = if tombstone.scope_removed { "!" } else { "" };
            let last = tombstone.obj.as_ref().map_or(String::new(), |object| object.n.to_string());
            format!("{kind}{mark}({last})")
        }
    }
}

/// Formats deltas with [`show_one`].
#[must_use]
pub fn show(deltas: &[Delta<Obj>]) -> String {
    deltas.iter().map(show_one).collect::<Vec<_>>().join(" ")
}
