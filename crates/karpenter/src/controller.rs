//! The process behind `karpenter controller`: from options to running controllers, and its end.
//!
//! ```text
//! options ─▶ logs ─▶ clients ─▶ provider ─▶ probes and metrics ─▶ lease ─▶ watches ─▶ controllers
//! SIGTERM ─▶ no new work ─▶ running reconciles end (30 s) ─▶ the lease is released
//! ```

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::{Either, select};
use karpenter_controllers::{Context, Dependencies, process};
use karpenter_operator::client::{self, ClientConfig, RequestLimit, RequestObserver};
use karpenter_operator::clock::{Clock, SystemClock};
use karpenter_operator::cloud::check_repair_policies;
use karpenter_operator::compute::Blocking;
use karpenter_operator::events::EventRecorder;
use karpenter_operator::harness::Shutdown;
use karpenter_operator::harness::tasks::Tasks;
use karpenter_operator::health::{HealthChecks, Routes, Server, ServerThread};
use karpenter_operator::leader_election::{LeaderElectionConfig, LeaderElector};
use karpenter_operator::metrics::labels::{BuildInfo, Name};
use karpenter_operator::metrics::{Metrics, MetricsConfig};
use karpenter_operator::options::{FeatureGates, IgnoredVariable, Options, ResolvedOptions};
use karpenter_operator::provider::{
    ConfiguredProvider, GivenOptions, Provider, ProviderFacts, ProviderWork,
};
use karpenter_operator::rng::{SeededRng, unpredictable_seed};
use karpenter_operator::telemetry::{self, LogConfig};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

use crate::bounded_file;
use crate::commands::Failure;
use crate::diagnostic::Diagnostic;
use crate::wakeup_limiter::{BUSY_PAUSE, WakeupLimiter};
use crate::{environment, kubeconfig};

/// How long running reconciles may take to end after a shutdown signal.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(30);
/// Where a pod finds the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Runs until a signal, or until the lease is lost; false then.
pub(crate) fn run(
    provider: &dyn Provider,
    options: Options,
    resolved: &ResolvedOptions,
) -> Result<bool, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    check_options(&options)?;
    let given = GivenOptions { options: &options, resolved, read_file: &bounded_file::read };
    let configured = provider.configure(&given).map_err(|error| usage_error(error.to_string()))?;
    telemetry::install(&LogConfig::new(&options, None), clock.clone())
        .map_err(|error| usage_error(error.to_string()))?;
    let seed = unpredictable_seed();
    info!(version = env!("CARGO_PKG_VERSION"), seed, "starting");
    // First of all, as a variable that was ignored may be what the next check misses.
    warn_about_ignored_options(&options, &resolved.ignored_variables);
    log_default_spread(&options);
    check_lease(&options, Path::new(NAMESPACE_FILE).exists())?;
    // One thread for all async work: watches and controllers that wake each other on two threads
    // cost a sixth more CPU in a scale-up. Long computations have their own threads. The limiter
    // counts the wakeups of this one thread; with more threads it would count theirs, too.
    let (limiter, awake) = (Mutex::new(WakeupLimiter::default()), clock.clone());
    let pause = move || {
        let is_due =
            limiter.lock().unwrap_or_else(PoisonError::into_inner).should_pause(awake.monotonic());
        if is_due {
            std::thread::sleep(BUSY_PAUSE);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_park(pause)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let config = runtime.block_on(kubeconfig::load_config(None, None));
    let mut config = config.map_err(|error| error.diagnostic_with_fix("no cluster"))?;
    config.apply_debug_overrides();
    Ok(runtime.block_on(run_with_config(
        options,
        (provider.facts(), configured),
        config,
        clock,
        Arc::new(SeededRng::new(seed)),
    ))?)
}

async fn run_with_config(
    options: Options,
    (provider, configured): (ProviderFacts, Box<dyn ConfiguredProvider>),
    config: kube::Config,
    clock: Arc<dyn Clock>,
    rng: Arc<SeededRng>,
) -> anyhow::Result<bool> {
    let tasks = Tasks::new();
    let agent = format!("karpenter/{}", env!("CARGO_PKG_VERSION"));
    // Its own client without a limit: back-pressure must not cost the lease.
    let lease_client = client::connect(
        config.clone(),
        &ClientConfig { limit: None, user_agent: agent.clone() },
        &clock,
        Arc::new(|_| {}),
    )?;
    let limit = request_limit(&options);
    let provider_client = connect_client(&config, limit, &agent, &clock, Arc::new(|_| {}))?;
    let repair_policies = configured.repair_policies();
    check_repair_policies(&options, &repair_policies)?;
    let labels = configured.labels();
    let metrics = Metrics::new(clock.clone(), &MetricsConfig::for_provider(&provider, &labels));
    let host = config.cluster_url.authority().map_or("", |authority| authority.as_str());
    let client = connect_client(&config, limit, &agent, &clock, metrics.request_observer(host))?;
    // Its own limit, as upstream's has: the events of thousands of pods must not hold up nodes.
    let events_client =
        connect_client(&config, limit, &agent, &clock, metrics.request_observer(host))?;
    let name = provider.name;
    let dependencies = Dependencies {
        client,
        clock: clock.clone(),
        rng: rng.clone(),
        provider: Arc::new(provider),
        repair_policies: repair_policies.into(),
        options: Arc::new(options.clone()),
        metrics: Arc::new(metrics.clone()),
        events: EventRecorder::start(events_client, clock.clone(), &tasks),
        executor: Arc::new(Blocking),
    };
    let built = Context::build(dependencies, configured, provider_client, &tasks).await;
    let (context, work) = built
        .map_err(anyhow::Error::from_boxed)
        .with_context(|| format!("cannot start the provider {name}"))?;
    record_build_info(&metrics);
    let _probes = serve_probes_and_metrics(&context, &options, &metrics, &tasks).await?;

    let shutdown = Shutdown::new();
    let ended =
        run_as_leader(&context, work, &config, lease_client, &metrics, &shutdown, &tasks).await;
    tasks.stop().await;
    ended
}

/// Warns about options that upstream ignores silently; they are no errors.
fn warn_about_ignored_options(options: &Options, ignored: &[IgnoredVariable]) {
    let known = FeatureGates::names().join(", ");
    for gate in &options.unknown_feature_gates {
        warn!(gate, known, "ignoring a feature gate that nobody knows");
    }
    for IgnoredVariable { variable, text, allowed, default } in ignored {
        let value = text.as_str();
        warn!(variable, value, allowed, default, "ignoring a variable that cannot be read");
    }
}

/// Logs the default spread constraints, which no pod manifest shows.
fn log_default_spread(options: &Options) {
    for constraint in &options.default_spread {
        let unsatisfiable = if constraint.is_required { "DoNotSchedule" } else { "ScheduleAnyway" };
        info!(
            topologyKey = constraint.topology_key,
            maxSkew = constraint.max_skew,
            whenUnsatisfiable = unsatisfiable,
            "pods without spread constraints of their own get this one"
        );
    }
}

/// Acquires the lease and runs the controllers. Returns false if the lease was lost.
async fn run_as_leader(
    context: &Context,
    work: ProviderWork,
    config: &kube::Config,
    client: kube::Client,
    metrics: &Metrics,
    shutdown: &Shutdown,
    tasks: &Tasks,
) -> anyhow::Result<bool> {
    let options = &context.options;
    let stop = stop_signal()?;
    let mut stop = std::pin::pin!(stop);
    let observer = Arc::new(metrics.clone());
    // A standby fills its caches, too: it is ready and takes over at once.
    process::watch(context, tasks);
    if options.disable_leader_election {
        run_controllers(context, work, observer, shutdown, tasks, stop).await;
        return Ok(true);
    }
    let name = options.leader_election_name.clone();
    let namespace = match options.leader_election_namespace.as_str() {
        "" => &config.default_namespace,
        named => named,
    };
    let identity = lease_identity(context)?;
    let lease = LeaderElectionConfig::new(namespace, &name, identity);
    let rng = context.rng.fork("leader");
    let mut leader = LeaderElector::new(lease, client, context.clock.clone(), rng);
    let status = &metrics.leader_election_master_status;
    status.set(&Name { name: &name }, 0.0);
    {
        let acquired = std::pin::pin!(leader.acquire());
        if let Either::Right(_) = select(acquired, stop.as_mut()).await {
            return Ok(true);
        }
    }
    status.set(&Name { name: &name }, 1.0);
    let is_lost = {
        let held = std::pin::pin!(leader.renew_until_lost());
        let work = std::pin::pin!(run_controllers(context, work, observer, shutdown, tasks, stop));
        matches!(select(held, work).await, Either::Left(_))
    };
    status.set(&Name { name: &name }, 0.0);
    if is_lost {
        error!("leader election lost");
        return Ok(false);
    }
    if let Err(error) = leader.release().await {
        error!(error = %error, "could not release the lease");
    }
    Ok(true)
}

/// Runs the controllers until the signal, then waits for them, within a limit.
async fn run_controllers(
    context: &Context,
    work: ProviderWork,
    observer: Arc<Metrics>,
    shutdown: &Shutdown,
    tasks: &Tasks,
    stop: impl Future<Output = ()>,
) {
    let running = std::pin::pin!(process::run(context, work, observer, shutdown, tasks));
    let end = async {
        stop.await;
        info!("shutting down");
        shutdown.begin();
        context.clock.sleep(SHUTDOWN_GRACE_PERIOD).await;
        error!("some work did not end in time");
    };
    select(running, std::pin::pin!(end)).await;
}

fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
    Ok(async move {
        select(std::pin::pin!(terminate.recv()), std::pin::pin!(interrupt.recv())).await;
    })
}

/// Serves probes and metrics on every replica; dropping the result ends the probes.
async fn serve_probes_and_metrics(
    context: &Context,
    options: &Options,
    metrics: &Metrics,
    tasks: &Tasks,
) -> anyhow::Result<ServerThread> {
    let readyz = process::readiness_checks(context);
    let healthz = HealthChecks::new("healthz", &context.clock);
    let mirror = context.mirror.clone();
    healthz.add("mirror", move || {
        if mirror.is_poisoned() {
            return Err("a bug has left the picture of the cluster half changed".to_owned());
        }
        Ok(())
    });
    let running = tasks.clone();
    healthz.add("tasks", move || match running.panic_count() {
        0 => Ok(()),
        count => Err(format!("{count} tasks have ended by a bug; see the log")),
    });
    healthz.evaluate_periodically(tasks);
    readyz.evaluate_periodically(tasks);
    let probes =
        start_server("probes", options.health_probe_port, Routes::Health { healthz, readyz });
    let probes = probes.await?.run_on_thread(context.clock.clone());
    let probes = probes.context("cannot start the thread for probes")?;
    let numbers = Routes::Metrics {
        registry: metrics.registry().clone(),
        profiling: options.enable_profiling,
    };
    let numbers = start_server("metrics", options.metrics_port, numbers).await?;
    let clock = context.clock.clone();
    tasks.spawn("metrics", async move { numbers.run(clock).await });
    Ok(probes)
}

async fn start_server(name: &str, port: u16, routes: Routes) -> anyhow::Result<Server> {
    let server = Server::listen(port, routes).await?;
    info!(address = %server.address()?, name, "starting server");
    Ok(server)
}

fn connect_client(
    config: &kube::Config,
    limit: Option<RequestLimit>,
    agent: &str,
    clock: &Arc<dyn Clock>,
    on_request: RequestObserver,
) -> anyhow::Result<kube::Client> {
    let behaviour = ClientConfig { limit, user_agent: agent.to_owned() };
    Ok(client::connect(config.clone(), &behaviour, clock, on_request)?)
}

#[expect(clippy::cast_precision_loss, reason = "some hundreds")]
fn request_limit(options: &Options) -> Option<RequestLimit> {
    (options.kube_client_qps > 0).then(|| RequestLimit {
        per_second: options.kube_client_qps as f64,
        burst: options.kube_client_burst.max(1) as f64,
    })
}

/// Checks the options that depend on each other.
fn check_options(options: &Options) -> Result<(), Failure> {
    let port = options.metrics_port;
    if port != 0 && port == options.health_probe_port {
        let flags = "--metrics-port and --health-probe-port";
        return Err(usage_error(format!("{flags} are both {port}; each needs a port of its own")));
    }
    if !options.disable_leader_election && options.leader_election_name.is_empty() {
        return Err(usage_error(
            "--leader-election-name is empty; name the lease, or --disable-leader-election"
                .to_owned(),
        ));
    }
    Ok(())
}

fn usage_error(problem: String) -> Failure {
    Failure::Usage(Diagnostic::new(problem).help_command("karpenter controller --help").into())
}

fn record_build_info(metrics: &Metrics) {
    metrics.build_info.set(
        &BuildInfo {
            version: env!("CARGO_PKG_VERSION"),
            goversion: concat!("rust", env!("CARGO_PKG_RUST_VERSION")),
            goarch: match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                other => other,
            },
            commit: "",
        },
        1.0,
    );
}

/// A lease needs a namespace: that of the option, or that of the pod that we are.
fn check_lease(options: &Options, is_pod: bool) -> Result<(), Failure> {
    let is_named = !options.leader_election_namespace.is_empty();
    if options.disable_leader_election || is_named || is_pod {
        return Ok(());
    }
    let diagnostic = Diagnostic::new(
        "outside of a cluster the namespace of the lease has to be named",
    )
    .fix("add --disable-leader-election for a single replica, or --leader-election-namespace")
    .help_command("karpenter controller --help");
    Err(Failure::Usage(diagnostic.into()))
}

/// Returns the identity of this process in the lease.
fn lease_identity(context: &Context) -> anyhow::Result<String> {
    let host = environment::text("HOSTNAME")?.unwrap_or_else(|| "karpenter".to_owned());
    Ok(format!("{host}_{:032x}", context.rng.fork("identity").u128()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_needs_a_namespace_unless_there_is_no_lease() {
        for (namespace, is_disabled, is_pod, is_fine) in [
            ("", false, false, false),
            ("", false, true, true),
            ("", true, false, true),
            ("kube-system", false, false, true),
        ] {
            let options = Options {
                leader_election_namespace: namespace.to_owned(),
                disable_leader_election: is_disabled,
                ..Options::default()
            };
            let checked = check_lease(&options, is_pod);
            assert_eq!(checked.is_ok(), is_fine, "{namespace:?} {is_disabled} {is_pod}");
            assert!(!matches!(checked, Err(Failure::Failed(_))), "it is the command line");
        }
    }
}
