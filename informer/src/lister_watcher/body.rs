//! Response bodies, read frame by frame, as the streams that a lister-watcher gives.

use async_stream::try_stream;
use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;

use super::patience::Patience;
use super::{EventType, ListStream, Listed, RequestError, WatchStream};
use crate::wire::{Line, Lines, ListSplitter, ends_initial_events, parse_line};

/// The next bytes of a body; none at its end.
pub(super) async fn next_bytes(body: &mut Body) -> Result<Option<Bytes>, RequestError> {
    while let Some(frame) = body.frame().await {
        // Trailers have no data.
        if let Ok(data) = frame.map_err(|e| RequestError::Broken(e.into()))?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// A list response as it arrives.
pub(super) fn listed(mut body: Body) -> ListStream {
    Box::pin(try_stream! {
        let (mut splitter, mut told, mut patience) = (ListSplitter::new(), false, Patience::new());
        while let Some(bytes) = patience.next_bytes(&mut body).await? {
            let mut items = Vec::new();
            splitter.push(&bytes, &mut items)?;
            let meta = if told { None } else { splitter.meta()? };
            if let Some(meta) = meta {
                told = true;
                yield Listed::Meta(meta);
            }
            if !items.is_empty() {
                yield Listed::Items(items);
            }
        }
        splitter.finish()?;
    })
}

/// A watch's events as they arrive, perhaps after `initial` ones. It ends with the first error.
pub(super) fn events(mut body: Body, initial: bool) -> WatchStream {
    Box::pin(try_stream! {
        let (mut lines, mut patience) = (Lines::default(), initial.then(Patience::new));
        let mut met_unknown = false;
        while let Some(bytes) = match &mut patience {
            Some(patience) => patience.next_bytes(&mut body).await?,
            None => next_bytes(&mut body).await?,
        } {
            let mut found = Vec::new();
            let whole = lines.push(&bytes, &mut found);
            for line in &found {
                let event = match parse_line(line)? {
                    Line::Event(event) => event,
                    Line::Unknown(kind) => {
                        if !std::mem::replace(&mut met_unknown, true) {
                            tracing::warn!(kind, "a watch sends events of an unknown type: they are passed over");
                        }
                        continue;
                    }
                };
                if event.kind == EventType::Bookmark && patience.is_some() && ends_initial_events(&event.object)? {
                    patience = None;
                }
                yield event;
            }
            whole?;
        }
        lines.finish()?;
    })
}
