//! A handler: how it is registered, notified, and removed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltafifo_informer::shared_informer::{Buffer, HandlerOptions, Registration, Subscription};
use futures_util::{FutureExt, StreamExt};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};
use tokio::sync::Notify;

use super::told::{Log, Misses};
use super::world::{Object, World};
use super::{INITIAL, dawdle, join};

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// When the informer stops.
    Stays,
    /// Another thread removes it at any moment.
    Removed,
    /// It removes itself after this many notifications.
    Leaves(usize),
}

/// Registers a handler at any moment and runs it.
pub fn handle(world: &Arc<World>) -> Met {
    dawdle(60);
    let (buffer, misses) = match thread_rng().gen_range(0..4) {
        0 => (Buffer::Compress, Misses::Between),
        1 => (Buffer::HoldBack(thread_rng().gen_range(1..3)), Misses::Before),
        2 => (Buffer::HoldBack(1_000), Misses::Before),
        _ => (Buffer::DropAndResync(thread_rng().gen_range(1..4)), Misses::Dropped),
    };
    let ending = match thread_rng().gen_range(0..4) {
        0 => Ending::Removed,
        1 => Ending::Leaves(thread_rng().gen_range(1..6)),
        _ => Ending::Stays,
    };
    let resync = thread_rng().gen_bool(0.5).then_some(Duration::from_secs(1));
    let options = HandlerOptions::new().buffer(buffer).resync(resync);
    let handler = Handler { world: world.clone(), log: Arc::default(), misses, ending };
    if thread_rng().gen_bool(0.5) {
        let stream = world.informer.subscribe(options).unwrap();
        handler.listen(stream)
    } else {
        handler.be_called(options)
    }
}

#[derive(Clone)]
pub struct Handler {
    pub world: Arc<World>,
    pub log: Arc<Log>,
    pub misses: Misses,
    pub ending: Ending,
}

/// A handler that has been notified of everything, or that was removed.
pub struct Met {
    pub handler: Handler,
    registration: Registration<Object>,
    stream: Option<Subscription<Object>>,
    teller: Option<JoinHandle<()>>,
}

impl Handler {
    /// Returns whether the handler has been notified of everything stored.
    fn is_complete(&self) -> bool {
        self.world.last.get().is_some_and(|all| self.log.knows(all))
    }

    pub fn listen(self, mut stream: Subscription<Object>) -> Met {
        let registration = stream.registration().clone();
        let removed = registration.clone();
        let remover = (self.ending == Ending::Removed).then(|| {
            thread::spawn(move || {
                dawdle(60);
                block_on(removed.remove());
            })
        });
        for number in 1.. {
            let has_synced = registration.has_synced();
            let Some(told) = block_on(stream.next()) else {
                assert_eq!(self.ending, Ending::Removed, "the stream ends");
                break;
            };
            self.log.note(&told, has_synced);
            match self.ending {
                Ending::Removed => {}
                Ending::Leaves(most) if number >= most => break,
                Ending::Leaves(_) | Ending::Stays if self.is_complete() => break,
                Ending::Leaves(_) | Ending::Stays => {}
            }
        }
        join(remover);
        let stream = (self.ending == Ending::Stays).then_some(stream);
        Met { handler: self, registration, stream, teller: None }
    }

    fn be_called(self, options: HandlerOptions<Object>) -> Met {
        let (complete, own) = (Arc::new(Notify::new()), Arc::new(OnceLock::<Registration<Object>>::new()));
        let (handler, completed, handle) = (self.clone(), complete.clone(), own.clone());
        let mut number = 0;
        let called = move |told| {
            handler.log.call_begins();
            handler.log.note(&told, false);
            number += 1;
            let (handler, completed, handle) = (handler.clone(), completed.clone(), handle.clone());
            async move {
                thread::yield_now();
                if handler.is_complete() {
                    completed.notify_one();
                }
                let leaves = matches!(handler.ending, Ending::Leaves(most) if number >= most || handler.is_complete());
                handler.log.call_ends();
                if leaves {
                    handle.get().unwrap().detach();
                    handler.log.leaves();
                }
            }
        };
        let (registration, telling) = self.world.informer.add_handler_by_hand(options, called).unwrap();
        own.set(registration.clone()).unwrap();
        let mut teller = Some(thread::spawn(move || block_on(telling)));
        match self.ending {
            Ending::Stays => {
                if thread_rng().gen_bool(0.5) {
                    block_on(registration.wait_for_sync()).unwrap();
                    self.log.has_synced(&INITIAL);
                }
                block_on(complete.notified());
            }
            Ending::Removed => {
                dawdle(60);
                block_on(registration.remove());
                self.log.close();
            }
            Ending::Leaves(_) => {
                block_on(registration.ended());
                self.log.close();
            }
        }
        if self.ending != Ending::Stays {
            join(teller.take());
        }
        Met { handler: self, registration, stream: None, teller }
    }
}

impl Met {
    /// Checks that no further notification is pending. Called when all writes are handled.
    pub fn is_at_rest(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        loop {
            let has_synced = self.registration.has_synced();
            let Some(told) = stream.next().now_or_never() else { break };
            self.handler.log.note(&told.expect("it was not removed"), has_synced);
        }
        assert!(self.handler.is_complete(), "it is told more, and of what is not stored");
        assert!(self.registration.has_synced(), "it was told all that is initial");
    }

    /// Checks the handler after the informer has stopped.
    pub fn ends(&mut self) {
        self.handler.log.close();
        if let Some(stream) = &mut self.stream {
            assert!(matches!(stream.next().now_or_never(), Some(None)), "its stream ends");
        }
        join(self.teller.take());
        assert_eq!(self.registration.depth(), 0, "something waits for who is gone");
    }
}
