//! Delivers changes to handlers: the list of handlers, a buffer and a walk for each, and the
//! threads, tasks and streams that run them. The docs of
//! [`shared_informer`](crate::shared_informer) show the path of a change in a drawing.

mod buffers;
mod distributor;
mod feed;
mod handler;
mod notification;
mod protocol;
mod registration;
mod runner;
mod step;

pub use buffers::Buffer;
pub(super) use distributor::{ActiveKeyGuard, Distributor};
pub use handler::{EventHandler, HandlerOptions};
pub use notification::{Cause, Notification};
pub use registration::Registration;
pub use runner::Subscription;
#[cfg(deltafifo_shuttle)]
pub(super) use runner::run_handler;
pub(super) use runner::{spawn_task, spawn_thread};
