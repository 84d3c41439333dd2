//! The scenario of the `shardSelector` (KEP-5866) that informers of a part of the shards send. The
//! informers drop objects of other shards themselves, and repeat a refused request without its
//! selector, so their stores do not show whether the API server honours it. The scenario therefore
//! records their requests, and sends the recorded ones again.

use std::collections::BTreeSet;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::BoxError;
use deltafifo_informer::sharding::{ShardBy, ShardGroup};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use futures_util::stream::{self, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent};
use kube::client::Body;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tower::service_fn;

use super::{Ended, Outcome, Setting};
use crate::servers::{self, NAMESPACE, Options, SHARDED, Servers};
use crate::wait::POLL;

/// The names of the namespaces. The hash of each is in another shard.
const NAMESPACES: [&str; 16] = [
    "north", "mall", "east", "west", "shop", "topaz", "south", "olive", "red", "ivory", "maple",
    "ruby", "blue", "fir", "ash", "team",
];
const SHARDS: u32 = 16;
/// The number of config maps in each namespace.
const MAPS: usize = 20;
const MAPS_PATH: &str = "/api/v1/configmaps";
/// The number of writes in progress at a time.
const AT_ONCE: usize = 16;
/// The longest time until two members share the shards, and their stores follow.
const FOLLOWING: Duration = Duration::from_secs(30);
/// The longest time until the events of a watch have arrived.
const WATCHING: Duration = Duration::from_secs(20);

pub async fn run(setting: &Setting) -> Ended {
    let honoured = with_servers(setting, true).await?;
    let ignored = with_servers(setting, false).await?;
    Ok(Outcome::Held(format!("gate=on: {honoured}; gate=off: {ignored}")))
}

/// Runs servers that honour selectors, or ignore them. Returns a summary.
async fn with_servers(setting: &Setting, is_gate_on: bool) -> Result<String, BoxError> {
    let arguments = if is_gate_on { vec![SHARDED] } else { Vec::new() };
    let mut servers = Servers::start(setting, Options { arguments, ..Options::default() }).await?;
    let client = servers.client();
    create_maps(&client).await?;
    let (uids, namespaces) = tokio::try_join!(
        Pair::start(&client, 0, ShardBy::Uid),
        Pair::start(&client, 1, ShardBy::Namespace)
    )?;
    let mut summaries = Vec::new();
    // One by one: each checks that a watch delivers nothing but its own writes.
    for pair in [uids, namespaces] {
        let name = pair.name;
        let summary = pair.check(is_gate_on).await;
        summaries.push(summary.map_err(|error| format!("{name}, gate={is_gate_on}: {error}"))?);
    }
    // The next servers use the same directory.
    servers.kill_api().await?;
    servers.stop_etcd().await?;
    servers::tidy(&setting.dir);
    Ok(summaries.join(", "))
}

async fn create_maps(client: &Client) -> Result<(), BoxError> {
    for name in NAMESPACES {
        let namespace: Namespace = object(json!({ "metadata": { "name": name } }))?;
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    }
    let maps = NAMESPACES.into_iter().flat_map(|name| (0..MAPS).map(move |map| (name, map)));
    stream::iter(maps.map(Ok))
        .try_for_each_concurrent(AT_ONCE, |(namespace, number)| {
            create(client, namespace, format!("map-{number}"))
        })
        .await
}

async fn create(client: &Client, namespace: &str, name: String) -> Result<(), BoxError> {
    let map: ConfigMap = object(json!({ "metadata": { "name": name } }))?;
    let maps = Api::namespaced(client.clone(), namespace);
    maps.create(&PostParams::default(), &map).await?;
    Ok(())
}

/// Writes `by`, which must differ from an earlier one: a write without a change causes no event.
async fn update(client: &Client, (namespace, name): &Key, by: &str) -> Result<(), BoxError> {
    let patch = Patch::Merge(json!({ "data": { "by": by } }));
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    maps.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The namespace and the name of a config map.
type Key = (String, String);

fn key(map: &ConfigMap) -> Key {
    (map.namespace().unwrap_or_default(), map.name_any())
}

fn object<K: for<'de> Deserialize<'de>>(json: Value) -> Result<K, BoxError> {
    Ok(serde_json::from_value(json)?)
}

/// A request with a `shardSelector`, as a member has sent it, and the code of its answer.
#[derive(Clone, Debug)]
struct Sent {
    uri: String,
    code: u16,
}

impl Sent {
    fn is_watch(&self) -> bool {
        self.parameters().any(|one| one == "watch=true" || one == "watch=1")
    }

    fn parameters(&self) -> impl Iterator<Item = &str> {
        self.uri.split_once('?').map_or("", |(_, query)| query).split('&')
    }

    /// Returns the parameter with the selector, encoded as the member has sent it.
    fn selector(&self) -> &str {
        self.parameters().find(|one| one.starts_with("shardSelector=")).unwrap_or_default()
    }

    /// Returns the path of a list with the same selector.
    fn list(&self) -> String {
        format!("{MAPS_PATH}?{}", self.selector())
    }
}

/// Returns the path of a watch with its parameters, but from this version.
fn at(uri: &str, version: &str) -> String {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let others = query.split('&').filter(|one| !one.starts_with("resourceVersion="));
    format!("{path}?{}&resourceVersion={version}", others.collect::<Vec<_>>().join("&"))
}

/// The part of a list that the scenario reads.
#[derive(Deserialize)]
struct List {
    metadata: ListMetadata,
    items: Vec<ConfigMap>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(default)]
    shard_info: Value,
}

impl List {
    async fn request(client: &Client, uri: &str) -> Result<Self, BoxError> {
        Ok(client.request(Request::get(uri).body(Vec::new())?).await?)
    }

    fn keys(&self) -> BTreeSet<Key> {
        self.items.iter().map(key).collect()
    }

    /// Returns the keys with the versions.
    fn states(&self) -> BTreeSet<(Key, String)> {
        self.items.iter().map(state).collect()
    }

    fn is_sharded(&self) -> bool {
        self.metadata.shard_info["selector"].is_string()
    }
}

fn state(map: &ConfigMap) -> (Key, String) {
    (key(map), map.resource_version().unwrap_or_default())
}

/// A member of a group, with an informer that contains the objects of its shards only.
struct Member {
    group: ShardGroup,
    informer: SharedInformer<ConfigMap>,
    sent: Arc<Mutex<Vec<Sent>>>,
    /// The runs of the group and of the informer. Dropping the value ends them.
    _runs: JoinSet<()>,
}

impl Member {
    fn start(client: &Client, by: ShardBy, group: &str, name: &str) -> Result<Self, BoxError> {
        let group = ShardGroup::builder(client.clone(), NAMESPACE, group)
            .identity(name)
            .shards(SHARDS)
            .by(by)
            // Members wait for this time before they claim new shards.
            .lease_duration(Duration::from_secs(6))
            .renew_deadline(Duration::from_secs(4))
            .retry_period(Duration::from_millis(400))
            .settle(Duration::from_secs(1))
            .beside_others()
            .build()?;
        let sent = Arc::default();
        let source = KubeListerWatcher::new::<ConfigMap>(recording(client, &sent), &(), None);
        let informer = SharedInformer::in_shards(&group, source).build()?;
        let mut runs = JoinSet::new();
        let (running, member) = (informer.clone(), group.clone());
        // Each fails only if it is already running, or if the group is misconfigured, and then the
        // member never owns its shards.
        runs.spawn(async move {
            let _ = running.run().await;
        });
        runs.spawn(async move {
            let _ = member.run_until(pending::<()>()).await;
        });
        Ok(Self { group, informer, sent, _runs: runs })
    }

    fn sent(&self) -> Vec<Sent> {
        self.sent.lock().clone()
    }

    /// Returns the last watch with a selector.
    fn watch(&self) -> Option<Sent> {
        self.sent.lock().iter().rfind(|sent| sent.is_watch()).cloned()
    }

    fn stored(&self) -> BTreeSet<(Key, String)> {
        self.informer.store().list().iter().map(|map| state(map)).collect()
    }

    fn owned(&self) -> usize {
        self.group.owned().borrow().len()
    }
}

/// Returns a client that records its requests with a `shardSelector`.
fn recording(client: &Client, sent: &Arc<Mutex<Vec<Sent>>>) -> Client {
    let (client, sent) = (client.clone(), Arc::clone(sent));
    let service = service_fn(move |request: Request<Body>| {
        let (client, sent) = (client.clone(), Arc::clone(&sent));
        async move {
            let uri = request.uri().to_string();
            let answer = client.send(request).await?;
            if uri.contains("shardSelector=") {
                sent.lock().push(Sent { uri, code: answer.status().as_u16() });
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, NAMESPACE)
}

/// Two members of a group.
struct Pair {
    client: Client,
    /// The number of the pair. Each pair writes other objects.
    number: usize,
    name: &'static str,
    members: [Member; 2],
}

impl Pair {
    /// Starts two members, and waits until each owns half of the shards.
    async fn start(client: &Client, number: usize, by: ShardBy) -> Result<Self, BoxError> {
        let name = if by == ShardBy::Uid { "by-uid" } else { "by-namespace" };
        let first = Member::start(client, by, name, "a")?;
        let second = Member::start(client, by, name, "b")?;
        let pair = Self { client: client.clone(), number, name, members: [first, second] };
        let half = SHARDS as usize / 2;
        let limit = Instant::now() + FOLLOWING;
        while pair.members.iter().any(|member| member.owned() != half || member.watch().is_none()) {
            if Instant::now() > limit {
                let owned = pair.members.each_ref().map(Member::owned);
                return Err(format!("{name}: after {FOLLOWING:?} the members own {owned:?}").into());
            }
            sleep(POLL).await;
        }
        Ok(pair)
    }

    /// Checks the stores of the members, and the server's answers to their lists and watches,
    /// before and after writes. A server with the feature must select the objects of each member,
    /// and one without it must ignore the selectors. Returns a summary.
    async fn check(&self, is_gate_on: bool) -> Result<String, BoxError> {
        let before = self.settled(is_gate_on).await?;
        let lists = self.check_sent(is_gate_on).await?;
        let writes = Writes::new(self.number);
        let marks = [writes.mark(&before[0])?, writes.mark(&before[1])?];
        let uris = self.watches().map(|watch| watch.uri);
        let since = |number: usize| at(&uris[number], &before[number].metadata.resource_version);
        let (first, second) = (since(0), since(1));
        let watch = async {
            tokio::try_join!(
                events(&self.client, &first, &marks[0]),
                events(&self.client, &second, &marks[1])
            )
        };
        let write = async {
            writes.send(&self.client, self.name).await?;
            update(&self.client, &marks[0], self.name).await?;
            update(&self.client, &marks[1], self.name).await
        };
        let both = timeout(WATCHING, async { tokio::try_join!(watch, write) }).await;
        let ((first, second), ()) = both.map_err(|_| "a watch does not deliver its mark")??;
        let after = self.settled(is_gate_on).await?;
        for (number, mut events) in [first, second].into_iter().enumerate() {
            // A watch of everything also has the mark of the other one.
            events.retain(|(_, key)| !marks.contains(key));
            let expected = writes.events(&before[number], &after[number]);
            if events != expected {
                let why = format!("a watch has the events {events:?} instead of {expected:?}");
                return Err(why.into());
            }
        }
        let sizes = after.map(|list| list.items.len());
        Ok(format!("{} lists of {sizes:?} objects, {lists} recorded lists", self.name))
    }

    fn watches(&self) -> [Sent; 2] {
        self.members.each_ref().map(|member| member.watch().expect("a member has started to watch"))
    }

    /// Waits until the stores and lists of both members are right. Returns the lists that have the
    /// selectors of the last watches.
    async fn settled(&self, is_gate_on: bool) -> Result<[List; 2], BoxError> {
        let limit = Instant::now() + FOLLOWING;
        loop {
            match self.lists(is_gate_on).await? {
                Ok(lists) => return Ok(lists),
                Err(difference) if Instant::now() > limit => return Err(difference.into()),
                Err(_) => sleep(POLL).await,
            }
        }
    }

    /// Returns the lists that have the selectors of the last watches, or how the lists or the
    /// stores differ from what they must be.
    async fn lists(&self, is_gate_on: bool) -> Result<Result<[List; 2], String>, BoxError> {
        let all = List::request(&self.client, MAPS_PATH).await?;
        let [first, second] = self.watches().map(|watch| watch.list());
        let lists = tokio::try_join!(
            List::request(&self.client, &first),
            List::request(&self.client, &second)
        )?;
        let lists: [List; 2] = lists.into();
        let mut rest = all.states();
        for (member, list) in self.members.iter().zip(&lists) {
            let stored = member.stored();
            let is_admitted = |map: &&ConfigMap| member.group.admit(*map).is_some();
            if all.items.iter().filter(is_admitted).map(state).collect::<BTreeSet<_>>() != stored {
                return Ok(Err(format!(
                    "a store has {} objects, which are not those of its shards",
                    stored.len()
                )));
            }
            let expected = if is_gate_on { stored.clone() } else { all.states() };
            if list.states() != expected || list.is_sharded() != is_gate_on || stored.is_empty() {
                let (listed, selector) = (list.items.len(), &list.metadata.shard_info);
                let (stored, all) = (stored.len(), all.items.len());
                return Ok(Err(format!(
                    "a list of {listed} objects has the shardInfo {selector}, beside {stored} \
                     stored ones of {all}"
                )));
            }
            rest.retain(|one| !stored.contains(one));
        }
        let number = rest.len();
        Ok(if number == 0 { Ok(lists) } else { Err(format!("no store has {number} objects")) })
    }

    /// Checks that the server refused no selector, and that it answers the lists of the members in
    /// the same way now. Returns the number of these lists.
    async fn check_sent(&self, is_gate_on: bool) -> Result<usize, BoxError> {
        let sent: Vec<Sent> = self.members.iter().flat_map(Member::sent).collect();
        // A server answers other requests with other codes, for example while it starts.
        let is_refused = |sent: &&Sent| [400, 414, 422, 431, 500].contains(&sent.code);
        if let Some(refused) = sent.iter().find(is_refused) {
            return Err(format!("the server refused a selector: {refused:?}").into());
        }
        let all = List::request(&self.client, MAPS_PATH).await?.items.len();
        let lists: Vec<&Sent> = sent.iter().filter(|sent| !sent.is_watch()).collect();
        for Sent { uri, .. } in &lists {
            let list = List::request(&self.client, uri).await?;
            if list.is_sharded() != is_gate_on || (list.items.len() < all) != is_gate_on {
                let (listed, selector) = (list.items.len(), &list.metadata.shard_info);
                return Err(format!("{uri} has {listed} objects, and shardInfo {selector}").into());
            }
        }
        if lists.is_empty() { Err("no list had a selector".into()) } else { Ok(lists.len()) }
    }
}

/// The writes of a pair, which watches must deliver: one of each kind in each namespace.
struct Writes {
    created: Vec<Key>,
    updated: Vec<Key>,
    deleted: Vec<Key>,
}

impl Writes {
    /// Returns writes of other objects for each number.
    fn new(number: usize) -> Self {
        let in_each =
            |name: String| NAMESPACES.map(|namespace| (namespace.to_owned(), name.clone())).into();
        Self {
            created: in_each(format!("new-{number}")),
            updated: in_each(format!("map-{}", 2 * number)),
            deleted: in_each(format!("map-{}", 2 * number + 1)),
        }
    }

    async fn send(&self, client: &Client, by: &str) -> Result<(), BoxError> {
        for (namespace, name) in &self.created {
            create(client, namespace, name.clone()).await?;
        }
        for key in &self.updated {
            update(client, key, by).await?;
        }
        for (namespace, name) in &self.deleted {
            let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
            maps.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// Returns an object of the list that is not written.
    fn mark(&self, list: &List) -> Result<Key, BoxError> {
        let is_written =
            |key: &Key| [&self.updated, &self.deleted].iter().any(|of| of.contains(key));
        let mark = list.items.iter().map(key).find(|key| is_ours(key) && !is_written(key));
        mark.ok_or_else(|| "a list has no object that is not written".into())
    }

    /// Returns the events of a watch of the selector with these lists before and after the writes,
    /// in order.
    fn events(&self, before: &List, after: &List) -> Vec<(&'static str, Key)> {
        let (before, after) = (before.keys(), after.keys());
        let of = |kind, keys: &[Key], list: &BTreeSet<Key>| {
            let selected = keys.iter().filter(|key| list.contains(key));
            selected.map(|key| (kind, key.clone())).collect::<Vec<_>>()
        };
        let mut events = of("ADDED", &self.created, &after);
        events.extend(of("MODIFIED", &self.updated, &before));
        events.extend(of("DELETED", &self.deleted, &before));
        events.sort();
        events
    }
}

/// Returns whether this is not an object of the API server.
fn is_ours((namespace, _): &Key) -> bool {
    NAMESPACES.contains(&namespace.as_str())
}

/// Returns the events of a watch until the update of the object `mark`, in order.
async fn events(
    client: &Client,
    uri: &str,
    mark: &Key,
) -> Result<Vec<(&'static str, Key)>, BoxError> {
    let request = Request::get(uri).body(Vec::new())?;
    let mut watch = pin!(client.request_events::<ConfigMap>(request).await?);
    let mut events = Vec::new();
    loop {
        let event = match watch.try_next().await?.ok_or("a watch has ended")? {
            WatchEvent::Added(map) => ("ADDED", key(&map)),
            WatchEvent::Modified(map) => ("MODIFIED", key(&map)),
            WatchEvent::Deleted(map) => ("DELETED", key(&map)),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => return Err(status.message.into()),
        };
        if event.1 == *mark {
            events.sort();
            return Ok(events);
        }
        if is_ours(&event.1) {
            events.push(event);
        }
    }
}
