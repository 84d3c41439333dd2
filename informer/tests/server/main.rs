//! Tests of the reflector against an API server in this process, through kube's client: its
//! requests, and its reaction to complete and incomplete bodies.

mod bodies;
mod default_client;
mod kinds;
mod large;
mod many;
mod rig;
