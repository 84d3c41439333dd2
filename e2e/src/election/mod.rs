//! Elections on a real API server. Two candidates (`candidate`), each a process of its own, compete
//! for a lease. The leader writes its fencing token into two objects, one with and one without the
//! `resourceVersion`: each as fast as the server answers, or once, by a controller (`reconciler`).
//! A trial (`trial`) inflicts a fault (`fault`) on one lease, and ends when the other candidate has
//! led and written. A judge (`judge`) then reads the watch history of the lease and of the two
//! objects (`history`), and nothing else.
//!
//! This proves that in these runs no term wrote with a `resourceVersion` after a later term had
//! written. It also counts late writes, those after a later term has begun. It says nothing about
//! other timings, clocks of several machines, or an etcd with several members. Times and numbers of
//! late writes are those of one run.

pub mod candidate;
pub mod fault;
mod figures;
mod history;
mod judge;
mod reconciler;
mod trial;

pub use figures::Figures;
pub use history::Recorder;
pub use trial::Batch;

use crate::timing::Timing;

/// The options of a candidate, as its command line arguments.
#[derive(Clone, Copy, clap::Args)]
pub struct CandidateOptions {
    #[command(flatten)]
    pub timing: Timing,
    /// Write each object once in a term, by a controller, instead of as fast as the server answers
    #[arg(long)]
    pub once: bool,
    /// Release the lease after SIGTERM
    #[arg(long)]
    pub release_on_cancel: bool,
}

impl CandidateOptions {
    /// Returns the arguments that contain these options.
    fn arguments(self) -> Vec<String> {
        let mut arguments = Vec::from(self.timing.arguments());
        for (is_set, flag) in
            [(self.once, "--once"), (self.release_on_cancel, "--release-on-cancel")]
        {
            if is_set {
                arguments.push(flag.to_owned());
            }
        }
        arguments
    }
}
