//! Conversions between the vectors and the operations that proptest and the fuzzer generate. Cases
//! become seeds, and generated operations become operations that every engine can run.

use std::collections::HashMap;

use deltafifo::DeltaType;
use deltafifo_oracle::{self as oracle, KEYS, Known, Place, Setup, TransformKind, Verdict};

use super::{
    Action, Case, Config, Item, KnownKind, Listed, Obj, Op, RecordedDelta, Tombstone, Transform,
};

/// Converts a setup and generated operations to a configuration and operations of the vectors.
/// Operations that need several handlers, batches, or relists in pages are left out, because not
/// every engine has them.
#[must_use]
pub fn serial(setup: &Setup, ops: &[oracle::Op]) -> (Config, Vec<Op>) {
    let config = Config {
        known: match setup.known {
            Known::None => KnownKind::None,
            Known::Static => KnownKind::Static,
            Known::Store => KnownKind::Store,
        },
        known_objects: setup.known_places().map(|place| object(place, 0)).collect(),
        emit_replaced: setup.emit_replaced,
        transform: match setup.transform {
            TransformKind::None => None,
            TransformKind::Tag => Some(Transform::Tag),
            TransformKind::Fail(place) => Some(Transform::Fail(object(place, 0).name)),
        },
    };
    let mut numbers = 1..;
    let mut next = || numbers.next().unwrap_or_default();
    (config, ops.iter().filter_map(|op| serial_op(op, &mut next)).collect())
}

fn serial_op(op: &oracle::Op, next: &mut impl FnMut() -> u64) -> Option<Op> {
    Some(match op {
        oracle::Op::Add(place) => Op::Add { item: listed(*place, next()) },
        oracle::Op::Update(place) => Op::Update { item: listed(*place, next()) },
        oracle::Op::Delete(Place::NAMELESS) => Op::Delete { item: Item::Unkeyable(true) },
        oracle::Op::Delete(place) => Op::Delete { item: Item::Obj(object(*place, next())) },
        oracle::Op::DeleteTombstone(place, with) => {
            let obj = with.then(|| object(*place, next()));
            Op::Delete { item: Item::Tombstone(Tombstone { key: key(*place), obj }) }
        }
        oracle::Op::Replace(places) => {
            Op::Replace { list: places.iter().map(|&place| listed(place, next())).collect() }
        }
        oracle::Op::Resync => Op::Resync,
        oracle::Op::AddIfNotPresent(place, kinds) => Op::AddIfNotPresent {
            deltas: kinds.iter().map(|&kind| delta(*place, kind, next())).collect(),
        },
        oracle::Op::Close => Op::Close,
        oracle::Op::Pop(verdict) => Op::Pop {
            action: match verdict {
                Verdict::Apply | Verdict::ApplyAndPanic => Action::Apply,
                Verdict::Done => Action::Ignore,
                Verdict::Fail | Verdict::Panic => Action::Fail,
                Verdict::Requeue | Verdict::Drop => Action::Requeue,
                Verdict::FailAndRetry => Action::RequeueErr,
            },
        },
        oracle::Op::Batch(_)
        | oracle::Op::Relist(_)
        | oracle::Op::OldRelist(_)
        | oracle::Op::RelistIn(..)
        | oracle::Op::Scope(..)
        | oracle::Op::Take
        | oracle::Op::End(..)
        | oracle::Op::TakeBatch(_)
        | oracle::Op::Next
        | oracle::Op::DropBatch => return None,
    })
}

fn key(place: Place) -> String {
    place.key().unwrap_or_default().to_owned()
}

fn object(place: Place, n: u64) -> Obj {
    let object = place.object(n);
    Obj {
        ns: object.ns.clone(),
        name: object.name.clone(),
        rv: object.version.clone(),
        tag: String::new(),
    }
}

fn listed(place: Place, n: u64) -> Listed {
    if place == Place::NAMELESS { Listed::Unkeyable(true) } else { Listed::Obj(object(place, n)) }
}

const KINDS: [DeltaType; 5] = [
    DeltaType::Added,
    DeltaType::Updated,
    DeltaType::Deleted,
    DeltaType::Replaced,
    DeltaType::Sync,
];

fn delta(place: Place, kind: u8, n: u64) -> RecordedDelta {
    let object = object(place, n);
    match KINDS.get(usize::from(kind)) {
        Some(&kind) => RecordedDelta { kind, object: Item::Obj(object) },
        None => RecordedDelta {
            kind: DeltaType::Deleted,
            object: Item::Tombstone(Tombstone { key: key(place), obj: Some(object) }),
        },
    }
}

/// Converts a recorded case to a setup and operations on the few keys of the oracle. Queries are
/// left out: the oracle's tests compare everything after every operation.
#[must_use]
pub fn to_oracle(case: &Case) -> (Setup, Vec<oracle::Op>) {
    let mut places = Places::default();
    let known_places =
        case.config.known_objects.iter().fold(0, |bits, object| bits | 1 << places.of(object).0);
    let ops = case.steps.iter().filter_map(|step| places.op(&step.op)).collect();
    let setup = Setup {
        known: match case.config.known {
            KnownKind::None => Known::None,
            KnownKind::Static => Known::Static,
            KnownKind::Store => Known::Store,
        },
        emit_replaced: case.config.emit_replaced,
        transform: match &case.config.transform {
            None => TransformKind::None,
            Some(Transform::Tag) => TransformKind::Tag,
            Some(Transform::Fail(name)) => {
                places.named(name).map_or(TransformKind::None, TransformKind::Fail)
            }
        },
        known_places,
        skip_unchanged: false,
        notify_unchanged: false,
        live_lane: false,
    };
    (setup, ops)
}

/// The assignment of the oracle's places to the keys of a case, in the order of their first use.
/// If there are more keys than places, the places are used again from the first one on.
#[derive(Default)]
struct Places(HashMap<String, Place>);

impl Places {
    fn at(&mut self, key: &str) -> Place {
        let next = Place(u8::try_from(self.0.len() % KEYS.len()).unwrap_or_default());
        *self.0.entry(key.to_owned()).or_insert(next)
    }

    fn of(&mut self, object: &Obj) -> Place {
        if object.name.is_empty() {
            Place::NAMELESS
        } else {
            self.at(&format!("{}/{}", object.ns, object.name))
        }
    }

    fn named(&self, name: &str) -> Option<Place> {
        self.0.iter().find(|(key, _)| key.ends_with(&format!("/{name}"))).map(|(_, &place)| place)
    }

    fn tombstone(&mut self, tombstone: &Tombstone) -> Place {
        let key = &tombstone.key;
        self.at(&if key.contains('/') { key.clone() } else { format!("/{key}") })
    }

    fn listed(&mut self, listed: &Listed) -> Place {
        match listed {
            Listed::Obj(object) => self.of(object),
            Listed::Unkeyable(_) => Place::NAMELESS,
        }
    }

    fn op(&mut self, op: &Op) -> Option<oracle::Op> {
        Some(match op {
            Op::Add { item } => oracle::Op::Add(self.listed(item)),
            Op::Update { item } => oracle::Op::Update(self.listed(item)),
            Op::Delete { item: Item::Obj(object) } => oracle::Op::Delete(self.of(object)),
            Op::Delete { item: Item::Tombstone(tombstone) } => {
                oracle::Op::DeleteTombstone(self.tombstone(tombstone), tombstone.obj.is_some())
            }
            Op::Delete { item: Item::Unkeyable(_) } => oracle::Op::Delete(Place::NAMELESS),
            Op::Replace { list } => {
                oracle::Op::Replace(list.iter().map(|item| self.listed(item)).collect())
            }
            Op::Resync => oracle::Op::Resync,
            Op::Close => oracle::Op::Close,
            Op::AddIfNotPresent { deltas } => {
                let place = match &deltas.last()?.object {
                    Item::Obj(object) => self.of(object),
                    Item::Tombstone(tombstone) => self.tombstone(tombstone),
                    Item::Unkeyable(_) => return None,
                };
                oracle::Op::AddIfNotPresent(place, deltas.iter().map(kind).collect())
            }
            Op::Pop { action } => oracle::Op::Pop(match action {
                Action::Apply => Verdict::Apply,
                Action::Ignore => Verdict::Done,
                Action::Fail => Verdict::Fail,
                Action::Requeue => Verdict::Requeue,
                Action::RequeueErr => Verdict::FailAndRetry,
            }),
            Op::HasSynced
            | Op::IsClosed
            | Op::ListKeys
            | Op::List
            | Op::GetByKey { .. }
            | Op::Get { .. } => {
                return None;
            }
        })
    }
}

fn kind(delta: &RecordedDelta) -> u8 {
    if matches!(delta.object, Item::Tombstone(_)) {
        return 5;
    }
    KINDS.iter().zip(0..).find(|(kind, _)| **kind == delta.kind).map_or(0, |(_, number)| number)
}
