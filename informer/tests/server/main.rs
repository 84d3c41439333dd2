//! The reflector against an API server in this process, through kube's client: what is sent, and
//! what is made of the bodies that come back, whole or not.

mod bodies;
mod default_client;
mod kinds;
mod large;
mod many;
mod rig;
