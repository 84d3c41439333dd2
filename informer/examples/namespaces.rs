//! Runs an informer of the namespaces that have a label. One of them is deleted, is created again
//! without permissions, and gets its permissions back.
//!
//!     cargo run -p deltafifo-informer --example namespaces
//!
//! The example runs without a cluster, on the API server of the test kit, for about fifteen
//! seconds.

use std::error::Error;
use std::time::Duration;

use deltafifo_informer::shared_informer::{
    Namespaces, Notification, Scope, SharedInformer, SharedInformerFactory,
};
use deltafifo_testkit::{ApiServer, Fault, Resource, status};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use serde_json::json;
use tokio::time::sleep;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder()
        .resource(Resource::config_maps())
        .resource(Resource::namespaces())
        .build();
    for namespace in ["blue", "green"] {
        create(&server, namespace)?;
        write(&server, namespace, 1)?;
    }

    let factory = SharedInformerFactory::new(server.client());
    let ours =
        factory.informer::<PartialObjectMeta<Namespace>>(&Scope::all().labels("team=shop"))?;
    let (namespaces, following) = Namespaces::of_informer(&ours)?;
    tokio::spawn(following);
    let scope = Scope::namespaces(&namespaces);
    let prices = factory.informer_with::<ConfigMap>(&(), &scope, |builder| {
        builder.on_error(|error| println!("  error: {error}"))
    })?;
    prices.add_event_handler(print)?;
    factory.start();
    prices.wait_for_sync().await?;
    pause(&prices).await;

    println!("green is deleted, with its objects");
    server.delete(&Resource::config_maps(), "green", "price")?;
    server.delete(&Resource::namespaces(), "", "green")?;
    pause(&prices).await;

    println!("green is created again, and access to it is forbidden");
    let forbidden = Fault::status(status::forbidden(&Resource::config_maps()));
    server.fault(forbidden.when(|request| request.namespace() == Some("green")).times(usize::MAX));
    create(&server, "green")?;
    write(&server, "green", 2)?;
    write(&server, "blue", 2)?;
    pause(&prices).await;

    println!("access to green is granted");
    server.clear_faults();
    pause(&prices).await;

    println!("green loses its label");
    server.apply(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "green" },
    }))?;
    pause(&prices).await;
    factory.shutdown().await;
    Ok(())
}

/// Waits longer than the first backoffs, and prints the state of each namespace.
async fn pause(prices: &SharedInformer<ConfigMap>) {
    sleep(Duration::from_secs(3)).await;
    for status in prices.namespace_status() {
        let objects = prices.lister().namespace(&status.namespace).list().len();
        let state = if status.watch.is_open { "watched" } else { "not watched" };
        println!("  {}: {state}, {objects} known", status.namespace);
    }
}

fn create(server: &ApiServer, namespace: &str) -> Result<(), Box<dyn Error>> {
    server.apply(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": namespace, "labels": { "team": "shop" } },
    }))?;
    Ok(())
}

fn write(server: &ApiServer, namespace: &str, price: u32) -> Result<(), Box<dyn Error>> {
    server.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": namespace, "name": "price" },
        "data": { "price": price.to_string() },
    }))?;
    Ok(())
}

fn print(notification: Notification<ConfigMap>) {
    let (what, map, cause) = match notification {
        Notification::Added { new, cause, .. } => ("added", new, cause),
        Notification::Updated { new, cause, .. } => ("updated", new, cause),
        Notification::Deleted { old, cause, .. } => ("deleted", old, cause),
        Notification::ResyncBegins | Notification::ResyncEnds => return,
    };
    println!(
        "  {}/{} {what}, cause {cause:?}",
        map.namespace().unwrap_or_default(),
        map.name_any()
    );
}
