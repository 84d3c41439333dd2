//! Eight threads and hundreds of operations on shuttle: random schedules, and PCT's, which reach what takes a few
//! preemptions at unlikely places. What the models show of a few steps, this shows of many together.
//!
//! The oracle: each producer owns its keys, so what the handlers saw of a key must be what its producer offered, in
//! order, compressed only as client-go does; and the store must end as the last offer left it. A schedule that fails is
//! printed, and `--replay` runs it again.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex as StdMutex;
use std::time::Instant;

use deltafifo::{DeltaType, mutants};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::{Config, FailurePersistence, Runner, thread};

use crate::rig::{Exclusive, Fifo, Item, Object, PARITY, indexed, mutant, parity, stored};

/// Keys of the producers, two for each, in different shards; then those of the relists.
const OWNED: [[&str; 2]; 3] = [["a", "b"], ["c", "d"], ["e", "f"]];
const LISTED: [&str; 3] = ["x", "y", "z"];
const OFFERS: usize = 25;
const RELISTS: usize = 6;
const LOOKS: usize = 25;
/// How many preemptions PCT places in a schedule.
const DEPTH: usize = 4;

/// Runs deltafifo's threads under random schedules.
#[derive(clap::Parser)]
pub struct Arguments {
    /// Schedules of each scheduler
    #[arg(long, default_value_t = 2_000)]
    schedules: usize,
    /// Runs with this deliberate defect (core/src/sync/mutants.rs)
    #[arg(long)]
    mutant: Option<String>,
    /// A schedule that failed, as it was printed
    #[arg(long)]
    replay: Option<String>,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    if let Some(name) = &arguments.mutant {
        let Some(mutant) = mutant(name) else {
            eprintln!("no such mutant");
            return ExitCode::from(2);
        };
        mutants::choose(Some(mutant));
    }
    if let Some(schedule) = &arguments.replay {
        shuttle::replay(everything, schedule);
        return ExitCode::SUCCESS;
    }
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::Print;
    config.stack_size = 0x4_0000;
    for name in ["random", "pct"] {
        let start = Instant::now();
        // A schedule that fails panics, which ends the program.
        let schedules = if name == "random" {
            Runner::new(RandomScheduler::new(arguments.schedules), config.clone()).run(everything)
        } else {
            Runner::new(PctScheduler::new(DEPTH, arguments.schedules), config.clone()).run(everything)
        };
        println!("{name}: {schedules} schedules hold, {:.0} s", start.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}

/// What happened to a key, as its producer and the handlers saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Written(usize),
    Deleted,
}

#[derive(Default)]
struct Key {
    offered: Vec<Step>,
    handled: Vec<Step>,
    exclusive: Arc<Exclusive>,
}

/// std's locks: they must not order what the queue fails to order.
type Keys = Arc<StdMutex<BTreeMap<&'static str, Key>>>;

fn everything() {
    let fifo = indexed();
    let all = OWNED.iter().flatten().chain(&LISTED);
    let keys: Keys = Arc::new(StdMutex::new(all.map(|key| (*key, Key::default())).collect()));

    let mut workers = Vec::new();
    for owned in OWNED {
        let (fifo, keys) = (fifo.clone(), keys.clone());
        workers.push(thread::spawn(move || produce(&fifo, &keys, owned)));
    }
    for relister in 0..2 {
        let fifo = fifo.clone();
        workers.push(thread::spawn(move || relist(&fifo, relister)));
    }
    let reader = fifo.clone();
    workers.push(thread::spawn(move || read(&reader)));
    let consumers: Vec<_> = (0..2)
        .map(|_| {
            let (fifo, keys) = (fifo.clone(), keys.clone());
            thread::spawn(move || while consume(&fifo, &keys) {})
        })
        .collect();

    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let mut last = fifo.begin_replace();
    OWNED.iter().flatten().for_each(|key| last.keep(key).unwrap());
    last.offer(vec![Object::new("x", 1)]).unwrap();
    last.commit("last").unwrap();
    fifo.close();
    consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
    // What a consumer put back when the others had gone already.
    while let Some(item) = fifo.try_pop() {
        handled(item, &keys);
    }

    assert_eq!(fifo.pending_deltas(), 0);
    assert!(fifo.has_synced());
    let mut expected = vec!["x1".to_owned()];
    for (key, steps) in keys.lock().unwrap().iter().filter(|(key, _)| !LISTED.contains(key)) {
        assert!(explains(&steps.offered, &steps.handled), "{key}: {:?} was {:?}", steps.offered, steps.handled);
        if let Some(Step::Written(number)) = steps.offered.last() {
            expected.push(format!("{key}{number}"));
        }
    }
    expected.sort_unstable();
    assert_eq!(stored(&fifo), expected.join(" "));
}

fn produce(fifo: &Fifo, keys: &Keys, owned: [&'static str; 2]) {
    for number in 1..=OFFERS {
        let key = owned[thread_rng().gen_range(0..2)];
        let dice = thread_rng().gen_range(0..8);
        let step = if dice < 6 { Step::Written(number) } else { Step::Deleted };
        keys.lock().unwrap().get_mut(key).unwrap().offered.push(step);
        let object = Object::new(key, number);
        match dice {
            0..3 => fifo.add(object).unwrap(),
            3..5 => fifo.update(object).unwrap(),
            5 => fifo.update_batch(vec![object]).unwrap(),
            _ => fifo.delete(object).unwrap(),
        }
    }
}

/// Lists keys of its own, and keeps the producers'; two of these supersede each other.
fn relist(fifo: &Fifo, relister: usize) {
    for number in 0..RELISTS {
        let mut relist = fifo.begin_replace();
        let kept = OWNED.iter().flatten().all(|key| relist.keep(key).is_ok());
        let page: Vec<_> = LISTED
            .iter()
            .filter(|_| thread_rng().gen_bool(0.6))
            .map(|key| Object::new(key, 100 * relister + number))
            .collect();
        let offered = relist.offer(page).is_ok();
        if kept && offered && thread_rng().gen_bool(0.8) {
            // Superseded: the other's commit is to come.
            let _ = relist.commit("some");
        }
        fifo.resync();
    }
}

fn read(fifo: &Fifo) {
    let store = fifo.store();
    for _ in 0..LOOKS {
        for value in ["even", "odd"] {
            for object in store.by_index(PARITY, value).unwrap() {
                object.read();
                assert_eq!(parity(&object), value, "an object under a value that it does not have");
            }
        }
        store.get_by_key("a").inspect(|object| assert_eq!(object.key, "a"));
        if let Some(deltas) = fifo.get_by_key("a") {
            assert!(!deltas.is_empty());
        }
        fifo.list_keys();
    }
}

/// Takes some; `false` once the queue is closed and empty.
fn consume(fifo: &Fifo, keys: &Keys) -> bool {
    if thread_rng().gen_bool(0.5) {
        let Ok(item) = fifo.pop() else { return false };
        handle(item, keys);
        return true;
    }
    let Ok(mut batch) = fifo.pop_batch(3) else { return false };
    while let Some(item) = batch.next() {
        handle(item, keys);
        if thread_rng().gen_bool(0.1) {
            break;
        }
    }
    true
}

fn handle(item: Item<'_>, keys: &Keys) {
    match thread_rng().gen_range(0..10) {
        0 => item.requeue(),
        1 => drop(item),
        _ => handled(item, keys),
    }
}

fn handled(mut item: Item<'_>, keys: &Keys) {
    let key = OWNED.iter().flatten().chain(&LISTED).copied().find(|key| *key == item.key()).unwrap();
    let exclusive = keys.lock().unwrap()[key].exclusive.clone();
    exclusive.handle(|| {
        assert!(!item.deltas().is_empty(), "a pop without deltas");
        let mut steps = Vec::new();
        let mut keys = keys.lock().unwrap();
        let known = keys[key].handled.last().copied();
        for delta in item.deltas() {
            match delta.kind {
                DeltaType::Deleted => steps.push(Step::Deleted),
                DeltaType::Sync => {
                    let synced = delta.object.object().map(|object| Step::Written(object.number));
                    assert!(LISTED.contains(&key) || synced == known, "{key} was {known:?}, and synced as {synced:?}");
                }
                _ => steps.push(Step::Written(delta.object.object().unwrap().number)),
            }
        }
        keys.get_mut(key).unwrap().handled.extend(steps);
        drop(keys);
        item.apply(|_| {}).unwrap();
    });
    item.done();
}

/// Whether handlers may have seen `handled` of a key whose only producer made `offered`: every write, in order; a
/// deletion after a write at least once, and as often as it was offered at most; none where nothing was written before.
fn explains(offered: &[Step], handled: &[Step]) -> bool {
    let runs = |steps: &[Step]| {
        let mut runs = vec![(None, 0)];
        for step in steps {
            match step {
                Step::Written(number) => runs.push((Some(*number), 0)),
                Step::Deleted => runs.last_mut().unwrap().1 += 1,
            }
        }
        runs
    };
    let (offered, handled) = (runs(offered), runs(handled));
    offered.len() == handled.len()
        && offered.iter().zip(&handled).all(|(&(written, offers), &(seen, deletions))| {
            let least = if written.is_some() { offers.min(1) } else { 0 };
            let most = if written.is_some() { offers } else { 0 };
            written == seen && (least..=most).contains(&deletions)
        })
}
