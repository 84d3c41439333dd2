//! Every client by its name.

use std::fmt;

use clap::ValueEnum;
use clap::builder::{PossibleValue, StyledStr};

/// Who reads the objects, and how it asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientName {
    /// curl, with the URL and headers of deltafifo-list, throwing away what comes: what the server
    /// takes for a list
    Curl,
    /// The same with those of deltafifo, up to the end of the initial events: what the server
    /// takes for a stream
    CurlStreamed,
    /// This project's shared informer with its defaults, which is by a streamed list
    #[value(name = "deltafifo")]
    DeltaFifo,
    /// The same by a list of any version
    #[value(name = "deltafifo-list")]
    DeltaFifoList,
    /// The same without managed fields, which are left out while decoding
    #[value(name = "deltafifo-without")]
    DeltaFifoWithout,
    /// kube-rs' watcher and store with their defaults: the newest version in pages of 500; it has
    /// no old objects
    KubeList,
    /// The same by a list of any version, as deltafifo-list
    KubeListAny,
    /// The same by a streamed list
    KubeStreamed,
    /// The same without managed fields, which are taken away before the store
    KubeWithout,
    /// client-go's shared informer in JSON, by a list of any version
    ClientGoList,
    /// The same without managed fields, which a transform takes away
    ClientGoWithout,
    /// The same as client-go-list by a streamed list
    ClientGoStreamed,
    /// client-go's shared informer in protobuf, by a list of any version
    #[value(name = "client-go-pb-list")]
    ClientGoProtobufList,
    /// The same by a streamed list
    #[value(name = "client-go-pb-streamed")]
    ClientGoProtobufStreamed,
}

/// What a client is started by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Curl,
    /// This binary.
    Own,
    Go,
}

impl ClientName {
    pub(super) fn program(self) -> Program {
        match self {
            Self::Curl | Self::CurlStreamed => Program::Curl,
            Self::DeltaFifo
            | Self::DeltaFifoList
            | Self::DeltaFifoWithout
            | Self::KubeList
            | Self::KubeListAny
            | Self::KubeStreamed
            | Self::KubeWithout => Program::Own,
            Self::ClientGoList
            | Self::ClientGoWithout
            | Self::ClientGoStreamed
            | Self::ClientGoProtobufList
            | Self::ClientGoProtobufStreamed => Program::Go,
        }
    }

    /// Whether it asks for the objects as the first events of a watch.
    pub(super) fn is_streamed(self) -> bool {
        matches!(
            self,
            Self::CurlStreamed
                | Self::DeltaFifo
                | Self::KubeStreamed
                | Self::KubeWithout
                | Self::ClientGoStreamed
                | Self::ClientGoProtobufStreamed
        )
    }

    /// Whether it keeps no managed fields.
    pub(super) fn is_without(self) -> bool {
        matches!(self, Self::DeltaFifoWithout | Self::KubeWithout | Self::ClientGoWithout)
    }

    pub(super) fn is_protobuf(self) -> bool {
        matches!(self, Self::ClientGoProtobufList | Self::ClientGoProtobufStreamed)
    }

    /// What it is.
    pub(super) fn description(self) -> String {
        self.to_possible_value()
            .and_then(|value| value.get_help().map(StyledStr::to_string))
            .unwrap_or_default()
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", PossibleValue::get_name))
    }
}
