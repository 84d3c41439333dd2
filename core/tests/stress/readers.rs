//! The readers of a round. They read the store and the queue, and start resyncs.

use std::collections::{HashMap, HashSet};
use std::thread;

use super::common::{Mode, Obj};
use super::plan::{classes, key, number};
use super::world::{CloseOnPanic, RELISTED, World};
use deltafifo::{DeltaType, KnownObjects};

/// A reader, with the newest objects that it has seen.
struct Reader<'w> {
    world: &'w World,
    /// The highest number that was read of each key: one for objects of the key's producer, and one
    /// for objects of relists (`true`). All ways to read a key read the same state, so no later
    /// read may return a lower number.
    newest: HashMap<(usize, bool), u64>,
    synced: bool,
}

/// Reads until the relists are done.
pub fn read(world: &World, reader: u64) {
    let _close = CloseOnPanic(world);
    let mut dice = world.dice(400 + reader);
    let mut reader = Reader { world, newest: HashMap::new(), synced: false };
    // At least once, even if the round ends before this thread starts.
    loop {
        match dice.roll(8) {
            0 => reader.all(),
            1 => world.rig.fifo.resync(),
            2 | 3 => reader.space(&format!("space-{}", dice.roll(8))),
            4 | 5 => reader.class(dice.roll(5)),
            6 => reader.pending(&key(dice.below(world.keys.len()))),
            _ => (0..world.keys.len().min(100)).for_each(|number| reader.one(number)),
        }
        let synced = world.rig.fifo.has_synced();
        assert!(synced || !reader.synced, "has_synced went back to false");
        reader.synced = synced;
        if world.is_stopped() {
            return;
        }
        thread::yield_now();
    }
}

impl Reader<'_> {
    fn see(&mut self, object: &Obj, how: &str) {
        let key = format!("{}/{}", object.ns, object.name);
        let newest = self.newest.entry((number(&key), object.n >= RELISTED)).or_default();
        assert!(
            object.n >= *newest,
            "{key}: {how} returned {}, after this reader saw {newest}",
            object.n
        );
        *newest = object.n;
    }

    fn one(&mut self, number: usize) {
        let key = key(number);
        let found = match self.world.rig.mode {
            Mode::Fused => self.world.rig.fifo.store().get_by_key(&key),
            _ => self.world.rig.outside.get_by_key(&key).unwrap(),
        };
        if let Some(object) = found {
            assert_eq!(format!("{}/{}", object.ns, object.name), key, "another key's object");
            self.see(&object, "get");
        }
    }

    fn all(&mut self) {
        let store = self.world.rig.fifo.store();
        let mut seen = HashSet::new();
        for object in store.list() {
            self.see(&object, "list");
            assert!(
                seen.insert((object.ns.clone(), object.name.clone())),
                "{} is listed twice",
                object.name
            );
        }
        store.for_each(|object| self.see(object, "for_each"));
        let keys = store.list_keys();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "a key is listed twice");
        let pending = self.world.rig.fifo.list_keys();
        assert_eq!(
            pending.iter().collect::<HashSet<_>>().len(),
            pending.len(),
            "a key is pending twice"
        );
        drop(self.world.rig.fifo.list());
    }

    /// Reads the objects of a namespace through the built-in index.
    fn space(&mut self, space: &str) {
        let store = self.world.rig.fifo.store();
        let mut seen = HashSet::new();
        for object in store.by_index("namespace", space).unwrap() {
            assert_eq!(object.ns, space, "an object of another namespace");
            assert!(seen.insert(object.name.clone()), "{} is found twice", object.name);
            self.see(&object, "the namespace's index");
        }
        for key in store.index_keys("namespace", space).unwrap() {
            assert!(key.starts_with(&format!("{space}/")), "{key} in {space}");
        }
    }

    /// Reads the objects of a value of the user's index. The values change with nearly every
    /// update, and each object must match the value at that moment.
    fn class(&mut self, class: u64) {
        if !self.world.plan.indexed {
            return;
        }
        let (store, class) = (self.world.rig.fifo.store(), format!("class-{class}"));
        let mut seen = HashSet::new();
        for object in store.by_index("class", &class).unwrap() {
            assert!(
                classes(object.n).contains(&class),
                "{} of {} is not in {class}",
                object.n,
                object.name
            );
            assert!(
                seen.insert((object.ns.clone(), object.name.clone())),
                "{} is found twice",
                object.name
            );
            self.see(&object, "the user's index");
        }
        let values = store.list_index_func_values("class").unwrap();
        assert!(
            values.len() <= 5 && values.iter().all(|value| value.starts_with("class-")),
            "{values:?}"
        );
    }

    /// Reads the pending deltas of a key, and checks that they go from older to newer.
    fn pending(&mut self, key: &str) {
        let Some(deltas) = self.world.rig.fifo.get_by_key(key) else { return };
        assert!(!deltas.is_empty(), "{key} is pending with nothing");
        let mut newest = HashMap::new();
        for delta in deltas.iter().filter(|delta| delta.kind != DeltaType::Deleted) {
            let n = delta.object.object().unwrap().n;
            let newest = newest.insert(n >= RELISTED, n).unwrap_or_default();
            assert!(n >= newest, "{key}: {n} is pending behind {newest}");
        }
    }
}
