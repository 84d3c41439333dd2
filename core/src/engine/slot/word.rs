//! The state word of a slot: the states that the module `slot` documents, in one atomic pointer,
//! and the transitions between them.
//!
//! Almost every key has at most one pending delta. Such a delta is stored in the word itself: the
//! pointer of its object, whose three low bits are free and hold the delta's type. A second delta
//! turns the word into a linked list. Two kinds of deltas need a list node from the start: those
//! whose object pointer has a low bit set (std does not guarantee otherwise), and those that are
//! more than a type and an object.
//!
//! | low bits | the rest |
//! | --- | --- |
//! | 0 | a sentinel: `EMPTY`, `RUNNING`, `PEEK`, `GONE` |
//! | 1 to 5 | an `Arc<T>` and its type (5: Replaced, of the initial population) |
//! | 6 | a node; the list ends in an idle slot |
//! | 7 | a node; the list ends in `RUNNING` |
//!
//! So a pusher sees from the word alone whether a handler runs, without following the list.
//!
//! # Orderings
//!
//! Every transition is `AcqRel`: Release publishes what the transition leaves (deltas, or what
//! the handler wrote to the slot), Acquire receives what the previous transition left. All
//! transitions are read-modify-writes of one atomic, so each continues the release sequences of
//! those before it.

use std::marker::PhantomData;
use std::ptr;

use super::Shared;
use super::pending::{Content, Pending, Rule};
use crate::DeltaType;
use crate::engine::release::release;
use crate::engine::sync::{self, Arc, Ordering, WordCell, mutant};

type Raw = *mut ();

const TAG: usize = 0b111;
const ADDED: usize = 1;
const UPDATED: usize = 2;
const DELETED: usize = 3;
const REPLACED: usize = 4;
const REPLACED_INITIAL: usize = 5;
const LIST: usize = 6;
const OVER: usize = 7;

const EMPTY: Raw = ptr::null_mut();
const RUNNING: Raw = ptr::without_provenance_mut(8);
const PEEK: Raw = ptr::without_provenance_mut(16);
const GONE: Raw = ptr::without_provenance_mut(24);

#[cfg(not(target_pointer_width = "64"))]
compile_error!("deltafifo keeps a delta's type in the low bits of a 64-bit pointer");

struct Node<T> {
    /// The address of the rest of the list: see [`link`].
    next: usize,
    pending: Pending<T>,
}

/// The state that a word encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing is pending and no handler runs.
    Idle,
    /// Deltas are pending, and the slot is queued.
    Pending,
    /// A handler runs. More deltas may have arrived.
    Running,
    /// The slot is retired.
    Gone,
}

/// The outcome of a push.
#[must_use]
pub(super) enum Push<T> {
    /// The slot left EMPTY. The pusher queues it.
    Entered,
    /// The list grew. The slot is queued already, or its handler runs.
    Joined,
    /// The rule rejected the delta.
    Skipped(Pending<T>),
}

/// The result of a take.
pub(crate) enum TakenDeltas<T> {
    /// The one delta that was stored in the word.
    One {
        /// The type of the delta.
        kind: DeltaType,
        /// The object of the delta.
        object: Arc<T>,
        /// Whether the delta belongs to the initial population.
        initial: bool,
    },
    /// The deltas of any other list, oldest first.
    Many(Vec<Pending<T>>),
}

impl<T> TakenDeltas<T> {
    /// Drops all objects, even if the drop of one panics.
    pub(crate) fn release(self) {
        match self {
            Self::One { object, .. } => drop(object),
            Self::Many(list) => release(list),
        }
    }
}

fn tag(word: Raw) -> usize {
    word.addr() & TAG
}

fn untagged(word: Raw) -> Raw {
    word.map_addr(|address| address & !TAG)
}

fn state(word: Raw) -> State {
    match tag(word) {
        0 if word == EMPTY => State::Idle,
        0 if word == RUNNING => State::Running,
        0 if word == GONE => State::Gone,
        OVER => State::Running,
        // A list, or PEEK, which replaces a list while it is copied.
        _ => State::Pending,
    }
}

/// Returns the tag of a delta that can be stored in the word, or `None` if it needs a node.
fn inline_tag<T>(pending: &Pending<T>) -> Option<usize> {
    let Content::Object(kind, object) = &pending.content else { return None };
    if pending.undecided.is_some() || Arc::as_ptr(object).addr() & TAG != 0 {
        return None;
    }
    match (kind, pending.initial) {
        (DeltaType::Added, false) => Some(ADDED),
        (DeltaType::Updated, false) => Some(UPDATED),
        (DeltaType::Deleted, false) => Some(DELETED),
        (DeltaType::Replaced, false) => Some(REPLACED),
        (DeltaType::Replaced, true) => Some(REPLACED_INITIAL),
        _ => None,
    }
}

fn inline_kind(tag: usize) -> (DeltaType, bool) {
    match tag {
        ADDED => (DeltaType::Added, false),
        UPDATED => (DeltaType::Updated, false),
        DELETED => (DeltaType::Deleted, false),
        REPLACED => (DeltaType::Replaced, false),
        _ => (DeltaType::Replaced, true),
    }
}

/// Returns the word for `pending` on top of `next`.
///
/// A link stores only the address of the next one. Its provenance is exposed here, and the owner of
/// the list recovers it in [`follow`]. A pointer would be wrong: a pusher only guesses `next`.
/// Before the pusher's exchange, a consumer may take that list and free it, and a new list of this
/// slot may be allocated at the same address. The exchange compares addresses, so it succeeds, and
/// that is correct, because the new list is the one to extend. But the guessed pointer would have
/// the provenance of the freed list.
#[inline]
fn link<T>(pending: Pending<T>, next: Raw) -> Raw {
    if next == EMPTY
        && let Some(tag) = inline_tag(&pending)
    {
        let Content::Object(_, object) = pending.content else {
            unreachable!("inline_tag accepts objects only")
        };
        let object = Arc::into_raw(object).cast_mut().cast::<()>();
        object.expose_provenance();
        return object.map_addr(|address| address | tag);
    }
    const { assert!(align_of::<Node<T>>() > TAG, "a node's address has room for the tag") };
    const {
        assert!(
            sync::MODEL || size_of::<Node<T>>() == 32,
            "each delta of a long list takes one node"
        );
    };
    let over = next == RUNNING || tag(next) == OVER;
    let node = Box::into_raw(Box::new(Node { next: next.addr(), pending })).cast::<()>();
    node.expose_provenance();
    node.map_addr(|address| address | if over { OVER } else { LIST })
}

/// Returns the target of a link, with the provenance of the current allocation. Only the owner of
/// the list may call this.
fn follow(next: usize) -> Raw {
    ptr::with_exposed_provenance_mut(next)
}

/// Removes the newest delta of a list that the caller owns. Returns the delta and the rest of the
/// list.
///
/// # Safety
/// `word` is a list (not a sentinel) made by `link::<T>`, and the caller owns it: no other thread
/// will follow it.
unsafe fn unlink<T>(word: Raw) -> (Pending<T>, Raw) {
    match tag(word) {
        LIST | OVER => {
            // SAFETY: the tag says that `link` made this from `Box::into_raw`; the caller owns
            // it, so it is taken once.
            let node = unsafe { Box::from_raw(untagged(word).cast::<Node<T>>()) };
            (node.pending, follow(node.next))
        }
        inline => {
            let (kind, initial) = inline_kind(inline);
            // SAFETY: the tag says that `link` made this from `Arc::into_raw`; the caller owns
            // it, so it is taken once.
            let object = unsafe { Arc::from_raw(untagged(word).cast::<T>()) };
            (Pending::object(kind, object).initial(initial), EMPTY)
        }
    }
}

/// Converts a whole list that the caller owns to its deltas, oldest first.
///
/// # Safety
/// As for [`unlink`], for every link; or `word` is a sentinel, which is the empty list.
unsafe fn unlink_all<T>(mut word: Raw) -> Vec<Pending<T>> {
    let mut list = Vec::new();
    while tag(word) != 0 {
        // SAFETY: the caller's promise covers the rest of the list, too.
        let (pending, next) = unsafe { unlink(word) };
        list.push(pending);
        word = next;
    }
    list.reverse();
    list
}

pub(super) struct Word<T> {
    word: WordCell<()>,
    _deltas: PhantomData<Shared<T>>,
}

impl<T> Word<T> {
    pub(super) fn new() -> Self {
        Self { word: WordCell::new(EMPTY), _deltas: PhantomData }
    }

    pub(super) fn state(&self) -> State {
        // Acquire, paired with the Release of every transition: a thread that sees Idle sees what
        // the last handler wrote.
        state(self.word.load(Ordering::Acquire))
    }

    /// Returns whether the word is one delta of the initial population.
    pub(super) fn is_initial(&self) -> bool {
        // Relaxed: nothing is read through the word, and another thread may change it at once.
        tag(self.word.load(Ordering::Relaxed)) == REPLACED_INITIAL
    }

    /// Makes one transition. Returns `Ok` if the word was still `seen`. The returned pointer is
    /// the one that was in the word: it has the address of `seen`, and the current provenance,
    /// which `seen` may not have.
    fn change(&self, seen: Raw, new: Raw) -> Result<Raw, Raw> {
        // Acquire on failure, too, because the caller acts on the state just read: a push that
        // now finds the slot idle reads the known object, which the settle that made the slot
        // idle has released (tests/engine/races.rs, under Miri).
        self.word.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire)
    }

    // Every offer goes through it, and most under a rule that is a constant there.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub(super) fn push(
        &self,
        mut pending: Pending<T>,
        rule: Rule,
        known: impl Fn() -> bool,
    ) -> Push<T> {
        let (since, mut tries) = (pending.since, 0);
        // Acquire, paired with the Release of the last handler's settle: `known` below may read
        // what that handler left.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            if seen == PEEK {
                // The reader puts the list back within a few instructions.
                sync::spin(&mut tries);
                seen = self.word.load(Ordering::Acquire);
                continue;
            }
            // Decide by the state just read. The exchange below fails if it has changed.
            let enters = match (state(seen), rule) {
                (State::Idle, Rule::Always | Rule::IfAbsent) => true,
                (State::Idle, Rule::IfExists | Rule::IfIdle) if known() => true,
                (State::Idle, _) | (State::Pending, Rule::IfIdle | Rule::IfAbsent) => {
                    return Push::Skipped(pending);
                }
                (State::Pending, _) => false,
                (State::Running, _) => {
                    // The answer depends on what the handler leaves, so settle decides.
                    pending.undecided = (rule != Rule::Always).then_some(rule);
                    mutant!(RunningDecidesNothing => pending.undecided = None);
                    false
                }
                (State::Gone, _) => {
                    unreachable!("a slot is unlinked before the lock that retired it is released")
                }
            };
            let new = link(pending, seen);
            match self.change(seen, new) {
                Ok(_) if enters => return Push::Entered,
                Ok(_) => return Push::Joined,
                Err(now) => {
                    // Another thread has changed the word: take the delta back and decide again.
                    // SAFETY: `new` was made right above and never published; only its top is
                    // taken off.
                    (pending, _) = unsafe { unlink(new) };
                    pending.undecided = None;
                    pending.since = since;
                    seen = now;
                }
            }
        }
    }

    /// Takes the list of a queued slot. Transition: list → RUNNING.
    pub(super) fn take(&self) -> TakenDeltas<T> {
        let list = self.acquire_list(RUNNING, |word| {
            debug_assert_ne!(tag(word), 0, "a queued slot has pending deltas");
            tag(word) != 0
        });
        if tag(list) == LIST || tag(list) == OVER {
            // SAFETY: 1. Pushers made every link with `link::<T>`. 2. The exchange took the list
            // out of the word, so this thread owns it; pushers and peekers follow no list that is
            // not in the word.
            return TakenDeltas::Many(unsafe { unlink_all(list) });
        }
        let (kind, initial) = inline_kind(tag(list));
        // SAFETY: as above, for the one delta in the word.
        TakenDeltas::One {
            kind,
            object: unsafe { Arc::from_raw(untagged(list).cast::<T>()) },
            initial,
        }
    }

    /// Claims the slot if it is idle. Returns whether it was. Transition: EMPTY → RUNNING.
    pub(super) fn claim(&self) -> bool {
        self.change(EMPTY, RUNNING).is_ok()
    }

    /// Takes the deltas that were pushed while the handler ran, oldest first. Transition: RUNNING
    /// or a list over RUNNING → RUNNING.
    pub(super) fn take_over(&self) -> Vec<Pending<T>> {
        let list = self.acquire_list(RUNNING, |_| true);
        // SAFETY: as in `take`; RUNNING alone is the empty list.
        unsafe { unlink_all(list) }
    }

    /// Replaces the word by `new` and returns the previous one. Waits until no other thread peeks
    /// and `wanted` accepts the word.
    fn acquire_list(&self, new: Raw, wanted: impl Fn(Raw) -> bool) -> Raw {
        let mut tries = 0;
        // Relaxed: only a guess for the exchange.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen != PEEK && wanted(seen) {
                match self.change(seen, new) {
                    Ok(taken) => return taken,
                    Err(now) => seen = now,
                }
            } else {
                sync::spin(&mut tries);
                seen = self.word.load(Ordering::Relaxed);
            }
        }
    }

    /// Makes the slot idle. Returns false if a delta was pushed since the last take, and then
    /// changes nothing. Transition: RUNNING → EMPTY.
    pub(super) fn idle(&self) -> bool {
        mutant!(IdleIsStored => return self.word.swap(EMPTY, Ordering::AcqRel) != EMPTY);
        self.change(RUNNING, EMPTY).is_ok()
    }

    /// Puts deltas back. Returns them as the error if a delta was pushed since the last take.
    /// Transition: RUNNING → list.
    pub(super) fn requeue(&self, pending: Vec<Pending<T>>) -> Result<(), Vec<Pending<T>>> {
        let list = pending.into_iter().fold(EMPTY, |list, pending| link(pending, list));
        // SAFETY: the list was made right above and, since the change failed, never published.
        self.change(RUNNING, list).map(drop).map_err(|_| unsafe { unlink_all(list) })
    }

    /// Retires the slot. Returns false if a delta was pushed since the last take, and then changes
    /// nothing. Transition: RUNNING → GONE.
    pub(super) fn retire(&self) -> bool {
        self.change(RUNNING, GONE).is_ok()
    }

    /// Closes an idle or retired slot, after which no transition of this word succeeds. Returns
    /// false if the slot is neither, and then changes nothing. Transition: EMPTY or GONE → GONE.
    pub(super) fn close(&self) -> bool {
        self.change(EMPTY, GONE).is_ok() || self.word.load(Ordering::Acquire) == GONE
    }

    /// Copies the list and calls `during` while the word is PEEK. Returns the deltas, oldest first,
    /// and the result of `during`; or `None` if there is no list. Transition: list → PEEK → the
    /// same list.
    pub(super) fn peek<R>(&self, during: impl FnOnce() -> R) -> Option<(Vec<Pending<T>>, R)> {
        let sentinel = PEEK;
        mutant!(PeekIsATake => let sentinel = RUNNING);
        let mut tries = 0;
        let mut seen = self.word.load(Ordering::Relaxed);
        // Take the list out of the word, so that no thread frees or extends it during the copy.
        let list = loop {
            if seen == PEEK {
                sync::spin(&mut tries);
                seen = self.word.load(Ordering::Relaxed);
                continue;
            }
            if tag(seen) == 0 {
                return None;
            }
            match self.change(seen, sentinel) {
                Ok(list) => break list,
                Err(now) => seen = now,
            }
        };
        // Copy it from the newest delta to the oldest.
        let mut copies = Vec::new();
        let mut word = list;
        while tag(word) != 0 {
            if tag(word) == LIST || tag(word) == OVER {
                // SAFETY: 1. The tag says that `link` made this node. 2. While the word is PEEK
                // no thread takes the list or pushes on it, so its nodes are neither freed nor
                // changed.
                let node = unsafe { &*untagged(word).cast::<Node<T>>() };
                copies.push(node.pending.clone());
                word = follow(node.next);
            } else {
                let (kind, initial) = inline_kind(tag(word));
                // SAFETY: 1. The tag says that this came from `Arc::into_raw`. 2. As above, the
                // list keeps its count; the count raised here is the one that `from_raw` takes
                // over.
                let object = unsafe {
                    Arc::increment_strong_count(untagged(word).cast::<T>());
                    Arc::from_raw(untagged(word).cast::<T>())
                };
                copies.push(Pending::object(kind, object).initial(initial));
                word = EMPTY;
            }
        }
        copies.reverse();
        // Still under PEEK, so that both results belong to the same moment.
        let result = during();
        let peeked = self.word.swap(list, Ordering::AcqRel);
        debug_assert_eq!(peeked, sentinel, "no other thread changes a word while it is PEEK");
        Some((copies, result))
    }
}
