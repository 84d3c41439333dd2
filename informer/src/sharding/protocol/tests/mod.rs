//! Tests of single histories. `explore` covers their combinations.

mod assignment;
mod claims;
mod fencing;
mod joining;
mod renewals;
mod rig;
mod stopping;
