//! Deliberate defects of the protocols, and the choice of one for the code that a test runs in its
//! thread.

#[cfg(test)]
use std::cell::Cell;
#[cfg(test)]
use std::thread::LocalKey;

/// Expands to a defect that has an effect if a test has chosen its mutant, and to nothing outside
/// of tests. The path in brackets names the module that has the list of mutants.
#[cfg(test)]
macro_rules! mutant_of {
    // Replaces the value of a variable.
    ([$($list:tt)*] $protocol:expr, $name:ident => let $variable:ident = $defect:expr) => {
        let $variable = if $protocol.mutant == Some($($list)*::Mutant::$name) {
            $defect
        } else {
            $variable
        };
    };
    ([$($list:tt)*] $protocol:expr, $name:ident => $($defect:tt)*) => {
        if $protocol.mutant == Some($($list)*::Mutant::$name) {
            $($defect)*
        }
    };
}
#[cfg(not(test))]
macro_rules! mutant_of {
    ($($defect:tt)*) => {};
}
pub(crate) use mutant_of;

/// Calls `run` while `mutant` is the chosen one. Chooses none when `run` returns or panics, so that
/// code which runs later in this thread has no defect.
#[cfg(test)]
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
