//! The conformance vectors: the answers of the real client-go `DeltaFIFO`, step by step, and their
//! replay on the engines of this project.
//!
//! A file has one case a line, as a JSON object. Every case starts with a fresh queue. [`read`]
//! returns the cases of a file, [`Engine`] creates the subjects on which a case is replayed, and
//! [`Tally`] counts the answers that differ from the recorded ones.

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
