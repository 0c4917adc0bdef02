//! Labels of metrics. A set of labels is a struct with named fields, so that values cannot end up
//! under the wrong name.

/// The labels of a metric: their names, and the struct that holds values for them.
pub trait LabelSet {
    /// Names, in the order of the fields.
    const NAMES: &'static [&'static str];
    /// The struct, with values that live as long as `'a`.
    type With<'a>: LabelValues;
}

/// Values of labels.
pub trait LabelValues {
    /// Calls the function with the values in the order of [`LabelSet::NAMES`].
    fn with<R>(&self, use_values: impl FnOnce(&[&str]) -> R) -> R;
}

/// No labels at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLabels;

impl LabelSet for NoLabels {
    const NAMES: &'static [&'static str] = &[];
    type With<'a> = NoLabels;
}

impl LabelValues for NoLabels {
    fn with<R>(&self, use_values: impl FnOnce(&[&str]) -> R) -> R {
        use_values(&[])
    }
}

/// Declares structs of labels. For metrics of providers as well.
#[macro_export]
macro_rules! metric_labels {
    ($($(#[$doc:meta])* $name:ident { $($label:ident),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub struct $name<'a> {
            $(pub $label: &'a str,)+
        }

        impl $crate::metrics::LabelSet for $name<'static> {
            const NAMES: &'static [&'static str] = &[$(stringify!($label)),+];
            type With<'a> = $name<'a>;
        }

        impl $crate::metrics::LabelValues for $name<'_> {
            fn with<R>(&self, use_values: impl FnOnce(&[&str]) -> R) -> R {
                use_values(&[$(self.$label),+])
            }
        }
    )+};
}

metric_labels! {
    /// What was built.
    BuildInfo { version, goversion, goarch, commit }
    /// NodeClaims that were created, and why.
    NodeClaimsCreated { reason, nodepool, min_values_relaxed }
    /// Where something ended.
    PoolCapacityZone { nodepool, capacity_type, zone }
    /// What Karpenter decided to disrupt.
    Disrupted { reason, nodepool, capacity_type, consolidation_policy, termination_mode }
    /// What was repaired.
    UnhealthyDisrupted { condition, nodepool, capacity_type, image_id, termination_mode }
    /// Of a NodePool.
    Pool { nodepool }
    /// Of a NodePool in a zone.
    PoolZone { nodepool, zone }
    /// How a reboot ended.
    RebootResult { result }
    /// Of a resource.
    ResourceType { resource_type }
    /// Of a resource of a NodePool.
    PoolResource { resource_type, nodepool }
    /// Of a NodePool, by reason of disruption.
    PoolReason { nodepool, reason }
    /// A pod, and where it is.
    PodState {
        name, namespace, owner, node, scheduled, nodepool, zone, arch, capacity_type,
        instance_type, phase, ready, managed,
    }
    /// Whether pods have DRA claims.
    DynamicResources { dynamic_resources }
    /// A pod.
    PodName { name, namespace }
    /// A pod, and whether it has DRA claims.
    PodNameDynamic { name, namespace, dynamic_resources }
    /// An answer of the API.
    Code { code }
    /// Why.
    Reason { reason }
    /// A call to the cloud.
    CloudCall { controller, method, provider }
    /// A call to the cloud that failed.
    CloudFailure { controller, method, provider, error, nodepool }
    /// Of a controller.
    Controller { controller }
    /// One run of the scheduler.
    SchedulingRun { controller, scheduling_id }
    /// The controller whose plan broke a rule, and the rule.
    ControllerRule { controller, rule }
    /// Pods of a controller by zone.
    ControllerZone { controller, zone }
    /// A kind of disruption.
    ReasonConsolidation { reason, consolidation_type }
    /// A decision to disrupt.
    Decision { decision, reason, consolidation_type }
    /// A decision to disrupt, by NodePool.
    PoolDecision { nodepool, decision, reason, consolidation_type }
    /// A kind of consolidation.
    ConsolidationType { consolidation_type }
    /// A move that was scored.
    Move { decision, nodepool, policy }
    /// A decision to end first.
    TerminateFirst { nodepool, reason, terminate_first_reason }
    /// How a write ended.
    WriteResult { result }
    /// A request to the API.
    ApiRequest { verb, group, version, kind, subresource }
    /// An answer to a request.
    ApiAnswer { code, method }
    /// An answer to a request, and of which server.
    ApiHostAnswer { code, method, host }
    /// A name.
    Name { name }
    /// How a reconcile ended.
    ReconcileResult { controller, result }
    /// A queue.
    Queue { name, controller }
    /// The items of a queue of one priority.
    QueuePriority { name, controller, priority }
}
