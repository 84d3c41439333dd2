//! The controllers that take part in the hand-overs of a group.

use std::sync::Arc;

use deltafifo::locks::Mutex;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::watch;

use super::shards::ShardSet;

/// A controller that takes part in the hand-overs of a group.
pub(crate) trait Participant: Send + Sync {
    /// Resolves when the stores of the controller hold a consistent list of these shards, begun
    /// after this call: every listed object in the listed version or a later one, and no other
    /// object of the shards from before the list. Failed requests are repeated.
    fn fill(&self, shards: ShardSet) -> BoxFuture<'static, ()>;

    /// Enqueues the keys of all objects of the shard.
    fn enqueue(&self, shard: u8);
}

/// The participants of a group. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Participants(Arc<Mutex<Joined>>);

#[derive(Default)]
struct Joined {
    present: Vec<Present>,
    /// The number of participants that have joined so far.
    last_number: u64,
}

#[derive(Clone)]
struct Present {
    number: u64,
    participant: Arc<dyn Participant>,
    /// Closed when the participant leaves.
    left: watch::Receiver<()>,
}

/// The participation of a controller. It leaves the group when this is dropped.
pub(crate) struct Participation {
    participants: Participants,
    number: u64,
    /// Held for its `Drop`, which ends a fill that waits for the participant.
    _left: watch::Sender<()>,
}

impl Participants {
    pub(super) fn join(&self, participant: Arc<dyn Participant>) -> Participation {
        let (sender, left) = watch::channel(());
        let mut joined = self.0.lock();
        joined.last_number += 1;
        let number = joined.last_number;
        joined.present.push(Present { number, participant, left });
        drop(joined);
        Participation { participants: self.clone(), number, _left: sender }
    }

    /// Waits until all participants have filled these shards, except those that leave. Participants
    /// that join before the end count as well.
    pub(super) async fn fill(self, shards: ShardSet) {
        let mut filled = 0;
        loop {
            let present = self.present();
            let new: Vec<_> = present.iter().filter(|present| present.number > filled).collect();
            let Some(newest) = new.last() else { return };
            filled = newest.number;
            join_all(new.into_iter().map(|present| present.fill(shards))).await;
        }
    }

    pub(super) fn enqueue(&self, shard: u8) {
        for Present { participant, .. } in self.present() {
            participant.enqueue(shard);
        }
    }

    /// Returns the participants in the order in which they have joined.
    fn present(&self) -> Vec<Present> {
        self.0.lock().present.clone()
    }
}

impl Present {
    async fn fill(&self, shards: ShardSet) {
        let mut left = self.left.clone();
        tokio::select! {
            biased;
            () = self.participant.fill(shards) => {}
            // Fails when the participant has left: nothing is sent.
            _ = left.changed() => {}
        }
    }
}

impl Drop for Participation {
    fn drop(&mut self) {
        let mut joined = self.participants.0.lock();
        let at = joined.present.iter().position(|present| present.number == self.number);
        let present = at.map(|at| joined.present.remove(at));
        // The participant may be dropped with `present`, which runs its code.
        drop(joined);
        drop(present);
    }
}
