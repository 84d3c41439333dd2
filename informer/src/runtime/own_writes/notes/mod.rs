//! The writes of a controller's reconciles that its stores may not show yet.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::ResourceVersion;
use deltafifo::locks::Mutex;
use tokio::time::{Instant, timeout_at};

use super::NotSeen;
use super::answer::Written;
use super::stores::{Before, ObservedStore, ObservedStores};
use super::target::Target;
use crate::meta::object_key;

/// The longest time of one wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The time after which an unseen write is forgotten. A watch that works has a bookmark after the
/// write in this time, since API servers send one about every minute.
const LONGEST_KEPT: Duration = Duration::from_secs(120);

/// The number of objects of a key whose writes are noted one by one. Of the others only the
/// greatest version is kept for each store.
const MOST_OBJECTS: usize = 256;

/// The least number of notes after which all notes are checked.
const SWEEP_AFTER: usize = 1_024;

/// A write that a store may not show yet.
#[derive(Clone)]
pub(super) struct Note {
    /// The uid of the main object whose reconcile wrote it.
    author: Arc<str>,
    /// The number of the store.
    store: usize,
    /// The key of the object, or empty for several objects, of which the store must have applied
    /// the version.
    pub(super) object: Arc<str>,
    pub(super) uid: Arc<str>,
    /// The version, or `None` for a deletion without one.
    pub(super) version: Option<ResourceVersion>,
    /// Whether the object was removed.
    pub(super) is_gone: bool,
    /// Whether the store had the object, in any version, since the first write.
    pub(super) was_stored: bool,
    /// The history of the store to which the version belongs: the one at the time of the answer, or
    /// the next one if the answer shows a restore that the store has not noticed.
    pub(super) history: u64,
    at: Instant,
}

impl Note {
    /// Returns whether this is the note of the same author for the same object in the same store.
    fn is_of(&self, other: &Self) -> bool {
        let is_same_object = self.store == other.store && self.object == other.object;
        is_same_object && self.author == other.author
    }

    /// Returns whether this is the same write.
    fn is_same(&self, other: &Self) -> bool {
        let is_same_write = self.uid == other.uid && self.version == other.version;
        let is_same_state = self.is_gone == other.is_gone && self.history == other.history;
        self.is_of(other) && is_same_write && is_same_state
    }

    /// Adds a later write of the same object. Keeps the greater version: if the object was created
    /// and then removed, the store must have the creation before its absence means anything. A
    /// version of an earlier history is dropped, because a restore has made it meaningless.
    fn merge(&mut self, later: Self) {
        let Self { version, was_stored, history, .. } = mem::replace(self, later);
        if self.history > history {
            return;
        }
        // If the earlier write has shown a restore, then the later one is of that history, too.
        self.history = history;
        self.was_stored |= was_stored;
        self.version = self.version.take().max(version);
    }
}

/// The unseen writes of a controller's reconciles.
pub(crate) struct OwnWrites {
    stores: Vec<Arc<dyn ObservedStore>>,
    notes: Mutex<Notes>,
}

struct Notes {
    /// The notes by the key of the main object. No list is empty.
    by_key: HashMap<Arc<str>, Vec<Note>>,
    /// The number of notes that are added before all notes are checked.
    sweep_after: usize,
}

impl OwnWrites {
    pub(crate) fn new(stores: ObservedStores) -> Arc<Self> {
        let notes = Notes { by_key: HashMap::new(), sweep_after: SWEEP_AFTER };
        Arc::new(Self { stores: stores.0, notes: Mutex::new(notes) })
    }

    /// Returns the present state of each store that may show a write of this target, and `None` for
    /// the other stores.
    pub(super) fn before(&self, target: &Target<'_>) -> Vec<Option<Before>> {
        let state = |store: &Arc<dyn ObservedStore>| store.observes(target).then(|| store.before());
        self.stores.iter().map(state).collect()
    }

    /// Notes a write for the main object with this key and uid, in each store that may show it.
    /// `before` has the states of the stores before the request was sent. O(stores), and after many
    /// notes O(notes).
    pub(super) fn note(
        &self,
        key: &Arc<str>,
        author: &Arc<str>,
        target: &Target<'_>,
        before: &[Option<Before>],
        written: &Written,
    ) {
        let target = Target { namespace: &written.namespace, ..*target };
        let object = Arc::<str>::from(object_key(Some(&written.namespace), &written.name));
        let uid = Arc::<str>::from(&*written.uid);
        for (number, (store, before)) in self.stores.iter().zip(before).enumerate() {
            if !store.observes(&target) {
                continue;
            }
            let history = store.history();
            let is_restored =
                before.as_ref().is_some_and(|before| before.is_outdated(history, written));
            let mut note = Note {
                author: Arc::clone(author),
                store: number,
                object: Arc::clone(&object),
                uid: Arc::clone(&uid),
                version: written.version.clone(),
                is_gone: written.is_gone,
                was_stored: false,
                history: history + u64::from(is_restored),
                at: Instant::now(),
            };
            let is_shown = store.shows(&mut note);
            self.add(key, note, is_shown);
        }
    }

    fn add(&self, key: &Arc<str>, note: Note, is_shown: bool) {
        let mut notes = self.notes.lock();
        if let Some(of_key) = notes.by_key.get_mut(key)
            && let Some(earlier) = of_key.iter_mut().find(|earlier| earlier.is_of(&note))
        {
            if earlier.uid == note.uid {
                earlier.merge(note);
            } else {
                // The object was removed and created again.
                *earlier = note;
            }
            return;
        }
        if is_shown {
            return;
        }
        let of_key = notes.by_key.entry(Arc::clone(key)).or_default();
        if of_key.len() < MOST_OBJECTS {
            of_key.push(note);
        } else {
            add_to_several(of_key, note);
        }
        notes.sweep_after = notes.sweep_after.saturating_sub(1);
        let is_due = notes.sweep_after == 0;
        drop(notes);
        if is_due {
            self.sweep();
        }
    }

    /// Forgets all notes that the stores show.
    fn sweep(&self) {
        let keys: Vec<_> = self.notes.lock().by_key.keys().cloned().collect();
        for key in keys {
            self.first_unseen(&key);
        }
        let mut notes = self.notes.lock();
        let left = notes.by_key.values().map(Vec::len).sum();
        notes.sweep_after = SWEEP_AFTER.max(left);
    }

    /// Returns whether the stores show all writes that are noted for this key. O(notes of the key).
    pub(crate) fn are_seen(&self, key: &Arc<str>) -> bool {
        self.first_unseen(key).is_none()
    }

    /// Forgets the notes of this key that the stores show, and those that are too old. Returns the
    /// first of the others.
    fn first_unseen(&self, key: &Arc<str>) -> Option<Note> {
        let mut checked = self.notes.lock().by_key.get(key)?.clone();
        // The stores are read with no lock held, because a read may free an object of the user.
        let seen: Vec<_> = checked.iter_mut().map(|note| self.is_over(key, note)).collect();
        self.update(key, |of_key| {
            for (note, is_seen) in checked.iter().zip(seen) {
                let place = of_key.iter().position(|kept| kept.is_same(note));
                match place {
                    Some(place) if is_seen => drop(of_key.remove(place)),
                    Some(place) => of_key[place].was_stored |= note.was_stored,
                    // A later write has been merged with it.
                    None => {}
                }
            }
        })
    }

    /// Returns whether a note is to be forgotten.
    fn is_over(&self, key: &str, note: &mut Note) -> bool {
        let store = &self.stores[note.store];
        if store.shows(note) {
            return true;
        }
        let is_old = note.at.elapsed() > LONGEST_KEPT;
        if is_old {
            let (informer, written) = (store.title(), &*note.object);
            tracing::warn!(
                object = key,
                written,
                informer,
                "own write is still not in the store; it is forgotten, so the object may be reconciled with an older state of what it wrote"
            );
        }
        is_old
    }

    /// Changes the notes of a key. Returns the first note.
    fn update(&self, key: &Arc<str>, change: impl FnOnce(&mut Vec<Note>)) -> Option<Note> {
        let mut notes = self.notes.lock();
        let of_key = notes.by_key.get_mut(key)?;
        change(of_key);
        let first = of_key.first().cloned();
        if first.is_none() {
            notes.by_key.remove(key);
        }
        first
    }

    /// Waits until the stores show all writes that are noted for this key, and forgets them.
    ///
    /// # Errors
    /// [`NotSeen`] after 10 seconds. The notes are kept.
    pub(crate) async fn seen(&self, key: &Arc<str>) -> Result<(), NotSeen> {
        let began = Instant::now();
        while let Some(note) = self.first_unseen(key) {
            let store = &self.stores[note.store];
            let seen = Arc::clone(store).wait(note.clone());
            if timeout_at(began + LONGEST_WAIT, seen).await.is_err() {
                let is_one = !note.object.is_empty();
                return Err(NotSeen {
                    informer: store.title().to_owned(),
                    object: if is_one { &*note.object } else { "several objects" }.to_owned(),
                    version: note.version.map(|version| version.to_string()),
                    waited: began.elapsed(),
                });
            }
            self.update(key, |of_key| of_key.retain(|kept| !kept.is_same(&note)));
        }
        Ok(())
    }

    /// Forgets the notes of this key, except those of the main object with this uid. Returns
    /// whether there are any of it.
    pub(crate) fn keep_of(&self, key: &Arc<str>, uid: Option<&str>) -> bool {
        self.update(key, |of_key| of_key.retain(|note| Some(&*note.author) == uid)).is_some()
    }
}

/// Adds a note to the note of several objects in the same store. A removal without a version cannot
/// be added, and is not waited for.
fn add_to_several(of_key: &mut Vec<Note>, note: Note) {
    if note.version.is_none() {
        return;
    }
    let note =
        Note { object: "".into(), uid: "".into(), is_gone: false, was_stored: false, ..note };
    match of_key.iter_mut().find(|earlier| earlier.is_of(&note)) {
        Some(several) => several.merge(note),
        None => of_key.push(note),
    }
}

#[cfg(test)]
mod tests;
