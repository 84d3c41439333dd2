//! The programs, over the runtime of the module that includes them.

use super::runtime;

pub mod any_kind;
pub mod bed;
pub mod beds_controller;
pub mod beds_mirror;
pub mod errand;
pub mod guarded_maps;
pub mod incidents;
pub mod kind_applied;
pub mod kind_schema;
pub mod kind_versions;
pub mod maps_copied;
pub mod nodes_cordoned;
pub mod nodes_mirror;
pub mod pod_grown;
pub mod pod_once;
pub mod pods_trimmed;
pub mod pods_unready;
pub mod secrets_mirror;
pub mod three_kinds;
pub mod two_controllers;
