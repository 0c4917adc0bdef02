//! The one table of core's options (spec 40 §7.2, spec 45 §2), with our own.

use super::flags::{OptionDefinition, ValueKind};
use super::gates::FeatureGates;

/// Accepts any integer.
const ANY_INTEGER: ValueKind = ValueKind::Int { min: i64::MIN, max: i64::MAX };
const PORT: ValueKind = ValueKind::Int { min: 0, max: 65535 };

/// Levels of logs; nothing is `info`.
pub(super) const LOG_LEVELS: &[&str] = &["", "debug", "info", "error"];

/// Every option of core, in the order in which help lists them.
pub fn definitions() -> Vec<OptionDefinition> {
    definitions_with(Vec::new())
}

/// Returns the options of core and of a provider, which help lists after upstream's.
pub fn definitions_with(provider: Vec<OptionDefinition>) -> Vec<OptionDefinition> {
    let mut all = upstream_definitions();
    all.extend(provider);
    all.push(OptionDefinition {
        flag: "consolidation-search",
        env: "CONSOLIDATION_SEARCH",
        default: "best".to_owned(),
        kind: ValueKind::OneOf(&["best", "deep", "upstream"]),
        help:
            "karpenter-rs only: how far consolidation looks. `upstream` stops where upstream does; \
               `deep` also replaces several nodes by fewer, and leaves out zones that are too dear."
                .to_owned(),
    });
    all
}

fn upstream_definitions() -> Vec<OptionDefinition> {
    let row = |flag, env, default: &str, kind, help: &str| OptionDefinition {
        flag,
        env,
        default: default.to_owned(),
        kind,
        help: help.to_owned(),
    };
    #[rustfmt::skip]
    let rows = vec![
        row("karpenter-service", "KARPENTER_SERVICE", "", ValueKind::Text,
            "Name of the webhook service of old versions. Read and not used."),
        row("metrics-port", "METRICS_PORT", "8080", PORT,
            "Port of /metrics. 0 takes any that is free."),
        row("health-probe-port", "HEALTH_PROBE_PORT", "8081", PORT,
            "Port of /healthz and /readyz. 0 takes any that is free."),
        row("kube-client-qps", "KUBE_CLIENT_QPS", "200", ANY_INTEGER,
            "Requests per second that the API server gets on average."),
        row("kube-client-burst", "KUBE_CLIENT_BURST", "300", ANY_INTEGER,
            "Requests that the API server may get at once."),
        row("enable-profiling", "ENABLE_PROFILING", "false", ValueKind::Bool,
            "Adds /debug/pprof to the metrics port."),
        row("disable-controller-warmup", "DISABLE_CONTROLLER_WARMUP", "true", ValueKind::Bool,
            "Changes nothing here: a standby always watches, is ready, and takes over at once."),
        row("disable-leader-election", "DISABLE_LEADER_ELECTION", "false", ValueKind::Bool,
            "Works without a lease. Only for a single replica."),
        row("disable-cluster-state-observability", "DISABLE_CLUSTER_STATE_OBSERVABILITY", "false", ValueKind::Bool,
            "Leaves out the metrics of pods, nodes and NodePools, and the metrics and events of status conditions."),
        row("leader-election-name", "LEADER_ELECTION_NAME", "karpenter-leader-election", ValueKind::Text,
            "Name of the Lease."),
        row("leader-election-namespace", "LEADER_ELECTION_NAMESPACE", "", ValueKind::Text,
            "Namespace of the Lease; empty is that of the pod. Outside of a cluster it has to be set."),
        row("memory-limit", "MEMORY_LIMIT", "-1", ANY_INTEGER,
            "Memory of the container in bytes; a hint to the allocator."),
        row("cpu-requests", "CPU_REQUESTS", "1000", ANY_INTEGER,
            "CPU of the container in millicores: the more, the more work is done at the same time."),
        row("log-level", "LOG_LEVEL", "info", ValueKind::OneOf(LOG_LEVELS),
            "The least level that is logged."),
        row("log-output-paths", "LOG_OUTPUT_PATHS", "stdout", ValueKind::Text,
            "Where logs go: stdout, stderr and files, separated by commas."),
        row("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", "stderr", ValueKind::Text,
            "Where problems of logging itself are told: stdout, stderr and files, separated by commas."),
        row("batch-max-duration", "BATCH_MAX_DURATION", "10s", ValueKind::Duration,
            "The longest that pending pods are gathered before a decision."),
        row("batch-idle-duration", "BATCH_IDLE_DURATION", "1s", ValueKind::Duration,
            "Pods are gathered until none has come for so long."),
        row("preference-policy", "PREFERENCE_POLICY", "Respect", ValueKind::OneOf(&["Respect", "Ignore"]),
            "Treatment of preferences: preferred affinities and spread constraints that may be broken."),
        row("min-values-policy", "MIN_VALUES_POLICY", "Strict", ValueKind::OneOf(&["Strict", "BestEffort"]),
            "Treatment of minValues that cannot be met: refuse, or lower them."),
        row("ignore-dra-requests", "IGNORE_DRA_REQUESTS", "true", ValueKind::Bool,
            "Leaves pods with ResourceClaims alone."),
        row("legacy-node-repair", "LEGACY_NODE_REPAIR", "false", ValueKind::Bool,
            "With the gate NodeRepair: repairs as before v1.15, by replacement alone and outside of budgets."),
        row("feature-gates", "FEATURE_GATES", &FeatureGates::default_text(), ValueKind::Text,
            "Pairs such as NodeOverlay=true,CapacityBuffer=true. Gates that are not named keep their defaults."),
        row("scheduler-config", "SCHEDULER_CONFIG", "", ValueKind::Text,
            "Default spread constraints of kube-scheduler, as YAML or JSON text, not a path."),
    ];
    rows
}
