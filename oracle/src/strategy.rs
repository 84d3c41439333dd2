//! Strategies with which proptest generates and shrinks the operations.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::op::COUNT;
use crate::{Change, Known, Op, PARTS, Place, Setup, Step, TransformKind, Verdict};

/// Returns the configuration of proptest: fewer cases under Miri, and no files written into the
/// tree.
#[must_use]
pub fn config() -> ProptestConfig {
    let usual = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if cfg!(miri) { ProptestConfig { cases: 5, ..usual } } else { usual }
}

/// Generates fewer than `most` operations of a type whose values are decoded from four bytes each.
pub fn of_bytes<Op: From<[u8; 4]> + Debug>(most: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 4]>().prop_map(Op::from), 0..most)
}

fn keyed() -> impl Strategy<Value = Place> + Clone {
    (0..COUNT).prop_map(Place)
}

/// Generates positions in [`KEYS`](crate::KEYS), and sometimes [`Place::NAMELESS`], which stands
/// for an object without a name.
fn place() -> impl Strategy<Value = Place> + Clone {
    prop_oneof![12 => keyed(), 1 => Just(Place::NAMELESS)]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![8 => Just(Verdict::Apply), 8 => prop::sample::select(&Verdict::ALL[..])]
}

/// Generates steps of a relist in pieces. `Commit` and `Abandon` are equally frequent, and `Begin`
/// is more frequent than each of them.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        3 => vec(place(), 0..4).prop_map(Step::Page),
        2 => vec(place(), 0..4).prop_map(Step::Probe),
        1 => keyed().prop_map(Step::Keep),
        4 => place().prop_map(Step::Delete),
        2 => keyed().prop_map(Step::DeleteTombstone),
        2 => Just(Step::Commit),
        2 => Just(Step::Abandon),
    ]
}

/// Generates one operation.
fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => place().prop_map(Op::Add),
        4 => place().prop_map(Op::Update),
        3 => place().prop_map(Op::Delete),
        3 => (keyed(), any::<bool>()).prop_map(|(key, with)| Op::DeleteTombstone(key, with)),
        1 => vec(place(), 0..4).prop_map(Op::Batch),
        3 => vec(place(), 0..5).prop_map(Op::Replace),
        9 => step().prop_map(Op::Relist),
        1 => step().prop_map(Op::OldRelist),
        2 => Just(Op::Resync),
        2 => (keyed(), vec(0..6_u8, 0..4)).prop_map(|(key, kinds)| Op::AddIfNotPresent(key, kinds)),
        9 => verdict().prop_map(Op::Pop),
        3 => Just(Op::Take),
        4 => (any::<u8>(), verdict()).prop_map(|(which, verdict)| Op::End(which, verdict)),
        1 => (0..5_u8).prop_map(Op::TakeBatch),
        2 => Just(Op::Next),
        1 => Just(Op::DropBatch),
    ]
}

/// Generates an operation in a queue with scopes.
fn scoped_op() -> impl Strategy<Value = Op> {
    // Mostly the two parts that are added at first, so that changes of the same scope follow each
    // other.
    let part = || prop_oneof![2 => 0..2_u8, 1 => 0..u8::try_from(PARTS.len()).unwrap_or(u8::MAX)];
    let change = prop_oneof![
        4 => Just(Change::Add),
        1 => Just(Change::Remove),
        3 => Just(Change::Waive),
        3 => Just(Change::Await),
    ];
    prop_oneof![
        5 => op(),
        3 => (part(), step()).prop_map(|(part, step)| Op::RelistIn(part, step)),
        2 => (part(), change).prop_map(|(part, change)| Op::Scope(part, change)),
    ]
}

/// Generates sequences of at least one and fewer than `most` operations, with up to four additional
/// ones: some sequences have a close among them, and some begin with a relist, with two scopes, or
/// with both. After any other first offer, the queue has no initial population.
pub fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let close = prop::option::weighted(0.1, any::<prop::sample::Index>());
    let scoped = vec(scoped_op(), 1..most).prop_map(|mut ops| {
        ops.splice(0..0, [0, 1].map(|part| Op::Scope(part, Change::Add)));
        ops
    });
    let ops = prop_oneof![2 => vec(op(), 1..most), 1 => scoped];
    (ops, close, prop::bool::weighted(0.3)).prop_map(|(mut ops, close, relist_first)| {
        if let Some(close) = close {
            ops.insert(close.index(ops.len()), Op::Close);
        }
        if relist_first {
            ops.insert(0, Op::Relist(Step::Begin));
        }
        ops
    })
}

/// Generates settings of a queue.
pub fn setup() -> impl Strategy<Value = Setup> {
    let known = prop::sample::select(&[Known::None, Known::Static, Known::Store][..]);
    let transform = prop_oneof![
        3 => Just(TransformKind::None),
        1 => Just(TransformKind::Tag),
        1 => keyed().prop_map(TransformKind::Fail),
    ];
    let flags = (any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.3));
    (known, prop::bool::weighted(0.8), transform, 0..1_u8 << COUNT, flags).prop_map(
        |(
            known,
            emit_replaced,
            transform,
            known_places,
            (skip_unchanged, notify_unchanged, live_lane),
        )| Setup {
            known,
            emit_replaced,
            transform,
            known_places,
            skip_unchanged,
            notify_unchanged,
            live_lane,
        },
    )
}
