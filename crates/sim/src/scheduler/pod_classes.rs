//! Keeps, for each class of pods, which nodes fit by labels and taints. Pods with equal node
//! requirements are one class; changes of nodes update the verdicts.

use std::collections::HashMap;
use std::sync::Arc;

use karpenter_core::taint::{Taint, TaintEffect, Toleration};

use super::cache::NodeInfo;
use super::pod_info::NodeRequirements;
use super::topology::NodeIndex;

/// Classes that no pod waits for are kept up to this number.
const SPARE_CLASSES: usize = 256;

const CORDON: &str = "node.kubernetes.io/unschedulable";

/// What labels and taints of a node mean for a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// It is cordoned, and the pod does not tolerate that.
    pub(super) is_cordoned: bool,
    /// It has taints that the pod does not tolerate.
    pub(super) is_tainted: bool,
    /// The pod's node selector or required affinity does not match.
    pub(super) is_affinity_mismatch: bool,
    /// The number of untolerated `PreferNoSchedule` taints.
    pub(super) soft_taint_count: u16,
    /// Weights of preferred affinity.
    pub(super) preference: i32,
}

impl Verdict {
    pub(super) fn of(requirements: &NodeRequirements, node: &NodeInfo) -> Self {
        let tolerates = |taint: &Taint| requirements.tolerations.iter().any(|t| t.tolerates(taint));
        let (soft, hard): (Vec<_>, Vec<_>) =
            node.taints.iter().partition(|taint| taint.effect == TaintEffect::PreferNoSchedule);
        let dislikes = soft.into_iter().filter(|taint| !tolerates(taint)).count();
        let preference = requirements.preference(&node.name, &node.labels);
        Self {
            is_cordoned: node.is_cordoned && !tolerates_cordon(&requirements.tolerations),
            is_tainted: hard.into_iter().any(|taint| !tolerates(taint)),
            is_affinity_mismatch: !requirements.allows(&node.name, &node.labels),
            soft_taint_count: u16::try_from(dislikes).unwrap_or(u16::MAX),
            preference: i32::try_from(preference).unwrap_or(i32::MAX),
        }
    }
}

fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    if tolerations.is_empty() {
        return false;
    }
    let cordon =
        Taint { key: CORDON.to_owned(), value: String::new(), effect: TaintEffect::NoSchedule };
    tolerations.iter().any(|toleration| toleration.tolerates(&cordon))
}

/// The pod classes of pending pods, each with its verdict for every node.
#[derive(Debug, Default)]
pub(super) struct PodClasses {
    /// For lookups only.
    ids: HashMap<Arc<NodeRequirements>, usize>,
    slots: Vec<Option<PodClass>>,
    spare: usize,
}

#[derive(Debug)]
struct PodClass {
    requirements: Arc<NodeRequirements>,
    verdicts: Vec<Verdict>,
    users: usize,
}

impl PodClasses {
    /// Returns the class of these node requirements, and counts one more user.
    pub(super) fn take(
        &mut self,
        requirements: &Arc<NodeRequirements>,
        nodes: &[Option<NodeInfo>],
    ) -> usize {
        if let Some(&id) = self.ids.get(requirements) {
            if let Some(class) = &mut self.slots[id] {
                self.spare -= usize::from(class.users == 0);
                class.users += 1;
            }
            return id;
        }
        let verdict = |node: &Option<NodeInfo>| {
            node.as_ref().map_or_else(Verdict::default, |node| Verdict::of(requirements, node))
        };
        let verdicts = nodes.iter().map(verdict).collect();
        let class = PodClass { requirements: Arc::clone(requirements), verdicts, users: 1 };
        let id = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if id == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[id] = Some(class);
        self.ids.insert(Arc::clone(requirements), id);
        id
    }

    /// Gives a class back.
    pub(super) fn release(&mut self, id: usize) {
        let Some(class) = &mut self.slots[id] else { return };
        class.users -= 1;
        self.spare += usize::from(class.users == 0);
        if self.spare > SPARE_CLASSES {
            for slot in &mut self.slots {
                if let Some(class) = slot.take_if(|class| class.users == 0) {
                    self.ids.remove(&class.requirements);
                }
            }
            self.spare = 0;
        }
    }

    pub(super) fn verdicts(&self, id: usize) -> &[Verdict] {
        self.slots.get(id).and_then(Option::as_ref).map_or(&[], |class| &class.verdicts)
    }

    /// A node came or has changed.
    pub(super) fn set_node(&mut self, at: NodeIndex, node: &NodeInfo) {
        for class in self.slots.iter_mut().flatten() {
            if class.verdicts.len() <= at {
                class.verdicts.resize(at + 1, Verdict::default());
            }
            class.verdicts[at] = Verdict::of(&class.requirements, node);
        }
    }
}
