//! Pods and daemons of random worlds.

use karpenter_core::pod::{OwnerKind, Phase};
use karpenter_core::requirement::Operator::In;
use karpenter_core::testing::{AffinityTermBuilder, PodBuilder, SpreadBuilder, pod, spread, term};
use proptest::prelude::*;
use proptest::{collection, option, sample};

use super::pools::{Expression, PAGES, TAINTS, expression};
use super::{APPS, BETA_ZONE, CLAIMS, CONTROLLERS, RARE};

pub(super) fn any_daemon() -> impl Strategy<Value = PodBuilder> {
    let parts = (
        sample::select(&["100m", "500m", "2"][..]),
        collection::vec(expression(), 0..3),
        option::weighted(RARE, sample::select(&[80, 81][..])),
        prop::bool::weighted(0.3),
    );
    parts.prop_map(|(cpu, terms, port, tolerant)| {
        let mut built = pod("").cpu(cpu).memory("10Mi");
        for (key, operator, values) in &terms {
            built = built.or_require(key, *operator, values);
        }
        if let Some(port) = port {
            built = built.host_port(port);
        }
        if tolerant { built.tolerate_all("") } else { built }
    })
}

/// The node on which a pod runs already, and the pod's state.
#[derive(Clone, Debug)]
pub(super) struct CurrentNode {
    /// Any number; the nodes are counted round.
    pub(super) node: usize,
    state: &'static str,
}

impl CurrentNode {
    pub(super) fn bind(&self, pod: PodBuilder, node: &str) -> PodBuilder {
        let pod = pod.on_node(node);
        match self.state {
            "terminating" => pod.terminating(),
            "succeeded" => pod.phase(Phase::Succeeded),
            "failed" => pod.phase(Phase::Failed),
            "daemon" => pod.owner(OwnerKind::DaemonSet),
            "static" => pod.owner(OwnerKind::Node),
            "stateful" => pod.owner(OwnerKind::StatefulSet).terminating(),
            _ => pod,
        }
    }
}

fn any_current_node() -> impl Strategy<Value = CurrentNode> {
    const STATES: [&str; 10] =
        ["", "", "", "", "terminating", "succeeded", "failed", "daemon", "static", "stateful"];
    (any::<usize>(), sample::select(&STATES[..]))
        .prop_map(|(node, state)| CurrentNode { node, state })
}

/// A pod, and where it runs already, if anywhere.
pub(super) fn any_pod() -> impl Strategy<Value = (PodBuilder, Option<CurrentNode>)> {
    let size = (
        sample::select(&["0", "100m", "500m", "1", "3", "7"][..]),
        sample::select(&["0", "100Mi", "1Gi"][..]),
        1..5_usize,
        option::weighted(0.1, Just("1")),
        option::weighted(0.05, Just("256Mi")),
    );
    let identity = (
        sample::select(&APPS[..]),
        prop::bool::weighted(0.1),
        0..3_i64,
        option::weighted(0.4, sample::select(&["1", "2"][..])),
        option::weighted(RARE, sample::select(&CONTROLLERS[..])),
    );
    let nodes = (
        option::weighted(RARE, expression()),
        collection::vec(expression(), 0..3),
        collection::vec((1..3_i32, expression()), 0..2),
        option::weighted(RARE, sample::select(&TAINTS[..])),
    );
    let pods = (
        collection::vec(any_spread(), 0..2),
        option::weighted(RARE, any_term()),
        option::weighted(RARE, any_term()),
        option::weighted(RARE, (1..3_i32, any_term())),
        option::weighted(RARE, (1..3_i32, any_term())),
    );
    let rest = (
        option::weighted(RARE, sample::select(&[80, 81][..])),
        option::weighted(RARE, 0..CLAIMS),
        option::weighted(0.1, 0..CLAIMS),
        option::weighted(0.3, any_current_node()),
    );
    (size, identity, nodes, pods, rest).prop_map(|(size, identity, nodes, pods, rest)| {
        let (cpu, memory, replicas, devices, pages) = size;
        let (app, elsewhere, age, revision, controller) = identity;
        let mut built = pod("").label("app", app).created_later(age).replicas(replicas);
        if cpu != "0" {
            built = built.cpu(cpu);
        }
        if memory != "0" {
            built = built.memory(memory);
        }
        if let Some(count) = devices {
            built = built.request("example.com/device", count);
        }
        if let Some(pages) = pages {
            built = built.request(PAGES, pages);
        }
        if elsewhere {
            built = built.namespace("other");
        }
        if let Some(revision) = revision {
            built = built.label("revision", revision);
        }
        if let Some((group, kind, name)) = controller {
            built = built.controller(group, kind, name);
        }
        let (port, first, second, home) = rest;
        if let Some(port) = port {
            built = built.host_port(port);
        }
        // The claims are those of namespace `default`.
        for claim in first.into_iter().chain(second).filter(|_| !elsewhere) {
            built = built.mount(&format!("claim-{claim}"));
        }
        (with_pod_constraints(with_node_constraints(built, nodes), pods), home)
    })
}

type NodeConstraints =
    (Option<Expression>, Vec<Expression>, Vec<(i32, Expression)>, Option<&'static str>);

fn with_node_constraints(
    mut built: PodBuilder,
    (first, terms, preferred, taint): NodeConstraints,
) -> PodBuilder {
    if let Some((key, operator, values)) = first.filter(|(_, operator, _)| *operator == In) {
        let _ = operator;
        built = built.select(key, values[0]);
    }
    for (key, operator, values) in &terms {
        built = built.or_require(key, *operator, values);
    }
    for (weight, (key, operator, values)) in &preferred {
        built = built.prefer(*weight, key, *operator, values);
    }
    match taint {
        Some(taint) => built.tolerate(taint),
        None => built,
    }
}

type PodConstraints = (
    Vec<SpreadBuilder>,
    Option<AffinityTermBuilder>,
    Option<AffinityTermBuilder>,
    Option<(i32, AffinityTermBuilder)>,
    Option<(i32, AffinityTermBuilder)>,
);

fn with_pod_constraints(
    mut built: PodBuilder,
    (spreads, near, away, likes, dislikes): PodConstraints,
) -> PodBuilder {
    built = spreads.into_iter().fold(built, PodBuilder::spread);
    built = near.into_iter().fold(built, PodBuilder::pod_affinity);
    built = away.into_iter().fold(built, PodBuilder::pod_anti_affinity);
    if let Some((weight, term)) = likes {
        built = built.prefer_pod_affinity(weight, term);
    }
    match dislikes {
        Some((weight, term)) => built.prefer_pod_anti_affinity(weight, term),
        None => built,
    }
}

const DOMAINS: [&str; 11] = [
    "zone",
    "zone",
    "hostname",
    "hostname",
    "hostname",
    "hostname",
    "rack",
    "rack",
    "capacity-type",
    "capacity-type",
    BETA_ZONE,
];

pub(super) fn any_spread() -> impl Strategy<Value = SpreadBuilder> {
    let parts = (
        sample::select(&DOMAINS[..]),
        1..3_i32,
        option::weighted(0.3, sample::select(&APPS[..])),
        prop::bool::weighted(0.3),
        option::weighted(RARE, 1..4_i32),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        option::weighted(RARE, sample::select(&["revision", "app", "unknown"][..])),
    );
    parts.prop_map(|(key, skew, other, soft, domains, ignores_affinity, honors_taints, alike)| {
        let mut built = spread(key, skew);
        if let Some(alike) = alike {
            built = built.match_label_key(alike);
        }
        if let Some(app) = other {
            built = built.selecting(&[("app", app)]);
        }
        if soft {
            built = built.schedule_anyway();
        }
        if let Some(domains) = domains {
            built = built.min_domains(domains);
        }
        if ignores_affinity {
            built = built.ignoring_affinity();
        }
        if honors_taints { built.honoring_taints() } else { built }
    })
}

fn any_term() -> impl Strategy<Value = AffinityTermBuilder> {
    let parts = (
        sample::select(&DOMAINS[..]),
        option::weighted(0.5, sample::select(&APPS[..])),
        option::weighted(RARE, sample::select(&["default", "other"][..])),
        prop::bool::weighted(0.1),
    );
    parts.prop_map(|(key, app, namespace, everywhere)| {
        let mut built = term(key);
        if let Some(app) = app {
            built = built.selecting(&[("app", app)]);
        }
        if let Some(namespace) = namespace {
            built = built.in_namespace(namespace);
        }
        if everywhere { built.in_namespaces_with(&[]) } else { built }
    })
}
