//! Tests of single histories. `explore` covers their combinations.

use super::*;

const LEASE: Duration = Duration::from_secs(15);
const UNCLEAR: Answer<&str> = Answer::Unclear { pause: Duration::from_secs(2) };

fn at(seconds: u64) -> Clocks {
    Clocks {
        monotonic: Duration::from_secs(seconds),
        wall: Duration::from_secs(1_000_000 + seconds),
    }
}

type WatchEvent = (LeaseName<&'static str>, u64, Option<Record<&'static str>>);

/// A server, and the events that the member's watch has not delivered.
struct Server {
    version: u64,
    leases: Vec<(LeaseName<&'static str>, Record<&'static str>)>,
    unseen: Vec<WatchEvent>,
    /// Whether the watch delivers each event at once.
    is_watched: bool,
    /// The names of the Leases that were written, and of their holders.
    log: Vec<(LeaseName<&'static str>, Option<&'static str>)>,
    /// The number of writes that were refused.
    refused: u32,
}

impl Server {
    fn set(&mut self, name: LeaseName<&'static str>, record: Option<Record<&'static str>>) {
        self.version += 1;
        let record = record.map(|record| Record { version: self.version, ..record });
        self.leases.retain(|(known, _)| *known != name);
        self.leases.extend(record.map(|record| (name, record)));
        self.unseen.push((name, self.version, record));
    }

    fn lease(&self, name: LeaseName<&'static str>) -> Option<Record<&'static str>> {
        self.leases.iter().find(|(known, _)| *known == name).map(|(_, record)| *record)
    }

    fn apply(&mut self, request: Request<&'static str>) -> Answer<&'static str> {
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

fn record(
    uid: &'static str,
    holder: Option<&'static str>,
    transitions: i32,
) -> Record<&'static str> {
    Record { version: 0, uid, holder, transitions, duration: LEASE, readiness: Readiness::Unready }
}

fn shard(holder: Option<&'static str>, transitions: i32) -> Record<&'static str> {
    record("uid", holder, transitions)
}

fn ready(name: &'static str) -> Record<&'static str> {
    Record { readiness: Readiness::Ready, ..record("uid", Some(name), 0) }
}

fn settled(name: &'static str) -> Record<&'static str> {
    Record { readiness: Readiness::Settled, ..ready(name) }
}

const SHARD: LeaseName<&str> = LeaseName::Shard(0);
const ME: LeaseName<&str> = LeaseName::Member("me");
const OTHER: LeaseName<&str> = LeaseName::Member("other");

/// A member of a group, and its server.
struct Group {
    member: Protocol<&'static str>,
    server: Server,
}

impl Group {
    /// Creates a member that has listed these Leases at second 0.
    fn with(leases: &[(LeaseName<&'static str>, Record<&'static str>)]) -> Self {
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
    fn joining() -> Self {
        let mut group = Self::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
        let creation = group.run_until(0, ME);
        let created = group.server.apply(creation);
        group.member.answered(at(0), &ME, creation.number, &created);
        group
    }

    /// Creates the owner of the shard, which has joined at second 0.
    fn owner() -> Self {
        let mut group = Self::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
        let (orders, _) = group.run(0);
        let [MemberStep::Fill { shard: 0, number }] = orders[..] else { panic!("{orders:?}") };
        group.member.filled(0, number);
        assert_eq!(group.run(0), (vec![MemberStep::Enqueue { shard: 0 }], wait(5)));
        assert_eq!(group.member.admits(0), Some(at(10)));
        group.server.log.clear();
        group
    }

    fn watch(&mut self, second: u64) {
        for (name, version, record) in std::mem::take(&mut self.server.unseen) {
            self.member.observed(at(second), &name, version, record.as_ref());
        }
    }

    /// Answers all requests until the member waits or ends. Returns its orders, and the last step.
    fn run(&mut self, second: u64) -> (Vec<MemberStep<&'static str>>, MemberStep<&'static str>) {
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
    fn run_until(&mut self, second: u64, name: LeaseName<&'static str>) -> Request<&'static str> {
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

    fn set(&mut self, name: LeaseName<&'static str>, record: Option<Record<&'static str>>) {
        self.server.set(name, record);
    }
}

fn wait(second: u64) -> MemberStep<&'static str> {
    MemberStep::Wait(Some(Duration::from_secs(second)))
}

#[test]
fn first_member_creates_the_leases_and_waits_before_it_claims_a_shard() {
    let mut group = Group::with(&[]);
    assert_eq!(group.run(0), (vec![], wait(5)));
    let me = (ME, Some("me"));
    let written = [(LeaseName::Group, None), me, me, (SHARD, Some("me"))];
    assert_eq!(group.server.log, written);
    for second in [5, 10] {
        group.run(second);
    }
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 0);
    let (orders, _) = group.run(15);
    assert!(matches!(orders[..], [MemberStep::Fill { shard: 0, .. }]), "{orders:?}");
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 1);
}

#[test]
fn group_lease_is_created_once_although_the_watch_is_late() {
    let mut group = Group::with(&[]);
    group.server.is_watched = false;
    group.run(0);
    assert_eq!(group.server.log, [(LeaseName::Group, None), (ME, Some("me"))]);
    assert_eq!(group.server.refused, 0);
}

#[test]
fn first_renewal_waits_until_the_watch_shows_the_creation() {
    let mut group = Group::joining();
    // Another client labels the Lease.
    group.set(ME, group.server.lease(ME));
    group.server.is_watched = false;
    assert_eq!(group.run(1), (vec![], wait(2)));
    group.server.is_watched = true;
    group.run(1);
    assert_eq!(group.member.works_until(), Some(at(11)));
    assert_eq!(group.server.refused, 0);
}

#[test]
fn member_is_live_and_ready_with_its_first_renewal() {
    let mut group = Group::joining();
    let renewal = group.run_until(1, ME);
    assert!(!group.server.lease(ME).unwrap().is_ready());
    assert_eq!(group.member.works_until(), None);
    group.member.answered(at(1), &ME, renewal.number, &UNCLEAR);
    assert_eq!(group.run(2), (vec![], wait(3)), "it may not renew its Lease, and gets no shard");
    group.run(3);
    assert_eq!(group.member.works_until(), Some(at(13)));
    assert!(!group.server.lease(ME).unwrap().is_ready(), "the first renewal was not answered");
    group.run(5);
    assert!(group.server.lease(ME).unwrap().is_ready());
}

#[test]
fn member_whose_renewals_are_not_answered_is_ready_for_one_of_them() {
    let mut group = Group::joining();
    for second in (0..60).step_by(4) {
        let renewal = group.run_until(second, ME);
        group.server.apply(renewal);
        assert_eq!(group.server.lease(ME).unwrap().is_ready(), second == 0);
        group.member.answered(at(second + 2), &ME, renewal.number, &UNCLEAR);
    }
    assert_eq!(group.member.works_until(), None);
}

#[test]
fn member_whose_watch_is_late_is_ready_once_it_is_live() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    group.server.is_watched = false;
    for second in 0..20 {
        assert_eq!(group.run(second).0, []);
        assert!(!group.server.lease(ME).unwrap().is_ready(), "at {second}");
    }
    // The watch is late by more than the renew deadline: it shows the creation.
    let (name, version, record) = group.server.unseen.remove(0);
    group.member.observed(at(20), &name, version, record.as_ref());
    group.run(20);
    assert!(!group.server.lease(ME).unwrap().is_ready());
    group.server.is_watched = true;
    group.run(22);
    assert_eq!(group.member.works_until(), Some(at(32)));
    assert!(group.server.lease(ME).unwrap().is_ready());
    assert_eq!(group.run(23).1, wait(27), "a third of the lease duration after the last renewal");
}

#[test]
fn member_that_is_ready_and_not_live_is_no_longer_ready_with_its_next_renewal() {
    let mut group = Group::joining();
    group.watch(0);
    group.server.is_watched = false;
    group.run(0);
    assert!(group.server.lease(ME).unwrap().is_ready());
    assert_eq!(group.run(1), (vec![], wait(2)));
    group.run(2);
    assert!(!group.server.lease(ME).unwrap().is_ready());
}

#[test]
fn member_whose_watch_is_later_than_its_time_to_settle_is_settled_once_it_is_live() {
    let mut group = Group::joining();
    group.member.timing.settle = Duration::from_secs(1);
    let readiness = |group: &Group| group.server.lease(ME).unwrap().readiness;
    group.watch(0);
    group.server.is_watched = false;
    group.run(0);
    assert_eq!(group.run(1), (vec![], wait(2)));
    assert_eq!(readiness(&group), Readiness::Ready);
    group.server.is_watched = true;
    group.run(1);
    assert_eq!(readiness(&group), Readiness::Settled);
}

#[test]
fn member_without_a_time_to_settle_is_settled_as_soon_as_it_is_live() {
    let mut group = Group::joining();
    group.member.timing.settle = Duration::ZERO;
    let readiness = |group: &Group| group.server.lease(ME).unwrap().readiness;
    group.watch(0);
    group.server.is_watched = false;
    group.run(0);
    assert_eq!(group.member.works_until(), None);
    assert_eq!(readiness(&group), Readiness::Ready);
    group.server.is_watched = true;
    group.run(0);
    assert_eq!(readiness(&group), Readiness::Settled);
}

#[test]
fn member_whose_settled_state_the_server_does_not_keep_repeats_it_after_the_retry_period() {
    let mut group = Group::owner();
    for second in [5, 7] {
        group.run(second);
        assert_eq!(group.server.lease(ME).unwrap().readiness, Readiness::Settled);
        let changed = Record { readiness: Readiness::Ready, ..group.server.lease(ME).unwrap() };
        group.set(ME, Some(changed));
        assert_eq!(group.run(second).1, wait(second + 2));
    }
}

#[test]
fn stopping_member_whose_unready_state_the_server_does_not_keep_repeats_it_after_the_retry_period()
{
    let mut group = Group::owner();
    group.member.stop();
    for second in [1, 3] {
        group.run(second);
        assert_eq!(group.server.lease(ME).unwrap().readiness, Readiness::Unready);
        let changed = Record { readiness: Readiness::Ready, ..group.server.lease(ME).unwrap() };
        group.set(ME, Some(changed));
        assert_eq!(group.run(second).1, wait(second + 2));
    }
}

#[test]
fn owner_keeps_its_shard_although_its_lease_no_longer_says_that_it_is_ready() {
    let mut group = Group::owner();
    let edited = Record { readiness: Readiness::Unready, ..group.server.lease(ME).unwrap() };
    group.set(ME, Some(edited));
    assert_eq!(group.run(1), (vec![], wait(2)));
    assert_eq!(group.member.admits(0), Some(at(10)));
    group.run(2);
    assert!(group.server.lease(ME).unwrap().is_ready());
}

#[test]
fn member_stays_live_while_its_watch_is_late_by_less_than_its_deadline_allows() {
    for lag in 0..8 {
        let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
        group.server.is_watched = false;
        let (mut late, mut live_since) = (Vec::new(), None);
        for second in 0..60 {
            let seen = std::mem::take(&mut group.server.unseen);
            late.extend(seen.into_iter().map(|event| (second - 1 + lag, event)));
            let is_late = |(due, _): &(u64, WatchEvent)| *due > second;
            let at_last = late.iter().position(is_late).unwrap_or(late.len());
            for (_, (name, version, record)) in late.drain(..at_last) {
                group.member.observed(at(second), &name, version, record.as_ref());
            }
            group.run(second);
            if group.member.works_until().is_some() {
                live_since.get_or_insert(second);
            }
            let was_live = live_since.is_some();
            assert_eq!(group.member.works_until().is_some(), was_live, "late by {lag} at {second}");
        }
        assert!(live_since.is_some_and(|second| second < 20), "late by {lag}: {live_since:?}");
    }
}

#[test]
fn owner_renews_each_third_of_the_lease_duration_and_nothing_else() {
    let mut group = Group::owner();
    for second in 0..60 {
        assert_eq!(group.run(second).0, []);
    }
    assert_eq!(group.server.log, [(ME, Some("me")); 11]);
    assert_eq!(group.member.admits(0), Some(at(65)));
}

#[test]
fn deadline_does_not_move_until_the_watch_shows_the_renewal() {
    let mut group = Group::owner();
    group.server.is_watched = false;
    group.run(5);
    assert_eq!(group.server.log, [(ME, Some("me"))]);
    assert_eq!(group.member.admits(0), Some(at(10)));
    group.watch(9);
    assert_eq!(group.member.admits(0), Some(at(15)), "it counts from the time when it was sent");
}

#[test]
fn list_without_the_members_lease_ends_its_work() {
    let mut group = Group::owner();
    group.set(ME, None);
    group.member.listed(at(1), group.server.version, &group.server.leases.clone());
    assert_eq!(group.member.admits(0), None);
    assert_eq!(group.run(1).0, [MemberStep::Drop { shard: 0 }]);
    group.member.idle(0);
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Replaced));
    assert_eq!(group.server.log, []);
}

#[test]
fn member_whose_lease_is_gone_before_its_creation_is_answered_ends() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    let request = group.run_until(0, ME);
    let answer = group.server.apply(request);
    group.set(ME, None);
    group.server.unseen.clear();
    group.member.listed(at(1), group.server.version, &group.server.leases.clone());
    group.member.answered(at(1), &ME, request.number, &answer);
    assert_eq!(group.run(5).1, MemberStep::Ended(MemberEnd::Replaced));
}

#[test]
fn lost_member_fences_itself_when_its_work_has_ended() {
    let mut group = Group::owner();
    assert_eq!(group.run(10).0, [MemberStep::Drop { shard: 0 }]);
    assert_eq!(group.server.log, []);
    group.member.idle(0);
    assert_eq!(group.run(12).1, MemberStep::Ended(MemberEnd::Deadline));
    assert_eq!(group.server.log, [(ME, None)]);
}

#[test]
fn shard_of_another_settled_member_is_released_when_its_work_has_ended() {
    let shards = [LeaseName::Shard(0), LeaseName::Shard(1)];
    let leases = shards.map(|name| (name, shard(None, 4)));
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), leases[0], leases[1]]);
    for order in group.run(0).0 {
        let MemberStep::Fill { shard, number } = order else { panic!("{order:?}") };
        group.member.filled(shard, number);
    }
    assert_eq!(group.run(0).0.len(), 2);
    group.set(OTHER, Some(ready("other")));
    let admitted = |group: &Group| [0, 1].map(|shard| group.member.admits(shard).is_some());
    for second in 0..5 {
        group.run(second);
        assert_eq!(admitted(&group), [true; 2], "the other member is not settled");
    }
    group.set(OTHER, Some(settled("other")));
    group.run(5);
    let moved = u8::from(admitted(&group) == [true, false]);
    assert_eq!(admitted(&group).iter().filter(|is_admitted| **is_admitted).count(), 1);
    assert_eq!(group.run(8).0, []);
    assert_eq!(group.run(9).0, [MemberStep::Drop { shard: moved }]);
    assert_eq!(group.server.lease(LeaseName::Shard(moved)).unwrap().holder, Some("me"));
    group.member.idle(moved);
    group.run(9);
    assert_eq!(group.server.lease(LeaseName::Shard(moved)).unwrap().holder, None);
}

#[test]
fn member_that_starts_leaves_free_shards_to_a_settled_one() {
    let leases =
        [(LeaseName::Group, shard(None, 0)), (OTHER, settled("other")), (SHARD, shard(None, 4))];
    let mut group = Group::with(&leases);
    group.run(0);
    assert_eq!(group.server.log, [(ME, Some("me")); 2]);
}

#[test]
fn members_of_which_none_is_settled_share_the_free_shards() {
    let shards = [LeaseName::Shard(0), LeaseName::Shard(1)].map(|name| (name, shard(None, 4)));
    let mut group = Group::with(&[
        (LeaseName::Group, shard(None, 0)),
        (OTHER, ready("other")),
        shards[0],
        shards[1],
    ]);
    group.run(0);
    let claims = group.server.log.iter().filter(|(name, _)| matches!(name, LeaseName::Shard(_)));
    assert_eq!(claims.count(), 1, "{:?}", group.server.log);
}

#[test]
fn member_says_that_it_is_settled_when_it_has_been_ready_for_the_time_to_settle() {
    let mut group = Group::owner();
    let readiness = |group: &Group| group.server.lease(ME).unwrap().readiness;
    for second in 0..5 {
        group.run(second);
        assert_eq!(readiness(&group), Readiness::Ready, "at {second}");
    }
    let writes = group.server.log.len();
    group.run(5);
    assert_eq!(readiness(&group), Readiness::Settled);
    assert_eq!(group.server.log.len(), writes + 1);
    assert_eq!(group.run(6).1, wait(10), "the next renewal");
    group.run(10);
    assert_eq!(readiness(&group), Readiness::Settled);
}

#[test]
fn leases_of_former_members_are_deleted_one_after_another_and_one_that_stays_is_tried_last() {
    let gone = ["gone-1", "gone-2"].map(LeaseName::Member);
    let mut group = Group::owner();
    group.set(gone[0], Some(record("uid", None, 0)));
    group.set(gone[1], Some(record("uid", None, 0)));
    let failed = group.run_until(0, gone[0]);
    assert!(matches!(failed.write, Write::Delete { .. }));
    assert_eq!(group.run(0).0, []);
    assert!(group.server.lease(gone[1]).is_some(), "the first deletion is in progress");
    group.member.answered(at(0), &gone[0], failed.number, &UNCLEAR);
    group.run(1);
    assert!(group.server.lease(gone[1]).is_some(), "the pause has not ended");
    let failed = group.run_until(2, gone[0]);
    assert!(group.server.lease(gone[1]).is_none(), "it was tried before the first one");
    group.member.answered(at(2), &gone[0], failed.number, &UNCLEAR);
    group.run(3);
    assert!(group.server.lease(gone[0]).is_some());
    group.run(4);
    assert!(group.server.lease(gone[0]).is_none());
}

#[test]
fn lease_of_a_fenced_member_is_deleted_only_when_no_shard_names_the_member() {
    let leases = [
        (LeaseName::Group, shard(None, 0)),
        (OTHER, record("uid", None, 0)),
        (LeaseName::Member("third"), settled("third")),
        (SHARD, shard(Some("other"), 4)),
    ];
    let mut group = Group::with(&leases);
    // The shard is assigned to the third member, because this one is not settled.
    for second in 0..4 {
        assert_eq!(group.run(second).0, []);
        assert!(group.server.lease(OTHER).is_some(), "at {second}");
    }
    group.set(SHARD, Some(shard(Some("third"), 5)));
    group.run(4);
    assert_eq!(group.server.lease(OTHER), None);
}

#[test]
fn stopped_member_drains_its_shards_and_deletes_its_lease() {
    let mut group = Group::owner();
    group.member.stop();
    group.run(1);
    assert!(!group.server.lease(ME).unwrap().is_ready());
    assert_eq!(group.server.lease(SHARD).unwrap().holder, Some("me"));
    group.run(3);
    group.member.idle(0);
    assert_eq!(group.run(4).1, MemberStep::Ended(MemberEnd::Stopped));
    assert_eq!(group.server.lease(SHARD).unwrap().holder, None);
    assert_eq!(group.server.lease(ME), None);
}

#[test]
fn stopped_member_that_has_created_a_lease_of_a_shard_ends() {
    let mut group = Group::with(&[]);
    group.run(0);
    assert_eq!(group.server.lease(SHARD).unwrap().holder, Some("me"));
    group.member.stop();
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Stopped));
    assert_eq!(group.server.lease(ME), None);
}

#[test]
fn stopped_member_whose_deletion_was_not_answered_has_stopped() {
    let mut group = Group::owner();
    group.member.stop();
    group.run(1);
    group.member.idle(0);
    let request = group.run_until(1, ME);
    assert!(matches!(request.write, Write::Delete { .. }), "{request:?}");
    group.server.apply(request);
    group.member.answered(at(1), &ME, request.number, &UNCLEAR);
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Stopped));
}
#[test]
fn shard_of_a_member_that_does_not_renew_is_claimed_after_a_fence() {
    let leases = [
        (LeaseName::Group, shard(None, 0)),
        (OTHER, ready("other")),
        (SHARD, shard(Some("other"), 4)),
    ];
    let mut group = Group::with(&leases);
    for second in 0..15 {
        assert_eq!(group.run(second).0, []);
    }
    group.server.log.clear();
    let (orders, _) = group.run(15);
    assert!(matches!(orders[..], [MemberStep::Fill { .. }]), "{orders:?}");
    let expected = [(ME, Some("me")), (OTHER, None), (SHARD, Some("me")), (OTHER, None)];
    assert_eq!(group.server.log, expected, "the last write deletes the Lease");
    assert_eq!(group.server.lease(OTHER), None);
}

#[test]
fn observer_waits_for_the_longer_lease_duration() {
    let longer = Record { duration: 2 * LEASE, ..ready("other") };
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (OTHER, longer)]);
    for second in 0..30 {
        group.run(second);
    }
    assert!(group.server.lease(OTHER).is_some());
    group.run(30);
    assert_eq!(group.server.lease(OTHER), None);
}

#[test]
fn member_that_was_never_seen_is_dead_after_the_lease_duration_of_its_claim() {
    let longer = Record { duration: 2 * LEASE, ..shard(Some("other"), 4) };
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, longer)]);
    for second in 0..30 {
        assert_eq!(group.run(second).0, []);
    }
    assert_eq!(group.run(30).0.len(), 1);
}

#[test]
fn created_lease_is_free_after_the_longest_known_lease_duration() {
    let longer = Record { duration: 2 * LEASE, ..ready("other") };
    let claimed = (SHARD, Record { duration: 2 * LEASE, ..shard(Some("other"), 4) });
    // A Lease of the former owner, or its claim, has shown its lease duration.
    for shown in [(OTHER, Record { readiness: Readiness::Unready, ..longer }), claimed] {
        let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), shown]);
        group.set(SHARD, None);
        group.set(SHARD, Some(record("another uid", Some("third"), 0)));
        for second in 0..30 {
            assert_eq!(group.run(second).0, [], "second {second}");
        }
        assert_eq!(group.run(30).0.len(), 1);
    }
}

#[test]
fn members_fence_one_after_another() {
    let leases = [
        (LeaseName::Group, shard(None, 0)),
        (LeaseName::Member("a"), ready("a")),
        (LeaseName::Member("b"), ready("b")),
    ];
    let group = Group::with(&leases);
    let ranks = |identity: &'static str, dead: &'static str| {
        let mut member = group.member.clone();
        member.identity = identity;
        let me = Record { version: 9, ..ready("me") };
        member.observed(at(0), &ME, 9, Some(&me));
        member.fences_at(at(0), member.view.peer(&dead).unwrap())
    };
    let mut times = [ranks("me", "a"), ranks("b", "a")];
    times.sort_unstable();
    assert_eq!(times, [15, 16].map(Duration::from_secs));
}

#[test]
fn members_that_have_expired_together_are_fenced_together() {
    let names = ["a", "b", "c", "d"];
    let members = names.map(|name| (LeaseName::Member(name), ready(name)));
    let mut leases = vec![(LeaseName::Group, shard(None, 0))];
    leases.extend(members);
    let mut group = Group::with(&leases);
    (0..15).for_each(|second| drop(group.run(second)));
    assert!(members.iter().all(|(name, _)| group.server.lease(*name).is_some()));
    group.run(15);
    assert!(members.iter().all(|(name, _)| group.server.lease(*name).is_none()));
}

#[test]
fn shard_whose_lease_was_deleted_is_claimed_after_the_lease_duration_and_an_end_of_work() {
    let mut group = Group::owner();
    group.set(SHARD, None);
    assert_eq!(group.run(1).0, [MemberStep::Drop { shard: 0 }]);
    assert_eq!(group.member.admits(0), None);
    assert_eq!(group.server.log, [], "work is in progress");
    group.run(5);
    group.member.idle(0);
    group.run(6);
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 0);
    for second in 7..21 {
        assert_eq!(group.run(second).0, []);
    }
    let (orders, _) = group.run(21);
    assert!(matches!(orders[..], [MemberStep::Fill { .. }]), "{orders:?}");
}

#[test]
fn claim_that_was_answered_too_late_is_claimed_again() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    let request = group.run_until(0, SHARD);
    let number = request.number;
    group.server.apply(request);
    group.member.answered(at(1), &SHARD, number, &UNCLEAR);
    let claimed = group.server.lease(SHARD).unwrap();
    assert_eq!((claimed.holder, claimed.transitions), (Some("me"), 5));
    group.member.answered(at(1), &SHARD, number, &Answer::Written(Some(claimed)));
    assert_eq!(group.run(2).0, [], "the late answer does not count");
    assert_eq!(group.run(3).0.len(), 1);
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 6);
}

#[test]
fn claim_that_is_answered_after_an_edit_of_its_lease_is_released() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    let request = group.run_until(0, SHARD);
    let answer = group.server.apply(request);
    group.set(SHARD, group.server.lease(SHARD));
    group.watch(0);
    group.member.answered(at(0), &SHARD, request.number, &answer);
    assert_eq!(group.run(0).0.len(), 1);
    group.member.stop();
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Stopped));
    assert_eq!(group.server.lease(SHARD).unwrap().holder, None);
}

#[test]
fn refused_claim_is_not_repeated_until_the_watch_shows_another_version() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    while group.server.lease(ME).is_none() {
        group.watch(0);
        let MemberStep::Send(request) = group.member.next(at(0)) else { panic!("no request") };
        let answer = group.server.apply(request);
        group.member.answered(at(0), &request.name, request.number, &answer);
    }
    group.watch(0);
    group.server.is_watched = false;
    group.set(SHARD, Some(shard(None, 6)));
    assert_eq!(group.run(0).0, []);
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 6);
    group.watch(0);
    assert_eq!(group.run(0).0.len(), 1);
    assert_eq!(group.server.lease(SHARD).unwrap().transitions, 7);
}

#[test]
fn write_that_was_refused_although_its_version_is_current_is_repeated_after_the_renew_deadline() {
    let mut group = Group::with(&[(LeaseName::Group, shard(None, 0)), (SHARD, shard(None, 4))]);
    let request = group.run_until(0, SHARD);
    group.member.answered(at(0), &SHARD, request.number, &Answer::Conflict);
    for second in 0..10 {
        assert_eq!(group.run(second).0, [], "second {second}");
    }
    assert_eq!(group.run(10).0.len(), 1);
    assert_eq!(group.server.lease(SHARD).unwrap().holder, Some("me"));
}

/// The member would lose its Lease if it waited for the renew deadline.
#[test]
fn renewal_that_was_refused_although_its_version_is_current_is_repeated_after_the_retry_period() {
    let mut group = Group::owner();
    let request = group.run_until(5, ME);
    group.member.answered(at(5), &ME, request.number, &Answer::Conflict);
    group.run(6);
    assert_eq!(group.server.log, []);
    group.run(7);
    assert_eq!(group.server.log, [(ME, Some("me"))]);
    assert_eq!(group.member.admits(0), Some(at(17)));
}

#[test]
fn write_is_not_repeated_before_the_watch_shows_it() {
    let mut group = Group::owner();
    group.member.stop();
    group.run(1);
    group.member.idle(0);
    group.server.is_watched = false;
    group.run(1);
    assert_eq!(group.server.lease(SHARD).unwrap().holder, None);
    group.run(3);
    assert_eq!(group.server.refused, 0);
}

#[test]
fn member_of_a_group_with_other_settings_ends() {
    let mut group = Group::owner();
    group.member.mismatched();
    assert_eq!(group.member.admits(0), None);
    group.member.idle(0);
    assert_eq!(group.run(1).1, MemberStep::Ended(MemberEnd::Mismatch));
    assert_eq!(group.server.lease(ME).unwrap().holder, None);
}

#[test]
fn renewal_that_is_seen_after_the_deadline_does_not_move_it() {
    let mut group = Group::owner();
    group.server.is_watched = false;
    group.run(5);
    group.watch(11);
    assert_eq!(group.member.works_until(), None);
    assert_eq!(group.member.admits(0), None);
}

#[test]
fn members_that_are_not_ready_are_not_counted() {
    let waiting = (LeaseName::Member("waiting"), record("uid", Some("waiting"), 0));
    let group = Group::with(&[(OTHER, ready("other")), waiting, (SHARD, shard(None, 0))]);
    assert_eq!(group.member.ready_members(), 1);
}
