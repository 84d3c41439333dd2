//! Response bodies, read frame by frame, as the streams that a lister-watcher gives.

use async_stream::try_stream;
use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;

use super::{ListStream, Listed, RequestError, WatchStream};
use crate::wire::{Lines, ListSplitter, parse_event};

/// The next bytes of a body; none at its end.
async fn next_bytes(body: &mut Body) -> Result<Option<Bytes>, RequestError> {
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
        let (mut splitter, mut told) = (ListSplitter::new(), false);
        while let Some(bytes) = next_bytes(&mut body).await? {
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

/// A watch's events as they arrive. It ends with the first error.
pub(super) fn events(mut body: Body) -> WatchStream {
    Box::pin(try_stream! {
        let mut lines = Lines::default();
        while let Some(bytes) = next_bytes(&mut body).await? {
            let mut found = Vec::new();
            let whole = lines.push(&bytes, &mut found);
            for line in &found {
                yield parse_event(line)?;
            }
            whole?;
        }
        lines.finish()?;
    })
}
