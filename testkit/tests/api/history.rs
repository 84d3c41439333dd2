//! Tests of lists of any version, of pages and of watches, compared with a recorded history of all
//! states.

use std::collections::BTreeMap;

use deltafifo_testkit::{ApiServer, Resource};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{Opened, PODS, list, open, refused, server};

/// The number of names that belong to generated pods. The other names belong to stored pods.
const GENERATED: usize = 6;
/// The names of the objects that a test writes and deletes.
const NAMES: [&str; 10] =
    ["gen-0", "gen-1", "gen-2", "gen-3", "gen-4", "gen-5", "pod-a", "pod-b", "pod-c", "zen"];

#[derive(Clone, Debug)]
enum Step {
    /// Writes an object with the label `yes` or `no`, each in half of the writes.
    Apply {
        name: usize,
        label: bool,
    },
    Delete {
        name: usize,
    },
    Compact,
    /// Lists exactly the version that is lower than the newest by `back`.
    Exact {
        back: u64,
    },
    /// Reads the next page of the current list, or the first page of a new one, with at most
    /// `limit` objects.
    Page {
        limit: usize,
    },
    /// Watches from the version that is lower than the newest by `back`.
    Watch {
        back: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..NAMES.len(), any::<bool>()).prop_map(|(name, label)| Step::Apply { name, label }),
        3 => (0..NAMES.len()).prop_map(|name| Step::Delete { name }),
        1 => Just(Step::Compact),
        2 => (0..12_u64).prop_map(|back| Step::Exact { back }),
        3 => (1..4_usize).prop_map(|limit| Step::Page { limit }),
        2 => (0..12_u64).prop_map(|back| Step::Watch { back }),
    ]
}

/// The version and label of each object, by name.
type State = BTreeMap<String, (u64, bool)>;

/// The server under test, with the state that is expected of it.
struct World {
    server: ApiServer,
    /// The states, by the version at which each began.
    history: BTreeMap<u64, State>,
    /// The oldest version that has not expired.
    floor: u64,
    /// The list that is being read in pages: its version, the objects so far, and the token of the
    /// next page.
    pages: Option<(u64, State, String)>,
    /// The open watches, each with the state that it has received and whether it has a selector.
    watches: Vec<(Opened, State, bool)>,
}

fn label(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn seen(object: &Value) -> (String, (u64, bool)) {
    let metadata = &object["metadata"];
    let version = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
    (metadata["name"].as_str().unwrap().to_owned(), (version, metadata["labels"]["l"] == "yes"))
}

fn state(list: &Value) -> State {
    let items = list["items"].as_array().unwrap();
    let state: State = items.iter().map(seen).collect();
    assert_eq!(state.len(), items.len(), "listed twice");
    state
}

fn selected(state: &State) -> State {
    state
        .iter()
        .filter(|(_, (_, label))| *label)
        .map(|(name, seen)| (name.clone(), *seen))
        .collect()
}

impl World {
    fn new() -> Self {
        let server = server();
        let named = |number: u64| json!({ "metadata": { "name": format!("gen-{number}"), "labels": { "l": "yes" } } });
        let version = server.generate(&Resource::pods(), GENERATED as u64, named).unwrap();
        let first = NAMES[..GENERATED]
            .iter()
            .zip(2..)
            .map(|(name, version)| ((*name).to_owned(), (version, true)));
        let history = BTreeMap::from([(version, first.collect())]);
        Self { server, history, floor: version, pages: None, watches: Vec::new() }
    }

    fn newest(&self) -> State {
        self.history.last_key_value().unwrap().1.clone()
    }

    fn at(&self, version: u64) -> State {
        self.history.range(..=version).next_back().unwrap().1.clone()
    }

    async fn act(&mut self, step: Step) {
        match step {
            Step::Apply { name, label: yes } => {
                let metadata = json!({ "name": NAMES[name], "labels": { "l": label(yes) } });
                let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata });
                let version = self.server.apply(pod).unwrap();
                let mut state = self.newest();
                state.insert(NAMES[name].to_owned(), (version, yes));
                self.history.insert(self.server.version(), state);
            }
            Step::Delete { name } => {
                let mut state = self.newest();
                let deleted = self.server.delete(&Resource::pods(), "default", NAMES[name]);
                assert_eq!(state.remove(NAMES[name]).is_some(), deleted.is_ok());
                if let Ok(version) = deleted {
                    self.history.insert(version, state);
                }
            }
            Step::Compact => {
                self.server.compact();
                self.floor = self.server.version();
                self.history.insert(self.floor, self.newest());
            }
            Step::Exact { back } => {
                self.exact(self.server.version().saturating_sub(back).max(1)).await;
            }
            Step::Page { limit } => self.page(limit).await,
            Step::Watch { back } => {
                self.watch(self.server.version().saturating_sub(back).max(1)).await;
            }
        }
    }

    async fn exact(&self, version: u64) {
        let uri = format!("{PODS}?resourceVersion={version}&resourceVersionMatch=Exact");
        if version < self.floor {
            assert_eq!(refused(&self.server, &uri).await.code, 410);
            return;
        }
        assert_eq!(state(&list(&self.server, &uri).await), self.at(version));
        let selection = list(&self.server, &format!("{uri}&labelSelector=l%3Dyes")).await;
        assert_eq!(state(&selection), selected(&self.at(version)));
    }

    async fn page(&mut self, limit: usize) {
        let mut uri = format!("{PODS}?limit={limit}");
        let (mut version, mut read) = (self.server.version(), State::new());
        if let Some((of, so_far, token)) = self.pages.take() {
            let encoded: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            uri = format!("{uri}&continue={encoded}");
            if of < self.floor {
                assert_eq!(refused(&self.server, &uri).await.code, 410);
                return;
            }
            (version, read) = (of, so_far);
        }
        let page = list(&self.server, &uri).await;
        assert_eq!(page["metadata"]["resourceVersion"], version.to_string());
        let items = state(&page);
        let expected = self.at(version);
        let before = read.len();
        read.extend(items.clone());
        assert_eq!(read.len(), before + items.len(), "an object is in two pages");
        match page["metadata"]["continue"].as_str() {
            Some(token) => {
                assert_eq!(items.len(), limit);
                assert_eq!(page["metadata"]["remainingItemCount"], expected.len() - read.len());
                assert!(read.iter().all(|(name, seen)| expected.get(name) == Some(seen)));
                self.pages = Some((version, read, token.to_owned()));
            }
            None => assert_eq!(read, expected),
        }
    }

    async fn watch(&mut self, version: u64) {
        for selects in [false, true] {
            let selector = if selects { "&labelSelector=l%3Dyes" } else { "" };
            let uri = format!("{PODS}?watch=true&resourceVersion={version}{selector}");
            let mut opened = open(&self.server, &uri).await;
            if version < self.floor {
                opened.events(["ERROR 410 Expired"]).await;
                opened.over().await;
                continue;
            }
            let known = if selects { selected(&self.at(version)) } else { self.at(version) };
            self.watches.push((opened, known, selects));
        }
    }

    /// Reads every watch to its end, and compares its state with the newest one.
    async fn check(mut self) {
        let newest = self.newest();
        assert_eq!(state(&list(&self.server, PODS).await), newest);
        assert_eq!(self.server.end_watches(), self.watches.len());
        for (mut opened, mut known, selects) in self.watches.drain(..) {
            let mut last = 0;
            while let Some(line) = opened.line().await {
                let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
                let (name, (version, yes)) = seen(&event["object"]);
                assert!(version > last, "out of order");
                last = version;
                let before = match event["type"].as_str().unwrap() {
                    "DELETED" => known.remove(&name),
                    _ => known.insert(name, (version, yes)),
                };
                assert_eq!(before.is_none(), event["type"] == "ADDED", "{event}");
            }
            assert_eq!(known, if selects { selected(&newest) } else { newest.clone() });
        }
    }
}

proptest! {
    #[test]
    fn lists_pages_and_watches_agree_with_the_recorded_history(steps in prop::collection::vec(step(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            for step in steps {
                world.act(step).await;
            }
            world.check().await;
        });
    }
}
