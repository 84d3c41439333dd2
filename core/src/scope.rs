//! Scopes: parts of the keys that are relisted separately.

use std::fmt;

use crate::engine::release::UserCode;
use crate::engine::sync::{Arc, AtomicU32, Ordering, assert_none_held, mutant};
use crate::error::{Outside, ScopeError, VersionError};
use crate::store::applied::{Applied, Point, parse};
use crate::version::ResourceVersion;
use crate::{KeyFunc, Meta};

type Contains = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// A part of the keys of a queue: a namespace, or the keys that a predicate accepts.
///
/// A queue with scopes is relisted scope by scope, so that one failing list does not hold up the
/// others: see [`DeltaFifo::add_scope`](crate::DeltaFifo::add_scope). (client-go has no such thing;
/// kubernetes/client-go#580 asks for it.)
///
/// Scopes should have no key in common. A predicate can only be checked against existing keys, so
/// an overlap of two scopes may be noticed only when a key arrives that is in both. That key
/// belongs to the scope that was added first: its relists list and delete the key, and its removal
/// deletes it. Relists of the newer scope refuse the key, with an error that names both scopes, and
/// never delete it. If the older scope is removed, the key belongs to the newer one from the next
/// relist of the newer one on. `add`, `update` and `delete` do not depend on scopes.
pub struct KeyScope {
    name: Box<str>,
    /// The predicate, or `None` if the scope is a namespace.
    contains: Option<UserCode<Contains>>,
}

impl KeyScope {
    /// Creates a scope of the keys `name/…`. The queue must have keys by
    /// [`KeyFunc::meta_namespace`](crate::KeyFunc::meta_namespace), and refuses a name with a
    /// slash, because another namespace could contain the same keys. A scope with an empty name
    /// contains no keys.
    pub fn namespace(name: impl Into<String>) -> Self {
        Self { name: name.into().into(), contains: None }
    }

    /// Creates a scope of the keys that `contains` accepts. The predicate must return the same
    /// answer for the same key, and runs with no lock held. `name` identifies the scope in errors,
    /// and two scopes of a queue must have different names.
    pub fn keys(
        name: impl Into<String>,
        contains: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let contains: Contains = Box::new(contains);
        Self { name: name.into().into(), contains: Some(UserCode::new(contains)) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn is_namespace(&self) -> bool {
        self.contains.is_none()
    }

    /// Fails if the scope is a namespace with a slash in its name, or a namespace in a queue with
    /// custom keys, which need not contain the namespace.
    fn check<T, M: Meta<T>>(&self, keys: &KeyFunc<T, M>) -> Result<(), ScopeError> {
        if !self.is_namespace() {
            return Ok(());
        }
        let scope = || self.name.to_string();
        if self.name.contains('/') {
            return Err(ScopeError::NotANamespace { scope: scope() });
        }
        if keys.is_meta_namespace() {
            Ok(())
        } else {
            Err(ScopeError::NeedsNames { scope: scope() })
        }
    }

    fn contains(&self, key: &str) -> bool {
        if let Some(contains) = &self.contains {
            assert_none_held();
            return contains(key);
        }
        key.strip_prefix(&*self.name).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Debug for KeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(if self.is_namespace() { "namespace" } else { "keys" })
            .field(&self.name)
            .finish()
    }
}

/// A scope of one queue, made by the queue's `add_scope`. Cheap to clone.
#[derive(Clone)]
pub struct ScopeId {
    registered: Arc<Registered>,
    /// Whether a relist that is begun with this handle counts as a list of the scope.
    counts: bool,
}

struct Registered {
    scope: KeyScope,
    /// The generation of the scope's open relist, or 0 if none is open. Changed under the lock of
    /// the queue's scopes.
    current: AtomicU32,
}

impl ScopeId {
    pub(crate) fn new(scope: KeyScope) -> Self {
        let registered = Arc::new(Registered { scope, current: AtomicU32::new(0) });
        Self { registered, counts: true }
    }

    fn scope(&self) -> &KeyScope {
        &self.registered.scope
    }

    /// Returns the namespace, or the name that was given to [`KeyScope::keys`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.scope().name()
    }

    /// Returns a handle whose relists do not count as lists of the scope: a commit still deletes
    /// the unlisted keys, but its version is ignored, it is not the scope's first list, and it ends
    /// no waiver. The informer uses such a handle for the final list of a namespace that has left
    /// its set, because it does not offer every object of that list.
    #[doc(hidden)]
    #[must_use]
    pub fn uncounted(&self) -> Self {
        Self { counts: false, ..self.clone() }
    }

    fn contains(&self, key: &str) -> bool {
        self.scope().contains(key)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.registered, &other.registered)
    }

    /// Returns the generation of the open relist, 0 if there is none.
    pub(crate) fn current(&self) -> u32 {
        // Acquire, paired with `set_current`: a relist that is over pushes nothing more.
        self.registered.current.load(Ordering::Acquire)
    }

    pub(crate) fn set_current(&self, generation: u32) {
        // Release, paired with `current`.
        self.registered.current.store(generation, Ordering::Release);
    }
}

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scope().fmt(f)
    }
}

/// The keys that a relist of a scope may list and delete: the keys of the scope that are in no
/// older scope. Namespaces have no key in common, so older scopes must be checked only for a scope
/// with a predicate, and for a namespace that is newer than such a scope.
pub(crate) struct Within {
    pub(crate) scope: ScopeId,
    older: Vec<ScopeId>,
}

impl Within {
    /// Returns whether a relist of the scope may list `key`. Runs user code unless
    /// [`is_plain`](Self::is_plain).
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.scope.contains(key) && self.older_with(key).is_none()
    }

    /// Checks whether a relist of the scope may list `key`, and fails if it may not.
    pub(crate) fn check(&self, key: &str) -> Result<(), Outside> {
        let older = if self.scope.contains(key) {
            let Some(older) = self.older_with(key) else { return Ok(()) };
            Some(older.name().to_owned())
        } else {
            None
        };
        Err(Outside { key: key.to_owned(), scope: self.scope.name().to_owned(), older })
    }

    fn older_with(&self, key: &str) -> Option<&ScopeId> {
        self.older.iter().find(|older| older.contains(key))
    }

    /// Returns the namespace that all keys of the scope lie in, or `None` if the scope has a
    /// predicate.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.scope.scope().is_namespace().then(|| self.scope.name())
    }

    /// Returns whether the scope can be checked without calling a predicate.
    pub(crate) fn is_plain(&self) -> bool {
        self.scope.scope().is_namespace() && self.older.is_empty()
    }
}

/// The scopes of a queue, the oldest first. Guarded by a lock of the queue.
#[derive(Default)]
pub(crate) struct Scopes(Vec<ScopeState>);

struct ScopeState {
    id: ScopeId,
    /// The number of the history in which the scope was added (`store/applied.rs`).
    added: u64,
    /// Whether the initial population waits for the scope's first list.
    is_awaited: bool,
    /// Whether a first list of the scope is complete: a list of the initial population, or any list
    /// that was completed while the population did not wait for the scope.
    has_first: bool,
    /// Whether the caller has waived the scope, and no list or bookmark of it has arrived since.
    is_waived: bool,
    /// The version, as a [`Point`], up to which everything in the scope was offered; `None` before
    /// the first list or bookmark.
    reached: Option<Point>,
    /// The version of the scope's last list, as the producer gave it.
    version: Option<String>,
}

impl ScopeState {
    /// Ends the waiver of the scope, if it is waived. From then on the store has no applied version
    /// until a marker that is queued later is complete: markers from before say nothing about the
    /// scope. Returns whether the scope was waived.
    fn end_waiver(&mut self, applied: &Applied) -> bool {
        let was_waived = std::mem::take(&mut self.is_waived);
        if was_waived {
            mutant!(AwaitedScopeIsAhead => return was_waived);
            applied.begin_edition();
        }
        was_waived
    }
}

impl Scopes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a scope in the current `history`. Fails if there is a scope of the same name. The
    /// caller created `id` before it took the lock, so if the scope is refused, its predicate is
    /// dropped after the lock is released. `claim` returns whether the initial population waits for
    /// the scope.
    pub(crate) fn add(
        &mut self,
        id: &ScopeId,
        history: u64,
        claim: impl FnOnce() -> bool,
    ) -> Result<(), ScopeError> {
        if self.0.iter().any(|entry| entry.id.name() == id.name()) {
            return Err(ScopeError::Overlaps { scope: id.name().to_owned() });
        }
        self.0.push(ScopeState {
            id: id.clone(),
            added: history,
            is_awaited: claim(),
            has_first: false,
            is_waived: false,
            reached: None,
            version: None,
        });
        Ok(())
    }

    fn find(&mut self, id: &ScopeId) -> Option<&mut ScopeState> {
        self.0.iter_mut().find(|entry| entry.id.is(id))
    }

    /// Returns the scope, unless the lists of the handle `id` do not count.
    fn counted(&mut self, id: &ScopeId) -> Option<&mut ScopeState> {
        let is_counted = id.counts;
        mutant!(UncountedListCounts => let is_counted = true);
        if is_counted { self.find(id) } else { None }
    }

    fn get(&self, id: &ScopeId) -> Option<&ScopeState> {
        self.0.iter().find(|entry| entry.id.is(id))
    }

    /// Returns the keys that a relist of the scope may list, or `None` if the scope belongs to
    /// another queue or was removed.
    pub(crate) fn within(&self, id: &ScopeId) -> Option<Within> {
        let place = self.0.iter().position(|entry| entry.id.is(id))?;
        Some(Within { scope: id.clone(), older: rivals(id.scope(), &self.0[..place]) })
    }

    /// Returns whether a relist of the scope belongs to the initial population.
    pub(crate) fn is_awaited(&self, id: &ScopeId) -> bool {
        id.counts && self.get(id).is_some_and(|entry| entry.is_awaited)
    }

    /// Records that the scope's list at `version` is complete, which also ends a waiver.
    /// `is_initial` says whether the list belongs to the initial population. Returns whether this
    /// list completes the initial population.
    pub(crate) fn listed(
        &mut self,
        id: &ScopeId,
        version: &str,
        is_initial: bool,
        applied: &Applied,
    ) -> bool {
        let Some(entry) = self.counted(id) else { return false };
        entry.version = Some(version.to_owned());
        entry.end_waiver(applied);
        // The deltas of a list that began while the scope was waived have no marks, so the
        // population would be complete before they are handled.
        mutant!(UnmarkedListEndsTheWait => let is_initial = true);
        let was_awaited = is_initial && std::mem::take(&mut entry.is_awaited);
        entry.has_first |= !entry.is_awaited;
        mutant!(AnyListIsTheFirst => entry.has_first = true);
        was_awaited && self.none_awaited()
    }

    /// Ends the wait for the scope's first list, and excludes the scope from [`least`](Self::least)
    /// and [`least_version`](Self::least_version) until its next list or bookmark. Returns whether
    /// this completes the initial population.
    pub(crate) fn waive(&mut self, id: &ScopeId) -> bool {
        let Some(entry) = self.find(id) else { return false };
        entry.is_waived = true;
        mutant!(ListedScopeIsNotWaived => entry.is_waived = entry.version.is_none());
        let was_awaited = std::mem::take(&mut entry.is_awaited);
        mutant!(WaivedScopeSyncs => return was_awaited);
        was_awaited && self.none_awaited()
    }

    /// Ends a waiver: the scope counts again with its last list or bookmark. Without a first list,
    /// `claim` returns whether the initial population waits for the scope.
    pub(crate) fn count_again(
        &mut self,
        id: &ScopeId,
        applied: &Applied,
        claim: impl FnOnce() -> bool,
    ) {
        if let Some(entry) = self.find(id)
            && entry.end_waiver(applied)
        {
            entry.is_awaited = !entry.has_first && claim();
        }
    }

    /// Removes the scope. Returns whether this completes the initial population.
    pub(crate) fn remove(&mut self, id: &ScopeId) -> bool {
        let was_awaited = self.get(id).is_some_and(|entry| entry.is_awaited);
        self.0.retain(|entry| !entry.id.is(id));
        was_awaited && self.none_awaited()
    }

    /// Returns whether the initial population waits for no scope.
    pub(crate) fn none_awaited(&self) -> bool {
        mutant!(FirstScopeSyncs => return true);
        !self.0.iter().any(|entry| entry.is_awaited)
    }

    /// Records that every change in the scope up to `version` was offered. `began` is the number of
    /// the history in which the scope's list began. It is `None` for a bookmark, and in a queue
    /// that does not track applied versions. A bookmark at a lower version than the scope's last
    /// list or bookmark only ends a waiver. Does nothing if the scope belongs to another queue or
    /// was removed. Otherwise fails if the queue does not track applied versions, or if `version`
    /// is not a number.
    pub(crate) fn reached(
        &mut self,
        id: &ScopeId,
        version: &str,
        began: Option<u64>,
        applied: &Applied,
    ) -> Result<(), VersionError> {
        let Some(entry) = self.counted(id) else { return Ok(()) };
        let (reached, version) = (entry.reached.as_ref(), parse(version)?);
        let point = applied.expect_part(reached, version, began, entry.added)?;
        if began.is_some() || entry.reached.as_ref() < Some(&point) {
            entry.reached = Some(point);
        }
        entry.end_waiver(applied);
        Ok(())
    }

    /// Returns the point up to which every change in every scope was offered, or `None` if some
    /// scope has no such point yet. Waived scopes do not count.
    pub(crate) fn least(&self) -> Option<Point> {
        let counting = self.0.iter().filter(|entry| !entry.is_waived);
        counting.map(|entry| entry.reached.as_ref()).min()?.cloned()
    }

    /// Returns the least version of the scopes' last lists, or `None` if some scope has no list yet
    /// or the version of its list is not a number. Waived scopes do not count.
    pub(crate) fn least_version(&self) -> Option<String> {
        let counting = self.0.iter().filter(|entry| !entry.is_waived);
        let versions = counting.map(|entry| ResourceVersion::parse(entry.version.as_deref()?));
        versions.min()?.map(|version| version.to_string())
    }
}

/// The behaviour of a mutant (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
impl Scopes {
    /// Returns the greatest point of all scopes: the defect `GreatestScopeApplies`, since
    /// [`least`](Self::least) would be right.
    pub(crate) fn greatest(&self) -> Option<Point> {
        self.0.iter().filter_map(|entry| entry.reached.clone()).max()
    }
}

/// A scope that is checked and then added. Predicates run with no lock held, so the scopes of the
/// queue may change between the check and the addition.
pub(crate) struct Candidate {
    pub(crate) scope: ScopeId,
    /// The scopes with which this one was found to have no known key in common.
    checked: Vec<ScopeId>,
}

impl Candidate {
    /// Creates a candidate. Fails as [`KeyScope::check`] does.
    pub(crate) fn new<T, M: Meta<T>>(
        scope: KeyScope,
        keys: &KeyFunc<T, M>,
    ) -> Result<Self, ScopeError> {
        scope.check(keys)?;
        Ok(Self { scope: ScopeId::new(scope), checked: Vec::new() })
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.scope.scope().is_namespace()
    }

    /// Returns the scopes that may have a key in common with this one, if one of them was not
    /// checked yet. The caller then [checks](Self::check) them, and calls this again. Returns
    /// `None` if all are checked.
    pub(crate) fn unchecked(&self, scopes: &Scopes) -> Option<Vec<ScopeId>> {
        mutant!(ScopeCheckedOnce => if !self.checked.is_empty() { return None });
        let rivals = rivals(self.scope.scope(), &scopes.0);
        let is_checked = |rival: &ScopeId| self.checked.iter().any(|other| other.is(rival));
        (!rivals.iter().all(is_checked)).then_some(rivals)
    }

    /// Checks that none of the `known` keys lies in both this scope and one of `rivals`, and fails
    /// otherwise. No lock may be held, because predicates are user code.
    pub(crate) fn check(
        &mut self,
        rivals: Vec<ScopeId>,
        known: impl IntoIterator<Item = String>,
    ) -> Result<(), ScopeError> {
        check_common_keys(self.scope.scope(), &rivals, known)?;
        self.checked = rivals;
        Ok(())
    }
}

/// Returns the scopes in `others` that may have a key in common with `scope`: all of them if
/// `scope` has a predicate, otherwise those with a predicate.
fn rivals(scope: &KeyScope, others: &[ScopeState]) -> Vec<ScopeId> {
    let may_overlap = |other: &&ScopeId| !scope.is_namespace() || !other.scope().is_namespace();
    others.iter().map(|entry| &entry.id).filter(may_overlap).cloned().collect()
}

/// Fails if one of `keys` lies in both `scope` and one of `rivals`.
fn check_common_keys(
    scope: &KeyScope,
    rivals: &[ScopeId],
    keys: impl IntoIterator<Item = String>,
) -> Result<(), ScopeError> {
    for key in keys {
        if let Some(other) = rivals.iter().find(|other| other.contains(&key))
            && scope.contains(&key)
        {
            let (scope, other) = (scope.name.to_string(), other.name().to_owned());
            return Err(ScopeError::CommonKey { scope, other, key });
        }
    }
    Ok(())
}
