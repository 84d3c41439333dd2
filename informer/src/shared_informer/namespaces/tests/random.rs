//! A random history of a followed set, in which commits wait at gates while namespaces leave the
//! set and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deltafifo::{Change, DeltaObject};
use deltafifo_testkit::{After, ApiServer, Fault, Request, Resource, status};
use futures_util::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::{GateKeeper, LONG, Namespaces, Rig, Set};
use crate::KubeListerWatcher;

const NAMES: [&str; 3] = ["blue", "green", "red"];

/// A write to the server.
struct Write {
    version: u64,
    key: String,
    data: u64,
}

struct History {
    seed: u64,
    dice: fastrand::Rng,
    server: ApiServer,
    rig: Rig,
    gates: BTreeMap<&'static str, GateKeeper>,
    writes: Vec<Write>,
    /// The version of the last deletion of each key.
    deleted: BTreeMap<String, u64>,
    /// The names whose first lists the initial population must wait for.
    awaited: BTreeSet<String>,
}

fn data(map: &ConfigMap) -> u64 {
    map.data.as_ref().unwrap()["data"].parse().unwrap()
}

impl History {
    /// Starts an informer of all namespaces. Each has an object `first`, which no step writes or
    /// deletes.
    fn start(seed: u64) -> Self {
        let server = ApiServer::builder().resource(Resource::config_maps()).build();
        let all = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let names = NAMES.map(Arc::from).into();
        let set = Set { names, follows_informer: true, ..Set::default() };
        let streams_lists = seed.is_multiple_of(2);
        let rig = Rig::with(
            Namespaces::of(set),
            move |name| all.in_namespace(name),
            |reflector| reflector.watch_list(streams_lists),
        );
        let mut history = Self {
            seed,
            dice: fastrand::Rng::with_seed(seed),
            server,
            rig,
            gates: BTreeMap::new(),
            writes: Vec::new(),
            deleted: BTreeMap::new(),
            awaited: BTreeSet::new(),
        };
        NAMES.iter().for_each(|name| history.write(name, "first"));
        history
    }

    fn write(&mut self, namespace: &str, name: &str) {
        let data = self.writes.len() as u64;
        let map = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": { "namespace": namespace, "name": name },
            "data": { "data": data.to_string() },
        });
        let version = self.server.apply(map).unwrap();
        self.writes.push(Write { version, key: format!("{namespace}/{name}"), data });
    }

    async fn step(&mut self) {
        let name = NAMES[self.dice.usize(..NAMES.len())];
        let object = ["a", "b"][self.dice.usize(..2)];
        match self.dice.u8(..100) {
            0..25 => self.write(name, object),
            25..32 => {
                if let Ok(version) = self.server.delete(&Resource::config_maps(), name, object) {
                    self.deleted.insert(format!("{name}/{object}"), version);
                }
            }
            32..55 => self.change_set(name),
            55..68 => {
                let gate = if self.dice.bool() {
                    self.rig.queue.gate(name)
                } else {
                    self.rig.queue.gate_after(name)
                };
                self.gates.insert(name, gate);
            }
            68..76 => drop(self.gates.remove(name)),
            76..82 => {
                let fault = match self.dice.u8(..4) {
                    0 => Fault::status(status::forbidden(&Resource::config_maps())),
                    1 => Fault::status(status::internal_error("as the test wants")),
                    2 => Fault::silence(),
                    _ => Fault::hang(After::Bytes(self.dice.usize(..300))),
                };
                let fails = move |request: &Request| request.namespace() == Some(name);
                self.server.fault(fault.when(fails).times(self.dice.usize(1..4)));
            }
            82..85 => self.server.clear_faults(),
            85..88 => drop(self.server.end_watches()),
            88..91 => drop(self.server.error_watches(status::expired("as the test wants"))),
            91..92 => self.server.compact(),
            92..94 => drop(self.server.bookmark(&Resource::config_maps())),
            _ => {
                // The clock does not advance while a thread waits.
                self.gates.clear();
                let millis = [1, 1_000, 100_000][self.dice.usize(..3)];
                sleep(Duration::from_millis(millis)).await;
            }
        }
        // Lets the informer do a part of its work, so that the next step meets it at any point.
        for _ in 0..self.dice.usize(..30) {
            yield_now().await;
        }
        for _ in 0..self.dice.usize(..4) {
            self.handle();
        }
        self.check();
    }

    /// Removes a name from the set, or adds it again.
    fn change_set(&mut self, name: &str) {
        let mut names: BTreeSet<_> = self.rig.namespaces.names().into_iter().collect();
        if !names.remove(name) {
            names.insert(name.to_owned());
        }
        self.rig.namespaces.set(&names);
        self.awaited.retain(|awaited| names.contains(awaited));
    }

    /// Handles the next change, if there is one. Asserts that the object of a deletion does not
    /// exist on the server, unless its namespace is removed.
    fn handle(&self) -> bool {
        let Some(mut item) = self.rig.queue.queue.try_pop() else { return false };
        let (namespace, name) = item.key().split_once('/').unwrap();
        let now = self.server.get(&Resource::config_maps(), namespace, name);
        let (key, seed) = (item.key().to_owned(), self.seed);
        item.apply(|change| {
            let Change::Deleted { last, old } = change else { return };
            if matches!(last, DeltaObject::Tombstone(last) if last.scope_removed) {
                return;
            }
            let uid = old.and_then(|old| old.metadata.uid.as_deref());
            let lives = now.as_ref().is_some_and(|now| now["metadata"]["uid"].as_str() == uid);
            assert!(!lives, "seed {seed}: {key} exists, but counts as deleted");
        })
        .unwrap();
        true
    }

    /// Checks whether the informer is synced, and whether its store has the writes that are
    /// applied, if the informer has read the newest state of the set.
    fn check(&mut self) {
        let names = self.rig.namespaces.names();
        let has_read = self.rig.parts.has_read(&names);
        let (queue, seed) = (&self.rig.queue.queue, self.seed);
        let store = queue.store();
        if queue.has_synced() {
            for name in std::mem::take(&mut self.awaited) {
                let first = store.get_by_key(&format!("{name}/first"));
                assert!(first.is_some(), "seed {seed}: synced before the first list of {name}");
            }
        } else if has_read {
            self.awaited = names.iter().cloned().collect();
        }
        if !has_read {
            return;
        }
        for Write { version, key, data: written } in &self.writes {
            let (namespace, _) = key.split_once('/').unwrap();
            if !names.iter().any(|name| name == namespace) {
                continue;
            }
            let text = version.to_string();
            let waiting = store.wait_for_resource_version_async(&text);
            let Some(applied) = waiting.now_or_never() else { continue };
            applied.unwrap();
            let is_stored = match store.get_by_key(key) {
                Some(map) => *written <= data(&map),
                None => self.deleted.get(key).is_some_and(|deletion| version < deletion),
            };
            assert!(is_stored, "seed {seed}: version {version} is applied, and {key} is older");
        }
    }

    /// Returns `key=data` of each stored object, in order.
    fn stored(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.rig.queue.queue.store().for_each(|map| {
            let (namespace, name) = (map.metadata.namespace.as_ref(), map.metadata.name.as_ref());
            all.push(format!("{}/{}={}", namespace.unwrap(), name.unwrap(), data(map)));
        });
        all.sort();
        all
    }

    /// Returns `key=data` of each object of the set's namespaces on the server, in order.
    fn expected(&self) -> Vec<String> {
        let mut all = Vec::new();
        for namespace in self.rig.namespaces.names() {
            for name in ["a", "b", "first"] {
                let map = self.server.get(&Resource::config_maps(), &namespace, name);
                let data = map.map(|map| map["data"]["data"].as_str().unwrap().to_owned());
                all.extend(data.map(|data| format!("{namespace}/{name}={data}")));
            }
        }
        all
    }

    /// Ends all faults, and waits until the informer has everything, and the newest version is
    /// applied.
    async fn finish(mut self) {
        self.gates.clear();
        self.server.clear_faults();
        self.server.end_watches();
        let expected = self.expected();
        let version = self.server.version().to_string();
        let store = self.rig.queue.queue.store();
        let done = async {
            loop {
                while self.handle() {}
                self.check();
                let applied = store.wait_for_resource_version_async(&version).now_or_never();
                if self.stored() == expected
                    && self.rig.queue.queue.has_synced()
                    && (self.rig.namespaces.names().is_empty() || applied.is_some())
                {
                    return;
                }
                self.server.bookmark(&Resource::config_maps());
                sleep(Duration::from_secs(1)).await;
            }
        };
        let done = timeout(3 * LONG, done).await;
        let (seed, status) = (self.seed, self.rig.parts.status());
        assert!(done.is_ok(), "seed {seed}: {:?}, not {expected:?}: {status:#?}", self.stored());
    }
}

#[tokio::test(start_paused = true)]
async fn random_returns_to_a_followed_set_are_waited_for() {
    for seed in 0..600 {
        let mut history = History::start(seed);
        for _ in 0..60 {
            history.step().await;
        }
        history.finish().await;
    }
}
