//! Encodes a setup and operations as bytes, for a fuzzer. Every byte has a meaning and an
//! incomplete end is ignored, so that a fuzzer's changes stay small and no input is wasted.
//! Decoding the bytes of an encoded value returns that value.

use crate::op::COUNT;
use crate::{Change, Known, Op, PARTS, Place, Setup, Step, TransformKind, Verdict};

/// The largest number of elements of an encoded list. The number takes three bits.
const LONGEST: usize = 7;
/// The lowest byte that encodes a step of the superseded relist ([`Op::OldRelist`]). The bytes from
/// [`SCOPED`] up to this one encode steps of the relists of scopes, and the bytes below [`SCOPED`]
/// encode steps of the open relist of the whole queue.
const OLD: u8 = 0xe0;
/// The lowest byte that encodes a step of a scope's relist ([`Op::RelistIn`]). Two of the lower
/// bits hold the position of the scope in [`PARTS`], and the three lowest bits hold the step.
const SCOPED: u8 = 0x80;
/// The lowest second byte of a change of a scope ([`Op::Scope`]). With a lower second byte, the
/// same first byte begins an operation on a batch.
const SCOPES: u8 = 0x80;

/// The flag for `skip_unchanged` in the second byte of a setup.
const SKIP: u8 = 0x40;
/// The flag for `notify_unchanged` in the second byte of a setup.
const NOTIFY: u8 = 0x80;
/// The bits of the second byte of a setup that hold the keys known at the start, one bit for each
/// position in `KEYS`.
const PLACES: u8 = 0x3f;
/// The flag for `live_lane` in the first byte of a setup.
const LANE: u8 = 0x08;

/// A reader of bytes.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Creates a reader of all `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the next byte, or `None` at the end.
    #[allow(clippy::should_implement_trait, reason = "bytes are read one by one, not iterated")]
    pub fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn place(&mut self) -> Option<Place> {
        let place = self.next()? & 15;
        // Most bytes name a key, and one in sixteen an object without a name.
        Some(if place == Place::NAMELESS.0 { Place::NAMELESS } else { Place(place % COUNT) })
    }

    /// Reads a position in `KEYS`, never that of an object without a name.
    fn keyed(&mut self) -> Option<Place> {
        Some(Place(self.next()? % COUNT))
    }

    fn places(&mut self) -> Option<Vec<Place>> {
        let length = usize::from(self.next()?) % (LONGEST + 1);
        (0..length).map(|_| self.place()).collect()
    }

    fn verdict(&mut self) -> Option<Verdict> {
        Some(Verdict::ALL[usize::from(self.next()?) % Verdict::ALL.len()])
    }

    fn step(&mut self, step: u8) -> Option<Step> {
        Some(match step % 8 {
            0 => Step::Begin,
            1 => Step::Page(self.places()?),
            2 => Step::Probe(self.places()?),
            3 => Step::Keep(self.keyed()?),
            4 => Step::Commit,
            5 => Step::Abandon,
            6 => Step::Delete(self.place()?),
            _ => Step::DeleteTombstone(self.keyed()?),
        })
    }

    fn op(&mut self) -> Option<Op> {
        Some(match self.next()? % 16 {
            0 => Op::Add(self.place()?),
            1 => Op::Update(self.place()?),
            2 => Op::Delete(self.place()?),
            3 => Op::DeleteTombstone(self.keyed()?, true),
            4 => Op::DeleteTombstone(self.keyed()?, false),
            5 => Op::Batch(self.places()?),
            6 => Op::Replace(self.places()?),
            7 => match self.next()? {
                step @ ..SCOPED => Op::Relist(self.step(step)?),
                step @ SCOPED..OLD => Op::RelistIn(part(step >> 3), self.step(step)?),
                step => Op::OldRelist(self.step(step)?),
            },
            8 => Op::Resync,
            9 => {
                let place = self.keyed()?;
                let length = usize::from(self.next()?) % (LONGEST + 1);
                Op::AddIfNotPresent(
                    place,
                    (0..length).map(|_| Some(self.next()? % 6)).collect::<Option<_>>()?,
                )
            }
            10 => Op::Close,
            11 => Op::Pop(self.verdict()?),
            12 => Op::Take,
            13 => Op::End(self.next()?, self.verdict()?),
            14 => Op::TakeBatch(self.next()? % 8),
            _ => match self.next()? {
                scope @ SCOPES.. => Op::Scope(part(scope >> 3), change(scope)),
                of if of % 4 == 0 => Op::DropBatch,
                _ => Op::Next,
            },
        })
    }
}

/// Returns the position in `PARTS` that the two lowest bits encode.
fn part(bits: u8) -> u8 {
    bits & 3
}

const _: () = assert!(PARTS.len() == 4);

fn change(bits: u8) -> Change {
    match bits & 3 {
        0 => Change::Add,
        1 => Change::Await,
        2 => Change::Remove,
        _ => Change::Waive,
    }
}

/// Reads operations of four bytes each.
#[must_use]
pub fn of_bytes<Op: From<[u8; 4]>>(bytes: &[u8]) -> Vec<Op> {
    let (ops, _cut_off) = bytes.as_chunks();
    ops.iter().copied().map(Op::from).collect()
}

/// Reads a setup and the operations after it.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<(Setup, Vec<Op>)> {
    let mut bytes = Bytes::new(bytes);
    let shape = bytes.next()?;
    let transform = match shape >> 4 {
        0..8 => TransformKind::None,
        8..10 => TransformKind::Tag,
        place => TransformKind::Fail(Place((place - 10) % COUNT)),
    };
    let known =
        [Known::None, Known::Static, Known::Store, Known::Store][usize::from(shape >> 1 & 3)];
    let known_places = bytes.next()?;
    let setup = Setup {
        known,
        emit_replaced: shape & 1 == 0,
        transform,
        known_places: known_places & PLACES,
        skip_unchanged: known_places & SKIP != 0,
        notify_unchanged: known_places & NOTIFY != 0,
        live_lane: shape & LANE != 0,
    };
    Some((setup, std::iter::from_fn(|| bytes.op()).collect()))
}

/// Returns the bytes that encode a setup and operations. Cuts each list to seven elements.
#[must_use]
pub fn write(setup: &Setup, ops: &[Op]) -> Vec<u8> {
    let transform = match setup.transform {
        TransformKind::None => 0,
        TransformKind::Tag => 8,
        TransformKind::Fail(place) => 10 + place.0 % COUNT,
    };
    let skip = if setup.skip_unchanged { SKIP } else { 0 };
    let notify = if setup.notify_unchanged { NOTIFY } else { 0 };
    let lane = if setup.live_lane { LANE } else { 0 };
    let mut bytes = vec![
        u8::from(!setup.emit_replaced) | (setup.known as u8) << 1 | lane | transform << 4,
        setup.known_places & PLACES | skip | notify,
    ];
    for op in ops {
        write_op(op, &mut bytes);
    }
    bytes
}

fn write_op(op: &Op, to: &mut Vec<u8>) {
    match op {
        Op::Add(place) => to.extend([0, place.0]),
        Op::Update(place) => to.extend([1, place.0]),
        Op::Delete(place) => to.extend([2, place.0]),
        Op::DeleteTombstone(place, with) => to.extend([if *with { 3 } else { 4 }, place.0]),
        Op::Batch(places) => {
            to.push(5);
            write_places(places, to);
        }
        Op::Replace(places) => {
            to.push(6);
            write_places(places, to);
        }
        Op::Relist(step) => write_step(step, 0, to),
        Op::OldRelist(step) => write_step(step, OLD, to),
        Op::RelistIn(of, step) => write_step(step, SCOPED | of << 3, to),
        Op::Scope(of, change) => {
            let change = match change {
                Change::Add => 0,
                Change::Await => 1,
                Change::Remove => 2,
                Change::Waive => 3,
            };
            to.extend([15, SCOPES | of << 3 | change]);
        }
        Op::Resync => to.push(8),
        Op::AddIfNotPresent(place, kinds) => {
            let kinds = &kinds[..kinds.len().min(LONGEST)];
            to.extend([9, place.0, length(kinds)]);
            to.extend(kinds);
        }
        Op::Close => to.push(10),
        Op::Pop(verdict) => to.extend([11, *verdict as u8]),
        Op::Take => to.push(12),
        Op::End(which, verdict) => to.extend([13, *which, *verdict as u8]),
        Op::TakeBatch(max) => to.extend([14, *max]),
        Op::DropBatch => to.extend([15, 0]),
        Op::Next => to.extend([15, 1]),
    }
}

fn write_step(step: &Step, of: u8, to: &mut Vec<u8>) {
    to.push(7);
    match step {
        Step::Begin => to.push(of),
        Step::Page(places) => {
            to.push(of | 1);
            write_places(places, to);
        }
        Step::Probe(places) => {
            to.push(of | 2);
            write_places(places, to);
        }
        Step::Keep(place) => to.extend([of | 3, place.0]),
        Step::Commit => to.push(of | 4),
        Step::Abandon => to.push(of | 5),
        Step::Delete(place) => to.extend([of | 6, place.0]),
        Step::DeleteTombstone(place) => to.extend([of | 7, place.0]),
    }
}

fn write_places(places: &[Place], to: &mut Vec<u8>) {
    let places = &places[..places.len().min(LONGEST)];
    to.push(length(places));
    to.extend(places.iter().map(|place| place.0));
}

/// Returns the length of a list as it is encoded. The caller has cut the list to [`LONGEST`].
fn length<T>(list: &[T]) -> u8 {
    u8::try_from(list.len()).unwrap_or(u8::MAX)
}
