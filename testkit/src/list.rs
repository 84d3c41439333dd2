//! The responses to list requests: whole or in pages, of the newest version or an older one.

use std::sync::Arc;

use bytes::BytesMut;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::Resource;
use crate::answer::{self, Call};
use crate::body::{Body, FillResult, Source};
use crate::object::{Object, Shape};
use crate::options::ListOptions;
use crate::selector::Filter;
use crate::status::{self, Refused};
use crate::table;
use crate::walk::{Position, Token, Walk};

const VERSION_TOO_OLD: &str = "The resourceVersion for the provided list is too old.";

pub(crate) fn answer(call: &Call<'_>) -> Refused<Response<Body>> {
    let (metadata, objects) = page(call)?;
    Ok(reply(call, &metadata, objects))
}

/// Returns the list or page that the request asks for, with its metadata.
pub(crate) fn page(call: &Call<'_>) -> Refused<(Value, Objects)> {
    let options = ListOptions::read(call)?;
    options.check_list()?;
    // The real server answers lists of any version from its cache, which ignores the limit.
    let is_any = options.version == Some(0);
    let limit = options.limit.filter(|_| !is_any);
    let filter = &options.filter;
    let (start, walk) = {
        let store = call.server.store.lock();
        let collection = &store.collections[call.place];
        let start = start(&options, store.version, collection.floor)?;
        let most = limit.unwrap_or(usize::MAX);
        let walk = collection.walk(start.version, &start.from, Arc::clone(filter), most);
        (start, walk)
    };
    let next = match limit {
        Some(limit) => next_page(call, filter, &start, &walk, limit)?,
        None => None,
    };
    let version = start.version;
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if let Some(shards) = filter.shards()
        && call.shape() == Shape::Whole
        && !call.resource.is_custom()
    {
        metadata["shardInfo"] = json!({ "selector": shards.to_string() });
    }
    if let Some((position, remaining)) = next {
        if let Some(remaining) = remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        // With shards this is not the number of objects behind the position.
        let remaining = remaining.filter(|_| filter.shards().is_none());
        metadata["continue"] = Token { version, position, remaining }.to_string().into();
    }
    let objects: Objects = match limit {
        None => Box::new(walk),
        Some(limit) => Box::new(walk.take(limit)),
    };
    Ok((metadata, objects))
}

/// Returns the position of the page after this one, and the number of objects behind that position
/// if it is known. Returns `None` if this page is the last one.
fn next_page(
    call: &Call<'_>,
    filter: &Filter,
    Start { version, from, all }: &Start,
    walk: &Walk,
    limit: usize,
) -> Refused<Option<(Position, Option<u64>)>> {
    // The position is written before the objects. A second walk finds it, so that a large page need
    // not be kept in memory. A walk calls functions of the user, so no lock is held.
    let mut end = walk.clone();
    if !(0..limit).all(|_| end.skip_one()) {
        return Ok(None);
    }
    let position = end.position();
    // The real server ignores selectors to find out whether a page is the last one. It also ignores
    // shards, but no other selectors, to count the objects behind a page.
    let unselected = Arc::new(filter.unselected());
    let (mut rest, count) = {
        let store = call.server.store.lock();
        let collection = &store.collections[call.place];
        if *version < collection.floor {
            return Err(Box::new(status::expired(VERSION_TOO_OLD)));
        }
        let count = || collection.count(*version, from, &unselected);
        let count = all.or_else(|| if filter.has_terms() { None } else { count() });
        (collection.walk(*version, &position, Arc::clone(&unselected), 1), count)
    };
    let behind = count.and_then(|count| count.checked_sub(limit as u64));
    Ok(rest.skip_one().then_some((position, behind)))
}

/// The start of a list or of a further page.
struct Start {
    version: u64,
    /// The position before the first object.
    from: Position,
    /// The number of objects behind the position, if a token contains it.
    all: Option<u64>,
}

/// Returns the start of the list or page that the options ask for.
fn start(options: &ListOptions, newest: u64, floor: u64) -> Refused<Start> {
    let first = |version| Start { version, from: Position::start(), all: None };
    let Some(Token { version, position, remaining }) = options.token.clone() else {
        let wanted = options.version.unwrap_or_default();
        if wanted > newest {
            return Err(Box::new(status::too_large(wanted, newest)));
        }
        if !options.is_exact() {
            return Ok(first(newest));
        }
        if wanted < floor {
            return Err(Box::new(status::expired(VERSION_TOO_OLD)));
        }
        return Ok(first(wanted));
    };
    match version {
        0 => Ok(Start { version: newest, from: position, all: None }),
        _ if version > newest => Err(Box::new(status::bad_request("continue key is not valid"))),
        _ if version < floor => {
            let rest = Token { version: 0, position, remaining: None };
            Err(Box::new(status::token_expired(rest.to_string())))
        }
        _ => Ok(Start { version, from: position, all: remaining }),
    }
}

pub(crate) type Objects = Box<dyn Iterator<Item = Arc<Object>> + Send + Sync>;

/// Answers with a list of these objects.
pub(crate) fn reply(call: &Call<'_>, metadata: &Value, objects: Objects) -> Response<Body> {
    let shape = match call.shape() {
        Shape::Whole if !call.resource.is_custom() => Shape::Item,
        shape => shape,
    };
    let head = if let Shape::Row(_) = shape {
        table::head(metadata)
    } else {
        let (kind, api_version) = shape.types(&call.resource);
        let (kind, api_version) = (json!(format!("{kind}List")), json!(api_version));
        format!(
            "{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{metadata},\"items\":["
        )
    };
    let list = ListBody {
        head: Some(head),
        is_first: true,
        objects,
        resource: Arc::clone(&call.resource),
        shape,
    };
    answer::json(
        StatusCode::OK,
        Body::streamed(Source::List(list), call.server.settings.frame_size),
    )
}

/// The body of a list, produced while it is read.
pub(crate) struct ListBody {
    head: Option<String>,
    is_first: bool,
    objects: Objects,
    resource: Arc<Resource>,
    shape: Shape,
}

impl ListBody {
    /// Produces at least `enough` bytes, or all that remain.
    pub(crate) fn fill(&mut self, out: &mut BytesMut, enough: usize) -> FillResult {
        if let Some(head) = self.head.take() {
            out.extend_from_slice(head.as_bytes());
        }
        while out.len() < enough {
            let Some(object) = self.objects.next() else {
                out.extend_from_slice(b"]}\n");
                return FillResult::All;
            };
            if !std::mem::take(&mut self.is_first) {
                out.extend_from_slice(b",");
            }
            object.write(&self.resource, self.shape, out);
        }
        FillResult::Some
    }
}
