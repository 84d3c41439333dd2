//! The metrics of a group.

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Label, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};

use crate::metrics::{Named, count};

const MEMBERS: &str = "shard_group_members";
const OWNED: &str = "shard_group_owned_shards";
const DRAINING: &str = "shard_group_draining_shards";
const CLAIMS: &str = "shard_group_claims_total";
const RELEASES: &str = "shard_group_releases_total";
const LOSSES: &str = "shard_group_lost_memberships_total";
const REFUSED_SELECTORS: &str = "shard_group_refused_selectors_total";
const FILL_DURATION: &str = "shard_group_fill_duration_seconds";

pub(super) struct Metrics {
    members: Gauge,
    owned: Gauge,
    draining: Gauge,
    claims: Counter,
    releases: Counter,
    losses: Counter,
    refused_selectors: Counter,
    fill_duration: Histogram,
}

impl Metrics {
    pub(super) fn of(namespace: &str, group: &str) -> Named<Self> {
        describe_gauge!(MEMBERS, "Live members of the group in this process: 1 or 0");
        describe_gauge!(OWNED, "Shards that this process owns");
        describe_gauge!(
            DRAINING,
            "Shards that this process no longer owns, and whose running work has not ended; 0 if the run of the group was dropped"
        );
        describe_counter!(CLAIMS, "Shards that this process has claimed");
        describe_counter!(RELEASES, "Shards that this process has released");
        describe_counter!(
            LOSSES,
            "Memberships of this process that ended because the Lease expired, was changed or was deleted"
        );
        describe_counter!(
            REFUSED_SELECTORS,
            "Lists and watches with a shardSelector that the server refused or failed to answer, and answered without it"
        );
        describe_histogram!(
            FILL_DURATION,
            Unit::Seconds,
            "Time from the first order to fill shards, with the wait for shards that other members release, until the stores of all controllers and informers of shards have their objects"
        );
        let label = |key, value: &str| Label::new(key, value.to_owned());
        let labels = vec![label("name", group), label("namespace", namespace)];
        Named(Some(Self {
            members: gauge!(MEMBERS, labels.clone()),
            owned: gauge!(OWNED, labels.clone()),
            draining: gauge!(DRAINING, labels.clone()),
            claims: counter!(CLAIMS, labels.clone()),
            releases: counter!(RELEASES, labels.clone()),
            losses: counter!(LOSSES, labels.clone()),
            refused_selectors: counter!(REFUSED_SELECTORS, labels.clone()),
            fill_duration: histogram!(FILL_DURATION, labels),
        }))
    }

    pub(super) fn is_member(&self, is_member: bool) {
        self.members.set(f64::from(u8::from(is_member)));
    }

    pub(super) fn owns(&self, shards: usize) {
        self.owned.set(count(shards));
    }

    pub(super) fn drains(&self, shards: usize) {
        self.draining.set(count(shards));
    }

    pub(super) fn claimed(&self) {
        self.claims.increment(1);
    }

    pub(super) fn released(&self) {
        self.releases.increment(1);
    }

    pub(super) fn lost(&self) {
        self.losses.increment(1);
    }

    pub(super) fn selector_refused(&self) {
        self.refused_selectors.increment(1);
    }

    pub(super) fn filled(&self, after: Duration) {
        self.fill_duration.record(after.as_secs_f64());
    }
}
