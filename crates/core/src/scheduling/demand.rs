//! Selects the pods that need a place (spec 20 §2.3, §2.4).

use std::collections::BTreeMap;

use crate::id::PodId;
use crate::pod::{OwnerKind, Pod, PodProblem};
use crate::snapshot::Snapshot;
use crate::taint::{Taint, TaintEffect};

/// The pods of a snapshot that a provisioning loop considers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The pods to place, in the order of the snapshot.
    pub to_place: Vec<PodId>,
    /// Pending pods that are not placed, with the reason.
    pub ignored: BTreeMap<PodId, PodProblem>,
}

/// Returns the pods to place: unschedulable pods, virtual pods, and pods of deleting nodes.
///
/// Only unschedulable pods are validated. Pods of deleting nodes run already, and Karpenter creates
/// the virtual pods, which stand for spare capacity.
pub fn demand(snapshot: &Snapshot) -> Demand {
    let mut demand = Demand::default();
    for (index, pod) in snapshot.pods.iter().enumerate() {
        let id = PodId::new(index);
        if is_placed_unvalidated(snapshot, pod) {
            demand.to_place.push(id);
        } else if is_provisionable(pod) {
            match problem(snapshot, pod) {
                None => demand.to_place.push(id),
                Some(problem) => {
                    demand.ignored.insert(id, problem);
                }
            }
        }
    }
    demand
}

/// Returns whether [`demand`] has the pod among those to place.
pub fn is_demanded(snapshot: &Snapshot, pod: &Pod) -> bool {
    is_placed_unvalidated(snapshot, pod)
        || (is_provisionable(pod) && problem(snapshot, pod).is_none())
}

/// Returns whether the pod is placed without validation.
fn is_placed_unvalidated(snapshot: &Snapshot, pod: &Pod) -> bool {
    is_on_deleting_node(snapshot, pod) || (pod.is_virtual && pod.node.is_none())
}

/// Returns whether the pod waits for capacity.
pub fn is_provisionable(pod: &Pod) -> bool {
    let state = WaitState {
        unschedulable: pod.unschedulable,
        is_bound: pod.node.is_some(),
        preempting: pod.preempting,
        owner: pod.owner,
    };
    state.is_provisionable()
}

/// The facts of a pod that decide whether it waits for capacity (spec 20 §2.3).
#[derive(Clone, Copy, Debug)]
pub struct WaitState {
    /// Whether the scheduler has marked it unschedulable.
    pub unschedulable: bool,
    /// Whether it has a node.
    pub is_bound: bool,
    /// Whether it waits for a preemption.
    pub preempting: bool,
    /// The kind of its owner.
    pub owner: OwnerKind,
}

impl WaitState {
    /// Returns whether the pod waits for capacity.
    ///
    /// The scheduler has marked it unschedulable, it waits for no preemption, and it belongs
    /// neither to a DaemonSet nor to a node. Phase and deletion do not matter.
    pub fn is_provisionable(self) -> bool {
        self.unschedulable && !self.is_bound && !self.preempting && !self.owner.is_bound_to_node()
    }
}

/// Returns whether the pod's controller recreates it when it leaves its node.
///
/// StatefulSets replace pods only after they have terminated, so their terminating pods count.
pub fn is_reschedulable(pod: &Pod) -> bool {
    (pod.is_active() || (pod.terminating && pod.owner == OwnerKind::StatefulSet))
        && !pod.owner.is_bound_to_node()
}

/// Returns whether the pod is reschedulable and nothing blocks its eviction.
///
/// A blocked pod stays on its node for an unknown time, for which new capacity would be wasted.
pub fn is_currently_reschedulable(snapshot: &Snapshot, pod: &Pod) -> bool {
    is_reschedulable(pod)
        && (!pod.is_active() || !(pod.do_not_disrupt || is_blocked_by_pdbs(snapshot, pod)))
}

/// Returns whether the pod is currently reschedulable and its node is being deleted.
fn is_on_deleting_node(snapshot: &Snapshot, pod: &Pod) -> bool {
    let node = pod.node.and_then(|node| snapshot.nodes.get(node.index()));
    node.is_some_and(|node| node.is_deleting) && is_currently_reschedulable(snapshot, pod)
}

/// Returns whether PodDisruptionBudgets block the eviction of an active pod.
///
/// Kubernetes evicts no pod that has more than one PodDisruptionBudget.
fn is_blocked_by_pdbs(snapshot: &Snapshot, pod: &Pod) -> bool {
    if tolerates_disrupted_taint(pod) {
        return false;
    }
    let budgets = snapshot.disruption_budgets.iter();
    let mut budgets = budgets
        .filter(|budget| budget.namespace == pod.namespace && budget.selector.matches(&pod.labels));
    match (budgets.next(), budgets.next()) {
        (None, _) => false,
        (Some(budget), None) => {
            budget.blocks_all && !(budget.always_evicts_unhealthy && pod.is_unready)
        }
        (Some(_), Some(_)) => true,
    }
}

/// Returns whether the pod tolerates the taint of nodes that are drained.
///
/// Such a pod is not evicted, so PodDisruptionBudgets do not matter.
fn tolerates_disrupted_taint(pod: &Pod) -> bool {
    let disrupted = Taint {
        key: "karpenter.sh/disrupted".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    };
    pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(&disrupted))
}

/// Returns all problems of a pending pod as one text.
fn problem(snapshot: &Snapshot, pod: &Pod) -> Option<PodProblem> {
    match (pod.problem.clone(), snapshot.volumes.validate(pod)) {
        (known, Ok(())) => known,
        (None, Err(text)) => Some(PodProblem { text, is_opt_out: false }),
        (Some(known), Err(text)) => {
            Some(PodProblem { text: format!("{}; {text}", known.text), ..known })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::id::NodeId;
    use crate::pod::{Phase, PodSpec, example};
    use crate::resources::Resources;
    use crate::selector::{LabelSelector, Labels, Selector};
    use crate::snapshot::{NodeDisruptionState, PodDisruptionBudget, StateNode};
    use crate::taint::Toleration;
    use crate::volume::{StorageClass, VolumeClaim};

    fn placed(snapshot: Snapshot, pod: Pod) -> bool {
        let snapshot = Snapshot { pods: vec![pod.into()], ..snapshot };
        demand(&snapshot).to_place == [PodId(0)]
    }

    #[test]
    fn unschedulable_pods_are_placed() {
        let pod = || example::pending_pod("p");
        #[rustfmt::skip]
        let cases = [
            ("waiting",              pod(),                                              true),
            ("20/B5",                Pod { unschedulable: false, ..pod() },              false),
            ("20/B6",                Pod { preempting: true, ..pod() },                  false),
            ("20/B7",                Pod { owner: OwnerKind::DaemonSet, ..pod() },           false),
            ("20/B7",                Pod { owner: OwnerKind::Node, ..pod() },                false),
            ("StatefulSet",          Pod { owner: OwnerKind::StatefulSet, ..pod() },         true),
            ("phase does not matter", Pod { phase: Phase::Failed, ..pod() },             true),
            ("nor does deletion",    Pod { terminating: true, ..pod() },                 true),
            ("virtual, unvalidated", Pod { is_virtual: true, phase: Phase::Unset, volume_claims: vec!["none".to_owned()], ..pod() }, true),
        ];
        for (case, pod, expected) in cases {
            let demand =
                demand(&Snapshot { pods: vec![pod.clone().into()], ..Snapshot::default() });
            assert_eq!(demand.to_place == [PodId(0)], expected, "{case}");
            assert_eq!(demand.ignored, BTreeMap::new(), "{case}");
        }
    }

    fn snapshot_with_claims() -> Snapshot {
        let claims = [("late", "late"), ("immediate", "immediate")].map(|(name, class)| {
            let claim = VolumeClaim { storage_class: Some(class.to_owned()), ..Default::default() };
            (("default".to_owned(), name.to_owned()), claim)
        });
        let classes = [("late", false), ("immediate", true)].map(|(name, binds_immediately)| {
            (name.to_owned(), StorageClass { binds_immediately, ..Default::default() })
        });
        let mut snapshot = Snapshot::default();
        snapshot.volumes.claims.extend(claims);
        snapshot.volumes.classes.extend(classes);
        snapshot
    }

    #[test]
    fn pods_with_a_problem_are_ignored_and_others_are_not() {
        const OPT_OUT: &str = "configured to not run on a Karpenter provisioned node \
             (requirement=karpenter.sh/nodepool DoesNotExist)";
        const MISSING: &str = "getting persistent volume claim, PersistentVolumeClaim \"none\" \
             not found (PersistentVolumeClaim=none)";
        const IMMEDIATE: &str = "failed to validate pvc, pvc with immediate volume binding mode \
             must be bound (PersistentVolumeClaim=default/immediate, StorageClass=immediate)";
        let problem = |text: &str, is_opt_out| PodProblem { text: text.to_owned(), is_opt_out };
        let with = |claims: &[&str], problem| Pod {
            problem,
            ..example::pod_with_volume_claims("p", claims)
        };
        #[rustfmt::skip]
        let cases = [
            ("20/B8",  with(&[], Some(problem("bad selector", false))), problem("bad selector", false)),
            ("20/B11", with(&[], Some(problem(OPT_OUT, true))),         problem(OPT_OUT, true)),
            ("20/B12", with(&["none"], None),                           problem(MISSING, false)),
            ("20/C62", with(&["immediate"], None),                      problem(IMMEDIATE, false)),
            ("both",   with(&["none"], Some(problem(OPT_OUT, true))),   problem(&format!("{OPT_OUT}; {MISSING}"), true)),
        ];
        for (case, pod, expected) in cases {
            let pods = vec![pod.into(), example::pod_with_volume_claims("fine", &["late"]).into()];
            let demand = demand(&Snapshot { pods, ..snapshot_with_claims() });
            assert_eq!(demand.to_place, [PodId(1)], "{case}");
            assert_eq!(demand.ignored, [(PodId(0), expected)].into(), "{case}");
        }
    }

    /// Returns a snapshot with one node.
    fn one_node(is_deleting: bool) -> Snapshot {
        let node = StateNode {
            name: "n".to_owned(),
            labels: Labels::new(),
            taints: Vec::new(),
            object: None,
            pool: None,
            is_managed: true,
            is_initialized: true,
            is_deleting,
            capacity: Resources::default(),
            allocatable: Resources::default(),
            published_volume_limits: BTreeMap::new(),
            initialized_at: None,
            last_pod_event: None,
            provider_id: "n".to_owned(),
            disruption_state: NodeDisruptionState::default(),
        };
        Snapshot { nodes: vec![node.into()], ..Snapshot::default() }
    }

    fn running() -> Pod {
        let node = Some(NodeId(0));
        Pod { node, phase: Phase::Running, unschedulable: false, ..example::pending_pod("p") }
    }

    #[test]
    fn reschedulable_pods_of_deleting_nodes_are_placed() {
        let pod = running;
        #[rustfmt::skip]
        let cases = [
            ("20/B17",            pod(),                                                          true),
            ("20/B18",            Pod { terminating: true, ..pod() },                             false),
            ("20/B18",            Pod { terminating: true, owner: OwnerKind::StatefulSet, ..pod() },  true),
            ("20/B19",            Pod { owner: OwnerKind::DaemonSet, ..pod() },                       false),
            ("static pod",        Pod { owner: OwnerKind::Node, ..pod() },                            false),
            ("over",              Pod { phase: Phase::Succeeded, ..pod() },                       false),
            ("do-not-disrupt",    Pod { do_not_disrupt: true, ..pod() },                          false),
            ("protected, but going already",
                Pod { do_not_disrupt: true, terminating: true, owner: OwnerKind::StatefulSet, ..pod() }, true),
            ("not validated",     Pod { volume_claims: vec!["none".to_owned()], ..pod() },               true),
        ];
        for (case, pod, expected) in cases {
            assert_eq!(placed(one_node(true), pod.clone()), expected, "{case}");
            assert!(!placed(one_node(false), pod), "{case}: the node stays");
        }
    }

    #[test]
    fn pods_blocked_by_a_pdb_are_not_placed() {
        let budget = |namespace: &str, selector, blocks_all| PodDisruptionBudget {
            namespace: namespace.to_owned(),
            name: "pdb".to_owned(),
            selector,
            blocks_all,
            disruptions_allowed: 0,
            always_evicts_unhealthy: false,
        };
        let all = || Selector::Matching(LabelSelector::default());
        let here = |blocks_all| budget("default", all(), blocks_all);
        let tolerant = Pod {
            spec: Arc::new(PodSpec {
                tolerations: vec![Toleration {
                    operator: "Exists".to_owned(),
                    ..Toleration::default()
                }],
                ..PodSpec::default()
            }),
            ..running()
        };
        let going = Pod { terminating: true, owner: OwnerKind::StatefulSet, ..running() };
        #[rustfmt::skip]
        let cases = [
            ("20/B19",               vec![here(true)],                          running(), false),
            ("20/B19",               vec![here(true), here(true)],              running(), false),
            ("any two block",        vec![here(false), here(false)],            running(), false),
            ("allows some",          vec![here(false)],                         running(), true),
            ("other namespace",      vec![budget("other", all(), true)],        running(), true),
            ("selects nothing",      vec![budget("default", Selector::Nothing, true)], running(), true),
            ("is not evicted",       vec![here(true)],                          tolerant,  true),
            ("is evicted already",   vec![here(true)],                          going,     true),
        ];
        for (case, disruption_budgets, pod, expected) in cases {
            let snapshot =
                Snapshot { disruption_budgets: disruption_budgets.into(), ..one_node(true) };
            assert_eq!(placed(snapshot, pod), expected, "{case}");
        }
    }

    #[test]
    fn pending_pods_are_placed_together_with_pods_of_a_deleting_node() {
        let pods =
            [running(), example::pending_pod("a"), running(), running(), example::pending_pod("b")];
        let pods = pods.map(Into::into).into();
        let demand = demand(&Snapshot { pods, ..one_node(true) });
        assert_eq!(demand.to_place, [0, 1, 2, 3, 4].map(PodId), "20/B20");
    }
}
