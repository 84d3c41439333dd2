//! Tests of changes of the annotation by which a member says that it is ready.

use deltafifo_testkit::ApiServer;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::rig::*;

/// Checks that each of these errors says which Lease of a member lacks the annotation.
fn assert_unannotated(errors: &[String]) {
    for error in errors {
        assert!(error.contains("lease shop/counter-member-a."), "{error}");
        assert!(error.contains("does not have the annotation deltafifo/readiness="), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn annotation_that_the_server_removes_from_the_leases_of_members_is_reported_each_minute() {
    let server = server();
    let (client, strips) = stripping(&server, "annotations");
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(200 * SECOND).await;
    assert!(replica.group.owned().borrow().is_empty(), "no member is ready");
    let reported = replica.reported();
    assert_eq!(reported.len(), 4, "{reported:?}");
    assert_unannotated(&reported);
    strips.send_replace(&[]);
    replica.owns(16).await;
    // Now that the member owns shards, it keeps them.
    strips.send_replace(ALL_WRITES);
    let permit = replica.admit(0).unwrap();
    sleep(200 * SECOND).await;
    assert!(permit.is_held());
    assert!(replica.reported().len() >= 6, "{:?}", replica.reported());
}

#[tokio::test(start_paused = true)]
async fn annotation_that_another_client_removes_after_each_update_is_reported_each_minute() {
    let server = server();
    let replica = Replica::start_with(builder_of(undone(&server), "a"));
    sleep(200 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 4, "{reported:?}");
    assert_unannotated(&reported);
}

/// Patches the Lease of a member, as another client.
async fn patch_lease(server: &ApiServer, member: &str, patch: Value) {
    let leases: Api<Lease> = Api::namespaced(server.client(), "shop");
    let patch = Patch::Merge(patch);
    leases.patch(&name_of(member), &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn annotation_that_is_removed_once_is_reported_once() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    sleep(60 * SECOND).await;
    let [member] = &*members(&server).await else { panic!("there is one member") };
    patch_lease(&server, member, json!({ "metadata": { "annotations": null } })).await;
    sleep(200 * SECOND).await;
    assert_eq!(replica.group.owned().borrow().len(), 16);
    let reported = replica.reported();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("the annotation deltafifo/readiness=settled"), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn fencing_by_another_member_is_not_reported_as_a_change_of_the_annotation() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let former = members(&server).await;
    let patch = json!({
        "metadata": { "annotations": { "deltafifo/readiness": "unready" } },
        "spec": { "holderIdentity": "" },
    });
    patch_lease(&server, &former[0], patch).await;
    replica.owns(0).await;
    replica.owns(16).await;
    assert_ne!(members(&server).await, former);
    assert_eq!(replica.reported(), [""; 0]);
}
