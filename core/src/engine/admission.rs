//! Counts the work behind a gate. Work is admitted while the gate is open, and counted until it has
//! ended.
//!
//! One word has the number of pieces of work, and whether more are admitted:
//!
//! ```text
//! open, n   --admit--> open, n + 1        closed, n      --admit--> refused
//! any, n    --join---> any, n + 1         closed, 0      --join---> refused
//! any, n    --leave--> any, n - 1         closed, 1      --leave--> closed, 0: idle
//! open, n   --close--> closed, n          closed, n      --open---> open, n
//! ```
//!
//! "Closed" and "no work" are in one word. So nothing is admitted between the check that finds the
//! gate idle and the next `open`. The models are in `loom-tests/src/models/admission.rs`.

use super::sync::{AtomicUsize, Ordering, mutant};

/// A gate that counts the work that it has admitted. It is closed at first.
pub struct Admission {
    /// [`OPEN`] if work is admitted, plus [`PIECE`] for each piece of work.
    word: AtomicUsize,
}

const OPEN: usize = 1;
const PIECE: usize = 2;

impl Default for Admission {
    fn default() -> Self {
        Self { word: AtomicUsize::new(0) }
    }
}

impl Admission {
    /// Admits work from now on.
    pub fn open(&self) {
        // Release: pairs with the Acquire of `admit`, so the work sees what was done before.
        self.word.fetch_or(OPEN, Ordering::Release);
    }

    /// Admits no more work. The work that was admitted continues.
    pub fn close(&self) {
        // Relaxed: only later steps of the word depend on it. As a read-modify-write it keeps
        // the Release of earlier ends of work visible to `is_idle`.
        self.word.fetch_and(!OPEN, Ordering::Relaxed);
    }

    /// Counts a piece of work that is about to start. Returns false if the gate is closed. Call
    /// [`leave`](Self::leave) when the work has ended.
    #[inline]
    #[must_use]
    pub fn admit(&self) -> bool {
        mutant!(AdmitsInTwoSteps => {
            let is_open = self.word.load(Ordering::Acquire) & OPEN != 0;
            if is_open {
                self.word.fetch_add(PIECE, Ordering::Acquire);
            }
            return is_open;
        });
        self.count_if(|word| word & OPEN != 0)
    }

    /// Counts a piece of work that belongs to work in progress. Returns false if the gate is closed
    /// and no work is in progress.
    #[inline]
    #[must_use]
    pub fn join(&self) -> bool {
        mutant!(JoinsIdleGate => return self.count_if(|_| true));
        self.count_if(|word| word != 0)
    }

    /// Ends a piece of work. Returns whether that makes the gate idle.
    #[inline]
    #[must_use]
    pub fn leave(&self) -> bool {
        // Release: pairs with the Acquire of `is_idle`, so all that the work did is visible there.
        let order = Ordering::Release;
        mutant!(LeavesWithoutRelease => let order = Ordering::Relaxed);
        mutant!(ClosedIsReadBeforeLeaving => {
            let is_closed = self.word.load(Ordering::Relaxed) & OPEN == 0;
            return self.word.fetch_sub(PIECE, order) & !OPEN == PIECE && is_closed;
        });
        self.word.fetch_sub(PIECE, order) == PIECE
    }

    /// Returns whether the gate is closed and all work has ended. Once true, the result stays true
    /// until the next [`open`](Self::open).
    #[must_use]
    pub fn is_idle(&self) -> bool {
        // Acquire: pairs with the Release of each `leave`. The steps in between are
        // read-modify-writes, so all of them are visible, and not only the last.
        self.word.load(Ordering::Acquire) == 0
    }

    /// Counts a piece of work if the word satisfies `is_admitted` at that moment.
    fn count_if(&self, is_admitted: impl Fn(usize) -> bool) -> bool {
        // Acquire: pairs with the Release of `open`.
        let order = Ordering::Acquire;
        mutant!(AdmitsWithoutAcquire => let order = Ordering::Relaxed);
        // Relaxed, also where the exchange fails: the next exchange reads the word again.
        let mut word = self.word.load(Ordering::Relaxed);
        while is_admitted(word) {
            match self.word.compare_exchange(word, word + PIECE, order, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(current) => word = current,
            }
        }
        false
    }
}
