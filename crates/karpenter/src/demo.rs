//! Plays a scenario in a simulated world and shows it: as a screen that repaints itself on a
//! terminal, as lines elsewhere.
//!
//! ```text
//! Scenario ─▶ World ─▶ view::follow ─┬─▶ Timeline ─▶ lines
//!               │                    └─▶ View ─▶ screen
//!               ├─▶ log::forward_logs ─▶ Timeline: decisions, warnings, errors
//!               └─▶ Server (HTTPS on loopback) ─▶ kubectl
//! ```

mod kubeconfig;
mod log;
mod pacer;
mod result;
mod screen;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use jiff::Timestamp;
use karpenter_apiserver::Server;
use karpenter_operator::clock::{Clock, TokioClock};
use karpenter_operator::options::Options;
use karpenter_sim::scenario::{FIXED_START, Scenario, play};
use karpenter_sim::timeline::Timeline;
use karpenter_sim::view::{self, Prices, View};
use karpenter_sim::world::{World, controllers};
use tokio::sync::watch;

use self::kubeconfig::{DemoCluster, KubeconfigFile};
use self::pacer::Pacer;
use self::result::DemoResult;
use self::screen::{LineRenderer, Renderer, ScreenRenderer};
use crate::commands::{Failure, Outcome, print_to_stderr};
use crate::diagnostic::{Diagnostic, Location};

/// How a demo is played.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) speed: Speed,
    pub(crate) seed: u64,
    pub(crate) exit_when_done: bool,
    /// None for a new file in the directory for temporary files.
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) port: u16,
    /// What the controllers are started with.
    pub(crate) options: Options,
}

/// The file name and text of a scenario, for messages.
#[derive(Debug)]
pub(crate) struct ScenarioSource {
    pub(crate) file: String,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// Virtual seconds per real second.
    Factor(f64),
    /// Virtual time without pauses.
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse::<f64>() {
            Ok(speed) if speed.is_finite() && (0.01..=10_000.0).contains(&speed) => {
                Ok(Self::Factor(speed))
            }
            _ => Err("use a number from 0.01 to 10000, or `max`".to_owned()),
        }
    }
}

/// The interval between frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(200);

/// Plays the scenario until it is done, or until Ctrl-C.
pub(crate) fn run(
    scenario: &Scenario,
    source: &ScenarioSource,
    settings: &Settings,
) -> Result<Outcome, Failure> {
    // One thread and virtual time: nothing is left to chance but the seed, and kubectl.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().map_err(anyhow::Error::from)?;
    let outcome = runtime.block_on(run_demo(scenario, source, settings));
    // What still runs is part of the world, which ends here.
    runtime.shutdown_background();
    outcome
}

/// Returns when the cluster's clock begins. With virtual time that is a constant, so that two runs
/// are alike; else the clock equals the real one at the end of the scenario, because kubectl
/// calculates some ages from the real clock and shows none for a time in its future.
fn cluster_start_time(scenario: &Scenario, speed: Speed, now: Timestamp) -> Timestamp {
    if let Some(start) = scenario.start {
        return start;
    }
    match speed {
        Speed::Max => FIXED_START,
        Speed::Factor(speed) => {
            let ahead = scenario.length().mul_f64((1.0 - speed.recip()).max(0.0));
            now.saturating_sub(ahead).unwrap_or(now)
        }
    }
}

async fn run_demo(
    scenario: &Scenario,
    source: &ScenarioSource,
    settings: &Settings,
) -> Result<Outcome, Failure> {
    let start = cluster_start_time(scenario, settings.speed, crate::clock::now());
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(start));
    let product = controllers(settings.options.clone());
    let mut world = karpenter_sim::kwok::world(clock.clone(), settings.seed).with_product(product);
    world.begin().await.map_err(anyhow::Error::from)?;
    play::load(&world, scenario).await.map_err(|error| play_error_diagnostic(source, &error))?;
    // What it took to get here is not part of the scenario.
    world.start = clock.now();
    // Before the kubeconfig is written: a signal must not end the process before it is removed.
    let stopped = stop_signal();
    let kubeconfig = serve_api(&world, settings).await?;
    let mut show: Box<dyn Renderer> =
        if console::Term::stdout().is_term() && settings.speed != Speed::Max {
            Box::new(ScreenRenderer::new(
                scenario,
                kubeconfig.as_ref().map(|file| file.path().to_owned()),
            ))
        } else {
            Box::new(LineRenderer::default())
        };
    if let Some(file) = &kubeconfig {
        print_to_stderr(&format!(
            "kubectl --kubeconfig {} get nodes,pods -w",
            file.path().display()
        ));
    }

    let timeline = Timeline::new(world.start);
    let _listening = log::forward_logs(&timeline, &clock);
    let (sender, views) = watch::channel(View { now: world.start, ..View::default() });
    let prices = Prices::of(&karpenter_kwok::catalog::built_in());
    let follow = view::follow(world.client(), clock.clone(), prices, timeline.clone(), sender);
    world.tasks.spawn("view", async move {
        follow.await;
    });

    let pacer = match settings.speed {
        Speed::Max => None,
        Speed::Factor(speed) => Some(Pacer::new(speed)),
    };
    let script = Playback { scenario, source, settings, pacer: pacer.as_ref() };
    let ending = Box::pin(play_scenario(&world, script, &timeline, views.clone()));
    let shown = show_until_end(ending, stopped, &mut *show, &timeline, views, &clock, script);
    let shown = match &pacer {
        None => shown.await,
        Some(pacer) => tokio::select! {
            never = pacer.run() => match never {},
            shown = shown => shown,
        },
    };
    world.end().await;
    shown
}

/// A scenario with its source and settings.
#[derive(Debug, Clone, Copy)]
struct Playback<'a> {
    scenario: &'a Scenario,
    source: &'a ScenarioSource,
    settings: &'a Settings,
    /// None for virtual time without pauses.
    pacer: Option<&'a Pacer>,
}

fn play_error_diagnostic(source: &ScenarioSource, error: &play::PlayError) -> Diagnostic {
    let place = error.field_path();
    let line = place.as_ref().and_then(|place| Scenario::line_of(&source.text, place));
    let place = Location { line, field: place, ..Location::file(&source.file) };
    Diagnostic::new("the scenario cannot be played").at(place).found(error.to_string())
}

/// Serves the API for kubectl, except with virtual time, which kubectl cannot follow.
async fn serve_api(world: &World, settings: &Settings) -> Result<Option<KubeconfigFile>, Failure> {
    if settings.speed == Speed::Max {
        return Ok(None);
    }
    let server = Server::listen(&world.api, settings.port).await.map_err(|error| {
        Diagnostic::new("cannot serve the API")
            .found(error.to_string())
            .fix("use another --port, or none for one that is free")
    })?;
    let cluster = DemoCluster {
        url: server.url(),
        ca_data: base64::engine::general_purpose::STANDARD.encode(server.ca_pem()),
        token: server.token().to_owned(),
    };
    let file = KubeconfigFile::write(settings.kubeconfig.as_deref(), cluster)?;
    world.tasks.spawn("serve", server.run());
    Ok(Some(file))
}

async fn play_scenario(
    world: &World,
    Playback { scenario, source, settings, pacer }: Playback<'_>,
    timeline: &Timeline,
    views: watch::Receiver<View>,
) -> Result<Option<DemoResult>, Failure> {
    let played = play::play(world, scenario, timeline).await;
    let checker = played.map_err(|error| play_error_diagnostic(source, &error))?;
    if let Some(duration) = scenario.duration {
        let end = world.start.saturating_add(duration).unwrap_or(world.start);
        world.clock.sleep_until(end).await;
    }
    if !settings.exit_when_done {
        // In real time: kubectl reckons some ages from the real clock.
        if let Some(pacer) = pacer {
            pacer.set_speed(1.0);
        }
        timeline.add_step(
            world.clock.now(),
            "that was the scenario; the cluster goes on in real time until Ctrl-C",
        );
        std::future::pending::<()>().await;
    }
    result::wait_until_settled(world, scenario, views, checker)
        .await
        .map(Some)
        .map_err(Failure::from)
}

/// Shows the world until it settles, fails or is stopped.
async fn show_until_end(
    mut ending: std::pin::Pin<Box<impl Future<Output = Result<Option<DemoResult>, Failure>>>>,
    stopped: impl Future<Output = ()>,
    show: &mut dyn Renderer,
    timeline: &Timeline,
    mut views: watch::Receiver<View>,
    clock: &Arc<dyn Clock>,
    script: Playback<'_>,
) -> Result<Outcome, Failure> {
    let mut shown = 0;
    let mut frame = |show: &mut dyn Renderer, view: View| -> Result<(), Failure> {
        let entries = timeline.since(shown);
        shown += entries.len();
        show.render(&View { now: clock.now(), ..view }, &entries)
    };
    let mut stopped = std::pin::pin!(stopped);
    let ended = loop {
        let view = views.borrow_and_update().clone();
        frame(show, view)?;
        if show.is_closed() {
            return Ok(Outcome::Success);
        }
        tokio::select! {
            // The end first: the frame after it shows the last state.
            biased;
            ended = &mut ending => break ended?,
            () = &mut stopped => break None,
            () = wait_for_next_frame(script.pacer, &mut views) => {}
        }
    };
    let view = views.borrow().clone();
    frame(show, view.clone())?;
    show.render_end(&view, ended.as_ref())?;
    Ok(match ended {
        Some(ending) if ending.is_success() => Outcome::Success,
        // A caller that waits for the end must not take this for success.
        None if !script.settings.exit_when_done => Outcome::Success,
        _ => Outcome::Finding,
    })
}

/// Returns a future that waits for Ctrl-C, `kill`, or the end of the terminal. From the call on, none
/// of them ends the process.
fn stop_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let signals = kinds.into_iter().filter_map(|kind| signal(kind).ok());
    let waits = signals.map(|mut signal| Box::pin(async move { signal.recv().await }));
    let waits: Vec<_> = waits.collect();
    async move {
        if waits.is_empty() {
            std::future::pending::<()>().await;
        }
        futures_util::future::select_all(waits).await;
    }
}

/// Waits until the next frame may differ.
async fn wait_for_next_frame(pacer: Option<&Pacer>, views: &mut watch::Receiver<View>) {
    match pacer {
        // Real time does not matter: what changes is what counts.
        None => drop(views.changed().await),
        Some(pacer) => pacer.sleep_real(FRAME_INTERVAL).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_clock_ends_at_the_real_time_or_starts_at_a_fixed_date() {
        let scenario = |text| Scenario::parse(text).unwrap();
        let (plain, dated) = (
            scenario("name: x\nsteps: [{at: 1m, say: a}, {at: 10m, say: b}]"),
            scenario("name: x\nstart: 2020-02-02T02:02:02Z"),
        );
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        for (scenario, speed, expected) in [
            (&plain, Speed::Max, "2026-01-05T08:00:00Z"),
            (&plain, Speed::Factor(0.5), "2026-11-15T12:00:00Z"),
            (&plain, Speed::Factor(1.0), "2026-11-15T12:00:00Z"),
            // Ten minutes pass in five.
            (&plain, Speed::Factor(2.0), "2026-11-15T11:55:00Z"),
            (&plain, Speed::Factor(10.0), "2026-11-15T11:51:00Z"),
            (&dated, Speed::Max, "2020-02-02T02:02:02Z"),
            (&dated, Speed::Factor(5.0), "2020-02-02T02:02:02Z"),
        ] {
            assert_eq!(cluster_start_time(scenario, speed, now).to_string(), expected, "{speed:?}");
        }
    }
}
