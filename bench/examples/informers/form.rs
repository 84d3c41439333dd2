//! How handlers are called.

use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::shared_informer::{
    AddHandlerError, HandlerOptions, Notification, Registration,
};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;

#[derive(Clone, Copy, ValueEnum)]
pub enum Form {
    /// Each on a thread of its own
    Thread,
    /// Each in a task
    Task,
    /// Each a stream, in a task that reads it
    Stream,
}

impl Form {
    /// Adds a handler. `tell` says how long it is to take for what it was told.
    pub fn add(
        self,
        informer: &SharedInformer<ConfigMap>,
        options: HandlerOptions<ConfigMap>,
        mut tell: impl FnMut(Notification<ConfigMap>) -> Duration + Send + 'static,
    ) -> Result<Registration<ConfigMap>, AddHandlerError> {
        match self {
            Self::Thread => {
                informer.add_event_handler_with(options, move |told: Notification<ConfigMap>| {
                    match tell(told) {
                        Duration::ZERO => {}
                        pause => thread::sleep(pause),
                    }
                })
            }
            Self::Task => informer.add_async_handler(options, move |told| pause(tell(told))),
            Self::Stream => {
                let mut stream = informer.subscribe(options)?;
                let handle = stream.registration().clone();
                tokio::spawn(async move {
                    while let Some(told) = stream.next().await {
                        pause(tell(told)).await;
                    }
                });
                Ok(handle)
            }
        }
    }
}

/// A pause of nothing is none at all: a timer's shortest is a millisecond.
async fn pause(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}
