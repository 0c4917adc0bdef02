//! Proxies connections to the API server, which tests can cut.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Passes bytes on in both directions until it is cut or dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    /// Each connection closes when this value changes.
    disconnects: Arc<watch::Sender<u32>>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Listens on a port of loopback, and passes on to another one.
    pub async fn start(to_port: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let cuts = Arc::new(watch::channel(0).0);
        let mut accepting = JoinSet::new();
        let connections = cuts.clone();
        accepting.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                open.spawn(forward(stream, to_port, connections.subscribe()));
            }
        });
        Ok(Self { port, disconnects: cuts, _accepting: accepting })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.disconnects.receiver_count()
    }

    /// Closes all open connections. New ones are accepted.
    pub fn cut_connections(&self) {
        self.disconnects.send_modify(|cuts| *cuts += 1);
    }
}

async fn forward(mut from: TcpStream, to_port: u16, mut cut: watch::Receiver<u32>) {
    let to = SocketAddr::from(([127, 0, 0, 1], to_port));
    let Ok(mut to) = TcpStream::connect(to).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut from, &mut to) => {}
        _ = cut.changed() => {}
    }
}
