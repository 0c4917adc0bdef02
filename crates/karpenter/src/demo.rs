//! Plays a scenario in a simulated world and shows it: as a screen that repaints itself on a
//! terminal, as lines elsewhere.
//!
//! ```text
//! Scenario ─▶ World ─▶ view::follow ─┬─▶ Timeline ─▶ lines
//!               │                    └─▶ View ─▶ screen
//!               ├─▶ log::listen ─▶ Timeline: decisions, warnings, errors
//!               └─▶ Server (HTTPS on loopback) ─▶ kubectl
//! ```

mod finish;
mod log;
mod pace;
mod screen;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_apiserver::Server;
use karpenter_operator::clock::{Clock, TokioClock};
use karpenter_operator::options::Options;
use karpenter_sim::scenario::{FIXED_START, Scenario, play};
use karpenter_sim::timeline::Timeline;
use karpenter_sim::view::{self, Prices, View};
use karpenter_sim::world::{World, controllers};
use tokio::sync::watch;

use self::finish::Ending;
use self::pace::Pace;
use self::screen::{Lines, Screen, Show};
use crate::commands::{Failure, Outcome, report};
use crate::diagnostic::{Diagnostic, Place};

/// How a demo is played.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) speed: Speed,
    pub(crate) seed: u64,
    pub(crate) exit_when_done: bool,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) port: u16,
    /// What the controllers are started with.
    pub(crate) options: Options,
}

/// Where a scenario is written, for messages.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// Seconds to the second.
    Times(f64),
    /// Virtual time: nobody waits.
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
                Ok(Self::Times(speed))
            }
            _ => Err("use a number from 0.01 to 10000, or `max`".to_owned()),
        }
    }
}

/// How often what has happened is shown.
const FRAME: Duration = Duration::from_millis(200);

/// Plays the scenario until it is done, or until Ctrl-C.
pub(crate) fn run(
    scenario: &Scenario,
    source: &Source,
    settings: &Settings,
) -> Result<Outcome, Failure> {
    // One thread and virtual time: nothing is left to chance but the seed, and kubectl.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().map_err(anyhow::Error::from)?;
    let outcome = runtime.block_on(drive(scenario, source, settings));
    // What still runs is part of the world, which ends here.
    runtime.shutdown_background();
    outcome
}

/// When the cluster's clock begins. With virtual time always at the same time, so that two runs
/// are alike; else so that it says what the real one says at the end of the scenario, because
/// kubectl reckons some ages from the real one, and knows none for what is in its future.
fn start(scenario: &Scenario, speed: Speed, now: Timestamp) -> Timestamp {
    if let Some(start) = scenario.start {
        return start;
    }
    match speed {
        Speed::Max => FIXED_START,
        Speed::Times(speed) => {
            let ahead = scenario.length().mul_f64((1.0 - speed.recip()).max(0.0));
            now.saturating_sub(ahead).unwrap_or(now)
        }
    }
}

async fn drive(
    scenario: &Scenario,
    source: &Source,
    settings: &Settings,
) -> Result<Outcome, Failure> {
    let start = start(scenario, settings.speed, crate::clock::now());
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(start));
    let product = controllers(settings.options.clone());
    let mut world = World::new(clock.clone(), settings.seed).with_product(product);
    world.begin().await.map_err(anyhow::Error::from)?;
    play::load(&world, scenario).await.map_err(|error| unplayable(source, &error))?;
    // What it took to get here is not part of the scenario.
    world.start = clock.now();
    let kubeconfig = serve(&world, settings).await?;
    let mut show: Box<dyn Show> =
        if console::Term::stdout().is_term() && settings.speed != Speed::Max {
            Box::new(Screen::new(scenario, kubeconfig.as_ref().map(|file| file.path.clone())))
        } else {
            Box::new(Lines::default())
        };
    if let Some(file) = &kubeconfig {
        report(&format!("kubectl --kubeconfig {} get nodes,pods -w", file.path.display()));
    }

    let timeline = Timeline::new(world.start);
    let _listening = log::listen(&timeline, &clock);
    let (sender, views) = watch::channel(View { now: world.start, ..View::default() });
    let prices = Prices::of(&karpenter_operator::kwok::catalog::built_in());
    let follow = view::follow(world.client(), clock.clone(), prices, timeline.clone(), sender);
    world.tasks.spawn("view", async move {
        follow.await;
    });

    let pace = match settings.speed {
        Speed::Max => None,
        Speed::Times(speed) => Some(Pace::new(speed)),
    };
    let script = Script { scenario, source, settings, pace: pace.as_ref() };
    let ending = Box::pin(play_to_the_end(&world, script, &timeline, views.clone()));
    let shown = show_until(ending, &mut *show, &timeline, views, &clock, script);
    let shown = match &pace {
        None => shown.await,
        Some(pace) => tokio::select! {
            never = pace.keep() => match never {},
            shown = shown => shown,
        },
    };
    world.end().await;
    shown
}

/// What is played, and how.
#[derive(Debug, Clone, Copy)]
struct Script<'a> {
    scenario: &'a Scenario,
    source: &'a Source,
    settings: &'a Settings,
    /// None for virtual time that nobody holds.
    pace: Option<&'a Pace>,
}

fn unplayable(source: &Source, error: &play::PlayError) -> Diagnostic {
    let place = error.place();
    let line = place.as_ref().and_then(|place| Scenario::line_of(&source.text, place));
    let place = Place { line, field: place, ..Place::file(&source.file) };
    Diagnostic::new("the scenario cannot be played").at(place).found(error.to_string())
}

/// Offers the API to kubectl. With virtual time there is nobody who could keep up with it.
async fn serve(world: &World, settings: &Settings) -> Result<Option<KubeconfigFile>, Failure> {
    if settings.speed == Speed::Max {
        return Ok(None);
    }
    let server = Server::listen(&world.api, settings.port).await.map_err(|error| {
        Diagnostic::new("cannot serve the API")
            .found(error.to_string())
            .fix("use another --port, or none for one that is free")
    })?;
    let path = settings.kubeconfig.clone();
    check_kubeconfig(&path)?;
    server.write_kubeconfig(&path, CLUSTER).map_err(|error| {
        Diagnostic::new("cannot write the kubeconfig")
            .found(error.to_string())
            .fix("name another file with --kubeconfig")
    })?;
    world.tasks.spawn("serve", server.run());
    let text = std::fs::read_to_string(&path).map_err(anyhow::Error::from)?;
    Ok(Some(KubeconfigFile { path, text }))
}

/// The kubeconfig is of no use after the demo, and its token need not lie around.
#[derive(Debug)]
struct KubeconfigFile {
    path: PathBuf,
    /// What we wrote; a file that says something else is not ours to remove.
    text: String,
}

/// The name of cluster, context and kubeconfig.
const CLUSTER: &str = "karpenter-demo";

/// Never writes over a file of somebody else, such as the kubeconfig of a real cluster.
fn check_kubeconfig(path: &Path) -> Result<(), Failure> {
    let is_ours = |text: &str| text.contains(&format!("current-context: {CLUSTER}\n"));
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(text) if is_ours(&text) => Ok(()),
        _ => {
            Err(Diagnostic::new("will not write the kubeconfig over a file that is not of a demo")
                .at(Place::file(path.display().to_string()))
                .fix("name another file with --kubeconfig, or remove this one")
                .into())
        }
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _gone_already = std::fs::remove_file(&self.path);
        }
    }
}

async fn play_to_the_end(
    world: &World,
    Script { scenario, source, settings, pace }: Script<'_>,
    timeline: &Timeline,
    views: watch::Receiver<View>,
) -> Result<Option<Ending>, Failure> {
    let played = play::play(world, scenario, timeline).await;
    let checker = played.map_err(|error| unplayable(source, &error))?;
    if let Some(duration) = scenario.duration {
        let end = world.start.saturating_add(duration).unwrap_or(world.start);
        world.clock.sleep_until(end).await;
    }
    if !settings.exit_when_done {
        // In real time: kubectl reckons some ages from the real clock.
        if let Some(pace) = pace {
            pace.set(1.0);
        }
        timeline.say(
            world.clock.now(),
            "that was the scenario; the cluster goes on in real time until Ctrl-C",
        );
        std::future::pending::<()>().await;
    }
    finish::ending(world, scenario, views, checker).await.map(Some).map_err(Failure::from)
}

/// Shows the world until it ends, one way or the other.
async fn show_until(
    mut ending: std::pin::Pin<Box<impl Future<Output = Result<Option<Ending>, Failure>>>>,
    show: &mut dyn Show,
    timeline: &Timeline,
    mut views: watch::Receiver<View>,
    clock: &Arc<dyn Clock>,
    script: Script<'_>,
) -> Result<Outcome, Failure> {
    let mut shown = 0;
    let mut frame = |show: &mut dyn Show, view: View| -> Result<(), Failure> {
        let entries = timeline.since(shown);
        shown += entries.len();
        show.frame(&View { now: clock.now(), ..view }, &entries)
    };
    let mut stopped = std::pin::pin!(stopped());
    let ended = loop {
        let view = views.borrow_and_update().clone();
        frame(show, view)?;
        if show.is_over() {
            return Ok(Outcome::Fine);
        }
        tokio::select! {
            // The end first: what is shown after it is the last state.
            biased;
            ended = &mut ending => break ended?,
            () = &mut stopped => break None,
            () = pause(script.pace, &mut views) => {}
        }
    };
    let view = views.borrow().clone();
    frame(show, view.clone())?;
    show.end(&view, ended.as_ref())?;
    Ok(match ended {
        Some(ending) if ending.is_fine() => Outcome::Fine,
        // Who waits for the end must not take this for a good one.
        None if !script.settings.exit_when_done => Outcome::Fine,
        _ => Outcome::Finding,
    })
}

/// Somebody wants this to end: Ctrl-C, `kill`, or a terminal that was closed.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let signals = kinds.into_iter().filter_map(|kind| signal(kind).ok());
    let waits = signals.map(|mut signal| Box::pin(async move { signal.recv().await }));
    let waits: Vec<_> = waits.collect();
    if waits.is_empty() {
        std::future::pending::<()>().await;
    }
    futures_util::future::select_all(waits).await;
}

/// Until there may be something to see.
async fn pause(pace: Option<&Pace>, views: &mut watch::Receiver<View>) {
    match pace {
        // Real time does not matter: what changes is what counts.
        None => drop(views.changed().await),
        Some(pace) => pace.real(FRAME).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_meet_at_the_end_of_the_scenario_or_begin_at_the_fixed_date() {
        let scenario = |text| Scenario::parse(text).unwrap();
        let (plain, dated) = (
            scenario("name: x\nsteps: [{at: 1m, say: a}, {at: 10m, say: b}]"),
            scenario("name: x\nstart: 2020-02-02T02:02:02Z"),
        );
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        for (scenario, speed, expected) in [
            (&plain, Speed::Max, "2026-01-05T08:00:00Z"),
            (&plain, Speed::Times(0.5), "2026-11-15T12:00:00Z"),
            (&plain, Speed::Times(1.0), "2026-11-15T12:00:00Z"),
            // Ten minutes pass in five.
            (&plain, Speed::Times(2.0), "2026-11-15T11:55:00Z"),
            (&plain, Speed::Times(10.0), "2026-11-15T11:51:00Z"),
            (&dated, Speed::Max, "2020-02-02T02:02:02Z"),
            (&dated, Speed::Times(5.0), "2020-02-02T02:02:02Z"),
        ] {
            assert_eq!(start(scenario, speed, now).to_string(), expected, "{speed:?}");
        }
    }
}
