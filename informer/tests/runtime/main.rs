//! Controllers in kube's shape, against an API server in this process. The clock is paused, and nowhere is slept but in what a
//! controller is given to do.

mod next;
mod one_at_a_time;
mod rig;
mod runs;
mod shutdown;
mod store;
