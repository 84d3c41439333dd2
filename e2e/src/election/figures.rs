//! The numbers and times that a scenario prints.

use std::collections::BTreeMap;
use std::fmt;

use super::fault::Fault;
use super::trial::Outcome;
use crate::times::Times;

/// The outcomes of all trials.
#[derive(Default)]
pub struct Figures(pub Vec<Outcome>);

impl Figures {
    /// Returns the number of trials in which this fault ended the term of the leader.
    pub fn trials(&self, fault: Fault) -> usize {
        self.handovers(fault).len()
    }

    /// Returns the handovers after this fault.
    fn handovers(&self, fault: Fault) -> Times {
        let outcomes = self.0.iter().filter(|outcome| outcome.fault == fault);
        outcomes.filter_map(|outcome| outcome.handover).collect()
    }

    fn sum(&self, number: impl Fn(&Outcome) -> usize) -> usize {
        self.0.iter().map(number).sum()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in Fault::ALL {
            let trials = self.trials(fault);
            if trials > 0 {
                write!(f, "{fault}={trials} ")?;
            }
        }
        let overlaps = self.sum(|outcome| outcome.verdict.versioned.overlapped);
        let late = self.sum(|outcome| outcome.verdict.versioned.late);
        write!(f, "overlaps={overlaps} late={late}; without versions ")?;
        let overlaps = self.sum(|outcome| outcome.verdict.plain.overlapped);
        let late = self.sum(|outcome| outcome.verdict.plain.late);
        write!(f, "overlaps={overlaps} late={late}")?;
        for fault in Fault::ALL {
            let late = self.sum(|outcome| {
                let faults = outcome.verdict.plain;
                if outcome.fault == fault { faults.late } else { 0 }
            });
            if late > 0 {
                write!(f, " ({fault} {late})")?;
            }
        }
        let mut broken = BTreeMap::<_, usize>::new();
        for rule in self.0.iter().flat_map(|outcome| &outcome.verdict.broken) {
            *broken.entry(rule.rule).or_default() += 1;
        }
        for (rule, number) in broken {
            write!(f, "; {number} times {rule}")?;
        }
        let writes = self.sum(|outcome| outcome.verdict.writes);
        let terms = self.sum(|outcome| outcome.verdict.terms);
        let spoilt = self.sum(|outcome| usize::from(outcome.handover.is_none()));
        write!(
            f,
            "; {writes} writes in {terms} terms; {spoilt} leases lost without a fault; first write of the second leader"
        )?;
        for fault in Fault::ALL {
            let handovers = self.handovers(fault);
            if handovers.len() > 0 {
                write!(f, ", {fault}: {handovers}")?;
            }
        }
        Ok(())
    }
}
