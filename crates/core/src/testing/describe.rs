//! A world in lines, for messages of failing tests.

use std::fmt::{self, Write as _};

use super::World;
use crate::catalog::InstanceType;
use crate::pod::{AffinityTerm, Pod, PodSpec, SpreadConstraint};
use crate::selector::{Labels, Selector};
use crate::snapshot::{Pool, StateNode};

/// What differs from the defaults of the builders, one object a line.
impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.options)?;
        for pool in &self.snapshot.pools {
            writeln!(f, "pool {}", pool_line(pool))?;
        }
        for (pool, types) in &self.catalog.pools {
            for one in types.iter() {
                writeln!(f, "type of {pool}: {}", type_line(one))?;
            }
        }
        for node in &self.snapshot.nodes {
            writeln!(f, "node {}", node_line(node))?;
        }
        for daemon in &self.snapshot.daemons {
            writeln!(f, "daemon {}{}", daemon.name, spec_line(&daemon.spec))?;
        }
        for pod in &self.snapshot.pods {
            writeln!(f, "pod {}", self.pod_line(pod))?;
        }
        for ((_, name), claim) in &self.snapshot.volumes.claims {
            writeln!(f, "claim {name} {claim:?}")?;
        }
        for (name, volume) in &self.snapshot.volumes.volumes {
            let places: Vec<_> = volume.node_affinity.iter().map(ToString::to_string).collect();
            writeln!(f, "volume {name} {places:?}")?;
        }
        for (name, class) in &self.snapshot.volumes.classes {
            let places: Vec<_> = class.allowed_topologies.iter().map(ToString::to_string).collect();
            writeln!(f, "class {name} {places:?}")?;
        }
        Ok(())
    }
}

impl World {
    fn pod_line(&self, pod: &Pod) -> String {
        let on = pod.node.map(|node| format!(" on={}", self.snapshot.node(node).name));
        let claims = if pod.volume_claims.is_empty() {
            String::new()
        } else {
            format!(" mounts={:?}", pod.volume_claims)
        };
        let on = on.unwrap_or_default();
        let (name, labels) = (pod.full_name(), labels(&pod.labels));
        format!("{name} {labels} {:?}{on}{claims}{}", pod.phase, spec_line(&pod.spec))
    }
}

fn pool_line(pool: &Pool) -> String {
    let Pool { name, weight, requirements, taints, limits, .. } = pool;
    let taints: Vec<_> = taints.iter().map(ToString::to_string).collect();
    let labels = labels(&pool.labels);
    format!("{name} {weight:?} [{requirements}] {labels} {taints:?} limits={}", limits.json())
}

fn type_line(one: &InstanceType) -> String {
    let mut line = format!("{} {} volumes={:?}", one.name, one.capacity.json(), one.volume_limits);
    for offering in one.offerings.iter() {
        let left = offering.reservation_capacity;
        let gone = if offering.available { "" } else { " gone" };
        let _ = write!(line, " | {} ${}{gone} left={left}", *offering.requirements, offering.price);
        for own in [&offering.capacity_override, &offering.overhead_override] {
            let _ = if own.is_empty() { Ok(()) } else { write!(line, " instead={}", own.json()) };
        }
    }
    line
}

fn node_line(node: &StateNode) -> String {
    let taints: Vec<_> = node.taints.iter().map(ToString::to_string).collect();
    let state = match (node.is_deleting, node.is_initialized, &node.object) {
        (true, ..) => "deleting",
        (_, true, _) => "ready",
        (_, false, Some(_)) => "starting",
        (_, false, None) => "in flight",
    };
    let (labels, allocatable) = (labels(&node.labels), node.allocatable.json());
    format!(
        "{} {state} {labels} {taints:?} {allocatable} {:?}",
        node.name, node.published_volume_limits
    )
}

fn spec_line(spec: &PodSpec) -> String {
    let mut line = format!(" {}", spec.requests.json());
    let mut part = |name: &str, text: String| {
        if !text.is_empty() && text != "[]" {
            let _ = write!(line, " {name}={text}");
        }
    };
    part("select", spec.node_selector.to_string());
    part("require", list(&spec.node_affinity, ToString::to_string));
    let weighted = &spec.preferred_node_affinity;
    part("prefer", list(weighted, |one| format!("{}: {}", one.weight, one.term)));
    part("spread", list(&spec.topology_spread, constraint));
    part("near", list(&spec.pod_affinity, term));
    part("away", list(&spec.pod_anti_affinity, term));
    part("prefer-near", list(&spec.preferred_pod_affinity, |one| term(&one.term)));
    part("prefer-away", list(&spec.preferred_pod_anti_affinity, |one| term(&one.term)));
    part("tolerate", list(&spec.tolerations, |one| format!("{}={}", one.key, one.value)));
    part("ports", list(&spec.host_ports, |one| one.port.to_string()));
    line
}

fn constraint(one: &SpreadConstraint) -> String {
    let hard = if one.is_required { "" } else { " soft" };
    let domains = one.min_domains.map(|count| format!(" min={count}")).unwrap_or_default();
    let affinity = if one.honors_node_affinity { "" } else { " any-node" };
    let taints = if one.honors_node_taints { " taints" } else { "" };
    let selector = selector(&one.selector);
    let (key, skew) = (&one.topology_key, one.max_skew);
    format!("{key}:{skew}{hard}{domains}{affinity}{taints} of {selector}")
}

fn term(one: &AffinityTerm) -> String {
    let places = match &one.namespace_selector {
        Some(_) => " of some namespaces".to_owned(),
        None if one.namespaces.is_empty() => String::new(),
        None => format!(" of {:?}", one.namespaces),
    };
    format!("{} to {}{places}", one.topology_key, selector(&one.selector))
}

fn selector(one: &Selector) -> String {
    match one {
        Selector::Nothing => "nothing".to_owned(),
        Selector::Matching(selector) => labels(&selector.labels),
    }
}

fn labels(labels: &Labels) -> String {
    let pairs: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", pairs.join(","))
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let texts: Vec<_> = items.iter().map(text).collect();
    if texts.is_empty() { String::new() } else { format!("[{}]", texts.join("; ")) }
}
