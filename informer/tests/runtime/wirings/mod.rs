//! Controllers that are wired like nine published operators: the same calls and the same bounds on
//! generic types, with other kinds and other names.

mod kinds;
mod kubes;
mod library;
mod ours;
