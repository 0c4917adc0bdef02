//! Pods that stand for the spare capacity of CapacityBuffers, and what their placement says about
//! the buffer (spec 20 §3.20, spec 10 §5.4).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::id::NodeId;
use crate::plan::Plan;
use crate::pod::{OwnerKind, Phase, Pod, PodSpec};
use crate::selector::Labels;
use crate::snapshot::Snapshot;

/// Before the buffer's name in the names of its pods.
const NAME_PREFIX: &str = "capacity-buffer-";

/// More pods than Kubernetes is made for. A larger number in a buffer is a mistake that must not
/// take all memory.
const PODS_MAX: u32 = 150_000;

/// A CapacityBuffer whose size and pod template are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// How many pods it keeps capacity for.
    pub replicas: u32,
    /// The labels of the pod template.
    pub labels: Arc<Labels>,
    /// What the pods of the template ask for.
    pub spec: Arc<PodSpec>,
    /// The creation time that the pods get. It decides among pods of equal size only.
    pub created: Timestamp,
}

/// Returns the virtual pods of a buffer, marked as unschedulable. Volumes are left out, since
/// claims of pods that do not exist cannot be looked up.
pub fn virtual_pods(buffer: &Buffer) -> Vec<Pod> {
    (1..=buffer.replicas.min(PODS_MAX)).map(|number| virtual_pod(buffer, number)).collect()
}

fn virtual_pod(buffer: &Buffer, number: u32) -> Pod {
    Pod {
        namespace: buffer.namespace.clone(),
        name: format!("{NAME_PREFIX}{}-{number}", buffer.name),
        uid: format!("{}-{number}", buffer.uid),
        created: buffer.created,
        labels: Arc::clone(&buffer.labels),
        spec: Arc::clone(&buffer.spec),
        volume_claims: Vec::new(),
        node: None,
        phase: Phase::Unset,
        terminating: false,
        unschedulable: true,
        preempting: false,
        owner: OwnerKind::Other,
        controller: None,
        do_not_disrupt: false,
        eviction_cost: 1.0,
        is_unready: false,
        has_unparsed_constraints: false,
        is_virtual: true,
        problem: None,
    }
}

/// The name of the buffer that a virtual pod is of, in the pod's namespace.
pub fn buffer_name(pod: &Pod) -> Option<&str> {
    if !pod.is_virtual {
        return None;
    }
    Some(pod.name.strip_prefix(NAME_PREFIX)?.rsplit_once('-')?.0)
}

/// Names a buffer: namespace and name.
pub type BufferKey = (String, String);

/// Where the pods of a buffer went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// On nodes that are there.
    pub existing: u32,
    /// On new NodeClaims.
    pub new: u32,
    /// Nowhere.
    pub failed: u32,
}

/// Where the pods of each buffer went. Buffers without any pod in the plan are not here.
pub fn placements(snapshot: &Snapshot, plan: &Plan) -> BTreeMap<BufferKey, Placements> {
    let mut by_buffer = BTreeMap::new();
    let mut count = |pod: &Pod, one_more: fn(&mut Placements)| {
        if let Some(name) = buffer_name(pod) {
            let key = (pod.namespace.clone(), name.to_owned());
            one_more(by_buffer.entry(key).or_default());
        }
    };
    for &id in plan.existing_nodes.iter().flat_map(|(_, pods)| pods) {
        count(snapshot.pod(id), |placements| placements.existing += 1);
    }
    for &id in plan.claims.iter().flat_map(|claim| &claim.pods) {
        count(snapshot.pod(id), |placements| placements.new += 1);
    }
    for &id in plan.rejected.keys() {
        count(snapshot.pod(id), |placements| placements.failed += 1);
    }
    by_buffer
}

/// How many virtual pods went to each existing node: these nodes are not empty to disruption.
pub fn virtual_pods_by_node(snapshot: &Snapshot, plan: &Plan) -> BTreeMap<NodeId, usize> {
    let counts = plan.existing_nodes.iter().map(|(node, pods)| {
        (*node, pods.iter().filter(|&&id| snapshot.pod(id).is_virtual).count())
    });
    counts.filter(|&(_, count)| count > 0).collect()
}

/// The condition `Provisioning` of a CapacityBuffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisioningCondition {
    /// Whether the virtual pods fit on existing nodes.
    pub status: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why.
    pub message: String,
}

impl ProvisioningCondition {
    /// The condition after a loop; none to leave it as it is.
    ///
    /// `is_ready` is condition `ReadyForProvisioning`, `replicas` the status of the buffer, and
    /// `placements` where its pods went, if the loop had any of them.
    pub fn next(
        is_ready: bool,
        replicas: Option<u32>,
        placements: Option<Placements>,
    ) -> Option<Self> {
        let unmet = |reason, message| Some(Self { status: false, reason, message });
        if !is_ready {
            let message = "Buffer is not ReadyForProvisioning".to_owned();
            return unmet("NotReadyForProvisioning", message);
        }
        let desired = replicas.unwrap_or(0);
        if desired == 0 {
            return unmet("BufferEmpty", "Buffer has zero desired replicas".to_owned());
        }
        let Placements { existing, new, failed } = placements?;
        if new > 0 || failed > 0 {
            let message =
                format!("{new}/{desired} virtual pods required new capacity, {failed} failed");
            return unmet("RequiresNewCapacity", message);
        }
        (existing == desired).then(|| Self {
            status: true,
            reason: "FitsExistingCapacity",
            message: format!("All {desired} virtual pods fit on existing capacity"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{PodId, PoolId};
    use crate::plan::PlannedNodeClaim;
    use crate::pod::example;
    use crate::rejection::PodRejection;
    use crate::requirement::Requirements;
    use crate::resources::Resources;
    use crate::scheduling::demand::demand;

    fn buffer(name: &str, replicas: u32) -> Buffer {
        Buffer {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            replicas,
            labels: Arc::new([("app".to_owned(), "web".to_owned())].into()),
            spec: Arc::new(PodSpec::default()),
            created: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn each_buffer_replica_is_a_pending_virtual_pod() {
        let pods = virtual_pods(&buffer("my-buffer", 3));
        let names: Vec<_> = pods.iter().map(|pod| (pod.name.as_str(), pod.uid.as_str())).collect();
        let expected = [
            ("capacity-buffer-my-buffer-1", "u-1"),
            ("capacity-buffer-my-buffer-2", "u-2"),
            ("capacity-buffer-my-buffer-3", "u-3"),
        ];
        assert_eq!(names, expected);
        for pod in &pods {
            assert_eq!(pod.labels["app"], "web");
            assert_eq!((pod.phase, pod.volume_claims.len()), (Phase::Unset, 0));
            assert!(pod.is_virtual && pod.unschedulable);
            assert_eq!(buffer_name(pod), Some("my-buffer"));
        }
        let ids = [0, 1, 2].map(PodId);
        let pods = pods.into_iter().map(Into::into).collect();
        assert_eq!(demand(&Snapshot { pods, ..Snapshot::default() }).to_place, ids);
    }

    #[test]
    fn virtual_pods_of_a_buffer_are_capped() {
        assert_eq!(virtual_pods(&buffer("b", 0)), []);
        assert_eq!(virtual_pods(&buffer("b", u32::MAX)).len(), 150_000);
    }

    #[test]
    fn real_pods_belong_to_no_buffer_even_with_a_buffer_name() {
        assert_eq!(buffer_name(&example::pending_pod("capacity-buffer-b-1")), None);
    }

    #[test]
    fn provisioning_is_true_if_virtual_pods_fit_existing_capacity() {
        let placed = |existing, new, failed| Some(Placements { existing, new, failed });
        #[rustfmt::skip]
        let cases = [
            ("not ready",       false, Some(3), placed(3, 0, 0), Some((false, "NotReadyForProvisioning", "Buffer is not ReadyForProvisioning"))),
            ("no size",         true,  None,    placed(3, 0, 0), Some((false, "BufferEmpty", "Buffer has zero desired replicas"))),
            ("nothing wanted",  true,  Some(0), None,            Some((false, "BufferEmpty", "Buffer has zero desired replicas"))),
            ("none seen",       true,  Some(3), None,            None),
            ("20/C75",          true,  Some(3), placed(3, 0, 0), Some((true, "FitsExistingCapacity", "All 3 virtual pods fit on existing capacity"))),
            ("some on new",     true,  Some(3), placed(1, 2, 0), Some((false, "RequiresNewCapacity", "2/3 virtual pods required new capacity, 0 failed"))),
            ("some failed",     true,  Some(3), placed(1, 1, 1), Some((false, "RequiresNewCapacity", "1/3 virtual pods required new capacity, 1 failed"))),
            ("some not tried",  true,  Some(3), placed(2, 0, 0), None),
            ("size has changed", true, Some(2), placed(3, 0, 0), None),
        ];
        for (case, is_ready, replicas, placements, expected) in cases {
            let got = ProvisioningCondition::next(is_ready, replicas, placements);
            let expected = expected.map(|(status, reason, message)| ProvisioningCondition {
                status,
                reason,
                message: message.to_owned(),
            });
            assert_eq!(got, expected, "{case}");
        }
    }

    #[test]
    fn placements_are_counted_by_buffer_and_node() {
        let mut pods = virtual_pods(&buffer("a", 3));
        pods.extend(virtual_pods(&buffer("b", 1)));
        pods.push(example::pending_pod("real"));
        let pods = pods.into_iter().map(Into::into).collect();
        let snapshot = Snapshot { pods, ..Snapshot::default() };
        let claim = PlannedNodeClaim {
            pool: PoolId(0),
            pods: vec![PodId(1)],
            instance_types: [].into(),
            requirements: Arc::new(Requirements::default()),
            requests: Resources::default(),
            reservations: Vec::new(),
            min_values_relaxed: false,
            lowest_price: None,
            dynamic_drivers: Vec::new(),
        };
        let plan = Plan {
            claims: vec![claim],
            existing_nodes: vec![
                (NodeId(0), vec![PodId(0), PodId(4)]),
                (NodeId(1), vec![PodId(4)]),
                (NodeId(2), vec![PodId(3)]),
            ],
            rejected: [(PodId(2), Arc::new(PodRejection::NoUsablePool))].into(),
            ..Plan::default()
        };
        let key = |name: &str| ("default".to_owned(), name.to_owned());
        let expected = [
            (key("a"), Placements { existing: 1, new: 1, failed: 1 }),
            (key("b"), Placements { existing: 1, new: 0, failed: 0 }),
        ];
        assert_eq!(placements(&snapshot, &plan), expected.into());
        let by_node = virtual_pods_by_node(&snapshot, &plan);
        assert_eq!(by_node, [(NodeId(0), 1), (NodeId(2), 1)].into(), "20/C75");
    }
}
