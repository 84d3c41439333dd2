//! Tests of `relist --server` against the test kit's API server on a socket.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use deltafifo_testkit::{ApiServer, Resource};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::ApiResource;
use kube::core::discovery::Scope;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

/// Starts a server on a socket. Returns the path of a kubeconfig with this name for the server.
async fn kubeconfig(name: &str, server: ApiServer) -> PathBuf {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it has one"));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let service = TowerToHyperService::new(server.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), service));
        }
    });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let kubeconfig = json!({
        "current-context": "here",
        "contexts": [{ "name": "here", "context": { "cluster": "here", "user": "me" } }],
        "clusters": [{ "name": "here", "cluster": { "server": url } }],
        "users": [{ "name": "me", "user": {} }],
    });
    fs::write(&path, kubeconfig.to_string()).expect("it can be written");
    path
}

fn server() -> ApiServer {
    let namespaces = Resource::built_in(ApiResource::erase::<Namespace>(&()), Scope::Cluster);
    ApiServer::builder().resource(Resource::config_maps()).resource(namespaces).build()
}

async fn relist(kubeconfig: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relist"));
    command.arg("--server").arg(kubeconfig).args(arguments.split_whitespace());
    spawn_blocking(move || command.output()).await.expect("no panic").expect("the tool starts")
}

fn stderr(run: &Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_is_notified_of_all_objects_and_changes() {
    const CLIENTS: [&str; 8] = [
        "deltafifo",
        "deltafifo-list",
        "deltafifo-without",
        "deltafifo-compact",
        "kube-list",
        "kube-list-any",
        "kube-streamed",
        "kube-without",
    ];
    // kube-list needs two pages for 620 objects.
    let (objects, changed) = (620, 7);
    let kubeconfig = kubeconfig("all.kubeconfig", server()).await;
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("server.json");
    let (clients, file) = (CLIENTS.join(","), json.display());
    let run = relist(
        &kubeconfig,
        &format!("--objects {objects} --rounds 1 --client {clients} --json {file}"),
    )
    .await;
    assert!(run.status.success(), "{}", stderr(&run));
    let stdout = String::from_utf8_lossy(&run.stdout);
    for text in [
        "server list, 620 objects",
        "server relist-cpu, 620 objects",
        "kube-runtime 5.",
        "checked: ",
    ] {
        assert!(stdout.contains(text), "no {text:?} in {stdout}");
    }
    let report: Value =
        serde_json::from_slice(&fs::read(json).expect("it was written")).expect("it is JSON");
    for client in CLIENTS {
        let row = |variant: &str| {
            let of = |row: &&Value| row["engine"] == client && row["variant"] == variant;
            report["rows"].as_array().and_then(|rows| rows.iter().find(of)).expect(variant).clone()
        };
        for variant in ["list", "list-cpu", "list-peak"] {
            assert!(row(variant)["median"].as_f64() > Some(0.0), "{client}: {variant}");
            assert_eq!(row(variant)["extra"]["notified"], objects, "{client}: {variant}");
        }
        // kube-rs does not know which objects have changed.
        let calls = if client.starts_with("deltafifo") { changed } else { objects };
        for variant in ["relist-cpu", "relist-peak"] {
            let Value::Object(extra) = &row(variant)["extra"] else {
                panic!("{client}: no extra of {variant}")
            };
            assert_eq!(
                (&extra["notified"], &extra["changed"]),
                (&json!(calls), &json!(changed)),
                "{client}: {variant}"
            );
            assert_eq!(extra["store_len"], objects, "{client}: {variant}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unexpected_objects_and_refused_requests_are_reported() {
    let other = server();
    for number in 0..5 {
        let metadata =
            json!({ "namespace": "deltafifo-bench-3", "name": format!("other-{number}") });
        other
            .apply(json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata }))
            .expect("it is one");
    }
    let without_namespaces = ApiServer::builder().resource(Resource::config_maps()).build();
    for (name, server, text) in [
        ("other.kubeconfig", other, "deltafifo-bench-3 has 5 config maps"),
        ("refuses.kubeconfig", without_namespaces, "create the namespace deltafifo-bench-3"),
    ] {
        let run = relist(&kubeconfig(name, server).await, "--objects 3 --client deltafifo").await;
        let stderr = stderr(&run);
        assert!(!run.status.success() && stderr.contains(text), "{stderr}");
    }
}
