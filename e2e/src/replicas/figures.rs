//! The numbers and times that a scenario prints.

use std::fmt;
use std::time::Duration;

use super::fault::Fault;
use super::history::Entry;
use super::judge::Verdict;
use super::phases::{Phase, phase_of, rejoins, takeover, unserved};
use crate::times::Times;

/// The numbers and times of one group, or of several.
#[derive(Default)]
pub struct Figures {
    /// The faults that were inflicted.
    faults: Vec<Fault>,
    versioned: LateWrites,
    plain: LateWrites,
    writes: usize,
    terms: usize,
    changes: usize,
    /// The number of memberships that were lost without a fault: the machine was overloaded.
    lost: usize,
    /// The times from a kill until the first reconcile of an heir.
    first: Vec<Duration>,
    /// The times from a kill until the heirs have reconciled each config map of the replica.
    last: Vec<Duration>,
    /// The times that config maps were unserved at graceful moves.
    unserved: Vec<Duration>,
}

/// The faults that preceded overlapped and late writes.
#[derive(Default)]
struct LateWrites {
    overlapped: Vec<Fault>,
    late: Vec<Fault>,
}

impl Figures {
    /// Returns the figures of one group.
    ///
    /// # Errors
    /// A message if the verdict has a fault that is not permitted.
    pub fn of(history: &[Entry], phases: &[Phase], verdict: &Verdict) -> Result<Self, String> {
        if let Some(broken) = verdict.broken.first() {
            return Err(broken.to_string());
        }
        if let Some(version) = verdict.versioned.overlapped.first() {
            return Err(format!("the write {version} has a version and is overlapped"));
        }
        let fault_at = |version: &u64| phase_of(phases, *version).fault;
        let rejoins = rejoins(history);
        let is_planned = |phase: &Phase| {
            !rejoins.iter().any(|version| phase_of(phases, *version).from == phase.from)
        };
        for version in verdict.plain.late.iter().chain(&verdict.versioned.late) {
            let phase = phase_of(phases, *version);
            if phase.fault.permits_no_late_write() && is_planned(phase) {
                return Err(format!("the write {version} is late, after {}", phase.fault));
            }
        }
        let late_writes = |faults: &super::judge::Faults| LateWrites {
            overlapped: faults.overlapped.iter().map(fault_at).collect(),
            late: faults.late.iter().map(fault_at).collect(),
        };
        let kills = phases.iter().filter(|phase| phase.fault == Fault::Kill);
        let (first, last) = kills.filter_map(|phase| takeover(history, phase)).unzip();
        Ok(Self {
            faults: phases.iter().map(|phase| phase.fault).collect(),
            versioned: late_writes(&verdict.versioned),
            plain: late_writes(&verdict.plain),
            writes: verdict.writes,
            terms: verdict.terms,
            changes: verdict.changes,
            lost: rejoins.iter().filter(|it| fault_at(it).permits_no_late_write()).count(),
            first,
            last,
            unserved: unserved(history, phases),
        })
    }

    /// Adds the figures of other groups.
    pub fn add(&mut self, other: Self) {
        self.faults.extend(other.faults);
        self.versioned.add(other.versioned);
        self.plain.add(other.plain);
        self.writes += other.writes;
        self.terms += other.terms;
        self.changes += other.changes;
        self.lost += other.lost;
        self.first.extend(other.first);
        self.last.extend(other.last);
        self.unserved.extend(other.unserved);
    }

    /// Returns the number of faults of each kind, and the number of overlapped writes, of which
    /// only those without a version are permitted. `setting` is printed before that number.
    pub fn line(&self, setting: &str) -> String {
        let Self { versioned, plain, .. } = self;
        format!("{}{setting} {versioned}; without versions {plain}", Counts(&self.faults))
    }
}

impl LateWrites {
    fn add(&mut self, other: Self) {
        self.overlapped.extend(other.overlapped);
        self.late.extend(other.late);
    }
}

/// The number of faults of each kind. The start of a group counts as one join, and an outage of a
/// server counts once for each group.
struct Counts<'f>(&'f [Fault]);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in Fault::ALL {
            let number = self.0.iter().filter(|other| **other == fault).count();
            if number > 0 {
                write!(f, "{fault}={number} ")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for LateWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { overlapped, late } = self;
        write!(f, "overlaps={} late={}", overlapped.len(), late.len())?;
        if late.is_empty() {
            Ok(())
        } else {
            write!(f, " (after {})", Counts(late).to_string().trim())
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |times: &[Duration]| times.iter().copied().collect::<Times>();
        write!(
            f,
            "{} writes after {} changes in {} terms; {} memberships lost without a fault; kill to \
             the first reconcile of an heir {}, to the last {}; {} times unserved at a graceful \
             move {}",
            self.writes,
            self.changes,
            self.terms,
            self.lost,
            times(&self.first),
            times(&self.last),
            self.unserved.len(),
            times(&self.unserved)
        )
    }
}
