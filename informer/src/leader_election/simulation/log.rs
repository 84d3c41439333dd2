//! The log of a simulation, with the rules that every history must obey.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_testkit::ApiServer;
use serde_json::Value;
use tokio::time::Instant;

use super::super::Term;
use super::super::tests::leases;
use super::network::Kind;

/// The time for which two leaders are excused after the holder's name was removed by hand, or after
/// a lease without a holder was created by hand in the place of a deleted one. The former holder
/// may work until its renew deadline, which is shorter.
pub const EXCUSED: Duration = Duration::from_secs(15);

/// The time in which an elector notices that its wall clock, which was set, has passed the deadline
/// of its hold: a retry period.
const NOTICED: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct Log(Arc<Mutex<State>>);

struct State {
    began: Instant,
    lines: Vec<String>,
    violations: Vec<String>,
    spans: Vec<Span>,
    paused: BTreeSet<usize>,
    /// The candidates whose wall clocks were set.
    stepped: BTreeSet<usize>,
    /// The time until which two leaders do not count as a violation, because a person has removed
    /// the holder's name, or has created a lease without one.
    excused_until: Instant,
    faults: u32,
    /// The terms whose holder released the lease, each as the uid of the lease and the number of
    /// its transitions.
    released: BTreeSet<(String, i64)>,
}

/// The time in which one leader works.
struct Span {
    candidate: usize,
    uid: String,
    transitions: i32,
    is_running: bool,
}

/// The outcome of a history that has ended: its log, the violations of the rules, and the numbers
/// of terms and of faults.
pub struct Outcome {
    pub lines: Vec<String>,
    pub violations: Vec<String>,
    pub leaders: usize,
    pub faults: u32,
}

impl State {
    fn time(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn line(&mut self, event: impl Display) {
        let time = self.time();
        self.lines.push(format!("{time:9.3} {event}"));
    }

    fn violation(&mut self, event: impl Display) {
        let violation = format!("{:9.3} {event}", self.time());
        self.line(format_args!("VIOLATION: {event}"));
        self.violations.push(violation);
    }

    /// Records a violation, unless it is the fault of a person.
    fn overlap(&mut self, event: impl Display) {
        if Instant::now() > self.excused_until {
            self.violation(event);
        }
    }
}

impl Log {
    pub fn new() -> Self {
        let now = Instant::now();
        Self(Arc::new(Mutex::new(State {
            began: now,
            lines: Vec::new(),
            violations: Vec::new(),
            spans: Vec::new(),
            paused: BTreeSet::new(),
            stepped: BTreeSet::new(),
            excused_until: now,
            faults: 0,
            released: BTreeSet::new(),
        })))
    }

    /// Adds an event to the log, with its time.
    pub fn event(&self, event: impl Display) {
        self.0.lock().line(event);
    }

    pub fn violation(&self, event: impl Display) {
        self.0.lock().violation(event);
    }

    pub fn count_faults(&self, faults: u32) {
        self.0.lock().faults += faults;
    }

    pub fn pause(&self, candidate: usize, is_paused: bool) {
        let paused = &mut self.0.lock().paused;
        if is_paused {
            paused.insert(candidate)
        } else {
            paused.remove(&candidate)
        };
    }

    /// Records that the wall clock of a candidate was set.
    pub fn step(&self, candidate: usize) {
        self.0.lock().stepped.insert(candidate);
    }

    /// Records that a person has removed the name of the holder, or has created a lease without
    /// one.
    pub fn excuse(&self) {
        self.0.lock().excused_until = Instant::now() + EXCUSED;
    }

    /// Records that the work of a term begins. Checks that no other candidate works, except paused
    /// ones, and that the term is greater than the earlier ones of the lease. The span of the work
    /// ends when the result is dropped.
    pub fn begin(&self, candidate: usize, term: &Term) -> Work {
        let mut state = self.0.lock();
        let (uid, transitions) = (term.uid().to_owned(), term.transitions());
        state.line(format_args!("{candidate} leads in term {transitions}"));
        let is_other = |span: &&Span| span.is_running && !state.paused.contains(&span.candidate);
        let others: Vec<_> =
            state.spans.iter().filter(is_other).map(|span| span.candidate).collect();
        for other in others {
            state.overlap(format_args!("{other} works while {candidate} begins"));
        }
        let greatest =
            state.spans.iter().filter(|span| span.uid == uid).map(|span| span.transitions).max();
        if greatest.is_some_and(|greatest| greatest >= transitions) {
            state.overlap(format_args!("term {transitions} follows term {greatest:?}"));
        }
        state.spans.push(Span { candidate, uid, transitions, is_running: true });
        Work { log: self.clone(), number: state.spans.len() - 1, not_held_since: None }
    }

    /// Checks a request that the server has applied. A release of the lease is recorded, and no
    /// work of its term may still run. A write by the work of a term must not follow the term's
    /// release.
    pub fn applied(&self, server: &ApiServer, kind: Kind, body: &[u8]) {
        let Ok(written) = serde_json::from_slice::<Value>(body) else { return };
        let mut state = self.0.lock();
        if kind == Kind::Write && written["spec"]["holderIdentity"] == "" {
            let lease = server.get(&leases(), "shop", "counter").unwrap_or_default();
            let uid = lease["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let transitions = written["spec"]["leaseTransitions"].as_i64().unwrap_or_default();
            state.line(format_args!("term {transitions} is released"));
            let holds = state.spans.iter().any(|span| {
                span.is_running && span.uid == uid && i64::from(span.transitions) == transitions
            });
            if holds {
                state.violation(format_args!("term {transitions} is released during its work"));
            }
            state.released.insert((uid, transitions));
        }
        if kind == Kind::Work {
            let uid = written["data"]["uid"].as_str().unwrap_or_default().to_owned();
            let term = written["data"]["term"].as_str().and_then(|term| term.parse().ok());
            let Some(term) = term else { return };
            if state.released.contains(&(uid, term)) {
                state.violation(format_args!("a write of term {term} follows its release"));
            }
        }
    }

    /// Returns the candidates that lead.
    pub fn leaders(&self) -> Vec<usize> {
        let state = self.0.lock();
        state.spans.iter().filter(|span| span.is_running).map(|span| span.candidate).collect()
    }

    pub fn outcome(self) -> Outcome {
        let mut state = self.0.lock();
        Outcome {
            lines: std::mem::take(&mut state.lines),
            violations: std::mem::take(&mut state.violations),
            leaders: state.spans.len(),
            faults: state.faults,
        }
    }
}

/// The work of a leader.
pub struct Work {
    log: Log,
    number: usize,
    /// The time when this work was first found to continue after its term had ended.
    not_held_since: Option<Instant>,
}

impl Work {
    /// Checks that the leader may work now: no leader of a later term has begun, and the term is
    /// held, or ended a moment ago by a wall clock that was set.
    pub fn works(&mut self, term: &Term) {
        let mut state = self.log.0.lock();
        let candidate = state.spans[self.number].candidate;
        if has_successor(&state.spans, self.number) {
            state.overlap(format_args!("{candidate} works after its successor has begun"));
        }
        if term.is_held() {
            return;
        }
        let since = *self.not_held_since.get_or_insert_with(Instant::now);
        if !state.stepped.contains(&candidate) || since.elapsed() > NOTICED {
            state.violation(format_args!("{candidate} works after its term has ended"));
        }
    }
}

/// Returns whether a leader has begun in a later term than that of span `number`, or has begun
/// later with another lease. Spans of one lease are compared by term, and not by their order,
/// because the answer to a claim may arrive after the leader of the next term has begun.
fn has_successor(spans: &[Span], number: usize) -> bool {
    let Span { uid, transitions, .. } = &spans[number];
    spans.iter().enumerate().any(|(other, span)| {
        if span.uid == *uid { span.transitions > *transitions } else { other > number }
    })
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut state = self.log.0.lock();
        let span = &mut state.spans[self.number];
        span.is_running = false;
        let (candidate, transitions) = (span.candidate, span.transitions);
        state.line(format_args!("{candidate} ends its work in term {transitions}"));
    }
}

#[test]
fn successor_is_the_leader_of_a_later_term_in_any_order() {
    let span = |uid: &str, transitions| Span {
        candidate: 0,
        uid: uid.to_owned(),
        transitions,
        is_running: true,
    };
    // Term 5 was claimed before term 6, and its leader heard of it afterwards.
    let spans = [span("a", 4), span("a", 6), span("a", 5), span("b", 1), span("b", 2)];
    let of_two = |number| has_successor(&spans[..3], number);
    assert_eq!([0, 1, 2].map(of_two), [true, false, true]);
    assert_eq!([1, 2, 3, 4].map(|number| has_successor(&spans, number)), [true, true, true, false]);
}
