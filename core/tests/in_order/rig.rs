//! In-order queues, and a short text form of their notifications.

use std::sync::Arc;

use crate::common::{Obj, ObjMeta, keys};
use deltafifo::{Change, Delta, DeltaObject, DeltaType, Event, InOrderFifo, Indexer, Turn};

pub type Fifo = InOrderFifo<Obj, ObjMeta>;

/// Returns a queue without a store.
pub fn bare() -> Fifo {
    InOrderFifo::builder(keys()).build()
}

/// Returns a queue over a store that holds `known`.
pub fn over(known: impl IntoIterator<Item = Arc<Obj>>) -> Fifo {
    let store = Indexer::builder(keys()).build().unwrap();
    known.into_iter().for_each(|object| store.add(object).unwrap());
    InOrderFifo::over(store).build()
}

/// Returns a queue over an empty store. Its transformer refuses every object of version `refused`.
pub fn picky() -> Fifo {
    let transform = |object: Arc<Obj>| {
        if object.version == "refused" { Err("meant".into()) } else { Ok(object) }
    };
    InOrderFifo::over(Indexer::builder(keys()).build().unwrap()).transformer(transform).build()
}

/// Formats a change: `A+a1` added, `U a1>2` updated, `-a2` deleted, `-a(2)` deleted by a
/// tombstone, `-a!(2)` by the removal of its scope, with a `?` if the key was not known. Additions
/// and updates start with the kind of the delta.
pub fn show_change(key: &str, change: &Change<'_, Obj>) -> String {
    let first = |kind: &DeltaType| kind.to_string()[..1].to_owned();
    match change {
        Change::Added { new, kind } => format!("{}+{key}{}", first(kind), new.n),
        Change::Updated { old, new, kind } => format!("{} {key}{}>{}", first(kind), old.n, new.n),
        Change::Deleted { last, old } => {
            let n = last.object().map_or(String::new(), |object| object.n.to_string());
            let n = match last {
                DeltaObject::Tombstone(last) if last.scope_removed => format!("!({n})"),
                DeltaObject::Tombstone(_) => format!("({n})"),
                DeltaObject::Object(_) => n,
            };
            format!("-{key}{n}{}", if old.is_none() { "?" } else { "" })
        }
    }
}

/// Formats an event: `a:A1` and `a:D(1)` for deltas; `all@7 a1 b2 +c` for a relist at version 7
/// that keeps `c`; `sync` for a resync.
pub fn show_event(event: &Event<Obj>) -> String {
    match event {
        Event::Delta { key, delta } => {
            let kind = &delta.kind.to_string()[..1];
            match &delta.object {
                DeltaObject::Object(object) => format!("{key}:{kind}{}", object.n),
                tombstone @ DeltaObject::Tombstone(_) => {
                    format!("{key}:{kind}({})", tombstone.object().map_or(0, |object| object.n))
                }
            }
        }
        Event::ReplacedAll(list) => {
            let listed = list.iter().map(|(key, object)| format!(" {key}{}", object.n));
            let kept = list.kept().map(|key| format!(" +{key}"));
            format!("all@{}{}", list.version(), listed.chain(kept).collect::<String>())
        }
        Event::SyncAll => "sync".to_owned(),
        other => panic!("a new kind of event: {other:?}"),
    }
}

/// Returns the delta of an event that is one.
pub fn delta_of(event: &Event<Obj>) -> &Delta<Obj> {
    let Event::Delta { delta, .. } = event else { panic!("not a delta: {event:?}") };
    delta
}

/// Formats all events of a turn.
pub fn show_turn(turn: &Turn<'_, Obj, ObjMeta>) -> Vec<String> {
    turn.events().map(show_event).collect()
}

/// Applies the current event. Returns its notifications.
pub fn apply(turn: &mut Turn<'_, Obj, ObjMeta>) -> Vec<String> {
    let mut notified = Vec::new();
    turn.apply(|key, change| notified.push(show_change(key, &change))).unwrap();
    notified
}

/// Handles all events of a queue with a store. Returns the notifications.
pub fn notified(fifo: &Fifo) -> Vec<String> {
    let mut notified = Vec::new();
    while let Some(mut turn) = fifo.try_pop() {
        notified.extend(apply(&mut turn));
    }
    notified
}

/// Handles all events one by one. Returns their texts.
pub fn events(fifo: &Fifo) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(turn) = fifo.try_pop() {
        events.extend(show_turn(&turn));
        turn.done();
    }
    events
}

/// Returns the stored objects as sorted texts such as `a1`.
pub fn stored(fifo: &Fifo) -> Vec<String> {
    let mut stored: Vec<_> = fifo
        .store()
        .list()
        .iter()
        .map(|object| format!("{}{}", keys().key(object).unwrap(), object.n))
        .collect();
    stored.sort();
    stored
}
