//! The body of a response: frames of a limited size, and the faults in them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::task::coop;

use crate::list::ListBody;
use crate::watch::WatchBody;

/// The body of a response. It is produced while the client reads it, so a list of generated objects
/// never takes more memory than one frame.
pub struct Body {
    source: Source,
    /// The bytes that are produced and not yet sent.
    buffer: BytesMut,
    frame_size: usize,
    fault: Option<BodyFault>,
    bytes: usize,
    frames: usize,
}

/// The part of a body that is not yet in the buffer.
pub(crate) enum Source {
    Nothing,
    List(ListBody),
    Watch(Box<WatchBody>),
}

/// The result of filling the buffer.
pub(crate) enum FillResult {
    /// The buffer is not empty.
    Some,
    /// The source is exhausted. The buffer may hold the last bytes.
    All,
    /// The connection breaks.
    Broken,
}

/// The position in a body at which a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// After this many bytes.
    Bytes(usize),
    /// After this many frames. A watch sends each change as one frame, unless the change is longer
    /// than [`frame_size`](crate::Builder::frame_size). Initial events come in full frames, as a
    /// list does.
    Frames(usize),
}

/// A fault in a body, and where it happens.
#[derive(Clone, Debug)]
pub(crate) struct BodyFault {
    pub(crate) after: After,
    pub(crate) kind: BodyFaultKind,
}

#[derive(Clone, Debug)]
pub(crate) enum BodyFaultKind {
    /// The body fails with an error.
    Break,
    /// The body ends as if it were complete.
    Cut,
    /// The body stays open without data.
    Hang,
    /// These bytes are inserted into the body.
    Garbage(Bytes),
}

impl Body {
    /// Creates a body of bytes that exist already.
    pub(crate) fn whole(bytes: impl AsRef<[u8]>) -> Self {
        Self {
            buffer: BytesMut::from(bytes.as_ref()),
            ..Self::streamed(Source::Nothing, usize::MAX)
        }
    }

    /// Creates a body that is produced while it is read, in frames of at most `frame_size` bytes.
    pub(crate) fn streamed(source: Source, frame_size: usize) -> Self {
        Self { source, buffer: BytesMut::new(), frame_size, fault: None, bytes: 0, frames: 0 }
    }

    pub(crate) fn with_fault(self, fault: Option<BodyFault>) -> Self {
        Self { fault, ..self }
    }

    fn is_fault_due(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| match fault.after {
            After::Bytes(bytes) => self.bytes >= bytes,
            After::Frames(frames) => self.frames >= frames,
        })
    }

    /// Returns the largest size that the next frame may have.
    fn room(&self) -> usize {
        match &self.fault {
            Some(BodyFault { after: After::Bytes(bytes), .. }) => {
                self.frame_size.min(bytes - self.bytes)
            }
            _ => self.frame_size,
        }
    }

    fn take_frame(&mut self) -> Frame<Bytes> {
        let length = self.buffer.len().min(self.room());
        self.bytes += length;
        self.frames += 1;
        Frame::data(self.buffer.split_to(length).freeze())
    }

    fn end(&mut self) {
        self.source = Source::Nothing;
        self.buffer.clear();
    }

    fn break_off(&mut self) -> io::Error {
        self.end();
        io::Error::new(io::ErrorKind::ConnectionReset, "the test server broke the connection")
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        // A long list is always ready. Without this step, its reader would starve the other tasks
        // of the thread.
        let progress = ready!(coop::poll_proceed(cx));
        loop {
            if this.is_fault_due()
                && let Some(fault) = this.fault.take()
            {
                match fault.kind {
                    BodyFaultKind::Break => return Poll::Ready(Some(Err(this.break_off()))),
                    BodyFaultKind::Cut => this.end(),
                    BodyFaultKind::Hang => {
                        this.fault = Some(fault);
                        return Poll::Pending;
                    }
                    BodyFaultKind::Garbage(bytes) => {
                        let rest = this.buffer.split();
                        this.buffer.extend_from_slice(&bytes);
                        this.buffer.extend_from_slice(&rest);
                    }
                }
            }
            if !this.buffer.is_empty() {
                progress.made_progress();
                return Poll::Ready(Some(Ok(this.take_frame())));
            }
            match ready!(this.source.fill(cx, &mut this.buffer, this.frame_size)) {
                FillResult::Some => {}
                FillResult::All => {
                    // Dropping the source unregisters an ended watch, even if the client keeps the
                    // body.
                    this.source = Source::Nothing;
                    if this.buffer.is_empty() {
                        return Poll::Ready(None);
                    }
                }
                FillResult::Broken => return Poll::Ready(Some(Err(this.break_off()))),
            }
        }
    }
}

impl Source {
    fn fill(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
        enough: usize,
    ) -> Poll<FillResult> {
        match self {
            Self::Nothing => Poll::Ready(FillResult::All),
            Self::List(list) => Poll::Ready(list.fill(out, enough)),
            Self::Watch(watch) => watch.poll_fill(cx, out, enough),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Body;

    #[test]
    fn body_can_be_shared_between_threads() {
        fn check<T: Send + Sync>() {}
        check::<Body>();
    }
}
