//! The conformance vectors: what the real client-go `DeltaFIFO` answered, step by step, replayed
//! on the engines here.
//!
//! A file has one JSON object a line, a case; every case starts a fresh queue. [`read`] gives the
//! cases of a file, [`Engine`] the subjects that a case runs on, and [`Tally`] counts where an
//! answer differs from the recorded one.

mod case;
mod compare;
mod convert;
mod deltafifo;
mod known;
mod mutex;
mod oracle_model;
mod read;
mod runner;
mod subject;

pub use case::{
    Action, Answer, Case, Config, Item, KnownKind, Listed, Obj, Op, Outcome, RecordedDelta, Step,
    Tombstone, Transform,
};
pub use compare::{Difference, compare};
pub use convert::{serial, to_oracle};
pub use read::{Cases, ReadError, cases, read};
pub use runner::{Mismatch, Tally};
pub use subject::{Engine, NamedSubject, ObjMeta, Subject};
