//! An etcd and a kube-apiserver on loopback, with all their files in one directory.
//!
//! No files have to be prepared. The API server creates its own certificate. The certificate's key
//! is also given as the key for the tokens of service accounts, although there are no service
//! accounts. The API server knows two users by their tokens: one with all permissions, and
//! [`LIMITED`], which has no permissions under RBAC until a scenario grants it some.

mod process;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use deltafifo::BoxError;
use deltafifo_informer::error_chain;
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::scenarios::Setting;
use crate::wait::POLL;
use crate::writer::Writer;
use process::Process;

/// The namespace of the scenarios' objects.
pub const NAMESPACE: &str = "e2e";

/// The name of the program of the API server.
const API: &str = "kube-apiserver";
/// The name of the program of etcd.
const ETCD: &str = "etcd";
/// The name of the program with client-go's informer, which is not a server.
pub const CLIENT_GO: &str = "client-go";
/// The argument of an API server that honours `shardSelector` (KEP-5866).
pub const SHARDED: &str = "--feature-gates=ShardedListAndWatch=true";
/// The token of the user with all permissions.
pub const TOKEN: &str = "not-a-secret";
/// The token of the user [`LIMITED`].
const LIMITED_TOKEN: &str = "not-a-secret-either";
/// The name of a user that has only the rights that a scenario gives it.
pub const LIMITED: &str = "limited";
/// The longest time until a server is ready. It includes reading all objects.
const STARTING: Duration = Duration::from_secs(60);
/// The longest time that the response to a write or a list may take.
const ANSWERING: Duration = Duration::from_secs(20);

/// The options of a scenario's servers.
#[derive(Default)]
pub struct Options {
    /// Further arguments of the API server.
    pub arguments: Vec<&'static str>,
    /// The program of another etcd, to be used instead of the one that was built.
    pub etcd: Option<PathBuf>,
    /// Whether users have only the rights of their roles. If false, every user has all
    /// permissions.
    pub rbac: bool,
}

/// The running servers. Dropping the value kills both.
pub struct Servers {
    dir: PathBuf,
    api_binary: PathBuf,
    etcd_binary: PathBuf,
    arguments: Vec<&'static str>,
    rbac: bool,
    ports: Ports,
    api: Option<Process>,
    etcd: Option<Process>,
    /// The client for reflectors, with kube's default settings.
    client: Client,
    /// The client for writes and lists. It has a timeout and does not retry.
    without_retries: Client,
}

struct Ports {
    api: u16,
    etcd: u16,
    peers: u16,
}

impl Servers {
    /// Starts both servers and creates the namespace.
    pub async fn start(setting: &Setting, options: Options) -> Result<Self, BoxError> {
        let ports = Ports::free()?;
        fs::write(
            setting.dir.join("tokens.csv"),
            format!("{TOKEN},tester,tester,system:masters\n{LIMITED_TOKEN},{LIMITED},{LIMITED},\n"),
        )?;
        let mut servers = Self {
            dir: setting.dir.clone(),
            api_binary: setting.binaries.join(API),
            etcd_binary: options.etcd.unwrap_or_else(|| setting.binaries.join(ETCD)),
            arguments: options.arguments,
            rbac: options.rbac,
            client: client_at(ports.api)?,
            without_retries: writing_client_at(ports.api)?,
            ports,
            api: None,
            etcd: None,
        };
        servers.start_etcd().await?;
        servers.start_api().await?;
        let metadata = ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(servers.without_retries.clone());
        namespaces.create(&PostParams::default(), &namespace).await?;
        Ok(servers)
    }

    /// Returns a client for reflectors.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client of the user [`LIMITED`].
    pub fn limited_client(&self) -> Result<Client, BoxError> {
        let mut config = user(self.ports.api)?;
        config.auth_info.token = Some(LIMITED_TOKEN.into());
        Ok(Client::try_from(config)?)
    }

    /// Returns a client of etcd.
    pub fn etcd_client(&self) -> Result<Client, BoxError> {
        Ok(Client::try_from(config(&format!("http://127.0.0.1:{}", self.ports.etcd))?)?)
    }

    /// Returns a kubeconfig for clients in other programs. Its user has all permissions, and its
    /// namespace is that of the scenarios' objects.
    pub fn kubeconfig(&self) -> Value {
        let server = format!("https://127.0.0.1:{}", self.ports.api);
        let context = json!({ "cluster": "e2e", "user": "tester", "namespace": NAMESPACE });
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "contexts": [{ "name": "e2e", "context": context }],
            "clusters": [{ "name": "e2e", "cluster": { "server": server, "insecure-skip-tls-verify": true } }],
            "users": [{ "name": "tester", "user": { "token": TOKEN } }],
        })
    }

    /// Returns the port of the API server.
    pub fn port(&self) -> u16 {
        self.ports.api
    }

    /// Returns a writer for the scenario.
    pub fn writer(&self) -> Writer {
        Writer::new(self.without_retries.clone())
    }

    /// Starts etcd with its former data, and waits until it is ready.
    pub async fn start_etcd(&mut self) -> Result<(), BoxError> {
        let url = |port| format!("http://127.0.0.1:{port}");
        let (clients, peers) = (url(self.ports.etcd), url(self.ports.peers));
        let mut command = Command::new(&self.etcd_binary);
        command.args([
            "--name=e2e".to_owned(),
            format!("--data-dir={}", self.dir.join("data").display()),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=e2e={peers}"),
            // Only processes fail here, never the machine.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ]);
        let client = self.etcd_client()?;
        let etcd = self.etcd.insert(Process::start(ETCD, command, &self.dir)?);
        ready(etcd, &client, "/health").await
    }

    /// Stops etcd with SIGTERM.
    pub async fn stop_etcd(&mut self) -> Result<(), BoxError> {
        match self.etcd.take() {
            Some(etcd) => etcd.stop().await,
            None => Ok(()),
        }
    }

    /// Starts the API server on its former port, and waits until it is ready.
    pub async fn start_api(&mut self) -> Result<(), BoxError> {
        let (certificates, tokens) = (self.dir.join("certificates"), self.dir.join("tokens.csv"));
        let key = certificates.join("apiserver.key");
        let mut command = Command::new(&self.api_binary);
        command.args([
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.ports.api),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--cert-dir={}", certificates.display()),
            format!("--token-auth-file={}", tokens.display()),
            "--anonymous-auth=false".to_owned(),
            format!("--authorization-mode={}", if self.rbac { "RBAC" } else { "AlwaysAllow" }),
            "--service-account-issuer=https://e2e.local".to_owned(),
            format!("--service-account-key-file={}", key.display()),
            format!("--service-account-signing-key-file={}", key.display()),
            // Without it a watch over HTTP/1 delays the stop by a minute.
            "--shutdown-watch-termination-grace-period=5s".to_owned(),
        ]);
        command.args(&self.arguments);
        let api = self.api.insert(Process::start(API, command, &self.dir)?);
        ready(api, &self.without_retries, "/readyz").await
    }

    /// Stops the API server with SIGTERM: it ends its watches and then exits.
    pub async fn stop_api(&mut self) -> Result<(), BoxError> {
        match self.api.take() {
            Some(api) => api.stop().await,
            None => Ok(()),
        }
    }

    /// Kills the API server, and starts it again after this time.
    pub async fn kill_api_for(&mut self, away: Duration) -> Result<(), BoxError> {
        self.kill_api().await?;
        sleep(away).await;
        self.start_api().await
    }

    /// Stops etcd, and starts it again after this time.
    pub async fn stop_etcd_for(&mut self, away: Duration) -> Result<(), BoxError> {
        self.stop_etcd().await?;
        sleep(away).await;
        self.start_etcd().await
    }

    /// Kills the API server with SIGKILL: connections break off.
    pub async fn kill_api(&mut self) -> Result<(), BoxError> {
        match self.api.take() {
            Some(api) => api.kill().await,
            None => Ok(()),
        }
    }
}

impl Ports {
    /// Returns free ports. They are bound at the same time, so that they differ.
    fn free() -> Result<Self, BoxError> {
        let any = (Ipv4Addr::LOCALHOST, 0);
        let (api, etcd, peers) =
            (TcpListener::bind(any)?, TcpListener::bind(any)?, TcpListener::bind(any)?);
        Ok(Self {
            api: api.local_addr()?.port(),
            etcd: etcd.local_addr()?.port(),
            peers: peers.local_addr()?.port(),
        })
    }
}

/// Returns a client for informers. `port` is the port of the API server, or of a proxy to it.
pub fn client_at(port: u16) -> Result<Client, BoxError> {
    Ok(Client::try_from(user(port)?)?)
}

/// Returns a client for writes. It has a timeout and does not retry. `port` is the port of the API
/// server, or of a proxy to it.
pub fn writing_client_at(port: u16) -> Result<Client, BoxError> {
    let mut config = user(port)?;
    config.default_retry = false;
    (config.read_timeout, config.reset_reader_on_write) = (Some(ANSWERING), true);
    Ok(Client::try_from(config)?)
}

/// Returns the configuration of a client whose user has all permissions. `port` is the port of the
/// API server, or of a proxy to it.
pub fn user(port: u16) -> Result<Config, BoxError> {
    let mut config = config(&format!("https://127.0.0.1:{port}"))?;
    config.auth_info.token = Some(TOKEN.into());
    Ok(config)
}

/// Returns the configuration for a server at `url`. It does not check the certificate: the server
/// is a child process that creates its own, so the check would prove nothing.
fn config(url: &str) -> Result<Config, BoxError> {
    let mut config = Config::new(url.parse()?);
    config.accept_invalid_certs = true;
    // Prevents a search for the machine's certificates, which may not exist.
    config.root_cert = Some(Vec::new());
    Ok(config)
}

/// Waits until a server responds that it is ready.
async fn ready(process: &mut Process, client: &Client, path: &str) -> Result<(), BoxError> {
    let deadline = Instant::now() + STARTING;
    loop {
        process.check()?;
        let Err(error) = client.request_text(Request::get(path).body(Vec::new())?).await else {
            return Ok(());
        };
        if Instant::now() > deadline {
            let error = error_chain(&error);
            return Err(format!("{path} is not ready after {STARTING:?}: {error}").into());
        }
        sleep(POLL).await;
    }
}

/// Returns the ends of the logs of the servers and of client-go in `dir`.
pub fn logs(dir: &Path) -> String {
    const LINES: usize = 30;
    let end = |name: &str| {
        let log = fs::read(dir.join(format!("{name}.log"))).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        format!("-- {name}\n{}\n", lines[lines.len().saturating_sub(LINES)..].join("\n"))
    };
    end(ETCD) + &end(API) + &end(CLIENT_GO)
}

/// Removes etcd's data from `dir`. The logs, the certificates and the list of tokens stay.
pub fn tidy(dir: &Path) {
    // If this fails, the data only takes up space.
    let _ = fs::remove_dir_all(dir.join("data"));
}
