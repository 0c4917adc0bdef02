//! Tests of the health and metrics endpoints and of their server.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::metrics::{Metrics, MetricsConfig};

/// Ready once the CRDs are there.
fn health() -> (Routes, Arc<AtomicBool>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (healthz, readyz) =
        (HealthChecks::new("healthz", &clock), HealthChecks::new("readyz", &clock));
    let there = Arc::new(AtomicBool::new(false));
    let seen = there.clone();
    readyz.add("crd", move || {
        seen.load(Ordering::Relaxed).then_some(()).ok_or("no NodePool in karpenter.sh".to_owned())
    });
    healthz.evaluate();
    readyz.evaluate();
    (Routes::Health { healthz, readyz }, there)
}

fn metrics(profiling: bool) -> Routes {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Metrics::new(clock, &MetricsConfig::default());
    Routes::Metrics { registry: metrics.registry().clone(), profiling }
}

fn get(routes: &Routes, target: &str) -> (u16, String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let PlainResponse { status, body } = routes.respond(&Method::GET, path, query);
    (status.as_u16(), body)
}

#[test]
fn a_process_without_crds_is_alive_and_not_ready() {
    let (routes, there) = health();
    let not_ready = "[-]crd failed: no NodePool in karpenter.sh\n[+]readyz ok\n[+]runtime ok\nhealthz check failed\n";
    assert_eq!(get(&routes, "/readyz"), (500, not_ready.to_owned()), "40/OP-14");
    assert_eq!(get(&routes, "/healthz"), (200, "ok".to_owned()), "40/OP-14");
    there.store(true, Ordering::Relaxed);
    let Routes::Health { readyz, .. } = &routes else { panic!("{routes:?}") };
    readyz.evaluate();
    assert_eq!(get(&routes, "/readyz"), (200, "ok".to_owned()));
}

#[test]
fn health_checks_can_be_requested_by_name() {
    let (routes, _) = health();
    #[rustfmt::skip]
    let cases = [
        ("/readyz/readyz", 200, "ok"),
        ("/readyz/crd", 500, "internal server error: no NodePool in karpenter.sh\n"),
        ("/readyz/nothing", 404, "404 page not found\n"),
        ("/readyz?exclude=crd", 200, "ok"),
        ("/readyz/?verbose&exclude=crd", 200, "[+]readyz ok\n[+]runtime ok\nhealthz check passed\n"),
        ("/healthz?verbose=1", 200, "[+]healthz ok\n[+]runtime ok\nhealthz check passed\n"),
        ("/readyzz", 404, "404 page not found\n"),
        ("/metrics", 404, "404 page not found\n"),
        ("/", 404, "404 page not found\n"),
    ];
    for (target, status, body) in cases {
        assert_eq!(get(&routes, target), (status, body.to_owned()), "{target}");
    }
}

#[test]
fn profile_endpoints_exist_only_if_enabled_and_describe_the_tools() {
    let off = metrics(false);
    for path in ["/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/heap"] {
        assert_eq!(get(&off, path).0, 404, "40/OP-17 {path}");
    }
    let on = metrics(true);
    for (path, status, expected) in [
        ("/debug/pprof/profile", 501, "perf record -g -p "),
        ("/debug/pprof/heap", 501, "heaptrack"),
        ("/debug/pprof/goroutine", 404, "not found"),
    ] {
        let (got, body) = get(&on, path);
        assert_eq!((got, body.contains(expected)), (status, true), "{path}: {body}");
    }
}

#[test]
fn only_get_and_head_requests_are_allowed() {
    let answer = metrics(false).respond(&Method::POST, "/metrics", "");
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
}

/// Returns the response of a server on a free port to these bytes.
async fn send_request(routes: Routes, request: &[u8]) -> io::Result<String> {
    let server = Server::listen(0, routes).await.unwrap();
    let port = server.address()?.port();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let conversation = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(request).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    match futures_util::future::select(Box::pin(conversation), Box::pin(server.run(clock))).await {
        futures_util::future::Either::Left((answer, _)) => answer,
        futures_util::future::Either::Right(_) => Err(io::Error::other("the server ended")),
    }
}

#[tokio::test]
async fn the_server_answers_scrapes_and_probes() {
    let answer =
        send_request(metrics(false), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "40/OP-15 {answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains(
        "\n# TYPE karpenter_voluntary_disruption_consolidation_timeouts_total counter\n"
    ));
    let answer = send_request(health().0, b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
    assert!(answer.ends_with("\r\n\r\nok"), "40/OP-15 {answer}");
}

#[tokio::test]
async fn probes_are_answered_while_the_runtime_is_blocked() {
    use std::io::{Read as _, Write as _};
    let server = Server::listen(0, health().0).await.unwrap();
    let port = server.address().unwrap().port();
    let apart = server.run_on_thread(Arc::new(SystemClock)).unwrap();
    let probe = || {
        // Not asynchronous: nothing else happens on this thread until there is an answer.
        let mut stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        io::Result::Ok(answer)
    };
    assert!(probe().unwrap().ends_with("ok"));
    drop(apart);
    let ended = std::iter::repeat_with(probe).take(10_000).any(|answer| answer.is_err());
    assert!(ended, "it ends with its handle");
}

/// A clock that reports each request for the time, and blocks until the test releases it.
#[derive(Debug)]
struct BlockedClock {
    requested: tokio::sync::mpsc::UnboundedSender<()>,
    /// The test releases the clock by dropping the other end.
    held: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Clock for BlockedClock {
    fn now(&self) -> jiff::Timestamp {
        let _ = self.requested.send(());
        let let_go = self.held.lock().unwrap().recv_timeout(Duration::from_secs(30));
        let is_let_go = let_go == Err(std::sync::mpsc::RecvTimeoutError::Disconnected);
        assert!(is_let_go, "a probe waits for a page");
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> futures_util::future::BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn probes_do_not_wait_for_a_scrape() {
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let (requested, mut request_receiver) = tokio::sync::mpsc::unbounded_channel();
    let held = std::sync::Mutex::new(held);
    let slow = Metrics::new(Arc::new(BlockedClock { requested, held }), &MetricsConfig::default());
    let slow = Routes::Metrics { registry: slow.registry().clone(), profiling: false };
    let scrape = send_request(slow, b"GET /metrics HTTP/1.0\r\n\r\n");
    let probe = async {
        request_receiver.recv().await.expect("the page is begun");
        let answer = send_request(health().0, b"GET /healthz HTTP/1.0\r\n\r\n").await;
        drop(let_go);
        answer
    };
    let (scrape, probe) = futures_util::future::join(scrape, probe).await;
    assert!(scrape.unwrap().starts_with("HTTP/1.0 200 OK"));
    assert!(probe.unwrap().ends_with("ok"));
}

#[tokio::test]
async fn a_malformed_request_gets_status_400() {
    let answer = send_request(metrics(false), b"\x16\x03\x01 hello\r\n\r\n").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn a_listen_error_names_the_port_and_its_flag() {
    let first = Server::listen(0, metrics(false)).await.unwrap();
    let port = first.address().unwrap().port();
    let error = Server::listen(port, metrics(false)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("listening on port {port}, which --metrics-port says"));
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(cause.contains("in use"), "{cause}");
}

#[tokio::test]
async fn silent_connections_do_not_delay_other_requests() {
    for (routes, path) in [(health().0, "/healthz"), (metrics(false), "/metrics")] {
        let server = Server::listen(0, routes).await.unwrap();
        let port = server.address().unwrap().port();
        let probe = async {
            let mut silent = Vec::new();
            for _ in 0..300 {
                silent.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
            }
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            let request = format!("GET {path} HTTP/1.0\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let requested = tokio::time::timeout(Duration::from_secs(20), probe);
        match futures_util::future::select(Box::pin(requested), Box::pin(server.run(clock))).await {
            futures_util::future::Either::Left((answer, _)) => {
                let answer = answer.expect("within less than silence is allowed to last");
                assert!(answer.starts_with("HTTP/1.0 200 OK"), "{path}: {answer}");
            }
            futures_util::future::Either::Right(_) => panic!("the server ended"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed_after_the_timeout() {
    let server = Server::listen(0, metrics(false)).await.unwrap();
    let port = server.address().unwrap().port();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let waited = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let started = tokio::time::Instant::now();
        let mut nothing = Vec::new();
        let _ = stream.read_to_end(&mut nothing).await;
        started.elapsed()
    };
    let waited =
        match futures_util::future::select(Box::pin(waited), Box::pin(server.run(clock))).await {
            futures_util::future::Either::Left((waited, _)) => waited,
            futures_util::future::Either::Right(_) => panic!("the server ended"),
        };
    assert!(waited <= Duration::from_secs(31), "{waited:?}");
}
