//! The clients by name.

use std::fmt;

use clap::ValueEnum;
use clap::builder::{PossibleValue, StyledStr};

/// A client, and the way in which it requests the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientName {
    /// curl with the URL and headers of deltafifo-list; it discards the response, so it measures
    /// the server's time for a list
    Curl,
    /// curl with the URL and headers of deltafifo, up to the end of the initial events; it measures
    /// the server's time for a streamed list
    CurlStreamed,
    /// This project's shared informer with its defaults: a streamed list
    #[value(name = "deltafifo")]
    DeltaFifo,
    /// This project's shared informer with a list of any version
    #[value(name = "deltafifo-list")]
    DeltaFifoList,
    /// This project's shared informer without managed fields, which it leaves out while decoding
    #[value(name = "deltafifo-without")]
    DeltaFifoWithout,
    /// This project's shared informer of compact objects, with a list of any version
    #[value(name = "deltafifo-compact")]
    DeltaFifoCompact,
    /// kube-rs' watcher and store with their defaults: the newest version, in pages of 500;
    /// handlers do not get old objects
    KubeList,
    /// kube-rs' watcher and store with a list of any version, as in deltafifo-list
    KubeListAny,
    /// kube-rs' watcher and store with a streamed list
    KubeStreamed,
    /// kube-rs' watcher and store with a streamed list, without managed fields, which are removed
    /// before the store
    KubeWithout,
    /// client-go's shared informer with JSON and a list of any version
    ClientGoList,
    /// client-go's shared informer with JSON and a list of any version, without managed fields,
    /// which a transform removes
    ClientGoWithout,
    /// client-go's shared informer with JSON and a streamed list
    ClientGoStreamed,
    /// client-go's shared informer with protobuf and a list of any version
    #[value(name = "client-go-pb-list")]
    ClientGoProtobufList,
    /// client-go's shared informer with protobuf and a streamed list
    #[value(name = "client-go-pb-streamed")]
    ClientGoProtobufStreamed,
}

/// The program that runs a client.
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
            Self::ClientGoList
            | Self::ClientGoWithout
            | Self::ClientGoStreamed
            | Self::ClientGoProtobufList
            | Self::ClientGoProtobufStreamed => Program::Go,
            _ => Program::Own,
        }
    }

    /// Returns whether the client requests the objects as the first events of a watch.
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

    /// Returns whether the client stores no managed fields.
    pub(super) fn is_without(self) -> bool {
        matches!(self, Self::DeltaFifoWithout | Self::KubeWithout | Self::ClientGoWithout)
    }

    pub(super) fn is_protobuf(self) -> bool {
        matches!(self, Self::ClientGoProtobufList | Self::ClientGoProtobufStreamed)
    }

    /// Returns the description of the client.
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
