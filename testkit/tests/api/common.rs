//! Helpers that all tests share: servers, objects, and raw responses.

use bytes::Bytes;
use deltafifo_testkit::{ApiServer, Builder, Resource};
use futures_util::FutureExt;
use http::header::{ACCEPT, HeaderMap};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::client::Body;
use kube::core::discovery::Scope;
use kube::core::{ApiResource, GroupVersionKind, Status};
use serde_json::{Value, json};

pub const PODS: &str = "/api/v1/pods";
/// The pods of the namespace of the client.
pub const ONE: &str = "/api/v1/namespaces/default/pods";
pub const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

pub fn builder() -> Builder {
    ApiServer::builder()
        .resource(Resource::pods())
        .resource(Resource::config_maps())
        .resource(Resource::nodes())
        .resource(widgets())
}

pub fn server() -> ApiServer {
    builder().build()
}

pub fn widget_api() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"))
}

/// Returns a custom resource.
pub fn widgets() -> Resource {
    Resource::custom(widget_api(), Scope::Namespaced)
}

pub fn pod(name: &str) -> Value {
    json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": name } })
}

/// Returns a pod whose label `app` has the value `app`.
pub fn app(name: &str, app: &str) -> Value {
    json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": name, "labels": { "app": app } } })
}

/// Returns a pod whose status has this phase.
pub fn phase(name: &str, phase: &str) -> Value {
    json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": name }, "status": { "phase": phase } })
}

pub fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

pub fn code<T>(result: kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("not refused"),
    }
}

/// Returns a server with pods named a, b, c and so on. Their versions are 2, 3, 4 and so on.
pub fn server_with(pods: usize) -> ApiServer {
    let server = server();
    for name in names(pods) {
        server.apply(pod(&name)).unwrap();
    }
    server
}

pub fn names(count: usize) -> Vec<String> {
    ('a'..='z').take(count).map(String::from).collect()
}

/// A response whose body is not yet read.
pub struct Opened {
    pub code: StatusCode,
    pub headers: HeaderMap,
    body: Body,
    buffer: Vec<u8>,
}

pub async fn send(server: &ApiServer, request: http::Request<Vec<u8>>) -> kube::Result<Opened> {
    let (parts, body) = server.client().send(request.map(Body::from)).await?.into_parts();
    Ok(Opened { code: parts.status, headers: parts.headers, body, buffer: Vec::new() })
}

pub async fn open(server: &ApiServer, uri: &str) -> Opened {
    send(server, http::Request::get(uri).body(Vec::new()).unwrap()).await.unwrap()
}

/// Opens the response to a request for the objects' metadata only.
pub async fn open_metadata(server: &ApiServer, uri: &str) -> Opened {
    send(server, http::Request::get(uri).header(ACCEPT, METADATA).body(Vec::new()).unwrap())
        .await
        .unwrap()
}

/// Sends a request and returns the response as JSON.
pub async fn call(
    server: &ApiServer,
    method: Method,
    uri: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(uri).body(body).unwrap();
    let opened = send(server, request).await.unwrap();
    (opened.code, opened.json().await)
}

pub async fn list(server: &ApiServer, uri: &str) -> Value {
    let opened = open(server, uri).await;
    assert_eq!(opened.code, StatusCode::OK);
    opened.json().await
}

/// Sends a request that must be refused, and returns the Status.
pub async fn refused(server: &ApiServer, uri: &str) -> Status {
    let opened = open(server, uri).await;
    let code = opened.code;
    let status: Status = serde_json::from_value(opened.json().await).unwrap();
    assert_eq!(status.code, code.as_u16());
    assert!(status.is_failure());
    status
}

/// Returns the names in a list, in its order.
pub fn listed(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

impl Opened {
    pub async fn frame(&mut self) -> Option<kube::Result<Bytes>> {
        Some(self.body.frame().await?.map(|frame| frame.into_data().unwrap()))
    }

    pub async fn text(mut self) -> String {
        let mut text = Vec::new();
        while let Some(frame) = self.frame().await {
            text.extend_from_slice(&frame.unwrap());
        }
        String::from_utf8(text).unwrap()
    }

    pub async fn json(self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// Returns the next line of a watch, or `None` at its end.
    pub async fn line(&mut self) -> Option<kube::Result<String>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.drain(..=end).collect();
                return Some(Ok(String::from_utf8(line).unwrap()));
            }
            match self.frame().await? {
                Ok(frame) => self.buffer.extend_from_slice(&frame),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    pub async fn json_line(&mut self) -> Value {
        serde_json::from_str(&self.line().await.unwrap().unwrap()).unwrap()
    }

    /// Returns a short form of the next event: `ADDED a 2`, `BOOKMARK 5`, `BOOKMARK 5 end`, `ERROR
    /// 410 Expired`.
    pub async fn event(&mut self) -> Option<String> {
        let line = self.line().await?.unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Some(match kind {
            "ERROR" => format!("ERROR {} {}", object["code"], object["reason"].as_str().unwrap()),
            "BOOKMARK"
                if object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true" =>
            {
                format!("BOOKMARK {version} end")
            }
            "BOOKMARK" => format!("BOOKMARK {version}"),
            _ => format!("{kind} {} {version}", object["metadata"]["name"].as_str().unwrap()),
        })
    }

    /// Asserts that the next events are these, in the short form of [`event`](Self::event).
    pub async fn events<const N: usize>(&mut self, expected: [&str; N]) {
        for expected in expected {
            assert_eq!(self.event().await.as_deref(), Some(expected));
        }
    }

    /// Asserts that the watch is open and has no event ready.
    pub fn silent(&mut self) {
        assert!(self.event().now_or_never().is_none());
    }

    /// Asserts that the watch has ended.
    pub async fn over(mut self) {
        assert_eq!(self.event().await, None);
    }
}
