//! Tests of informers of several namespaces, each of which is listed and watched separately.

mod applied;
mod failures;
mod final_list;
mod foreign;
mod incomplete;
mod lifecycle;
mod random_labels;
mod random_sets;
mod removal;
mod rig;
mod set;
mod unwatched;
mod view;
