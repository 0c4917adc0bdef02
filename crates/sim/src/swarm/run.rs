//! Runs one world of the swarm, from its start to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::condition_set::{HasConditions as _, is_true};
use karpenter_api::conditions::DRIFTED;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_operator::clock::TokioClock;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::json;

use super::generate::generate;
use super::invariants::{self, LimitsChecker};
use super::plan::{Options, Plan, PlanAction};
use super::write_checker::WriteChecker;
use crate::check::{Checker, WorldSnapshot};
use crate::kubelet::SILENT;
use crate::scenario::FIXED_START;
use crate::world::World;
use crate::{cloud, objects};

/// How often kubelets speak in a world of the swarm. A lease costs as much as any other write, and
/// with the usual ten seconds a quiet day would be little else.
const LEASE_EVERY: Duration = Duration::from_mins(4);

/// The delays of the checks after each step.
/// The first ones check the world in motion, the last one when it should be at rest.
const CHECK_DELAYS_AFTER_STEP: [Duration; 3] =
    [Duration::from_secs(10), Duration::from_mins(1), Duration::from_mins(10)];

/// The interval of checks when no step happens.
const CHECK_INTERVAL: Duration = Duration::from_mins(30);

/// The shortest time between two checks; closer ones would show the same.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(4);

/// How long something may be wrong that the product has to notice first. The API may fail for an
/// hour and a half meanwhile, and the product may be down; at the end nothing may be wrong at all.
const WINDOW: Duration = Duration::from_hours(3);

/// How long an expired NodeClaim and its replacement take to come to rest.
const REPLACEMENT_DURATION: SignedDuration = SignedDuration::from_mins(30);

/// How long a started process takes to evaluate the whole cluster.
const STARTUP_DURATION: Duration = Duration::from_mins(10);

/// The age of a world at which the run stops waiting for rest.
/// It then no longer waits for deletions, drift and commands, only for NodeClaims that expire.
const MAX_RUN_DURATION: SignedDuration = SignedDuration::from_hours(60);

/// The most nodes that the product may remove in a world at rest.
/// The first number is per node of the world at that time, the second is added to it, such as for
/// removals that had started.
const MAX_REMOVALS_AT_REST: (usize, usize) = (3, 5);

/// The result of running a world.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub seed: u64,
    /// The command that runs it again.
    pub replay: String,
    /// What was wrong, and how long after the start.
    pub violations: Vec<(SignedDuration, String)>,
    pub stats: Stats,
}

/// How much happened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    pub most_nodes: usize,
    pub most_pods: usize,
    pub claims: usize,
    pub faults: u64,
    pub restarts: u64,
    /// Disruptions by the product itself, and how many nodes they were about.
    pub commands: usize,
    pub removals: usize,
    pub writes: u64,
}

impl Outcome {
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, text) in &self.violations {
            writeln!(f, "seed {}: {}  {text}", self.seed, time(*at))?;
        }
        write!(f, "replay: {}", self.replay)
    }
}

/// The command that runs a seed again, with a timeline.
pub fn replay(seed: u64, options: &Options) -> String {
    format!("cargo xtask swarm --only {seed}{}", options.arguments())
}

/// `02:15:07`
fn time(at: SignedDuration) -> String {
    let seconds = at.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A callback that gets each event of a run, with its time.
pub(super) type ProgressReporter<'a> = &'a (dyn Fn(SignedDuration, &str) + Sync);

/// Runs the world of a seed. To be called on a runtime of one thread whose time is paused.
pub async fn run(seed: u64, options: &Options, progress: ProgressReporter<'_>) -> Outcome {
    run_in(|world| world, seed, options, progress).await
}

/// The same, in a world that `change` has changed before it begins.
pub(super) async fn run_in(
    change: impl FnOnce(World) -> World,
    seed: u64,
    options: &Options,
    progress: ProgressReporter<'_>,
) -> Outcome {
    let plan = generate(seed, options);
    let clock = Arc::new(TokioClock::starting_at(FIXED_START));
    let world = change(crate::kwok::world(clock, seed).with_leases(LEASE_EVERY));
    let mut world_run = Box::new(WorldRun::new(&world, progress));
    let listening = world_run.write_checker.subscribe_to_log();
    let result = Box::pin(world_run.run_plan(&plan, options)).await;
    if let Err(error) = result {
        world_run.record_violation(format!("the world cannot be played: {error}"));
    }
    world.end().await;
    drop(listening);
    let panics = world.panics() + world.tasks.panic_count();
    if panics > 0 {
        world_run.record_violation(format!("{panics} panics"));
    }
    world_run.stats.faults = world.faults.journal.count();
    world_run.stats.writes = world.writes.count();
    world_run.stats.commands = *world_run.write_checker.started_commands().borrow();
    world_run.stats.removals = world_run.write_checker.removals_since(0);
    let WorldRun { violations, stats, .. } = *world_run;
    Outcome { seed, replay: replay(seed, options), violations, stats }
}

type RunError = Box<dyn std::error::Error + Send + Sync>;

struct WorldRun<'a> {
    world: &'a World,
    progress: ProgressReporter<'a>,
    write_checker: WriteChecker,
    checker: Checker,
    limits: LimitsChecker,
    /// When the product restarts, while it is down.
    product_restart_at: Option<Timestamp>,
    /// Actions that wait for a command.
    /// Each has the number of earlier commands, the delay after the start, and the action.
    command_triggers: Vec<(usize, Duration, PlanAction)>,
    /// Actions that are due besides the steps of the plan.
    due: BTreeMap<Timestamp, PlanAction>,
    last_check: Option<Timestamp>,
    claims: BTreeSet<String>,
    violations: Vec<(SignedDuration, String)>,
    stats: Stats,
}

impl<'a> WorldRun<'a> {
    fn new(world: &'a World, progress: ProgressReporter<'a>) -> Self {
        Self {
            world,
            progress,
            write_checker: WriteChecker::attach(world),
            checker: Checker::with_window(WINDOW),
            product_restart_at: None,
            command_triggers: Vec::new(),
            due: BTreeMap::new(),
            limits: LimitsChecker::default(),
            last_check: None,
            claims: BTreeSet::new(),
            violations: Vec::new(),
            stats: Stats::default(),
        }
    }

    async fn run_plan(&mut self, plan: &Plan, options: &Options) -> Result<(), RunError> {
        let world = self.world;
        world.begin().await?;
        for object in &plan.objects {
            objects::apply(&world.client(), object).await?;
        }
        let end = options.busy + options.rest;
        let mut at_rest = None;
        for (at, steps) in schedule(plan, end) {
            self.advance_until(world.start + at).await?;
            if at >= options.busy && at_rest.is_none() {
                self.command_triggers.clear();
                self.due.clear();
                let commands = *self.write_checker.started_commands().borrow();
                at_rest = Some((commands, self.all::<Node>().await?.len()));
            }
            for step in steps {
                let step = &plan.steps[step].action;
                (self.progress)(self.now(), &step.to_string());
                self.perform(step).await?;
            }
            self.check_world().await?;
        }
        self.await_rest(as_signed(options.quiet)).await?;
        if let Some((commands, nodes)) = at_rest {
            self.check_removals_at_rest(commands, nodes);
        }
        let since = world.clock.now();
        world.clock.sleep(options.quiet).await;
        let mut found = invariants::unexpected_writes(world, since, "in a quiet hour").await?;
        let snapshot = WorldSnapshot::gather(world).await?;
        found.extend(invariants::rest_violations(&snapshot));
        // A process that is new to a world at rest has nothing to do there either.
        let since = world.clock.now();
        world.restart_product(Duration::ZERO).await;
        world.clock.sleep(STARTUP_DURATION).await;
        found.extend(invariants::unexpected_writes(world, since, "after a start at rest").await?);
        for text in found {
            self.record_violation(text);
        }
        Ok(())
    }

    /// Checks how many nodes the product has removed since the world is at rest.
    fn check_removals_at_rest(&mut self, commands: usize, nodes: usize) {
        let removals = self.write_checker.removals_since(commands);
        let (each, any) = MAX_REMOVALS_AT_REST;
        if removals > each * nodes + any {
            self.record_violation(format!(
                "{removals} nodes were removed at rest, where there were {nodes}"
            ));
        }
    }

    /// Advances the world to this time, restarting the product and performing due actions.
    async fn advance_until(&mut self, time: Timestamp) -> Result<(), RunError> {
        let world = self.world;
        loop {
            let due = self.due.keys().next().copied();
            let next =
                due.into_iter().chain(self.product_restart_at).chain([time]).min().unwrap_or(time);
            let mut begun = self.write_checker.started_commands();
            let waiting = self.command_triggers.iter().map(|(before, ..)| *before).min();
            let command = async {
                match waiting {
                    Some(before) => drop(begun.wait_for(|count| *count > before).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = world.clock.sleep_until(next) => {}
                () = command => {
                    self.schedule_triggered_actions();
                    continue;
                }
            }
            let now = world.clock.now();
            if self.product_restart_at.take_if(|back| *back <= now).is_some() {
                (self.progress)(self.now(), "the product is started");
                world.start_product();
            }
            if let Some(first) = self.due.first_entry().filter(|first| *first.key() <= now) {
                let action = first.remove();
                (self.progress)(self.now(), &action.to_string());
                self.perform(&action).await?;
            }
            if now >= time && self.due.keys().next().is_none_or(|due| *due > now) {
                return Ok(());
            }
        }
    }

    /// Schedules the actions that have waited for a command that has started.
    fn schedule_triggered_actions(&mut self) {
        let (now, count) =
            (self.world.clock.now(), *self.write_checker.started_commands().borrow());
        let (sprung, waiting) = std::mem::take(&mut self.command_triggers)
            .into_iter()
            .partition(|(before, ..)| count > *before);
        self.command_triggers = waiting;
        for (_, after, action) in sprung {
            self.due.insert(now + as_signed(after), action);
        }
    }

    fn now(&self) -> SignedDuration {
        self.world.clock.now().duration_since(self.world.start)
    }

    fn record_violation(&mut self, text: String) {
        self.record_violation_at(self.world.clock.now(), text);
    }

    fn record_violation_at(&mut self, at: Timestamp, text: String) {
        let at = at.duration_since(self.world.start);
        (self.progress)(at, &format!("WRONG: {text}"));
        self.violations.push((at, text));
    }

    /// Checks the whole world, unless the last check is recent.
    async fn check_world(&mut self) -> Result<(), RunError> {
        for (at, text) in self.write_checker.take_violations() {
            self.record_violation_at(at, text);
        }
        let now = self.world.clock.now();
        let is_soon = |last: Timestamp| now.duration_since(last) < as_signed(MIN_CHECK_INTERVAL);
        if self.last_check.is_some_and(is_soon) {
            return Ok(());
        }
        self.last_check = Some(now);
        let snapshot = WorldSnapshot::gather(self.world).await?;
        let pools: Vec<NodePool> = self.all().await?;
        for violation in self.checker.check(&snapshot) {
            self.record_violation(violation.to_string());
        }
        for text in self.limits.check(&pools, &snapshot.claims) {
            self.record_violation(text);
        }
        let stats = &mut self.stats;
        stats.most_nodes = stats.most_nodes.max(snapshot.nodes.len());
        stats.most_pods = stats.most_pods.max(snapshot.pods.len());
        self.claims.extend(snapshot.claims.iter().map(kube::ResourceExt::name_any));
        stats.claims = self.claims.len();
        Ok(())
    }

    /// Waits until the world is at rest.
    /// No claim expires in the quiet hour or has lately, none is being deleted, and the product has
    /// found no more nodes to remove for a while.
    async fn await_rest(&mut self, quiet: SignedDuration) -> Result<(), RunError> {
        loop {
            let now = self.world.clock.now();
            let claims: Vec<NodeClaim> = self.all().await?;
            let busy = claims.iter().filter_map(expires);
            let busy = busy.filter(|time| {
                (now - REPLACEMENT_DURATION..now + quiet + REPLACEMENT_DURATION).contains(time)
            });
            let going = claims.iter().any(|claim| {
                claim.metadata.deletion_timestamp.is_some() || is_true(claim.conditions(), DRIFTED)
            });
            let last = self.write_checker.last_command().map(|command| command.at);
            let moves = last.is_some_and(|last| now.duration_since(last) < REPLACEMENT_DURATION);
            let until = match busy.max() {
                Some(time) => time + REPLACEMENT_DURATION,
                None if (going || moves) && self.now() < MAX_RUN_DURATION => {
                    now + REPLACEMENT_DURATION
                }
                None => return Ok(()),
            };
            self.world.clock.sleep_until(until).await;
            self.check_world().await?;
        }
    }

    async fn all<K>(&self) -> Result<Vec<K>, kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + serde::de::DeserializeOwned,
    {
        let api = Api::<K>::all(self.world.client());
        Ok(api.list(&ListParams::default()).await?.items)
    }

    async fn perform(&mut self, action: &PlanAction) -> Result<(), RunError> {
        let (world, client) = (self.world, self.world.client());
        match action {
            PlanAction::Apply(object) => drop(objects::apply(&client, object).await?),
            PlanAction::Delete(object) => objects::delete(&client, object).await?,
            PlanAction::Scale { kind, name, replicas } => {
                let manifest = json!({
                    "apiVersion": "apps/v1", "kind": kind,
                    "metadata": {"name": name, "namespace": "default"},
                });
                let (api, name) = objects::locate(&client, &manifest).await?;
                let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
                api.patch(&name, &PatchParams::default(), &patch).await?;
            }
            PlanAction::DeleteNode(which) => {
                let nodes: Vec<Node> = self.all().await?;
                if let Some(node) = pick_by_number(&nodes, *which) {
                    self.delete(Api::all(client), node).await?;
                }
            }
            PlanAction::DeleteClaim(which) => {
                let claims: Vec<NodeClaim> = self.all().await?;
                if let Some(claim) = pick_by_number(&claims, *which) {
                    self.delete(Api::all(client), claim).await?;
                }
            }
            PlanAction::DeletePods { first, count } => {
                let pods: Vec<Pod> = self.all().await?;
                for which in *first..first + count {
                    if let Some(pod) = pick_by_number(&pods, which) {
                        self.delete(Api::default_namespaced(client.clone()), pod).await?;
                    }
                }
            }
            PlanAction::Silence(which) => {
                let nodes: Vec<Node> = self.all().await?;
                if let Some(node) = pick_by_number(&nodes, *which) {
                    let silent = json!({"metadata": {"annotations": {SILENT: "true"}}});
                    let (api, params) = (Api::<Node>::all(client), PatchParams::default());
                    let name = node.name_any();
                    (self.progress)(self.now(), &format!("  it is that of {name}"));
                    api.patch(&name, &params, &Patch::Merge(silent)).await?;
                }
            }
            PlanAction::DeleteSilentNodes => {
                let nodes: Vec<Node> = self.all().await?;
                for node in nodes.iter().filter(|node| node.annotations().contains_key(SILENT)) {
                    self.delete(Api::all(client.clone()), node).await?;
                }
            }
            PlanAction::LoseInstance(which) => {
                let instances = world.faulty_cloud.instances().await?;
                if let Some(id) = pick_by_number(&instances, *which).and_then(cloud::provider_id) {
                    (self.progress)(self.now(), &format!("  it is {id}"));
                    world.faulty_cloud.lose(id);
                }
            }
            PlanAction::LoseInstanceOfCommand(which) => {
                let claims: Vec<NodeClaim> = self.all().await?;
                let claims = self.of_last_command(&claims);
                if let Some(id) =
                    pick_by_number(&claims, *which).and_then(|claim| cloud::provider_id(claim))
                {
                    (self.progress)(self.now(), &format!("  it is {id}"));
                    world.faulty_cloud.lose(id);
                }
            }
            PlanAction::DeleteClaimOfCommand(which) => {
                let claims: Vec<NodeClaim> = self.all().await?;
                if let Some(claim) = pick_by_number(&self.of_last_command(&claims), *which) {
                    self.delete(Api::all(client), *claim).await?;
                }
            }
            PlanAction::ChangePrices(changes) => {
                world.faulty_cloud.set_prices(changes.clone());
                self.write_checker.record_price_change();
            }
            PlanAction::AfterNextCommand { after, action } => {
                let before = *self.write_checker.started_commands().borrow();
                self.command_triggers.push((before, *after, (**action).clone()));
            }
            PlanAction::Faults(error) => world.faults.set(error),
            PlanAction::Restart { down } => {
                self.stats.restarts += 1;
                world.kill_product().await;
                self.write_checker.skip_unchecked_commands();
                self.product_restart_at = Some(world.clock.now() + as_signed(*down));
            }
        }
        Ok(())
    }

    /// Those claims that the last command is about.
    fn of_last_command<'c>(&self, claims: &'c [NodeClaim]) -> Vec<&'c NodeClaim> {
        let Some(command) = self.write_checker.last_command() else { return Vec::new() };
        let names: Vec<&String> =
            command.sources.iter().chain(command.replacements.iter().flatten()).collect();
        claims.iter().filter(|claim| names.contains(&&claim.name_any())).collect()
    }

    async fn delete<K>(&self, api: Api<K>, object: &K) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + serde::de::DeserializeOwned,
    {
        let name = object.name_any();
        (self.progress)(self.now(), &format!("  it is {name}"));
        match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(drop),
        }
    }
}

/// Which steps are due at which time; none where only a check is due.
fn schedule(plan: &Plan, end: Duration) -> BTreeMap<Duration, Vec<usize>> {
    let mut times: BTreeMap<Duration, Vec<usize>> = BTreeMap::new();
    for (index, step) in plan.steps.iter().enumerate() {
        times.entry(step.at).or_default().push(index);
        for after in CHECK_DELAYS_AFTER_STEP {
            times.entry(step.at + after).or_default();
        }
    }
    let mut time = CHECK_INTERVAL;
    while time <= end {
        times.entry(time).or_default();
        time += CHECK_INTERVAL;
    }
    times
}

fn pick_by_number<T>(items: &[T], which: u64) -> Option<&T> {
    let count = u64::try_from(items.len()).ok().filter(|count| *count > 0)?;
    items.get(usize::try_from(which % count).ok()?)
}

fn expires(claim: &NodeClaim) -> Option<Timestamp> {
    let after = claim.spec.expire_after.as_ref()?.value().ok()??;
    claim.metadata.creation_timestamp.as_ref()?.0.checked_add(after).ok()
}

fn as_signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
