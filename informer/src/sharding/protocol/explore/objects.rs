//! The object of a shard, and the work of its owners.

use super::world::World;

/// The object of a shard on the server.
#[derive(Clone, Copy, Default, Hash)]
pub(super) struct Object {
    /// The number of writes.
    pub(super) version: u8,
    /// The version at the last claim of the shard.
    pub(super) at_claim: u8,
    /// The number of writes that were applied or are in flight.
    pub(super) writes: u8,
    /// The number of writes in flight of processes that have ended.
    pub(super) orphans: u8,
}

/// Returns whether the object exists in a version: every other write deletes it.
pub(super) fn exists_in(version: u8) -> bool {
    version.is_multiple_of(2)
}

/// The store, the work queue and the reconcile of a process, for the object of one shard.
#[derive(Clone, Default, Hash)]
pub(super) struct Reconciler {
    /// The version in the store.
    pub(super) stored: u8,
    /// The lists that were ordered: the number and the listed version.
    pub(super) lists: Vec<(u64, u8)>,
    /// The version when the last claim was sent.
    pub(super) before_claim: u8,
    pub(super) is_queued: bool,
    pub(super) is_running: bool,
    /// Whether a write of the reconcile is in flight.
    pub(super) is_writing: bool,
    /// The version from which the last reconcile of this term began.
    pub(super) reconciled: Option<u8>,
}

impl Reconciler {
    /// Returns whether no work is in progress.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_running && !self.is_writing
    }

    /// Returns whether the owner has a version in its store that no reconcile will see.
    pub(super) fn misses_key(&self) -> bool {
        !self.is_queued && self.reconciled != Some(self.stored)
    }
}

/// An event of an object or of its work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// Another client writes the object.
    Write,
    /// A write of a process that has ended is applied.
    OrphanArrives,
    /// The store takes the next version.
    Store,
    /// The store holds a list that was ordered.
    Fill(usize),
    /// A reconcile begins.
    Begin,
    /// The reconcile sends a write.
    Send,
    /// The write of the reconcile is applied and answered.
    Arrive,
    /// The reconcile ends, or is dropped.
    End,
}

impl World {
    /// Calls `next` with every change of the objects and their work that is possible.
    pub(super) fn changes(&self, most: u8, next: &mut impl FnMut(usize, usize, Change)) {
        for (shard, object) in self.objects.iter().enumerate() {
            if object.writes < most {
                next(0, shard, Change::Write);
            }
            if object.orphans > 0 {
                next(0, shard, Change::OrphanArrives);
            }
            for (index, process) in self.processes.iter().enumerate() {
                let Some(member) = &process.member else { continue };
                let reconciler = &process.reconcilers[shard];
                let admits = member.admits(u8::try_from(shard).expect("few shards")).is_some();
                if reconciler.stored < object.version {
                    next(index, shard, Change::Store);
                }
                for (at, (_, listed)) in reconciler.lists.iter().enumerate() {
                    if reconciler.stored >= *listed {
                        next(index, shard, Change::Fill(at));
                    }
                }
                if admits && reconciler.is_queued && reconciler.is_idle() {
                    next(index, shard, Change::Begin);
                }
                if reconciler.is_running {
                    next(index, shard, Change::End);
                    if !reconciler.is_writing && object.writes < most {
                        next(index, shard, Change::Send);
                    }
                }
                if reconciler.is_writing {
                    next(index, shard, Change::Arrive);
                }
            }
        }
    }

    pub(super) fn change(&mut self, index: usize, shard: usize, change: Change) {
        let object = &mut self.objects[shard];
        let process = &mut self.processes[index];
        let reconciler = &mut process.reconcilers[shard];
        let number = u8::try_from(shard).expect("few shards");
        match change {
            Change::Write => {
                object.writes += 1;
                object.version += 1;
            }
            Change::OrphanArrives => {
                object.orphans -= 1;
                object.version += 1;
            }
            Change::Store => {
                reconciler.stored += 1;
                let member = process.member.as_ref();
                reconciler.is_queued |=
                    member.is_some_and(|member| member.admits(number).is_some());
            }
            Change::Fill(at) => {
                let (list, _) = reconciler.lists.remove(at);
                process.member.iter_mut().for_each(|member| member.filled(number, list));
            }
            Change::Begin => {
                (reconciler.is_queued, reconciler.is_running) = (false, true);
                reconciler.reconciled = Some(reconciler.stored);
                self.is_stale |= reconciler.stored < object.at_claim;
            }
            Change::Send => {
                reconciler.is_writing = true;
                object.writes += 1;
            }
            Change::Arrive => {
                reconciler.is_writing = false;
                object.version += 1;
            }
            Change::End => reconciler.is_running = false,
        }
    }
}
