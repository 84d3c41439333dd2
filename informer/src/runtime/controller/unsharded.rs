//! Types without values in place of those of sharded controllers, for builds without the feature
//! `leader-election`. So the other files of the controller need no `cfg`.

use std::convert::Infallible;
use std::sync::Arc;

use deltafifo::{IndexReader, Meta};
use futures_util::future::Pending;
use kube::api::DynamicObject;
use tokio::sync::{Notify, mpsc};

use super::RunnerError;
use super::start::{InformerRole, Started};
use crate::runtime::reflector::ObjectRef;
use crate::runtime::watcher;
use crate::shared_informer::{Registration, SharedInformer};

pub(super) type Announcement = Infallible;
pub(super) type Participation = Infallible;

#[derive(Clone)]
pub(super) enum Permit {}

impl Permit {
    pub(super) fn enter<T>(&self, _call: impl FnOnce() -> T) -> T {
        match *self {}
    }

    pub(super) fn run<T>(self, _work: impl Future<Output = T>) -> Pending<Option<T>> {
        match self {}
    }

    pub(super) fn pause(self) -> PausedPermit {
        match self {}
    }
}

pub(super) enum PausedPermit {}

impl PausedPermit {
    pub(super) fn resume(self) -> Option<Permit> {
        match self {}
    }
}

#[derive(Clone)]
pub(super) enum Sharding {}

impl Sharding {
    pub(super) fn shard_of_object<K, M: Meta<K>>(&self, _: &M, _: &K) -> Option<u8> {
        match *self {}
    }

    pub(super) fn admit(&self, _shard: u8) -> Option<Permit> {
        match *self {}
    }

    pub(super) fn shard_of_key(&self, _key: &str) -> Option<u8> {
        match *self {}
    }

    pub(super) fn without_shard(&self, _: ObjectRef<DynamicObject>) -> RunnerError {
        match *self {}
    }

    pub(super) fn fills(&self, _: &mpsc::Sender<watcher::Error>) -> Fills {
        match *self {}
    }

    pub(super) fn join<K, M>(&self, _: &mut Started, _: IndexReader<K, M>) {
        match *self {}
    }
}

pub(super) fn is_in_shards<K: Send + Sync + 'static, M: Meta<K>>(_: &SharedInformer<K, M>) -> bool {
    false
}

pub(super) enum Fills {}

impl Fills {
    pub(super) fn add<K: Send + Sync + 'static, M: Meta<K>>(
        &mut self,
        _: &SharedInformer<K, M>,
        _: Registration<K>,
        _: Arc<Notify>,
        _: InformerRole,
    ) -> Result<(), RunnerError> {
        match *self {}
    }
}
