//! Any operations on every engine, each in every way of holding what is known, and each answer
//! compared with the plain model's: where nothing was recorded, the model says what client-go
//! would have.

use std::collections::BTreeSet;

use deltafifo::BoxError;

use super::runner::answer;
use super::{Action, Answer, Config, Engine, NamedSubject, Op, Subject};

/// After how many operations the whole queue is walked, which takes far longer than an operation.
const WALK_EVERY: usize = 8;

/// An answer that is not the model's.
#[derive(Debug, thiserror::Error)]
#[error("{engine:?}, {way}: {op:?}\n  model {want:?}\n  got   {got:?}")]
pub struct Difference {
    /// Whose answer it is.
    pub engine: Engine,
    /// How the queue held what it knows.
    pub way: &'static str,
    /// What was done.
    pub op: Op,
    /// What the model answered.
    pub want: Answer,
    /// What the engine answered.
    pub got: Answer,
}

/// Does `ops` to all engines, asks what is pending after each, and drains them at the end; then
/// what is known is compared, as the Syncs of a resync.
///
/// # Errors
/// A [`Difference`], or a queue that cannot be set up.
pub fn compare(config: &Config, ops: &[Op]) -> Result<(), BoxError> {
    let mut subjects = Subjects::new(config)?;
    for (number, op) in ops.iter().enumerate() {
        subjects.step(op)?;
        subjects.query(number % WALK_EVERY == 0)?;
    }
    subjects.drain()?;
    // What is known in the end: a Sync of each.
    subjects.step(&Op::Resync)?;
    subjects.drain()
}

struct Subjects {
    model: Box<dyn Subject>,
    engines: Vec<(Engine, NamedSubject)>,
    /// Keys that were ever pending.
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

    /// Does one thing to all, and gives what all answered.
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
