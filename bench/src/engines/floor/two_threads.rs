//! The engine `floor-2-threads`: the steps of the floor on two threads. Each thread has a table for
//! half of the hashes. A list is taken in strides of two pieces. In the first step of a stride each
//! thread hashes the keys of one piece, and divides its objects by the thread that has their table.
//! Then the threads wait for each other, and in the second step each thread takes its objects of
//! both pieces through the remaining steps.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::vec::IntoIter;

use deltafifo::Meta;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::{GROUP, Probe, Table, touch};
use crate::data::write_key;
use crate::engines::{Counts, ListEngine};

/// Number of objects in a piece: so few that their keys stay in the cache until the second step.
const PIECE: usize = 8192;

/// Number of polls after which a waiting thread offers its core to other threads.
const POLLS: u32 = 1000;

/// The engine of the floor on two threads.
pub struct FloorTwoThreads<T, M> {
    meta: M,
    hasher: RandomState,
    /// The table of each thread.
    tables: [Mutex<Table<T>>; 2],
}

/// The objects of a piece that belong to the table of one thread.
struct Share<T> {
    /// The index of the first object of the piece in the list.
    first: usize,
    keys: String,
    probes: Vec<Probe>,
    objects: Vec<Arc<T>>,
}

/// A list while both threads take it. Each mutex is locked once in a step, by one thread.
struct Strides<T> {
    rest: Mutex<IntoIter<Arc<T>>>,
    length: usize,
    /// The shares of the even and of the odd strides, by the thread that hashed their keys and by
    /// the thread that has their table. There are two of each, because a thread may begin the next
    /// stride while the other thread is in the second step.
    shares: [[[Mutex<Share<T>>; 2]; 2]; 2],
    /// Number of pieces whose keys are hashed.
    hashed: AtomicUsize,
}

/// Returns the number of the thread that has the table of a hash. Tables use other bits.
fn owner(hash: u64) -> usize {
    usize::from(hash & (1 << 32) != 0)
}

impl<T> Share<T> {
    fn new() -> Self {
        Self { first: 0, keys: String::new(), probes: Vec::new(), objects: Vec::new() }
    }

    fn push(&mut self, hash: u64, key: &str, object: Arc<T>) {
        let start = self.keys.len();
        self.keys.push_str(key);
        self.probes.push(Probe { hash, start, end: self.keys.len() });
        self.objects.push(object);
    }

    /// Stores all objects, group by group.
    fn store(&mut self, meta: &impl Meta<T>, table: &mut Table<T>) {
        let mut objects = self.objects.drain(..);
        for probes in self.probes.chunks(GROUP) {
            table.store(meta, probes, &self.keys, &mut objects);
        }
        drop(objects);
        self.probes.clear();
        self.keys.clear();
    }
}

impl<T> Strides<T> {
    fn new(list: Vec<Arc<T>>) -> Self {
        let shares = || [(), ()].map(|()| [(), ()].map(|()| Mutex::new(Share::new())));
        Self {
            length: list.len(),
            rest: Mutex::new(list.into_iter()),
            shares: [shares(), shares()],
            hashed: AtomicUsize::new(0),
        }
    }

    /// Takes the next piece of the list. Returns the index of its first object.
    fn take(&self, piece: &mut Vec<Arc<T>>) -> usize {
        let mut rest = self.rest.lock();
        let first = self.length - rest.len();
        piece.extend(rest.by_ref().take(PIECE));
        first
    }

    /// Ends the first step of a stride: waits until both threads have hashed their pieces.
    fn meet(&self, stride: usize) {
        // The mutexes of the shares publish what was written.
        self.hashed.fetch_add(1, Ordering::Relaxed);
        let mut polls = 0;
        while self.hashed.load(Ordering::Relaxed) < 2 * (stride + 1) {
            polls += 1;
            if polls % POLLS == 0 {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl<T, M: Meta<T>> FloorTwoThreads<T, M> {
    pub fn new(meta: M) -> Self {
        let hasher = RandomState::default();
        let tables = [(), ()].map(|()| Mutex::new(Table::new(hasher.clone())));
        Self { meta, hasher, tables }
    }

    /// Takes a list through all steps, as one of the two threads.
    fn join(&self, strides: &Strides<T>, thread: usize) {
        let mut table = self.tables[thread].lock();
        table.begin_list(strides.length / 2);
        let (mut piece, mut key) = (Vec::with_capacity(PIECE), String::new());
        for stride in 0..strides.length.div_ceil(2 * PIECE) {
            let shares = &strides.shares[stride % 2];
            let first = strides.take(&mut piece);
            let mut own = shares[thread].each_ref().map(Mutex::lock);
            for share in &mut own {
                share.first = first;
            }
            let mut objects = piece.drain(..);
            while !objects.as_slice().is_empty() {
                let group = objects.as_slice();
                touch(group.iter().take(GROUP).map(|object| self.meta.name(object)));
                for object in objects.by_ref().take(GROUP) {
                    key.clear();
                    write_key(&self.meta, &*object, &mut key);
                    let hash = self.hasher.hash_one(key.as_bytes());
                    own[owner(hash)].push(hash, &key, object);
                }
            }
            drop((objects, own));
            strides.meet(stride);
            let mut shares = [0, 1].map(|by: usize| shares[by][thread].lock());
            // If a key is listed twice, its last object stays.
            shares.sort_unstable_by_key(|share| share.first);
            for share in &mut shares {
                share.store(&self.meta, &mut table);
            }
        }
        table.end_list();
    }
}

impl<T: Send + Sync, M: Meta<T>> ListEngine<T> for FloorTwoThreads<T, M> {
    // Freeing the objects of a list is not a step of the floor.
    const OWNS_LISTS: bool = false;
    type List = Vec<Arc<T>>;

    fn replace(&self, list: Vec<Arc<T>>, _version: &str) {
        let strides = &Strides::new(list);
        thread::scope(|scope| {
            scope.spawn(|| self.join(strides, 1));
            self.join(strides, 0);
        });
    }

    /// Returns the counts; `replace` has applied everything already.
    fn drain(&self) -> Counts {
        self.tables.iter().map(|table| std::mem::take(&mut table.lock().counts)).sum()
    }

    fn for_each_known(&self, mut visit: impl FnMut(&T)) {
        self.tables.iter().for_each(|table| table.lock().for_each_known(&mut visit));
    }
}
