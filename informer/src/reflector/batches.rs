//! The path of a relist into the target: raw items are batched, and only changed items are decoded.
//!
//! One task reads the response and batches the items; another passes the batches to the target, on
//! a thread that may block. At most [`MOST_IN_FLIGHT`] bytes are in between. With the batches on
//! both sides, a list of any size needs the memory of its objects and at most 32 MiB more. Objects
//! of more than a MiB are not included: they take shares of the process's budget
//! (`wire/budget.rs`).

use std::sync::Arc;

use deltafifo::{DeltaObject, RelistError, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::decode::Decoder;
use super::error::{ReflectorError, Stop};
use super::target::{Pieces, Target};
use super::threads::Threads;
use crate::lister_watcher::{RawObject, RequestError};
use crate::wire::{Head, LARGE, WireError, check};

/// The size of a full batch in bytes. Batches are full only if items arrive fast enough; see
/// [`LEAST_BATCH`].
const BATCH_BYTES: usize = 2 << 20;
/// The size in bytes from which an incomplete batch is sent, if the target is idle. Each batch
/// costs two wake-ups, and a streamed list arrives event by event, so smaller batches would cost
/// more than they gain.
const LEAST_BATCH: usize = 256 << 10;
/// The largest number of bytes between the reader and the target. An object of more bytes is let
/// through alone. In addition, the reader may hold a batch and the beginning of an item.
const MOST_IN_FLIGHT: usize = 12 << 20;
/// The largest number of batches between the reader and the target.
const MOST_BATCHES: usize = 64;

/// The contents of a batch.
pub(super) enum Batch {
    /// Listed objects.
    Items(Vec<RawObject>),
    /// An object that was listed, and was deleted before the list was complete. Only streamed lists
    /// have such objects.
    Deleted(RawObject),
    /// The approximate number of objects of the whole list.
    Expect(usize),
    /// The versions of earlier lists cannot be compared with the versions of this list.
    IgnoreVersions,
}

/// The receiver of batches.
pub(super) type Batches = mpsc::Receiver<(Batch, OwnedSemaphorePermit)>;

/// The sender of batches, which the reader fills.
pub(super) struct BatchSender {
    batches: mpsc::Sender<(Batch, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    items: Vec<RawObject>,
    bytes: usize,
}

impl BatchSender {
    /// Creates the semaphore that limits the bytes in flight, for one reflector or several.
    pub(super) fn in_flight() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MOST_IN_FLIGHT))
    }

    pub(super) fn new(in_flight: &Arc<Semaphore>) -> (Self, Batches) {
        let (batches, receiver) = mpsc::channel(MOST_BATCHES);
        let room = Arc::clone(in_flight);
        (Self { batches, room, items: Vec::new(), bytes: 0 }, receiver)
    }

    /// Adds items. Sends a batch if it is full, or if it has the minimum size and the target is
    /// idle. [`flush`](Self::flush) sends the rest.
    pub(super) async fn items(&mut self, items: impl IntoIterator<Item = RawObject>) {
        for item in items {
            // A large item holds a share of the budget, which the next one may wait for.
            let is_large = item.len() > LARGE;
            self.bytes += item.len();
            self.items.push(item);
            if self.bytes >= BATCH_BYTES || is_large {
                self.flush().await;
            }
        }
        if self.bytes >= LEAST_BATCH && self.room.available_permits() == MOST_IN_FLIGHT {
            self.flush().await;
        }
    }

    /// Sends a batch, after the items that were added before it.
    pub(super) async fn send(&mut self, batch: Batch) {
        self.flush().await;
        let bytes = if let Batch::Deleted(object) = &batch { object.len() } else { 0 };
        self.send_sized(batch, bytes).await;
    }

    pub(super) fn holds_any(&self) -> bool {
        !self.items.is_empty()
    }

    pub(super) async fn flush(&mut self) {
        if !self.items.is_empty() {
            let (items, bytes) = (std::mem::take(&mut self.items), std::mem::take(&mut self.bytes));
            self.send_sized(Batch::Items(items), bytes).await;
        }
    }

    async fn send_sized(&self, batch: Batch, bytes: usize) {
        let permits = u32::try_from(bytes.min(MOST_IN_FLIGHT)).unwrap_or(u32::MAX);
        let sent = match self.room.clone().acquire_many_owned(permits).await {
            Ok(room) => self.batches.send((batch, room)).await.is_ok(),
            Err(_) => false,
        };
        if !sent {
            // The receiver has failed, and its error reaches the caller, which polls both ends.
            std::future::pending::<()>().await;
        }
    }
}

/// The outcome of passing a [`Batch`] to the target.
#[derive(Default)]
pub(super) struct BatchOutcome {
    /// The number of listed objects.
    pub(super) items: usize,
    /// The number of objects that were decoded.
    pub(super) decoded: u64,
    /// The number of objects that did not have to be decoded.
    pub(super) skipped: u64,
    /// Errors of single objects.
    pub(super) errors: Vec<ReflectorError>,
}

/// Passes batches to the target until the reader has no more. Calls `record` with the outcome of
/// each batch.
pub(super) async fn receive<K: Send + Sync + 'static>(
    target: &Arc<dyn Target<K>>,
    mut pieces: Box<dyn Pieces<K>>,
    decoder: &Arc<Decoder<K>>,
    threads: &Threads,
    mut batches: Batches,
    mut record: impl FnMut(BatchOutcome),
) -> Result<Box<dyn Pieces<K>>, Stop> {
    while let Some((batch, room)) = batches.recv().await {
        target.ready().await?;
        let decoder = Arc::clone(decoder);
        let received = threads.run(move || {
            let mut outcome = BatchOutcome::default();
            let done = receive_batch(pieces.as_mut(), &decoder, batch, &mut outcome);
            drop(room);
            (pieces, done, outcome)
        });
        let (returned, done, outcome) = received.await?;
        pieces = returned;
        record(outcome);
        done?;
    }
    Ok(pieces)
}

fn receive_batch<K: Send + Sync + 'static>(
    pieces: &mut dyn Pieces<K>,
    decoder: &Decoder<K>,
    batch: Batch,
    outcome: &mut BatchOutcome,
) -> Result<(), ReflectorError> {
    match batch {
        Batch::Expect(objects) => pieces.expect(objects),
        Batch::IgnoreVersions => pieces.ignore_versions(),
        Batch::Items(items) => receive_items(pieces, decoder, items, outcome)?,
        Batch::Deleted(RawObject::TooLarge(large)) => {
            outcome.errors.push(ReflectorError::too_large(&large));
            delete(pieces, &large.key().unwrap_or_default(), None, outcome)?;
        }
        Batch::Deleted(RawObject::Json(raw)) => {
            let head = head_of(&raw)?;
            let deleted = match decoder.one(&raw) {
                Ok(object) => {
                    outcome.decoded += 1;
                    Some(DeltaObject::from(object))
                }
                Err(error) => {
                    check(&raw).map_err(broken)?;
                    outcome.errors.push(ReflectorError::undecodable(&head, error));
                    None
                }
            };
            delete(pieces, &head.key(), deleted, outcome)?;
        }
    }
    Ok(())
}

fn delete<K: 'static>(
    pieces: &mut dyn Pieces<K>,
    name: &str,
    object: Option<DeltaObject<K>>,
    outcome: &mut BatchOutcome,
) -> Result<(), ReflectorError> {
    if name.is_empty() && object.is_none() {
        // Nothing identifies the deleted object.
        return Ok(());
    }
    match pieces.delete(name, object) {
        Ok(()) => {}
        Err(error @ StoreError::Relist(_)) => return Err(error.into()),
        // The target deletes the object by its name even if it refuses this last state.
        Err(refused) => outcome.errors.push(ReflectorError::refused(refused)),
    }
    Ok(())
}

/// Keeps the stored state of a listed object that cannot be read. If it has no readable name, all
/// unlisted objects are kept.
fn keep<K: 'static>(
    pieces: &mut dyn Pieces<K>,
    name: &str,
    error: ReflectorError,
    outcome: &mut BatchOutcome,
) -> Result<(), ReflectorError> {
    outcome.errors.push(error);
    if name.is_empty() {
        return keep_unlisted(pieces);
    }
    pieces.keep(name).map_err(relist)
}

/// Keeps all objects that are not listed. Fails if the target cannot do that.
pub(super) fn keep_unlisted<K: 'static>(pieces: &mut dyn Pieces<K>) -> Result<(), ReflectorError> {
    let error = || {
        WireError::not_that(
            "an object without a name, so no object may be deleted, which the target does not support",
            &[],
        )
    };
    if pieces.keep_unlisted() { Ok(()) } else { Err(broken(error())) }
}

fn head_of(raw: &[u8]) -> Result<Head<'_>, ReflectorError> {
    Head::of(raw).map_err(broken)
}

/// Converts the error of an invalid object to the error of its list, which is then not trusted.
fn broken(error: WireError) -> ReflectorError {
    ReflectorError::List(RequestError::from(error))
}

fn receive_items<K: Send + Sync + 'static>(
    pieces: &mut dyn Pieces<K>,
    decoder: &Decoder<K>,
    all: Vec<RawObject>,
    outcome: &mut BatchOutcome,
) -> Result<(), ReflectorError> {
    outcome.items += all.len();
    let mut items = Vec::with_capacity(all.len());
    for item in all {
        match item {
            RawObject::Json(json) => items.push(json),
            RawObject::TooLarge(large) => {
                let name = large.key().unwrap_or_default();
                keep(pieces, &name, ReflectorError::too_large(&large), outcome)?;
            }
        }
    }
    let heads: Vec<_> = items.iter().map(|item| head_of(item)).collect::<Result<_, _>>()?;
    let names: Vec<_> = heads.iter().map(Head::key).collect();
    let listed: Vec<_> = names
        .iter()
        .zip(&heads)
        .map(|(name, head)| (name.as_ref(), head.version.as_ref()))
        .collect();
    let needed = pieces.probe(&listed).map_err(relist)?;
    let needed: Vec<_> = (0..items.len()).filter(|&number| needed[number]).collect();
    let raw: Vec<_> = needed.iter().map(|&number| &items[number]).collect();
    let (mut names, mut objects) = (Vec::with_capacity(raw.len()), Vec::with_capacity(raw.len()));
    for (decoded, number) in decoder.all(&raw).into_iter().zip(needed) {
        let (name, _) = listed[number];
        match decoded {
            Ok(object) => {
                names.push(name);
                objects.push(object);
            }
            Err(error) => {
                check(&items[number]).map_err(broken)?;
                keep(pieces, name, ReflectorError::undecodable(&heads[number], error), outcome)?;
            }
        }
    }
    outcome.skipped += (items.len() - raw.len()) as u64;
    outcome.decoded += objects.len() as u64;
    let refused = pieces.offer(&names, objects).map_err(relist)?;
    outcome
        .errors
        .extend(refused.into_iter().map(|refused| ReflectorError::Refused(refused.source)));
    Ok(())
}

fn relist(error: RelistError) -> ReflectorError {
    ReflectorError::Store(error.into())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt;

    use super::{BATCH_BYTES, Batch, BatchSender, MOST_IN_FLIGHT};
    use crate::lister_watcher::RawObject;

    /// Returns the number of bytes that a sender accepts, in items of `item` bytes, while nothing
    /// is received.
    fn accepted(item: usize) -> usize {
        let (mut sender, _batches) = BatchSender::new(&BatchSender::in_flight());
        let (mut accepted, item) = (0, RawObject::from(Bytes::from(vec![b' '; item])));
        let items = std::iter::repeat_with(|| {
            accepted += item.len();
            item.clone()
        });
        assert!(sender.items(items).now_or_never().is_none(), "the reader waits");
        accepted
    }

    #[test]
    fn reader_waits_while_too_many_bytes_are_unreceived() {
        for item in [1 << 10, 100 << 10, 3 << 20, 8 << 20, 20 << 20] {
            let most = MOST_IN_FLIGHT.max(item) + BATCH_BYTES + item;
            assert!(
                (BATCH_BYTES..=most).contains(&accepted(item)),
                "items of {item}: {}",
                accepted(item)
            );
        }
    }

    #[test]
    fn deletions_count_as_objects_do() {
        let (mut sender, _batches) = BatchSender::new(&BatchSender::in_flight());
        let (mut accepted, object) = (0, RawObject::from(Bytes::from(vec![b' '; 1 << 20])));
        while sender.send(Batch::Deleted(object.clone())).now_or_never().is_some() {
            accepted += object.len();
        }
        assert_eq!(accepted, MOST_IN_FLIGHT);
    }
}
