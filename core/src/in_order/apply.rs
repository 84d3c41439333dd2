//! An event on its way into the fused store: one change after another, each told once it is made.
//!
//! Only whoever has the turn writes the store, so what a relist finds missing when it begins is missing until it ends.

use std::borrow::Cow;

use super::InOrderFifo;
use super::event::Event;
use crate::error::{StoreError, unharmed};
use crate::store::Core;
use crate::sync::{Arc, Ordering};
use crate::{Change, DeletedFinalStateUnknown, DeltaObject, DeltaType, Meta};

impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
    /// Applies `event` and tells `handler` of every change. `key` is then the one it was about, or of a relist or resync the
    /// one whose handler panicked.
    pub(super) fn apply(
        &self,
        event: Event<T>,
        handler: impl FnMut(&str, Change<'_, T>),
        told: &mut Option<Box<str>>,
    ) -> Result<(), StoreError> {
        match event {
            Event::Delta { key, delta } => {
                let write = match delta.object {
                    DeltaObject::Object(new) if delta.kind != DeltaType::Deleted => Write::Put(delta.kind, new),
                    last => Write::Delete(last),
                };
                let step = Step { key: Cow::Borrowed(&key), write };
                let outcome = Applying::new(&self.core, std::iter::once(step), handler, &mut *told).run();
                *told = Some(key);
                outcome
            }
            Event::ReplacedAll(list) => {
                // Relaxed: only who has the turn counts, and turns are handed on by the log's mutex.
                let generation = self.relists.fetch_add(1, Ordering::Relaxed) + 1;
                let (keys, objects) = list.into_parts();
                let unlisted = self.core.unlisted(generation, keys.iter());
                self.core.table.reserve(objects.len());
                let deletions = unlisted.into_iter().map(|(key, object)| {
                    let tombstone = DeletedFinalStateUnknown { key: key.clone(), obj: Some(object) };
                    Step { key: Cow::Owned(key.into()), write: Write::Delete(tombstone.into()) }
                });
                let puts = keys.iter().zip(objects).map(|(key, object)| Step {
                    key: Cow::Borrowed(key),
                    write: Write::Put(DeltaType::Replaced, object),
                });
                Applying::new(&self.core, deletions.chain(puts), handler, told).run()
            }
            Event::SyncAll => {
                let known = self.core.known();
                let syncs = known.map(|(key, object)| Step { key: Cow::Owned(key), write: Write::Sync(object) });
                Applying::new(&self.core, syncs, handler, told).run()
            }
        }
    }
}

/// One change of one key.
struct Step<'k, T> {
    key: Cow<'k, str>,
    write: Write<T>,
}

enum Write<T> {
    Put(DeltaType, Arc<T>),
    Delete(DeltaObject<T>),
    /// Only told.
    Sync(Arc<T>),
}

/// The changes of an event. What is left when a handler panics is applied, untold, by the drop.
struct Applying<'a, 'k, T, M: Meta<T>, I: Iterator<Item = Step<'k, T>>, F: FnMut(&str, Change<'_, T>)> {
    core: &'a Core<T, M>,
    steps: I,
    handler: F,
    /// The key in hand.
    key: Cow<'k, str>,
    error: Option<StoreError>,
    is_over: bool,
    /// Where a panic leaves the key that it is about.
    told: &'a mut Option<Box<str>>,
}

impl<'a, 'k, T, M, I, F> Applying<'a, 'k, T, M, I, F>
where
    M: Meta<T>,
    I: Iterator<Item = Step<'k, T>>,
    F: FnMut(&str, Change<'_, T>),
{
    fn new(core: &'a Core<T, M>, steps: I, handler: F, told: &'a mut Option<Box<str>>) -> Self {
        Self { core, steps, handler, key: Cow::Borrowed(""), error: None, is_over: false, told }
    }

    fn run(mut self) -> Result<(), StoreError> {
        while self.next(true) {}
        self.is_over = true;
        self.error.take().map_or(Ok(()), Err)
    }

    /// Makes the next change, if there is one, and tells the handler if `tell`.
    fn next(&mut self, tell: bool) -> bool {
        let Some(Step { key, write }) = self.steps.next() else { return false };
        self.key = key;
        match write {
            Write::Put(kind, new) => {
                let (old, error) = self.core.write(&self.key, Some(new.clone()));
                self.error = error.or(self.error.take());
                if tell {
                    let change = match &old {
                        None => Change::Added { new: &new, kind },
                        Some(old) => Change::Updated { old, new: &new, kind },
                    };
                    (self.handler)(&self.key, change);
                }
            }
            Write::Delete(last) => {
                let (old, error) = self.core.write(&self.key, None);
                self.error = error.or(self.error.take());
                if tell {
                    (self.handler)(&self.key, Change::Deleted { last: &last, old: old.as_ref() });
                }
            }
            Write::Sync(object) if tell => {
                (self.handler)(&self.key, Change::Updated { old: &object, new: &object, kind: DeltaType::Sync });
            }
            Write::Sync(_) => {}
        }
        true
    }
}

impl<'k, T, M, I, F> Drop for Applying<'_, 'k, T, M, I, F>
where
    M: Meta<T>,
    I: Iterator<Item = Step<'k, T>>,
    F: FnMut(&str, Change<'_, T>),
{
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        *self.told = Some(self.key.as_ref().into());
        // A panic is under way: another one, of user code, must not become an abort.
        while unharmed(|| self.next(false)).unwrap_or(true) {}
    }
}
