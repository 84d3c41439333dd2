//! The server on a TCP address, for `kubectl` and for clients in other processes, in any language,
//! that send JSON.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use crate::ApiServer;

/// The largest number of open connections. Further ones wait.
const CONNECTIONS: usize = 1_000;
/// The pause after a connection could not be accepted, for example for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time until the headers of a request are complete.
const HEADERS: Duration = Duration::from_secs(30);

impl ApiServer {
    /// Serves HTTP/1.1 on a TCP address, without TLS and authentication, until the returned value
    /// is dropped. Port 0 lets the system choose a port. At most 1,000 connections are open at a
    /// time. Use a loopback address: anyone who reaches it can read and write all objects.
    ///
    /// Clients must send JSON or YAML. Clients that send protobuf get a 415. These are clients in
    /// Go whose `ContentType` is protobuf, and commands such as `kubectl create namespace`.
    /// Commands that read a file, such as `kubectl create -f`, send JSON. Pass the output of
    /// `kubectl create namespace shop --dry-run=client -o yaml` to `kubectl create --validate=false
    /// -f -`.
    ///
    /// These requests are [recorded](Self::requests) and struck by [faults](crate::Fault), like
    /// those of a client in the process. If the server runs for a long time, limit the number of
    /// [recorded requests](crate::Builder::recorded_requests). Do not pause tokio's clock if a
    /// client is in another process, because the clock of that process continues.
    ///
    /// # Errors
    /// The error of binding the address.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with I/O and timers (`enable_all`).
    ///
    /// ```
    /// use deltafifo_testkit::{ApiServer, Resource};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::api::{Api, ListParams};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = ApiServer::builder().resource(Resource::config_maps()).build();
    /// let serving = server.serve("127.0.0.1:0".parse()?).await?;
    /// let config = kube::Config::new(serving.url().parse()?);
    /// let maps: Api<ConfigMap> = Api::all(kube::Client::try_from(config)?);
    /// assert!(maps.list(&ListParams::default()).await?.items.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve(&self, address: SocketAddr) -> io::Result<Serving> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Serving { address, accepting: tokio::spawn(accept(listener, self.clone())) })
    }
}

/// A server that [serves](ApiServer::serve) a TCP address. Dropping it closes the address and all
/// connections. The objects stay in the [`ApiServer`].
#[derive(Debug)]
#[must_use = "dropping it closes the address"]
pub struct Serving {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Serving {
    /// Returns the address, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients on this machine, for example `http://127.0.0.1:8001`. If all
    /// addresses of the machine are served, such as `0.0.0.0`, it has the loopback address.
    #[must_use]
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("http://{address}")
    }

    /// Returns a kubeconfig for clients, as JSON, which `kubectl --kubeconfig` reads from a file.
    #[must_use]
    pub fn kubeconfig(&self) -> Value {
        let name = "testkit";
        json!({
            "kind": "Config",
            "apiVersion": "v1",
            "current-context": name,
            "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
            "clusters": [{ "name": name, "cluster": { "server": self.url() } }],
            "users": [{ "name": name, "user": {} }],
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The task owns the tasks of the connections, so this ends them, too.
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: ApiServer) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    // Never an error: the semaphore is not closed.
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let server = server.clone();
        connections.spawn(async move {
            serve(stream, server).await;
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, server: ApiServer) {
    // Without it, the end of a small response can wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(server));
    // An error is the client's end of the connection, or a fault that the test has armed.
    let _ = connection.await;
}
