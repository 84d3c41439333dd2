//! What a reflector met, as far as a scenario has to tell one from another.

use deltafifo_informer::lister_watcher::RequestError;
use deltafifo_informer::{ReflectorError, WireError};

/// Kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No answer, or one that broke off: the server is away.
    Cut,
    /// A watch was ended at once, as a server does that is being stopped.
    Short,
    /// The version, or the page's token, is too old: 410.
    Expired,
    /// The version is one that the server has not reached: 504.
    TooLarge,
    /// The server refuses for another reason.
    Status(u16),
    /// Something that no scenario brings about.
    Other,
}

impl Fault {
    /// Of a list or a watch.
    pub fn of_request(error: &RequestError) -> Self {
        match error {
            _ if error.is_expired() => Self::Expired,
            _ if error.is_too_large_version() => Self::TooLarge,
            RequestError::Status { status, .. } => Self::Status(status.code),
            RequestError::Unreachable(_) | RequestError::Broken(_) | RequestError::Wire(WireError::CutShort { .. }) => {
                Self::Cut
            }
            RequestError::VeryShort => Self::Short,
            _ => Self::Other,
        }
    }

    /// Whether a server that is killed, stopped or just starting may be the reason.
    pub fn is_restart(self) -> bool {
        matches!(self, Self::Cut | Self::Short | Self::Status(429 | 500 | 503 | 504))
    }
}

/// An error that the reflector has told of.
pub struct Met {
    /// Its kind.
    pub fault: Fault,
    /// What it says.
    pub text: String,
}

impl Met {
    pub fn of(error: &ReflectorError) -> Self {
        let fault = match error {
            ReflectorError::List(error) | ReflectorError::Watch(error) => Fault::of_request(error),
            _ => Fault::Other,
        };
        Self { fault, text: error.to_string() }
    }
}
