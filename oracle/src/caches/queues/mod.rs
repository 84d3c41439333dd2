//! Compares `Fifo` and `Heap` with a list in the order of arrival. The operations between a
//! `Handle` and its `End` run inside the handler. They may pop further keys, so that several
//! handlers run at once.

mod plain;

use std::panic::resume_unwind;
use std::slice::Iter;
use std::sync::Arc;

use deltafifo::caches::{Fifo, Heap, HeapError, KeyedQueue};
use deltafifo::{BoxError, Closed, ProcessError};

use super::specs::{Created, KeySpec, ObjectSpec, keys, sorted};
use crate::{Obj, ObjMeta, key_func};
use plain::{Plain, Refusal};

/// The text of the error and of the panic with which handlers end.
const EXPECTED: &str = "expected by this test";

/// The order in which keys are popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By arrival, as in a `Fifo`.
    Arrival,
    /// By number, the smallest first, and by arrival for equal numbers, as in a `Heap`.
    Least,
}

/// The end of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the variants describe them")]
pub enum Ending {
    Well,
    Failed,
    Panicked,
}

/// An operation on the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Queues an object.
    Add(ObjectSpec),
    /// Queues an object with `update`.
    Update(ObjectSpec),
    /// Queues an object unless its key is queued.
    AddIfNotPresent(ObjectSpec),
    /// Queues several objects at once. A `Fifo` queues them one after another.
    BulkAdd(Vec<ObjectSpec>),
    /// Replaces the contents by these objects.
    Replace(Vec<ObjectSpec>),
    /// Removes a key.
    Delete(KeySpec),
    /// Pops the first key.
    Pop,
    /// Pops the first key with a handler that runs the operations up to the next `End`, and then
    /// ends as the [`Ending`] says.
    Handle(Ending),
    /// Ends the innermost handler.
    End,
    /// Closes the queue.
    Close,
}

impl From<[u8; 4]> for Op {
    fn from([code, a, b, c]: [u8; 4]) -> Self {
        let object = || ObjectSpec::read(a, b);
        match code {
            255 => return Self::Close,
            // Lists are rare, because each replaces everything queued.
            240.. => return Self::Replace(ObjectSpec::list([a, b, c])),
            _ => {}
        }
        match code % 16 {
            0..=3 => Self::Add(object()),
            4 => Self::Update(object()),
            5 => Self::AddIfNotPresent(object()),
            6 => Self::BulkAdd(ObjectSpec::list([a, b, c])),
            7 | 8 => Self::Delete(KeySpec::read(a, b)),
            9 | 10 => Self::Pop,
            11 => Self::Handle(Ending::Failed),
            12 => Self::Handle(Ending::Panicked),
            13 => Self::Handle(Ending::Well),
            _ => Self::End,
        }
    }
}

/// Applies `ops` to a queue and to the plain reference queue, and compares the two.
///
/// # Panics
/// Panics if the two differ.
pub fn run(order: Order, ops: &[Op]) {
    let queue = match order {
        Order::Arrival => Queue::Fifo(Fifo::new(key_func())),
        Order::Least => Queue::Heap(Heap::new(key_func(), |a, b| a.n < b.n)),
    };
    let mut both = Both { queue: &queue, plain: Plain::new(order), created: Created::default() };
    let mut ops = ops.iter();
    while !ops.as_slice().is_empty() {
        both.steps(&mut ops);
    }
    queue.keyed().close();
    both.plain.closed = true;
    while !both.plain.queued.is_empty() {
        both.pop();
    }
    both.pop();
    let created = both.created;
    drop(queue);
    created.assert_released();
}

enum Queue {
    Fifo(Fifo<Obj, ObjMeta>),
    Heap(Heap<Obj, ObjMeta>),
}

impl Queue {
    fn keyed(&self) -> &KeyedQueue<Obj, ObjMeta> {
        match self {
            Self::Fifo(queue) => queue,
            Self::Heap(queue) => queue,
        }
    }

    /// Calls `fifo` or `heap`, whichever is for this kind of queue. The result has the error type
    /// of a `Heap`, because the errors of a `Fifo` are a subset of it.
    fn either<E>(
        &self,
        fifo: impl FnOnce(&Fifo<Obj, ObjMeta>) -> Result<(), E>,
        heap: impl FnOnce(&Heap<Obj, ObjMeta>) -> Result<(), HeapError>,
    ) -> Result<(), HeapError>
    where
        HeapError: From<E>,
    {
        match self {
            Self::Fifo(queue) => Ok(fifo(queue)?),
            Self::Heap(queue) => heap(queue),
        }
    }
}

struct Both<'q> {
    queue: &'q Queue,
    plain: Plain,
    created: Created,
}

impl Both<'_> {
    /// Applies operations up to the next `End`.
    fn steps(&mut self, ops: &mut Iter<'_, Op>) {
        while let Some(op) = ops.next() {
            match op {
                Op::End => return,
                Op::Handle(ending) => self.handle(*ending, ops),
                op => self.step(op),
            }
            self.compare();
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Add(object) => self.add(*object),
            Op::Update(object) => {
                let object = self.created.object(*object);
                let done = self
                    .queue
                    .either(|fifo| fifo.update(object.clone()), |heap| heap.update(object.clone()));
                assert_eq!(refusal(done), self.plain.put(vec![object], false));
            }
            Op::AddIfNotPresent(object) => {
                let object = self.created.object(*object);
                let done = self.queue.either(
                    |fifo| fifo.add_if_not_present(object.clone()),
                    |heap| heap.add_if_not_present(object.clone()),
                );
                assert_eq!(refusal(done), self.plain.put(vec![object], true));
            }
            Op::BulkAdd(list) => match self.queue {
                Queue::Fifo(_) => list.iter().for_each(|object| self.add(*object)),
                Queue::Heap(heap) => {
                    let list = self.created.list(list);
                    assert_eq!(refusal(heap.bulk_add(list.clone())), self.plain.put(list, false));
                }
            },
            Op::Replace(list) => {
                let list = self.created.list(list);
                let done = self
                    .queue
                    .either(|fifo| fifo.replace(list.clone()), |heap| heap.replace(list.clone()));
                assert_eq!(refusal(done), self.plain.replace(list));
            }
            Op::Delete(key) => {
                let queue = self.queue;
                let done = key.with_source(&mut self.created, |of| match queue {
                    Queue::Fifo(fifo) => Ok(fifo.delete(of)?),
                    Queue::Heap(heap) => heap.delete(of),
                });
                assert_eq!(refusal(done), self.plain.delete(&key.key()));
            }
            Op::Pop => self.pop(),
            Op::Close => {
                self.queue.keyed().close();
                self.plain.closed = true;
            }
            Op::Handle(_) | Op::End => unreachable!("handled by the callers"),
        }
    }

    fn add(&mut self, object: ObjectSpec) {
        let object = self.created.object(object);
        let done =
            self.queue.either(|fifo| fifo.add(object.clone()), |heap| heap.add(object.clone()));
        assert_eq!(refusal(done), self.plain.put(vec![object], false));
    }

    /// Pops the first key. Does nothing if the pop would block.
    fn pop(&mut self) {
        match self.plain.take() {
            Some(expected) => assert_eq!(self.queue.keyed().pop(), Ok(expected.object)),
            None if self.plain.closed && self.plain.queued.is_empty() => {
                assert_eq!(self.queue.keyed().pop(), Err(Closed));
            }
            None => {}
        }
    }

    fn handle(&mut self, ending: Ending, ops: &mut Iter<'_, Op>) {
        let queue = self.queue;
        let Some(expected) = self.plain.take() else { return self.pop() };
        let key = expected.object.name.clone();
        let handler = |object: &Arc<Obj>, initial: bool| {
            assert_eq!((object, initial), (&expected.object, expected.initial));
            self.plain.in_work.push(expected);
            self.compare();
            self.steps(ops);
            match ending {
                Ending::Well => Ok(()),
                Ending::Failed => Err(BoxError::from(EXPECTED)),
                // `resume_unwind` skips the panic hook, which would end a fuzzer's run.
                Ending::Panicked => resume_unwind(Box::new(EXPECTED)),
            }
        };
        let ended = match queue {
            Queue::Fifo(fifo) => fifo.process(handler),
            Queue::Heap(heap) => heap.process(handler),
        };
        self.plain.in_work.pop();
        let is_expected = match (&ended, ending) {
            (Ok(()), Ending::Well) => true,
            (Err(ProcessError::Handler { key: of, error }), Ending::Failed) => {
                *of == key && error.to_string() == EXPECTED
            }
            (Err(ProcessError::Panicked { key: of, message }), Ending::Panicked) => {
                *of == key && message == EXPECTED
            }
            _ => false,
        };
        assert!(is_expected, "{ended:?}, and the handler {ending:?}");
    }

    fn compare(&self) {
        let (queue, plain) = (self.queue.keyed(), &self.plain);
        assert_eq!((queue.len(), queue.is_empty()), (plain.queued.len(), plain.queued.is_empty()));
        let expected = sorted(plain.queued.iter().map(|entry| entry.object.clone()).collect());
        let mut listed = queue.list_keys();
        listed.sort();
        assert!(listed.iter().eq(expected.iter().map(|object| &object.name)), "{listed:?}");
        for key in keys() {
            let queued = expected.iter().find(|object| object.name == key);
            assert_eq!(queue.get_by_key(&key).as_ref(), queued, "{key}");
        }
        assert_eq!(sorted(queue.list()), expected);
        assert_eq!((queue.has_synced(), queue.is_closed()), (plain.has_synced(), plain.closed));
        // Called only where it does not block.
        if plain.closed || plain.has_synced() {
            assert_eq!(queue.wait_for_sync().is_ok(), plain.has_synced());
        }
    }
}

fn refusal(done: Result<(), HeapError>) -> Result<(), Refusal> {
    done.map_err(|error| match error {
        HeapError::Key(_) => Refusal::NoKey,
        HeapError::Closed => Refusal::Closed,
        HeapError::NotFound { .. } => Refusal::NotFound,
        error => panic!("{error}"),
    })
}
