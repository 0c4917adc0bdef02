//! Why a node is no candidate, with the texts of events (spec 30 §3.2, spec 45 §5.2, §9.1).

use std::fmt;

/// Why a node is no candidate of a method: the first row that holds. Shown as the event says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A command is at work on it.
    InQueue,
    /// There is no NodeClaim: it is not ours.
    NotManaged,
    /// There is no Node yet.
    NoNode,
    /// Repair is restarting it.
    Rebooting,
    /// It goes already.
    Deleting,
    /// It has joined and is not ready for pods yet.
    NotInitialized,
    /// It has not joined.
    NotRegistered,
    /// A pending pod is nominated for it.
    Nominated,
    /// Its annotation forbids it.
    DoNotDisrupt,
    /// It does not say which NodePool it is of.
    NoPoolLabel,
    /// Its NodePool, or what that can launch, is not known.
    PoolNotFound {
        /// The pool's name.
        pool: String,
    },
    /// A pod's annotation forbids it.
    PodDoNotDisrupt {
        /// The pod, as `namespace/name`.
        pod: String,
    },
    /// The scheduling constraints of a pod could not be parsed.
    UnparsedPodConstraints {
        /// The pod, as `namespace/name`.
        pod: String,
    },
    /// A pod has several PodDisruptionBudgets.
    MultiplePdbs {
        /// The pod, as `namespace/name`.
        pod: String,
        /// The budgets, each as `namespace/name`.
        budgets: Vec<String>,
    },
    /// The PodDisruptionBudget of a pod allows no disruption now.
    PdbExhausted {
        /// The pod, as `namespace/name`.
        pod: String,
        /// The budget, as `namespace/name`.
        budget: String,
    },
    /// Repair needs a NodePool.
    RepairWithoutPool,
}

impl Rejection {
    /// Whether pods cause the rejection, which some methods may ignore.
    pub fn is_caused_by_pods(&self) -> bool {
        matches!(
            self,
            Self::PodDoNotDisrupt { .. }
                | Self::UnparsedPodConstraints { .. }
                | Self::MultiplePdbs { .. }
                | Self::PdbExhausted { .. }
        )
    }

    /// Whether an event reports the rejection.
    /// Nodes that are not managed, or that a command removes already, get no event.
    pub fn is_published(&self) -> bool {
        !matches!(self, Self::InQueue | Self::NotManaged)
    }

    /// The objects that are in the way, each as `Kind namespace/name`.
    pub fn blocked_by(&self) -> Vec<String> {
        match self {
            Self::PodDoNotDisrupt { pod } | Self::UnparsedPodConstraints { pod } => {
                vec![format!("Pod {pod}")]
            }
            Self::MultiplePdbs { pod, budgets } => {
                let budgets = budgets.iter().map(|name| format!("PodDisruptionBudget {name}"));
                [format!("Pod {pod}")].into_iter().chain(budgets).collect()
            }
            Self::PdbExhausted { pod, budget } => {
                vec![format!("Pod {pod}"), format!("PodDisruptionBudget {budget}")]
            }
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InQueue => "Candidate is already being disrupted",
            Self::NotManaged => "Node isn't managed by karpenter",
            Self::NoNode => "Nodeclaim does not have an associated node",
            Self::Rebooting => "Node is rebooting",
            Self::Deleting => "Node is deleting or marked for deletion",
            Self::NotInitialized => "Node isn't initialized",
            Self::NotRegistered => "Node isn't initialized nor registered",
            Self::Nominated => "Node is nominated for a pending pod",
            Self::DoNotDisrupt => {
                "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation"
            }
            Self::NoPoolLabel => "Node doesn't have required label (label=karpenter.sh/nodepool)",
            Self::PoolNotFound { pool } => {
                return write!(f, "NodePool not found (NodePool={pool})");
            }
            Self::PodDoNotDisrupt { pod } => {
                return write!(f, "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod={pod})");
            }
            Self::UnparsedPodConstraints { pod } => {
                return write!(f, "Pod could not be read whole, and stays where it is (Pod={pod})");
            }
            Self::MultiplePdbs { budgets, .. } => {
                let budgets = budgets.join(" ");
                return write!(
                    f,
                    "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{budgets}])"
                );
            }
            Self::PdbExhausted { budget, .. } => {
                return write!(f, "Pdb prevents pod evictions (PodDisruptionBudget=[{budget}])");
            }
            Self::RepairWithoutPool => {
                "repair requires a NodePool to construct and budget a safe replacement"
            }
        })
    }
}
