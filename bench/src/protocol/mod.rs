//! The protocol between a child process and its parent. Each line of the child's standard output
//! is a JSON object with a single field, whose name is the kind of the line. The children in Go
//! use the same protocol.

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
pub use lines::{Line, Measured, Progress, Row};
