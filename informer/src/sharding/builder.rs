//! The builder of a group.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use super::error::{BuildError, GroupError};
use super::group::{GroupOnError, ShardGroup};
use super::hash::ShardBy;
use super::object::GroupFormat;
use super::protocol::GroupTiming;
use super::shards::ShardCount;
use crate::error_chain;
use crate::leader_election::check_timing;
use crate::lease::Timing;
use crate::util::dns::{has_form_of_label, is_label};

/// A builder of a [`ShardGroup`].
#[must_use = "build() makes the group"]
pub struct ShardGroupBuilder {
    pub(super) client: Client,
    pub(super) lease_client: Option<Client>,
    namespace: String,
    name: String,
    pub(super) identity: String,
    shards: u32,
    by: ShardBy,
    pub(super) timing: GroupTiming,
    pub(super) on_error: Arc<GroupOnError>,
    /// Whether the process may have no other group.
    pub(super) is_only: bool,
}

impl ShardGroupBuilder {
    pub(super) fn new(client: Client, namespace: String, name: String) -> Self {
        Self {
            client,
            lease_client: None,
            namespace,
            name,
            identity: String::new(),
            shards: 64,
            by: ShardBy::Key,
            timing: GroupTiming {
                lease_duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry_period: Duration::from_secs(2),
                drain_timeout: Duration::from_secs(10),
                settle: Duration::from_secs(5),
                fence_stagger: Duration::from_secs(1),
            },
            on_error: Arc::new(|error| {
                tracing::warn!(
                    error = error_chain(error),
                    "sharding: an error of the group; the group continues"
                );
            }),
            is_only: true,
        }
    }

    /// Sets the name of this replica, usually the name of its pod. It is required. The identity of
    /// a member is this name, `_` and a random number that is new for each membership.
    pub fn identity(mut self, pod: impl Into<String>) -> Self {
        self.identity = pod.into();
        self
    }

    /// Sets the client for the requests for Leases. By default they are sent through the client of
    /// the group, like the requests of permits. If that client has one connection, or limits the
    /// number of requests in flight, slow answers to permits can delay renewals until the member
    /// loses its Lease. kube's clients do neither by default.
    ///
    /// ```no_run
    /// # use deltafifo_informer::sharding::ShardGroup;
    /// # use kube::{Client, Config};
    /// # fn build(config: Config) -> Result<ShardGroup, Box<dyn std::error::Error>> {
    /// let client = Client::try_from(config.clone())?;
    /// let group = ShardGroup::builder(client, "shop", "counter")
    ///     .lease_client(Client::try_from(config)?)
    ///     .identity("counter-7f9c-x2x4k")
    ///     .build()?;
    /// # Ok(group)
    /// # }
    /// ```
    pub fn lease_client(mut self, client: Client) -> Self {
        self.lease_client = Some(client);
        self
    }

    /// Sets the number of shards: a power of two, at most 128. The default is 64. The number is
    /// fixed for the life of a group: `run_until` of a member with another number returns an error.
    /// Choose several times the largest number of replicas, so that all replicas get similar
    /// numbers of shards.
    pub fn shards(mut self, count: u32) -> Self {
        self.shards = count;
        self
    }

    /// Sets the property that decides to which shard an object belongs. The default is its key. It
    /// is fixed for the life of a group, like the number of shards.
    pub fn by(mut self, by: ShardBy) -> Self {
        self.by = by;
        self
    }

    /// Sets the lease duration: if a member does not renew its Lease, the others wait for this time
    /// before they take its shards. The default is 15 s. In the Lease it is rounded up to seconds.
    /// Members may have different lease durations.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self
    }

    /// Sets the time after which a member stops if no renewal counts. A renewal counts once the
    /// server has answered it and the watch has shown it. The time begins when the last such
    /// renewal was *sent*. The default is 10 s.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self
    }

    /// Sets the time limit of each request for a Lease, and the shortest pause before a failed
    /// request is repeated. The default is 2 s. While lists and watches of the Leases fail, the
    /// pauses between them grow to the lease duration. These pauses grow to a minute:
    ///
    /// - between writes of a Lease that the server has without the label of the group.
    /// - between claims of a shard, or creations of its Lease, that the server refuses, for example
    ///   because a right is missing.
    /// - between deletions of Leases of former members, while these fail and no other member
    ///   deletes any.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self
    }

    /// Sets the time for which running work may continue after its shard was assigned to another
    /// member, or the group was asked to stop. Then its permits are lost. The default is 10 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.timing.drain_timeout = timeout;
        self
    }

    /// Sets the time after which a member that has joined takes shards from others. Until then it
    /// takes only free shards, and only while no member is settled. So a program that crashes soon
    /// after its start takes no shards with it. Members may have different times. The default is
    /// 5 s.
    pub fn settle(mut self, time: Duration) -> Self {
        self.timing.settle = time;
        self
    }

    /// Sets a function that is called for each error. By default errors are logged. If requests
    /// fail repeatedly with the same verb and status code, the failure is reported once, and again
    /// only after a request with this verb has succeeded, at most once a minute. The variants of
    /// [`GroupError`] say how often the other errors are reported.
    pub fn on_error(mut self, on_error: impl Fn(&GroupError) + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(on_error);
        self
    }

    /// Allows other groups in this process. This is for tests and examples that run several
    /// members. A program needs only one group, because a controller belongs to one group.
    #[doc(hidden)]
    pub fn beside_others(mut self) -> Self {
        self.is_only = false;
        self
    }

    /// Creates the group. Sends no request.
    ///
    /// # Errors
    /// [`BuildError`] if a name, the number of shards or a duration is not valid, or this process
    /// has another group.
    pub fn build(self) -> Result<ShardGroup, BuildError> {
        check_label("namespace", &self.namespace)?;
        check_label("name of the group", &self.name)?;
        check_pod(&self.identity)?;
        let shards = ShardCount::new(self.shards).ok_or(BuildError::Shards(self.shards))?;
        let GroupTiming { lease_duration, renew_deadline, retry_period, .. } = self.timing;
        let timing = Timing { lease_duration, renew_deadline, retry_period };
        check_timing(timing).map_err(BuildError::Durations)?;
        let format = GroupFormat {
            namespace: self.namespace.clone(),
            group: self.name.clone(),
            shards,
            by: self.by,
            lease_duration,
        };
        ShardGroup::new(self, format)
    }
}

/// Checks that a name is a label of a domain name (RFC 1123).
fn check_label(part: &'static str, name: &str) -> Result<(), BuildError> {
    let rule = "it must be 1 to 63 lower-case letters, digits and hyphens, with a letter or digit \
                at each end";
    let is_valid = is_label(name);
    if is_valid { Ok(()) } else { Err(BuildError::Name { part, value: name.to_owned(), rule }) }
}

/// Checks that the name of a pod can be a part of the name of a Lease.
fn check_pod(name: &str) -> Result<(), BuildError> {
    let rule = "it must be the name of a pod: lower-case letters, digits, hyphens and dots, with a \
                letter or digit at each end and beside each dot, at most 170 in all";
    // The name of a Lease has at most 253 characters. Those of a member's Lease also contain the
    // name of the group, `-member-` and the random number.
    let is_valid = name.split('.').all(has_form_of_label) && name.len() <= 170;
    let part = "identity";
    if is_valid { Ok(()) } else { Err(BuildError::Name { part, value: name.to_owned(), rule }) }
}
