//! Default spread constraints of a cluster, for pods without any (spec 20 §3.18).
//!
//! The constraints have no selector. The selector is deduced for each pod, as kube-scheduler does
//! it: from the Services that select the pod, and from its controller.

use std::collections::BTreeMap;

use crate::pod::{Pod, SpreadConstraint};
use crate::selector::{Condition, Expression, LabelSelector, Labels, Selector};
use crate::snapshot::{Snapshot, WorkloadKey};

/// Returns the pod's own spread constraints, else the defaults with a deduced selector.
///
/// Returns none if no selector can be deduced. The result depends only on the pod's namespace,
/// labels, controller and own constraints.
pub fn spread_constraints(
    snapshot: &Snapshot,
    pod: &Pod,
    defaults: &[SpreadConstraint],
) -> Vec<SpreadConstraint> {
    DefaultSpread::new(snapshot, defaults).spread_constraints(pod)
}

/// The default spread constraints of a cluster, prepared for many pods.
#[derive(Debug)]
pub struct DefaultSpread<'a> {
    snapshot: &'a Snapshot,
    defaults: &'a [SpreadConstraint],
    /// Selectors of Services, by namespace and by their first label: there may be as many Services
    /// as pods. Services without a selector are left out.
    services: BTreeMap<(&'a str, &'a str, &'a str), Vec<&'a Labels>>,
}

impl<'a> DefaultSpread<'a> {
    /// Reads the Services once.
    pub fn new(snapshot: &'a Snapshot, defaults: &'a [SpreadConstraint]) -> Self {
        let mut services: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for service in snapshot.services.iter().filter(|_| !defaults.is_empty()) {
            let Some(selector) = &service.selector else { continue };
            if let Some((key, value)) = selector.first_key_value() {
                let place = (service.namespace.as_str(), key.as_str(), value.as_str());
                services.entry(place).or_default().push(selector);
            }
        }
        Self { snapshot, defaults, services }
    }

    /// Returns the spread constraints of a pod, see [`spread_constraints`].
    pub fn spread_constraints(&self, pod: &Pod) -> Vec<SpreadConstraint> {
        let defaults = self.defaults;
        if !pod.spec.topology_spread.is_empty() || defaults.is_empty() {
            return pod.spec.topology_spread.clone();
        }
        let selector = self.deduced_selector(pod);
        // An empty selector would count every pod of the namespace.
        if selector == LabelSelector::default() {
            return Vec::new();
        }
        let with_selector = |constraint: &SpreadConstraint| SpreadConstraint {
            selector: Selector::Matching(selector.clone()),
            ..constraint.clone()
        };
        defaults.iter().map(with_selector).collect()
    }

    /// Returns the selector deduced from Services and controller; empty without any.
    fn deduced_selector(&self, pod: &Pod) -> LabelSelector {
        let mut selector = LabelSelector::from_labels(self.service_labels(pod));
        let Some((key, workload)) = controller_selector(self.snapshot, pod) else {
            return selector;
        };
        if key.kind == REPLICATION_CONTROLLER.1 {
            selector.labels.extend(workload.labels.clone());
            return selector;
        }
        // These stand beside the labels of Services: where both name a key, both must hold.
        let equalities = workload.labels.iter().map(|(key, value)| Expression {
            key: key.clone(),
            condition: Condition::In([value.clone()].into()),
        });
        selector.expressions.extend(equalities);
        selector.expressions.extend(workload.expressions.iter().cloned());
        selector
    }

    /// The selectors of all Services that select the pod, as one. They cannot disagree, as each is
    /// part of the pod's labels. A Service without selector selects nothing.
    fn service_labels(&self, pod: &Pod) -> Labels {
        let selecting = |selector: &&&Labels| {
            selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
        };
        let places =
            pod.labels.iter().map(|(key, value)| (pod.namespace.as_str(), &**key, &**value));
        let selectors = places.filter_map(|place| self.services.get(&place)).flatten();
        let pairs = selectors.filter(selecting).flat_map(|selector| selector.iter());
        pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// API group and kind.
const REPLICATION_CONTROLLER: (&str, &str) = ("", "ReplicationController");
const REPLICA_SET: (&str, &str) = ("apps", "ReplicaSet");
const STATEFUL_SET: (&str, &str) = ("apps", "StatefulSet");

/// The controller of the pod, if it is of a kind that counts, and its selector.
fn controller_selector<'a>(
    snapshot: &'a Snapshot,
    pod: &Pod,
) -> Option<(&'a WorkloadKey, &'a LabelSelector)> {
    let controller = pod.controller.as_ref()?;
    let kind = (controller.group.as_str(), controller.kind.as_str());
    if ![REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET].contains(&kind) {
        return None;
    }
    snapshot.workloads.get_key_value(&WorkloadKey {
        group: controller.group.clone(),
        kind: controller.kind.clone(),
        namespace: pod.namespace.clone(),
        name: controller.name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pod::{ControllerRef, PodSpec, example};
    use crate::snapshot::Service;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn spread(key: &str) -> SpreadConstraint {
        SpreadConstraint {
            topology_key: key.to_owned(),
            max_skew: 1,
            is_required: true,
            selector: Selector::Nothing,
            match_label_keys: Vec::new(),
            min_domains: None,
            honors_node_affinity: true,
            honors_node_taints: false,
        }
    }

    fn service(name: &str, selector: Option<&[(&str, &str)]>) -> Service {
        Service {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            selector: selector.map(labels),
        }
    }

    fn workload((group, kind): (&str, &str), name: &str) -> WorkloadKey {
        let [group, kind, name] = [group, kind, name].map(str::to_owned);
        WorkloadKey { group, kind, namespace: "default".to_owned(), name }
    }

    fn pod(pairs: &[(&str, &str)], controller: Option<((&str, &str), &str)>) -> Pod {
        let controller = controller.map(|((group, kind), name)| {
            let [group, kind, name] = [group, kind, name].map(str::to_owned);
            ControllerRef { group, kind, uid: format!("uid-{name}"), name }
        });
        Pod { labels: Arc::new(labels(pairs)), controller, ..example::pending_pod("p") }
    }

    fn cluster() -> Snapshot {
        let of = |pairs| LabelSelector::from_labels(labels(pairs));
        let mut with_expression = of(&[("app", "web")]);
        with_expression.expressions.insert(canary());
        Snapshot {
            services: vec![
                service("all", Some(&[])),
                service("headless", None),
                service("web", Some(&[("app", "web")])),
                service("web-tier", Some(&[("tier", "front")])),
                Service { namespace: "other".to_owned(), ..service("web", Some(&[("team", "x")])) },
            ]
            .into(),
            workloads: BTreeMap::from([
                (workload(REPLICA_SET, "one"), of(&[("hash", "1")])),
                (workload(REPLICA_SET, "two"), of(&[("hash", "2")])),
                (workload(STATEFUL_SET, "db"), with_expression),
                (workload(REPLICATION_CONTROLLER, "old"), of(&[("app", "old")])),
                (workload(REPLICATION_CONTROLLER, "empty"), of(&[])),
                (workload(("batch", "Job"), "job"), of(&[("job", "1")])),
            ])
            .into(),
            ..Snapshot::default()
        }
    }

    fn canary() -> Expression {
        Expression { key: "canary".to_owned(), condition: Condition::DoesNotExist }
    }

    fn in_expression(key: &str, value: &str) -> Expression {
        Expression { key: key.to_owned(), condition: Condition::In([value.to_owned()].into()) }
    }

    #[test]
    fn the_selector_comes_from_services_and_controller() {
        type Pairs = &'static [(&'static str, &'static str)];
        struct Case(
            &'static str,
            Pairs,
            Option<((&'static str, &'static str), &'static str)>,
            Pairs,
            Vec<Expression>,
        );
        #[rustfmt::skip]
        let cases = [
            // case                   labels                 controller                       labels of the selector, expressions
            Case("20/D49",            &[("hash", "1")],      Some((REPLICA_SET, "one")),      &[],                 vec![in_expression("hash", "1")]),
            Case("20/D50",            &[("a", "b")],         None,                            &[],                 vec![]),
            Case("20/D50",            &[("app", "web")],     Some((("batch", "Job"), "job")), &[("app", "web")],   vec![]),
            Case("20/D50",            &[("job", "1")],       Some((("batch", "Job"), "job")), &[],                 vec![]),
            Case("20/D51",            &[("hash", "2")],      Some((REPLICA_SET, "two")),      &[],                 vec![in_expression("hash", "2")]),
            Case("both",              &[("app", "web")],     Some((STATEFUL_SET, "db")),      &[("app", "web")],   vec![in_expression("app", "web"), canary()]),
            Case("two Services",      &[("app", "web"), ("tier", "front")], None,             &[("app", "web"), ("tier", "front")], vec![]),
            Case("overwrites",        &[("app", "web")],     Some((REPLICATION_CONTROLLER, "old")), &[("app", "old")], vec![]),
            Case("empty selector",    &[("a", "b")],         Some((REPLICATION_CONTROLLER, "empty")), &[],         vec![]),
            Case("gone",              &[("app", "web")],     Some((REPLICA_SET, "gone")),     &[("app", "web")],   vec![]),
            Case("other group",       &[("hash", "1")],      Some((("x", "ReplicaSet"), "one")), &[],              vec![]),
        ];
        let snapshot = cluster();
        for Case(case, pod_labels, controller, selected, expressions) in cases {
            let pod = pod(pod_labels, controller);
            let got = spread_constraints(&snapshot, &pod, &[spread("zone"), spread("host")]);
            let expected = LabelSelector {
                labels: labels(selected),
                expressions: expressions.into_iter().collect(),
            };
            if expected == LabelSelector::default() {
                assert_eq!(got, [], "{case}");
                continue;
            }
            let with = |key| SpreadConstraint {
                selector: Selector::Matching(expected.clone()),
                ..spread(key)
            };
            assert_eq!(got, [with("zone"), with("host")], "{case}");
        }
    }

    #[test]
    fn own_spread_constraints_suppress_all_defaults() {
        let own = vec![spread("rack")];
        let spec = Arc::new(PodSpec { topology_spread: own.clone(), ..PodSpec::default() });
        let pod = Pod { spec, ..pod(&[("hash", "1")], Some((REPLICA_SET, "one"))) };
        assert_eq!(spread_constraints(&cluster(), &pod, &[spread("zone")]), own, "20/D49");
    }

    #[test]
    fn without_defaults_there_are_none() {
        let pod = pod(&[("hash", "1")], Some((REPLICA_SET, "one")));
        assert_eq!(spread_constraints(&cluster(), &pod, &[]), []);
    }

    #[test]
    fn the_deduced_selector_matches_replicas_of_the_same_revision() {
        let new = pod(&[("hash", "1"), ("app", "web")], Some((REPLICA_SET, "one")));
        let [constraint] = &spread_constraints(&cluster(), &new, &[spread("zone")])[..] else {
            panic!("20/D52: one constraint");
        };
        assert!(constraint.selector.matches(&new.labels), "20/D52");
        let other_revision = labels(&[("hash", "2"), ("app", "web")]);
        assert!(!constraint.selector.matches(&other_revision), "20/D51");
    }
}
