//! A wire to the API server that can be cut, for clients that have no gate: their connections go through it. While it is
//! cut, connections are refused.

use std::net::{Ipv4Addr, SocketAddr};

use deltafifo::BoxError;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// Connections that wait to be taken.
const BACKLOG: u32 = 128;

/// Dropped, it is cut.
pub struct Wire {
    here: SocketAddr,
    there: SocketAddr,
    /// So that nobody else gets the port.
    closed: Option<TcpSocket>,
    carrying: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Wire {
    /// A wire to this port, which is open.
    pub fn to(port: u16) -> Result<Self, BoxError> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let closed = bound(any)?;
        let here = closed.local_addr()?;
        let there = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut wire = Self { here, there, closed: Some(closed), carrying: None };
        wire.open()?;
        Ok(wire)
    }

    /// Where clients find it.
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

    /// Cuts all connections off, and refuses new ones.
    pub async fn cut(&mut self) -> Result<(), BoxError> {
        if let Some((stop, carrying)) = self.carrying.take() {
            drop(stop);
            carrying.await?;
            self.closed = Some(bound(self.here)?);
        }
        Ok(())
    }
}

/// A socket that has the port, and refuses connections.
fn bound(address: SocketAddr) -> Result<TcpSocket, BoxError> {
    let socket = TcpSocket::new_v4()?;
    // Connections that were cut off have it for a while.
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
                    // Whatever ends it, both ends are closed then.
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
