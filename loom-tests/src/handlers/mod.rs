//! Random schedules of handlers that are added and removed at any moment while an informer's
//! workers apply and deliver changes. A dozen threads run the shipped informer with its queue and
//! store.
//!
//! Every key has one writer, so its history is known. The handler that was registered first is
//! notified of exactly that history. A later handler is notified of the states from some state on,
//! each state once: by the walk or by a worker, never by both or neither, and never of an older
//! state. It may miss only the states that its buffer policy may leave out. The last state of a
//! handler that is not removed is the stored one. After a call to remove a handler has returned,
//! the handler gets no notification, and no call of it runs.
//!
//! A walk handles one object per step, so it takes as many steps as there are keys. shuttle
//! reports a thread that sleeps for ever as a deadlock.

mod handler;
mod log;
mod world;

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::shared_informer::by_hand::TestQueue;
use deltafifo_informer::shared_informer::{Buffer, HandlerOptions};
use futures_util::{FutureExt, StreamExt};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};

use handler::{Ending, Handler, Registered, register_and_run};
use log::MayMiss;
use world::InformerWorld;

/// The keys of each writer.
const OWNED: [[&str; 2]; 2] = [["a", "b"], ["c", "d"]];
/// The keys that only relists write.
const LISTED: [&str; 2] = ["x", "y"];
/// The keys that exist from the start and never change.
const INITIAL: [&str; 2] = ["s", "t"];
/// The key that is written last.
const LAST: &str = "z";
const OFFERS: usize = 6;
const RELISTS: usize = 3;
const HANDLERS: usize = 3;

pub fn everything() {
    let world = Arc::new(InformerWorld::new());
    let alive = world.alive.clone();
    let initial = INITIAL.map(|key| world.next_object(key)).to_vec();
    match world.informer.test_queue() {
        TestQueue::Delta(fifo) => drop(fifo.replace(initial, "1").unwrap()),
        TestQueue::InOrder(fifo) => fifo.replace(initial, "1").unwrap(),
    }

    let first = Handler {
        world: world.clone(),
        log: Arc::default(),
        may_miss: MayMiss::Nothing,
        ending: Ending::WithInformer,
    };
    let mut stream =
        world.informer.subscribe(HandlerOptions::new().buffer(Buffer::HoldBack(1_000))).unwrap();
    assert!(stream.next().now_or_never().is_none(), "the walk of an empty store has ended");
    let mut handlers = vec![thread::spawn(move || first.run_stream(stream))];
    handlers.extend((0..HANDLERS).map(|_| spawn(&world, register_and_run)));

    let (workers, writers): (_, Vec<_>) = match world.informer.test_queue() {
        TestQueue::Delta(_) => {
            let writers = OWNED.map(|keys| spawn(&world, move |world| write(world, keys)));
            (2, writers.into_iter().chain([spawn(&world, |world| relist(world))]).collect())
        }
        TestQueue::InOrder(_) => (1, vec![spawn(&world, |world| write_in_order(world))]),
    };
    let workers: Vec<_> = (0..workers)
        .map(|number| spawn(&world, move |world| block_on(world.informer.work(number))))
        .collect();
    let others = [
        spawn(&world, |world| block_on(world.informer.notify_synced())),
        spawn(&world, |world| resync(world)),
    ];

    join(writers);
    finish(&world);
    join(others);
    let mut handlers: Vec<_> =
        handlers.into_iter().map(|handler| handler.join().unwrap()).collect();
    for handler in &mut handlers {
        handler.check_complete();
    }
    let late = spawn(&world, |world| subscribe_late(world));
    block_on(world.informer.stop());
    handlers.iter_mut().for_each(Registered::check_stopped);
    join(workers);
    join([late]);

    let keys = std::mem::take(&mut *world.keys.lock().unwrap());
    let truth = keys.into_iter().map(|(key, state)| (key, state.history)).collect();
    for Registered { handler, .. } in &handlers {
        handler.log.check_history(&truth, handler.may_miss);
    }
    assert_eq!(*world.errors.lock().unwrap(), Vec::<String>::new());
    drop((handlers, world));
    assert_eq!(Arc::strong_count(&alive), 1, "an object is still referenced");
}

fn spawn<R: Send + 'static>(
    world: &Arc<InformerWorld>,
    work: impl FnOnce(&Arc<InformerWorld>) -> R + Send + 'static,
) -> JoinHandle<R> {
    let world = world.clone();
    thread::spawn(move || work(&world))
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Lets other threads run for a random number of steps, fewer than `most`.
fn yield_randomly(most: usize) {
    for _ in 0..thread_rng().gen_range(0..most) {
        thread::yield_now();
    }
}

fn write(world: &InformerWorld, keys: [&'static str; 2]) {
    let TestQueue::Delta(fifo) = world.informer.test_queue() else {
        unreachable!("the in-order queue has one writer")
    };
    for _ in 0..OFFERS {
        let key = keys[thread_rng().gen_range(0..2)];
        match thread_rng().gen_range(0..10) {
            0..3 => fifo.add(world.next_object(key)).unwrap(),
            3..7 => fifo.update(world.next_object(key)).unwrap(),
            _ => fifo.delete(world.delete_object(key)).unwrap(),
        }
    }
}

/// Relists the keys of `LISTED`, and keeps all other keys.
fn relist(world: &InformerWorld) {
    let TestQueue::Delta(fifo) = world.informer.test_queue() else {
        unreachable!("the in-order queue has one writer")
    };
    for number in 0..RELISTS {
        let mut relist = fifo.begin_replace();
        OWNED.iter().flatten().chain(&INITIAL).for_each(|key| relist.keep(key).unwrap());
        relist.offer(world.list_some(&LISTED)).unwrap();
        relist.commit(&(number + 2).to_string()).unwrap();
    }
}

fn write_in_order(world: &InformerWorld) {
    let TestQueue::InOrder(fifo) = world.informer.test_queue() else {
        unreachable!("the queue by key has several writers")
    };
    let keys = [OWNED[0], OWNED[1], LISTED].concat();
    for number in 0..2 * OFFERS {
        let key = keys[thread_rng().gen_range(0..keys.len())];
        match thread_rng().gen_range(0..10) {
            0..3 => fifo.add(world.next_object(key)).unwrap(),
            3..6 => fifo.update(world.next_object(key)).unwrap(),
            6..8 => fifo.delete(world.delete_object(key)).unwrap(),
            _ => {
                let all = INITIAL
                    .iter()
                    .filter_map(|key| world.stored(key))
                    .chain(world.list_some(&keys))
                    .collect();
                fifo.replace(all, &(number + 2).to_string()).unwrap();
            }
        }
    }
}

/// Writes the object `LAST`, which is delivered after the changes of all other keys. A handler that
/// knows exactly the stored objects, `LAST` included, is complete: no change follows.
fn finish(world: &InformerWorld) {
    if let TestQueue::Delta(fifo) = world.informer.test_queue() {
        fifo.bookmark("100").unwrap();
        fifo.store().wait_for_resource_version("100").unwrap();
    }
    let last = world.next_object(LAST);
    let keys = world.keys.lock().unwrap();
    let stored =
        keys.iter().filter_map(|(key, state)| Some((*key, state.history.now()?))).collect();
    drop(keys);
    world.last.set(stored).unwrap();
    match world.informer.test_queue() {
        TestQueue::Delta(fifo) => fifo.add(last).unwrap(),
        TestQueue::InOrder(fifo) => fifo.add(last).unwrap(),
    }
}

fn resync(world: &InformerWorld) {
    for number in 1..4 {
        yield_randomly(40);
        world.informer.resync_in(Duration::from_secs(1_000 * number));
    }
}

/// Subscribes while the informer stops. If that succeeds, the stream must end.
fn subscribe_late(world: &InformerWorld) {
    yield_randomly(8);
    if let Ok(mut stream) = world.informer.subscribe(HandlerOptions::new()) {
        while block_on(stream.next()).is_some() {}
    }
}
