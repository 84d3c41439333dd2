//! A rig: a member of a group, and its server.

use super::super::*;

pub(super) const LEASE: Duration = Duration::from_secs(15);
pub(super) const UNCLEAR: Answer<&str> = Answer::Unclear { pause: Duration::from_secs(2) };

pub(super) fn at(seconds: u64) -> Clocks {
    Clocks {
        monotonic: Duration::from_secs(seconds),
        wall: Duration::from_secs(1_000_000 + seconds),
    }
}

pub(super) type WatchEvent = (LeaseName<&'static str>, u64, Option<Record<&'static str>>);

/// A server, and the events that the member's watch has not delivered.
pub(super) struct Server {
    pub(super) version: u64,
    pub(super) leases: Vec<(LeaseName<&'static str>, Record<&'static str>)>,
    pub(super) unseen: Vec<WatchEvent>,
    /// Whether the watch delivers each event at once.
    pub(super) is_watched: bool,
    /// The names of the Leases that were written, and of their holders.
    pub(super) log: Vec<(LeaseName<&'static str>, Option<&'static str>)>,
    /// The number of writes that were refused.
    pub(super) refused: u32,
}

impl Server {
    pub(super) fn set(
        &mut self,
        name: LeaseName<&'static str>,
        record: Option<Record<&'static str>>,
    ) {
        self.version += 1;
        let record = record.map(|record| Record { version: self.version, ..record });
        self.leases.retain(|(known, _)| *known != name);
        self.leases.extend(record.map(|record| (name, record)));
        self.unseen.push((name, self.version, record));
    }

    pub(super) fn lease(&self, name: LeaseName<&'static str>) -> Option<Record<&'static str>> {
        self.leases.iter().find(|(known, _)| *known == name).map(|(_, record)| *record)
    }

    pub(super) fn apply(&mut self, request: Request<&'static str>) -> Answer<&'static str> {
        let Request { name, write, .. } = request;
        let record = match (write, self.lease(name)) {
            (Write::Create { holder, readiness }, None) => {
                Some(Record { readiness, ..record("another uid", holder, 0) })
            }
            (Write::Replace { base, holder, transitions, readiness }, Some(lease))
                if lease.version == base.version =>
            {
                Some(Record { holder, transitions, readiness, ..lease })
            }
            (Write::Delete { base }, Some(lease)) if lease.version == base.version => None,
            _ => {
                self.refused += 1;
                return Answer::Conflict;
            }
        };
        self.set(name, record);
        self.log.push((name, record.and_then(|record| record.holder)));
        Answer::Written(self.lease(name))
    }
}

pub(super) fn record(
    uid: &'static str,
    holder: Option<&'static str>,
    transitions: i32,
) -> Record<&'static str> {
    Record { version: 0, uid, holder, transitions, duration: LEASE, readiness: Readiness::Unready }
}

pub(super) fn shard(holder: Option<&'static str>, transitions: i32) -> Record<&'static str> {
    record("uid", holder, transitions)
}

pub(super) fn ready(name: &'static str) -> Record<&'static str> {
    Record { readiness: Readiness::Ready, ..record("uid", Some(name), 0) }
}

pub(super) fn settled(name: &'static str) -> Record<&'static str> {
    Record { readiness: Readiness::Settled, ..ready(name) }
}

pub(super) const SHARD: LeaseName<&str> = LeaseName::Shard(0);
pub(super) const ME: LeaseName<&str> = LeaseName::Member("me");
pub(super) const OTHER: LeaseName<&str> = LeaseName::Member("other");

/// A member of a group, and its server.
pub(super) struct Group {
    pub(super) member: Protocol<&'static str>,
    pub(super) server: Server,
}

impl Group {
    /// Creates a member that has listed these Leases at second 0.
    pub(super) fn with(leases: &[(LeaseName<&'static str>, Record<&'static str>)]) -> Self {
        let timing = GroupTiming {
            lease_duration: LEASE,
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(4),
            settle: Duration::from_secs(5),
            fence_stagger: Duration::from_secs(1),
        };
        let shards = leases.iter().filter(|(name, _)| matches!(name, LeaseName::Shard(_))).count();
        let shards = ShardCount::new(u32::try_from(shards).unwrap().max(1)).unwrap();
        let member = Protocol::new(timing, "me", shards);
        let (unseen, log) = (Vec::new(), Vec::new());
        let mut server =
            Server { version: 0, leases: Vec::new(), unseen, is_watched: true, log, refused: 0 };
        for (name, record) in leases {
            server.set(*name, Some(*record));
        }
        server.unseen.clear();
        let mut group = Self { member, server };
        group.member.listed(at(0), group.server.version, &group.server.leases.clone());
        group
    }

    /// Creates a member whose Lease was created at second 0, which its watch has not shown.
    pub(super) fn joining() -> Self {
        let mut group = Self::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
        let creation = group.run_until(0, ME);
        let created = group.server.apply(creation);
        group.member.answered(at(0), &ME, creation.number, &created);
        group
    }

    /// Creates the owner of the shard, which has joined at second 0.
    pub(super) fn owner() -> Self {
        let mut group = Self::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
        let (orders, _) = group.run(0);
        let [MemberStep::Fill { shard: 0, number }] = orders[..] else { panic!("{orders:?}") };
        group.member.filled(0, number);
        assert_eq!(group.run(0), (vec![MemberStep::Enqueue { shard: 0 }], wait(5)));
        assert_eq!(group.member.admits(0), Some(at(10)));
        group.server.log.clear();
        group
    }

    pub(super) fn watch(&mut self, second: u64) {
        for (name, version, record) in std::mem::take(&mut self.server.unseen) {
            self.member.observed(at(second), &name, version, record.as_ref());
        }
    }

    /// Answers all requests until the member waits or ends. Returns its orders, and the last step.
    pub(super) fn run(
        &mut self,
        second: u64,
    ) -> (Vec<MemberStep<&'static str>>, MemberStep<&'static str>) {
        let mut orders = Vec::new();
        loop {
            if self.server.is_watched {
                self.watch(second);
            }
            match self.member.next(at(second)) {
                MemberStep::Send(request) => {
                    let answer = self.server.apply(request);
                    self.member.answered(at(second), &request.name, request.number, &answer);
                }
                step @ (MemberStep::Wait(_) | MemberStep::Ended(_)) => return (orders, step),
                order => orders.push(order),
            }
        }
    }

    /// Answers the requests before the first one for this Lease, which it returns.
    pub(super) fn run_until(
        &mut self,
        second: u64,
        name: LeaseName<&'static str>,
    ) -> Request<&'static str> {
        loop {
            self.watch(second);
            let step = self.member.next(at(second));
            let MemberStep::Send(request) = step else { panic!("no request: {step:?}") };
            if request.name == name {
                return request;
            }
            let answer = self.server.apply(request);
            self.member.answered(at(second), &request.name, request.number, &answer);
        }
    }

    pub(super) fn set(
        &mut self,
        name: LeaseName<&'static str>,
        record: Option<Record<&'static str>>,
    ) {
        self.server.set(name, record);
    }
}

pub(super) fn wait(second: u64) -> MemberStep<&'static str> {
    MemberStep::Wait(Some(Duration::from_secs(second)))
}
