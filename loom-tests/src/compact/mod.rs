//! Random schedules of compact objects: seven threads pack, read, pack again and drop the objects
//! of one compactor, while bases and dictionaries change.
//!
//! Packers add siblings, which are similar objects, to a few groups. The first member of a group
//! becomes its base, that is, the text to which the other members are stored as differences.
//! Packers also add objects without siblings, for which dictionaries are trained. The content of a
//! group changes every few objects, so its base becomes outdated and is replaced. The cache of
//! bases has room for at most one text, so most readers unpack a base too.
//!
//! The oracle: the text of an object comes back byte for byte, at any moment and for any thread.
//! At rest the statistics are the sums over the objects that are alive; without objects they are
//! zero. shuttle reports a thread that sleeps for ever as a deadlock.

mod world;

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};

use world::CompactWorld;

const PACKERS: usize = 2;
/// The number of objects that each packer packs.
const PACKED: usize = 16;
const READERS: usize = 2;
const READS: usize = 16;
/// The number of threads that pack objects again. They often call `Compactor::end_list` first,
/// which trains a dictionary and packs the bases again if that is due.
const REPACKERS: usize = 2;
const PASSES: usize = 3;
const DROPPED: usize = 8;

pub fn everything() {
    let world = Arc::new(CompactWorld::new());
    let mut threads = Vec::new();
    threads.extend((0..PACKERS).map(|_| spawn(&world, pack)));
    threads.extend((0..READERS).map(|_| spawn(&world, read)));
    threads.extend((0..REPACKERS).map(|_| spawn(&world, repack)));
    threads.push(spawn(&world, drop_some));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    world.check_at_rest();
}

fn spawn(world: &Arc<CompactWorld>, work: fn(&CompactWorld)) -> JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || work(&world))
}

fn pack(world: &CompactWorld) {
    for _ in 0..PACKED {
        let packed = world.pack_next();
        if thread_rng().gen_bool(0.3) {
            packed.check();
        }
        world.objects().push(packed);
        world.check_counts();
    }
}

fn read(world: &CompactWorld) {
    for _ in 0..READS {
        match world.any() {
            Some(packed) => packed.check(),
            None => thread::yield_now(),
        }
        world.check_counts();
    }
}

fn repack(world: &CompactWorld) {
    for _ in 0..PASSES {
        if thread_rng().gen_bool(0.7) {
            world.compactor.end_list();
        }
        let all = world.objects().clone();
        for packed in all {
            world.compactor.repack(&packed.object);
        }
    }
}

fn drop_some(world: &CompactWorld) {
    for _ in 0..DROPPED {
        thread::yield_now();
        let mut objects = world.objects();
        let count = objects.len();
        let dropped = (count > 0).then(|| objects.swap_remove(thread_rng().gen_range(0..count)));
        drop(objects);
        drop(dropped);
    }
}
