//! Random numbers for delays and identities.
//!
//! Tasks that are due at the same time may run in any order. If they drew from one generator, a
//! simulation with one seed could have several histories. So each use has a name, and in a
//! simulation its numbers depend on nothing but that name and the seed of the thread.

#[cfg(test)]
thread_local! {
    /// The seed of the simulation that runs on this thread, if there is one.
    static SIMULATED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Sets the seed of the numbers that this thread draws from now on. Until the next call, each use
/// always gets the same numbers.
#[cfg(test)]
pub(crate) fn simulate(seed: u64) {
    SIMULATED.set(Some(seed));
}

/// Returns a generator of random numbers for one use.
#[cfg_attr(not(test), allow(unused_variables))]
pub(crate) fn random_for(usage: &str) -> fastrand::Rng {
    #[cfg(test)]
    if let Some(seed) = SIMULATED.get() {
        use std::hash::BuildHasher;
        let hasher = foldhash::quality::FixedState::with_seed(seed);
        return fastrand::Rng::with_seed(hasher.hash_one(usage));
    }
    fastrand::Rng::new()
}

#[cfg(test)]
mod tests {
    use super::{random_for, simulate};

    #[test]
    fn simulated_numbers_depend_on_the_seed_and_the_use_alone() {
        let draw = |usage| random_for(usage).u64(..);
        simulate(1);
        let (watch, retry) = (draw("watch"), draw("retry"));
        assert_ne!(watch, retry);
        assert_eq!((draw("retry"), draw("watch")), (retry, watch));
        simulate(2);
        assert_ne!(draw("watch"), watch);
    }
}
