//! A small HTTP/1 server: one request per connection, so that no client can keep one open.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tracing::error;

use super::{PlainResponse, Routes};
use crate::clock::Clock;
use crate::compute::{Blocking, run};

/// The most connections at once. One more closes the oldest: most likely it is silent, as a
/// response takes no time, and a client that opens many must not delay probes.
const MAX_CONNECTIONS: usize = 128;
/// The most scrapes at once; each holds a page of megabytes until it is sent.
const MAX_CONCURRENT_SCRAPES: usize = 8;

/// The longest time for a connection. A scrape of a large registry takes a second.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause after a failed accept, for lack of file descriptors for example.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[error("listening on port {port}, which {flag} says")]
pub struct ServeError {
    /// What chooses the port.
    pub flag: &'static str,
    /// The port.
    pub port: u16,
    source: io::Error,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    routes: Routes,
}

impl Server {
    /// Listens on all addresses. Port 0 takes one that is free.
    pub async fn listen(port: u16, routes: Routes) -> Result<Self, ServeError> {
        let flag = match routes {
            Routes::Health { .. } => "--health-probe-port",
            Routes::Metrics { .. } => "--metrics-port",
        };
        // Both families with one socket, where the system has IPv6 at all.
        let listening = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
            }
            result => result,
        };
        let listener = listening.map_err(|source| ServeError { flag, port, source })?;
        Ok(Self { listener, routes })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Runs the server on a thread of its own until the returned handle is dropped. On busy cores
    /// responses of the thread that runs the controllers took up to 110 ms, though no turn of it
    /// took 20: most likely a thread that has just worked much waits for a core. On its own thread,
    /// the slowest took 41 ms.
    pub fn run_on_thread(self, clock: Arc<dyn Clock>) -> io::Result<ServerThread> {
        let Self { listener, routes } = self;
        let listener = listener.into_std()?;
        let (guard, dropped) = oneshot::channel();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                let _ = select(pin!(Self { listener, routes }.run(clock)), dropped).await;
                io::Result::Ok(())
            })
        };
        std::thread::Builder::new().name("probes".to_owned()).spawn(move || {
            if let Err(error) = serve() {
                error!(error = %error, "nobody answers probes");
            }
        })?;
        Ok(ServerThread { _guard: guard })
    }

    /// Answers until it is dropped; a task of its own. Dropping it ends all connections.
    pub async fn run(self, clock: Arc<dyn Clock>) {
        let (routes, pages) =
            (Arc::new(self.routes), Arc::new(Semaphore::new(MAX_CONCURRENT_SCRAPES)));
        let (mut connections, mut open) = (JoinSet::new(), VecDeque::<AbortHandle>::new());
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                clock.sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            open.retain(|connection| !connection.is_finished());
            if open.len() >= MAX_CONNECTIONS
                && let Some(oldest) = open.pop_front()
            {
                oldest.abort();
            }
            let (routes, pages, patience) =
                (routes.clone(), pages.clone(), clock.sleep(CONNECTION_TIMEOUT));
            open.push_back(connections.spawn(async move {
                // A client that has disconnected or took too long gets no response.
                let _ = select(Box::pin(serve_connection(stream, routes, pages)), patience).await;
            }));
        }
    }
}

/// A server on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct ServerThread {
    _guard: oneshot::Sender<Infallible>,
}

async fn serve_connection(stream: TcpStream, routes: Arc<Routes>, pages: Arc<Semaphore>) {
    let _ = stream.set_nodelay(true);
    // Kept until the answer is sent.
    let place = Arc::new(OnceLock::new());
    let service = service_fn(|request: Request<Incoming>| {
        let (routes, pages, place) = (routes.clone(), pages.clone(), place.clone());
        async move {
            if matches!(*routes, Routes::Metrics { .. }) {
                let _ = place.set(pages.acquire_owned().await);
            }
            Ok::<_, Infallible>(respond(routes, request).await)
        }
    });
    let mut connection = http1::Builder::new();
    // A client may close its sending side, and still gets the response.
    connection.keep_alive(false).half_close(true).max_headers(64).max_buf_size(16 * 1024);
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(routes: Arc<Routes>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let shared_routes = routes.clone();
    let build_response = move || {
        let uri = request.uri();
        shared_routes.respond(request.method(), uri.path(), uri.query().unwrap_or_default())
    };
    let answer = match &*routes {
        Routes::Health { .. } => Some(build_response()),
        // A page about 15,000 pods takes a part of a second, in which no other task would run.
        Routes::Metrics { .. } => run(&Blocking, build_response).await,
    };
    let PlainResponse { status, body } = answer.unwrap_or_else(PlainResponse::internal_error);
    let kind = match &*routes {
        Routes::Metrics { .. } if status.is_success() => prometheus::TEXT_FORMAT,
        _ => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("routes", &self.routes).finish_non_exhaustive()
    }
}
