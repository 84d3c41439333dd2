//! Tests of objects whose destructors all panic: every object is dropped, and exactly one panic
//! propagates.

mod containers;
mod errors;
mod handlers;
mod lists;
mod outcomes;
mod readers;
mod rig;
mod user_code;
