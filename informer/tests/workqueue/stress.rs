//! A stress test on real threads, with an oracle. Each key is processed at least once after its
//! last add and never by two workers at once, and no key is lost although getters are dropped all
//! the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use deltafifo_informer::workqueue::{AddOptions, Item, WorkQueue};
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::common::ms;

const KEYS: usize = 64;
const PRODUCERS: usize = 4;
const ADDS: u32 = 20_000;

#[derive(Default)]
struct Truth {
    /// The number of adds of the key, which is increased before each add.
    added: AtomicU32,
    /// The value of `added` when the key was last taken for processing.
    seen: AtomicU32,
    busy: AtomicBool,
}

struct World {
    queue: WorkQueue<usize>,
    keys: [Truth; KEYS],
    progress: Notify,
}

impl World {
    fn add(&self, random: &mut fastrand::Rng) {
        let key = random.usize(..KEYS);
        let options = AddOptions::new().priority(random.i32(-2..3));
        let options = match random.u32(..20) {
            0 => options.after(ms(random.u64(1..4))),
            1 => options.after(Duration::ZERO),
            _ => options,
        };
        self.keys[key].added.fetch_add(1, Ordering::SeqCst);
        self.queue.add_with(key, options);
    }

    async fn process(&self, item: Item<usize>, random: &mut fastrand::Rng) {
        let key = &self.keys[*item.key()];
        assert!(!key.busy.swap(true, Ordering::SeqCst), "{item:?} is processed by two");
        key.seen.fetch_max(key.added.load(Ordering::SeqCst), Ordering::SeqCst);
        if random.u32(..8) == 0 {
            yield_now().await;
        }
        assert!(key.busy.swap(false, Ordering::SeqCst));
        item.done();
        self.progress.notify_one();
    }

    fn is_up_to_date(&self) -> bool {
        self.keys
            .iter()
            .all(|key| key.seen.load(Ordering::SeqCst) == key.added.load(Ordering::SeqCst))
    }
}

/// Gets keys until the queue is shut down and empty. If `fickle`, drops most getters after one
/// poll.
async fn consume(world: Arc<World>, seed: u64, fickle: bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        let item = tokio::select! {
            biased;
            item = world.queue.get() => item,
            () = yield_now(), if fickle => continue,
        };
        match item {
            Some(item) => world.process(item, &mut random).await,
            None => return,
        }
    }
}

async fn round(seed: u64, named: bool) {
    let builder = WorkQueue::builder();
    let queue = if named { builder.name("stress") } else { builder }.build().unwrap();
    let keys = std::array::from_fn(|_| Truth::default());
    let world = Arc::new(World { queue, keys, progress: Notify::new() });
    let consumers: Vec<_> = (0..6)
        .map(|consumer| tokio::spawn(consume(world.clone(), seed + consumer, consumer % 2 == 0)))
        .collect();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let world = world.clone();
            let mut random = fastrand::Rng::with_seed(seed * 31 + producer as u64);
            std::thread::spawn(move || (0..ADDS).for_each(|_| world.add(&mut random)))
        })
        .collect();
    let (received, joined) =
        (world.clone(), move || producers.into_iter().for_each(|thread| thread.join().unwrap()));
    tokio::task::spawn_blocking(joined).await.unwrap();
    // All delays end, and every add is processed.
    while !received.is_up_to_date() {
        received.progress.notified().await;
    }
    // Adds during the shutdown are processed or ignored. Items taken before it are done.
    let last = std::thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..1000).for_each(|_| received.add(&mut random));
    });
    world.queue.shut_down_with_drain().await;
    assert!(world.keys.iter().all(|key| !key.busy.load(Ordering::SeqCst)));
    assert!(world.queue.is_empty());
    for consumer in consumers {
        consumer.await.unwrap();
    }
    last.join().unwrap();
    assert!(world.queue.try_get().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_key_is_processed_after_its_last_add_by_one_worker_at_a_time() {
    for seed in 0..4 {
        let ends = tokio::time::timeout(Duration::from_secs(60), round(seed, seed % 2 == 1)).await;
        assert!(ends.is_ok(), "seed {seed}: something was lost");
    }
}
