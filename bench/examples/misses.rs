//! One hot path, alone in a function that callgrind counts: `bench/misses.sh` does so for all of them, with the caches as
//! small against these objects as real ones are against a million.
//!
//! Every path runs on one thread, and once for every object. What it needs is made before, and what it leaves is released
//! after: only `counted` is to be looked at.

use std::error::Error;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use deltafifo_bench::data::{self, Generated, Object, ObjectAccess, Plan};
use deltafifo_bench::engines::deltafifo::DeltaFifoEngine;
use deltafifo_bench::engines::floor::{Floor, InOrder, Partitioned};
use deltafifo_bench::engines::mutex_engine::MutexEngine;
use deltafifo_bench::engines::{ListEngine, QueueEngine, StoreEngine};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run one hot path of one engine, once for every object.
#[derive(Parser)]
struct Args {
    engine: Engine,
    path: Path,
    #[arg(default_value_t = 100_000)]
    objects: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    Deltafifo,
    DeltafifoSkip,
    Floor,
    FloorPartitioned,
    Mutex,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Path {
    /// The first list given to the queue
    InitialJoin,
    /// Its objects popped and stored
    InitialDrain,
    /// A list of what is known, given to the queue
    RelistJoin,
    /// Its objects popped and stored
    RelistDrain,
    /// An update of every object, one by one, scattered
    Update,
    /// Those popped one by one, and stored
    Pop,
    /// Every object looked up, scattered
    Get,
}

/// All that is counted happens in here.
#[inline(never)]
fn counted<R>(path: impl FnOnce() -> R) -> R {
    path()
}

fn main() -> Result<(), Box<dyn Error>> {
    let Args { engine, path, objects } = Args::parse();
    match engine {
        Engine::Deltafifo => one_by_one(&DeltaFifoEngine::<_, _, false>::one_thread(ObjectAccess), path, objects),
        Engine::DeltafifoSkip => one_by_one(&DeltaFifoEngine::<_, _, true>::one_thread(ObjectAccess), path, objects),
        Engine::Mutex => one_by_one(&MutexEngine::new(ObjectAccess), path, objects),
        Engine::Floor => lists(&Floor::<_, _, InOrder>::new(ObjectAccess), path, objects),
        Engine::FloorPartitioned => lists(&Floor::<_, _, Partitioned>::new(ObjectAccess), path, objects),
    }
    .then_some(())
    .ok_or_else(|| "this engine has no such path".into())
}

fn build(plan: &Plan) -> Vec<Arc<Object>> {
    data::build(&Generated { objects: plan.len() }, plan)
}

/// Whether it was a path of lists.
fn lists<E: ListEngine<Object, List = Vec<Arc<Object>>>>(engine: &E, path: Path, objects: usize) -> bool {
    let first = build(&Plan::same(objects));
    let given = first.clone();
    if path == Path::InitialJoin {
        counted(|| engine.replace(given, "1"));
        return true;
    }
    engine.replace(given, "1");
    if path == Path::InitialDrain {
        counted(|| engine.drain());
        return true;
    }
    engine.drain();
    let second = build(&Plan::same(objects));
    let given = second.clone();
    match path {
        Path::RelistJoin => counted(|| engine.replace(given, "2")),
        Path::RelistDrain => {
            engine.replace(given, "2");
            counted(|| engine.drain());
        }
        _ => return false,
    }
    true
}

fn one_by_one<E: QueueEngine<Object> + StoreEngine<Object>>(engine: &E, path: Path, objects: usize) -> bool {
    if !matches!(path, Path::Update | Path::Pop | Path::Get) {
        return lists(engine, path, objects);
    }
    let first = build(&Plan::same(objects));
    engine.replace(first.clone(), "1");
    engine.drain();
    let scattered = (0..objects).map(|at| at * 7919 % objects).collect();
    let updates = build(&Plan::events(scattered));
    let given = updates.clone();
    match path {
        Path::Update => counted(|| given.into_iter().for_each(|object| engine.update(object))),
        Path::Get => {
            let keys: Vec<_> = updates.iter().map(|object| engine.key(object)).collect();
            counted(|| assert!(keys.iter().all(|key| engine.get(key).is_some())));
        }
        _ => {
            for object in given {
                engine.update(object);
            }
            counted(|| while engine.try_pop(|_| ()) {});
        }
    }
    // What was known lives on here, as the lists do in the benchmarks.
    drop((first, updates));
    true
}
