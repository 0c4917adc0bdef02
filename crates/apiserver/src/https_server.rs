//! The HTTPS server serves the API over TCP on loopback, for kubectl. It creates a certificate
//! authority and a bearer token at the start, which its owner hands to clients.
//!
//! HTTPS, because kubectl does not send tokens over plain HTTP.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use http::{Request, Response, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::api::Api;
use crate::service::{ResponseBody, Service, unauthorized_response};

/// The limits of connections that bound the memory and the time of a server.
#[derive(Debug, Clone, Copy)]
struct ConnectionLimits {
    /// The number of connections at which a new one closes the oldest unauthenticated one. If all
    /// are authenticated, the server closes the new connection.
    max_connections: usize,
    /// The time that a client has to authenticate and to send its first request.
    authentication_timeout: Duration,
}

const DEFAULT_LIMITS: ConnectionLimits =
    ConnectionLimits { max_connections: 512, authentication_timeout: Duration::from_secs(10) };

/// Watches of one client over one connection.
const MAX_STREAMS: u32 = 1_000;

/// How long to wait when the system gives no connection, for lack of files for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("listening on 127.0.0.1:{port}: {source}")]
    Listen { port: u16, source: io::Error },
    #[error("making a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("using the certificate: {0}")]
    Tls(#[from] rustls::Error),
}

/// An API that listens. [`Server::run`] answers; dropping that ends all connections.
#[derive(Debug)]
pub struct Server {
    api: Api,
    listener: TcpListener,
    acceptor: Acceptor,
    address: SocketAddr,
    ca_pem: String,
    token: String,
    limits: ConnectionLimits,
}

/// [`TlsAcceptor`] does not say what it is.
struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsAcceptor")
    }
}

impl Server {
    /// Listens on 127.0.0.1. Port 0 takes one that is free.
    pub async fn listen(api: &Api, port: u16) -> Result<Self, ServeError> {
        let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let at_port = |source| ServeError::Listen { port, source };
        let listener = listening.map_err(at_port)?;
        let address = listener.local_addr().map_err(at_port)?;
        let (ca_pem, config, token) = generate_credentials()?;
        let acceptor = Acceptor(TlsAcceptor::from(Arc::new(config)));
        Ok(Self {
            api: api.clone(),
            listener,
            acceptor,
            address,
            ca_pem,
            token,
            limits: DEFAULT_LIMITS,
        })
    }

    /// `https://127.0.0.1:…`
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the certificate authority that clients have to trust, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Returns the bearer token of an administrator.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Answers clients until it is dropped.
    pub async fn run(self) {
        let service = self.api.service();
        let token: Arc<str> = self.token.into();
        let mut clients = Connections::new(self.limits.max_connections);
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                let _ = tokio::time::timeout(ACCEPT_PAUSE, future::pending::<()>()).await;
                continue;
            };
            let Some(place) = clients.acquire_permit().await else {
                continue;
            };
            let known = Arc::new(AtomicBool::new(false));
            let connection = Connection {
                acceptor: self.acceptor.0.clone(),
                service: AuthenticatedService {
                    service: service.clone(),
                    token: token.clone(),
                    is_authenticated: known.clone(),
                },
                authentication_timeout: self.limits.authentication_timeout,
            };
            clients.spawn(known, async move {
                connection.serve(stream).await;
                drop(place);
            });
        }
    }
}

/// The open connections. Dropping it closes all connections.
struct Connections {
    permits: Arc<Semaphore>,
    tasks: JoinSet<()>,
    /// Connections that were unauthenticated at the last check, oldest first.
    unauthenticated: VecDeque<(AbortHandle, Arc<AtomicBool>)>,
}

impl Connections {
    fn new(max_connections: usize) -> Self {
        let permits = Arc::new(Semaphore::new(max_connections));
        Self { permits, tasks: JoinSet::new(), unauthenticated: VecDeque::new() }
    }

    /// Returns a permit for one more connection. At the limit it closes the oldest unauthenticated
    /// connection; `None` if there is none.
    async fn acquire_permit(&mut self) -> Option<OwnedSemaphorePermit> {
        while self.tasks.try_join_next().is_some() {}
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Some(permit);
        }
        let is_unknown = |known: &AtomicBool| !known.load(Ordering::Relaxed);
        self.unauthenticated.retain(|(task, known)| !task.is_finished() && is_unknown(known));
        self.unauthenticated.pop_front()?.0.abort();
        self.permits.clone().acquire_owned().await.ok()
    }

    fn spawn(&mut self, known: Arc<AtomicBool>, task: impl Future<Output = ()> + Send + 'static) {
        // Finished tasks are dropped when the limit is reached, or before the queue grows too long.
        if self.unauthenticated.len() > 2 * DEFAULT_LIMITS.max_connections {
            self.unauthenticated.retain(|(task, _)| !task.is_finished());
        }
        self.unauthenticated.push_back((self.tasks.spawn(task), known));
    }
}

struct Connection {
    acceptor: TlsAcceptor,
    service: AuthenticatedService,
    authentication_timeout: Duration,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let handshake =
            tokio::time::timeout(self.authentication_timeout, self.acceptor.accept(stream));
        let Ok(Ok(stream)) = handshake.await else {
            return;
        };
        let known = self.service.is_authenticated.clone();
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.authentication_timeout);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
        let service = TowerToHyperService::new(self.service);
        let conversation = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let silence = pin!(async {
            let _ =
                tokio::time::timeout(self.authentication_timeout, future::pending::<()>()).await;
            if known.load(Ordering::Relaxed) {
                future::pending::<()>().await;
            }
        });
        // The client has disconnected or never authenticated: there is no connection to report an
        // error to.
        let _ = future::select(conversation, silence).await;
    }
}

/// The API service behind a check of the bearer token.
#[derive(Debug, Clone)]
struct AuthenticatedService {
    service: Service,
    token: Arc<str>,
    /// Whether a request of this connection has had the right token.
    is_authenticated: Arc<AtomicBool>,
}

impl<B> tower::Service<Request<B>> for AuthenticatedService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let given = request.headers().get(header::AUTHORIZATION);
        let given = given.map_or(&[][..], |value| bearer_token(value.as_bytes()));
        if !constant_time_eq(given, self.token.as_bytes()) {
            return async { Ok(unauthorized_response()) }.boxed();
        }
        self.is_authenticated.store(true, Ordering::Relaxed);
        self.service.call(request)
    }
}

/// The token of `Bearer TOKEN`. Names of schemes have no case.
fn bearer_token(authorization: &[u8]) -> &[u8] {
    const SCHEME: &[u8] = b"bearer ";
    match authorization.split_at_checked(SCHEME.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => token.trim_ascii(),
        _ => &[],
    }
}

/// Compares in constant time, so that the duration does not reveal matching bytes.
fn constant_time_eq(given: &[u8], expected: &[u8]) -> bool {
    let differences = given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == expected.len() && differences == 0
}

/// Creates a certificate authority, a certificate for loopback and a bearer token.
fn generate_credentials() -> Result<(String, rustls::ServerConfig, String), ServeError> {
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "karpenter-demo-ca");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

    let mut leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    leaf.distinguished_name.push(DnType::CommonName, "kubernetes");
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &ca)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut random = [0; 32];
    provider.secure_random.fill(&mut random).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    let token = random.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((ca.pem(), config, token))
}

#[cfg(test)]
mod tests;
