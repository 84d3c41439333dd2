//! The run without options. It measures the main engines once, in little more than a minute.

use std::time::Duration;

use super::plan::Plan;
use crate::names::EngineName;
use crate::protocol::Settings;

/// The engines of the run without options. The engine `floor` (`engines/floor.rs`) is the first
/// and fastest, and the times of the others are estimated from its turn.
pub const FIRST_RUN: &[EngineName] = &[
    EngineName::Floor,
    EngineName::DeltaFifo,
    EngineName::DeltaFifoOneThread,
    EngineName::DashMap,
    EngineName::Mutex,
    EngineName::ClientGoDeltaFifo,
    EngineName::ClientGoInformer,
];

/// The longest time that the run should take, without Go's compiler.
const LIMIT: Duration = Duration::from_secs(75);

/// The smallest number of objects with which the results are useful.
const FEWEST: usize = 10_000;

impl Plan {
    /// Limits the time of the run without options. The run leaves out the variant `owned` of a
    /// relist, in which only the engine holds the lists.
    pub fn first_run(self) -> Self {
        let settings = Settings { owned: false, ..self.settings };
        Self { settings, limit: Some(LIMIT), ..self }
    }
}

/// Returns a smaller number of objects if `objects` would take longer than `limit`. `spent` is the
/// time of the first turn, which would have to be repeated, and `ahead` the estimate of all other
/// turns. Returns `None` if `objects` need not or cannot be reduced.
pub(super) fn fewer(
    objects: usize,
    limit: Duration,
    spent: Duration,
    ahead: Duration,
) -> Option<usize> {
    if spent + ahead <= limit {
        return None;
    }
    let left = limit.saturating_sub(spent).as_nanos();
    let fit = objects as u128 * left / (spent + ahead).as_nanos();
    let fit = usize::try_from(fit).unwrap_or(objects) / FEWEST * FEWEST;
    Some(fit.max(FEWEST)).filter(|fit| *fit < objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_objects_is_reduced_only_if_the_estimate_exceeds_the_limit() {
        let seconds = Duration::from_secs;
        let fewer =
            |objects, spent, ahead| fewer(objects, seconds(75), seconds(spent), seconds(ahead));
        assert_eq!(fewer(1_000_000, 5, 70), None);
        assert_eq!(fewer(1_000_000, 15, 105), Some(500_000), "60 s are left for what takes 120 s");
        assert_eq!(fewer(1_000_000, 80, 500), Some(FEWEST), "no time is left");
        assert_eq!(fewer(FEWEST, 80, 500), None);
    }
}
