//! The upkeep of an informer's compact objects: dictionaries are trained, and objects are packed
//! again. The docs of [`compact`](crate::compact) explain packing, bases and dictionaries.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::{Meta, WalkPosition};
use tokio::time::{Instant, sleep, timeout};

use super::error::InformerError;
use super::{Inner, SharedInformer};
use crate::compact::{Compact, CompactStats, Upkeep};
use crate::reflector::{ReflectorError, Threads};
use crate::util::sleep::with_catching_waker;

/// The time between two passes over the objects, if no list ends.
const PERIOD: Duration = Duration::from_secs(60);
/// The number of objects in a step of a pass. If all of them have to be packed again, the step
/// takes about 20 ms.
const STEP: usize = 512;

impl<K: Send + Sync + 'static, M: Meta<K>> Inner<K, M> {
    /// Trains a dictionary after a list, or when a later object makes a training due, if one is
    /// [needed](Upkeep::end_list). After each of these events, and after each [`PERIOD`] in which
    /// objects have changed, packs again those stored objects whose base or dictionary was
    /// replaced, or whose base is used by few other objects. Never returns.
    pub(super) async fn upkeep(&self) -> Infallible {
        let Some(upkeep) = self.feeder.upkeep() else { return pending().await };
        let threads = Threads { work: self.work.clone() };
        // A call that stops the informer does not wait for a training. The training takes some
        // 100 ms, calls no user code and does not touch the store.
        let training = Threads::default();
        let mut lists = upkeep.lists();
        let mut last = None;
        loop {
            let listed = timeout(PERIOD, with_catching_waker(lists.changed())).await;
            let done = if listed.is_ok() {
                let upkeep = upkeep.clone();
                training.run(move || upkeep.end_list()).await
            } else {
                Ok(())
            };
            let now = upkeep.stats();
            let now = (now.packed, now.objects);
            let done = match done {
                // Nothing has changed since the last pass.
                Ok(()) if listed.is_err() && last == Some(now) => continue,
                Ok(()) => self.pass(&upkeep, &threads).await,
                Err(error) => Err(error),
            };
            last = Some(now);
            if let Err(error) = done {
                self.on_error.report(&InformerError::Reflector(&error));
            }
        }
    }

    /// Walks over all objects. A step is followed by a pause of its length, so that the pass uses
    /// at most half of a core.
    async fn pass(
        &self,
        upkeep: &Arc<dyn Upkeep<K>>,
        threads: &Threads,
    ) -> Result<(), ReflectorError> {
        let mut next = Some(WalkPosition::default());
        while let Some(from) = next {
            let (upkeep, store) = (upkeep.clone(), self.store.clone());
            let began = Instant::now();
            let step = threads.run(move || {
                let step = store.walk(from, STEP);
                step.objects.iter().for_each(|(_, object)| upkeep.repack(object));
                step.next
            });
            next = step.await?;
            sleep(began.elapsed()).await;
        }
        let upkeep = upkeep.clone();
        threads.run(move || upkeep.end_pass()).await
    }
}

impl<K: Send + Sync + 'static, M: Meta<Compact<K>>> SharedInformer<Compact<K>, M> {
    /// Returns the memory that the objects of the informer take, and the number and time of their
    /// decodes.
    #[must_use]
    pub fn compact_stats(&self) -> CompactStats {
        self.inner.feeder.upkeep().map(|upkeep| upkeep.stats()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use deltafifo::{BoxError, KeyFunc};
    use deltafifo_testkit::{ApiServer, Resource};
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::sync::{Mutex, Notify, watch};
    use tokio::time::timeout;

    use super::super::SharedInformerBuilder;
    use super::super::source::{InformerSource, ListSource};
    use crate::compact::{CompactStats, Upkeep};
    use crate::reflector::Decode;
    use crate::{KubeListerWatcher, KubeMeta};

    /// A decoder whose training takes until the test releases the lock `end`.
    #[derive(Default)]
    struct Trainer {
        lists: watch::Sender<u64>,
        began: Notify,
        end: Mutex<()>,
    }

    impl Decode<ConfigMap> for Trainer {
        fn decode(&self, _: &[u8]) -> Result<Arc<ConfigMap>, BoxError> {
            Ok(Arc::default())
        }

        fn end_list(&self) {
            self.lists.send_modify(|lists| *lists += 1);
        }

        fn upkeep(self: Arc<Self>) -> Option<Arc<dyn Upkeep<ConfigMap>>> {
            Some(self)
        }
    }

    impl Upkeep<ConfigMap> for Trainer {
        fn lists(&self) -> watch::Receiver<u64> {
            self.lists.subscribe()
        }

        fn end_list(&self) {
            self.began.notify_one();
            drop(self.end.blocking_lock());
        }

        fn repack(&self, _: &Arc<ConfigMap>) {}

        fn end_pass(&self) {}

        fn stats(&self) -> CompactStats {
            CompactStats::default()
        }
    }

    #[tokio::test]
    async fn stop_does_not_wait_for_a_training() {
        let server = ApiServer::builder().resource(Resource::config_maps()).build();
        let maps = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let trainer = Arc::new(Trainer::default());
        let training = trainer.end.lock().await;
        let decoder = trainer.clone();
        let source = InformerSource::lists(
            ListSource::Whole(Arc::new(maps)),
            Box::new(move |_, _, _| decoder),
        );
        let keys = KeyFunc::meta_namespace(KubeMeta);
        let informer = SharedInformerBuilder::new(source, keys).build().unwrap();
        let running = informer.clone();
        let run = tokio::spawn(async move { running.run().await });
        trainer.began.notified().await;
        timeout(Duration::from_secs(60), informer.stop()).await.expect("the training goes on");
        run.await.unwrap().unwrap();
        drop(training);
    }
}
