//! A step: a pending change of a key in a handler's buffer.

use std::sync::Arc;

use deltafifo::{DeletedFinalStateUnknown, DeltaObject};
use tokio::time::Instant;

use super::notification::{Cause, Notification};

/// The difference between the state of a key that a handler was last notified of, and its current
/// state.
pub(super) struct Step<K> {
    pub(super) key: Arc<str>,
    /// The object that the handler was last notified of, unless that was a deletion.
    pub(super) delivered: Option<Arc<K>>,
    pub(super) now: CurrentState<K>,
    pub(super) cause: Cause,
    pub(super) is_in_initial_list: bool,
    /// Whether the step comes from a walk over the store rather than from a change.
    pub(super) is_walked: bool,
    /// The time at which the step was put into the buffer.
    pub(super) since: Instant,
}

/// The current state of a key.
pub(super) enum CurrentState<K> {
    Stored(Arc<K>),
    Gone(DeltaObject<K>),
}

impl<K> Step<K> {
    /// Returns the notifications for a handler whose filter is `matches`. An object that begins to
    /// match is added, one that ceases to match is deleted, and an object that the handler does not
    /// know is not deleted. If the uid changed, the object is a different one: the handler is
    /// notified of the deletion of the old one with a tombstone, because the watch missed that
    /// deletion.
    pub(super) fn notifications<'a>(
        self,
        uid: impl Fn(&K) -> Option<&str> + 'a,
        matches: impl Fn(&K) -> bool,
    ) -> [Option<Notification<K>>; 2]
    where
        K: 'a,
    {
        let Self { key, delivered, now, cause, is_in_initial_list, .. } = self;
        let added = |new: Arc<K>| {
            matches(&new).then_some(Notification::Added { new, is_in_initial_list, cause })
        };
        let Some(old) = delivered.filter(|old| matches(old)) else {
            return match now {
                CurrentState::Gone(_) => [None, None],
                CurrentState::Stored(new) => [added(new), None],
            };
        };
        let deleted = |last| Some(Notification::Deleted { old: old.clone(), last, cause });
        let is_same = |object: &K| uid(object) == uid(&old);
        let missed = || DeletedFinalStateUnknown::new(&*key, Some(old.clone())).into();
        match now {
            CurrentState::Gone(last) if last.object().is_some_and(|last| is_same(last)) => {
                [deleted(last), None]
            }
            CurrentState::Gone(_) => [deleted(missed()), None],
            CurrentState::Stored(new) if !is_same(&new) => [deleted(missed()), added(new)],
            CurrentState::Stored(new) if matches(&new) => {
                [Some(Notification::Updated { old, new, cause }), None]
            }
            CurrentState::Stored(_) => [deleted(old.clone().into()), None],
        }
    }
}

impl<K> Clone for Step<K> {
    fn clone(&self) -> Self {
        let Self { key, delivered, now, cause, is_in_initial_list, is_walked, since } = self;
        let now = match now {
            CurrentState::Stored(object) => CurrentState::Stored(object.clone()),
            CurrentState::Gone(last) => CurrentState::Gone(last.clone()),
        };
        Self {
            key: key.clone(),
            delivered: delivered.clone(),
            now,
            cause: *cause,
            is_in_initial_list: *is_in_initial_list,
            is_walked: *is_walked,
            since: *since,
        }
    }
}
