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
mod missed;
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
mod verdict;
mod whole;

pub use check::{Disagreement, check};
#[cfg(feature = "peers")]
pub use directory::Directory;
pub(crate) use figure::figure;
pub use file::Unwritable;
pub use join::{NotOne, join};
pub use meaning::meaning;
pub use missed::Missed;
pub use outputs::Outputs;
pub use run::Run;
pub use sound::Unsound;
pub use summary::Summary;
pub use table::print;
pub use verdict::Verdict;
pub use whole::{Report, Unreadable};
