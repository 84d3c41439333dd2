//! A generator of the pods of a cluster that resembles a real one. The cluster has many Kubernetes
//! workloads, such as Deployments. Each is modelled on one pod of a real list, and has several
//! replicas of it. The random numbers depend only on the number of a pod and of its workload, so
//! every engine receives the same bytes.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::input::{InputError, read};
use super::splitmix64;

/// The limit for common tokens (words of ASCII letters and digits): a token that occurs in at least
/// one in `COMMON` pods of the list counts as vocabulary of Kubernetes, and is not replaced.
const COMMON: usize = 4;
/// The length of the shortest token that is replaced, in bytes.
const SHORTEST: usize = 4;
/// The number of nodes of the generated cluster, on which the pods run.
const NODES: u64 = 5000;
/// The lists of containers in the status of a pod.
const STATUSES: [&str; 2] = ["containerStatuses", "initContainerStatuses"];

/// A generator of pods. Each Kubernetes workload is modelled on one pod of a list.
#[derive(Debug)]
pub struct Cluster {
    models: Vec<Value>,
    /// The tokens that are not replaced: field names, and the values that many pods have.
    vocabulary: HashSet<String>,
}

/// A sequence of random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = splitmix64(self.0);
        self.0
    }

    /// Returns a text of `length` characters that are drawn at random from `alphabet`.
    fn text(&mut self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| self.choose(alphabet)).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is an index")]
    fn choose(&mut self, alphabet: &[u8]) -> char {
        alphabet[(self.next() % alphabet.len() as u64) as usize].into()
    }

    fn hex(&mut self, length: usize) -> String {
        self.text(b"0123456789abcdef", length)
    }

    fn suffix(&mut self) -> String {
        self.text(b"bcdfghjklmnpqrstvwxz2456789", 5)
    }

    fn uid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|length| self.hex(length)).join("-")
    }

    fn version(&mut self) -> Value {
        (10_000_000 + self.below(90_000_000)).to_string().into()
    }

    fn container_id(&mut self) -> Value {
        format!("containerd://{}", self.hex(64)).into()
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn time(&mut self) -> Value {
        let [month, day, hour] = [1 + self.below(12), 1 + self.below(28), self.below(24)];
        let [minute, second] = [self.below(60), self.below(60)];
        format!("2026-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z").into()
    }
}

impl Cluster {
    /// Creates a generator with the items of a list as models. There must be at least one.
    fn new(list: &[u8]) -> serde_json::Result<Self> {
        #[derive(serde::Deserialize)]
        struct List {
            items: Vec<Value>,
        }

        let List { items: models } = serde_json::from_slice(list)?;
        let mut pods_with = HashMap::<String, usize>::new();
        let mut vocabulary = HashSet::new();
        for model in &models {
            let mut tokens = HashSet::new();
            collect(model, &mut tokens, &mut vocabulary);
            for token in tokens {
                *pods_with.entry(token).or_default() += 1;
            }
        }
        let common = pods_with.into_iter().filter(|(_, pods)| pods * COMMON >= models.len());
        vocabulary.extend(common.map(|(token, _)| token));
        Ok(Self { models, vocabulary })
    }

    /// Reads the models from a file with a list of pods, which may be gzipped. The list must not be
    /// empty.
    ///
    /// # Errors
    /// [`InputError`] if the file cannot be read, or is not such a list.
    pub fn read(list: &Path) -> Result<Self, InputError> {
        Self::new(&read(list)?).map_err(InputError::json(list))
    }

    /// Makes pod number `index` of a cluster in which every Kubernetes workload has `replicas`
    /// pods. Returns the key and the JSON of the pod.
    pub(super) fn pod(&self, index: usize, replicas: usize) -> (String, Vec<u8>) {
        let workload = index / replicas;
        let mut pod = self.template(workload);
        let key = make_replica(&mut pod, workload, index);
        (key, pod.to_string().into_bytes())
    }

    /// Returns a function that makes the pod with a number, as `pod` does, and appends the number
    /// to its name. The function keeps the template of the last pod, so it is fast for consecutive
    /// numbers.
    pub fn numbered_pods(self, replicas: usize) -> impl Fn(u64) -> Value + Send + Sync {
        let template = Mutex::new((usize::MAX, Value::Null));
        move |number| {
            let index = usize::try_from(number).unwrap_or(usize::MAX);
            let workload = index / replicas;
            let mut template = template.lock();
            if template.0 != workload {
                *template = (workload, self.template(workload));
            }
            let mut pod = template.1.clone();
            drop(template);
            make_replica(&mut pod, workload, index);
            let name = &mut pod["metadata"]["name"];
            *name = format!("{}-{number}", name.as_str().unwrap_or_default()).into();
            pod
        }
    }

    /// Returns the pod of which all replicas of a Kubernetes workload are copies. [`make_replica`]
    /// makes a copy differ from the other ones.
    fn template(&self, workload: usize) -> Value {
        let mut pod = self.models[workload % self.models.len()].clone();
        let round = workload / self.models.len();
        if round > 0 {
            self.rename(&mut pod, round as u64);
        }
        pod
    }

    /// Makes pod number `index` as a copy of a pod of the list, under another name and with other
    /// uids, another version and other ids of containers. Returns the key and the JSON of the
    /// copy.
    pub(super) fn copy(&self, index: usize) -> (String, Vec<u8>) {
        let mut pod = self.models[index % self.models.len()].clone();
        let mut random = Random(splitmix64(index as u64 ^ 0xC0B1_0000_0000));
        let metadata = &mut pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&metadata["namespace"]);
        let name = format!("{}-{index}", text(&metadata["name"]));
        metadata["name"] = name.clone().into();
        metadata["uid"] = random.uid().into();
        metadata["resourceVersion"] = random.version();
        for owner in metadata["ownerReferences"].as_array_mut().into_iter().flatten() {
            owner["uid"] = random.uid().into();
        }
        for_each(&mut pod["status"], &STATUSES, |container| {
            if container.get("containerID").is_some() {
                container["containerID"] = random.container_id();
            }
        });
        (format!("{namespace}/{name}"), pod.to_string().into_bytes())
    }

    /// Replaces the tokens that are not vocabulary, in all values and in the keys of labels,
    /// annotations and selectors. A new token has the same length, and depends only on the old one
    /// and on `round`, the number of earlier Kubernetes workloads with the same model. Short
    /// tokens, numbers, quantities and times stay.
    fn rename(&self, value: &mut Value, round: u64) {
        match value {
            Value::String(text) => *text = self.renamed(text, round),
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item, round)),
            Value::Object(members) => {
                for name in ["labels", "annotations", "nodeSelector", "matchLabels"] {
                    if let Some(Value::Object(map)) = members.get_mut(name) {
                        let renamed = std::mem::take(map).into_iter();
                        map.extend(renamed.map(|(key, value)| (self.renamed(&key, round), value)));
                    }
                }
                members.values_mut().for_each(|member| self.rename(member, round));
            }
            _ => {}
        }
    }

    fn renamed(&self, text: &str, round: u64) -> String {
        // A typed client decodes no pod with another text in the place of a time or a quantity.
        if text.parse::<Timestamp>().is_ok() || is_quantity(text) {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        for token in text.split_inclusive(|char: char| !char.is_ascii_alphanumeric()) {
            let word = token.trim_end_matches(|char: char| !char.is_ascii_alphanumeric());
            let is_name = word.len() >= SHORTEST && word.bytes().any(|b| b.is_ascii_alphabetic());
            if is_name && !self.vocabulary.contains(word) {
                let seed =
                    word.bytes().fold(round, |seed, byte| splitmix64(seed ^ u64::from(byte)));
                let mut random = Random(seed);
                out.extend(word.bytes().map(|byte| match byte {
                    b'0'..=b'9' => random.choose(b"0123456789"),
                    b'A'..=b'Z' => random.choose(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                    _ => random.choose(b"abcdefghijklmnopqrstuvwxyz"),
                }));
            } else {
                out.push_str(word);
            }
            out.push_str(&token[word.len()..]);
        }
        out
    }
}

/// Returns whether `text` is a quantity of Kubernetes, such as `1500m` or `256Mi`.
fn is_quantity(text: &str) -> bool {
    let units = ["n", "u", "m", "k", "Ki", "M", "Mi", "G", "Gi", "T", "Ti", "P", "Pi", "E", "Ei"];
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ".+-".contains(c));
    unit.len() < text.len() && (unit.is_empty() || units.contains(&unit))
}

/// Collects the tokens of all strings into `tokens`, and the tokens of all field names into
/// `names`.
fn collect(value: &Value, tokens: &mut HashSet<String>, names: &mut HashSet<String>) {
    let split = |text: &str, to: &mut HashSet<String>| {
        let words = text.split(|char: char| !char.is_ascii_alphanumeric());
        to.extend(words.filter(|word| word.len() >= SHORTEST).map(str::to_owned));
    };
    match value {
        Value::String(text) => split(text, tokens),
        Value::Array(items) => items.iter().for_each(|item| collect(item, tokens, names)),
        Value::Object(members) => {
            for (name, member) in members {
                split(name, names);
                collect(member, tokens, names);
            }
        }
        _ => {}
    }
}

/// Turns a copy of the [template](Cluster::template) of a Kubernetes workload into pod number
/// `index` of the cluster. The fields that all replicas of the workload share get random values
/// that depend on `workload`, and the fields that differ between replicas get values that depend on
/// `index`. Returns the key of the pod.
fn make_replica(pod: &mut Value, workload: usize, index: usize) -> String {
    let mut workload = Random(splitmix64(workload as u64 ^ 0x0C1B_0000_0000));
    let mut random = Random(splitmix64(index as u64 ^ 0x90D0_0000_0000));
    let metadata = &mut pod["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, own_name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let stem = metadata.get("generateName").map_or(own_name, text);
    let name = format!("{stem}{}", random.suffix());
    metadata["name"] = name.clone().into();
    metadata["uid"] = random.uid().into();
    metadata["resourceVersion"] = random.version();
    metadata["creationTimestamp"] = random.time();
    for_each(metadata, &["ownerReferences"], |owner| owner["uid"] = workload.uid().into());
    let labels = metadata
        .as_object_mut()
        .map(|metadata| metadata.entry("labels").or_insert_with(|| Map::new().into()));
    if let Some(Value::Object(labels)) = labels {
        for key in ["name", "instance", "version", "component", "part-of"] {
            if labels.len() < 5 {
                labels.insert(format!("app.kubernetes.io/{key}"), workload.hex(8).into());
            }
        }
    }
    pod["spec"]["nodeName"] = format!("node-{:04}", random.below(NODES)).into();
    add_token_volume(&mut pod["spec"], &random.suffix());
    let status = &mut pod["status"];
    status["hostIP"] = format!("172.16.{}.{}", random.below(20), random.below(256)).into();
    if status.get("podIP").is_some() {
        let [a, b, c] = std::array::from_fn(|_| random.below(256));
        status["podIP"] = format!("10.{a}.{b}.{c}").into();
        if status.get("podIPs").is_some() {
            status["podIPs"] = json!([{ "ip": status["podIP"] }]);
        }
        status["startTime"] = random.time();
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = random.time();
    }
    for_each(status, &STATUSES, |container| {
        container["containerID"] = random.container_id();
        if let Some(Value::Object(states)) = container.get_mut("state") {
            for state in states.values_mut() {
                for time in ["startedAt", "finishedAt"] {
                    if state.get(time).is_some() {
                        state[time] = random.time();
                    }
                }
            }
        }
    });
    format!("{namespace}/{name}")
}

/// Adds the volume with the service account's token, and mounts it in every container. The name of
/// the volume ends with `suffix`.
fn add_token_volume(spec: &mut Value, suffix: &str) {
    let name = format!("kube-api-access-{suffix}");
    let volume = json!({ "name": name, "projected": { "defaultMode": 420, "sources": [
        { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
        { "configMap": { "items": [{ "key": "ca.crt", "path": "ca.crt" }],
            "name": "kube-root-ca.crt" } },
        { "downwardAPI": { "items": [{ "fieldRef": { "apiVersion": "v1",
            "fieldPath": "metadata.namespace" }, "path": "namespace" }] } },
    ] } });
    let push = |value: &mut Value, list: &str, item: Value| {
        let list = value.as_object_mut().map(|value| value.entry(list).or_insert(json!([])));
        if let Some(Value::Array(list)) = list {
            list.push(item);
        }
    };
    push(spec, "volumes", volume);
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let mount = json!({ "mountPath": path, "name": name, "readOnly": true });
    for_each(spec, &["containers", "initContainers"], |container| {
        push(container, "volumeMounts", mount.clone());
    });
}

/// Calls `change` with each item of these lists of `value`. A missing list has no items.
fn for_each(value: &mut Value, lists: &[&str], mut change: impl FnMut(&mut Value)) {
    for list in lists {
        let items = value.get_mut(list).and_then(Value::as_array_mut);
        items.into_iter().flatten().for_each(&mut change);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::{Value, json};

    use super::Cluster;

    fn cluster() -> Cluster {
        let pod = |name: &str, image: &str| {
            json!({
                "metadata": { "name": format!("{name}-1"), "generateName": format!("{name}-"),
                    "namespace": "shop", "uid": "u", "labels": { "team": name },
                    "ownerReferences": [{ "uid": "o" }] },
                "spec": { "containers": [{ "name": "main", "image": image,
                    "resources": { "limits": { "memory": format!("{}00Mi", name.len()) } } }] },
                "status": { "podIP": "", "podIPs": [], "conditions": [{}, {}],
                    "containerStatuses": [{ "state": { "running": { "startedAt": "" } },
                        "lastState": { "terminated": {
                            "finishedAt": format!("2026-03-{:02}T04:05:06Z", 1 + name.as_bytes()[0] % 28) } } }] },
            })
        };
        let names = ["webserver", "database", "frontend", "ingress", "scheduler"];
        let items = names.map(|name| pod(name, &format!("registry/{name}:1")));
        Cluster::new(json!({ "items": items }).to_string().as_bytes()).unwrap()
    }

    fn pod(index: usize, replicas: usize) -> Value {
        serde_json::from_slice(&cluster().pod(index, replicas).1).unwrap()
    }

    #[test]
    fn replicas_share_their_owner_and_labels_and_nothing_of_their_own() {
        let (one, other) = (pod(0, 2), pod(1, 2));
        let is_shared = |field: &&str| one["metadata"][field] == other["metadata"][field];
        assert!(["ownerReferences", "labels", "generateName", "namespace"].iter().all(is_shared));
        let own = ["name", "uid", "resourceVersion", "creationTimestamp"];
        assert!(!own.iter().any(is_shared));
        assert_eq!(one["metadata"]["labels"].as_object().unwrap().len(), 5);
        assert_ne!(one["spec"]["volumes"], other["spec"]["volumes"]);
        assert_ne!(one["status"]["containerStatuses"], other["status"]["containerStatuses"]);
        let conditions = &one["status"]["conditions"];
        assert_ne!(conditions[0], conditions[1], "each has a time of its own");
    }

    #[test]
    fn workload_of_a_later_round_has_other_names_of_equal_length() {
        let (first, later) = (pod(0, 1), pod(5, 1));
        let text =
            |pod: &Value, pointer| pod.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        for pointer in
            ["/metadata/generateName", "/metadata/labels/team", "/spec/containers/0/image"]
        {
            let [first, later] = [&first, &later].map(|pod| text(pod, pointer).expect(pointer));
            assert!(first != later && first.len() == later.len(), "{pointer}: {first}, {later}");
        }
        assert_eq!(later["metadata"]["namespace"], "shop", "what most pods have stays");
        let time = "/status/containerStatuses/0/lastState/terminated/finishedAt";
        assert_eq!(text(&first, time), text(&later, time), "a time stays a time");
        for pod in [first, later] {
            assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["memory"], "900Mi");
        }
    }

    #[test]
    fn copies_differ_in_names_and_ids_only() {
        let copy = |index| -> Value { serde_json::from_slice(&cluster().copy(index).1).unwrap() };
        let (mut one, mut other) = (copy(0), copy(5));
        for field in ["name", "uid", "resourceVersion", "ownerReferences"] {
            assert_ne!(one["metadata"][field], other["metadata"][field], "{field}");
            for pod in [&mut one, &mut other] {
                pod["metadata"].as_object_mut().unwrap().remove(field);
            }
        }
        assert_eq!(one, other);
    }

    #[test]
    fn every_pod_has_a_key_of_its_own() {
        let cluster = cluster();
        let keys: HashSet<_> = (0..1000).map(|index| cluster.pod(index, 10).0).collect();
        assert_eq!(keys.len(), 1000);
    }

    #[test]
    fn numbered_pods_are_the_pods_of_the_cluster_with_numbers_in_their_names() {
        let numbered = cluster().numbered_pods(2);
        for index in [0, 1, 13, 2] {
            let mut expected = pod(index, 2);
            let name = &mut expected["metadata"]["name"];
            *name = format!("{}-{index}", name.as_str().unwrap()).into();
            assert_eq!(numbered(index as u64), expected);
        }
    }
}
