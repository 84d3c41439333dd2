//! Copies pending deltas without taking them. The shard is locked exclusively while its slots are
//! copied. A consumer that takes a slot while it is copied waits for these few instructions.

use super::DeltaFifo;
use super::resolve::{Resolved, resolve};
use crate::engine::release::{OneByOne, release};
use crate::engine::slot::{Pending, Rule, Slot, State};
use crate::engine::sync::{Arc, mutant};
use crate::error::KeyError;
use crate::key::{KeyBuf, as_str};
use crate::{Delta, DeltaType, Deltas, KeySource, Meta};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Returns a copy of the deltas that are pending for the key of `of`, or `None` (client-go
    /// `Get`). Deltas that a handler has taken are not pending. O(deltas).
    ///
    /// # Errors
    /// [`KeyError`] if `of` has no key.
    pub fn get<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<Option<Deltas<T>>, KeyError>
    where
        T: 'a,
    {
        let mut key = KeyBuf::new();
        self.core.keys.write_source(&of.into(), &mut key)?;
        Ok(self.peek(&key))
    }

    /// Returns a copy of the deltas that are pending for `key` (client-go `GetByKey`). It includes
    /// deltas that were offered during a running handler and have an effect only if the handler
    /// leaves an object behind. O(deltas).
    pub fn get_by_key(&self, key: &str) -> Option<Deltas<T>> {
        self.peek(key.as_bytes())
    }

    /// Returns the newest delta of every pending key, in no particular order (client-go `List`).
    /// O(pending deltas).
    pub fn list(&self) -> Vec<Delta<T>> {
        self.peek_all(|_, deltas| deltas.newest().cloned())
    }

    /// Returns every pending key, in no particular order (client-go `ListKeys`). O(pending
    /// deltas).
    pub fn list_keys(&self) -> Vec<String> {
        self.peek_all(|key, deltas| {
            // Dropped before the key is returned, which would leak if a destructor panicked.
            drop(deltas);
            Some(key.to_owned())
        })
    }

    /// Returns whether `accepts` accepts the newest state of the object's key: that of the newest
    /// pending delta or, if none is pending, the object in the fused store. A key that is deleted
    /// or not known has no state to accept. Returns `None` if a handler has the key, because the
    /// store may not have what the handler took. Also returns `None` if the object has no key, or
    /// if the queue is not fused with a store. O(deltas).
    #[doc(hidden)]
    pub fn newest_is(&self, object: &T, accepts: impl FnOnce(&T) -> bool) -> Option<bool> {
        let mut key = KeyBuf::new();
        self.core.keys.write(object, &mut key).ok()?;
        if !self.is_fused() {
            return None;
        }
        let hash = self.core.table.hash(&key);
        let shard = self.core.table.shard(hash).write();
        let Some(slot) = shard.find(hash, &key) else { return Some(false) };
        // The lock keeps deltas from being pushed, so an idle slot stays idle. If a consumer takes
        // the pending deltas before they are copied, none are left to copy, and the result is
        // `None`.
        mutant!(HandledIsUnknown => if slot.state() == State::Running { return Some(false) });
        let copied = match slot.state() {
            State::Idle => Copied { list: OneByOne::default(), known: OneByOne(slot.known()) },
            State::Pending => Copied::of(slot)?,
            State::Running | State::Gone => return None,
        };
        drop(shard);
        let known = OneByOne(copied.known.clone());
        let deltas = OneByOne(copied.resolve(as_str(&key)).unwrap_or_default());
        let newest = match deltas.newest() {
            Some(newest) if newest.kind == DeltaType::Deleted => None,
            Some(newest) => newest.object.object(),
            None => known.as_ref(),
        };
        Some(newest.is_some_and(|newest| accepts(newest)))
    }

    fn peek(&self, key: &[u8]) -> Option<Deltas<T>> {
        let hash = self.core.table.hash(key);
        let shard = self.core.table.shard(hash).write();
        let copied = shard.find(hash, key).and_then(Copied::of);
        mutant!(PeekReleasesUnderLock => return copied?.resolve(as_str(key)));
        drop(shard);
        copied?.resolve(as_str(key))
    }

    fn peek_all<R>(&self, show: impl Fn(&str, Deltas<T>) -> Option<R>) -> Vec<R> {
        let mut found = OneByOne(Vec::new());
        for shard in self.core.table.shards() {
            let shard = shard.write();
            let copies: Vec<_> = shard
                .slots_near()
                .filter_map(|slot| Some((slot.key().to_owned(), Copied::of(slot)?)))
                .collect();
            drop(shard);
            found.extend(
                copies.into_iter().filter_map(|(key, copied)| show(&key, copied.resolve(&key)?)),
            );
        }
        found.take()
    }
}

/// A slot's list, copied under the lock. It is resolved and dropped after the lock is released,
/// because a copy may hold the last reference to an object.
struct Copied<T> {
    list: OneByOne<Vec<Pending<T>>>,
    known: OneByOne<Option<Arc<T>>>,
}

impl<T> Copied<T> {
    fn of(slot: &Slot<T>) -> Option<Self> {
        let (list, known) = slot.peek()?;
        Some(Self { list: OneByOne(list), known: OneByOne(known) })
    }

    /// Converts the list to deltas, and leaves out a Sync for which there is no object. Returns
    /// `None` if no delta is left. An example is a Sync that was offered while a handler was
    /// running for the key: if the handler deletes the object, the Sync has no object until the
    /// handler ends and the Sync is discarded.
    ///
    /// A delta that was offered while a handler was running, and that has an effect only if nothing
    /// else is pending (a Sync, `add_if_not_present`), is not shown behind other deltas: it will
    /// have no effect, and a Sync would show an object that is older than the one before it.
    fn resolve(mut self, key: &str) -> Option<Deltas<T>> {
        let (mut shown, mut hidden) = (Vec::with_capacity(self.list.len()), Vec::new());
        for pending in self.list.take() {
            let depends = matches!(pending.undecided, Some(Rule::IfIdle | Rule::IfAbsent));
            if depends && !shown.is_empty() { &mut hidden } else { &mut shown }.push(pending);
        }
        let Resolved { deltas, mut folded, .. } = resolve(key, shown, || self.known.clone());
        for pending in hidden {
            pending.content.release_into(&mut folded);
        }
        let mut deltas = OneByOne(Some(deltas));
        release(folded);
        deltas.take().filter(|deltas| !deltas.is_empty())
    }
}
