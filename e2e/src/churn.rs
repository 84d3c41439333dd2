//! Four writers that change objects until they are told to stop, whatever becomes of the server meanwhile.

use std::time::Duration;

use deltafifo::BoxError;
use kube::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::writer::{Write, Writer, name};

const WRITERS: usize = 4;
/// Before the next try of a server that did not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// Writers at work. Dropped, they stop where they are.
pub struct Churn {
    stop: watch::Sender<bool>,
    writers: JoinSet<usize>,
}

impl Churn {
    /// Each writer has its part of `objects` objects, which are there: of ten writes one deletes, and what is deleted
    /// is created again.
    pub fn start(writer: &Writer, objects: usize) -> Self {
        let stop = watch::Sender::new(false);
        let mut writers = JoinSet::new();
        for first in 0..WRITERS {
            let mine: Vec<_> = (first..objects).step_by(WRITERS).map(name).collect();
            writers.spawn(write(writer.clone(), mine, stop.subscribe()));
        }
        Self { stop, writers }
    }

    /// Has the writers end. How many writes the server has said yes to.
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
        let which = fastrand::usize(..mine.len());
        let what = match (exists[which], fastrand::u8(..10)) {
            (false, _) => Write::Create,
            (true, 0) => Write::Delete,
            (true, _) => Write::Update,
        };
        match writer.write(what, &mine[which]).await {
            Ok(()) => {
                exists[which] = !matches!(what, Write::Delete);
                written += 1;
            }
            // A write before it, to which there was no answer, has been done.
            Err(Error::Api(status)) if status.code == 404 => exists[which] = false,
            Err(Error::Api(status)) if status.code == 409 => exists[which] = true,
            Err(_) => sleep(PAUSE).await,
        }
    }
    written
}
