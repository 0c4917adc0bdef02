//! Worlds as YAML: what is there at the start, and what happens when.
//!
//! ```yaml
//! name: two nodes and a rollout
//! objects:
//! - {apiVersion: apps/v1, kind: Deployment, …}
//! steps:
//! - at: 5s
//!   say: two nodes join
//!   launch: {instanceType: c-4x-amd64-linux, zone: test-zone-a, count: 2}
//! - at: 1m
//!   scale: {name: web, replicas: 6}
//! ```
//!
//! [`Scenario::parse`] reads it and checks what can be checked without a world; [`play`] plays it.
//! Every field is described in docs/scenarios.md.

mod faults;
pub mod play;

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use self::faults::FileFaults;
use crate::faults::Trouble;

#[cfg(test)]
mod tests;

/// What is wrong with a scenario, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ScenarioError {
    /// `steps[2].at`; empty for the whole file.
    pub place: String,
    pub problem: String,
}

/// A world to be played.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// What to look at, for people.
    pub description: String,
    /// When it begins; worlds that do not say so begin at the same time always.
    pub start: Timestamp,
    /// What is there from the start.
    pub objects: Vec<Value>,
    /// What goes wrong from the start.
    pub faults: Option<Trouble>,
    /// In the order of their times.
    pub steps: Vec<Step>,
    /// How long it goes on at least; by default until the last step has had its effect.
    pub duration: Option<Duration>,
    /// How long the world may take to come to rest after the last step.
    pub settle: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Since the start.
    pub at: Duration,
    /// What it means, for people.
    pub say: Option<String>,
    pub action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Apply(Vec<Value>),
    Delete(Vec<Value>),
    Scale(Scale),
    Launch(Launch),
    /// Drains the nodes of these claims as `kubectl drain` does, and gives them back to the cloud.
    Remove(Claims),
    /// The kubelets of these claims fall silent.
    Silence(Claims),
    /// From now on this goes wrong, and nothing else.
    Faults(Box<Trouble>),
    /// The product's process dies and is started again.
    Restart(Restart),
    /// Nothing but words.
    Say,
}

/// A new number of replicas.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scale {
    #[serde(default = "deployment")]
    pub kind: String,
    #[serde(default = "default_namespace")]
    pub namespace: String,
    pub name: String,
    pub replicas: u32,
}

/// Instances to be launched, each for a NodeClaim of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Launch {
    /// The claims are called by this name and a number.
    #[serde(default = "node")]
    pub name: String,
    pub instance_type: String,
    pub zone: Option<String>,
    #[serde(default = "on_demand")]
    pub capacity_type: String,
    #[serde(default = "one")]
    pub count: u32,
    #[serde(default = "default_pool")]
    pub node_pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Claims {
    pub claims: Vec<String>,
}

/// How the product is restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// How long it is away.
    pub down: Duration,
}

fn deployment() -> String {
    "Deployment".to_owned()
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn default_pool() -> String {
    "default".to_owned()
}

fn node() -> String {
    "node".to_owned()
}

fn on_demand() -> String {
    "on-demand".to_owned()
}

fn one() -> u32 {
    1
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a scenario: a map with `name`, `objects` and `steps`"
)]
struct File {
    name: String,
    #[serde(default)]
    description: String,
    start: Option<String>,
    #[serde(default)]
    objects: Vec<Value>,
    faults: Option<FileFaults>,
    #[serde(default)]
    steps: Vec<FileStep>,
    duration: Option<String>,
    settle: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileStep {
    at: String,
    say: Option<String>,
    apply: Option<Vec<Value>>,
    delete: Option<Vec<Value>>,
    scale: Option<Scale>,
    launch: Option<Launch>,
    remove: Option<Claims>,
    silence: Option<Claims>,
    faults: Option<FileFaults>,
    restart: Option<FileRestart>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileRestart {
    down: Option<String>,
}

/// More instances in one step are a typing error.
const MOST_LAUNCHED: u32 = 10_000;

/// When a world begins that does not say when.
const DEFAULT_START: &str = "2026-01-05T08:00:00Z";

/// How long a world may take to come to rest, if it does not say so.
const DEFAULT_SETTLE: Duration = Duration::from_mins(15);

impl Scenario {
    /// Reads a scenario. The error names the field.
    pub fn parse(yaml: &str) -> Result<Self, ScenarioError> {
        let value: Value = serde_saphyr::from_str(yaml)
            .map_err(|error| problem("", format!("is not YAML: {error}")))?;
        let file: File = serde_path_to_error::deserialize(value)
            .map_err(|error| problem(&error.path().to_string(), error.inner().to_string()))?;
        let start = file.start.as_deref().unwrap_or(DEFAULT_START);
        let start = start.parse().map_err(|_| {
            problem("start", format!("`{start}` is not a time such as {DEFAULT_START}"))
        })?;
        for (index, object) in file.objects.iter().enumerate() {
            check_object(&format!("objects[{index}]"), object)?;
        }
        let mut steps = Vec::with_capacity(file.steps.len());
        for (index, step) in file.steps.into_iter().enumerate() {
            steps.push(parse_step(&format!("steps[{index}]"), step)?);
        }
        // Steps of one time happen in the order of the file.
        steps.sort_by_key(|step: &Step| step.at);
        let optional =
            |place, text: Option<String>| text.map(|text| parse_duration(place, &text)).transpose();
        Ok(Self {
            name: file.name,
            description: file.description,
            start,
            objects: file.objects,
            faults: file.faults.map(|faults| faults.parse("faults")).transpose()?,
            steps,
            duration: optional("duration", file.duration)?,
            settle: optional("settle", file.settle)?.unwrap_or(DEFAULT_SETTLE),
        })
    }
}

fn problem(place: &str, problem: impl Into<String>) -> ScenarioError {
    let place = if place.is_empty() || place == "." { "the file" } else { place };
    ScenarioError { place: place.to_owned(), problem: problem.into() }
}

fn parse_step(place: &str, step: FileStep) -> Result<Step, ScenarioError> {
    let at = parse_duration(&format!("{place}.at"), &step.at)?;
    let mut actions: Vec<(&str, Action)> = Vec::new();
    let mut add =
        |name, action: Option<Action>| actions.extend(action.map(|action| (name, action)));
    add("apply", step.apply.map(Action::Apply));
    add("delete", step.delete.map(Action::Delete));
    add("scale", step.scale.map(Action::Scale));
    add("launch", step.launch.map(Action::Launch));
    add("remove", step.remove.map(Action::Remove));
    add("silence", step.silence.map(Action::Silence));
    let faults = step.faults.map(|faults| faults.parse(&format!("{place}.faults"))).transpose()?;
    add("faults", faults.map(|trouble| Action::Faults(Box::new(trouble))));
    let restart = step.restart.map(|restart| parse_restart(place, restart)).transpose()?;
    add("restart", restart.map(Action::Restart));
    let action = match (actions.len(), &step.say) {
        (1, _) => actions.remove(0).1,
        (0, Some(_)) => Action::Say,
        (0, None) => {
            let one_of = "apply, delete, scale, launch, remove, silence, faults, restart or say";
            return Err(problem(place, format!("does nothing; give it one of {one_of}")));
        }
        _ => {
            let names: Vec<&str> = actions.iter().map(|(name, _)| *name).collect();
            let problem_text = format!("has {}; make a step of each", names.join(" and "));
            return Err(problem(place, problem_text));
        }
    };
    check_action(place, &action)?;
    Ok(Step { at, say: step.say, action })
}

fn parse_restart(place: &str, restart: FileRestart) -> Result<Restart, ScenarioError> {
    let place = format!("{place}.restart.down");
    let down = restart.down.map(|text| parse_duration(&place, &text)).transpose()?;
    Ok(Restart { down: down.unwrap_or_default() })
}

fn check_action(place: &str, action: &Action) -> Result<(), ScenarioError> {
    match action {
        Action::Apply(objects) | Action::Delete(objects) => {
            let name = if matches!(action, Action::Apply(_)) { "apply" } else { "delete" };
            for (index, object) in objects.iter().enumerate() {
                check_object(&format!("{place}.{name}[{index}]"), object)?;
            }
            Ok(())
        }
        Action::Launch(launch) if launch.count == 0 || launch.count > MOST_LAUNCHED => {
            let problem_text = format!("is {}; use 1 to {MOST_LAUNCHED}", launch.count);
            Err(problem(&format!("{place}.launch.count"), problem_text))
        }
        _ => Ok(()),
    }
}

fn check_object(place: &str, object: &Value) -> Result<(), ScenarioError> {
    for (pointer, field) in
        [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")]
    {
        if object.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(problem(&format!("{place}.{field}"), "is needed, as text"));
        }
    }
    Ok(())
}

fn parse_duration(place: &str, text: &str) -> Result<Duration, ScenarioError> {
    let parsed = karpenter_api::grammar::Duration::parse(text).value().ok();
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| problem(place, format!("`{text}` is not a time such as 90s, 5m or 1h30m")))
}
