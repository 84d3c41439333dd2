//! The readiness that a member has written into its own Lease.

use super::protocol::Readiness;

/// The writes of a member's own Lease of which one may be its present state, by their readiness.
#[derive(Default)]
pub(super) struct StatedReadiness {
    /// The number of the last write with each readiness, in the order of the numbers. If a write is
    /// known to be applied, the first one has its readiness.
    writes: Vec<(u64, Readiness)>,
    /// The newest known version of the Lease.
    newest: u64,
    /// The last version that was found to have another readiness.
    lost: u64,
}

impl StatedReadiness {
    /// Records that a write was sent.
    pub(super) fn sent(&mut self, number: u64, readiness: Readiness) {
        self.writes.retain(|(_, stated)| *stated != readiness);
        self.writes.push((number, readiness));
    }

    /// Records that the server has applied a write. It applies no earlier one after that, because
    /// each contains the version that it replaces.
    pub(super) fn applied(&mut self, number: u64) {
        self.writes.retain(|(write, _)| *write >= number);
    }

    /// Checks the readiness that the Lease has in a version. Returns what was written if this is
    /// the newest known version and no write explains it, once for each version. A version can be
    /// seen before the answer to the write of it, so it is checked again after that.
    pub(super) fn lost(&mut self, version: u64, found: Readiness) -> Option<Readiness> {
        if version < self.newest || version == self.lost {
            return None;
        }
        self.newest = version;
        if self.writes.iter().any(|(_, stated)| *stated == found) {
            return None;
        }
        let (_, written) = self.writes.first()?;
        self.lost = version;
        Some(*written)
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
        assert_eq!(stated.lost(4, Unready), Some(Ready));
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

    #[test]
    fn readiness_that_is_seen_before_the_answer_to_its_write_is_checked_after_it() {
        let mut stated = StatedReadiness::default();
        stated.sent(1, Settled);
        stated.applied(1);
        stated.sent(2, Unready);
        assert_eq!(stated.lost(5, Settled), None);
        stated.applied(2);
        assert_eq!(stated.lost(5, Settled), Some(Unready));
    }

    #[test]
    fn readiness_of_a_write_that_was_not_applied_is_not_named() {
        let mut stated = StatedReadiness::default();
        stated.sent(1, Ready);
        stated.applied(1);
        stated.sent(2, Settled);
        assert_eq!(stated.lost(5, Unready), Some(Ready));
    }
}
