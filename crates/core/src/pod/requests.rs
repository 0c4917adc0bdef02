//! How much of a node a pod takes (spec 20 §1.11), by kube-scheduler's formula.

use crate::resources::{CPU, MEMORY, Notation, PODS, Quantity, Resources};

/// Where the requests of a pod come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResources {
    /// The regular containers.
    pub containers: Vec<ContainerResources>,
    /// The init containers, in their order.
    pub init_containers: Vec<InitContainerResources>,
    /// `spec.resources.requests`: requests of the pod as a whole.
    pub pod_level: Resources,
    /// `spec.overhead`, which a RuntimeClass sets.
    pub overhead: Resources,
    /// Whether condition `PodResizePending` says `Infeasible`.
    pub is_resize_infeasible: bool,
}

/// The requests of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerResources {
    /// `resources.requests` of the spec.
    pub requests: Resources,
    /// What its status says; none if the status, or `resources` in it, is absent.
    pub status: Option<StatusResources>,
}

/// What the kubelet says about a container that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusResources {
    /// `resources.requests` of the status.
    pub requests: Resources,
    /// `allocatedResources`.
    pub allocated: Resources,
}

/// The requests of an init container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitContainerResources {
    /// The container.
    pub container: ContainerResources,
    /// Whether it goes on beside the others (`restartPolicy: Always`).
    pub is_sidecar: bool,
}

/// Returns the most resources that the pod uses at once, `pods: 1` included.
pub fn effective_requests(input: &PodResources) -> Resources {
    let mut requests = input.container_requests();
    for (name, quantity) in input.pod_level.iter().filter(|(name, _)| is_pod_level(name)) {
        requests.set(name, quantity);
    }
    requests.add(&input.overhead);
    requests.set(PODS, Quantity::from_units(1).with_notation(Notation::DecimalExponent));
    requests
}

/// Returns a container's requests, where limits replace missing requests.
///
/// This is for the containers of a DaemonSet's template (spec 20 §3.3); admission does the same for
/// real pods.
#[must_use]
pub fn requests_defaulted_from_limits(requests: &Resources, limits: &Resources) -> Resources {
    limits.overlaid_by(requests)
}

/// Whether requests of the pod as a whole may be for this resource; others are ignored.
fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with("hugepages-")
}

impl PodResources {
    /// Returns the requests of the running containers, or of a larger init step.
    fn container_requests(&self) -> Resources {
        let mut running = Resources::default();
        for container in &self.containers {
            running.add(&self.current_requests(container));
        }
        let mut sidecars = Resources::default();
        let mut steps = Resources::default();
        for init in &self.init_containers {
            let step = if init.is_sidecar {
                let requests = self.current_requests(&init.container);
                running.add(&requests);
                sidecars.add(&requests);
                sidecars.clone()
            } else {
                init.container.requests.merge(&sidecars)
            };
            steps = Resources::max([&steps, &step]);
        }
        Resources::max([&running, &steps])
    }

    /// Returns the current requests of a container.
    ///
    /// While the container is resized, they are the largest of spec, status and allocation; the
    /// spec does not count if the resize is infeasible.
    fn current_requests(&self, container: &ContainerResources) -> Resources {
        match &container.status {
            None => container.requests.clone(),
            Some(StatusResources { requests, allocated }) if self.is_resize_infeasible => {
                Resources::max([requests, allocated])
            }
            Some(StatusResources { requests, allocated }) => {
                Resources::max([&container.requests, requests, allocated])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(list: &[(&str, i64)]) -> Resources {
        list.iter().map(|&(name, n)| (name, Quantity::from_millis(n))).collect()
    }

    fn cpu(millis: i64) -> ContainerResources {
        ContainerResources { requests: self::millis(&[("cpu", millis)]), status: None }
    }

    fn with_status(spec: i64, status: i64, allocated: i64) -> ContainerResources {
        let status = StatusResources {
            requests: millis(&[("cpu", status)]),
            allocated: millis(&[("cpu", allocated)]),
        };
        ContainerResources { status: Some(status), ..cpu(spec) }
    }

    fn init(container: ContainerResources) -> InitContainerResources {
        InitContainerResources { container, is_sidecar: false }
    }

    fn sidecar(container: ContainerResources) -> InitContainerResources {
        InitContainerResources { container, is_sidecar: true }
    }

    #[test]
    fn init_containers_count_with_the_sidecars_before_them() {
        #[rustfmt::skip]
        let cases = [
            ("20/A33",          vec![cpu(6_000)], vec![init(cpu(10_000)), sidecar(cpu(4_900))],  10_900),
            ("20/A34",          vec![cpu(6_000)], vec![sidecar(cpu(4_900)), init(cpu(5_000))],   10_900),
            ("20/A35",          vec![cpu(5_000)], vec![sidecar(cpu(4_900)), init(cpu(6_000))],   10_900),
            ("init alone",      vec![cpu(1_000)], vec![init(cpu(3_000)), init(cpu(2_000))],      3_000),
            ("smaller init",    vec![cpu(1_000), cpu(3_000)], vec![init(cpu(2_000))],            4_000),
            ("two sidecars",    vec![cpu(1_000)], vec![sidecar(cpu(1_000)), sidecar(cpu(2_000))], 4_000),
            ("sidecar resized", vec![cpu(1_000)], vec![sidecar(with_status(1_000, 2_000, 3_000))], 4_000),
            ("init's status is not read", vec![], vec![init(with_status(1_000, 2_000, 3_000))],  1_000),
        ];
        for (case, containers, init_containers, expected) in cases {
            let input = PodResources { containers, init_containers, ..PodResources::default() };
            assert_eq!(
                effective_requests(&input).amount(CPU),
                Quantity::from_millis(expected),
                "{case}"
            );
        }
    }

    #[test]
    fn a_container_that_is_resized_counts_with_the_larger_size() {
        #[rustfmt::skip]
        let cases = [
            ("20/A37",           with_status(2_000, 0, 6_000),     false, 6_000),
            ("20/A37",           with_status(6_000, 0, 2_000),     false, 6_000),
            ("20/A37",           cpu(2_000),                       false, 2_000),
            ("actual size",      with_status(2_000, 7_000, 6_000), false, 7_000),
            ("infeasible",       with_status(9_000, 2_000, 3_000), true,  3_000),
            ("no status at all", cpu(9_000),                       true,  9_000),
        ];
        for (case, container, is_resize_infeasible, expected) in cases {
            let containers = vec![container];
            let input = PodResources { containers, is_resize_infeasible, ..Default::default() };
            assert_eq!(
                effective_requests(&input).amount(CPU),
                Quantity::from_millis(expected),
                "{case}"
            );
        }
    }

    #[test]
    fn pod_level_requests_replace_those_of_the_containers() {
        let containers = ["cpu", "memory", "gpu"].map(|name| (name, 4_000));
        #[rustfmt::skip]
        let cases = [
            ("20/A36",     &[("cpu", 9_900)][..],                  &[][..],           &[("cpu", 9_900), ("memory", 4_000), ("gpu", 4_000)][..]),
            ("20/A36",     &[("cpu", 3_000)],                      &[],               &[("cpu", 3_000), ("memory", 4_000), ("gpu", 4_000)]),
            ("20/A36",     &[("cpu", 9_900)],                      &[("cpu", 1_000)], &[("cpu", 10_900), ("memory", 4_000), ("gpu", 4_000)]),
            ("20/A38",     &[],                                    &[("cpu", 2_000)], &[("cpu", 6_000), ("memory", 4_000), ("gpu", 4_000)]),
            ("huge pages", &[("hugepages-2Mi", 1_000)],            &[],               &[("cpu", 4_000), ("memory", 4_000), ("gpu", 4_000), ("hugepages-2Mi", 1_000)]),
            ("others",     &[("gpu", 1_000), ("cpu", 1_000)],      &[],               &[("cpu", 1_000), ("memory", 4_000), ("gpu", 4_000)]),
        ];
        for (case, pod_level, overhead, expected) in cases {
            let input = PodResources {
                containers: vec![ContainerResources {
                    requests: millis(&containers),
                    status: None,
                }],
                pod_level: millis(pod_level),
                overhead: millis(overhead),
                ..PodResources::default()
            };
            let mut expected = millis(expected);
            expected.set(PODS, Quantity::from_units(1));
            assert_eq!(effective_requests(&input), expected, "{case}");
        }
    }

    #[test]
    fn a_pod_without_requests_still_counts_as_one_pod() {
        assert_eq!(effective_requests(&PodResources::default()).json(), r#"{"pods":"1"}"#);
    }

    #[test]
    fn limits_of_a_daemon_set_template_replace_missing_requests() {
        let requests = millis(&[("cpu", 1_000)]);
        let limits = millis(&[("cpu", 2_000), ("memory", 3_000)]);
        let expected = millis(&[("cpu", 1_000), ("memory", 3_000)]);
        assert_eq!(requests_defaulted_from_limits(&requests, &limits), expected, "20/C17");
        assert_eq!(
            requests_defaulted_from_limits(&Resources::default(), &limits),
            limits,
            "20/C17"
        );
    }
}
