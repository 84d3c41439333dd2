//! Tests of the programs when something goes wrong: faults of the server, changes by others,
//! failures and panics of reconciles. They are compiled twice, like the programs.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb, status};
use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::OURS;
use super::behaviour::{bed, beds, pod, server};
use super::programs::{beds_controller, beds_mirror, maps_copied, two_controllers};
use crate::stage::{Stage, built_in, object, speech};

const MINUTE: Duration = Duration::from_secs(60);

fn open(server: &ApiServer) -> Stage<'static> {
    let (say, lines) = speech();
    // The sender is dropped: no message reloads the beds.
    let reload = mpsc::channel(1).1;
    Stage::open(beds_controller::run(server.client(), reload, say), lines)
}

/// Returns the label of the bed `north`.
fn label(server: &ApiServer) -> Option<Value> {
    server.get(&Resource::config_maps(), "default", "north")
}

/// Starts the controller with the bed `north`, and waits for its label.
async fn labelled() -> (ApiServer, Stage<'static>) {
    let server = server();
    server.apply(bed("north", "kale")).unwrap();
    let mut stage = open(&server);
    assert_eq!(stage.lines().await, ["north"]);
    (server, stage)
}

fn failures(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.starts_with("failed: ")).count()
}

#[tokio::test(start_paused = true)]
async fn bed_is_reconciled_when_its_label_is_edited() {
    let (server, mut stage) = labelled().await;
    let mut edited = label(&server).unwrap();
    edited["metadata"]["annotations"] = json!({ "edited": "by hand" });
    server.apply(edited).unwrap();
    assert_eq!(stage.lines().await, ["north"]);
}

#[tokio::test(start_paused = true)]
async fn only_our_controller_restores_an_owner_reference() {
    let (server, mut stage) = labelled().await;
    let mut disowned = label(&server).unwrap();
    disowned["metadata"]["ownerReferences"] = json!([]);
    server.apply(disowned).unwrap();
    assert_eq!(stage.lines().await, if OURS { &["north"][..] } else { &[] });
    let owner = &label(&server).unwrap()["metadata"]["ownerReferences"][0]["name"];
    assert_eq!(*owner, if OURS { json!("north") } else { Value::Null });
}

#[tokio::test(start_paused = true)]
async fn label_that_was_deleted_while_watches_were_cut_off_is_written_again() {
    let (server, mut stage) = labelled().await;
    server.error_watches(status::expired("cut off by the test"));
    server.delete(&Resource::config_maps(), "default", "north").unwrap();
    server.compact();
    stage.run_for(2 * MINUTE).await;
    assert!(label(&server).is_some());
}

#[tokio::test(start_paused = true)]
async fn beds_whose_kind_is_missing_at_first_are_labelled_once_it_exists() {
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    let mut stage = open(&server);
    let before = stage.run_for(MINUTE).await;
    assert!(!before.is_empty() && failures(&before) == before.len(), "{before:?}");
    server.register(beds());
    server.apply(bed("north", "kale")).unwrap();
    stage.run_for(5 * MINUTE).await;
    assert!(label(&server).is_some());
}

#[tokio::test(start_paused = true)]
async fn forbidden_labels_are_reported_and_counted_once_they_are_allowed() {
    let server = server();
    server.apply(bed("north", "kale")).unwrap();
    let reads = |request: &Request| {
        request.plural() == Some("configmaps") && matches!(request.verb(), Verb::List | Verb::Watch)
    };
    let forbidden = Fault::status(status::forbidden(&Resource::config_maps()));
    server.fault(forbidden.times(usize::MAX).when(reads));
    let mut stage = open(&server);
    let before = stage.run_for(MINUTE).await;
    assert!(failures(&before) > 0, "{before:?}");
    // Ours waits for the list of everything that the controller watches.
    assert_eq!(label(&server).is_none(), OURS);
    server.clear_faults();
    stage.run_for(5 * MINUTE).await;
    server.delete(&Resource::config_maps(), "default", "north").unwrap();
    assert_eq!(stage.lines().await, ["north"]);
    assert!(label(&server).is_some());
}

#[tokio::test(start_paused = true)]
async fn conflict_is_retried_by_the_error_policy_until_it_is_solved() {
    let (server, mut stage) = labelled().await;
    let mut taken = label(&server).unwrap();
    taken["data"]["crop"] = json!("weeds");
    server.apply(taken).unwrap();
    // At once, and four times after two seconds each.
    let lines = stage.run_for(Duration::from_secs(9)).await;
    assert_eq!((lines.len(), failures(&lines)), (5, 5), "{lines:?}");
    server.delete(&Resource::config_maps(), "default", "north").unwrap();
    assert_eq!(stage.lines().await, ["north"]);
    assert_eq!(label(&server).unwrap()["data"]["crop"], "kale");
}

#[tokio::test(start_paused = true)]
async fn bed_is_reconciled_again_after_ten_minutes() {
    let (_server, mut stage) = labelled().await;
    assert!(stage.run_for(9 * MINUTE).await.is_empty());
    assert_eq!(stage.run_for(2 * MINUTE).await, ["north"]);
}

#[tokio::test(start_paused = true)]
async fn finalizer_stays_until_the_copy_can_be_removed() {
    let (server, (say, lines)) = (server(), speech());
    let labels = json!({ "labels": { "garden.example/copy": "yes" } });
    server.apply(object("v1", "ConfigMap", "a", json!({ "metadata": labels }))).unwrap();
    let mut stage = Stage::open(maps_copied::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["a"]);
    let forbidden = Fault::status(status::forbidden(&built_in::<Secret>()));
    server.fault(
        forbidden
            .times(usize::MAX)
            .on(Verb::Delete)
            .when(|request| request.plural() == Some("secrets")),
    );
    let maps = Api::<ConfigMap>::namespaced(server.client(), "default");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    // At once, and twice after five seconds each.
    let lines = stage.run_for(Duration::from_secs(12)).await;
    assert_eq!((lines.len(), failures(&lines)), (3, 3), "{lines:?}");
    assert!(server.get(&Resource::config_maps(), "default", "a").is_some());
    server.clear_faults();
    assert_eq!(stage.lines().await, ["a"]);
    assert!(server.get(&Resource::config_maps(), "default", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn mirror_ends_with_the_first_error_of_its_watch() {
    let missing = ApiServer::builder().build();
    let (say, lines) = speech();
    let mut stage = Stage::open(beds_mirror::run(missing.client(), say), lines);
    assert!(stage.lines().await.is_empty());
    assert!(stage.has_ended(), "the kind is missing");

    let (server, (say, lines)) = (server(), speech());
    server.apply(bed("north", "kale")).unwrap();
    let mut stage = Stage::open(beds_mirror::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["all: north", "north grows kale"]);
    server.error_watches(status::expired("cut off by the test"));
    assert!(stage.lines().await.is_empty());
    assert!(stage.has_ended(), "the watch is cut off");
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_reconciler_ends_only_the_program_with_kubes_runtime() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(pod("p", json!({}))).unwrap();
    let panics_for_p = move |line: String| {
        say(line.clone());
        assert_ne!(line, "Pod p", "a defect of the reconciler");
    };
    let mut stage = Stage::open(two_controllers::run(server.client(), panics_for_p), lines);
    let lines = AssertUnwindSafe(stage.lines()).catch_unwind().await;
    if OURS {
        assert_eq!(lines.expect("the panic is an error of the stream"), ["Pod p"]);
        server.apply(pod("q", json!({}))).unwrap();
        assert!(stage.lines().await.contains(&"Pod q".to_owned()));
    } else {
        assert!(lines.is_err());
    }
}

#[cfg(unix)]
mod signals {
    use deltafifo_testkit::{Fault, Verb};
    use nix::sys::signal::{Signal, raise};
    use tokio::signal::unix::{SignalKind, signal};
    use tokio::sync::mpsc;
    use tokio::task::yield_now;

    use super::super::behaviour::{bed, server};
    use super::super::programs::beds_controller;
    use crate::alone::is_alone;
    use crate::stage::speech;

    #[tokio::test]
    async fn first_signal_waits_for_the_reconcile_and_second_does_not() {
        let test = "::first_signal_waits_for_the_reconcile_and_second_does_not";
        if !is_alone(&(module_path!().to_owned() + test)) {
            return;
        }
        let (server, (say, _lines)) = (server(), speech());
        server.apply(bed("north", "kale")).unwrap();
        // From here on the signal does not end the process.
        let mut signals = signal(SignalKind::terminate()).unwrap();
        // The reconcile waits for a response for ever.
        server.fault(Fault::silence().on(Verb::Patch));
        let (_reload, reloaded) = mpsc::channel(1);
        let running = tokio::spawn(beds_controller::run(server.client(), reloaded, say));
        server.wait_for_request(|request| request.verb() == Verb::Patch).await;
        raise(Signal::SIGTERM).unwrap();
        signals.recv().await;
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(!running.is_finished(), "the reconcile goes on");
        raise(Signal::SIGTERM).unwrap();
        running.await.unwrap();
    }
}
