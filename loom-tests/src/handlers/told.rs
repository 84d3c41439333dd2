//! The notifications of a handler, and the check whether they are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use deltafifo_informer::shared_informer::{Cause, Notification};

use super::world::Object;

/// The states of a key, oldest first: a version, or `None` if it was deleted. The first is a
/// version.
#[derive(Default)]
pub struct History(Vec<Option<u64>>);

impl History {
    pub fn goes_on(&mut self, now: Option<u64>) {
        if self.now() != now {
            self.0.push(now);
        }
    }

    pub fn now(&self) -> Option<u64> {
        self.0.last().copied().flatten()
    }

    /// Returns the index of a version; for a deletion, the first index after `after`.
    fn place(&self, state: Option<u64>, after: Option<usize>) -> Option<usize> {
        let from = if state.is_some() { 0 } else { after.map_or(0, |after| after + 1) };
        Some(from + self.0.get(from..)?.iter().position(|one| *one == state)?)
    }
}

/// Which states of a key a handler may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misses {
    /// None: it was registered first.
    Nothing,
    /// The states before its first notification of the key.
    Before,
    /// In addition, the states before a handler resync.
    Dropped,
    /// Any states in between.
    Between,
}

enum Event {
    /// The next state of a key.
    State(&'static str, Option<u64>),
    /// A handler resync: the next state of each key may be any later one, or the same again.
    Anew,
}

/// The notes of a handler. Uses a std lock, which must not synchronise what the informer fails to
/// synchronise; no shuttle operation may run while it is held.
#[derive(Default)]
pub struct Log(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    events: Vec<Event>,
    told: BTreeMap<&'static str, u64>,
    /// The keys notified since a handler resync began.
    anew: Option<BTreeSet<&'static str>>,
    calls: usize,
    /// It has removed itself in a call, and takes nothing more.
    leaves: bool,
    is_closed: bool,
    wrong: Option<String>,
}

impl Notes {
    fn demand(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.wrong.is_none() {
            self.wrong = Some(what());
        }
    }

    fn added(&mut self, new: &Object) {
        let before = self.told.insert(new.key(), new.version);
        let is_first = self.anew.as_mut().map_or(before.is_none(), |anew| anew.insert(new.key()));
        self.demand(is_first, || format!("{} is added over {before:?}", new.shown()));
        self.events.push(Event::State(new.key(), Some(new.version)));
    }

    fn updated(&mut self, old: &Object, new: &Object, cause: Cause) {
        let before = self.told.insert(new.key(), new.version);
        self.demand(before == Some(old.version), || {
            format!("{} is updated from {}, and {before:?} was told", new.shown(), old.version)
        });
        self.demand(old.life == new.life, || format!("{} is another object than before", new.shown()));
        let is_again = cause == Cause::Resync && old.version == new.version;
        if !is_again {
            self.events.push(Event::State(new.key(), Some(new.version)));
        }
    }

    fn deleted(&mut self, key: &'static str) {
        let was_told = self.told.remove(key).is_some();
        let was_told = was_told && self.anew.as_mut().is_none_or(|anew| anew.remove(key));
        self.demand(was_told, || format!("the end of {key} is told, and its begin was not"));
        self.events.push(Event::State(key, None));
    }
}

impl Log {
    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.0.lock().unwrap()
    }

    /// Records a notification. `has_synced` is what the registration said before it.
    pub fn note(&self, told: &Notification<Object>, has_synced: bool) {
        let mut notes = self.notes();
        // The deletion of an object and the addition of its successor are taken together.
        let is_taken = match (told, notes.events.last()) {
            (Notification::Added { new, .. }, Some(Event::State(key, None))) => *key == new.key(),
            _ => false,
        };
        let is_over = notes.is_closed || notes.leaves && !is_taken;
        notes.demand(!is_over, || "it is told after it was removed".to_owned());
        match told {
            Notification::Added { new, is_in_initial_list, .. } => {
                notes.demand(!(has_synced && *is_in_initial_list), || format!("{} is initial, and late", new.shown()));
                notes.added(new);
            }
            Notification::Updated { old, new, cause } => notes.updated(old, new, *cause),
            Notification::Deleted { last, .. } => {
                notes.deleted(last.object().expect("nobody deletes a key without an object").key());
            }
            Notification::ResyncBegins => {
                notes.anew = Some(BTreeSet::new());
                notes.events.push(Event::Anew);
            }
            Notification::ResyncEnds => match notes.anew.take() {
                Some(anew) => notes.told.retain(|key, _| anew.contains(key)),
                None => notes.demand(false, || "a resync ends that has not begun".to_owned()),
            },
        }
    }

    pub fn call_begins(&self) {
        self.notes().calls += 1;
    }

    pub fn call_ends(&self) {
        self.notes().calls -= 1;
    }

    /// Records that the handler has removed itself: what it has taken is still delivered, but
    /// nothing else.
    pub fn leaves(&self) {
        self.notes().leaves = true;
    }

    /// Records that the handler was removed: it must not be notified any more.
    pub fn close(&self) {
        let mut notes = self.notes();
        let calls = notes.calls;
        notes.demand(calls == 0, || "it was removed, and a call runs".to_owned());
        notes.is_closed = true;
    }

    /// Checks that all initial keys were notified, since the registration says so.
    pub fn has_synced(&self, initial: &[&str]) {
        let mut notes = self.notes();
        let missing = initial.iter().find(|key| !notes.told.contains_key(**key));
        notes.demand(missing.is_none(), || format!("it has synced without {missing:?}"));
    }

    pub fn knows(&self, all: &BTreeMap<&'static str, u64>) -> bool {
        self.notes().told == *all
    }

    /// Checks whether this sequence of notifications was allowed.
    pub fn judge(&self, truth: &BTreeMap<&'static str, History>, misses: Misses) {
        let notes = self.notes();
        if let Some(wrong) = &notes.wrong {
            panic!("{misses:?}: {wrong}");
        }
        let (mut places, mut anew) = (BTreeMap::new(), BTreeSet::new());
        for event in &notes.events {
            let Event::State(key, state) = event else {
                anew = places.keys().copied().collect();
                continue;
            };
            let before = places.get(key).copied();
            let place = truth[key].place(*state, before).expect("it is told of what was never so");
            let is_next = match before {
                None => misses != Misses::Nothing || place == 0,
                Some(before) if anew.remove(key) => place >= before,
                Some(before) if misses == Misses::Between => place > before,
                Some(before) => place == before + 1,
            };
            assert!(is_next, "{misses:?}: of {key} it is told state {place} after {before:?}");
            places.insert(*key, place);
        }
    }
}
