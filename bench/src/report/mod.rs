//! Reports: medians with their spread, the check that all engines did the same work, tables, JSON,
//! and a page with plots.

mod behind;
mod check;
mod commit;
#[cfg(feature = "peers")]
mod directory;
mod figure;
mod file;
mod groups;
mod join;
mod losses;
mod meaning;
mod outputs;
#[cfg(feature = "peers")]
mod page;
mod percentile;
mod plain;
#[cfg(feature = "peers")]
mod plots;
mod remarks;
mod run;
mod sanity;
mod sound;
mod summary;
mod table;
mod whole;

#[cfg(all(test, feature = "peers"))]
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
pub use whole::Report;
