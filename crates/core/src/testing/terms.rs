//! Spread constraints and affinity terms. Without a selector they mean the pod's own labels.

use super::label_key;
use super::labels::labels_by_short_key;
use crate::pod::{AffinityTerm, SpreadConstraint};
use crate::selector::{LabelSelector, Labels, Selector};

/// A builder of a topology spread constraint.
#[derive(Clone, Debug)]
pub struct SpreadBuilder {
    constraint: SpreadConstraint,
    selects_own_labels: bool,
}

/// Spread over a (short) key: DoNotSchedule, policies as Kubernetes defaults them.
pub fn spread(short_key: &str, max_skew: i32) -> SpreadBuilder {
    SpreadBuilder {
        constraint: SpreadConstraint {
            topology_key: label_key(short_key).to_owned(),
            max_skew,
            is_required: true,
            selector: Selector::Nothing,
            match_label_keys: Vec::new(),
            min_domains: None,
            honors_node_affinity: true,
            honors_node_taints: false,
        },
        selects_own_labels: true,
    }
}

impl SpreadBuilder {
    /// Counts pods with these labels.
    #[must_use]
    pub fn selecting(mut self, labels: &[(&str, &str)]) -> Self {
        self.selects_own_labels = false;
        self.constraint.selector = selector(labels);
        self
    }

    /// Has no selector.
    #[must_use]
    pub fn selecting_nothing(mut self) -> Self {
        self.selects_own_labels = false;
        self.constraint.selector = Selector::Nothing;
        self
    }

    /// Sets `whenUnsatisfiable: ScheduleAnyway`.
    #[must_use]
    pub fn schedule_anyway(mut self) -> Self {
        self.constraint.is_required = false;
        self
    }

    /// Sets minDomains.
    #[must_use]
    pub fn min_domains(mut self, domains: i32) -> Self {
        self.constraint.min_domains = Some(domains);
        self
    }

    /// Adds a key to matchLabelKeys.
    #[must_use]
    pub fn match_label_key(mut self, key: &str) -> Self {
        self.constraint.match_label_keys.push(key.to_owned());
        self
    }

    /// nodeAffinityPolicy: Ignore.
    #[must_use]
    pub fn ignoring_affinity(mut self) -> Self {
        self.constraint.honors_node_affinity = false;
        self
    }

    /// nodeTaintsPolicy: Honor.
    #[must_use]
    pub fn honoring_taints(mut self) -> Self {
        self.constraint.honors_node_taints = true;
        self
    }

    /// The constraint of a pod with these labels.
    pub fn build(mut self, labels: &Labels) -> SpreadConstraint {
        if self.selects_own_labels {
            self.constraint.selector =
                Selector::Matching(LabelSelector::from_labels(labels.clone()));
        }
        self.constraint
    }
}

/// A builder of a pod affinity term.
#[derive(Clone, Debug)]
pub struct AffinityTermBuilder {
    term: AffinityTerm,
    selects_own_labels: bool,
}

/// An affinity term on a (short) key, in the pod's own namespace.
pub fn term(short_key: &str) -> AffinityTermBuilder {
    AffinityTermBuilder {
        term: AffinityTerm {
            topology_key: label_key(short_key).to_owned(),
            selector: Selector::Nothing,
            namespaces: Vec::new(),
            namespace_selector: None,
        },
        selects_own_labels: true,
    }
}

impl AffinityTermBuilder {
    /// Means pods with these labels.
    #[must_use]
    pub fn selecting(mut self, labels: &[(&str, &str)]) -> Self {
        self.selects_own_labels = false;
        self.term.selector = selector(labels);
        self
    }

    /// Has no selector.
    #[must_use]
    pub fn selecting_nothing(mut self) -> Self {
        self.selects_own_labels = false;
        self.term.selector = Selector::Nothing;
        self
    }

    /// Lists a namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.term.namespaces.push(namespace.to_owned());
        self
    }

    /// Selects namespaces by label.
    #[must_use]
    pub fn in_namespaces_with(mut self, labels: &[(&str, &str)]) -> Self {
        self.term.namespace_selector =
            Some(LabelSelector::from_labels(labels_by_short_key(labels)));
        self
    }

    /// The term of a pod with these labels.
    pub fn build(mut self, labels: &Labels) -> AffinityTerm {
        if self.selects_own_labels {
            self.term.selector = Selector::Matching(LabelSelector::from_labels(labels.clone()));
        }
        self.term
    }
}

fn selector(labels: &[(&str, &str)]) -> Selector {
    Selector::Matching(LabelSelector::from_labels(labels_by_short_key(labels)))
}
