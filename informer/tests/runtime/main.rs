//! Controllers in kube's shape, against an API server in this process. The clock is paused, and nowhere is slept but in what a
//! controller is given to do.

mod debounced;
mod deleted;
mod next;
mod one_at_a_time;
mod owned;
mod rig;
mod runs;
mod shared;
mod shutdown;
mod store;
mod twins;
mod watched;
