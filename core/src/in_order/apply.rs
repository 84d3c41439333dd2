//! Applies an event to the fused store. First all changes of the event are written, then the
//! handler is called for each of them. So a handler finds the store in the state after its event,
//! even within a relist.
//!
//! Only the consumer that has the turn writes the store, so the known keys that a relist does not
//! list can be collected before anything is written: no other thread adds one.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::InOrderFifo;
use super::event::{Event, ReplacedAll};
use crate::engine::release::OneByOne;
use crate::engine::sync::{Arc, assert_none_held};
use crate::error::StoreError;
use crate::panics::FirstPanic;
use crate::store::Core;
use crate::{Change, DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, Meta};

/// The key for which user code panicked.
type PanickedKey = Option<Box<str>>;

type LastError = OneByOne<Option<Box<StoreError>>>;

impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
    /// Applies `event`, and then calls `handler` with every change. If user code panics for a key,
    /// stores this key in `panicked` and resumes the panic.
    pub(super) fn apply(
        &self,
        event: &Event<T>,
        mut handler: impl FnMut(&str, Change<'_, T>),
        panicked: &mut PanickedKey,
    ) -> Result<(), StoreError> {
        let mut notify = |key: &str, change: Change<'_, T>, panicked: &mut PanickedKey| {
            assert_none_held();
            // So that the error of a panic within a relist names the key.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler(key, change))) {
                *panicked = Some(key.into());
                resume_unwind(panic);
            }
        };
        match event {
            Event::Delta { key, delta } => self.apply_delta(key, delta, notify, panicked),
            Event::ReplacedAll(list) => self.apply_all(list, notify, panicked),
            Event::SyncAll => {
                for (key, known) in self.core.known() {
                    notify(
                        &key,
                        Change::Updated { old: &known, new: &known, kind: DeltaType::Sync },
                        panicked,
                    );
                }
                Ok(())
            }
        }
    }

    fn apply_delta(
        &self,
        key: &str,
        delta: &Delta<T>,
        notify: impl FnOnce(&str, Change<'_, T>, &mut PanickedKey),
        panicked: &mut PanickedKey,
    ) -> Result<(), StoreError> {
        let mut writer = KeyWriter::new(&self.core);
        let (kind, last) = (delta.kind, &delta.object);
        let new = match last {
            DeltaObject::Object(new) if kind != DeltaType::Deleted => Some(new),
            _ => None,
        };
        let old = OneByOne(writer.write(key, new.cloned()));
        let mut written = writer.end(panicked);
        let change = match (new, &*old) {
            (Some(new), old) => put(old.as_ref(), new, kind),
            (None, old) => Change::Deleted { last, old: old.as_ref() },
        };
        notify(key, change, panicked);
        written.take().map_or(Ok(()), |error| Err(*error))
    }

    fn apply_all(
        &self,
        list: &ReplacedAll<T>,
        mut notify: impl FnMut(&str, Change<'_, T>, &mut PanickedKey),
        panicked: &mut PanickedKey,
    ) -> Result<(), StoreError> {
        let unlisted = self.unlisted(list);
        self.core.table.reserve(list.iter().len());
        let mut writer = KeyWriter::new(&self.core);
        let deletions = unlisted.into_iter().filter_map(|(key, object)| {
            // A key outside of the relist's scope stays, and so does a key whose predicate panics.
            // Its object is released here, with no lock held.
            if !writer.contain(&key, || list.covers(&key))? {
                return None;
            }
            let old = writer.write(&key, None);
            let scope_removed = list.removes_scope();
            Some((DeletedFinalStateUnknown { key, obj: Some(object), scope_removed }, old))
        });
        // Released when all changes are delivered, or a handler has panicked.
        let deletions: OneByOne<Vec<_>> = OneByOne(deletions.collect());
        let olds: OneByOne<Vec<_>> =
            OneByOne(list.iter().map(|(key, new)| writer.write(key, Some(new.clone()))).collect());
        let mut written = writer.end(panicked);
        for (tombstone, old) in &*deletions {
            let change = Change::Deleted { last: &tombstone.clone().into(), old: old.as_ref() };
            notify(&tombstone.key, change, panicked);
        }
        for ((key, new), old) in list.iter().zip(&*olds) {
            notify(key, put(old.as_ref(), new, DeltaType::Replaced), panicked);
        }
        written.take().map_or(Ok(()), |error| Err(*error))
    }
}

impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
    /// Returns the known objects that the relist does not list. If the relist has a scope with a
    /// predicate, some of these objects may be outside of the scope.
    fn unlisted(&self, list: &ReplacedAll<T>) -> Vec<(Box<str>, Arc<T>)> {
        if list.keeps_unlisted() {
            return Vec::new();
        }
        let listed = list.iter().map(|(key, _)| key).chain(list.kept());
        match list.namespace() {
            // A kept key may lie outside, where its stamp would not be removed.
            Some(namespace) => {
                self.core.unlisted_in(namespace, listed.filter(|key| list.covers(key)))
            }
            None => self.core.unlisted(listed),
        }
    }
}

/// Returns the change from `old` to `new`.
fn put<'a, T>(old: Option<&'a Arc<T>>, new: &'a Arc<T>, kind: DeltaType) -> Change<'a, T> {
    match old {
        None => Change::Added { new, kind },
        Some(old) => Change::Updated { old, new, kind },
    }
}

/// A writer of the keys of an event, one after another. If user code panics for a key, the writer
/// still writes the other keys, so that the store does not fall behind.
struct KeyWriter<'c, T, M: Meta<T>> {
    core: &'c Core<T, M>,
    /// The last error of an index function. Its destructor is user code, which may run while a
    /// panic unwinds.
    error: LastError,
    /// The first panic of an accessor or a predicate.
    panic: FirstPanic,
    /// The key of the first panic.
    panicked: PanickedKey,
}

impl<'c, T, M: Meta<T>> KeyWriter<'c, T, M> {
    fn new(core: &'c Core<T, M>) -> Self {
        Self { core, error: OneByOne(None), panic: FirstPanic::default(), panicked: None }
    }

    /// Stores `new` under `key`, and returns the former object.
    fn write(&mut self, key: &str, new: Option<Arc<T>>) -> Option<Arc<T>> {
        let core = self.core;
        let (old, error) = self.contain(key, || core.write(key, new))?;
        if error.is_some() {
            self.error.supersede(error);
        }
        old
    }

    /// Calls user code about `key`. Returns `None` if it panics, and keeps the first panic for
    /// the [end](Self::end).
    fn contain<R>(&mut self, key: &str, user_code: impl FnOnce() -> R) -> Option<R> {
        let result = self.panic.call(user_code);
        if result.is_none() && self.panicked.is_none() {
            self.panicked = Some(key.into());
        }
        result
    }

    /// Returns the last error. If there was a panic, stores its key in `panicked` and resumes it
    /// instead.
    fn end(self, panicked: &mut PanickedKey) -> LastError {
        if self.panicked.is_some() {
            *panicked = self.panicked;
        }
        self.panic.resume();
        self.error
    }
}
