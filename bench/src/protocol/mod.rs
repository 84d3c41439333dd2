//! How a child process tells its parent what it measured: one JSON object a line on standard
//! output, each with a single field that says what it is. The children in Go speak the same.

mod args;
mod child;
mod go;
mod interrupt;
mod lines;

pub use args::ChildArgs;
pub use child::{ChildFailed, run_child};
pub use go::{GoPeer, GoUnusable};
pub use interrupt::Interrupt;
pub use lines::{Done, Line, Measured, Output, Progress, Row};
