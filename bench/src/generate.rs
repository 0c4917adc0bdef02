//! Random clusters, for comparing decisions and for measuring them.
//!
//! A [`Recipe`] has the kind, the size and the seed of a cluster; the same recipe gives the same
//! [`Case`] everywhere. A case has Kubernetes objects and the options of the decision.
//!
//! | profile | pods |
//! |---|---|
//! | `mixed` | every common constraint, some pools, sometimes DaemonSets and a limit |
//! | `plain` | no constraints |
//! | `prefs` | the constraints of `mixed` on one pool |
//! | `consolidate` | `plain`, on-demand nodes that are half empty |
//! | `packed` | `plain`, full on-demand nodes: nothing to gain |
//! | `diverse` | the mix of upstream's scheduler benchmark (spec 20 §6.2) |
//! | `preferences` | its preference mix |
//! | `wide` | `mixed` and some [features](Feature) more |
//! | `pathological` | `plain`, and a pod with as many constraints as possible for each sort |
//! | `disruption` | `plain`, nodes that are half empty, and some features that matter to consolidation |

mod apps;
mod benchmark;
mod disruption;
mod feature;
mod nodes;
pub(crate) mod objects;
mod pathological;
mod pools;
mod volumes;
mod wide;

use std::fmt::Write as _;

use clap::ValueEnum;
use serde_json::Value;

use crate::random::SeededRng;

pub use feature::{Feature, Features};

/// What kind of cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Every common constraint
    Mixed,
    /// No constraints
    Plain,
    /// Every common constraint, one pool
    Prefs,
    /// Half-empty on-demand nodes
    Consolidate,
    /// Full on-demand nodes
    Packed,
    /// The mix of upstream's scheduler benchmark
    Diverse,
    /// The preference mix of upstream's scheduler benchmark
    Preferences,
    /// Mixed and some features more
    Wide,
    /// No constraints, and a few pods with as many as possible
    Pathological,
    /// Half-empty nodes and what keeps them from going
    Disruption,
}

/// What can be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Types {
    /// The 144 built-in KWOK types
    Kwok,
    /// The 400 fake types of upstream's scheduler benchmark
    #[value(name = "400")]
    Fake400,
}

/// All parameters of a generated cluster.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub profile: Profile,
    pub seed: u64,
    /// How many pods wait.
    pub pods: usize,
    /// How many nodes are there.
    pub nodes: usize,
    pub types: Types,
    /// Exactly these features; none: the profile's own choice.
    pub features: Option<Features>,
}

/// A cluster, and how to decide about it.
#[derive(Clone, Debug)]
pub struct Case {
    pub objects: Vec<Value>,
    /// A KWOK instance-types file, where the built-in types do not do.
    pub instance_types: Option<Value>,
    pub options: Options,
}

/// Options of the decision that the generator chose. The defaults are upstream's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, and independent")]
pub struct Options {
    pub ignore_preferences: bool,
    pub best_effort_min_values: bool,
    pub node_overlay: bool,
    pub capacity_buffer: bool,
    pub spot_to_spot: bool,
}

impl Recipe {
    /// The case that this recipe stands for.
    pub fn generate(&self) -> Case {
        let mut random = SeededRng::new(self.seed);
        let features = self.features();
        let mut case =
            Case { objects: Vec::new(), instance_types: None, options: Options::default() };
        case.objects.push(objects::node_class());
        pools::add_pools(self, features, &mut random.fork(), &mut case);
        match self.profile {
            Profile::Diverse | Profile::Preferences => {
                benchmark::add_pods(self, &mut random.fork(), &mut case);
            }
            Profile::Pathological => {
                let specs = pathological::specs();
                let plain = Self { pods: self.pods.saturating_sub(specs.len()), ..self.clone() };
                apps::add_apps(&plain, features, &mut random.fork(), &mut case);
                pathological::add_pods(specs.into_iter().take(self.pods), &mut case);
            }
            _ => apps::add_apps(self, features, &mut random.fork(), &mut case),
        }
        nodes::add_nodes(self, features, &mut random.fork(), &mut case);
        wide::add_objects(features, &mut random.fork(), &mut case);
        disruption::apply_features(features, &mut random.fork(), &mut case);
        case
    }

    /// Returns the features of the cluster: the requested ones, or drawn ones for `wide`.
    pub fn features(&self) -> Features {
        match self.features {
            Some(features) => features,
            None if self.profile == Profile::Wide => {
                Features::draw_wide(&mut SeededRng::new(!self.seed))
            }
            None if self.profile == Profile::Disruption => {
                Features::draw_disruption(&mut SeededRng::new(!self.seed))
            }
            None => Features::default(),
        }
    }

    /// Returns a short name, unique within a set of recipes.
    pub fn name(&self) -> String {
        let profile = self.profile.to_possible_value().map(|value| value.get_name().to_owned());
        let nodes = if self.nodes > 0 { "-nodes" } else { "" };
        format!("{}{nodes}-{:04}", profile.unwrap_or_default(), self.seed)
    }

    /// The command line that prints this case.
    pub fn command(&self) -> String {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        format!(
            "cargo run -qp karpenter-bench -- generate --profile {} --seed {} --pods {} --nodes {}",
            name(self.profile.to_possible_value()),
            self.seed,
            self.pods,
            self.nodes,
        )
    }
}

impl Case {
    /// The objects as YAML documents, each a line of JSON, which any YAML reader takes.
    pub fn to_yaml(&self) -> String {
        self.objects.iter().fold(String::new(), |mut text, object| {
            let _ = writeln!(text, "---\n{object}");
            text
        })
    }
}

#[cfg(test)]
mod tests;
