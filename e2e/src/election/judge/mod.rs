//! Judges the history of a lease.
//!
//! A write is *overlapped* if a write of a later term ([`Terms`]) to the same object precedes it. A
//! write is *late* if the claim of a later term precedes it; so every overlapped write is late.
//!
//! In every history the versions must rise. Otherwise the record is wrong, and an error is
//! returned.
//!
//! An elector must keep the rules of [`Terms`], and this one: a write names a term that has begun,
//! with its holder. The verdict lists the entries that break a rule. A write that breaks a rule
//! belongs to no term, and is not counted.

#[cfg(test)]
mod tests;

use super::history::{Change, Entry};
use crate::history::{BrokenRule, Object, Terms, check_versions};

/// The numbers of overlapped and late writes, by object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub versioned: Faults,
    pub plain: Faults,
    /// The number of terms.
    pub terms: usize,
    /// The number of writes, to both objects.
    pub writes: usize,
    /// The entries that break a rule of electors.
    pub broken: Vec<BrokenRule>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub overlapped: usize,
    pub late: usize,
}

/// Judges the complete history of one lease.
///
/// # Errors
/// A message with the entry that shows that the record is wrong.
pub fn judge(history: &[Entry]) -> Result<Verdict, String> {
    check_versions(history)?;
    let mut verdict = Verdict::default();
    let mut terms = Terms::default();
    // The last terms that have written the objects.
    let mut written = [None; 2];
    for entry in history {
        match &entry.change {
            Change::Lease(lease) => {
                let broken = terms.add(entry.version, lease.as_ref());
                for rule in broken.map_err(|reason| format!("{reason}: {entry}"))? {
                    verdict.broken.push(BrokenRule::new(rule, entry));
                }
            }
            Change::Write { object, token, identity } => {
                let number = match terms.number_of(token, identity) {
                    Ok(number) => number,
                    Err(rule) => {
                        verdict.broken.push(BrokenRule::new(rule, entry));
                        continue;
                    }
                };
                let (faults, last) = match object {
                    Object::Versioned => (&mut verdict.versioned, &mut written[0]),
                    Object::Plain => (&mut verdict.plain, &mut written[1]),
                };
                faults.overlapped += usize::from(*last > Some(number));
                faults.late += usize::from(number + 1 < terms.all().len());
                *last = (*last).max(Some(number));
                verdict.writes += 1;
            }
        }
    }
    verdict.terms = terms.all().len();
    Ok(verdict)
}
