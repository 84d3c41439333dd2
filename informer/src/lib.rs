//! What stands around a `deltafifo` in a controller, on tokio. For now:
//!
//! * [`workqueue`]: the queue of keys between event handlers and reconcilers (client-go `util/workqueue`), with the
//!   priorities of controller-runtime.

pub mod workqueue;
