//! Runs any operations on every engine, with every kind of known objects, and compares each answer
//! with the answer of the oracle's model. The model stands in for client-go where no answer was
//! recorded.

use std::collections::BTreeSet;

use deltafifo::BoxError;

use super::runner::answer;
use super::{Action, Answer, Config, Engine, NamedSubject, Op, Subject};

/// The number of operations between two listings of the whole queue. A listing takes far longer
/// than an operation.
const WALK_EVERY: usize = 8;

/// The error of an engine's answer that differs from the model's.
#[derive(Debug, thiserror::Error)]
#[error("{engine:?}, {way}: {op:?}\n  model {want:?}\n  got   {got:?}")]
pub struct Difference {
    /// The engine that gave the answer.
    pub engine: Engine,
    /// The kind of known objects of the engine's queue.
    pub way: &'static str,
    /// The operation.
    pub op: Op,
    /// The model's answer.
    pub want: Answer,
    /// The engine's answer.
    pub got: Answer,
}

/// Runs `ops` on all engines, and compares the pending deltas after each operation. At the end it
/// drains the queues, and compares the known objects by the Syncs of a resync.
///
/// # Errors
/// A [`Difference`], or an error if a queue cannot be created.
pub fn compare(config: &Config, ops: &[Op]) -> Result<(), BoxError> {
    let mut subjects = Subjects::new(config)?;
    for (number, op) in ops.iter().enumerate() {
        subjects.step(op)?;
        subjects.query(number % WALK_EVERY == 0)?;
    }
    subjects.drain()?;
    // The Syncs of a resync show the known objects.
    subjects.step(&Op::Resync)?;
    subjects.drain()
}

struct Subjects {
    model: Box<dyn Subject>,
    engines: Vec<(Engine, NamedSubject)>,
    /// Every key that was ever pending.
    seen: BTreeSet<String>,
}

impl Subjects {
    fn new(config: &Config) -> Result<Self, BoxError> {
        let mut engines = Vec::new();
        for engine in [Engine::Deltafifo, Engine::Mutex] {
            engines.extend(engine.subjects(config)?.into_iter().map(|subject| (engine, subject)));
        }
        let model = Engine::Model.subjects(config)?.pop().ok_or("the model has one way")?.1;
        Ok(Self { model, engines, seen: BTreeSet::new() })
    }

    /// Runs one operation on the model and on all engines, and returns their common answer.
    fn step(&mut self, op: &Op) -> Result<Answer, Box<Difference>> {
        let want = answer(&mut *self.model, op);
        for (engine, (way, subject)) in &mut self.engines {
            let got = answer(&mut **subject, op);
            if got != want {
                return Err(Box::new(Difference {
                    engine: *engine,
                    way,
                    op: op.clone(),
                    want,
                    got,
                }));
            }
        }
        Ok(want)
    }

    fn drain(&mut self) -> Result<(), BoxError> {
        while !matches!(self.step(&Op::Pop { action: Action::Apply })?, Answer::Result { .. }) {
            self.query(false)?;
        }
        Ok(self.query(true)?)
    }

    fn query(&mut self, walk: bool) -> Result<(), Box<Difference>> {
        self.step(&Op::HasSynced)?;
        self.step(&Op::IsClosed)?;
        self.seen.extend(self.model.list_keys());
        for key in self.seen.iter().cloned().collect::<Vec<_>>() {
            self.step(&Op::GetByKey { key })?;
        }
        if walk {
            self.step(&Op::ListKeys)?;
            self.step(&Op::List)?;
        }
        Ok(())
    }
}
