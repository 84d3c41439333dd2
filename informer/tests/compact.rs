//! Tests of informers of compact objects against an API server in this process, with a paused
//! clock.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use deltafifo::caches::MutationCache;
use deltafifo::{IndexError, Indexers, Lister, OWNER_INDEX, Selector};
use deltafifo_informer::compact::{Compact, CompactStats, Compactor, UnnamedField};
use deltafifo_informer::metrics::ALL;
use deltafifo_informer::reflector::ReflectorError;
use deltafifo_informer::shared_informer::{
    BuildError, FactoryError, HandlerOptions, InformerError, Namespaces, Notification, Scope,
    SharedInformerBuilder, SharedInformerFactory, Subscription,
};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::discovery;
use metrics::with_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

type Map = Compact<ConfigMap>;
type Informer = SharedInformer<Map>;
type Builder = SharedInformerBuilder<Map, KubeMeta>;

/// The builder methods that choose each kind of queue.
const QUEUES: [fn(Builder) -> Builder; 2] = [|maps| maps, |maps| maps.in_order()];

fn server() -> ApiServer {
    ApiServer::builder().resource(Resource::config_maps()).build()
}

fn map(name: &str, data: &str) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "namespace": "shop", "name": name, "labels": { "app": "web" } },
        "data": { "data": data, "same": "a text that all of these maps have, and that is long" },
    })
}

fn builder(server: &ApiServer) -> Builder {
    Informer::builder(KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None))
}

/// Starts an informer on a task that runs until the test's runtime ends, and waits for the sync.
async fn run<K: Send + Sync + 'static>(informer: &SharedInformer<K>)
where
    KubeMeta: deltafifo::Meta<K>,
{
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    informer.wait_for_sync().await.unwrap();
}

/// Waits until the informer has made this many passes over its objects, to pack some of them again.
/// Returns the informer's statistics.
async fn passes(informer: &Informer, count: u64) -> CompactStats {
    while informer.compact_stats().passes < count {
        sleep(Duration::from_secs(1)).await;
    }
    informer.compact_stats()
}

fn value(map: &Map) -> String {
    map.decode().unwrap().data.unwrap()["data"].clone()
}

fn shown(received: &Notification<Map>) -> String {
    match received {
        Notification::Added { new, .. } => format!("+{}={}", new.name().unwrap(), value(new)),
        Notification::Updated { old, new, .. } => {
            format!("{}={}>{}", new.name().unwrap(), value(old), value(new))
        }
        Notification::Deleted { old, .. } => format!("-{}={}", old.name().unwrap(), value(old)),
        Notification::ResyncBegins | Notification::ResyncEnds => "resync".to_owned(),
    }
}

async fn next(stream: &mut Subscription<Map>, count: usize) -> Vec<String> {
    let mut all: Vec<_> = stream.take(count).map(|received| shown(&received)).collect().await;
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn handlers_receive_old_and_new_objects_of_lists_and_watches() {
    for (number, queue) in QUEUES.into_iter().enumerate() {
        let server = server();
        for name in ["a", "b", "c"] {
            server.apply(map(name, "1")).unwrap();
        }
        let informer = queue(builder(&server)).build().unwrap();
        let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
        run(&informer).await;
        assert_eq!(next(&mut stream, 3).await, ["+a=1", "+b=1", "+c=1"]);
        server.wait_for_watchers(1).await;
        server.apply(map("a", "2")).unwrap();
        server.delete(&Resource::config_maps(), "shop", "b").unwrap();
        server.apply(map("d", "1")).unwrap();
        assert_eq!(next(&mut stream, 3).await, ["+d=1", "-b=1", "a=1>2"]);

        let packed = informer.compact_stats().packed;
        server.error_watches(status::expired("cut off by the test"));
        server.apply(map("a", "3")).unwrap();
        server.delete(&Resource::config_maps(), "shop", "c").unwrap();
        server.compact();
        assert_eq!(next(&mut stream, 2).await, ["-c=1", "a=2>3"]);
        assert_eq!(informer.lister().list().len(), 2);
        // An in-order queue takes the whole list.
        let again = if number == 0 { 1 } else { 2 };
        assert_eq!(informer.compact_stats().packed, packed + again, "d is unchanged");
        let mut late = informer.subscribe(HandlerOptions::new()).unwrap();
        assert_eq!(next(&mut late, 2).await, ["+a=3", "+d=1"]);
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn objects_shrink_after_the_list_and_stay_equal() {
    let server = server();
    let names: Vec<_> = (0..600).map(|number| format!("m{number}")).collect();
    for (number, name) in (0_u64..).zip(&names) {
        let mut map = map(name, name);
        // Maps of different groups, which have only their keys and the value of `same` in common.
        map["metadata"]["labels"]["app"] = json!(name);
        let key = |at: u64| format!("{:x}", (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let values = (0..20).map(|at| (key(at), format!("{:x}", number * 99 + at).into()));
        map["data"].as_object_mut().unwrap().extend(values);
        server.apply(map).unwrap();
    }
    let mut bytes = Vec::new();
    for train in [true, false] {
        let informer = builder(&server)
            .reflector(move |maps| maps.compactor(Compactor::builder().train(train)))
            .build()
            .unwrap();
        run(&informer).await;
        let stats = passes(&informer, 1).await;
        assert_eq!((stats.objects, stats.failed_decodes), (600, 0));
        assert_eq!(stats.dictionary_bytes > 0, train);
        bytes.push(stats.bytes + stats.base_bytes);
        for name in &names {
            let map = informer.store().get_by_key(&format!("shop/{name}")).unwrap();
            assert_eq!(value(&map), *name);
        }
        assert_eq!(informer.compact_stats().decodes, 600);
    }
    assert!(bytes[0] * 4 < bytes[1] * 3, "{} bytes instead of {}", bytes[0], bytes[1]);
}

#[tokio::test(start_paused = true)]
async fn base_of_a_workload_that_changed_is_given_up_by_the_next_pass() {
    let server = server();
    let roll = |count: u64, step: u64| {
        for number in 0..count {
            let mut map = map(&format!("m{number}"), "1");
            let noise = (step..step + 40).map(|at| format!("{:x}", at.wrapping_mul(0x9E37_79B9)));
            map["data"]["same"] = noise.collect::<String>().into();
            server.apply(map).unwrap();
        }
    };
    roll(40, 1_000_000);
    let informer = builder(&server).build().unwrap();
    let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
    run(&informer).await;
    assert_eq!(passes(&informer, 1).await.bases, 1);
    server.wait_for_watchers(1).await;
    roll(30, 2_000_000);
    stream.by_ref().take(70).for_each(|_| async {}).await;
    assert_eq!(informer.compact_stats().bases, 2, "ten maps have the old base");
    let stats = passes(&informer, 2).await;
    assert_eq!((stats.bases, stats.objects), (1, 40));
}

#[tokio::test(start_paused = true)]
async fn transform_is_refused_at_build() {
    let server = server();
    let built = builder(&server).transform(Ok).build();
    assert!(matches!(built, Err(BuildError::Transform)));
    assert!(BuildError::Transform.to_string().contains("without"));
    let factory = SharedInformerFactory::new(server.client()).transform_metadata(|_| ());
    let built = factory.informer::<Map>(&Scope::all());
    assert!(matches!(built, Err(FactoryError::Build(BuildError::Transform))));
    factory.informer::<ConfigMap>(&Scope::all()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn factory_has_informers_of_compact_objects() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let factory = SharedInformerFactory::new(server.client());
    let compact = factory.informer::<Map>(&Scope::all()).unwrap();
    let typed = factory.informer::<ConfigMap>(&Scope::all()).unwrap();
    factory.start();
    factory.wait_for_cache_sync(std::future::pending()).await.unwrap();
    let web: Selector = "app=web".parse().unwrap();
    let lister: Lister<Map, KubeMeta> = compact.lister();
    let found = lister.namespace("shop").select(&web);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].decode().unwrap(), *typed.lister().list()[0]);
    assert!(factory.remove::<Map>(&(), &Scope::all()).await);
    assert!(compact.is_stopped() && !typed.is_stopped());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_share_bases() {
    let server = server();
    let map = |namespace: &str| {
        let mut map = map("ca", "1");
        map["metadata"]["namespace"] = namespace.into();
        map
    };
    server.apply(map("blue")).unwrap();
    let maps = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let namespaces = Namespaces::new(["blue", "green"]).unwrap();
    let source = move |namespace: &str| maps.in_namespace(namespace);
    let informer = Informer::in_namespaces(&namespaces, source).build().unwrap();
    let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
    run(&informer).await;
    // Two objects that are packed at the same time may have no base.
    server.wait_for_watchers(2).await;
    server.apply(map("green")).unwrap();
    assert_eq!(next(&mut stream, 2).await, ["+ca=1", "+ca=1"]);
    let stats = informer.compact_stats();
    assert_eq!((stats.objects, stats.bases), (2, 1));
    assert_eq!(value(&informer.store().get_by_key("green/ca").unwrap()), "1");
}

#[tokio::test(start_paused = true)]
async fn named_informer_records_its_memory_and_decodes() {
    let server = server();
    for (name, data) in [("a", "1"), ("b", "2"), ("c", "3")] {
        server.apply(map(name, data)).unwrap();
    }
    let sink = DebuggingRecorder::new();
    let maps = builder(&server)
        .name("maps")
        .reflector(|maps| maps.compactor(Compactor::builder().decoded_cache(1 << 20)));
    let informer = with_local_recorder(&sink, || maps.build()).unwrap();
    run(&informer).await;
    let map = informer.store().get_by_key("shop/a").unwrap();
    assert_eq!(value(&map), "1");
    for _ in 0..3 {
        map.decode_shared().unwrap();
    }
    let stats = passes(&informer, 1).await;
    // Longer than the period in which metrics are recorded.
    sleep(Duration::from_secs(1)).await;
    let recorded = || -> BTreeMap<String, f64> {
        let metrics = sink.snapshotter().snapshot().into_vec().into_iter();
        let value = |value| match value {
            DebugValue::Counter(count) => f64::from(u32::try_from(count).unwrap()),
            DebugValue::Gauge(value) => value.0,
            DebugValue::Histogram(_) => f64::NAN,
        };
        metrics.map(|(key, _, _, found)| (key.key().name().to_owned(), value(found))).collect()
    };
    let values = recorded();
    let of = |name: &str| values[&format!("informer_compact_{name}")];
    let count = |count: usize| f64::from(u32::try_from(count).unwrap());
    let expected = [
        ("bytes", count(stats.bytes)),
        ("raw_bytes", count(stats.raw_bytes)),
        ("base_bytes", count(stats.base_bytes + stats.unpacked_base_bytes)),
        ("dictionary_bytes", count(stats.dictionary_bytes)),
        ("decodes_total", 2.0),
        ("failed_decodes_total", 0.0),
        ("decode_seconds", stats.decode_time.as_secs_f64()),
        ("decoded_hits_total", 2.0),
        ("decoded_misses_total", 1.0),
        ("decoded_bytes", count(stats.decoded_bytes)),
    ];
    for (name, value) in expected {
        assert!((of(name) - value).abs() < 1e-12, "{name}: {} instead of {value}", of(name));
    }
    for name in ["bytes", "base_bytes", "decode_seconds", "decoded_bytes"] {
        assert!(of(name) > 0.0, "{name}");
    }
    for metric in ALL.iter().filter(|metric| metric.name.starts_with("informer_compact_")) {
        assert!(values.contains_key(metric.name), "{}", metric.name);
    }
    informer.stop().await;
    let values = recorded();
    for name in ["informer_compact_bytes", "informer_compact_decoded_bytes"] {
        assert_eq!(values[name].to_bits(), 0.0_f64.to_bits(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn mutation_cache_returns_own_writes_and_then_the_decoded_objects_of_the_store() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let informer = builder(&server)
        .reflector(|maps| maps.compactor(Compactor::builder().decoded_cache(1 << 20)))
        .build()
        .unwrap();
    let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
    run(&informer).await;
    assert_eq!(next(&mut stream, 1).await, ["+a=1"]);
    server.wait_for_watchers(1).await;
    let maps = MutationCache::builder(informer.store()).build();
    let data = |map: &ConfigMap| map.data.as_ref().unwrap()["data"].clone();
    let read = || maps.get_by_key("shop/a").unwrap().unwrap().decode_shared().unwrap();
    let stored = || informer.store().get_by_key("shop/a").unwrap().decode_shared().unwrap();
    let watched = read();
    assert!(Arc::ptr_eq(&watched, &stored()) && Arc::ptr_eq(&watched, &read()));

    // The informer's tasks see the write only when the test waits.
    server.apply(map("a", "2")).unwrap();
    let answer = server.get(&Resource::config_maps(), "shop", "a").unwrap().to_string();
    let writer = Compactor::<ConfigMap>::builder().build();
    maps.mutation(writer.pack(answer.as_bytes()).unwrap()).unwrap();
    assert_eq!((data(&read()), data(&stored())), ("2".to_owned(), "1".to_owned()));
    assert!(Arc::ptr_eq(&watched, &stored()));
    assert_eq!(next(&mut stream, 1).await, ["a=1>2"]);
    server.apply(map("a", "3")).unwrap();
    assert_eq!(next(&mut stream, 1).await, ["a=2>3"]);
    assert_eq!(data(&read()), "3");
    assert!(Arc::ptr_eq(&read(), &stored()));
}

#[tokio::test(start_paused = true)]
async fn object_of_another_shape_fails_at_decode_or_is_refused_if_validated() {
    let no_map = |version: &str| {
        let mut map = map("a", version);
        map["data"] = json!(["not a map"]);
        map
    };
    for validates in [false, true] {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let (errors, mut reported) = mpsc::unbounded_channel();
        let informer = builder(&server)
            .reflector(move |maps| maps.compactor(Compactor::builder().validate(validates)))
            .on_error(move |error| {
                if let InformerError::Reflector(ReflectorError::Decode { key, .. }) = error {
                    errors.send(key.clone()).unwrap();
                }
            })
            .build()
            .unwrap();
        let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
        run(&informer).await;
        stream.next().await.unwrap();
        server.wait_for_watchers(1).await;
        server.apply(no_map("2")).unwrap();
        let stored = || informer.store().get_by_key("shop/a").unwrap();
        if validates {
            assert_eq!(reported.recv().await.unwrap(), "shop/a");
            assert_eq!(value(&stored()), "1", "the stored state stays");
        } else {
            assert!(matches!(stream.next().await.unwrap(), Notification::Updated { .. }));
            assert_eq!(stored().decode().unwrap_err().key(), "shop/a");
            assert!(stored().raw_json().unwrap().contains("not a map"));
            assert_eq!(informer.compact_stats().failed_decodes, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn members_left_out_by_the_reflector_and_the_compactor_are_not_stored() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let informer = builder(&server)
        .reflector(|maps| maps.without(&["metadata", "labels"]).without(&["data", "data"]))
        .reflector(|maps| maps.compactor(Compactor::builder().without(&["data", "same"])))
        .build()
        .unwrap();
    run(&informer).await;
    let map = informer.store().get_by_key("shop/a").unwrap();
    let found = map.decode().unwrap();
    assert_eq!((found.metadata.labels, found.data.unwrap().len()), (None, 0));
    assert_eq!(map.labels().count(), 0);
    assert_eq!(found.metadata.uid.as_deref(), map.uid().as_deref());
}

#[tokio::test(start_paused = true)]
async fn dynamic_and_partial_objects_have_their_types() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let types = ApiResource::erase::<ConfigMap>(&());
    let source = KubeListerWatcher::new::<DynamicObject>(server.client(), &types, None);
    let dynamic = SharedInformer::<Compact<DynamicObject>>::builder(source).build().unwrap();
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None).metadata_only();
    let partial = SharedInformer::<Compact<PartialObjectMeta<ConfigMap>>>::builder(source);
    let partial = partial.build().unwrap();
    run(&dynamic).await;
    run(&partial).await;
    let object = dynamic.store().get_by_key("shop/a").unwrap().decode().unwrap();
    assert_eq!(object.types.unwrap().kind, "ConfigMap");
    assert_eq!(object.data["data"]["data"], "1");
    let object = partial.store().get_by_key("shop/a").unwrap().decode().unwrap();
    assert_eq!(object.metadata.labels.unwrap()["app"], "web");
}

#[tokio::test(start_paused = true)]
async fn secrets_train_no_dictionary_unless_asked() {
    let secrets =
        Resource::built_in(ApiResource::erase::<Secret>(&()), discovery::Scope::Namespaced);
    let server = ApiServer::builder().resource(secrets).build();
    for number in 0..40 {
        server
            .apply(json!({
                "kind": "Secret", "apiVersion": "v1",
                "metadata": { "namespace": "shop", "name": format!("s{number}") },
                "type": "Opaque",
                "data": { format!("a{number}"): "c2VjcmV0".repeat(number % 7) },
            }))
            .unwrap();
    }
    for (train, is_trained) in [(None, false), (Some(true), true)] {
        let source = KubeListerWatcher::new::<Secret>(server.client(), &(), None);
        let informer = SharedInformer::<Compact<Secret>>::builder(source)
            .reflector(move |secrets| {
                let compactor = Compactor::builder();
                secrets.compactor(match train {
                    Some(train) => compactor.train(train),
                    None => compactor,
                })
            })
            .build()
            .unwrap();
        run(&informer).await;
        while informer.compact_stats().passes == 0 {
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(informer.compact_stats().dictionary_bytes > 0, is_trained);
    }
}

#[tokio::test(start_paused = true)]
async fn index_and_debug_output_use_the_header() {
    let server = server();
    server.apply(map("a", "hidden")).unwrap();
    let by_app = |map: &Map| Ok(map.labels().map(|(_, value)| value.to_owned()).collect());
    let informer = builder(&server).index("app", by_app).build().unwrap();
    let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
    run(&informer).await;
    assert_eq!(informer.store().by_index("app", "web").unwrap().len(), 1);
    let debug = format!("{:?}", pin!(stream.next()).await.unwrap());
    assert!(debug.contains("shop/a") && !debug.contains("hidden"), "{debug}");
    assert_eq!(informer.compact_stats().decodes, 0);
}

#[tokio::test(start_paused = true)]
async fn indexes_of_labels_owners_and_named_fields_decode_nothing() {
    let server = server();
    let mut owned = map("a", "x");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "0f8fad5b-d9cb-469f-a165-70867728950e"
    }]);
    server.apply(owned).unwrap();
    server.apply(map("b", "y")).unwrap();
    let informer = builder(&server)
        .reflector(|maps| maps.compactor(Compactor::builder().field("/data/same").unwrap()))
        .label("app")
        .owners()
        .field("/data/data")
        .build()
        .unwrap();
    let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
    run(&informer).await;
    for _ in 0..2 {
        pin!(stream.next()).await.unwrap();
    }
    let store = informer.store();
    assert_eq!(store.index_keys("field:/data/data", "x").unwrap(), ["shop/a"]);
    let uid = "0f8fad5b-d9cb-469f-a165-70867728950e";
    assert_eq!(store.index_keys(OWNER_INDEX, uid).unwrap(), ["shop/a"]);
    assert_eq!(informer.lister().select(&"app=web".parse().unwrap()).len(), 2);
    server.wait_for_watchers(1).await;
    let mut relabelled = map("a", "z");
    relabelled["metadata"]["labels"]["app"] = json!("till");
    server.apply(relabelled).unwrap();
    pin!(stream.next()).await.unwrap();
    assert!(store.index_keys("field:/data/data", "x").unwrap().is_empty());
    assert_eq!(store.index_keys("field:/data/data", "z").unwrap(), ["shop/a"]);
    assert!(store.index_keys(OWNER_INDEX, uid).unwrap().is_empty());
    assert_eq!(informer.lister().select(&"app=web".parse().unwrap()).len(), 1);
    store.add_indexers(Indexers::new().field(KubeMeta, "/data/same")).unwrap();
    assert_eq!(store.list_index_func_values("field:/data/same").unwrap().len(), 1);
    assert_eq!(informer.compact_stats().decodes, 0);
}

#[tokio::test(start_paused = true)]
async fn index_added_later_decodes_each_object_once_on_another_thread() {
    let server = server();
    for name in ["a", "b", "c"] {
        server.apply(map(name, "x")).unwrap();
    }
    let informer = builder(&server).build().unwrap();
    run(&informer).await;
    let executor = thread::current().id();
    let by_value = move |map: &Map| {
        assert_ne!(thread::current().id(), executor, "the executor is blocked");
        Ok(vec![value(map)])
    };
    informer.add_indexers(Indexers::new().index("value", by_value)).await.unwrap();
    assert_eq!(informer.compact_stats().decodes, 3);
    assert_eq!(informer.store().by_index("value", "x").unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn index_of_a_field_that_was_not_named_is_refused() {
    let server = server();
    server.apply(map("a", "x")).unwrap();
    let informer = builder(&server).field("/data/data").build().unwrap();
    run(&informer).await;
    let store = informer.store();
    let refused = store.add_indexers(Indexers::new().field(KubeMeta, "/data/date"));
    let Err(IndexError::Build { key, source, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(key, "shop/a");
    assert!(source.is::<UnnamedField>(), "{source}");
    assert!(matches!(store.by_index("field:/data/date", "x"), Err(IndexError::Unknown(_))));
    let invalid = builder(&server).field("data/data").build();
    assert!(matches!(invalid, Err(BuildError::Pointer(_))));
}

#[tokio::test(start_paused = true)]
async fn scope_of_a_factory_names_fields_of_compact_objects() {
    let server = server();
    server.apply(map("a", "x")).unwrap();
    let factory = SharedInformerFactory::new(server.client());
    let by_data = || Scope::namespace("shop").index_field("/data/data");
    let informer = |scope| factory.informer::<Map>(&scope).unwrap();
    let [one, same] = [by_data(), by_data()].map(informer);
    let other = informer(Scope::namespace("shop"));
    factory.start();
    factory.wait_for_cache_sync(std::future::pending()).await.unwrap();
    for user in [&one, &same] {
        assert_eq!(user.store().index_keys("field:/data/data", "x").unwrap(), ["shop/a"]);
    }
    server.wait_for_watchers(2).await;
    assert!(matches!(other.store().by_index("field:/data/data", "x"), Err(IndexError::Unknown(_))));
    let [joined, two] =
        [Scope::all().index_field("/a by /b"), Scope::all().index_field("/a").index_field("/b")]
            .map(informer);
    for (user, has_it) in [(joined, false), (two, true)] {
        assert_eq!(user.store().by_index("field:/a", "x").is_ok(), has_it);
    }
    let invalid = factory.informer::<Map>(&Scope::all().index_field("data"));
    assert!(matches!(invalid, Err(FactoryError::Build(BuildError::Pointer(_)))));
}

#[tokio::test(start_paused = true)]
async fn informer_that_stops_after_the_list_frees_its_objects() {
    let server = server();
    for number in 0..200 {
        server.apply(map(&format!("m{number}"), "1")).unwrap();
    }
    let informer = builder(&server).build().unwrap();
    let running = informer.clone();
    let run = tokio::spawn(async move { running.run().await });
    informer.wait_for_sync().await.unwrap();
    informer.stop().await;
    assert!(informer.is_stopped());
    let get = |key: &str| informer.store().get_by_key(key).unwrap();
    let (held, freed) = (get("shop/m7"), Arc::downgrade(&get("shop/m8")));
    run.await.unwrap().unwrap();
    drop(informer);
    assert!(freed.upgrade().is_none());
    assert_eq!(value(&held), "1", "an object outlives its informer");
}
