//! The author of a write: a client, through an object or its status, or the test.

use crate::request::{Request, SCALE};

/// The part of an object that a write can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WritablePart {
    /// Everything: a write of the test.
    Everything,
    /// All but the status, if the resource has a status subresource.
    Main,
    /// The status alone.
    Status,
    /// The number of replicas alone.
    Scale,
}

/// The author of a write.
#[derive(Clone, Copy)]
pub(crate) struct Author<'a> {
    pub(crate) part: WritablePart,
    request: Option<&'a Request>,
}

impl<'a> Author<'a> {
    /// The test itself, and the server's own controllers.
    pub(crate) const TEST: Self = Self { part: WritablePart::Everything, request: None };

    pub(crate) fn client(request: &'a Request, part: WritablePart) -> Self {
        Self { part, request: Some(request) }
    }

    pub(crate) fn is_client(&self) -> bool {
        self.request.is_some()
    }

    /// Returns the name of the field manager: that of the request, otherwise the first part of the
    /// user agent.
    pub(crate) fn manager(&self) -> String {
        let Some(request) = self.request else {
            return "testkit".to_owned();
        };
        let agent = || request.user_agent().split('/').next().filter(|name| !name.is_empty());
        request
            .parameter("fieldManager")
            .filter(|name| !name.is_empty())
            .or_else(agent)
            .unwrap_or("unknown")
            .to_owned()
    }

    /// Returns the subresource of the write, or `""`.
    pub(crate) fn subresource(&self) -> &'static str {
        match self.part {
            WritablePart::Status => "status",
            WritablePart::Scale => SCALE,
            WritablePart::Main | WritablePart::Everything => "",
        }
    }
}
