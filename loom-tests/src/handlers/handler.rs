//! A handler: how it is registered, notified, and removed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltafifo_informer::shared_informer::{Buffer, HandlerOptions, Registration, Subscription};
use futures_util::{FutureExt, StreamExt};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};
use tokio::sync::Notify;

use super::log::{HandlerLog, MayMiss};
use super::world::{InformerObject, InformerWorld};
use super::{INITIAL, join, yield_randomly};

/// The way in which a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The handler ends when the informer stops.
    WithInformer,
    /// Another thread removes the handler at any moment.
    Removed,
    /// The handler removes itself after this many notifications.
    RemovesItself(usize),
}

/// Registers a handler at any moment, and runs it.
pub fn register_and_run(world: &Arc<InformerWorld>) -> Registered {
    yield_randomly(60);
    let (buffer, may_miss) = match thread_rng().gen_range(0..4) {
        0 => (Buffer::Compress, MayMiss::Any),
        1 => (Buffer::HoldBack(thread_rng().gen_range(1..3)), MayMiss::BeforeFirst),
        2 => (Buffer::HoldBack(1_000), MayMiss::BeforeFirst),
        _ => (Buffer::DropAndResync(thread_rng().gen_range(1..4)), MayMiss::BeforeResync),
    };
    let ending = match thread_rng().gen_range(0..4) {
        0 => Ending::Removed,
        1 => Ending::RemovesItself(thread_rng().gen_range(1..6)),
        _ => Ending::WithInformer,
    };
    let resync = thread_rng().gen_bool(0.5).then_some(Duration::from_secs(1));
    let options = HandlerOptions::new().buffer(buffer).resync(resync);
    let handler = Handler { world: world.clone(), log: Arc::default(), may_miss, ending };
    if thread_rng().gen_bool(0.5) {
        let stream = world.informer.subscribe(options).unwrap();
        handler.run_stream(stream)
    } else {
        handler.run_callback(options)
    }
}

#[derive(Clone)]
pub struct Handler {
    pub world: Arc<InformerWorld>,
    pub log: Arc<HandlerLog>,
    pub may_miss: MayMiss,
    pub ending: Ending,
}

/// A handler whose run has ended: it has been notified of everything, or was removed.
pub struct Registered {
    pub handler: Handler,
    registration: Registration<InformerObject>,
    stream: Option<Subscription<InformerObject>>,
    delivery: Option<JoinHandle<()>>,
}

impl Handler {
    /// Returns whether the handler has been notified of everything stored.
    fn is_complete(&self) -> bool {
        self.world.last.get().is_some_and(|all| self.log.knows(all))
    }

    pub fn run_stream(self, mut stream: Subscription<InformerObject>) -> Registered {
        let registration = stream.registration().clone();
        let removed = registration.clone();
        let remover = (self.ending == Ending::Removed).then(|| {
            thread::spawn(move || {
                yield_randomly(60);
                block_on(removed.remove());
            })
        });
        for count in 1.. {
            let has_synced = registration.has_synced();
            let Some(notification) = block_on(stream.next()) else {
                assert_eq!(
                    self.ending,
                    Ending::Removed,
                    "the stream ended, but the handler was not removed"
                );
                break;
            };
            self.log.record(&notification, has_synced);
            match self.ending {
                Ending::Removed => {}
                Ending::RemovesItself(most) if count >= most => break,
                Ending::RemovesItself(_) | Ending::WithInformer if self.is_complete() => break,
                Ending::RemovesItself(_) | Ending::WithInformer => {}
            }
        }
        join(remover);
        let stream = (self.ending == Ending::WithInformer).then_some(stream);
        Registered { handler: self, registration, stream, delivery: None }
    }

    fn run_callback(self, options: HandlerOptions<InformerObject>) -> Registered {
        let (complete, registration_cell) =
            (Arc::new(Notify::new()), Arc::new(OnceLock::<Registration<InformerObject>>::new()));
        let (handler, completed, cell) =
            (self.clone(), complete.clone(), registration_cell.clone());
        let mut count = 0;
        let called = move |notification| {
            handler.log.call_begins();
            handler.log.record(&notification, false);
            count += 1;
            let (handler, completed, cell) = (handler.clone(), completed.clone(), cell.clone());
            async move {
                thread::yield_now();
                if handler.is_complete() {
                    completed.notify_one();
                }
                let removes_itself = matches!(handler.ending, Ending::RemovesItself(most) if count >= most || handler.is_complete());
                handler.log.call_ends();
                if removes_itself {
                    cell.get().unwrap().detach();
                    handler.log.removes_itself();
                }
            }
        };
        let (registration, deliver) =
            self.world.informer.add_handler_by_hand(options, called).unwrap();
        registration_cell.set(registration.clone()).unwrap();
        let mut delivery = Some(thread::spawn(move || block_on(deliver)));
        match self.ending {
            Ending::WithInformer => {
                if thread_rng().gen_bool(0.5) {
                    block_on(registration.wait_for_sync()).unwrap();
                    self.log.has_synced(&INITIAL);
                }
                block_on(complete.notified());
            }
            Ending::Removed => {
                yield_randomly(60);
                block_on(registration.remove());
                self.log.close();
            }
            Ending::RemovesItself(_) => {
                block_on(registration.ended());
                self.log.close();
            }
        }
        if self.ending != Ending::WithInformer {
            join(delivery.take());
        }
        Registered { handler: self, registration, stream: None, delivery }
    }
}

impl Registered {
    /// Takes the remaining notifications of a stream, and checks that the handler then knows
    /// exactly the stored objects. Must be called when all writes are handled.
    pub fn check_complete(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        loop {
            let has_synced = self.registration.has_synced();
            let Some(notification) = stream.next().now_or_never() else { break };
            self.handler
                .log
                .record(&notification.expect("the handler was not removed"), has_synced);
        }
        assert!(self.handler.is_complete(), "the handler knows more than is stored");
        assert!(self.registration.has_synced(), "the handler knows all initial objects");
    }

    /// Checks, after the informer has stopped, that the handler has ended and that no notification
    /// waits for it.
    pub fn check_stopped(&mut self) {
        self.handler.log.close();
        if let Some(stream) = &mut self.stream {
            assert!(matches!(stream.next().now_or_never(), Some(None)), "the stream has not ended");
        }
        join(self.delivery.take());
        assert_eq!(self.registration.depth(), 0, "notifications wait for a handler that has ended");
    }
}
