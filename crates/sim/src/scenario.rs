//! Reads scenarios, which are worlds as YAML: initial objects, and steps with their times.
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

mod error_text;
mod faults;
mod file;
mod offerings;
pub mod play;
mod source;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use self::file::{
    File, FileRestart, FileStep, FileTime, MOST_LAUNCHED, MOST_REPLICAS, parse_duration, whole,
};
use self::offerings::Offerings;
use crate::faults::FaultSpec;

#[cfg(test)]
mod tests;

/// An error in a scenario, with its place and a fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioError {
    /// The path of the field: `steps[2].at`, or `the file`.
    pub field_path: String,
    /// Counted from 1.
    pub line: Option<usize>,
    /// `is -1`; goes on from the place.
    pub problem: String,
    /// `use 1 to 10`
    pub fix: Option<String>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field_path, self.problem)?;
        self.fix.as_ref().map_or(Ok(()), |fix| write!(f, "; {fix}"))
    }
}

impl ScenarioError {
    fn with_fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    fn at_line(self, line: Option<usize>) -> Self {
        Self { line, ..self }
    }
}

/// A world to be played.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// What the scenario shows, for people.
    pub description: String,
    /// When it begins, if it says so.
    pub start: Option<Timestamp>,
    /// The initial objects.
    pub objects: Vec<Value>,
    /// What goes wrong from the start.
    pub faults: Option<FaultSpec>,
    /// In the order of their times.
    pub steps: Vec<Step>,
    /// How long it goes on at least; by default until the last step has had its effect.
    pub duration: Option<Duration>,
    /// How long the world may take to come to rest after the last step.
    pub settle: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Which one of the file's it is, from 0.
    pub index: usize,
    /// Since the start.
    pub at: Duration,
    /// The text of the step for viewers of the world.
    pub message: Option<String>,
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
    Faults(Box<FaultSpec>),
    /// The product's process dies and is started again.
    Restart(Restart),
    /// Changes nothing; the step has only a message.
    Message,
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
    #[serde(deserialize_with = "whole::<_, 0, MOST_REPLICAS>")]
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
    #[serde(default = "one", deserialize_with = "whole::<_, 1, MOST_LAUNCHED>")]
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

/// When a world begins that has to be the same always.
pub const FIXED_START: Timestamp = Timestamp::constant(1_767_600_000, 0);

/// How long a world may take to come to rest, if it does not say so.
const DEFAULT_SETTLE: Duration = Duration::from_mins(15);

impl Scenario {
    /// Reads a scenario. The error names the field.
    pub fn parse(yaml: &str) -> Result<Self, ScenarioError> {
        Self::parse_file(source::read(yaml)?).map_err(|error| {
            let line = error.line.or_else(|| source::line_of(yaml, &error.field_path));
            error.at_line(line)
        })
    }

    /// The line of a place such as `steps[2]` in the text of a scenario.
    pub fn line_of(yaml: &str, place: &str) -> Option<usize> {
        source::line_of(yaml, place)
    }

    /// How long the steps take, and what it says beyond that.
    pub fn length(&self) -> Duration {
        let last = self.steps.last().map_or(Duration::ZERO, |step| step.at);
        last.max(self.duration.unwrap_or_default())
    }

    fn parse_file(value: Value) -> Result<Self, ScenarioError> {
        let file: File = serde_path_to_error::deserialize(value).map_err(|error| {
            error_text::explain(&error.path().to_string(), &error.inner().to_string())
        })?;
        let start = file.start.map(|text| {
            text.parse().map_err(|_| {
                let fix = format!("write it as {FIXED_START}");
                problem("start", format!("is `{text}`, which is no date with a time")).with_fix(fix)
            })
        });
        for (index, object) in file.objects.iter().enumerate() {
            check_object(&format!("objects[{index}]"), object)?;
        }
        let offerings = Offerings::built_in();
        let mut steps = Vec::with_capacity(file.steps.len());
        for (index, step) in file.steps.into_iter().enumerate() {
            let place = format!("steps[{index}]");
            let step = parse_step(&place, index, step)?;
            offerings.check_step(&place, &step)?;
            steps.push(step);
        }
        let faults = file.faults.map(|faults| faults.parse("faults")).transpose()?;
        if let Some(faults) = &faults {
            offerings.check_faults("faults", faults)?;
        }
        // Steps of one time happen in the order of the file.
        steps.sort_by_key(|step: &Step| step.at);
        let optional = |place, time: Option<FileTime>| {
            time.map(|time| parse_duration(place, &time)).transpose()
        };
        Ok(Self {
            name: file.name,
            description: file.description,
            start: start.transpose()?,
            objects: file.objects,
            faults,
            steps,
            duration: optional("duration", file.duration)?,
            settle: optional("settle", file.settle)?.unwrap_or(DEFAULT_SETTLE),
        })
    }
}

fn problem(place: &str, problem: impl Into<String>) -> ScenarioError {
    let place = if place.is_empty() || place == "." { "the file" } else { place };
    ScenarioError { field_path: place.to_owned(), line: None, problem: problem.into(), fix: None }
}

fn parse_step(place: &str, index: usize, step: FileStep) -> Result<Step, ScenarioError> {
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
    add("faults", faults.map(|faults| Action::Faults(Box::new(faults))));
    let restart = step.restart.map(|restart| parse_restart(place, restart)).transpose()?;
    add("restart", restart.map(Action::Restart));
    let action = match (actions.len(), &step.message) {
        (1, _) => actions.remove(0).1,
        (0, Some(_)) => Action::Message,
        (0, None) => {
            let one_of = "apply, delete, scale, launch, remove, silence, faults, restart or say";
            return Err(problem(place, "does nothing").with_fix(format!("give it one of {one_of}")));
        }
        _ => {
            let names: Vec<&str> = actions.iter().map(|(name, _)| *name).collect();
            let found = format!("has {}", names.join(" and "));
            return Err(problem(place, found).with_fix("make a step of each"));
        }
    };
    check_action(place, &action)?;
    Ok(Step { index, at, message: step.message, action })
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
        _ => Ok(()),
    }
}

fn check_object(place: &str, object: &Value) -> Result<(), ScenarioError> {
    for (pointer, field) in
        [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")]
    {
        if object.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
            let place = format!("{place}.{field}");
            return Err(problem(&place, "is missing or no text").with_fix("every object needs it"));
        }
    }
    Ok(())
}
