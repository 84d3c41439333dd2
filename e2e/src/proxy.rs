//! A proxy through which informers can connect to the API server. It also serves client-go's
//! informers, whose requests a [`gate`](crate::gate) cannot hold. A scenario can cut the proxy: its
//! connections are then closed, and new ones are refused until it is opened again.

use std::net::{Ipv4Addr, SocketAddr};

use deltafifo::BoxError;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// The largest number of connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// A proxy. Dropping it cuts its connections.
pub struct Proxy {
    here: SocketAddr,
    there: SocketAddr,
    /// The socket that keeps the port while the proxy is cut.
    closed: Option<TcpSocket>,
    carrying: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Proxy {
    /// Creates an open proxy to this port.
    pub fn to(port: u16) -> Result<Self, BoxError> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let closed = bound(any)?;
        let here = closed.local_addr()?;
        let there = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut proxy = Self { here, there, closed: Some(closed), carrying: None };
        proxy.open()?;
        Ok(proxy)
    }

    /// Returns the port on which clients reach the proxy.
    pub fn port(&self) -> u16 {
        self.here.port()
    }

    /// Lets connections through.
    pub fn open(&mut self) -> Result<(), BoxError> {
        if let Some(closed) = self.closed.take() {
            let (stop, stopped) = oneshot::channel();
            let carrying = carry(closed.listen(BACKLOG)?, self.there, stopped);
            self.carrying = Some((stop, tokio::spawn(carrying)));
        }
        Ok(())
    }

    /// Cuts all connections and refuses new ones.
    pub async fn cut(&mut self) -> Result<(), BoxError> {
        if let Some((stop, carrying)) = self.carrying.take() {
            drop(stop);
            carrying.await?;
            self.closed = Some(bound(self.here)?);
        }
        Ok(())
    }
}

/// Returns a socket that holds the port and refuses connections.
fn bound(address: SocketAddr) -> Result<TcpSocket, BoxError> {
    let socket = TcpSocket::new_v4()?;
    // Connections that were cut hold the port for a while.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn carry(listener: TcpListener, there: SocketAddr, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            taken = listener.accept() => if let Ok((mut client, _)) = taken {
                connections.spawn(async move {
                    // Both ends are closed after the copy, for whatever reason it ended.
                    if let Ok(mut server) = TcpStream::connect(there).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}
