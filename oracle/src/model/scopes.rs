//! The scopes of the model. Each has relists of its own, which list and delete only keys of that
//! scope.

use deltafifo::{Committed, RelistError, ScopeError};

use super::relist::Open;
use super::{Initial, Model};
use crate::Part;

/// A scope of the queue.
pub(super) struct Scope {
    /// A number that no later scope gets.
    id: u32,
    part: Part,
    /// Whether the initial population waits for the scope's first list.
    is_awaited: bool,
    /// Whether a list was committed that belongs to the initial population, or that came while the
    /// initial population did not wait for the scope.
    has_first: bool,
    /// Whether the scope was waived, and since then was neither listed nor awaited.
    is_waived: bool,
    /// The version of the scope's last list.
    version: Option<String>,
}

/// The keys of a relist of a scope: the keys of the scope that are in no older scope.
#[derive(Clone)]
pub(super) struct Within {
    pub(super) scope: u32,
    part: Part,
    older: Vec<Part>,
}

impl Within {
    pub(super) fn contains(&self, key: &str) -> bool {
        self.part.contains(key) && !self.older.iter().any(|older| older.contains(key))
    }
}

impl<T> Model<T> {
    /// Adds a scope and returns its number.
    ///
    /// # Errors
    /// The scope has a name or a key in common with another scope, or a relist of the whole queue
    /// is open.
    pub fn add_scope(&mut self, part: Part) -> Result<u32, ScopeError> {
        let known = self.known.iter().flatten().map(|(key, _)| key);
        for key in known.chain(self.items.keys()).chain(self.running.keys()) {
            let other = self.scopes.iter().find(|other| other.part.contains(key));
            if let Some(other) = other.filter(|_| part.contains(key)) {
                let (scope, other) = (part.name.to_owned(), other.part.name.to_owned());
                return Err(ScopeError::CommonKey { scope, other, key: key.clone() });
            }
        }
        if self.open.iter().any(|open| open.within.is_none()) {
            return Err(ScopeError::RelistOpen { scope: part.name.to_owned() });
        }
        if self.scopes.iter().any(|scope| scope.part.name == part.name) {
            return Err(ScopeError::Overlaps { scope: part.name.to_owned() });
        }
        let (id, is_awaited) = (self.next_number(), self.claim());
        let (has_first, is_waived) = (false, false);
        self.scopes.push(Scope { id, part, is_awaited, has_first, is_waived, version: None });
        Ok(id)
    }

    /// Begins a relist of a scope, and returns its number. If the scope was removed, the relist is
    /// superseded from the start.
    pub fn begin_replace_in(&mut self, scope: u32) -> u32 {
        let number = self.next_number();
        if let Some(within) = self.within(scope) {
            self.open.retain(|open| !open.is_of(scope));
            let first = self.scopes.iter().any(|other| other.id == scope && other.is_awaited);
            self.open.push(Open::new(number, Some(within), first));
        }
        number
    }

    /// Ends the wait for the first list of a scope. Until its next list, the scope does not count
    /// in the version of the queue.
    pub fn waive_scope(&mut self, scope: u32) {
        let Some(entry) = self.scopes.iter_mut().find(|entry| entry.id == scope) else { return };
        entry.is_waived = true;
        let was_awaited = std::mem::take(&mut entry.is_awaited);
        self.populate_if(was_awaited);
    }

    /// Ends a waiver: the scope counts in the version of the queue again, and the initial
    /// population waits for its first list, if there was none and the population is incomplete.
    pub fn await_scope(&mut self, scope: u32) {
        let Some(at) = self.scopes.iter().position(|entry| entry.id == scope) else { return };
        if std::mem::take(&mut self.scopes[at].is_waived) && !self.scopes[at].has_first {
            self.scopes[at].is_awaited = self.claim();
        }
    }

    /// Removes a scope and deletes its keys.
    ///
    /// # Errors
    /// The scope was removed before.
    pub fn remove_scope(&mut self, scope: u32) -> Result<Committed, RelistError> {
        let unknown = || RelistError::UnknownScope { scope: scope.to_string() };
        let within = self.within(scope).ok_or_else(unknown)?;
        self.open.retain(|open| !open.is_of(scope));
        let was_awaited = self.scopes.iter().any(|entry| entry.id == scope && entry.is_awaited);
        self.scopes.retain(|entry| entry.id != scope);
        let deleted = self.delete_unlisted(&Open::removal(within));
        self.populate_if(was_awaited);
        Ok(Committed { deleted })
    }

    /// Returns the version of the last relist. In a queue with scopes this is the lowest version
    /// of the scopes' last relists, once each scope has one. Waived scopes do not count.
    #[must_use]
    pub fn resource_version(&self) -> Option<String> {
        if self.scopes.is_empty() {
            return self.version.clone();
        }
        let counting = self.scopes.iter().filter(|scope| !scope.is_waived);
        let versions = counting.map(|scope| scope.version.as_ref()?.parse::<u64>().ok());
        Some(versions.min()??.to_string())
    }

    /// Records that a relist of the scope was committed. `first` says whether the relist belongs to
    /// the initial population.
    pub(super) fn listed_scope(&mut self, scope: u32, version: &str, first: bool) {
        let Some(entry) = self.scopes.iter_mut().find(|entry| entry.id == scope) else { return };
        entry.version = Some(version.to_owned());
        entry.is_waived = false;
        // The deltas of a relist that began while the scope was waived are not marked, so such a
        // relist does not end the wait.
        let was_awaited = first && std::mem::take(&mut entry.is_awaited);
        entry.has_first |= !entry.is_awaited;
        self.populate_if(was_awaited);
    }

    fn within(&self, scope: u32) -> Option<Within> {
        let place = self.scopes.iter().position(|entry| entry.id == scope)?;
        let part = self.scopes[place].part;
        let older = self.scopes[..place].iter().map(|older| older.part).collect();
        Some(Within { scope, part, older })
    }

    /// Completes the initial population if it no longer waits for a scope. `was_awaited` says
    /// whether it waited for the scope that has just been listed, waived or removed.
    fn populate_if(&mut self, was_awaited: bool) {
        let waits = self.scopes.iter().any(|scope| scope.is_awaited);
        if was_awaited && !waits && matches!(self.initial, Initial::Claimed | Initial::Touched) {
            self.initial = Initial::Draining;
            self.finish_initial();
        }
    }
}
