//! From rows to what a person reads: medians with their spread, the check that all engines did the same work, the
//! tables, the JSON, and a page with plots.

mod check;
mod directory;
mod figure;
mod machine;
mod page;
mod plots;
mod run;
mod summary;
mod table;
mod verdicts;
pub mod versions;

pub use check::{Disagreement, check};
pub use directory::{Directory, Unwritable};
pub use machine::Machine;
pub use run::Run;
pub use summary::{Report, Summary};
pub use table::print;
