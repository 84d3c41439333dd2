//! The metrics of an elector, with client-go's names.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use crate::metrics::Named;

const STATUS: &str = "leader_election_master_status";
const SLOW_PATH: &str = "leader_election_slowpath_total";

pub(super) struct Metrics {
    status: Gauge,
    slow_path: Counter,
}

impl Metrics {
    /// Returns the metrics of the candidates for a lease. Does not reset the status: another
    /// elector of this process may have set it to 1 for a lease of the same name.
    pub(super) fn of(lease: &str) -> Named<Self> {
        describe_gauge!(STATUS, "1 if this process is the leader, and 0 otherwise");
        describe_counter!(
            SLOW_PATH,
            "Reads of the lease by its leader, after a conflict or a change by another"
        );
        let name = lease.to_owned();
        let (status, slow_path) =
            (gauge!(STATUS, "name" => name.clone()), counter!(SLOW_PATH, "name" => name));
        Named(Some(Self { status, slow_path }))
    }

    pub(super) fn leads(&self, leads: bool) {
        self.status.set(f64::from(u8::from(leads)));
    }

    pub(super) fn slow_path(&self) {
        self.slow_path.increment(1);
    }
}
