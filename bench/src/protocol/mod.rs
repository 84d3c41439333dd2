//! The protocol between a child process and its parent: one JSON object a line on the child's
//! standard output, with a single field that names the kind of line. The children in Go use the
//! same protocol.

mod args;
mod child;
mod go;
mod interrupt;
mod lines;
pub mod output;

pub use args::{ChildArgs, Settings};
pub use child::{ChildFailed, run_child};
pub use go::GoPeer;
pub use interrupt::Interrupt;
pub use lines::{Done, Line, Measured, Progress, Row};
