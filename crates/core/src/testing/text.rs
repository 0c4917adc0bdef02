//! Small worlds in lines of text.
//!
//! ```text
//! type c-4x cpu=4 memory=8Gi zones=a,b price=0.2
//! pool general types=c-4x weight=10 zone=a,b taint=gpu:NoSchedule limit.cpu=10 label.team=x
//! node a general c-4x zone=a
//! daemon logs cpu=100m
//! pod web x3 cpu=1 spread=zone label.app=web
//! ```
//!
//! A line starts with a kind and a name; the rest are words `word=value`, in any order. Types are
//! sold on demand in each of their zones. A pool without `types` gets all types of the text, or the
//! fake provider's default ones if there are none.

use super::types::{TypeBuilder, instance_type};
use super::{NodeBuilder, PodBuilder, PoolBuilder, World, node, pod, pool, spread, term};
use crate::requirement::Operator;

/// Solves the pending pods of a world in text, and compares the plan.
///
/// The plan is text, too. Indentation and empty lines do not matter.
#[track_caller]
pub fn assert_plan_text(text: &str, expect: &str) {
    assert_eq!(trimmed(&parse_world(text).solve().text()), trimmed(expect));
}

/// Parses the world that a text describes.
#[track_caller]
pub fn parse_world(text: &str) -> World {
    let lines: Vec<Line<'_>> = text.lines().filter_map(Line::read).collect();
    let types = lines.iter().filter(|line| line.kind == "type").map(type_of).collect::<Vec<_>>();
    let mut world = World::empty();
    if !types.is_empty() {
        world = world.types(types.clone());
    }
    for line in &lines {
        world = match line.kind {
            "type" => world,
            "pool" => world.pool(pool_of(line, &types)),
            "node" => {
                let built = node_of(line, &types);
                world.node(built)
            }
            "daemon" => world.daemon(&pod_of(line)),
            "pod" => world.pod(pod_of(line)),
            other => panic!("no such kind of line: {other}"),
        };
    }
    world
}

/// A line in words.
struct Line<'a> {
    kind: &'a str,
    name: &'a str,
    /// Words without `=`.
    flags: Vec<&'a str>,
    words: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (kind, name) = (words.next()?, words.next().expect("kind name …"));
        let (words, flags): (Vec<_>, Vec<_>) = words.partition(|word| word.contains('='));
        let words = words.into_iter().filter_map(|word| word.split_once('=')).collect();
        Some(Self { kind, name, flags, words })
    }
}

fn type_of(line: &Line<'_>) -> TypeBuilder {
    let word = |name| line.words.iter().find(|(word, _)| *word == name).map(|(_, value)| *value);
    let mut built = instance_type(line.name).no_overhead();
    for &(name, value) in &line.words {
        built = match name {
            "zones" | "price" => built,
            resource => built.resource(resource, value),
        };
    }
    let price: f64 = word("price").map_or(-1.0, |price| price.parse().expect("a price"));
    let zones = word("zones").unwrap_or("a,b,c");
    zones.split(',').fold(built, |built, zone| built.on_demand(zone, price))
}

fn pool_of(line: &Line<'_>, types: &[TypeBuilder]) -> PoolBuilder {
    let mut built = pool(line.name);
    for &(name, value) in &line.words {
        built = match name.split_once('.') {
            Some(("limit", resource)) => built.limit(resource, value),
            Some(("label", label)) => built.label(label, value),
            _ => match name {
                "weight" => built.weight(value.parse().expect("a number")),
                "taint" => built.taint(value),
                "types" => {
                    let names: Vec<_> = value.split(',').collect();
                    let chosen = types.iter().filter(|one| names.contains(&one.name()));
                    built.types(chosen.cloned())
                }
                key => built.require(key, Operator::In, &value.split(',').collect::<Vec<_>>()),
            },
        };
    }
    built
}

/// `node <name> <pool> <type> …`
fn node_of(line: &Line<'_>, types: &[TypeBuilder]) -> NodeBuilder {
    let mut built = node(line.name);
    for (position, &flag) in line.flags.iter().enumerate() {
        built = match (position, flag) {
            (_, "unmanaged") => built.unmanaged(),
            (_, "starting") => built.uninitialized(),
            (_, "deleting") => built.deleting(),
            (0, pool) => built.pool(pool),
            (_, name) => {
                let found = types.iter().find(|one| one.name() == name);
                let of_type = found.unwrap_or_else(|| panic!("no type {name}"));
                built.of_type(&of_type.clone().build())
            }
        };
    }
    for &(name, value) in &line.words {
        built = match name {
            "taint" => built.taint(value),
            "cpu" | "memory" | "pods" => built.resource(name, value),
            key => built.label(key, value),
        };
    }
    built
}

/// `pod <name> [x<replicas>] …`
fn pod_of(line: &Line<'_>) -> PodBuilder {
    let mut built = pod(line.name);
    for flag in &line.flags {
        let count = flag.strip_prefix('x').and_then(|count| count.parse().ok());
        built = built.replicas(count.unwrap_or_else(|| panic!("x<replicas> and not {flag}")));
    }
    for &(name, value) in &line.words {
        let (first, number) = value.split_once(':').unwrap_or((value, "1"));
        built = match name.split_once('.') {
            Some(("label", label)) => built.label(label, value),
            Some(("not", key)) => {
                built.require(key, Operator::NotIn, &value.split(',').collect::<Vec<_>>())
            }
            Some(("prefer", key)) => built.prefer(1, key, Operator::In, &[value]),
            _ => match name {
                "spread" => built.spread(spread(first, number.parse().expect("a skew"))),
                "spread-anyway" => {
                    built.spread(spread(first, number.parse().expect("a skew")).schedule_anyway())
                }
                "near" => built.pod_affinity(term(value)),
                "away" => built.pod_anti_affinity(term(value)),
                "near-app" => built.pod_affinity(term("hostname").selecting(&[("app", value)])),
                "tolerate" => built.tolerate_all(value),
                "port" => built.host_port(value.parse().expect("a port")),
                "on" => built.on_node(value),
                "cpu" | "memory" => built.request(name, value),
                key => built.require(key, Operator::In, &value.split(',').collect::<Vec<_>>()),
            },
        };
    }
    built
}

fn trimmed(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}
