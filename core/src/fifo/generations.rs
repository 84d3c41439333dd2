//! The current relists, and the generation with which offers stamp.
//!
//! A queue without scopes has at most one open relist at a time, and a queue with scopes at most
//! one for each scope. The removal of a scope also has a generation, and is open until its
//! deletions are queued. It may be open at the same time as any relist.
//!
//! An offer stamps with the newest generation that is open. Generations come from one counter, so
//! this stamp also protects the key from the commits of all older relists.

use crate::engine::sync::{AtomicU32, Mutex, Ordering, mutant};
use crate::error::RelistError;
use crate::scope::{ScopeId, Scopes, Within};

/// The generation of a relist that has not begun. No open relist has it, and no stamp is older.
pub(super) const NO_GENERATION: u32 = 0;

pub(super) struct Relists {
    /// The newest generation of an open relist or removal, 0 if none is open. Changed under `last`.
    open: AtomicU32,
    pub(super) last: Mutex<Last>,
}

pub(super) struct Last {
    /// The generation of the relist that began last.
    pub(super) generation: u32,
    /// The version of the last commit of the whole queue.
    pub(super) version: Option<String>,
    pub(super) scopes: Scopes,
    /// The generation of the open relist of the whole queue, 0 if none is open.
    whole: u32,
    /// The generations of the open relists and removals of scopes.
    of_scopes: Vec<u32>,
}

/// The reason why a relist was not begun.
pub(super) enum BeginError {
    Exhausted,
    HasScopes,
    UnknownScope(String),
}

impl BeginError {
    pub(super) fn error(&self) -> RelistError {
        match self {
            Self::Exhausted => RelistError::Exhausted,
            Self::HasScopes => RelistError::HasScopes,
            Self::UnknownScope(scope) => RelistError::UnknownScope { scope: scope.clone() },
        }
    }
}

impl Last {
    /// Returns whether a relist of the whole queue is open.
    pub(super) fn is_whole_open(&self) -> bool {
        self.whole != 0
    }

    /// Returns whether the initial population waits neither for the first list of a scope nor for
    /// an open relist of the whole queue.
    pub(super) fn awaits_no_list(&self) -> bool {
        self.scopes.none_awaited() && !self.is_whole_open()
    }

    /// Returns the newest generation that is open, 0 if none is.
    fn newest_open(&self) -> u32 {
        self.of_scopes.iter().copied().max().unwrap_or(0).max(self.whole)
    }

    fn end_of_scope(&mut self, generation: u32) {
        self.of_scopes.retain(|open| *open != generation);
    }

    fn next_generation(&mut self) -> Result<u32, BeginError> {
        self.generation = self.generation.checked_add(1).ok_or(BeginError::Exhausted)?;
        Ok(self.generation)
    }

    /// Returns the keys and the generation of the next relist of a scope.
    fn next_of(&mut self, scope: &ScopeId) -> Result<(Within, u32), BeginError> {
        let unknown = || BeginError::UnknownScope(scope.name().to_owned());
        let within = self.scopes.within(scope).ok_or_else(unknown)?;
        Ok((within, self.next_generation()?))
    }
}

impl Relists {
    pub(super) fn new() -> Self {
        let last = Last {
            generation: 0,
            version: None,
            scopes: Scopes::default(),
            whole: 0,
            of_scopes: Vec::new(),
        };
        Self { open: AtomicU32::new(0), last: Mutex::new(last) }
    }

    /// Returns the generation to stamp with, 0 if no relist is open. Called with the shard's lock
    /// held.
    pub(super) fn open(&self) -> u32 {
        // Acquire, paired with `set_open`. An offer that does not see a relist that has just begun
        // comes before it.
        self.open.load(Ordering::Acquire)
    }

    fn set_open(&self, generation: u32) {
        // Release, paired with `open`.
        self.open.store(generation, Ordering::Release);
    }

    /// Begins a relist of the whole queue, and calls `claim` under the same lock. Returns the
    /// generation of the relist, and the result of `claim`.
    ///
    /// If an older relist is open, it ends, and `wait` waits until the threads that hold shards
    /// have pushed. No relist is current until then, so that the older relist cannot push after an
    /// offer that counts as listed by the new one. Just before the new relist becomes current,
    /// `ready` is called with the generation of the older relist, or 0 if none was open, and that
    /// of the new one.
    pub(super) fn begin<R>(
        &self,
        claim: impl FnOnce() -> R,
        wait: impl FnOnce(),
        ready: impl FnOnce(u32, u32),
    ) -> Result<(u32, R), BeginError> {
        let mut last = self.last.lock();
        if !last.scopes.is_empty() {
            return Err(BeginError::HasScopes);
        }
        let generation = last.next_generation()?;
        let superseded = last.whole;
        if superseded != 0 {
            // Offers go on to stamp with the generation of an open removal.
            last.whole = 0;
            self.set_open(last.newest_open());
            mutant!(BegunBeforeItWaits => self.set_open(generation));
            wait();
        }
        ready(superseded, generation);
        last.whole = generation;
        self.set_open(generation);
        // Claimed last: an offer that finds the population claimed must count as listed.
        Ok((generation, claim()))
    }

    /// Begins a relist of a scope: see [`begin`](Self::begin). Returns its generation, whether its
    /// deltas belong to the initial population, and its keys.
    pub(super) fn begin_in(
        &self,
        scope: &ScopeId,
        wait: impl FnOnce(),
        ready: impl FnOnce(u32, u32),
    ) -> Result<(u32, bool, Within), BeginError> {
        let mut last = self.last.lock();
        let (within, generation) = last.next_of(scope)?;
        self.supersede(&mut last, scope, generation, wait, ready);
        Ok((generation, last.scopes.is_awaited(scope), within))
    }

    /// Makes `generation` the current one of a scope, after its older relist has ended.
    fn supersede(
        &self,
        last: &mut Last,
        scope: &ScopeId,
        generation: u32,
        wait: impl FnOnce(),
        ready: impl FnOnce(u32, u32),
    ) {
        let superseded = scope.current();
        if superseded != 0 {
            // Relists of other scopes stay open, so offers continue to stamp with the current
            // `open`.
            scope.set_current(0);
            wait();
            last.end_of_scope(superseded);
        }
        ready(superseded, generation);
        last.of_scopes.push(generation);
        scope.set_current(generation);
        self.set_open(generation);
    }

    /// Removes a scope, and begins a relist that deletes its keys. Returns its generation, its
    /// keys, and whether the removal completes the initial population.
    pub(super) fn remove(
        &self,
        scope: &ScopeId,
        wait: impl FnOnce(),
        ready: impl FnOnce(u32, u32),
    ) -> Result<(u32, Within, bool), BeginError> {
        let mut last = self.last.lock();
        let (within, generation) = last.next_of(scope)?;
        let completes = last.scopes.remove(scope);
        self.supersede(&mut last, scope, generation, wait, ready);
        // Open until its end, as a relist is: a key that is offered for another scope, or for the
        // whole queue, is not deleted by it.
        mutant!(RemovalIsNotOpen => last.end_of_scope(generation));
        Ok((generation, within, completes))
    }

    /// Ends a relist if it is still current, and then calls `step` under the same lock. Returns
    /// the result of `step`, or `None` if the relist was not current.
    pub(super) fn end<R>(
        &self,
        generation: u32,
        within: Option<&Within>,
        step: impl FnOnce(&mut Last) -> R,
    ) -> Option<R> {
        let mut last = self.last.lock();
        if let Some(Within { scope, .. }) = within {
            let is_current = scope.current() == generation;
            mutant!(OldEndCounts => let is_current = true);
            if !is_current {
                return None;
            }
            scope.set_current(0);
            last.end_of_scope(generation);
            self.set_open(last.newest_open());
            mutant!(ScopeEndsAll => self.set_open(0));
        } else {
            if last.whole != generation {
                return None;
            }
            last.whole = 0;
            self.set_open(last.newest_open());
        }
        Some(step(&mut last))
    }

    /// Returns whether a relist is current. Called with a shard's lock held: if a newer relist
    /// begins after this check, a push under that lock still comes before the first object of the
    /// newer relist, which waits for the lock first (see [`begin`](Self::begin)).
    pub(super) fn is_current(&self, generation: u32, within: Option<&Within>) -> bool {
        match within {
            None => self.open() == generation,
            Some(within) => {
                mutant!(AnyOpenScopeIsCurrent => return self.open() != 0);
                within.scope.current() == generation
            }
        }
    }
}
