//! Relists: begin, offer pages as they come, commit (deletions happen here) or abandon (nothing is deleted).
//!
//! What a relist lists is stamped with its generation; while it is open adds and updates stamp too. At commit, what holds an older stamp is deleted. One relist is current: a later begin supersedes.

use std::ops::Deref;

use crossbeam::utils::CachePadded;

use super::{DeltaFifo, Known};
use crate::engine::ready_queue::Lane;
use crate::engine::release::OneByOne;
use crate::engine::shard::Shard;
use crate::engine::slot::Version;
use crate::engine::slot::{Pending, Pushed, Rule, RunningSlot, Slot, State, Ticket, What};
use crate::engine::sync::{Arc, AtomicU32, GROUP, Mutex, Ordering, RwLock, assert_none_held, mutant};
use crate::error::{OfferError, RelistError, StoreError};
use crate::version::ResourceVersion;
use crate::{DeltaObject, DeltaType, Meta};

use super::applied::Hold;
use super::join::{Join, on_threads};
use super::news::News;
use super::offer::Missing;

/// A server says how many objects are to come: beyond this it is not believed, and the table grows as they do.
const MOST_EXPECTED: usize = 1 << 22;
/// That of a relist for which no generation was left. No relist that is open has it, and no stamp is older.
const NO_GENERATION: u32 = 0;

/// Which relist is current.
pub(super) struct Relists {
    /// The current relist's generation while it is open, else 0. Changed under `last`.
    open: AtomicU32,
    last: Mutex<Last>,
}

struct Last {
    /// The last one given out.
    generation: u32,
    /// Of the last commit.
    version: Option<String>,
}

impl Relists {
    pub(super) fn new() -> Self {
        Self { open: AtomicU32::new(0), last: Mutex::new(Last { generation: 0, version: None }) }
    }

    /// The generation to stamp with, 0 when no relist is open. Read with the shard's lock held.
    pub(super) fn open(&self) -> u32 {
        // Acquire, paired with `begin`. An offer that still sees the state before a begin comes before that relist.
        self.open.load(Ordering::Acquire)
    }

    /// Begins a relist; `claim` belongs to that step. Its generation, and what `claim` said. `wait` waits for what the shards'
    /// holders push; in between no relist is current, so that nothing that an older one still pushes comes after an offer that
    /// counts as listed by this one. None: no generation is left, and nothing has begun.
    fn begin<R>(&self, claim: impl FnOnce() -> R, wait: impl FnOnce()) -> Option<(u32, R)> {
        let mut last = self.last.lock();
        last.generation = last.generation.checked_add(1)?;
        if self.open() != 0 {
            let meanwhile = mutant!(BegunBeforeItWaits => last.generation; 0);
            // Release, paired with `open`, here and below.
            self.open.store(meanwhile, Ordering::Release);
            wait();
        }
        self.open.store(last.generation, Ordering::Release);
        // After that: an offer that finds the population claimed must count as listed.
        Some((last.generation, claim()))
    }

    /// Ends a relist if it is still the current one; `step`, which may change the version, belongs to that.
    fn end<R>(&self, generation: u32, step: impl FnOnce(&mut Option<String>) -> R) -> Option<R> {
        let mut last = self.last.lock();
        if last.generation != generation {
            return None;
        }
        // Release, paired with `open`.
        self.open.store(0, Ordering::Release);
        Some(step(&mut last.version))
    }

    /// Asked with a shard's lock held: what is then pushed under that lock comes before the newer relist's first object, if
    /// one begins meanwhile (see `begin_replace`).
    pub(super) fn is_current(&self, generation: u32) -> bool {
        self.open() == generation
    }
}

/// What the sweep of some shards came to.
struct Swept<T> {
    deleted: usize,
    /// Counted, and not deleted: the key was neither pending nor known.
    skipped: usize,
    /// To be queued.
    queued: Vec<Ticket<T>>,
}

/// What a committed relist did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Keys that were known or pending, and not listed: a deletion was queued for each.
    pub deleted: usize,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Queues `Replaced` for every object of `list`, in order, and a deletion for every other key that is known or pending
    /// (client-go `Replace`): a relist of one page, with the [commit](Relist::commit) that belongs to it. Pops proceed
    /// meanwhile. O(list + known).
    ///
    /// # Errors
    /// [`RelistError::Refused`]: what stood before the refused object is queued, nothing is deleted, and the queue is as
    /// populated as before. [`RelistError::Superseded`]: another relist began meanwhile. [`RelistError::Exhausted`]:
    /// nothing was done.
    pub fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<Committed, RelistError> {
        let mut list = OneByOne(list);
        let mut relist = self.begin_replace();
        relist.check_current()?;
        if self.is_of_another_history(version) {
            relist.ignore_versions();
        }
        relist.expect(list.len());
        self.join(&relist.join(true), list.take())?;
        relist.commit(version)
    }

    /// Begins a relist in pieces; it supersedes one that is still open. The first relist of a queue that nothing has
    /// populated claims the initial population. A queue can begin 2^32 - 1 relists in its life: of any later one each
    /// call fails with [`RelistError::Exhausted`], and the queue stays as it is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{DeltaFifo, Indexer, KeyFunc, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
    /// let fifo = DeltaFifo::over(Indexer::builder(keys).build()?).build();
    /// let mut relist = fifo.begin_replace();
    /// relist.offer(vec![Arc::new("a".to_owned())])?;
    /// assert_eq!(fifo.try_pop().unwrap().key(), "a"); // no page waits for the last one
    /// relist.offer(vec![Arc::new("b".to_owned())])?;
    /// relist.commit("42")?;
    /// assert_eq!(fifo.resource_version().as_deref(), Some("42"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_replace(&self) -> Relist<'_, T, M> {
        let (generation, marks) = self.begin_relist().unwrap_or((NO_GENERATION, false));
        Relist { fifo: Owner::Borrowed(self), generation, marks, choices: Choices::default(), over: false }
    }

    /// The same, and the relist keeps the queue alive: for one that goes from thread to thread.
    pub fn begin_replace_owned(this: &Arc<Self>) -> Relist<'static, T, M> {
        let (generation, marks) = this.begin_relist().unwrap_or((NO_GENERATION, false));
        Relist { fifo: Owner::Shared(Arc::clone(this)), generation, marks, choices: Choices::default(), over: false }
    }

    /// Begins a relist: its generation, and whether its deltas are of the initial population. None: none is left.
    fn begin_relist(&self) -> Option<(u32, bool)> {
        self.relists.begin(
            || self.initial.claim(),
            || {
                mutant!(BeginPassesNoLock => return);
                // Through every shard's lock once: an older relist looks, with the lock held, whether it is current.
                self.core.table.shards().iter().for_each(|shard| drop(shard.write()));
            },
        )
    }

    /// Whether a list comes at a lower version than the last one, as after a restore of etcd. Version 0 names no state.
    fn is_of_another_history(&self, version: &str) -> bool {
        let (last, version) = (self.resource_version(), ResourceVersion::parse(version));
        let last = last.and_then(|last| ResourceVersion::parse(&last));
        version.is_some_and(|version| !version.is_zero() && last.is_some_and(|last| version < last))
    }

    /// The resource version of the last committed relist.
    #[must_use]
    pub fn resource_version(&self) -> Option<String> {
        self.relists.last.lock().version.clone()
    }

    /// Queues `Added` for each object, as [`add`](Self::add) does, in one pass that brings their slots near ahead.
    /// Across keys the order is the batch's, but not against other offers made meanwhile.
    ///
    /// # Errors
    /// [`RelistError::Refused`]: those before the refused object are queued.
    pub fn add_batch(&self, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        self.offer_batch(DeltaType::Added, objects)
    }

    /// Queues `Updated` for each object: see [`add_batch`](Self::add_batch).
    ///
    /// # Errors
    /// As for [`add_batch`](Self::add_batch).
    pub fn update_batch(&self, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        self.offer_batch(DeltaType::Updated, objects)
    }

    fn offer_batch(&self, kind: DeltaType, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        if objects.is_empty() {
            return Ok(());
        }
        self.initial.touch();
        let join = Join { kind, generation: 0, marks: false, skip_unchanged: false, stops_at_refused: true };
        self.join(&join, objects).map(drop)
    }
}

/// An object that a relist could not take; the rest of its page is queued.
#[derive(Debug, thiserror::Error)]
#[error("object {index} of the page was refused, the others are queued: {source}")]
pub struct Refused {
    /// Its place in the page, from 0.
    pub index: usize,
    /// Why; says key and version where there are any.
    pub source: OfferError,
}

/// A relist's queue.
enum Owner<'f, T, M> {
    Borrowed(&'f DeltaFifo<T, M>),
    Shared(Arc<DeltaFifo<T, M>>),
}

impl<T, M> Deref for Owner<'_, T, M> {
    type Target = DeltaFifo<T, M>;

    fn deref(&self) -> &DeltaFifo<T, M> {
        match self {
            Self::Borrowed(fifo) => fifo,
            Self::Shared(fifo) => fifo,
        }
    }
}

/// What the caller knows of a list.
#[derive(Default)]
struct Choices {
    /// Whether nothing is deleted by it.
    keeps_unlisted: bool,
    /// Whether an object of an equal version counts as changed, too.
    ignores_versions: bool,
}

/// A relist in progress; made by [`DeltaFifo::begin_replace`]. Dropped, it is abandoned.
#[must_use = "a dropped relist is abandoned: offer its pages and commit it"]
pub struct Relist<'f, T: Send + Sync, M: Meta<T>> {
    fifo: Owner<'f, T, M>,
    generation: u32,
    /// Whether its deltas are of the initial population.
    marks: bool,
    choices: Choices,
    over: bool,
}

impl<T: Send + Sync, M: Meta<T>> Relist<'_, T, M> {
    fn check_current(&self) -> Result<(), RelistError> {
        match self.generation {
            NO_GENERATION => Err(RelistError::Exhausted),
            generation if self.fifo.relists.is_current(generation) => Ok(()),
            _ => Err(RelistError::Superseded),
        }
    }

    /// Makes room for about `objects` keys in all (a LIST's `remainingItemCount` tells). A hint.
    pub fn expect(&mut self, objects: usize) {
        self.fifo.core.table.reserve(objects.min(MOST_EXPECTED));
    }

    fn join(&self, stops_at_refused: bool) -> Join {
        let fifo = &*self.fifo;
        let skips = fifo.skip_unchanged && !fifo.notify_unchanged && !self.choices.ignores_versions;
        let skip_unchanged = skips && matches!(fifo.known, Known::Fused);
        Join {
            kind: fifo.replaced_as,
            generation: self.generation,
            marks: self.marks,
            skip_unchanged,
            stops_at_refused,
        }
    }

    /// Queues a page, in order; consumers get it at once. O(page).
    ///
    /// Objects that are refused come back with the reason, and the rest goes on. What the transformer refused is
    /// [kept](Self::keep): not deleted by this relist, the last good object stays. What has no key cannot be: if it is known
    /// under one, from when it had it, the commit deletes it, unless the caller knows that key and keeps it, or gives the
    /// relist up.
    ///
    /// # Errors
    /// [`RelistError::Superseded`]: what stood before is queued, nothing more is.
    pub fn offer(&mut self, page: Vec<Arc<T>>) -> Result<Vec<Refused>, RelistError> {
        let mut page = OneByOne(page);
        self.check_current()?;
        self.fifo.join(&self.join(false), page.take())
    }

    /// Returns for each (key, version) whether its object is needed, and counts every key as listed. An object is not
    /// needed if it is known, idle and of an equal, non-empty version; a queue with
    /// [`notify_unchanged`](crate::DeltaFifoBuilder::notify_unchanged) needs them all. [Offer](Self::offer) those that
    /// are needed, or [keep](Self::keep) them if they cannot be had. So a relist need only decode what changed. O(keys).
    ///
    /// The version compared is the stored one. Once a transformer has changed a version, everything is needed.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    pub fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        self.check_current()?;
        let mut needed = Vec::with_capacity(listed.len());
        for group in listed.chunks(GROUP) {
            self.probe_group(group, &mut needed);
        }
        self.check_current()?;
        Ok(needed)
    }

    fn probe_group(&self, group: &[(&str, &str)], needed: &mut Vec<bool>) {
        let fifo = &*self.fifo;
        let table = &fifo.core.table;
        let hashes: Vec<u64> = group.iter().map(|(key, _)| table.hash(key.as_bytes())).collect();
        for &hash in &hashes {
            table.shard(hash).read().prefetch_bucket(hash);
        }
        for (&hash, (key, version)) in hashes.iter().zip(group) {
            let version = Version::of(version.as_bytes());
            fifo.list_key(self.generation, hash, key.as_bytes());
            let is_unchanged = || {
                let shard = table.shard(hash).read();
                let look = shard.find(hash, key.as_bytes()).map_or(Look::Needed, |slot| fifo.look(slot, version));
                drop(shard);
                fifo.is_unchanged(look, || version)
            };
            needed.push(fifo.notify_unchanged || self.choices.ignores_versions || !is_unchanged());
        }
    }

    /// Counts `key` as listed although its object cannot be had: it is not deleted, and the last good object stays.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    pub fn keep(&mut self, key: &str) -> Result<(), RelistError> {
        self.check_current()?;
        self.fifo.list_key(self.generation, self.fifo.core.table.hash(key.as_bytes()), key.as_bytes());
        Ok(())
    }

    /// Makes the relist take every object, also one of the version that is stored: the API server was restored from
    /// a backup, and equal versions no longer mean equal objects. [`DeltaFifo::replace`] does so by itself for a list
    /// at a lower version than the last one.
    pub fn ignore_versions(&mut self) {
        self.choices.ignores_versions = true;
    }

    /// Makes the commit delete nothing: an object is listed whose key cannot be had, so any key that is not listed may be its own.
    pub fn keep_unlisted(&mut self) {
        self.choices.keeps_unlisted = true;
    }

    /// Queues `Deleted` as [`DeltaFifo::delete`] does: a list that is streamed can say that something is gone again. It is of
    /// this relist: it does not make the queue populated, and a first one is synced when its handler has ended, too. O(1).
    ///
    /// What the transformer refuses is deleted all the same: by a [`DeletedFinalStateUnknown`] with the newest object that is
    /// pending or known.
    ///
    /// # Errors
    /// [`StoreError::Relist`]: a newer relist has begun, which may list the object; nothing was queued.
    /// [`StoreError::Refused`]: what the transformer said; the deletion is queued. [`StoreError::Key`]: nothing was queued.
    ///
    /// [`DeletedFinalStateUnknown`]: crate::DeletedFinalStateUnknown
    pub fn delete(&mut self, object: impl Into<DeltaObject<T>>) -> Result<(), StoreError> {
        self.check_current()?;
        let marks = mutant!(DeletionsAreNotMarked => false; self.marks);
        self.fifo.delete_in(self.generation, marks, object.into())
    }

    /// Ends the relist: queues a deletion for every key that is known or pending and was not listed, nor written since
    /// the begin, unless [all are kept](Self::keep_unlisted). In a queue that [tracks what is applied](crate::DeltaFifoBuilder::track_applied) it is a
    /// [`bookmark`](DeltaFifo::bookmark), too, if `version` is a decimal number; of any other version nobody can be told
    /// that it is applied. Unlike a bookmark, it takes back a greater [applied version](DeltaFifo::applied_version).
    /// O(known).
    ///
    /// # Errors
    /// [`RelistError::Superseded`]: nothing is deleted, or nothing more when the newer relist began meanwhile.
    pub fn commit(mut self, version: &str) -> Result<Committed, RelistError> {
        self.check_current()?;
        let fifo = &*self.fifo;
        let mut deleted = 0;
        if !self.choices.keeps_unlisted {
            deleted += fifo.sweep(self.generation, self.marks);
            deleted += fifo.sweep_elsewhere(self.generation, self.marks);
        }
        // Not before: should the store elsewhere panic, the relist is abandoned.
        self.over = true;
        mutant!(CommitIsMarkedFirst => fifo.committed(fifo.mark_commit(version)));
        let mut complete = None;
        self.end(|last| {
            *last = Some(version.to_owned());
            // Within the step, so that markers come in the order of the commits: of two, the later one's version is the
            // truth, also when it is the lower.
            mutant!(CommitMarksLate => return fifo.initial.commit());
            complete = fifo.mark_commit(version);
            fifo.initial.commit()
        })?;
        mutant!(CommitMarksLate => complete = fifo.mark_commit(version));
        fifo.committed(complete);
        Ok(Committed { deleted })
    }

    /// Ends it, if it is still the current one. `step` belongs to that, and says whether the queue is synced by it.
    fn end(&self, step: impl FnOnce(&mut Option<String>) -> bool) -> Result<(), RelistError> {
        let synced = self.fifo.relists.end(self.generation, step);
        self.fifo.forget_listed(self.generation);
        if synced.ok_or(RelistError::Superseded)? {
            mutant!(AbandonTellsNobody => return Ok(()));
            self.fifo.initial.announce();
        }
        Ok(())
    }

    /// Gives the relist up: what was offered stays queued, nothing is deleted, and a first relist leaves the queue as
    /// unpopulated as it was. The same as a drop.
    pub fn abandon(self) {}
}

impl<T: Send + Sync, M: Meta<T>> Drop for Relist<'_, T, M> {
    fn drop(&mut self) {
        if !self.over {
            // Superseded: then there is nothing to end.
            let _ = self.end(|_| self.fifo.initial.abandon());
        }
    }
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Deletes what an older stamp says was not listed, on as many threads as a relist may use.
    fn sweep(&self, generation: u32, marks: bool) -> usize {
        let shards = self.core.table.shards();
        let parts = shards.chunks(shards.len().div_ceil(self.relist_threads)).collect();
        let held = self.hold();
        let swept = on_threads(parts, |shards| self.sweep_shards(shards, generation, marks));
        let deleted = swept.iter().map(|swept| swept.deleted).sum();
        let skipped = swept.iter().map(|swept| swept.skipped).sum();
        let queued: Vec<_> = swept.into_iter().flat_map(|swept| swept.queued).collect();
        let queued = self.push_walk(queued, held.as_ref().map(Hold::epoch));
        self.tell(&News { queued, ..self.uncounted(skipped, marks) });
        deleted
    }

    /// Deletes in some of the shards.
    fn sweep_shards(&self, shards: &[CachePadded<RwLock<Shard<T>>>], generation: u32, marks: bool) -> Swept<T> {
        let mut swept = Swept { deleted: 0, skipped: 0, queued: Vec::new() };
        for shard in shards {
            // Looked for with the lock shared, which keeps nobody waiting: stamps only grow, and a slot that is made after
            // the look comes after the sweep.
            let unlisted: Vec<String> = {
                let shard = shard.read();
                let unlisted = shard.slots_near().filter(|slot| slot.stamped() < generation);
                unlisted.map(|slot| slot.key().to_owned()).collect()
            };
            // A reader of this shard waits for a few of them at most.
            for group in unlisted.chunks(GROUP) {
                let shard = shard.write();
                if !mutant!(SweepNeverLooks => true; self.relists.is_current(generation)) {
                    return swept;
                }
                for key in group {
                    self.sweep_slot(&shard, key, generation, marks, &mut swept);
                }
            }
        }
        swept
    }

    fn sweep_slot(&self, shard: &Shard<T>, key: &str, generation: u32, marks: bool, swept: &mut Swept<T>) {
        let hash = self.core.table.hash(key.as_bytes());
        let Some(slot) = shard.find(hash, key.as_bytes()) else { return };
        if mutant!(SweepDecidesByItsLook => false; slot.stamped() >= generation) {
            return;
        }
        // Counted before the push: see `join_group`.
        self.counted(1, marks);
        let pending = Pending::new(What::Swept(None)).initial(marks).since(self.queue.now());
        let pushed = slot.push(pending, Rule::IfExists);
        if matches!(pushed, Pushed::Skipped(_)) {
            swept.skipped += 1;
            return;
        }
        swept.queued.extend(self.queue.ticket(Lane::Backlog, slot, pushed));
        slot.stamp(generation);
        // Else a store elsewhere that still knows the key would have it deleted once more.
        self.list_elsewhere(generation, slot.key().as_bytes());
        swept.deleted += 1;
    }

    /// Deletes what a store elsewhere knows and the relist did not list, after the sweep of the table. A key that the store
    /// no longer knows when it is asked has been deleted meanwhile.
    fn sweep_elsewhere(&self, generation: u32, marks: bool) -> usize {
        let Known::Elsewhere { objects, .. } = &self.known else { return 0 };
        let mut deleted = 0;
        let table = &self.core.table;
        assert_none_held();
        for key in objects.list_keys() {
            let hash = table.hash(key.as_bytes());
            mutant!(SweepLooksUnlocked => {
                if !self.is_listed_elsewhere(generation, key.as_bytes()) {
                    self.push(key.as_bytes(), Pending::new(What::Swept(None)), Rule::IfExists, Missing::Ask);
                }
                continue;
            });
            let shard = table.shard(hash).write();
            // While this lock is held that stays so: a newer relist's begin passes it before a key takes the place of what
            // this one listed.
            if !self.relists.is_current(generation) {
                break;
            }
            if self.is_listed_elsewhere(generation, key.as_bytes()) {
                continue;
            }
            self.initial.marked(usize::from(marks));
            let pending = Pending::new(What::Swept(None)).initial(marks);
            deleted +=
                usize::from(self.push_or_insert(shard, hash, key.as_bytes(), pending, Rule::IfExists, Missing::Ask));
        }
        deleted
    }

    /// Counts `key` as listed by a relist.
    pub(super) fn list_key(&self, generation: u32, hash: u64, key: &[u8]) {
        self.list_elsewhere(generation, key);
        if let Some(slot) = self.core.table.shard(hash).read().find(hash, key) {
            slot.stamp(generation);
        }
    }

    /// A relist is over.
    fn forget_listed(&self, generation: u32) {
        if let Known::Elsewhere { listed, .. } = &self.known {
            listed.clear(generation);
        }
    }

    /// `deltas` are about to be pushed by a relist.
    pub(super) fn counted(&self, deltas: usize, marks: bool) {
        if deltas > 0 {
            self.depth.add(deltas);
            self.initial.marked(if marks { deltas } else { 0 });
        }
    }

    /// `deltas` of those counted were not pushed after all.
    pub(super) fn uncounted(&self, deltas: usize, marks: bool) -> News {
        let room = self.depth.subtract(deltas);
        News { queued: 0, room, synced: self.initial.settled(if marks { deltas } else { 0 }) }
    }

    /// A look, with the shard's lock held, at a slot whose object was listed with `version`.
    pub(super) fn look(&self, slot: &Slot<T>, version: Version<'_>) -> Look<T> {
        mutant!(SkipIgnoresTheHandler => return slot.known().map_or(Look::Needed, Look::Idle));
        mutant!(KnownReadBeforeTheWord => {
            let known = slot.known().map_or(Look::Needed, Look::Idle);
            return if slot.state() == State::Idle { known } else { Look::Needed };
        });
        mutant!(NoteReadBeforeTheWord => if slot.is_noted(version.number()) {
            return if slot.state() == State::Idle { Look::Noted } else { Look::Needed };
        });
        // The word first: what is known, or noted, while it says idle, or after, is at least as new.
        if !matches!(self.known, Known::Fused) || slot.state() != State::Idle {
            return Look::Needed;
        }
        if slot.is_noted(version.number()) {
            return Look::Noted;
        }
        slot.known().map_or(Look::Needed, Look::Idle)
    }

    /// Whether the object of that look is of `version`, as received, which is only asked for when the look does not say. Called
    /// with no lock held: the accessor is user code.
    pub(super) fn is_unchanged<'v>(&self, look: Look<T>, version: impl FnOnce() -> Version<'v>) -> bool {
        !self.transform.alters_versions()
            && match look {
                Look::Noted => true,
                Look::Idle(known) => {
                    let version = version();
                    !version.is_empty()
                        && self
                            .core
                            .keys
                            .meta()
                            .version(&known)
                            .is_some_and(|known| Version::of(known.as_bytes()) == version)
                }
                Look::Needed => false,
            }
    }

    /// Notes in the slot the version of what it knows, so that a relist need not look at the object.
    #[inline(never)] // Only queues that skip what is unchanged need it.
    pub(super) fn note_version(&self, running: &mut RunningSlot<T>) {
        let number = |known: &T| {
            self.core.keys.meta().version(known).map_or(0, |version| Version::of(version.as_bytes()).number())
        };
        let number = running.known_ref().map_or(0, |known| number(&known));
        running.note_version(number);
    }
}

/// What a relist that skips what is unchanged finds under a key.
pub(super) enum Look<T> {
    /// An idle slot, which knows an object that is noted to be of that version.
    Noted,
    /// An idle slot, and what it knows.
    Idle(Arc<T>),
    /// Nothing that can be skipped.
    Needed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Indexer, KeyFunc, NoMeta};

    #[test]
    fn relist_without_a_generation_fails_and_leaves_the_queue_as_it_is() {
        let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
        let fifo = DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build();
        let name = |name: &str| Arc::new(name.to_owned());
        fifo.relists.last.lock().generation = u32::MAX - 1;
        let mut last = fifo.begin_replace();
        let mut exhausted = fifo.begin_replace();
        let is_exhausted = |error: Option<RelistError>| matches!(error, Some(RelistError::Exhausted));
        assert!(is_exhausted(exhausted.offer(vec![name("b")]).err()));
        assert!(is_exhausted(exhausted.probe(&[("b", "1")]).err()));
        assert!(is_exhausted(exhausted.keep("b").err()));
        assert!(matches!(exhausted.delete(name("b")), Err(StoreError::Relist(RelistError::Exhausted))));
        assert!(is_exhausted(exhausted.commit("2").err()));
        assert!(is_exhausted(fifo.replace(vec![name("b")], "2").err()));
        last.offer(vec![name("a")]).unwrap();
        last.commit("1").unwrap();
        assert_eq!((fifo.list_keys(), fifo.resource_version().as_deref()), (vec!["a".to_owned()], Some("1")));
        assert!(is_exhausted(fifo.replace(vec![], "2").err()));
        fifo.update(name("a")).unwrap();
        assert_eq!(fifo.pop().unwrap().deltas().len(), 2, "offers and pops go on");
    }
}
