//! A test that every public type can be shared among threads.

use deltafifo_informer::lister_watcher::{
    ListRequest, Listed, Merged, PageMeta, RawEvent, Request, RequestError, Scripted, WatchRequest,
};
use deltafifo_informer::reflector::ReflectorBuilder;
use deltafifo_informer::shared_informer::*;
use deltafifo_informer::{
    KubeListerWatcher, KubeMeta, Reflector, ReflectorError, SharedInformer, workqueue,
};
use k8s_openapi::api::core::v1::ConfigMap;

#[test]
fn public_types_can_be_shared_among_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<SharedInformer<ConfigMap>>();
    shared::<SharedInformerBuilder<ConfigMap, KubeMeta>>();
    shared::<SharedInformerFactory>();
    shared::<Scope>();
    shared::<Buffer>();
    shared::<Cause>();
    shared::<HandlerOptions<ConfigMap>>();
    shared::<Notification<ConfigMap>>();
    shared::<Registration<ConfigMap>>();
    shared::<Subscription<ConfigMap>>();
    shared::<(AddHandlerError, BuildError, FactoryError, NotSynced, Removed, RunError, Stopped)>();
    shared::<InformerError<'static>>();

    shared::<(Reflector<ConfigMap>, ReflectorBuilder<ConfigMap>, ReflectorError)>();
    shared::<(KubeListerWatcher, Merged, Scripted, Request)>();
    shared::<(ListRequest, WatchRequest, Listed, PageMeta, RawEvent, RequestError)>();
    shared::<KubeMeta>();
    shared::<(deltafifo_informer::metrics::Metric, deltafifo_informer::metrics::Kind)>();
    shared::<(workqueue::WorkQueue<String>, workqueue::Item<String>)>();
}
