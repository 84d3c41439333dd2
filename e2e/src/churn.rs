//! Writers that change objects until they are stopped, even while the server is restarted.

use std::time::Duration;

use deltafifo::BoxError;
use kube::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::writer::{Write, Writer, name};

const WRITERS: usize = 4;
/// The delay before the next write of a writer whose write failed, for example because the server
/// did not respond.
const PAUSE: Duration = Duration::from_millis(50);

/// The running writers. Dropping the value stops them at once.
pub struct Churn {
    stop: watch::Sender<bool>,
    writers: JoinSet<usize>,
}

impl Churn {
    /// Starts the writers. Each of them changes its own part of `objects` objects, which exist
    /// already. One write in ten deletes an object, and a deleted object is created again.
    pub fn start(writer: &Writer, objects: usize) -> Self {
        let stop = watch::Sender::new(false);
        let mut writers = JoinSet::new();
        for first in 0..WRITERS {
            let mine: Vec<_> = (first..objects).step_by(WRITERS).map(name).collect();
            writers.spawn(write(writer.clone(), mine, stop.subscribe()));
        }
        Self { stop, writers }
    }

    /// Stops the writers. Returns the number of writes that the server confirmed.
    pub async fn stop(mut self) -> Result<usize, BoxError> {
        self.stop.send_replace(true);
        let mut written = 0;
        while let Some(writer) = self.writers.join_next().await {
            written += writer?;
        }
        Ok(written)
    }
}

async fn write(writer: Writer, mine: Vec<String>, stop: watch::Receiver<bool>) -> usize {
    let mut exists = vec![true; mine.len()];
    let mut written = 0;
    while !*stop.borrow() {
        let index = fastrand::usize(..mine.len());
        let write = match (exists[index], fastrand::u8(..10)) {
            (false, _) => Write::Create,
            (true, 0) => Write::Delete,
            (true, _) => Write::Update,
        };
        match writer.write(write, &mine[index]).await {
            Ok(()) => {
                exists[index] = !matches!(write, Write::Delete);
                written += 1;
            }
            // An earlier write whose response was lost has been done.
            Err(Error::Api(status)) if status.code == 404 => exists[index] = false,
            Err(Error::Api(status)) if status.code == 409 => exists[index] = true,
            Err(_) => sleep(PAUSE).await,
        }
    }
    written
}
