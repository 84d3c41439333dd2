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
    /// What it comes to. An object in the place of another uid is another object, whose predecessor's end nobody saw.
    pub(super) fn notifications<'a>(self, uid: impl Fn(&K) -> Option<&str> + 'a) -> [Option<Notification<K>>; 2]
    where
        K: 'a,
    {
        let Self { key, told, now, cause, is_in_initial_list, .. } = self;
        let added = |new| Some(Notification::Added { new, is_in_initial_list, cause });
        match (told, now) {
            (None, Now::Gone(_)) => [None, None],
            (None, Now::Stored(new)) => [added(new), None],
            (Some(old), Now::Gone(last)) => [Some(Notification::Deleted { old, last, cause }), None],
            (Some(old), Now::Stored(new)) if uid(&old) == uid(&new) => {
                [Some(Notification::Updated { old, new, cause }), None]
            }
            (Some(old), Now::Stored(new)) => {
                let last = DeletedFinalStateUnknown { key: (*key).into(), obj: Some(old.clone()) };
                [Some(Notification::Deleted { old, last: last.into(), cause }), added(new)]
            }
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
