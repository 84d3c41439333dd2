//! Tests of an informer's namespaces over a queue that refuses scopes and whose commits wait, with
//! scripts of lists and watches.

mod final_list;
mod polling;
mod queue;
mod restores;
mod rig;
mod scopes;
