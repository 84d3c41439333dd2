//! The readiness that a member has written into its own Lease.

use super::protocol::Readiness;

/// The writes of a member's own Lease that the server may have applied last, by their readiness.
#[derive(Default)]
pub(super) struct StatedReadiness {
    /// The number of the last write with each readiness, in the order of the numbers.
    writes: Vec<(u64, Readiness)>,
    /// The newest version of the Lease that was checked.
    checked: u64,
}

impl StatedReadiness {
    /// Records that a write was sent.
    pub(super) fn sent(&mut self, number: u64, readiness: Readiness) {
        self.writes.retain(|(_, stated)| *stated != readiness);
        self.writes.push((number, readiness));
    }

    /// Records that the server has applied a write, so it applies no earlier one.
    pub(super) fn applied(&mut self, number: u64) {
        self.writes.retain(|(write, _)| *write >= number);
    }

    /// Checks the readiness that the Lease has in a version. Returns the readiness of the last
    /// write if this version is newer than those checked before, and no write explains it.
    pub(super) fn lost(&mut self, version: u64, found: Readiness) -> Option<Readiness> {
        if version <= self.checked {
            return None;
        }
        self.checked = version;
        let is_stated = self.writes.iter().any(|(_, stated)| *stated == found);
        self.writes.last().map(|(_, last)| *last).filter(|_| !is_stated)
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness::{Ready, Settled, Unready};
    use super::*;

    #[test]
    fn readiness_that_no_write_states_is_lost_once_per_version() {
        let mut stated = StatedReadiness::default();
        assert_eq!(stated.lost(1, Unready), None, "nothing was written");
        stated.sent(1, Ready);
        stated.applied(1);
        assert_eq!(stated.lost(2, Ready), None);
        assert_eq!(stated.lost(3, Unready), Some(Ready));
        assert_eq!(stated.lost(3, Unready), None);
        assert_eq!(stated.lost(2, Unready), None, "an older version");
    }

    #[test]
    fn readiness_of_a_write_without_an_answer_is_not_lost() {
        let mut stated = StatedReadiness::default();
        stated.sent(1, Unready);
        stated.sent(2, Ready);
        stated.sent(3, Settled);
        assert_eq!(stated.lost(1, Unready), None);
        assert_eq!(stated.lost(2, Ready), None);
        stated.applied(3);
        assert_eq!(stated.lost(3, Ready), Some(Settled));
    }
}
