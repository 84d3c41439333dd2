//! Judges the history of a lease.
//!
//! A *term* begins with a claim: a change of the lease to another holder, or to a larger number of
//! transitions. Terms are in the order of their claims. A write is *overlapped* if a write of a
//! later term to the same object precedes it. A write is *late* if the claim of a later term
//! precedes it; so every overlapped write is late.
//!
//! In every history the versions must rise, the uid of a lease changes only after a deletion, and
//! no uid returns. Otherwise the record is wrong, and an error is returned.
//!
//! An elector must keep these rules: the transitions of a lease never fall; a lease gets another
//! holder only with a larger number of transitions; a term has a holder; a write names a term that
//! has begun, with its holder. The verdict lists the entries that break a rule. A write that breaks
//! a rule belongs to no term, and is not counted.

#[cfg(test)]
mod tests;

use std::fmt;

use super::history::{Change, Entry, Object, Token};

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

/// A rule of electors, and the entry that breaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    pub rule: &'static str,
    pub entry: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub overlapped: usize,
    pub late: usize,
}

/// A term. It is identified by its number in the sequence of terms.
struct Term<'h> {
    token: &'h Token,
    holder: &'h str,
}

/// Judges the complete history of one lease.
///
/// # Errors
/// A message with the entry that shows that the record is wrong.
pub fn judge(history: &[Entry]) -> Result<Verdict, String> {
    let mut verdict = Verdict::default();
    let mut uids: Vec<&str> = Vec::new();
    // The last state of the lease, with its holder.
    let mut lease: Option<(&Token, Option<&str>)> = None;
    let mut terms: Vec<Term> = Vec::new();
    // The last terms that have written the objects.
    let mut written = [None; 2];
    let mut version = 0;
    for entry in history {
        let wrong = |rule: &str| Err(format!("{rule}: {entry}"));
        let mut broken = |rule| verdict.broken.push(BrokenRule { rule, entry: entry.to_string() });
        if entry.version <= version {
            return wrong("the versions fall");
        }
        version = entry.version;
        match &entry.change {
            Change::Lease { token, holder } => {
                let holder = holder.as_deref();
                let (transitions, last_holder) = match lease {
                    None if uids.contains(&token.uid.as_str()) => return wrong("a uid returns"),
                    None => {
                        uids.push(&token.uid);
                        // The creator of a lease may be its holder, but then has no term.
                        (0, holder)
                    }
                    Some((last, _)) if last.uid != token.uid => {
                        return wrong("the uid changes without a deletion");
                    }
                    Some((last, last_holder)) => (last.transitions, last_holder),
                };
                let is_other = holder.is_some() && holder != last_holder;
                if is_other && token.transitions == transitions {
                    broken("the holder changes without a transition");
                }
                if token.transitions < transitions {
                    broken("the transitions fall");
                }
                if is_other || token.transitions > transitions {
                    match holder {
                        Some(holder) => terms.push(Term { token, holder }),
                        None => broken("a term has no holder"),
                    }
                }
                lease = Some((token, holder));
            }
            Change::LeaseDeleted => lease = None,
            Change::Write { object, token, identity } => {
                let is_term = |term: &Term| term.token == token && term.holder == identity;
                let Some(number) = terms.iter().rposition(is_term) else {
                    let has_begun = terms.iter().any(|term| term.token == token);
                    broken(if has_begun {
                        "the writer is not the holder of its term"
                    } else {
                        "the term has not begun"
                    });
                    continue;
                };
                let (faults, last) = match object {
                    Object::Versioned => (&mut verdict.versioned, &mut written[0]),
                    Object::Plain => (&mut verdict.plain, &mut written[1]),
                };
                faults.overlapped += usize::from(*last > Some(number));
                faults.late += usize::from(number + 1 < terms.len());
                *last = (*last).max(Some(number));
                verdict.writes += 1;
            }
        }
    }
    verdict.terms = terms.len();
    Ok(verdict)
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.entry)
    }
}
