//! Pods with harmless defaults.

use std::sync::Arc;

use jiff::Timestamp;

use super::labels::{quantity, requirement};
use super::terms::{AffinityTermBuilder, SpreadBuilder};
use super::{label_key, taint};
use crate::host_port::HostPort;
use crate::pod::{ControllerRef, OwnerKind, Phase, Pod, PodSpec, WeightedTerm, example};
use crate::requirement::{Aliases, Operator, Requirement, Requirements};
use crate::resources::{CPU, MEMORY, PODS, Quantity};
use crate::scheduling::dra::ClaimRef;
use crate::selector::Labels;
use crate::taint::Toleration;

/// When pods of tests are created, unless they say otherwise: seconds since the epoch.
const CREATED: i64 = 1_700_000_000;

/// A pod, or several replicas of one, in the making.
#[derive(Clone, Debug)]
pub struct PodBuilder {
    pod: Pod,
    spec: PodSpec,
    labels: Labels,
    spreads: Vec<SpreadBuilder>,
    affinity: Vec<AffinityTermBuilder>,
    anti_affinity: Vec<AffinityTermBuilder>,
    preferred_affinity: Vec<(i32, AffinityTermBuilder)>,
    preferred_anti_affinity: Vec<(i32, AffinityTermBuilder)>,
    replicas: Option<usize>,
    /// The name of the node that holds it.
    pub(super) node: Option<String>,
}

/// A pending pod of namespace `default` with label `app=<name>` that asks for nothing.
pub fn pod(name: &str) -> PodBuilder {
    let mut spec = PodSpec::default();
    spec.requests.set(PODS, Quantity::from_units(1));
    PodBuilder {
        pod: Pod {
            uid: String::new(),
            created: Timestamp::from_second(CREATED).expect("in range"),
            ..example::pending_pod(name)
        },
        spec,
        labels: [("app".to_owned(), name.to_owned())].into(),
        spreads: Vec::new(),
        affinity: Vec::new(),
        anti_affinity: Vec::new(),
        preferred_affinity: Vec::new(),
        preferred_anti_affinity: Vec::new(),
        replicas: None,
        node: None,
    }
}

/// What it asks for.
impl PodBuilder {
    /// Under another name, with the labels that it has.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.pod.name);
        self
    }

    /// Sets the number of replicas, named `<name>-0` and so on.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Requests cpu.
    #[must_use]
    pub fn cpu(self, amount: &str) -> Self {
        self.request(CPU, amount)
    }

    /// Requests memory.
    #[must_use]
    pub fn memory(self, amount: &str) -> Self {
        self.request(MEMORY, amount)
    }

    /// Requests a resource.
    #[must_use]
    pub fn request(mut self, name: &str, amount: &str) -> Self {
        self.spec.requests.set(name, quantity(amount));
        self
    }

    /// Adds to the node selector.
    #[must_use]
    pub fn select(mut self, short_key: &str, value: &str) -> Self {
        let labels = [(label_key(short_key), value)];
        self.spec
            .node_selector
            .extend(all(&Requirements::from_labels(labels, &Aliases::default())));
        self
    }

    /// Adds an expression to the last term of the required node affinity.
    #[must_use]
    pub fn require(mut self, short_key: &str, operator: Operator, values: &[&str]) -> Self {
        if self.spec.node_affinity.is_empty() {
            self.spec.node_affinity.push(Requirements::default());
        }
        let last = self.spec.node_affinity.len() - 1;
        self.spec.node_affinity[last].add(requirement(short_key, operator, values));
        self
    }

    /// Starts another term of the required node affinity with this expression.
    #[must_use]
    pub fn or_require(mut self, short_key: &str, operator: Operator, values: &[&str]) -> Self {
        self.spec.node_affinity.push(Requirements::default());
        self.require(short_key, operator, values)
    }

    /// Prefers nodes by one expression.
    #[must_use]
    pub fn prefer(
        mut self,
        weight: i32,
        short_key: &str,
        operator: Operator,
        values: &[&str],
    ) -> Self {
        let term = Requirements::from_iter([requirement(short_key, operator, values)]);
        self.spec.preferred_node_affinity.push(WeightedTerm { weight, term });
        self
    }

    /// Adds a spread constraint.
    #[must_use]
    pub fn spread(mut self, spread: SpreadBuilder) -> Self {
        self.spreads.push(spread);
        self
    }

    /// Spreads itself over zones.
    #[must_use]
    pub fn zone_spread(self, max_skew: i32) -> Self {
        self.spread(super::spread("zone", max_skew))
    }

    /// Adds a required pod affinity term.
    #[must_use]
    pub fn pod_affinity(mut self, term: AffinityTermBuilder) -> Self {
        self.affinity.push(term);
        self
    }

    /// Adds a required pod anti-affinity term.
    #[must_use]
    pub fn pod_anti_affinity(mut self, term: AffinityTermBuilder) -> Self {
        self.anti_affinity.push(term);
        self
    }

    /// Adds a preferred pod affinity term.
    #[must_use]
    pub fn prefer_pod_affinity(mut self, weight: i32, term: AffinityTermBuilder) -> Self {
        self.preferred_affinity.push((weight, term));
        self
    }

    /// Adds a preferred pod anti-affinity term.
    #[must_use]
    pub fn prefer_pod_anti_affinity(mut self, weight: i32, term: AffinityTermBuilder) -> Self {
        self.preferred_anti_affinity.push((weight, term));
        self
    }

    /// Tolerates exactly a taint, as `key=value:Effect`.
    #[must_use]
    pub fn tolerate(mut self, text: &str) -> Self {
        let taint = taint(text);
        self.spec.tolerations.push(Toleration {
            key: taint.key,
            operator: "Equal".to_owned(),
            value: taint.value,
            effect: Some(taint.effect),
        });
        self
    }

    /// Tolerates everything with a key, or everything at all if it is empty.
    #[must_use]
    pub fn tolerate_all(mut self, key: &str) -> Self {
        let operator = "Exists".to_owned();
        self.spec.tolerations.push(Toleration {
            key: key.to_owned(),
            operator,
            ..Toleration::default()
        });
        self
    }

    /// Takes a TCP port of its node.
    #[must_use]
    pub fn host_port(mut self, port: i32) -> Self {
        let (ip, protocol) = ("0.0.0.0".to_owned(), "TCP".to_owned());
        self.spec.host_ports.push(HostPort { ip, port, protocol });
        self
    }

    /// Mounts a PersistentVolumeClaim.
    #[must_use]
    pub fn mount(mut self, claim: &str) -> Self {
        self.pod.volume_claims.push(claim.to_owned());
        self
    }

    /// Asks for dynamic resources.
    #[must_use]
    pub fn dynamic_resources(mut self) -> Self {
        self.spec.requests_dynamic_resources = true;
        self
    }

    /// Uses ResourceClaims.
    #[must_use]
    pub fn resource_claims(mut self, names: &[&str]) -> Self {
        let claims = names.iter().map(|name| ClaimRef { name: (*name).to_owned() });
        self.spec.resource_claims.extend(claims);
        self.dynamic_resources()
    }
}

/// Identity and node of the pod.
impl PodBuilder {
    /// In another namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.pod.namespace);
        self
    }

    /// Has a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Removes the label `app` that pods have by default.
    #[must_use]
    pub fn without_app_label(mut self) -> Self {
        self.labels.remove("app");
        self
    }

    /// Has a uid other than its full name.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.pod.uid);
        self
    }

    /// Sets the creation time this many seconds after that of other pods.
    #[must_use]
    pub fn created_later(mut self, seconds: i64) -> Self {
        self.pod.created = Timestamp::from_second(CREATED + seconds).expect("in range");
        self
    }

    /// Makes the pod run on an existing node of the world.
    #[must_use]
    pub fn on_node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self.pod.phase = Phase::Running;
        self.pod.unschedulable = false;
        self
    }

    /// Is in a phase.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.pod.phase = phase;
        self
    }

    /// Has a deletion timestamp.
    #[must_use]
    pub fn terminating(mut self) -> Self {
        self.pod.terminating = true;
        self
    }

    /// Must not be moved.
    #[must_use]
    pub fn do_not_disrupt(mut self) -> Self {
        self.pod.do_not_disrupt = true;
        self
    }

    /// Costs something else to evict.
    #[must_use]
    pub fn eviction_cost(mut self, cost: f64) -> Self {
        self.pod.eviction_cost = cost;
        self
    }

    /// Is not Ready.
    #[must_use]
    pub fn unready(mut self) -> Self {
        self.pod.is_unready = true;
        self
    }

    /// Removes the mark Unschedulable, so a solve of all pending pods skips the pod.
    #[must_use]
    pub fn not_marked_unschedulable(mut self) -> Self {
        self.pod.unschedulable = false;
        self
    }

    /// Belongs to a DaemonSet, a StatefulSet or a Node.
    #[must_use]
    pub fn owner(mut self, owner: OwnerKind) -> Self {
        self.pod.owner = owner;
        self
    }

    /// Has a controller, e.g. `("apps", "ReplicaSet", "web")`.
    #[must_use]
    pub fn controller(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.pod.controller = Some(ControllerRef {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: format!("{kind}/{name}"),
        });
        self
    }

    /// Makes the pod a virtual pod of a CapacityBuffer.
    #[must_use]
    pub fn buffer_pod(mut self) -> Self {
        self.pod.is_virtual = true;
        self.pod.phase = Phase::Unset;
        self
    }
}

impl PodBuilder {
    /// The pods, not yet on any node.
    pub fn build(self) -> Vec<Pod> {
        let (spec, labels) = (Arc::new(self.spec()), Arc::new(self.labels));
        let one = Pod { labels, spec, ..self.pod };
        let names: Vec<String> = match self.replicas {
            None => vec![one.name.clone()],
            Some(count) => (0..count).map(|number| format!("{}-{number}", one.name)).collect(),
        };
        let with_name = |name: String| Pod { name, ..one.clone() };
        let mut pods: Vec<Pod> = names.into_iter().map(with_name).collect();
        for pod in pods.iter_mut().filter(|pod| pod.uid.is_empty()) {
            pod.uid = pod.full_name();
        }
        pods
    }

    /// What it asks for, with selectors filled in.
    pub fn spec(&self) -> PodSpec {
        let labels = &self.labels;
        let terms = |terms: &[AffinityTermBuilder]| {
            terms.iter().map(|term| term.clone().build(labels)).collect()
        };
        let preferred = |terms: &[(i32, AffinityTermBuilder)]| {
            let one = |(weight, term): &(i32, AffinityTermBuilder)| WeightedTerm {
                weight: *weight,
                term: term.clone().build(labels),
            };
            terms.iter().map(one).collect()
        };
        PodSpec {
            topology_spread: self
                .spreads
                .iter()
                .map(|spread| spread.clone().build(labels))
                .collect(),
            pod_affinity: terms(&self.affinity),
            pod_anti_affinity: terms(&self.anti_affinity),
            preferred_pod_affinity: preferred(&self.preferred_affinity),
            preferred_pod_anti_affinity: preferred(&self.preferred_anti_affinity),
            ..self.spec.clone()
        }
    }

    /// The name, without the number of a replica.
    pub(super) fn name(&self) -> &str {
        &self.pod.name
    }
}

fn all(requirements: &Requirements) -> Vec<Requirement> {
    requirements.iter().cloned().collect()
}
