//! The controllers and informers that take part in the hand-overs of a group.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture, join_all};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::shards::ShardSet;
use crate::lease::REPORT_EVERY;

/// Waits until `done` resolves. Each minute, calls `report` with the time that it has taken so far.
pub(super) async fn reporting(done: impl Future<Output = ()>, report: impl Fn(Duration)) {
    let mut done = pin!(done);
    let began = Instant::now();
    while timeout(REPORT_EVERY, &mut done).await.is_err() {
        report(began.elapsed());
    }
}

/// A controller, or an informer of a member's shards, that takes part in the hand-overs of a group.
pub(crate) trait Participant: Send + Sync {
    /// Returns the name of the participant, for people.
    fn title(&self) -> String;

    /// Resolves when the stores of the participant hold a consistent list of these shards, begun
    /// after this call: every listed object in the listed version or a later one, and no other
    /// object of the shards from before the list. Failed requests are repeated.
    fn fill(&self, shards: ShardSet) -> BoxFuture<'static, ()>;

    /// Enqueues the keys of all objects of the shards.
    fn enqueue(&self, _shards: ShardSet) {}

    /// Records that this member does not hold the shards any more. A fill of them that is in
    /// progress may end at once.
    fn release(&self, _shards: ShardSet) {}

    /// Resolves when the participant could work on shards: the informers that the reconciles of a
    /// controller wait for have synced, and an informer of shards has found that it can list.
    fn ready(&self) -> BoxFuture<'static, ()> {
        future::ready(()).boxed()
    }
}

/// The participants of a group. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Participants(Arc<Mutex<Joined>>);

#[derive(Default)]
struct Joined {
    present: Vec<Present>,
    /// The number of participants that have joined so far.
    last_number: u64,
    /// The number of announcements.
    announced: watch::Sender<usize>,
    /// The shards that this member was ordered to fill, and that were not released since.
    held: ShardSet,
}

#[derive(Clone)]
struct Present {
    number: u64,
    participant: Arc<dyn Participant>,
    /// Closed when the participant leaves.
    left: watch::Receiver<()>,
}

/// The participation of a controller or of an informer. It leaves the group when this is dropped.
pub(crate) struct Participation {
    participants: Participants,
    number: u64,
    /// Held for its `Drop`, which ends a fill that waits for the participant.
    _left: watch::Sender<()>,
}

/// The announcement of a controller that will join the group when it runs. It ends when this is
/// dropped.
pub(crate) struct Announcement(watch::Sender<usize>);

impl Drop for Announcement {
    fn drop(&mut self) {
        self.0.send_modify(|announced| *announced -= 1);
    }
}

impl Participants {
    pub(super) fn announce(&self) -> Announcement {
        let announced = self.0.lock().announced.clone();
        announced.send_modify(|announced| *announced += 1);
        Announcement(announced)
    }

    /// Adds the participant that `create` returns for the shards that the member holds. `create`
    /// must not run user code.
    pub(crate) fn join(
        &self,
        create: impl FnOnce(ShardSet) -> Arc<dyn Participant>,
    ) -> Participation {
        let (sender, left) = watch::channel(());
        let mut joined = self.0.lock();
        joined.last_number += 1;
        let number = joined.last_number;
        let participant = create(joined.held);
        joined.present.push(Present { number, participant, left });
        drop(joined);
        Participation { participants: self.clone(), number, _left: sender }
    }

    /// Waits until all participants have filled these shards, except those that leave. Participants
    /// that join before the end count as well. Shards that are released before the end do not. Each
    /// minute, calls `report` with the title of each participant that has not filled the shards,
    /// and the time that it has taken so far.
    pub(super) fn fill<R>(
        &self,
        shards: ShardSet,
        report: R,
    ) -> impl Future<Output = ()> + Send + use<R>
    where
        R: Fn(String, Duration) + Send + Sync,
    {
        let mut joined = self.0.lock();
        joined.held = joined.held.or(shards);
        drop(joined);
        let participants = self.clone();
        async move {
            let mut last = 0;
            while let Some((new, held)) = participants.newer(&mut last) {
                let shards = shards.and(held);
                if shards.is_empty() {
                    // A fill of no shards would list nevertheless, and delay the next one.
                    return;
                }
                join_all(new.iter().map(|present| present.fill(shards, &report))).await;
            }
        }
    }

    /// Waits until all participants are ready, except those that leave. If `awaits_announced` is
    /// set, waits also until no controller is announced that has not joined. Controllers that are
    /// announced before the end count as well.
    pub(super) async fn ready(self, awaits_announced: bool) {
        let mut announced = self.0.lock().announced.subscribe();
        let mut last = 0;
        loop {
            // Fails only if the sender is dropped, and `self` has one.
            let _ = announced.wait_for(|announced| *announced == 0 || !awaits_announced).await;
            let Some((new, _)) = self.newer(&mut last) else { return };
            join_all(new.iter().map(Present::ready)).await;
        }
    }

    pub(super) fn enqueue(&self, shards: ShardSet) {
        for Present { participant, .. } in self.present() {
            participant.enqueue(shards);
        }
    }

    /// Notifies all participants that the member does not hold the shards any more.
    pub(super) fn release(&self, shards: ShardSet) {
        let mut joined = self.0.lock();
        joined.held = joined.held.without(shards);
        drop(joined);
        for Present { participant, .. } in self.present() {
            participant.release(shards);
        }
    }

    fn present(&self) -> Vec<Present> {
        self.0.lock().present.clone()
    }

    /// Returns the participants that have joined after that with the number `last`, and the held
    /// shards; `None` if there is no such participant. Sets `last` to the number of the newest.
    fn newer(&self, last: &mut u64) -> Option<(Vec<Present>, ShardSet)> {
        let joined = self.0.lock();
        let is_newer = |present: &&Present| present.number > *last;
        let newer: Vec<_> = joined.present.iter().filter(is_newer).cloned().collect();
        *last = newer.last()?.number;
        Some((newer, joined.held))
    }
}

impl Present {
    async fn fill(&self, shards: ShardSet, report: impl Fn(String, Duration)) {
        let filled = self.unless_left(self.participant.fill(shards));
        reporting(filled, |waited| report(self.participant.title(), waited)).await;
    }

    async fn ready(&self) {
        self.unless_left(self.participant.ready()).await;
    }

    /// Waits until `done` resolves, or the participant leaves.
    async fn unless_left(&self, done: BoxFuture<'static, ()>) {
        let mut left = self.left.clone();
        tokio::select! {
            biased;
            () = done => {}
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
