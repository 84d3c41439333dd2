//! Tests of a plain controller, `related`: its triggers, faults of the server, and its ends.

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use deltafifo_testkit::{ApiServer, Fault, Resource, status};
use futures_util::FutureExt;
use k8s_openapi::api::core::v1::Secret;
use kube::discovery::Scope;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{OURS, related};
use crate::stage::{Stage, built_in, object, speech};
use crate::wirings::kinds::{Site, Theme, custom, of_site, server, site, theme};

const MINUTE: Duration = Duration::from_secs(60);

fn open(server: &ApiServer) -> Stage<'static> {
    let (say, lines) = speech();
    Stage::open(related::run(server.client(), pending(), say), lines)
}

fn child(fields: Value) -> Value {
    object("v1", "ConfigMap", "child", fields)
}

#[tokio::test(start_paused = true)]
async fn created_and_changed_objects_are_reconciled() {
    let server = server();
    let mut stage = open(&server);
    assert!(stage.lines().await.is_empty());
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    assert_eq!(stage.lines().await, ["a"]);
    server.apply(site("a", json!({ "title": "B", "theme": "dark" }))).unwrap();
    server.apply(site("b", json!({ "title": "B", "theme": "dark" }))).unwrap();
    assert_eq!(stage.lines().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn owner_is_reconciled_when_its_child_is_created_edited_or_deleted() {
    let server = server();
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    server.apply(site("b", json!({ "title": "B", "theme": "dark" }))).unwrap();
    let mut stage = open(&server);
    assert_eq!(stage.lines().await, ["a", "b"]);
    server.apply(child(of_site("a"))).unwrap();
    assert_eq!(stage.lines().await, ["a"]);
    let mut edited = of_site("a");
    edited["metadata"]["annotations"] = json!({ "edited": "by hand" });
    server.apply(child(edited)).unwrap();
    assert_eq!(stage.lines().await, ["a"]);
    server.delete(&Resource::config_maps(), "default", "child").unwrap();
    assert_eq!(stage.lines().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn only_our_controller_reconciles_the_former_owner() {
    let server = server();
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    server.apply(child(of_site("a"))).unwrap();
    let mut stage = open(&server);
    assert_eq!(stage.lines().await, ["a"]);
    server.apply(child(json!({}))).unwrap();
    assert_eq!(stage.lines().await, if OURS { &["a"][..] } else { &[] });
}

#[tokio::test(start_paused = true)]
async fn objects_that_refer_to_a_changed_one_are_reconciled() {
    let server = server();
    server.apply(theme("dark", "night")).unwrap();
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    server.apply(site("b", json!({ "title": "B", "theme": "light" }))).unwrap();
    let mut stage = open(&server);
    assert_eq!(stage.lines().await, ["a", "b"]);
    server.apply(theme("light", "day")).unwrap();
    assert_eq!(stage.lines().await, ["b"]);
    server.apply(object("v1", "ConfigMap", "night", json!({ "data": { "sky": "#001" } }))).unwrap();
    assert_eq!(stage.lines().await, ["a"]);
    let labels = json!({ "labels": { "part-of": "themes", "theme": "light" } });
    server.apply(object("v1", "Secret", "licence", json!({ "metadata": labels }))).unwrap();
    assert_eq!(stage.lines().await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn change_while_the_watch_was_cut_off_is_reconciled() {
    let server = server();
    for name in ["a", "b"] {
        server.apply(site(name, json!({ "title": "A", "theme": "dark" }))).unwrap();
    }
    let mut stage = open(&server);
    assert_eq!(stage.lines().await, ["a", "b"]);
    server.error_watches(status::expired("cut off by the test"));
    server.apply(site("b", json!({ "title": "B", "theme": "dark" }))).unwrap();
    server.compact();
    let mut lines = stage.run_for(2 * MINUTE).await;
    // kube's watcher yields the expiry, and its controller reconciles everything that a list has.
    lines.retain(|line| !line.starts_with("watch: "));
    lines.sort();
    assert_eq!(lines, if OURS { &["b"][..] } else { &["a", "b"] });
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_missing_at_first_is_reconciled_once_it_exists() {
    let server = ApiServer::builder()
        .resource(Resource::config_maps())
        .resource(built_in::<Secret>())
        .build();
    let mut stage = open(&server);
    let before = stage.run_for(MINUTE).await;
    assert!(!before.is_empty() && before.iter().all(|line| line.starts_with("watch: ")));
    server.register(custom::<Site>(Scope::Namespaced));
    server.register(custom::<Theme>(Scope::Cluster));
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    let after = stage.run_for(5 * MINUTE).await;
    assert!(after.contains(&"a".to_owned()), "{after:?}");
    assert!(stage.run_for(MINUTE).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn forbidden_owned_kind_is_reported_and_counts_once_it_is_allowed() {
    let server = server();
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    let fault = Fault::status(status::forbidden(&built_in::<Secret>())).times(usize::MAX);
    server.fault(fault.when(|request| request.plural() == Some("secrets")));
    let mut stage = open(&server);
    let before = stage.run_for(MINUTE).await;
    assert!(before.iter().any(|line| line.starts_with("watch: ")), "{before:?}");
    // Ours waits for the list of everything that the controller watches.
    assert_eq!(before.contains(&"a".to_owned()), !OURS, "{before:?}");
    server.clear_faults();
    stage.run_for(5 * MINUTE).await;
    server.apply(object("v1", "Secret", "s", of_site("a"))).unwrap();
    assert_eq!(stage.lines().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn error_policy_decides_when_a_failed_object_is_retried() {
    let server = server();
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    server.apply(site("b", json!({ "subtitle": "B" }))).unwrap();
    let mut stage = open(&server);
    let mut failures = stage.run_for(Duration::from_secs(11)).await;
    failures.sort();
    let no_theme = "a: site has no theme";
    assert_eq!(failures, [no_theme, no_theme, no_theme, "b: site does not decode"]);
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    server.apply(site("b", json!({ "title": "B", "theme": "dark" }))).unwrap();
    let mut repaired = stage.run_for(MINUTE).await;
    repaired.sort();
    assert_eq!(repaired, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn object_is_reconciled_again_after_the_time_that_it_asked_for() {
    let server = server();
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    let mut stage = open(&server);
    assert_eq!(stage.lines().await, ["a"]);
    assert!(stage.run_for(58 * MINUTE).await.is_empty());
    assert_eq!(stage.run_for(2 * MINUTE).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn controller_ends_when_it_is_stopped() {
    let server = server();
    server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
    let ((say, lines), (stop, stopped)) = (speech(), oneshot::channel::<()>());
    let mut stage = Stage::open(related::run(server.client(), stopped.map(drop), say), lines);
    assert_eq!(stage.lines().await, ["a"]);
    stop.send(()).unwrap();
    assert!(stage.lines().await.is_empty());
    assert!(stage.has_ended());
    server.wait_for_watchers(0).await;
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_reconciler_ends_only_kubes_controller() {
    let server = server();
    server.apply(site("a", json!({ "title": "panic", "theme": "dark" }))).unwrap();
    let mut stage = open(&server);
    let lines = AssertUnwindSafe(stage.run_for(Duration::from_millis(1))).catch_unwind().await;
    if OURS {
        let lines = lines.expect("the panic is an error of the stream");
        assert!(lines.iter().any(|line| line.contains("a defect of the reconciler")), "{lines:?}");
        server.apply(site("a", json!({ "title": "A", "theme": "dark" }))).unwrap();
        assert_eq!(stage.lines().await, ["a"]);
    } else {
        assert!(lines.is_err());
    }
}
