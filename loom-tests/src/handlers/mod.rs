//! Handlers that come and go at any moment while an informer's workers apply and tell: the informer that ships, with its queue and
//! store, run by a dozen threads.
//!
//! Every key has one writer, so its history is known. The handler that was there first is told exactly that. One that comes later is
//! told a stretch of it from some state on, each state once: by the walk or by a worker, never by both nor by neither, never an
//! older one; what its buffer may leave out, it leaves out. Who stays ends with what is stored. Nobody is told anything, and no
//! call runs, once to remove it has returned.
//!
//! Strides are of one object, so a walk takes as many as there are keys. Who sleeps for ever is a deadlock, which shuttle finds.

mod told;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use deltafifo::{KeyFunc, Meta};
use deltafifo_informer::SharedInformer;
use deltafifo_informer::lister_watcher::Scripted;
use deltafifo_informer::shared_informer::by_hand::Fed;
use deltafifo_informer::shared_informer::{Buffer, HandlerOptions, Registration, Subscription};
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};
use tokio::sync::Notify;

use told::{History, Log, Misses};

/// Keys of the writers, those of the relists, those that are there from the beginning and never change, and the last that is
/// written.
const OWNED: [[&str; 2]; 2] = [["a", "b"], ["c", "d"]];
const LISTED: [&str; 2] = ["x", "y"];
const INITIAL: [&str; 2] = ["s", "t"];
const LAST: &str = "z";
const OFFERS: usize = 6;
const RELISTS: usize = 3;
const HANDLERS: usize = 3;

#[derive(Deserialize)]
pub struct Object {
    #[serde(skip)]
    key: &'static str,
    text: String,
    version: u64,
    /// Its uid.
    life: String,
    /// By which it is seen that nobody keeps it.
    #[serde(skip)]
    _alive: Arc<()>,
}

impl Object {
    fn key(&self) -> &'static str {
        self.key
    }

    fn shown(&self) -> String {
        format!("{}{}", self.key, self.version)
    }
}

/// A key is a name without a namespace.
struct Access;

impl Meta<Object> for Access {
    fn namespace<'a>(&self, _object: &'a Object) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.key)
    }

    fn version<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(&object.text)
    }

    fn uid<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(&object.life)
    }
}

#[derive(Default)]
struct Key {
    history: History,
    versions: u64,
    lives: u64,
}

struct World {
    informer: SharedInformer<Object, Access>,
    /// std's locks, as in the logs.
    keys: Mutex<BTreeMap<&'static str, Key>>,
    /// What is stored at the end, once that is known.
    last: OnceLock<BTreeMap<&'static str, u64>>,
    errors: Arc<Mutex<Vec<String>>>,
    alive: Arc<()>,
}

impl World {
    fn new() -> Self {
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let told = errors.clone();
        let informer = SharedInformer::with_keys(Scripted::new(), KeyFunc::meta_namespace(Access));
        let informer = informer.on_error(move |error| told.lock().unwrap().push(error.to_string()));
        let informer = if thread_rng().gen_bool(0.3) { informer.in_order() } else { informer.workers(2) };
        let informer = informer.build().expect("it has no indexes");
        Self { informer, keys: Mutex::default(), last: OnceLock::new(), errors, alive: Arc::default() }
    }

    /// What is written next under a key, by its only writer.
    fn written(&self, key: &'static str) -> Arc<Object> {
        let mut keys = self.keys.lock().unwrap();
        let of_key = keys.entry(key).or_default();
        of_key.versions += 1;
        of_key.history.goes_on(Some(of_key.versions));
        self.object(key, of_key)
    }

    /// A key's last object, which is gone from now on.
    fn deleted(&self, key: &'static str) -> Arc<Object> {
        let mut keys = self.keys.lock().unwrap();
        let of_key = keys.entry(key).or_default();
        let last = self.object(key, of_key);
        of_key.history.goes_on(None);
        of_key.lives += 1;
        last
    }

    /// What is stored under a key, if its only writer has got so far.
    fn stored(&self, key: &'static str) -> Option<Arc<Object>> {
        let keys = self.keys.lock().unwrap();
        let of_key = keys.get(key).filter(|of_key| of_key.history.now().is_some())?;
        Some(self.object(key, of_key))
    }

    fn object(&self, key: &'static str, of_key: &Key) -> Arc<Object> {
        let (version, life) = (of_key.versions, of_key.lives.to_string());
        Arc::new(Object { key, text: version.to_string(), version, life, _alive: self.alive.clone() })
    }

    /// A list of some keys, without the others.
    fn listed(&self, keys: &[&'static str]) -> Vec<Arc<Object>> {
        let some = keys.iter().filter_map(|key| match thread_rng().gen_range(0..3) {
            0 => {
                self.deleted(key);
                None
            }
            1 => self.stored(key),
            _ => Some(self.written(key)),
        });
        some.collect()
    }
}

pub fn everything() {
    let world = Arc::new(World::new());
    let alive = world.alive.clone();
    let initial = INITIAL.map(|key| world.written(key)).to_vec();
    match world.informer.fed() {
        Fed::Delta(fifo) => drop(fifo.replace(initial, "1").unwrap()),
        Fed::InOrder(fifo) => fifo.replace(initial, "1").unwrap(),
    }

    let first = Handler { world: world.clone(), log: Arc::default(), misses: Misses::Nothing, ending: Ending::Stays };
    let mut stream = world.informer.subscribe(HandlerOptions::new().buffer(Buffer::HoldBack(1_000))).unwrap();
    assert!(stream.next().now_or_never().is_none(), "it has walked: nothing is left to its walk any more");
    let mut handlers = vec![thread::spawn(move || first.listen(stream))];
    handlers.extend((0..HANDLERS).map(|_| beside(&world, handle)));

    let (workers, writers): (_, Vec<_>) = match world.informer.fed() {
        Fed::Delta(_) => {
            let writers = OWNED.map(|keys| beside(&world, move |world| write(world, keys)));
            (2, writers.into_iter().chain([beside(&world, |world| relist(world))]).collect())
        }
        Fed::InOrder(_) => (1, vec![beside(&world, |world| write_in_order(world))]),
    };
    let workers: Vec<_> =
        (0..workers).map(|number| beside(&world, move |world| block_on(world.informer.work(number)))).collect();
    let others =
        [beside(&world, |world| block_on(world.informer.tell_of_sync())), beside(&world, |world| resync(world))];

    join(writers);
    finish(&world);
    join(others);
    let mut handlers: Vec<_> = handlers.into_iter().map(|handler| handler.join().unwrap()).collect();
    for handler in &mut handlers {
        handler.is_at_rest();
    }
    let too_late = beside(&world, |world| come_too_late(world));
    block_on(world.informer.stop());
    handlers.iter_mut().for_each(Met::ends);
    join(workers);
    join([too_late]);

    let keys = std::mem::take(&mut *world.keys.lock().unwrap());
    let truth = keys.into_iter().map(|(key, of_key)| (key, of_key.history)).collect();
    for Met { handler, .. } in &handlers {
        handler.log.judge(&truth, handler.misses);
    }
    assert_eq!(*world.errors.lock().unwrap(), Vec::<String>::new());
    drop((handlers, world));
    assert_eq!(Arc::strong_count(&alive), 1, "an object is kept");
}

fn beside<R: Send + 'static>(
    world: &Arc<World>,
    work: impl FnOnce(&Arc<World>) -> R + Send + 'static,
) -> JoinHandle<R> {
    let world = world.clone();
    thread::spawn(move || work(&world))
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Lets others go on, for some while.
fn dawdle(most: usize) {
    for _ in 0..thread_rng().gen_range(0..most) {
        thread::yield_now();
    }
}

fn write(world: &World, keys: [&'static str; 2]) {
    let Fed::Delta(fifo) = world.informer.fed() else { unreachable!("it has one writer") };
    for _ in 0..OFFERS {
        let key = keys[thread_rng().gen_range(0..2)];
        match thread_rng().gen_range(0..10) {
            0..3 => fifo.add(world.written(key)).unwrap(),
            3..7 => fifo.update(world.written(key)).unwrap(),
            _ => fifo.delete(world.deleted(key)).unwrap(),
        }
    }
}

/// Lists keys of its own, and keeps the others.
fn relist(world: &World) {
    let Fed::Delta(fifo) = world.informer.fed() else { unreachable!("it has one writer") };
    for number in 0..RELISTS {
        let mut relist = fifo.begin_replace();
        OWNED.iter().flatten().chain(&INITIAL).for_each(|key| relist.keep(key).unwrap());
        relist.offer(world.listed(&LISTED)).unwrap();
        relist.commit(&(number + 2).to_string()).unwrap();
    }
}

fn write_in_order(world: &World) {
    let Fed::InOrder(fifo) = world.informer.fed() else { unreachable!("it has more writers") };
    let keys = [OWNED[0], OWNED[1], LISTED].concat();
    for number in 0..2 * OFFERS {
        let key = keys[thread_rng().gen_range(0..keys.len())];
        match thread_rng().gen_range(0..10) {
            0..3 => fifo.add(world.written(key)).unwrap(),
            3..6 => fifo.update(world.written(key)).unwrap(),
            6..8 => fifo.delete(world.deleted(key)).unwrap(),
            _ => {
                let all = INITIAL.iter().filter_map(|key| world.stored(key)).chain(world.listed(&keys)).collect();
                fifo.replace(all, &(number + 2).to_string()).unwrap();
            }
        }
    }
}

/// Writes the last object, when all others are applied and told of: who is told of it and knows what is stored is told all.
fn finish(world: &World) {
    if let Fed::Delta(fifo) = world.informer.fed() {
        fifo.bookmark("100").unwrap();
        fifo.wait_for_resource_version("100").unwrap();
    }
    let last = world.written(LAST);
    let keys = world.keys.lock().unwrap();
    let stored = keys.iter().filter_map(|(key, of_key)| Some((*key, of_key.history.now()?))).collect();
    drop(keys);
    world.last.set(stored).unwrap();
    match world.informer.fed() {
        Fed::Delta(fifo) => fifo.add(last).unwrap(),
        Fed::InOrder(fifo) => fifo.add(last).unwrap(),
    }
}

fn resync(world: &World) {
    for number in 1..4 {
        dawdle(40);
        world.informer.resync_in(Duration::from_secs(1_000 * number));
    }
}

/// Comes while the informer stops: its stream ends, if it gets one.
fn come_too_late(world: &World) {
    dawdle(8);
    if let Ok(mut stream) = world.informer.subscribe(HandlerOptions::new()) {
        while block_on(stream.next()).is_some() {}
    }
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// With the informer.
    Stays,
    /// Removed by somebody else, at any moment.
    Removed,
    /// By itself, when it was told so much.
    Leaves(usize),
}

/// Comes at any moment.
fn handle(world: &Arc<World>) -> Met {
    dawdle(60);
    let (buffer, misses) = match thread_rng().gen_range(0..4) {
        0 => (Buffer::Compress, Misses::Between),
        1 => (Buffer::HoldBack(thread_rng().gen_range(1..3)), Misses::Before),
        2 => (Buffer::HoldBack(1_000), Misses::Before),
        _ => (Buffer::DropAndResync(thread_rng().gen_range(1..4)), Misses::Dropped),
    };
    let ending = match thread_rng().gen_range(0..4) {
        0 => Ending::Removed,
        1 => Ending::Leaves(thread_rng().gen_range(1..6)),
        _ => Ending::Stays,
    };
    let resync = thread_rng().gen_bool(0.5).then_some(Duration::from_secs(1));
    let options = HandlerOptions::new().buffer(buffer).resync(resync);
    let handler = Handler { world: world.clone(), log: Arc::default(), misses, ending };
    if thread_rng().gen_bool(0.5) {
        let stream = world.informer.subscribe(options).unwrap();
        handler.listen(stream)
    } else {
        handler.be_called(options)
    }
}

#[derive(Clone)]
struct Handler {
    world: Arc<World>,
    log: Arc<Log>,
    misses: Misses,
    ending: Ending,
}

/// A handler that was told what there is, or is gone.
struct Met {
    handler: Handler,
    registration: Registration<Object>,
    stream: Option<Subscription<Object>>,
    teller: Option<JoinHandle<()>>,
}

impl Handler {
    /// Whether it was told all there is.
    fn is_complete(&self) -> bool {
        self.world.last.get().is_some_and(|all| self.log.knows(all))
    }

    fn listen(self, mut stream: Subscription<Object>) -> Met {
        let registration = stream.registration().clone();
        let removed = registration.clone();
        let remover = (self.ending == Ending::Removed).then(|| {
            thread::spawn(move || {
                dawdle(60);
                block_on(removed.remove());
            })
        });
        for number in 1.. {
            let has_synced = registration.has_synced();
            let Some(told) = block_on(stream.next()) else {
                assert_eq!(self.ending, Ending::Removed, "the stream ends");
                break;
            };
            self.log.note(&told, has_synced);
            match self.ending {
                Ending::Removed => {}
                Ending::Leaves(most) if number >= most => break,
                Ending::Leaves(_) | Ending::Stays if self.is_complete() => break,
                Ending::Leaves(_) | Ending::Stays => {}
            }
        }
        join(remover);
        let stream = (self.ending == Ending::Stays).then_some(stream);
        Met { handler: self, registration, stream, teller: None }
    }

    fn be_called(self, options: HandlerOptions<Object>) -> Met {
        let (complete, own) = (Arc::new(Notify::new()), Arc::new(OnceLock::<Registration<Object>>::new()));
        let (handler, completed, handle) = (self.clone(), complete.clone(), own.clone());
        let mut number = 0;
        let called = move |told| {
            handler.log.call_begins();
            handler.log.note(&told, false);
            number += 1;
            let (handler, completed, handle) = (handler.clone(), completed.clone(), handle.clone());
            async move {
                thread::yield_now();
                if handler.is_complete() {
                    completed.notify_one();
                }
                let leaves = matches!(handler.ending, Ending::Leaves(most) if number >= most || handler.is_complete());
                handler.log.call_ends();
                if leaves {
                    handle.get().unwrap().detach();
                    handler.log.close();
                }
            }
        };
        let (registration, telling) = self.world.informer.add_handler_by_hand(options, called).unwrap();
        own.set(registration.clone()).unwrap();
        let mut teller = Some(thread::spawn(move || block_on(telling)));
        match self.ending {
            Ending::Stays => {
                if thread_rng().gen_bool(0.5) {
                    block_on(registration.wait_for_sync()).unwrap();
                    self.log.has_synced(&INITIAL);
                }
                block_on(complete.notified());
            }
            Ending::Removed => {
                dawdle(60);
                block_on(registration.remove());
                self.log.close();
            }
            Ending::Leaves(_) => block_on(registration.ended()),
        }
        if self.ending != Ending::Stays {
            join(teller.take());
        }
        Met { handler: self, registration, stream: None, teller }
    }
}

impl Met {
    /// There is nothing more to be told.
    fn is_at_rest(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        loop {
            let has_synced = self.registration.has_synced();
            let Some(told) = stream.next().now_or_never() else { break };
            self.handler.log.note(&told.expect("it was not removed"), has_synced);
        }
        assert!(self.handler.is_complete(), "it is told more, and of what is not stored");
        assert!(self.registration.has_synced(), "it was told all that is initial");
    }

    /// The informer has stopped.
    fn ends(&mut self) {
        self.handler.log.close();
        if let Some(stream) = &mut self.stream {
            assert!(matches!(stream.next().now_or_never(), Some(None)), "its stream ends");
        }
        join(self.teller.take());
        assert_eq!(self.registration.depth(), 0, "something waits for who is gone");
    }
}
