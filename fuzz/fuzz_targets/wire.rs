//! Reads any body that an API server may send, split into frames at any position. The items of a
//! list and the events of a watch must equal those that a JSON parser finds in the whole body,
//! wherever the body is split. This also holds with a size limit, above which objects are skipped.
#![no_main]

use std::convert::Infallible;

use bytes::Bytes;
use deltafifo_informer::lister_watcher::{
    EventType, KubeListerWatcher, ListRequest, Listed, ListerWatcher, ObjectLimit, RequestError,
    WatchRequest,
};
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::Body;
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tower::service_fn;

thread_local! {
    static RUNTIME: tokio::runtime::Runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime without I/O");
}

/// The result of reading a body: its items or events in order, and whether it was valid to its
/// end.
type Read = (Vec<Bytes>, bool);

/// A list, as a JSON parser reads it.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    kind: &'a RawValue,
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// The fields of the metadata whose types must be correct.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default)]
    r#continue: Option<String>,
    #[serde(default)]
    remaining_item_count: Option<u64>,
}

/// A line of a watch.
#[derive(Deserialize)]
struct Line<'a> {
    r#type: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

fuzz_target!(|input: &[u8]| {
    let [frame, body @ ..] = input else { return };
    let body = Bytes::copy_from_slice(body);
    let frames = body
        .chunks(usize::from(*frame).max(1))
        .map(|frame| body.slice_ref(frame))
        .collect::<Vec<_>>();
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let none = ObjectLimit::new(usize::MAX);
            let (list, watch) =
                (list(vec![body.clone()], &none).await, watch(vec![body.clone()], &none).await);
            let cut = self::list(frames.clone(), &none).await;
            // For an invalid list, the number of items returned before the error may vary.
            let before = cut.0.len().min(list.0.len());
            assert_eq!(
                (cut.1, &cut.0[..before]),
                (list.1, &list.0[..before]),
                "a list must not depend on its frames"
            );
            assert!(!list.1 || cut == list, "a valid list must be complete");
            assert_eq!(
                self::watch(frames.clone(), &none).await,
                watch,
                "a watch must not depend on its frames"
            );
            let limit = ObjectLimit::new(usize::from(*frame));
            let (whole, cut) = (
                self::list(vec![body.clone()], &limit).await,
                self::list(frames.clone(), &limit).await,
            );
            let before = cut.0.len().min(whole.0.len());
            assert_eq!(
                (cut.1, &cut.0[..before]),
                (whole.1, &whole.0[..before]),
                "a list with a limit must not depend on its frames"
            );
            // The list's own metadata may exceed the limit.
            assert!(
                !whole.1 || whole.0 == limited(&list.0, limit.bytes()),
                "a limit applies to the length of an item"
            );
            let (whole, cut) =
                (self::watch(vec![body.clone()], &limit).await, self::watch(frames, &limit).await);
            assert_eq!(cut, whole, "a watch with a limit must not depend on its frames");
            assert!(
                !list.1 || !is_none(&body),
                "a body without items or a version must be rejected"
            );
            if let Some(items) = items(&body) {
                assert_eq!(list, (items, true), "items must be returned as written");
            }
            assert!(watch.0.starts_with(&events(&body)), "events must be returned as written");
            // Errors inside an object are found by its decoder, which this target does not call.
            assert!(watch.0.len() <= lines(&body).count(), "a line is at most one event");
        });
    });
});

/// Returns a lister-watcher whose every request gets a response with these frames as its body.
fn source(frames: Vec<Bytes>) -> KubeListerWatcher {
    let answer = move |_: Request<Body>| {
        let frames =
            frames.clone().into_iter().map(|frame| Ok::<_, Infallible>(Frame::data(frame)));
        async { Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames)))) }
    };
    KubeListerWatcher::new::<Pod>(Client::new(service_fn(answer), "default"), &(), None)
}

async fn list(frames: Vec<Bytes>, limit: &ObjectLimit) -> Read {
    let (mut items, mut metas) = (Vec::new(), 0);
    let mut list = source(frames)
        .list_within(ListRequest::default(), limit.clone())
        .await
        .expect("a successful answer");
    while let Some(listed) = list.next().await {
        match listed {
            Ok(Listed::Meta(_)) => metas += 1,
            Ok(Listed::Items(found)) => items.extend(found),
            Err(RequestError::TooLarge(large)) => items.push(too_large(large.size)),
            Err(_) => return (items, false),
        }
    }
    assert_eq!(metas, 1, "the metadata of a list must be returned once");
    (items, true)
}

async fn watch(frames: Vec<Bytes>, limit: &ObjectLimit) -> Read {
    let mut events = Vec::new();
    let mut watch = source(frames)
        .watch_within(WatchRequest::default(), limit.clone())
        .await
        .expect("a successful answer");
    while let Some(event) = watch.next().await {
        match event {
            Ok(event) => events.push(described(event.kind, &event.object)),
            Err(RequestError::TooLarge(large)) => events.push(too_large(large.size)),
            Err(_) => return (events, false),
        }
    }
    (events, true)
}

/// Returns the bytes that stand for an object that was skipped.
fn too_large(size: usize) -> Bytes {
    format!("{size} bytes").into()
}

/// Returns the items of a list. An item that is longer than `limit` bytes is replaced by the bytes
/// that stand for a skipped object (see [`too_large`]).
fn limited(items: &[Bytes], limit: usize) -> Vec<Bytes> {
    items
        .iter()
        .map(|item| if item.len() > limit { too_large(item.len()) } else { item.clone() })
        .collect()
}

fn described(kind: EventType, object: &[u8]) -> Bytes {
    [format!("{kind:?} ").as_bytes(), object].concat().into()
}

/// Returns the items, if a JSON parser accepts the body as a list.
fn items(body: &[u8]) -> Option<Vec<Bytes>> {
    let list: List = serde_json::from_slice(body).ok()?;
    let _ = (list.metadata.r#continue, list.metadata.remaining_item_count);
    let items = list.items.unwrap_or_default();
    let has_version = list.metadata.resource_version.is_some_and(|version| !version.is_empty());
    let whole = has_version
        && list.kind.get().ends_with("List\"")
        && items.iter().all(|item| item.get().starts_with('{'));
    whole.then(|| items.iter().map(|item| Bytes::copy_from_slice(item.get().as_bytes())).collect())
}

/// Returns whether the body is valid JSON but not a list: its items are not an array, or it has no
/// resource version.
fn is_none(body: &[u8]) -> bool {
    // A JSON parser reads the last of duplicate members.
    let Ok(list) = serde_json::from_slice::<Value>(body) else { return false };
    let has_items = list.get("items").is_none_or(|items| items.is_array() || items.is_null());
    let metadata = list.get("metadata");
    let has_version = metadata
        .is_some_and(|metadata| metadata.is_array() || metadata["resourceVersion"].is_string());
    !(has_items && has_version)
}

/// Returns the complete lines of a body, without empty ones.
fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = body.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    body[..whole]
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|line| !line.is_empty())
}

/// Returns the events up to the first line that is an error or that a JSON parser rejects. An
/// event of unknown type is read as an empty bookmark.
fn events(body: &[u8]) -> Vec<Bytes> {
    let event = |line: &[u8]| {
        let line: Line = serde_json::from_slice(line).ok()?;
        let kind = match line.r#type.as_str() {
            "ADDED" => EventType::Added,
            "MODIFIED" => EventType::Modified,
            "DELETED" => EventType::Deleted,
            "BOOKMARK" => EventType::Bookmark,
            "ERROR" => return None,
            _ => return Some(described(EventType::Bookmark, b"{}")),
        };
        Some(described(kind, line.object.get().as_bytes()))
    };
    lines(body).map_while(event).collect()
}
