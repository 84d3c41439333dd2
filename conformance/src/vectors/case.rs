//! The form of the vectors: what a case holds, and the values that answers are made of. No rule of
//! a queue lives here.

use std::sync::Arc;

use deltafifo::{BoxError, DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A fresh queue and what to do with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Names the case in reports.
    pub name: String,
    /// How the queue is built.
    pub config: Config,
    /// What is done to it, in order.
    pub steps: Vec<Step>,
}

/// How a case's queue is built.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which known objects it has.
    pub known: KnownKind,
    /// What they hold at the start.
    #[serde(default)]
    pub known_objects: Vec<Obj>,
    /// Whether a relist makes Replaced deltas, or Sync ones.
    pub emit_replaced: bool,
    /// What the transformer does, if there is one.
    pub transform: Option<Transform>,
}

/// Which known objects a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownKind {
    /// None at all.
    None,
    /// A set that never changes.
    Static,
    /// The set that popped deltas are applied to.
    Store,
}

/// What the transformer of a case does.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Transform {
    /// Returns a copy whose tag has one more `t`.
    Tag,
    /// Fails for objects of this name.
    Fail(String),
}

impl TryFrom<String> for Transform {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.strip_prefix("fail:") {
            Some(name) => Ok(Transform::Fail(name.to_owned())),
            None if text == "tag" => Ok(Transform::Tag),
            None => Err(format!("unknown transform {text:?}, there are \"tag\" and \"fail:NAME\"")),
        }
    }
}

impl Transform {
    /// What becomes of an object.
    ///
    /// # Errors
    /// When the case wants it to fail.
    pub fn apply(&self, object: Arc<Obj>) -> Result<Arc<Obj>, BoxError> {
        match self {
            Transform::Tag => {
                Ok(Arc::new(Obj { tag: format!("{}t", object.tag), ..Obj::clone(&object) }))
            }
            Transform::Fail(name) if *name == object.name => {
                Err(format!("no objects named {name}").into())
            }
            Transform::Fail(_) => Ok(object),
        }
    }
}

/// One thing done to the queue, and what client-go answered.
#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    /// What is done.
    #[serde(flatten)]
    pub op: Op,
    /// The answer, as recorded.
    pub want: Map<String, Value>,
    /// The members of the answer that differ here on purpose (`ARCHITECTURE.md`, *Where it differs
    /// from client-go*): what they must be instead. The others must be as recorded.
    #[serde(default)]
    pub ours: Option<Map<String, Value>>,
}

impl Step {
    /// The answer that is right here.
    pub(super) fn expected(&self) -> Map<String, Value> {
        self.want.clone().into_iter().chain(self.ours.clone().into_iter().flatten()).collect()
    }
}

/// What a step does, with its arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is the queue's method of that name")]
pub enum Op {
    Add {
        item: Listed,
    },
    Update {
        item: Listed,
    },
    Delete {
        item: Item,
    },
    Replace {
        #[serde(default)]
        list: Vec<Listed>,
    },
    Resync,
    Close,
    AddIfNotPresent {
        #[serde(default)]
        deltas: Vec<RecordedDelta>,
    },
    HasSynced,
    IsClosed,
    ListKeys,
    List,
    GetByKey {
        key: String,
    },
    Get {
        item: Item,
    },
    Pop {
        action: Action,
    },
}

/// What the handler of a pop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Applies the deltas to the known set, if that is a store, and succeeds.
    Apply,
    /// Succeeds.
    Ignore,
    /// Fails.
    Fail,
    /// Asks for the item to be put back.
    Requeue,
    /// The same, with an error.
    RequeueErr,
}

/// An object of the vectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obj {
    /// Namespace, empty for cluster scope.
    pub ns: String,
    /// Name; without one there is no key.
    pub name: String,
    /// Resource version.
    pub rv: String,
    /// What the transformer left.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
}

impl Obj {
    /// An object that the key function rejects.
    #[must_use]
    pub fn unkeyable() -> Self {
        Self { ns: String::new(), name: String::new(), rv: String::new(), tag: String::new() }
    }
}

/// A deletion nobody saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tombstone {
    /// The key that is gone.
    pub key: String,
    /// What is known of its last state.
    pub obj: Option<Obj>,
}

/// An argument where tombstones make no sense: add, update and the list of a replace.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listed {
    /// An object.
    Obj(Obj),
    /// Something that the key function rejects. The value is always true.
    Unkeyable(bool),
}

impl From<&Listed> for Arc<Obj> {
    fn from(listed: &Listed) -> Self {
        Arc::new(match listed {
            Listed::Obj(obj) => obj.clone(),
            Listed::Unkeyable(_) => Obj::unkeyable(),
        })
    }
}

/// An object or a tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// An object.
    Obj(Obj),
    /// A tombstone.
    Tombstone(Tombstone),
    /// Something that the key function rejects. The value is always true.
    Unkeyable(bool),
}

impl From<&Item> for DeltaObject<Obj> {
    fn from(item: &Item) -> Self {
        match item {
            Item::Obj(obj) => Arc::new(obj.clone()).into(),
            Item::Unkeyable(_) => Arc::new(Obj::unkeyable()).into(),
            Item::Tombstone(Tombstone { key, obj }) => DeletedFinalStateUnknown {
                key: key.as_str().into(),
                obj: obj.clone().map(Arc::new),
            }
            .into(),
        }
    }
}

impl From<&DeltaObject<Obj>> for Item {
    fn from(object: &DeltaObject<Obj>) -> Self {
        match object {
            DeltaObject::Object(object) => Item::Obj(Obj::clone(object)),
            DeltaObject::Tombstone(tombstone) => {
                let obj = tombstone.obj.as_deref().cloned();
                Item::Tombstone(Tombstone { key: tombstone.key.to_string(), obj })
            }
        }
    }
}

/// A delta as the vectors write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDelta {
    /// What happened.
    #[serde(rename = "type", with = "DeltaTypeName")]
    pub kind: DeltaType,
    /// To what.
    #[serde(flatten)]
    pub object: Item,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DeltaType")]
enum DeltaTypeName {
    Added,
    Updated,
    Deleted,
    Replaced,
    Sync,
}

impl From<&RecordedDelta> for Delta<Obj> {
    fn from(delta: &RecordedDelta) -> Self {
        Delta::new(delta.kind, &delta.object)
    }
}

impl From<&Delta<Obj>> for RecordedDelta {
    fn from(delta: &Delta<Obj>) -> Self {
        Self { kind: delta.kind, object: (&delta.object).into() }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Well.
    Ok,
    /// There was no key.
    KeyError,
    /// The queue was closed and empty.
    Closed,
    /// The handler failed.
    ProcessError,
    /// Another error.
    Error,
    /// A pop of an open queue with nothing in it, which no vector wants: client-go would have
    /// waited for ever.
    Empty,
}

/// What a subject answers; serialised it is what a step's `want` holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "the fields of the vectors, explained in their description")]
pub enum Answer {
    Result {
        result: Outcome,
    },
    Value {
        value: bool,
    },
    Keys {
        keys: Vec<String>,
    },
    Newest {
        newest: Vec<RecordedDelta>,
    },
    Found {
        exists: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        deltas: Option<Vec<RecordedDelta>>,
        result: Outcome,
    },
    Popped {
        deltas: Vec<RecordedDelta>,
        is_in_initial_list: bool,
        result: Outcome,
    },
}
