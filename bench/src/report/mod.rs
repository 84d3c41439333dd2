//! Reports: medians with their spread, the check that all engines did the same work, tables, JSON,
//! and plots.

mod behind;
mod check;
mod commit;
mod figure;
mod file;
mod groups;
mod join;
mod limits;
mod meaning;
mod medians;
mod outputs;
#[cfg(feature = "peers")]
mod page;
mod percentile;
mod plain;
#[cfg(feature = "peers")]
mod plots;
mod remarks;
mod run;
mod sound;
mod summary;
mod table;
mod whole;

#[cfg(test)]
mod tests;

pub use figure::figure;
pub use file::Unwritable;
pub use groups::distinct;
pub use join::join;
pub use meaning::meaning;
pub use outputs::Outputs;
pub use run::{Missed, Run, Verdict};
pub use summary::Summary;
use table::print;
pub use whole::{Report, foreign_report};
