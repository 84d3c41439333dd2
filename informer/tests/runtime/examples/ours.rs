//! The programs, compiled with this project's runtime.

pub use deltafifo_informer::runtime;

#[path = "programs/any_kind.rs"]
pub mod any_kind;
#[path = "programs/bed.rs"]
pub mod bed;
#[path = "programs/beds_controller.rs"]
pub mod beds_controller;
#[path = "programs/beds_mirror.rs"]
pub mod beds_mirror;
#[path = "programs/errand.rs"]
pub mod errand;
#[path = "programs/guarded_maps.rs"]
pub mod guarded_maps;
#[path = "programs/incidents.rs"]
pub mod incidents;
#[path = "programs/kind_applied.rs"]
pub mod kind_applied;
#[path = "programs/kind_schema.rs"]
pub mod kind_schema;
#[path = "programs/kind_versions.rs"]
pub mod kind_versions;
#[path = "programs/maps_copied.rs"]
pub mod maps_copied;
#[path = "programs/nodes_cordoned.rs"]
pub mod nodes_cordoned;
#[path = "programs/nodes_mirror.rs"]
pub mod nodes_mirror;
#[path = "programs/pod_grown.rs"]
pub mod pod_grown;
#[path = "programs/pod_once.rs"]
pub mod pod_once;
#[path = "programs/pods_trimmed.rs"]
pub mod pods_trimmed;
#[path = "programs/pods_unready.rs"]
pub mod pods_unready;
#[path = "programs/secrets_mirror.rs"]
pub mod secrets_mirror;
#[path = "programs/three_kinds.rs"]
pub mod three_kinds;
#[path = "programs/two_controllers.rs"]
pub mod two_controllers;

#[path = "behaviour.rs"]
mod behaviour;
