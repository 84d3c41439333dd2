//! Tests of random histories of a set of namespaces, with faults or with many changes of the set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo_informer::shared_informer::{Cause, InformerError, Namespaces, Notification};
use deltafifo_testkit::{ApiServer, Request, Resource, status};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::yield_now;

use super::rig::{FAULTS, LONG, PAUSES, apply, builder, server};
use super::view::View;
use crate::rig::{Informer, QUEUES, run};

/// The choices of a random history.
#[derive(Clone, Copy)]
struct Choices {
    steps: usize,
    /// Whether requests fail. Otherwise, namespaces are added and removed more often.
    with_faults: bool,
    /// The lengths of pauses between two steps, in milliseconds.
    pauses: &'static [u64],
    /// Whether some steps let watches expire, or compact the server's versions. A new watch then
    /// waits for a backoff.
    expire: bool,
    /// The longest time after the last step until the informer's store has the expected objects.
    limit: Duration,
}

/// A random history: writes, faults and changes of the set of namespaces, with the objects that
/// must exist in the end.
struct History<'h> {
    server: &'h ApiServer,
    namespaces: &'h Namespaces,
    names: &'h [String],
    choices: Choices,
    dice: fastrand::Rng,
    objects: BTreeMap<String, u64>,
    /// The number of times that a namespace was removed from the set.
    removals: usize,
    /// The namespaces that were removed from the set at least once.
    removed: BTreeSet<String>,
    /// The objects that were deleted on the server at least once.
    deleted: BTreeSet<String>,
}

impl History<'_> {
    /// Stores in each namespace an object that no step writes or deletes.
    fn begin(&mut self) {
        for name in self.names {
            apply(self.server, name, "first", 0);
            self.objects.insert(format!("{name}/first"), 0);
        }
    }

    async fn step(&mut self) {
        let with_faults = self.choices.with_faults;
        let at = self.dice.usize(..self.names.len());
        let name = self.names[at].clone();
        match self.dice.u8(..100) {
            0..50 => {
                let object = ["a", "b", "c"][self.dice.usize(..3)];
                let data = self.objects.values().max().map_or(1, |most| most + 1);
                apply(self.server, &name, object, data);
                self.objects.insert(format!("{name}/{object}"), data);
            }
            50..60 => {
                let object = ["a", "b", "c"][self.dice.usize(..3)];
                let key = format!("{name}/{object}");
                if self.objects.remove(&key).is_some() {
                    self.deleted.insert(key);
                    self.server.delete(&Resource::config_maps(), &name, object).unwrap();
                }
            }
            60..68 => drop(self.namespaces.add(&name).unwrap()),
            68..74 => self.remove(name),
            74..80 if !with_faults => drop(self.namespaces.add(&name).unwrap()),
            80..87 if !with_faults => self.remove(name),
            74..84 if with_faults => {
                let (_, fault) = FAULTS[self.dice.usize(..FAULTS.len())];
                let times = [1, 2, 5, usize::MAX][self.dice.usize(..4)];
                let fails = move |request: &Request| request.namespace() == Some(name.as_str());
                self.server.fault(fault().when(fails).times(times));
            }
            84..87 if with_faults => self.server.clear_faults(),
            87..90 => drop(self.server.end_watches()),
            90..92 => drop(self.server.break_watches()),
            92..94 if self.choices.expire => {
                self.server.error_watches(status::expired("as the test wants"));
            }
            94..96 if self.choices.expire => self.server.compact(),
            _ => {
                let pauses = self.choices.pauses;
                let millis = pauses[self.dice.usize(..pauses.len())];
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
        }
        // Lets the informer do a part of its work, so that the next step meets it at any point. A
        // test with a paused clock would otherwise run it only while it waits for a timer.
        for _ in 0..self.dice.usize(..12) {
            yield_now().await;
        }
    }

    fn remove(&mut self, name: String) {
        if self.namespaces.remove(&name) {
            self.removals += 1;
            self.removed.insert(name);
        }
    }

    /// Asserts that a deletion has its cause: its namespace was removed from the set, or its object
    /// was deleted on the server.
    fn check(&self, change: &Notification<ConfigMap>, seed: u64) {
        let Notification::Deleted { old, cause, .. } = change else { return };
        let key = View::key(old);
        let (namespace, _) = key.split_once('/').unwrap();
        let is_explained = match cause {
            Cause::NamespaceRemoved => self.removed.contains(namespace),
            _ => self.deleted.contains(&key),
        };
        assert!(is_explained, "seed {seed}: {change:?}");
    }

    /// Asserts that a synced informer has the first object of each namespace that has always been
    /// in its set.
    fn check_synced(&self, informer: &Informer, seed: u64) {
        if !informer.has_synced() {
            return;
        }
        for name in self.names.iter().filter(|name| !self.removed.contains(*name)) {
            let first = informer.store().get_by_key(&format!("{name}/first"));
            assert!(first.is_some(), "seed {seed}: synced before the first list of {name}");
        }
    }

    /// Returns the objects that an informer of the set must have in the end.
    fn expected(&self) -> Vec<String> {
        let namespaces = self.namespaces.names();
        let present = self.objects.iter().filter(|(key, _)| {
            let (namespace, _) = key.split_once('/').unwrap();
            namespaces.iter().any(|name| name == namespace)
        });
        present.map(|(key, data)| format!("{key}={data}")).collect()
    }
}

/// Runs a random history, and compares the informer with it. Returns the number of removals.
async fn random_history(seed: u64, names: &[String], choices: Choices) -> usize {
    let dice = fastrand::Rng::with_seed(seed);
    let server = server();
    let namespaces = Namespaces::new(names).unwrap();
    let waits_for_all = seed.is_multiple_of(3);
    let namespaces = if waits_for_all { namespaces } else { namespaces.optional() };
    let mut history = History {
        server: &server,
        namespaces: &namespaces,
        names,
        choices,
        dice,
        objects: BTreeMap::new(),
        removals: 0,
        removed: BTreeSet::new(),
        deleted: BTreeSet::new(),
    };
    history.begin();
    let choose = QUEUES[usize::from(seed.is_multiple_of(2))];
    let unnamed = Arc::new(Mutex::new(Vec::new()));
    let reported = unnamed.clone();
    let informer = choose(builder(&server, &namespaces))
        .on_error(move |error| {
            let text = error.to_string();
            if !matches!(error, InformerError::Namespace { namespace, .. } if text.contains(namespace))
            {
                reported.lock().push(text);
            }
        })
        .build()
        .unwrap();
    let mut view = View::of(&informer, seed);
    let running = run(&informer);
    for _ in 0..choices.steps {
        history.step().await;
        if waits_for_all {
            history.check_synced(&informer, seed);
        }
        view.catch_up(|change| history.check(change, seed));
    }
    server.clear_faults();
    // A watch that a fault keeps silent lasts until its timeout.
    server.end_watches();
    let check = |change: &Notification<ConfigMap>| history.check(change, seed);
    view.wait_for(&history.expected(), choices.limit, check).await;
    assert_eq!(*unnamed.lock(), [""; 0], "seed {seed}: these errors do not name a namespace");
    informer.stop().await;
    running.await.unwrap().unwrap();
    history.removals
}

#[tokio::test(start_paused = true)]
async fn random_faults_over_three_namespaces_lose_nothing() {
    let names = ["blue", "green", "red"].map(str::to_owned);
    let seeds = std::env::var("NAMESPACE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let choices =
        Choices { steps: 60, with_faults: true, pauses: PAUSES, expire: true, limit: 3 * LONG };
    for seed in 0..seeds.unwrap_or(600) {
        random_history(seed, &names, choices).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_hundred_namespaces_are_added_and_removed_under_writes() {
    let names: Vec<_> = (0..200).map(|number| format!("shop-{number}")).collect();
    let choices =
        Choices { steps: 4_000, with_faults: false, pauses: PAUSES, expire: true, limit: 3 * LONG };
    for seed in 0..2 {
        let removals = random_history(seed, &names, choices).await;
        assert!(removals > 200, "{removals}");
    }
}

/// Repeats the test above with an informer that runs at the same time as the steps. No watch
/// expires, because the backoff after that would take real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_namespaces_are_added_and_removed_beside_writes() {
    let names: Vec<_> = (0..200).map(|number| format!("shop-{number}")).collect();
    let limit = Duration::from_secs(60);
    let choices = Choices { steps: 4_000, with_faults: false, pauses: &[1], expire: false, limit };
    for seed in 0..2 {
        let removals = random_history(seed, &names, choices).await;
        assert!(removals > 200, "{removals}");
    }
}
