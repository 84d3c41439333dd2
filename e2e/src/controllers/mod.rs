//! Three controllers, each compiled twice: with kube's runtime and with this project's. Only the
//! imports differ.
//!
//! | | relation | result |
//! | --- | --- | --- |
//! | `counter` | owns pods, finalizer | a config map's annotation `pods`: the number of pods that it owns |
//! | `users` | watches pods, by an annotation | a config map's annotation `users`: the number of pods that use it |
//! | `mirror` | owns secrets | for each config map with the label `mirror`, a secret with its data |

mod cluster;
mod kubes;
mod ours;
mod watches;

use std::future::{pending, ready};

use futures_util::{Stream, StreamExt};
use kube::Client;
use tokio::task::JoinHandle;

pub use cluster::Cluster;
pub use watches::Watches;

/// The three controllers while they run. Dropping the value stops them.
pub struct Controllers([JoinHandle<()>; 3]);

impl Controllers {
    pub fn of_kube(client: &Client) -> Self {
        Self([
            spawn(kubes::counter::run(client.clone(), pending())),
            spawn(kubes::users::run(client.clone(), pending())),
            spawn(kubes::mirror::run(client.clone(), pending())),
        ])
    }

    pub fn ours(client: &Client) -> Self {
        Self([
            spawn(ours::counter::run(client.clone(), pending())),
            spawn(ours::users::run(client.clone(), pending())),
            spawn(ours::mirror::run(client.clone(), pending())),
        ])
    }
}

/// Polls a controller in a task. The controller's error policy handles errors, so the items of the
/// stream are dropped.
fn spawn(controller: impl Stream + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(controller.for_each(|_| ready(())))
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
