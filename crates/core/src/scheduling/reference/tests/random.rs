//! Tests of the reference solver on random clusters: it is deterministic, and its plans are valid.

use proptest::prelude::*;

use super::small_cluster::{
    CUSTOM, HOSTNAME, SmallCluster, ZONE, ZONES, daemon, in_values, spread, term,
};
use crate::catalog::CAPACITY_TYPE;
use crate::host_port::HostPort;
use crate::pod::{PodSpec, WeightedTerm};
use crate::resources::Quantity;
use crate::scheduling::{MinValuesPolicy, PreferencePolicy, ReservedMode};
use crate::taint::{Taint, TaintEffect, Toleration};

const APPS: [&str; 3] = ["x", "y", "z"];
const KEYS: [&str; 4] = [ZONE, HOSTNAME, CAPACITY_TYPE, CUSTOM];
const CPUS: [i64; 4] = [200, 700, 1500, 3000];

/// Pods of one kind, with optional constraints.
#[derive(Clone, Debug)]
struct PodKind {
    app: usize,
    cpu: usize,
    count: usize,
    bound: Option<usize>,
    zone: Option<usize>,
    or_zones: Vec<usize>,
    preferred_zone: Option<usize>,
    spread: Option<(usize, i32, usize, bool, bool)>,
    affinity: Option<(usize, usize, bool)>,
    anti_affinity: Option<(usize, usize, bool)>,
    tolerates: bool,
    port: bool,
}

prop_compose! {
    fn kind()(
        app in 0..3_usize,
        cpu in 0..4_usize,
        count in 1..4_usize,
        bound in prop::option::weighted(0.3, 0..4_usize),
        zone in prop::option::weighted(0.2, 0..3_usize),
        or_zones in prop::collection::vec(0..4_usize, 0..3),
        preferred_zone in prop::option::weighted(0.2, 0..4_usize),
        spread in prop::option::weighted(0.4,
            (0..4_usize, 1..3_i32, 0..3_usize, any::<bool>(), any::<bool>())),
        affinity in prop::option::weighted(0.2, (0..4_usize, 0..3_usize, any::<bool>())),
        anti_affinity in prop::option::weighted(0.2, (0..4_usize, 0..3_usize, any::<bool>())),
        tolerates in any::<bool>(),
        port in prop::bool::weighted(0.1),
    ) -> PodKind {
        PodKind {
            app, cpu, count, bound, zone, or_zones, preferred_zone, spread, affinity, anti_affinity,
            tolerates, port,
        }
    }
}

impl PodKind {
    fn apply(&self, spec: &mut PodSpec) {
        let zone = |position: usize| in_values(ZONE, &[*ZONES.get(position).unwrap_or(&"x")]);
        spec.node_selector.extend(self.zone.map(zone));
        spec.node_affinity =
            self.or_zones.iter().map(|&z| [zone(z)].into_iter().collect()).collect();
        spec.preferred_node_affinity.extend(self.preferred_zone.map(|position| WeightedTerm {
            weight: 1,
            term: [zone(position)].into_iter().collect(),
        }));
        if let Some((key, skew, of, is_required, honors_node_taints)) = self.spread {
            let constraint = spread(KEYS[key], skew, APPS[of]);
            let min_domains = (skew == 2).then_some(2);
            spec.topology_spread.push(crate::pod::SpreadConstraint {
                is_required,
                min_domains,
                honors_node_taints,
                ..constraint
            });
        }
        for (of, required, preferred) in [
            (self.affinity, &mut spec.pod_affinity, &mut spec.preferred_pod_affinity),
            (
                self.anti_affinity,
                &mut spec.pod_anti_affinity,
                &mut spec.preferred_pod_anti_affinity,
            ),
        ] {
            match of {
                Some((key, of, true)) => required.push(term(KEYS[key], APPS[of])),
                Some((key, of, false)) => {
                    preferred.push(WeightedTerm { weight: 5, term: term(KEYS[key], APPS[of]) });
                }
                None => {}
            }
        }
        if self.tolerates {
            spec.tolerations.push(Toleration { key: "team".to_owned(), ..exists() });
        }
        if self.port {
            let (ip, protocol) = ("0.0.0.0".to_owned(), "TCP".to_owned());
            spec.host_ports.push(HostPort { ip, port: 80, protocol });
        }
    }
}

fn exists() -> Toleration {
    Toleration { operator: "Exists".to_owned(), ..Toleration::default() }
}

fn taint(effect: TaintEffect) -> Taint {
    Taint { key: "team".to_owned(), value: String::new(), effect }
}

/// The nodes, limits and options of a random cluster, partly as bits.
#[derive(Clone, Debug)]
struct ClusterVariation {
    nodes: usize,
    bits: u32,
    limit: i64,
    reserved: Option<u32>,
}

fn random_cluster(kinds: &[PodKind], variation: &ClusterVariation) -> SmallCluster {
    let bit = |number: u32| variation.bits >> number & 1 == 1;
    let mut small = SmallCluster::empty()
        .pool("main", &[("one", 1, 0.1), ("two", 2, 0.2), ("four", 4, 0.35)], |pool| {
            if bit(0) {
                pool.requirements.add(in_values(ZONE, &["a", "b"]));
            }
            if bit(1) {
                pool.labels.insert(CUSTOM.to_owned(), "red".to_owned());
            }
            if bit(2) {
                pool.limits.set("cpu", Quantity::from_units(variation.limit));
            }
        })
        .pool("side", &[("four", 4, 0.4), ("eight", 8, 0.9)], |pool| {
            pool.weight = bit(3).then_some(10);
            if bit(4) {
                let soft = TaintEffect::PreferNoSchedule;
                pool.taints.push(taint(if bit(5) { TaintEffect::NoSchedule } else { soft }));
            }
            if bit(6) {
                pool.requirements.add(in_values(CUSTOM, &["blue", "green"]));
            }
        });
    if let Some(capacity) = variation.reserved {
        small = small.reserved("res", capacity);
    }
    for number in 0..variation.nodes {
        small = small.node(&format!("node-{number}"), 4, |node| {
            node.labels.insert(ZONE.to_owned(), ZONES[number % 3].to_owned());
            if number % 2 == 0 {
                node.labels.insert(CUSTOM.to_owned(), "red".to_owned());
                node.pool = Some("main".to_owned());
            }
            node.is_initialized = number != 1;
            node.is_deleting = number == 3;
            if number == 2 && bit(7) {
                node.taints.push(taint(TaintEffect::NoSchedule));
            }
        });
    }
    for (number, kind) in kinds.iter().enumerate() {
        let name = format!("{}-{number}", APPS[kind.app]);
        let node = kind.bound.filter(|&node| node < variation.nodes);
        small = small.pods_with(&name, CPUS[kind.cpu], kind.count, |pod, spec| {
            pod.node = node.map(crate::id::NodeId::new);
            kind.apply(spec);
        });
    }
    if bit(8) {
        small.snapshot.daemons.push(daemon("agent", 100, |_| ()));
    }
    if bit(9) {
        small.snapshot.daemons.push(daemon("zonal", 300, |spec| {
            spec.node_affinity = vec![[in_values(ZONE, &["a"])].into_iter().collect()];
        }));
    }
    small.options(|options| {
        if bit(10) {
            options.preferences = PreferencePolicy::Ignore;
        }
        if bit(11) {
            options.min_values = MinValuesPolicy::BestEffort;
        }
        if bit(12) {
            options.reserved_mode = ReservedMode::Fallback;
        }
    })
}

proptest! {

    #[test]
    fn every_plan_is_valid_and_deterministic(
        kinds in prop::collection::vec(kind(), 1..6),
        nodes in 0..5_usize,
        bits in any::<u32>(),
        limit in 0..20_i64,
        reserved in prop::option::weighted(0.3, 0..3_u32),
    ) {
        let small = random_cluster(&kinds, &ClusterVariation { nodes, bits, limit, reserved });
        let plan = small.solve();
        prop_assert_eq!(plan, small.solve());
    }
}
