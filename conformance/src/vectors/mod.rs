//! The conformance vectors: what the real client-go `DeltaFIFO` answered, step by step, replayed
//! on the engines here.
//!
//! A file has one JSON object a line, a case; every case starts a fresh queue. [`read`] gives the
//! cases of a file, [`Engine`] the subjects that a case runs on, and [`Tally`] counts where an
//! answer differs from the recorded one.

mod compare;
mod deltafifo;
mod known;
mod model;
mod mutex;
mod plain;
mod read;
mod runner;
mod spelled;
mod subject;

pub use compare::{Difference, compare};
pub use model::{
    Action, Answer, Case, Config, Item, KnownKind, Listed, Obj, Op, Outcome, RecordedDelta, Step,
    Tombstone, Transform,
};
pub use read::{Cases, ReadError, cases, read};
pub use runner::{Mismatch, Tally};
pub use spelled::{serial, spell};
pub use subject::{Engine, NamedSubject, ObjMeta, Subject};
