//! The rules that every history must obey.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::history::{Fact, Object, Tenure, Work};
use crate::sharding::ShardBy;

/// The accuracy of a runtime's timers.
const TICK: Duration = Duration::from_millis(2);

/// The settings and the last state of a history, which the rules must know besides the facts.
pub struct Setting {
    pub by: ShardBy,
    /// Whether the stores have only the objects of the shards that their members hold.
    pub is_split: bool,
    /// The renew deadline of each machine, in the time of the simulation.
    pub renew_deadlines: Vec<Duration>,
    /// The objects that are left, with their versions.
    pub left: Vec<(Object, u64)>,
    /// The shards, each with its last claim.
    pub holders: BTreeMap<u8, Tenure>,
}

/// A reconcile.
struct Span<'f> {
    object: &'f Object,
    version: u64,
    shard: u8,
    tenure: &'f Tenure,
    member: &'f str,
    machine: usize,
    begun: Duration,
    dropped: Duration,
    is_complete: bool,
}

/// Returns the violations of a history.
pub fn violations(facts: &[(Duration, Fact)], setting: &Setting) -> Vec<String> {
    let spans = spans(facts);
    let mut violations: Vec<String> = facts
        .iter()
        .filter_map(|(at, fact)| match fact {
            Fact::Violation(violation) => Some(format!("{:.3} {violation}", at.as_secs_f64())),
            _ => None,
        })
        .collect();
    overlaps(facts, &spans, setting, &mut violations);
    late_writes(facts, setting, &mut violations);
    writes_after_release(facts, &mut violations);
    falling_terms(facts, &mut violations);
    old_states(facts, &spans, setting, &mut violations);
    missed_versions(&spans, setting, &mut violations);
    violations
}

fn spans(facts: &[(Duration, Fact)]) -> Vec<Span<'_>> {
    let end = facts.last().map_or(Duration::ZERO, |(at, _)| *at);
    let mut places: BTreeMap<&Work, usize> = BTreeMap::new();
    let mut spans = Vec::new();
    for (at, fact) in facts {
        if let Fact::Begun { work, version, shard, tenure, member } = fact {
            places.insert(work, spans.len());
            spans.push(Span {
                object: &work.object,
                version: *version,
                shard: *shard,
                tenure,
                member,
                machine: work.machine,
                begun: *at,
                dropped: end,
                is_complete: false,
            });
        }
    }
    for (at, fact) in facts {
        if let Fact::Dropped { work, is_complete } = fact
            && let Some(place) = places.get(work)
        {
            let span: &mut Span<'_> = &mut spans[*place];
            (span.dropped, span.is_complete) = (*at, *is_complete);
        }
    }
    spans
}

/// Checks that no two reconciles of an object run at once. A suspended machine runs nothing.
fn overlaps(
    facts: &[(Duration, Fact)],
    spans: &[Span<'_>],
    setting: &Setting,
    violations: &mut Vec<String>,
) {
    let suspensions = suspensions(facts);
    let mut by_key: BTreeMap<&str, Vec<(Duration, Duration, &Span<'_>)>> = BTreeMap::new();
    for span in spans {
        let key = match setting.by {
            ShardBy::Uid => &span.object.uid,
            ShardBy::Key | ShardBy::Namespace => &span.object.key,
        };
        let suspended = suspensions.get(&span.machine).map_or(&[][..], Vec::as_slice);
        let mut begun = span.begun;
        let pieces = by_key.entry(key).or_default();
        for (from, to) in suspended {
            if *from >= begun && *from < span.dropped {
                pieces.push((begun, *from, span));
                begun = *to;
            }
        }
        if begun < span.dropped {
            pieces.push((begun, span.dropped, span));
        }
    }
    for (key, pieces) in &mut by_key {
        pieces.sort_by_key(|(begun, dropped, _)| (*begun, *dropped));
        for pair in pieces.windows(2) {
            let ((_, dropped, a), (begun, _, b)) = (pair[0], pair[1]);
            if begun < dropped {
                violations.push(format!(
                    "{:.3} {key} is reconciled by {} until {:.3} and by {}",
                    begun.as_secs_f64(),
                    a.member,
                    dropped.as_secs_f64(),
                    b.member
                ));
            }
        }
    }
}

/// Returns the times in which each machine was suspended.
fn suspensions(facts: &[(Duration, Fact)]) -> BTreeMap<usize, Vec<(Duration, Duration)>> {
    let mut suspensions: BTreeMap<usize, Vec<(Duration, Duration)>> = BTreeMap::new();
    for (at, fact) in facts {
        match fact {
            Fact::Suspended { machine } => {
                suspensions.entry(*machine).or_default().push((*at, Duration::MAX));
            }
            Fact::Resumed { machine } => {
                let last = suspensions.get_mut(machine).and_then(|times| times.last_mut());
                if let Some((_, to)) = last {
                    *to = *at;
                }
            }
            _ => {}
        }
    }
    suspensions
}

/// Checks that a write of a reconcile is sent before the deadline of the member: the time when it
/// sent a renewal that was applied, plus the renew deadline.
fn late_writes(facts: &[(Duration, Fact)], setting: &Setting, violations: &mut Vec<String>) {
    let mut renewals: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for (_, fact) in facts {
        if let Fact::Renewed { member, sent, .. } = fact {
            renewals.entry(member).or_default().push(*sent);
        }
    }
    for (at, fact) in facts {
        let Fact::Sent { machine, member, .. } = fact else { continue };
        let sent = renewals.get(&**member).into_iter().flatten().filter(|sent| *sent <= at).max();
        let deadline = sent.map(|sent| *sent + setting.renew_deadlines[*machine]);
        if deadline.is_none_or(|deadline| *at > deadline + TICK) {
            violations.push(format!(
                "{:.3} {member} sends a write after its deadline {deadline:?}",
                at.as_secs_f64()
            ));
        }
    }
}

/// Checks that no write of a tenure is applied after its release.
fn writes_after_release(facts: &[(Duration, Fact)], violations: &mut Vec<String>) {
    let mut released = BTreeSet::new();
    for (at, fact) in facts {
        match fact {
            Fact::Released { tenure, .. } => _ = released.insert(tenure),
            Fact::Applied { tenure, object, .. } if released.contains(tenure) => violations.push(
                format!("{:.3} {} is written after the release", at.as_secs_f64(), object.key),
            ),
            _ => {}
        }
    }
}

/// Checks that the terms of the writes of an object never fall.
fn falling_terms(facts: &[(Duration, Fact)], violations: &mut Vec<String>) {
    // The Leases of each shard in the order of their creation.
    let mut leases: BTreeMap<&str, usize> = BTreeMap::new();
    let mut last: BTreeMap<&Object, (usize, i32)> = BTreeMap::new();
    for (at, fact) in facts {
        match fact {
            Fact::Claimed { tenure, .. } => {
                let number = leases.len();
                leases.entry(&tenure.uid).or_insert(number);
            }
            Fact::Applied { tenure, object, .. } => {
                let lease = leases.get(&*tenure.uid).copied().unwrap_or_default();
                let term = (lease, tenure.transitions);
                if last.insert(object, term).is_some_and(|last| last > term) {
                    violations.push(format!(
                        "{:.3} {} is written in an earlier term",
                        at.as_secs_f64(),
                        object.key
                    ));
                }
            }
            _ => {}
        }
    }
}

/// Checks that a reconcile sees what former owners knew to be written when the shard was claimed.
///
/// An object is excepted that was deleted before a list of the new owner that followed the claim,
/// if the store of the new owner did not have the object then: its watch may show the creation
/// after that list (see `controller/fill.rs`). It may be a list for another shard. In split mode
/// there is no exception: the informer drops events that are older than its list.
fn old_states(
    facts: &[(Duration, Fact)],
    spans: &[Span<'_>],
    setting: &Setting,
    violations: &mut Vec<String>,
) {
    let mut claimed: BTreeMap<&Tenure, Duration> = BTreeMap::new();
    let mut answers: BTreeMap<&str, Vec<(Duration, &Tenure, u64)>> = BTreeMap::new();
    let mut deleted: BTreeMap<&Object, (Duration, &[usize])> = BTreeMap::new();
    let mut lists: BTreeMap<usize, Vec<(Duration, Duration)>> = BTreeMap::new();
    for (at, fact) in facts {
        match fact {
            Fact::Claimed { tenure, .. } => _ = claimed.entry(tenure).or_insert(*at),
            Fact::Deleted { object, stored_by } => _ = deleted.insert(object, (*at, stored_by)),
            Fact::Listed { machine, at: made } => {
                lists.entry(*machine).or_default().push((*made, *at));
            }
            Fact::Answered { tenure, object, version } => {
                answers.entry(&object.uid).or_default().push((*at, tenure, *version));
            }
            _ => {}
        }
    }
    for span in spans {
        let Some(claimed) = claimed.get(span.tenure) else {
            violations.push(format!("{} works in a term that it has not claimed", span.member));
            continue;
        };
        let is_old =
            answers.get(&*span.object.uid).into_iter().flatten().any(|(at, tenure, version)| {
                *tenure != span.tenure && at < claimed && *version > span.version
            });
        let is_listed_after = |deleted: &Duration| {
            let mut lists = lists.get(&span.machine).into_iter().flatten();
            lists.any(|(made, received)| made >= deleted.max(claimed) && *received <= span.begun)
        };
        let deleted = deleted.get(span.object).filter(|_| !setting.is_split);
        let is_excepted = deleted.is_some_and(|(at, stored_by)| {
            !stored_by.contains(&span.machine) && is_listed_after(at)
        });
        if is_old && !is_excepted {
            violations.push(format!(
                "{:.3} {} sees an old state of {}",
                span.begun.as_secs_f64(),
                span.member,
                span.object.key
            ));
        }
    }
}

/// Checks that each object that is left was reconciled in its last version, and by the last owner
/// of its shard.
fn missed_versions(spans: &[Span<'_>], setting: &Setting, violations: &mut Vec<String>) {
    for (object, version) in &setting.left {
        let complete = |span: &&Span<'_>| span.object == object && span.is_complete;
        let seen = spans.iter().filter(complete);
        if seen.clone().all(|span| span.version < *version) {
            violations.push(format!("{} was not reconciled in version {version}", object.key));
        }
        let is_last = |span: &Span<'_>| {
            setting.holders.get(&span.shard).is_some_and(|tenure| tenure == span.tenure)
        };
        if !seen.into_iter().any(is_last) {
            violations.push(format!("{} was not reconciled by its last owner", object.key));
        }
    }
}

/// Returns the violations of a history: the owner in term 1 writes version 5 of an object and
/// receives the answer. The next owner claims the shard after 3 s, and receives a list of the
/// metadata after 6 s, which the server made after 5 s. The object is deleted after `deleted`
/// seconds, while no store has it. After 8 s the next owner sees version 4.
fn old_state_of_a_deleted_object(deleted: u64, is_split: bool) -> Vec<String> {
    let second = Duration::from_secs;
    let object = Object { key: "shop/cart-1".to_owned(), uid: "a uid".to_owned() };
    let tenure = |transitions| Tenure { uid: "a lease".to_owned(), transitions };
    let claimed = |transitions, member: &str| Fact::Claimed {
        shard: "counter-shard-000".to_owned(),
        tenure: tenure(transitions),
        member: member.to_owned(),
    };
    let work = Work { machine: 1, object: object.clone(), begun: second(8) };
    let begun = Fact::Begun {
        work: work.clone(),
        version: 4,
        shard: 0,
        tenure: tenure(2),
        member: "b".to_owned(),
    };
    let facts = [
        (second(1), claimed(1, "a")),
        (second(2), Fact::Answered { tenure: tenure(1), object: object.clone(), version: 5 }),
        (second(3), claimed(2, "b")),
        (second(deleted), Fact::Deleted { object, stored_by: Vec::new() }),
        (second(6), Fact::Listed { machine: 1, at: second(5) }),
        (second(8), begun),
        (second(9), Fact::Dropped { work, is_complete: true }),
    ];
    let setting = Setting {
        by: ShardBy::Key,
        is_split,
        renew_deadlines: Vec::new(),
        left: Vec::new(),
        holders: BTreeMap::new(),
    };
    violations(&facts, &setting)
}

#[test]
fn old_state_of_an_object_is_a_violation_unless_it_was_deleted_before_a_list_in_warm_mode() {
    let old = ["8.000 b sees an old state of shop/cart-1"];
    assert_eq!(old_state_of_a_deleted_object(2, false), [] as [String; 0]);
    assert_eq!(old_state_of_a_deleted_object(4, false), [] as [String; 0]);
    assert_eq!(old_state_of_a_deleted_object(6, false), old);
    assert_eq!(old_state_of_a_deleted_object(4, true), old);
}
