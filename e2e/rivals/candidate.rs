//! The common parts of the candidates: their arguments, their client, and the writes of a leader.
//! Each program compiles this file with the version of kube that its library needs. The programs
//! take the arguments of `e2e/src/election/candidate.rs`, and write the same objects.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;
use std::{io, process, thread};

use clap::Parser;
use futures_util::future::join;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Config};
use tokio::time::sleep;

/// The namespace of the lease and of the objects.
pub const NAMESPACE: &str = "e2e";
/// The token of a user with all permissions.
const TOKEN: &str = "not-a-secret";
/// The exit code of a candidate that has lost its lease.
const LOST: i32 = 3;
/// The time between an error and the next attempt, and between two checks of a leader that has
/// nothing left to write.
const POLL: Duration = Duration::from_millis(50);

/// The arguments of a candidate. The libraries have no retry period. The candidates do not handle
/// SIGTERM, which ends them without a release.
#[derive(Parser)]
pub struct Arguments {
    /// The port of the API server, or of a proxy to it
    #[arg(long)]
    port: u16,
    /// The name of the lease
    #[arg(long)]
    pub lease: String,
    /// The name of the candidate
    #[arg(long)]
    identity: String,
    #[arg(long, value_parser = milliseconds)]
    pub lease_duration: Duration,
    #[arg(long, value_parser = milliseconds)]
    renew_deadline: Duration,
    #[arg(long = "retry-period")]
    _retry_period: u64,
    /// Write each object once in a term, instead of as fast as the server answers
    #[arg(long)]
    once: bool,
    #[arg(long = "release-on-cancel")]
    _release_on_cancel: bool,
}

fn milliseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}

impl Arguments {
    /// Reads the arguments, and starts a thread that ends the process when its standard input ends.
    pub fn read() -> Self {
        thread::spawn(|| {
            // An error of the standard input ends the candidate, too.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            process::exit(1);
        });
        Self::parse()
    }

    /// Returns the identity of this process. A trial expects the name of the candidate, `_`, and a
    /// text without `_`.
    pub fn identity(&self) -> String {
        format!("{}_{}", self.identity, process::id())
    }

    /// Returns the time before the end of the lease in which the leader renews it.
    #[allow(dead_code)] // kube-leader-election has no such time.
    pub fn grace(&self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline)
    }

    /// Returns a client with connections of its own.
    pub fn client(&self) -> Result<Client, Box<dyn Error>> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse()?);
        // The server creates its own certificate, so checking it would prove nothing.
        config.accept_invalid_certs = true;
        // Prevents a search for the machine's certificates, which may not exist.
        config.root_cert = Some(Vec::new());
        config.auth_info.token = Some(TOKEN.to_owned().into());
        Ok(Client::try_from(config)?)
    }

    /// Writes the fencing token of `lease` into both objects, each as fast as the server answers or
    /// once. Returns when `leads` returns false.
    pub async fn lead(
        &self,
        lease: &Lease,
        leads: impl Fn() -> bool,
    ) -> Result<(), Box<dyn Error>> {
        let spec = lease.spec.as_ref().ok_or("the lease has no spec")?;
        let data = BTreeMap::from([
            ("uid".to_owned(), lease.metadata.uid.clone().unwrap_or_default()),
            ("transitions".to_owned(), spec.lease_transitions.unwrap_or_default().to_string()),
            ("identity".to_owned(), self.identity()),
        ]);
        let maps = Api::namespaced(self.client()?, NAMESPACE);
        let written = |suffix, is_versioned| {
            let name = Some(format!("{}{suffix}", self.lease));
            let metadata = ObjectMeta { name, ..ObjectMeta::default() };
            let map = ConfigMap { metadata, data: Some(data.clone()), ..ConfigMap::default() };
            self.write(&maps, map, is_versioned, &leads)
        };
        join(written("-versioned", true), written("-plain", false)).await;
        Ok(())
    }

    /// Writes `map`, once or again and again, and returns when `leads` returns false. A versioned
    /// write contains the `resourceVersion` that it replaces.
    async fn write(
        &self,
        maps: &Api<ConfigMap>,
        mut map: ConfigMap,
        is_versioned: bool,
        leads: &impl Fn() -> bool,
    ) {
        let name = map.metadata.name.clone().unwrap_or_default();
        let mut number = 0_u64;
        let mut is_written = false;
        while leads() {
            if self.once && is_written {
                sleep(POLL).await;
                continue;
            }
            // Each write has another number, because the server does not store an unchanged object.
            map.data.get_or_insert_default().insert("number".to_owned(), number.to_string());
            number += 1;
            if is_versioned && map.metadata.resource_version.is_none() {
                let Ok(read) = maps.get_metadata(&name).await else {
                    sleep(POLL).await;
                    continue;
                };
                map.metadata.resource_version = read.metadata.resource_version;
            }
            let written = maps.replace(&name, &PostParams::default(), &map).await;
            // After an error the version is read again.
            map.metadata.resource_version = None;
            match written {
                Ok(written) => {
                    is_written = true;
                    if is_versioned {
                        map.metadata.resource_version = written.metadata.resource_version;
                    }
                }
                Err(_) => sleep(POLL).await,
            }
        }
    }
}

/// Ends the process of a leader that has lost its lease.
pub fn lost() -> ! {
    process::exit(LOST)
}
