//! A key's way from what a handler was told to what is now: what waits in a buffer.

use std::sync::Arc;

use deltafifo::{DeletedFinalStateUnknown, DeltaObject};
use tokio::time::Instant;

use super::notification::{Cause, Notification};

/// From what a handler was told of a key to what is now.
pub(super) struct Step<K> {
    pub(super) key: Arc<str>,
    /// What it was told last, if it was told anything that is not gone.
    pub(super) told: Option<Arc<K>>,
    pub(super) now: Now<K>,
    pub(super) cause: Cause,
    pub(super) is_in_initial_list: bool,
    /// Whether it comes from a walk over the store, and not from a change.
    pub(super) is_walked: bool,
    /// Since when it waits.
    pub(super) since: Instant,
}

/// How it is with a key.
pub(super) enum Now<K> {
    Stored(Arc<K>),
    Gone(DeltaObject<K>),
}

impl<K> Step<K> {
    /// What it comes to for a handler that `cares` for some objects only: what begins to be one of
    /// them is added, what ceases to is deleted, and of what it was not told nothing is told. An
    /// object in the place of another uid is another object, whose predecessor's end nobody saw.
    pub(super) fn notifications<'a>(
        self,
        uid: impl Fn(&K) -> Option<&str> + 'a,
        cares: impl Fn(&K) -> bool,
    ) -> [Option<Notification<K>>; 2]
    where
        K: 'a,
    {
        let Self { key, told, now, cause, is_in_initial_list, .. } = self;
        let added = |new: Arc<K>| {
            cares(&new).then_some(Notification::Added { new, is_in_initial_list, cause })
        };
        let Some(old) = told.filter(|old| cares(old)) else {
            return match now {
                Now::Gone(_) => [None, None],
                Now::Stored(new) => [added(new), None],
            };
        };
        let deleted = |last| Some(Notification::Deleted { old: old.clone(), last, cause });
        let is_same = |object: &K| uid(object) == uid(&old);
        let unseen =
            || DeletedFinalStateUnknown { key: (*key).into(), obj: Some(old.clone()) }.into();
        match now {
            Now::Gone(last) if last.object().is_some_and(|last| is_same(last)) => {
                [deleted(last), None]
            }
            Now::Gone(_) => [deleted(unseen()), None],
            Now::Stored(new) if !is_same(&new) => [deleted(unseen()), added(new)],
            Now::Stored(new) if cares(&new) => {
                [Some(Notification::Updated { old, new, cause }), None]
            }
            Now::Stored(_) => [deleted(old.clone().into()), None],
        }
    }
}

impl<K> Clone for Step<K> {
    fn clone(&self) -> Self {
        let Self { key, told, now, cause, is_in_initial_list, is_walked, since } = self;
        let now = match now {
            Now::Stored(object) => Now::Stored(object.clone()),
            Now::Gone(last) => Now::Gone(last.clone()),
        };
        Self {
            key: key.clone(),
            told: told.clone(),
            now,
            cause: *cause,
            is_in_initial_list: *is_in_initial_list,
            is_walked: *is_walked,
            since: *since,
        }
    }
}
