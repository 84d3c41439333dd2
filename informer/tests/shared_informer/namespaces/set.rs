//! Tests of the set of namespaces: its names, its identity, and the informer or stream that it
//! follows.

use deltafifo_informer::shared_informer::{Cause, Namespaces, Scope, SharedInformerFactory};
use deltafifo_testkit::Resource;
use futures_util::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::PartialObjectMeta;
use tracing::subscriber::set_default;
use tracing_subscriber::layer::SubscriberExt;

use super::rig::{apply, namespace, of, server, wait_for_stored};
use crate::messages::Messages;

#[test]
fn invalid_names_are_refused() {
    for name in ["", "Blue", "-blue", "blue-", "blue/green", "a.b", &"a".repeat(64)] {
        let error = Namespaces::new([name]).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{name:?} is not")), "{error}");
        assert!(of([]).add(name).is_err());
    }
    let namespaces = of(["a", "blue-2", "0"]);
    assert!(namespaces.add(&"a".repeat(63)).unwrap());
    assert!(!namespaces.add("a").unwrap());
    assert!(!namespaces.remove("b"));
}

#[tokio::test(start_paused = true)]
async fn sets_are_equal_only_to_their_own_handles() {
    let (one, another) = (of(["blue"]), of(["blue"]));
    assert_eq!(one, one.clone());
    assert_ne!(one, another);
    assert_eq!(Scope::namespaces(&one), Scope::namespaces(&one.clone()));
    assert_ne!(Scope::namespaces(&one), Scope::namespaces(&another));
    assert_eq!(format!("{one:?}"), r#"{"blue"}"#);
    assert_eq!(Cause::NamespaceRemoved, Cause::NamespaceRemoved);
}

#[tokio::test]
async fn end_of_a_stream_without_names_is_logged() {
    for (items, expected) in [(vec![], 1), (vec![vec![]], 0)] {
        let messages = Messages::default();
        let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
        let (_namespaces, following) = Namespaces::follow(stream::iter(items));
        following.await;
        let logged = messages.0.lock();
        assert_eq!(logged.len(), expected, "{:?}", *logged);
        assert!(logged.iter().all(|message| message.contains("received no names")));
    }
}

#[tokio::test(start_paused = true)]
async fn factory_follows_the_namespaces_that_a_label_selects() {
    let server = server();
    namespace(&server, "blue", "shop");
    namespace(&server, "green", "bank");
    apply(&server, "blue", "a", 1);
    apply(&server, "green", "b", 1);
    let factory = SharedInformerFactory::new(server.client());
    let selected = Scope::all().labels("team=shop");
    let all = factory.informer::<PartialObjectMeta<Namespace>>(&selected).unwrap();
    let (namespaces, following) = Namespaces::of_informer(&all).unwrap();
    tokio::spawn(following);
    let scope = Scope::namespaces(&namespaces);
    let maps = factory.informer::<ConfigMap>(&scope).unwrap();
    factory.start();
    maps.wait_for_sync().await.unwrap();
    wait_for_stored(&maps, &["blue/a=1"]).await;
    namespace(&server, "green", "shop");
    wait_for_stored(&maps, &["blue/a=1", "green/b=1"]).await;
    namespace(&server, "blue", "bank");
    wait_for_stored(&maps, &["green/b=1"]).await;
    server.delete(&Resource::namespaces(), "", "green").unwrap();
    wait_for_stored(&maps, &[]).await;

    assert!(factory.informer::<ConfigMap>(&scope).unwrap().store().is_empty(), "the same informer");
    factory.shutdown().await;
}

#[tokio::test]
async fn factory_names_an_informer_of_a_set_that_has_not_synced() {
    let factory = SharedInformerFactory::new(server().client());
    let (one, another) = (of(["blue"]), of(["blue"]));
    let shown = format!("{factory:?}");
    assert!(!shown.contains("namespaces"), "{shown}");
    factory.informer::<ConfigMap>(&Scope::namespaces(&one)).unwrap();
    factory.informer::<ConfigMap>(&Scope::namespaces(&another).labels("a=b")).unwrap();
    let shown = format!("{factory:?}");
    assert!(shown.contains(&format!("configmaps.v1 in {one}\"")), "{shown}");
    assert!(shown.contains(&format!("configmaps.v1 in {another}?labelSelector=a%3Db")), "{shown}");
}
