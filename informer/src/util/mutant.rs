//! The choice of a mutant for the code that a test runs in its thread.

use std::cell::Cell;
use std::thread::LocalKey;

/// Calls `run` while `mutant` is the chosen one. Chooses none when `run` returns or panics, so that
/// code which runs later in this thread has no defect.
pub(crate) fn with_chosen<M, R>(
    chosen: &'static LocalKey<Cell<Option<M>>>,
    mutant: M,
    run: impl FnOnce() -> R,
) -> R {
    struct Reset<M: 'static>(&'static LocalKey<Cell<Option<M>>>);
    impl<M: 'static> Drop for Reset<M> {
        fn drop(&mut self) {
            self.0.set(None);
        }
    }
    let _reset = Reset(chosen);
    chosen.set(Some(mutant));
    run()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic;

    use super::with_chosen;

    thread_local! {
        static CHOSEN: Cell<Option<u8>> = const { Cell::new(None) };
    }

    #[test]
    fn no_mutant_is_chosen_after_a_return_or_a_panic() {
        assert_eq!(with_chosen(&CHOSEN, 1, || CHOSEN.get()), Some(1));
        assert_eq!(CHOSEN.get(), None);
        let end =
            panic::catch_unwind(|| with_chosen(&CHOSEN, 2, || assert_eq!(CHOSEN.get(), None)));
        assert!(end.is_err());
        assert_eq!(CHOSEN.get(), None);
    }
}
