//! Tests of misbehaving clients, over real sockets on loopback.

use http::StatusCode;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::service::MAX_BODY_BYTES;
use crate::testing::environment::TestEnvironment;

/// A running server with its address and credentials; stops when dropped.
struct TestServer {
    address: SocketAddr,
    token: String,
    ca_pem: String,
    tasks: JoinSet<()>,
}

impl TestServer {
    async fn start(limits: ConnectionLimits) -> Self {
        let api = Api::new(Arc::new(TestEnvironment::new()));
        let mut server = Server::listen(&api, 0).await.unwrap();
        server.limits = limits;
        let (address, token) = (server.address, server.token.clone());
        let ca_pem = server.ca_pem.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.run());
        Self { address, token, ca_pem, tasks }
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn tls(&self, protocol: &str) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await).await
    }

    async fn http1(&mut self) -> http1::SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(self.tls("http/1.1").await.unwrap());
        let (client, connection) = http1::handshake(stream).await.unwrap();
        self.tasks.spawn(async move { drop(connection.await) });
        client
    }

    async fn http2(&mut self) -> http2::SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(self.tls("h2").await.unwrap());
        let (client, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        self.tasks.spawn(async move { drop(connection.await) });
        client
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
        let request = self.anonymous(method, path, body);
        with_token(request, &format!("Bearer {}", self.token))
    }

    fn anonymous(&self, method: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
        Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap()
    }
}

fn with_token(mut request: Request<Full<Bytes>>, token: &str) -> Request<Full<Bytes>> {
    request.headers_mut().insert(header::AUTHORIZATION, token.parse().unwrap());
    request
}

async fn json_of(response: Response<Incoming>) -> (StatusCode, Value) {
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

fn config_map(name: &str, filler: usize) -> String {
    json!({"metadata": {"name": name}, "data": {"filler": "x".repeat(filler)}}).to_string()
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFAULT: &str = "/api/v1/namespaces/default";

#[test]
fn tokens_must_match_completely() {
    assert!(constant_time_eq(b"abc", b"abc"));
    assert!(!constant_time_eq(b"ab", b"abc"));
    assert!(!constant_time_eq(b"abd", b"abc"));
    assert!(!constant_time_eq(b"", b"abc"));
}

#[tokio::test]
async fn http_1_and_http_2_are_served() {
    let mut served = TestServer::start(DEFAULT_LIMITS).await;
    let mut client = served.http1().await;
    for _ in 0..2 {
        let answer = client.send_request(served.request("GET", DEFAULT, "")).await.unwrap();
        assert_eq!(json_of(answer).await.1["metadata"]["name"], "default");
    }
    let mut client = served.http2().await;
    let answer = client.send_request(served.request("GET", DEFAULT, "")).await.unwrap();
    assert_eq!(json_of(answer).await.1["metadata"]["name"], "default");
}

#[tokio::test]
async fn requests_without_the_token_are_unauthorized() {
    let mut served = TestServer::start(DEFAULT_LIMITS).await;
    let mut client = served.http2().await;
    let token = served.token.clone();
    let wrong = [
        None,
        Some("Bearer".to_owned()),
        Some("Bearer wrong".to_owned()),
        Some(format!("Bearer {token}x")),
        Some(format!("Basic {token}")),
        Some(token),
    ];
    for given in wrong {
        for path in [DEFAULT, "/healthz", "/openapi/v3", "/nowhere"] {
            let mut request = served.anonymous("GET", path, "");
            if let Some(given) = &given {
                request = with_token(request, given);
            }
            let (code, status) = json_of(client.send_request(request).await.unwrap()).await;
            assert_eq!((code.as_u16(), &status["reason"]), (401, &json!("Unauthorized")));
        }
    }
}

#[tokio::test]
async fn the_bearer_scheme_is_case_insensitive() {
    let mut served = TestServer::start(DEFAULT_LIMITS).await;
    let mut client = served.http2().await;
    for scheme in ["Bearer", "bearer", "BEARER", "bearer "] {
        let token = format!("{scheme} {}", served.token);
        let request = with_token(served.anonymous("GET", DEFAULT, ""), &token);
        assert_eq!(client.send_request(request).await.unwrap().status(), 200, "{scheme}");
    }
}

#[tokio::test]
async fn the_server_accepts_only_https_on_loopback() {
    let served = TestServer::start(DEFAULT_LIMITS).await;
    assert!(served.address.ip().is_loopback());
    let mut stream = served.tcp().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // It may end with a reset: what counts is what came before.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn silent_connections_are_closed_for_new_clients() {
    let mut served =
        TestServer::start(ConnectionLimits { max_connections: 3, ..DEFAULT_LIMITS }).await;
    let mut silent = Vec::new();
    for _ in 0..9 {
        silent.push(served.tcp().await);
    }
    let mut client = served.http2().await;
    let answer = client.send_request(served.request("GET", DEFAULT, "")).await.unwrap();
    assert_eq!(answer.status(), 200);
    drop(silent);
}

#[tokio::test]
async fn a_connection_over_the_limit_is_closed_and_others_are_served() {
    let mut served =
        TestServer::start(ConnectionLimits { max_connections: 3, ..DEFAULT_LIMITS }).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = served.http2().await;
        let request = served.request("GET", DEFAULT, "");
        assert_eq!(client.send_request(request).await.unwrap().status(), 200);
        clients.push(client);
    }
    assert!(served.tls("h2").await.is_err());
    for client in &mut clients {
        let request = served.request("GET", DEFAULT, "");
        assert_eq!(client.send_request(request).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn unauthenticated_connections_are_closed_after_a_timeout() {
    let limits =
        ConnectionLimits { authentication_timeout: Duration::from_millis(30), ..DEFAULT_LIMITS };
    let mut served = TestServer::start(limits).await;
    // No handshake; half a request; no request at all; one without a token.
    let mut stream = served.tcp().await;
    assert_eq!(stream.read(&mut [0; 9]).await.unwrap_or(0), 0);

    let mut stream = served.tls("http/1.1").await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));

    let mut stream = served.tls("h2").await.unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;

    let mut client = served.http2().await;
    let answer = client.send_request(served.anonymous("GET", DEFAULT, "")).await.unwrap();
    assert_eq!(answer.status(), 401);
    while client.ready().await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn oversized_bodies_and_urls_are_rejected() {
    let mut served = TestServer::start(DEFAULT_LIMITS).await;
    let mut client = served.http2().await;
    let request = served.request("POST", CONFIG_MAPS, &config_map("a", MAX_BODY_BYTES));
    let (code, status) = json_of(client.send_request(request).await.unwrap()).await;
    assert_eq!((code.as_u16(), &status["reason"]), (413, &json!("RequestEntityTooLarge")));

    // One that sends all before it reads anything.
    let request = served.request("POST", CONFIG_MAPS, &config_map("a", 50_000_000));
    let mut client = served.http1().await;
    let (code, status) = json_of(client.send_request(request).await.unwrap()).await;
    assert_eq!((code.as_u16(), &status["reason"]), (413, &json!("RequestEntityTooLarge")));
    let answer = client.send_request(served.request("GET", DEFAULT, "")).await.unwrap();
    assert_eq!(answer.status(), 200);

    let mut client = served.http2().await;
    let path = format!("/api/v1/pods?labelSelector={}", "a,".repeat(30_000));
    let request = served.request("GET", &path, "");
    let refused = client.send_request(request).await;
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status().is_client_error()));

    let mut client = served.http2().await;
    let answer = client.send_request(served.request("GET", DEFAULT, "")).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn a_watcher_that_stops_reading_does_not_block_other_watchers() {
    const CHANGES: usize = 60;
    let mut served = TestServer::start(DEFAULT_LIMITS).await;
    let mut client = served.http2().await;
    let path = format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3Da");
    let mut stalled =
        client.send_request(served.request("GET", &path, "")).await.unwrap().into_body();
    let mut other =
        client.send_request(served.request("GET", &path, "")).await.unwrap().into_body();

    // More than what the client lets come without reading it.
    let body = config_map("a", 50_000);
    let request = served.request("POST", CONFIG_MAPS, &body);
    assert_eq!(client.send_request(request).await.unwrap().status(), 201);
    for change in 1..CHANGES {
        let body = body.replacen("xx", &format!("{change:02}"), 1);
        let request = served.request("PUT", &format!("{CONFIG_MAPS}/a"), &body);
        assert_eq!(client.send_request(request).await.unwrap().status(), 200);
    }
    assert_eq!(lines(&mut other, CHANGES).await, CHANGES);
    assert_eq!(lines(&mut stalled, CHANGES).await, CHANGES);
}

/// Reads until there were so many lines, or the end.
async fn lines(body: &mut Incoming, wanted: usize) -> usize {
    let mut found = 0;
    while found < wanted
        && let Some(Ok(frame)) = body.frame().await
    {
        let data = frame.into_data().unwrap_or_default();
        found += String::from_utf8_lossy(&data).matches('\n').count();
    }
    found
}

#[tokio::test]
async fn dropping_the_server_closes_all_connections() {
    let api = Api::new(Arc::new(TestEnvironment::new()));
    let server = Server::listen(&api, 0).await.unwrap();
    let mut running = JoinSet::new();
    let (address, token, ca_pem) = (server.address, server.token.clone(), server.ca_pem.clone());
    running.spawn(server.run());
    let mut there = TestServer { address, token, ca_pem, tasks: JoinSet::new() };
    let mut client = there.http2().await;
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion=1");
    let request = there.request("GET", &path, "");
    let mut events = client.send_request(request).await.unwrap().into_body();
    running.shutdown().await;
    while let Some(Ok(_)) = events.frame().await {}
    assert!(TcpStream::connect(address).await.is_err());
}
