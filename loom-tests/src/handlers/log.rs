//! The log of a handler's notifications, and the check that they are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use deltafifo_informer::shared_informer::{Cause, Notification};

use super::world::InformerObject;

/// The states of a key, oldest first. A state is a version, or `None` after a deletion. The first
/// state is a version.
#[derive(Default)]
pub struct History(Vec<Option<u64>>);

impl History {
    pub fn push(&mut self, now: Option<u64>) {
        if self.now() != now {
            self.0.push(now);
        }
    }

    pub fn now(&self) -> Option<u64> {
        self.0.last().copied().flatten()
    }

    /// Returns the index at which the key has `state`: for a version its first index, and for a
    /// deletion the index of the first deletion after the index `after`. `None` if there is none.
    fn place(&self, state: Option<u64>, after: Option<usize>) -> Option<usize> {
        let from = if state.is_some() { 0 } else { after.map_or(0, |after| after + 1) };
        Some(from + self.0.get(from..)?.iter().position(|one| *one == state)?)
    }
}

/// The states of a key that a handler may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayMiss {
    /// None: the handler was registered before the first change.
    Nothing,
    /// The states before the handler's first notification of the key.
    BeforeFirst,
    /// The states before the first notification, and those before a handler resync.
    BeforeResync,
    /// Any states before the first notification, and any states between two notifications.
    Any,
}

enum Event {
    /// A notification that a key has this state: a version, or `None` after a deletion.
    State(&'static str, Option<u64>),
    /// A handler resync. The next state of each key may be any later state, or the present one
    /// again.
    Resync,
}

/// The content of a handler's log. It is behind a std lock, because a lock of shuttle could
/// synchronise threads that the informer fails to synchronise. No shuttle operation may run while
/// the lock is held.
#[derive(Default)]
pub struct HandlerLog(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    events: Vec<Event>,
    /// The version of each key that the handler knows.
    known: BTreeMap<&'static str, u64>,
    /// The keys that were added since the current handler resync began, and not deleted since
    /// then; `None` outside of a handler resync.
    resynced: Option<BTreeSet<&'static str>>,
    calls: usize,
    /// Whether the handler has removed itself during a call. It then takes no further
    /// notification.
    removes_itself: bool,
    is_closed: bool,
    violation: Option<String>,
}

impl Notes {
    fn check(&mut self, holds: bool, violation: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(violation());
        }
    }

    fn added(&mut self, new: &InformerObject) {
        let before = self.known.insert(new.key(), new.version);
        let is_first =
            self.resynced.as_mut().map_or(before.is_none(), |resynced| resynced.insert(new.key()));
        self.check(is_first, || {
            format!("{} is added, but the handler knew {before:?}", new.shown())
        });
        self.events.push(Event::State(new.key(), Some(new.version)));
    }

    fn updated(&mut self, old: &InformerObject, new: &InformerObject, cause: Cause) {
        let before = self.known.insert(new.key(), new.version);
        self.check(before == Some(old.version), || {
            format!(
                "{} is updated from {}, but the handler knew {before:?}",
                new.shown(),
                old.version
            )
        });
        self.check(old.life == new.life, || {
            format!("{} is an update to another object", new.shown())
        });
        let is_again = cause == Cause::Resync && old.version == new.version;
        if !is_again {
            self.events.push(Event::State(new.key(), Some(new.version)));
        }
    }

    fn deleted(&mut self, key: &'static str) {
        let was_known = self.known.remove(key).is_some();
        let was_known =
            was_known && self.resynced.as_mut().is_none_or(|resynced| resynced.remove(key));
        self.check(was_known, || format!("{key} is deleted, but was not known"));
        self.events.push(Event::State(key, None));
    }
}

impl HandlerLog {
    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.0.lock().unwrap()
    }

    /// Records a notification. `has_synced` is whether the registration had synced before it.
    pub fn record(&self, notification: &Notification<InformerObject>, has_synced: bool) {
        let mut notes = self.notes();
        // The deletion of an object and the addition of its successor are taken together.
        let is_successor = match (notification, notes.events.last()) {
            (Notification::Added { new, .. }, Some(Event::State(key, None))) => *key == new.key(),
            _ => false,
        };
        let is_over = notes.is_closed || notes.removes_itself && !is_successor;
        notes.check(!is_over, || "notified after the handler was removed".to_owned());
        match notification {
            Notification::Added { new, is_in_initial_list, .. } => {
                notes.check(!(has_synced && *is_in_initial_list), || {
                    format!(
                        "{} belongs to the initial list, but arrived after the handler had synced",
                        new.shown()
                    )
                });
                notes.added(new);
            }
            Notification::Updated { old, new, cause } => notes.updated(old, new, *cause),
            Notification::Deleted { last, .. } => {
                notes.deleted(last.object().expect("every deletion has an object").key());
            }
            Notification::ResyncBegins => {
                notes.resynced = Some(BTreeSet::new());
                notes.events.push(Event::Resync);
            }
            Notification::ResyncEnds => match notes.resynced.take() {
                Some(resynced) => notes.known.retain(|key, _| resynced.contains(key)),
                None => notes.check(false, || "a resync ended that had not begun".to_owned()),
            },
        }
    }

    pub fn call_begins(&self) {
        self.notes().calls += 1;
    }

    pub fn call_ends(&self) {
        self.notes().calls -= 1;
    }

    /// Records that the handler has removed itself. Only notifications that it had taken before
    /// may still be delivered.
    pub fn removes_itself(&self) {
        self.notes().removes_itself = true;
    }

    /// Records that the handler was removed, or that its informer has stopped: no call of the
    /// handler may run now, and the handler must not be notified any more.
    pub fn close(&self) {
        let mut notes = self.notes();
        let calls = notes.calls;
        notes.check(calls == 0, || "a call runs after the handler was removed".to_owned());
        notes.is_closed = true;
    }

    /// Checks that the handler was notified of all initial keys. Called once its registration has
    /// synced.
    pub fn has_synced(&self, initial: &[&str]) {
        let mut notes = self.notes();
        let missing = initial.iter().find(|key| !notes.known.contains_key(**key));
        notes.check(missing.is_none(), || format!("the handler has synced without {missing:?}"));
    }

    pub fn knows(&self, all: &BTreeMap<&'static str, u64>) -> bool {
        self.notes().known == *all
    }

    /// Checks whether this sequence of notifications was allowed.
    pub fn check_history(&self, truth: &BTreeMap<&'static str, History>, may_miss: MayMiss) {
        let notes = self.notes();
        if let Some(violation) = &notes.violation {
            panic!("{may_miss:?}: {violation}");
        }
        let (mut places, mut resynced) = (BTreeMap::new(), BTreeSet::new());
        for event in &notes.events {
            let Event::State(key, state) = event else {
                resynced = places.keys().copied().collect();
                continue;
            };
            let before = places.get(key).copied();
            let place =
                truth[key].place(*state, before).expect("a notified state is in the history");
            let is_next = match before {
                None => may_miss != MayMiss::Nothing || place == 0,
                Some(before) if resynced.remove(key) => place >= before,
                Some(before) if may_miss == MayMiss::Any => place > before,
                Some(before) => place == before + 1,
            };
            assert!(is_next, "{may_miss:?}: state {place} of {key} was notified after {before:?}");
            places.insert(*key, place);
        }
    }
}
