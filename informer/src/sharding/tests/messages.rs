//! A record of log messages, for tests. `tests/shared_informer` and `tests/leader_election` include
//! this file.

use std::sync::Arc;

use deltafifo::locks::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// A record of the messages that are logged.
#[derive(Clone, Default)]
pub(crate) struct Messages(pub(crate) Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Messages {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        struct Message<'m>(&'m mut Vec<String>);
        impl Visit for Message<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0.push(format!("{value:?}"));
                }
            }
        }
        event.record(&mut Message(&mut self.0.lock()));
    }
}
