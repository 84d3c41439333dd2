//! `Fifo` and `Heap` beside a list in the order in which keys came. A handler may take another
//! key, so that several are in hand at once; what comes meanwhile, up to its end, is part of the
//! same operations.

mod plain;

use std::panic::resume_unwind;
use std::slice::Iter;
use std::sync::Arc;

use deltafifo::{BoxError, Closed, Fifo, Heap, HeapError, KeyedQueue, ProcessError};

use super::spelled::{Made, Spelled, Told, keys, sorted};
use crate::{Obj, ObjMeta, key_func};
use plain::{Plain, Refusal};

/// What handlers fail and panic with.
const EXPECTED: &str = "expected by this test";

/// Who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A `Fifo`: whoever came first.
    Arrival,
    /// A `Heap`: the least number, and among equals whoever came first.
    Least,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Ending {
    Well,
    Failed,
    Panicked,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Queues an object.
    Add(Spelled),
    /// The same by the other name.
    Update(Spelled),
    /// Queues an object unless its key is queued.
    AddIfNotPresent(Spelled),
    /// Queues several at once; a `Fifo` one after another.
    BulkAdd(Vec<Spelled>),
    /// Queues exactly these.
    Replace(Vec<Spelled>),
    /// Takes a key out.
    Delete(Told),
    /// Takes whoever is first.
    Pop,
    /// The same for a handler that ends like this, but first does what follows.
    Handle(Ending),
    /// Up to here.
    End,
    /// Closes the queue.
    Close,
}

impl From<[u8; 4]> for Op {
    fn from([what, a, b, c]: [u8; 4]) -> Self {
        let object = || Spelled::read(a, b);
        match what {
            255 => return Self::Close,
            // Another list every now and then: each ends what was.
            240.. => return Self::Replace(Spelled::list([a, b, c])),
            _ => {}
        }
        match what % 16 {
            0..=3 => Self::Add(object()),
            4 => Self::Update(object()),
            5 => Self::AddIfNotPresent(object()),
            6 => Self::BulkAdd(Spelled::list([a, b, c])),
            7 | 8 => Self::Delete(Told::read(a, b)),
            9 | 10 => Self::Pop,
            11 => Self::Handle(Ending::Failed),
            12 => Self::Handle(Ending::Panicked),
            13 => Self::Handle(Ending::Well),
            _ => Self::End,
        }
    }
}

/// Does `ops` to a queue and to the plain one.
///
/// # Panics
/// When the two differ.
pub fn run(order: Order, ops: &[Op]) {
    let queue = match order {
        Order::Arrival => Queue::Fifo(Fifo::new(key_func())),
        Order::Least => Queue::Heap(Heap::new(key_func(), |a, b| a.n < b.n)),
    };
    let mut both = Both { queue: &queue, plain: Plain::new(order), made: Made::default() };
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
    let made = both.made;
    drop(queue);
    made.assert_released();
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

    /// Does the one or the other; the errors of a `Fifo` are some of those of a `Heap`.
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
    made: Made,
}

impl Both<'_> {
    /// Does things until one of them is an end.
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
                let object = self.made.object(*object);
                let done = self
                    .queue
                    .either(|fifo| fifo.update(object.clone()), |heap| heap.update(object.clone()));
                assert_eq!(refusal(done), self.plain.put(vec![object], false));
            }
            Op::AddIfNotPresent(object) => {
                let object = self.made.object(*object);
                let done = self.queue.either(
                    |fifo| fifo.add_if_not_present(object.clone()),
                    |heap| heap.add_if_not_present(object.clone()),
                );
                assert_eq!(refusal(done), self.plain.put(vec![object], true));
            }
            Op::BulkAdd(list) => match self.queue {
                Queue::Fifo(_) => list.iter().for_each(|object| self.add(*object)),
                Queue::Heap(heap) => {
                    let list = self.made.list(list);
                    assert_eq!(refusal(heap.bulk_add(list.clone())), self.plain.put(list, false));
                }
            },
            Op::Replace(list) => {
                let list = self.made.list(list);
                let done = self
                    .queue
                    .either(|fifo| fifo.replace(list.clone()), |heap| heap.replace(list.clone()));
                assert_eq!(refusal(done), self.plain.replace(list));
            }
            Op::Delete(told) => {
                let queue = self.queue;
                let done = told.tell(&mut self.made, |of| match queue {
                    Queue::Fifo(fifo) => Ok(fifo.delete(of)?),
                    Queue::Heap(heap) => heap.delete(of),
                });
                assert_eq!(refusal(done), self.plain.delete(&told.key()));
            }
            Op::Pop => self.pop(),
            Op::Close => {
                self.queue.keyed().close();
                self.plain.closed = true;
            }
            Op::Handle(_) | Op::End => unreachable!("not by itself"),
        }
    }

    fn add(&mut self, object: Spelled) {
        let object = self.made.object(object);
        let done =
            self.queue.either(|fifo| fifo.add(object.clone()), |heap| heap.add(object.clone()));
        assert_eq!(refusal(done), self.plain.put(vec![object], false));
    }

    /// A pop that would wait is left out.
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
            self.plain.in_hand.push(expected);
            self.compare();
            self.steps(ops);
            match ending {
                Ending::Well => Ok(()),
                Ending::Failed => Err(BoxError::from(EXPECTED)),
                // Without the hook, which ends a fuzzer's run.
                Ending::Panicked => resume_unwind(Box::new(EXPECTED)),
            }
        };
        let ended = match queue {
            Queue::Fifo(fifo) => fifo.process(handler),
            Queue::Heap(heap) => heap.process(handler),
        };
        self.plain.in_hand.pop();
        let is_expected = match (&ended, ending) {
            (Ok(()), Ending::Well) => true,
            (Err(ProcessError::Handler { key: of, source }), Ending::Failed) => {
                *of == key && source.to_string() == EXPECTED
            }
            (Err(ProcessError::Panicked { key: of, message }), Ending::Panicked) => {
                *of == key && message == EXPECTED
            }
            _ => false,
        };
        assert!(is_expected, "{ended:?}, but it {ending:?}");
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
        // Where it does not wait.
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
