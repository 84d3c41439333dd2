//! Replays a case, step by step, and compares each answer with the recorded one.

use std::fmt;

use deltafifo::{BoxError, Delta, DeltaObject, Deltas, KeySource};
use serde_json::{Map, Value};

use super::{Answer, Case, Engine, Obj, Op, Outcome, Step, Subject};

/// The number of mismatches that are kept in full.
const KEPT_MISMATCHES: usize = 10;

/// An answer that differs both from client-go's answer and from the documented one.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The name of the case.
    pub case: String,
    /// The number of the step, from 1.
    pub step: usize,
    /// The kind of known objects of the queue.
    pub way: &'static str,
    /// The operation.
    pub op: Op,
    /// The answer of client-go.
    pub want: Map<String, Value>,
    /// The members of the answer that differ from client-go's on purpose, as documented.
    pub ours: Option<Map<String, Value>>,
    /// The answer of the engine.
    pub got: Value,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = serde_json::to_string(&self.op).map_err(|_| fmt::Error)?;
        let want = serde_json::to_string(&self.want).map_err(|_| fmt::Error)?;
        writeln!(f, "{}, step {}, {}", self.case, self.step, self.way)?;
        write!(f, "  op   {op}\n  want {want}\n  got  {}", self.got)?;
        if let Some(ours) = &self.ours {
            let ours = serde_json::to_string(ours).map_err(|_| fmt::Error)?;
            write!(
                f,
                "\n  ours {ours}, documented as a difference: the answer must have this instead"
            )?;
        }
        Ok(())
    }
}

/// The counts of a replay.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of replayed cases.
    pub cases: usize,
    /// The number of replayed steps. A step that is replayed with two kinds of known objects
    /// counts once.
    pub steps: usize,
    /// The number of wrong answers, counted for each kind of known objects.
    pub mismatches: usize,
    /// The number of answers that differ from client-go's as documented, counted for each kind of
    /// known objects.
    pub differences: usize,
    /// The first mismatches.
    pub first: Vec<Mismatch>,
}

impl Tally {
    /// Replays a case on fresh queues of `engine`. The replay continues after a mismatch.
    ///
    /// # Errors
    /// If a queue cannot be created, or an answer cannot be serialised.
    pub fn replay(&mut self, case: &Case, engine: Engine) -> Result<(), BoxError> {
        for (way, mut subject) in engine.subjects(&case.config)? {
            for (index, step) in case.steps.iter().enumerate() {
                let got = serde_json::to_value(answer(&mut *subject, &step.op))?;
                if got.as_object() != Some(&step.expected()) {
                    self.count(case, index + 1, way, step, got);
                } else if step.ours.is_some() {
                    self.differences += 1;
                }
            }
        }
        self.cases += 1;
        self.steps += case.steps.len();
        Ok(())
    }

    fn count(&mut self, case: &Case, number: usize, way: &'static str, step: &Step, got: Value) {
        self.mismatches += 1;
        if self.first.len() < KEPT_MISMATCHES {
            let Step { op, want, ours } = step.clone();
            self.first.push(Mismatch {
                case: case.name.clone(),
                step: number,
                way,
                op,
                want,
                ours,
                got,
            });
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases, {} steps, {} mismatches", self.cases, self.steps, self.mismatches)
    }
}

/// Runs an operation on a queue under test, and returns its answer.
pub(super) fn answer(subject: &mut dyn Subject, op: &Op) -> Answer {
    let result = match op {
        Op::Add { item } => subject.add(item.into()),
        Op::Update { item } => subject.update(item.into()),
        Op::Delete { item } => subject.delete(item.into()),
        Op::Replace { list } => subject.replace(list.iter().map(Into::into).collect()),
        Op::Resync => subject.resync(),
        Op::Close => subject.close(),
        Op::AddIfNotPresent { deltas } => {
            subject.add_if_not_present(deltas.iter().map(Delta::from).collect())
        }
        Op::HasSynced => return Answer::Value { value: subject.has_synced() },
        Op::IsClosed => return Answer::Value { value: subject.is_closed() },
        Op::ListKeys => return keys(subject),
        Op::List => return newest(subject),
        Op::GetByKey { key } => return found(subject.get_by_key(key), Outcome::Ok),
        Op::Get { item } => {
            return match subject.get(source(&item.into())) {
                Ok(deltas) => found(deltas, Outcome::Ok),
                Err(error) => found(None, error.into()),
            };
        }
        Op::Pop { action } => return subject.pop(*action),
    };
    Answer::Result { result }
}

fn keys(subject: &mut dyn Subject) -> Answer {
    let mut keys = subject.list_keys();
    keys.sort_unstable();
    Answer::Keys { keys }
}

fn newest(subject: &mut dyn Subject) -> Answer {
    let mut newest = subject.list();
    newest.sort_by_cached_key(|delta| subject.key_of(source(&delta.object)).ok());
    Answer::Newest { newest: newest.iter().map(Into::into).collect() }
}

fn found(deltas: Option<Deltas<Obj>>, result: Outcome) -> Answer {
    let deltas = deltas.map(|deltas| deltas.iter().map(Into::into).collect::<Vec<_>>());
    Answer::Found { exists: deltas.is_some(), deltas, result }
}

fn source(object: &DeltaObject<Obj>) -> KeySource<'_, Obj> {
    match object {
        DeltaObject::Object(object) => KeySource::Object(object),
        DeltaObject::Tombstone(tombstone) => KeySource::Tombstone(tombstone),
    }
}
