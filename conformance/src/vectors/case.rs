//! The format of the vectors: cases, and the values that answers consist of. The module does not
//! implement the behaviour of a queue.

use std::sync::Arc;

use deltafifo::{BoxError, DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A case: a fresh queue, and the steps to run on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of the case in messages.
    pub name: String,
    /// The configuration of the queue.
    pub config: Config,
    /// The operations on the queue, in order.
    pub steps: Vec<Step>,
}

/// The configuration of a case's queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The kind of known objects.
    pub known: KnownKind,
    /// The known objects at the start.
    #[serde(default)]
    pub known_objects: Vec<Obj>,
    /// Whether a relist queues Replaced deltas; otherwise it queues Sync deltas.
    pub emit_replaced: bool,
    /// The transformer, if there is one.
    pub transform: Option<Transform>,
}

/// The kind of known objects of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownKind {
    /// No known objects.
    None,
    /// A set that never changes.
    Static,
    /// The set to which popped deltas are applied.
    Store,
}

/// The transformer of a case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Transform {
    /// Returns a copy of the object whose tag has one more `t`.
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
            None => Err(format!("unknown transform {text:?}: known are \"tag\" and \"fail:NAME\"")),
        }
    }
}

impl Transform {
    /// Returns the transformed object.
    ///
    /// # Errors
    /// If the case requires a failure for this object.
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

/// A step of a case: an operation on the queue, and client-go's answer.
#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    /// The operation.
    #[serde(flatten)]
    pub op: Op,
    /// The recorded answer.
    pub want: Map<String, Value>,
    /// The members of the answer that differ on purpose (`docs/src/semantics.md`, *Differences
    /// from client-go*), with the values that they must have here. The other members must be as
    /// recorded.
    #[serde(default)]
    pub ours: Option<Map<String, Value>>,
}

impl Step {
    /// Returns the answer that this project's queues must give.
    pub(super) fn expected(&self) -> Map<String, Value> {
        self.want.clone().into_iter().chain(self.ours.clone().into_iter().flatten()).collect()
    }
}

/// An operation with its arguments.
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

/// The behaviour of a pop's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Applies the deltas to the known objects, if they are a store, and succeeds.
    Apply,
    /// Succeeds.
    Ignore,
    /// Fails.
    Fail,
    /// Requests that the item be put back.
    Requeue,
    /// Requests that the item be put back, and fails.
    RequeueErr,
}

/// An object, as the vectors contain it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obj {
    /// The namespace; empty for cluster scope.
    pub ns: String,
    /// The name; an object without one has no key.
    pub name: String,
    /// The resource version.
    pub rv: String,
    /// One `t` for each time that the transformer [`Tag`](Transform::Tag) has changed the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
}

impl Obj {
    /// Returns an object that the key function rejects.
    #[must_use]
    pub fn unkeyable() -> Self {
        Self { ns: String::new(), name: String::new(), rv: String::new(), tag: String::new() }
    }
}

/// A deletion whose last state is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tombstone {
    /// The deleted key.
    pub key: String,
    /// The last known state, if there is one.
    pub obj: Option<Obj>,
}

/// The argument of an add or an update, or an item of a replace. It cannot be a tombstone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listed {
    /// An object.
    Obj(Obj),
    /// An object that the key function rejects. The value is always true.
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
    /// An object that the key function rejects. The value is always true.
    Unkeyable(bool),
}

impl From<&Item> for DeltaObject<Obj> {
    fn from(item: &Item) -> Self {
        match item {
            Item::Obj(obj) => Arc::new(obj.clone()).into(),
            Item::Unkeyable(_) => Arc::new(Obj::unkeyable()).into(),
            Item::Tombstone(Tombstone { key, obj }) => {
                DeletedFinalStateUnknown::new(key.as_str(), obj.clone().map(Arc::new)).into()
            }
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

/// A delta in the format of the vectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDelta {
    /// The type of the delta.
    #[serde(rename = "type", with = "DeltaTypeName")]
    pub kind: DeltaType,
    /// The object or tombstone of the delta.
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

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Success.
    Ok,
    /// The argument has no key.
    KeyError,
    /// The queue is closed and empty.
    Closed,
    /// The handler failed.
    ProcessError,
    /// Another error.
    Error,
    /// The queue is open and empty, so a pop would have blocked. No vector expects this answer,
    /// because client-go would have blocked for ever.
    Empty,
}

/// The answer of a queue under test. Its JSON form is compared with a step's `want`.
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
