//! Options of the AWS provider and their validation (spec 50 §1.1, spec 55 §1).
//!
//! [`definitions`] is the table of flags; [`AwsOptions::from_resolved`] reads their values. All
//! problems are reported together, as one restart should be enough to see them.

use std::time::Duration;

use karpenter_operator::options::{OptionDefinition, ResolvedOptions, ValueKind, ValueSource};

use crate::instance_types::ResolutionOptions;

mod gates;
#[cfg(test)]
mod tests;

pub use gates::{AwsFeatureGates, AwsGate};

const MINUTE: Duration = Duration::from_mins(1);
const COUNT: ValueKind = ValueKind::Int { min: i64::MIN, max: i64::MAX };

/// The options of the AWS provider.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct AwsOptions {
    /// The name of the cluster.
    pub cluster_name: String,
    /// The URL of the API server; empty asks EKS.
    pub cluster_endpoint: String,
    /// The CA bundle of the cluster in base64; empty takes that of the client.
    pub cluster_ca_bundle: String,
    /// Whether no public AWS endpoint can be reached.
    pub isolated_vpc: bool,
    /// Whether EKS knows the Kubernetes version.
    pub eks_control_plane: bool,
    /// The part of the memory that the hypervisor keeps.
    pub vm_memory_overhead_percent: f64,
    /// The SQS queue with interruptions; empty reads none.
    pub interruption_queue: String,
    /// Network interfaces that pods cannot use.
    pub reserved_enis: u32,
    /// Whether node classes are validated without dry runs.
    pub disable_dry_run: bool,
    /// Whether zones with a zonal shift are avoided.
    pub enable_zonal_shift: bool,
    /// How long found images are kept.
    pub ami_refresh_interval: Duration,
    /// How long found subnets are kept.
    pub subnet_refresh_interval: Duration,
    /// How long found security groups are kept.
    pub security_group_refresh_interval: Duration,
    /// The gates of the provider.
    pub feature_gates: AwsFeatureGates,
}

/// All problems of the options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidAwsOptions(pub Vec<String>);

impl AwsOptions {
    /// Returns the options, or all of their problems in the order of the specification.
    pub fn from_resolved(resolved: &ResolvedOptions) -> Result<Self, InvalidAwsOptions> {
        let mut problems = Vec::new();
        let overhead = memory_overhead(resolved, &mut problems);
        let gates = AwsFeatureGates::parse(resolved.text("aws-feature-gates"));
        let gates = gates.unwrap_or_else(|problem| {
            problems.push(format!("parsing feature gates, {problem}"));
            AwsFeatureGates::default()
        });
        let reserved_enis = resolved.int("reserved-enis");
        let options = Self {
            cluster_name: resolved.text("cluster-name").to_owned(),
            cluster_endpoint: resolved.text("cluster-endpoint").to_owned(),
            cluster_ca_bundle: resolved.text("cluster-ca-bundle").to_owned(),
            isolated_vpc: resolved.bool("isolated-vpc"),
            eks_control_plane: resolved.bool("eks-control-plane"),
            vm_memory_overhead_percent: overhead,
            interruption_queue: resolved.text("interruption-queue").to_owned(),
            reserved_enis: u32::try_from(reserved_enis.max(0)).unwrap_or(u32::MAX),
            disable_dry_run: resolved.bool("disable-dry-run"),
            enable_zonal_shift: resolved.bool("enable-zonal-shift"),
            ami_refresh_interval: resolved.duration("ami-refresh-interval"),
            subnet_refresh_interval: resolved.duration("subnet-refresh-interval"),
            security_group_refresh_interval: resolved.duration("security-group-refresh-interval"),
            feature_gates: gates,
        };
        problems.extend(options.problems(reserved_enis));
        if problems.is_empty() { Ok(options) } else { Err(InvalidAwsOptions(problems)) }
    }

    /// Returns the options that the resolution of instance types uses.
    pub fn resolution(&self, region: &str, reserved_capacity: bool) -> ResolutionOptions {
        ResolutionOptions {
            region: region.to_owned(),
            reserved_enis: self.reserved_enis,
            vm_memory_overhead_percent: self.vm_memory_overhead_percent,
            node_class_cel: self.feature_gates.is_enabled(AwsGate::NodeClassCel),
            reserved_capacity,
        }
    }

    fn problems(&self, reserved_enis: i64) -> Vec<String> {
        let short = |name: &str| format!("{name} must be at least 1m");
        let checks = [
            (
                !self.cluster_endpoint.is_empty() && !is_absolute_url(&self.cluster_endpoint),
                "cluster endpoint URL is not valid".to_owned(),
            ),
            (
                self.vm_memory_overhead_percent < 0.0,
                "vm-memory-overhead-percent cannot be negative".to_owned(),
            ),
            (reserved_enis < 0, "reserved-enis cannot be negative".to_owned()),
            (self.cluster_name.is_empty(), "missing field, cluster-name".to_owned()),
            (self.ami_refresh_interval < MINUTE, short("ami-refresh-interval")),
            (self.subnet_refresh_interval < MINUTE, short("subnet-refresh-interval")),
            (
                self.security_group_refresh_interval < MINUTE,
                short("security-group-refresh-interval"),
            ),
        ];
        checks.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, problem)| problem).collect()
    }
}

/// Returns the memory overhead; an unreadable variable counts as not set.
fn memory_overhead(resolved: &ResolvedOptions, problems: &mut Vec<String>) -> f64 {
    const DEFAULT: f64 = 0.075;
    let Some(given) = resolved.value("vm-memory-overhead-percent") else { return DEFAULT };
    match given.text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => number,
        _ => {
            if matches!(given.from, ValueSource::Flag(_)) {
                problems.push(format!(
                    "vm-memory-overhead-percent: {:?} is not a number, use e.g. 0.075",
                    given.text
                ));
            }
            DEFAULT
        }
    }
}

/// Returns whether a text is a URL with a scheme and a host.
fn is_absolute_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && !host.is_empty() && !host.starts_with(':') && !text.contains(char::is_whitespace)
}

/// Returns the options of the AWS provider.
pub fn definitions() -> Vec<OptionDefinition> {
    use ValueKind::{Bool, Duration, Text};
    let option = |flag, env, kind, default: &str, help: &str| OptionDefinition {
        flag,
        env,
        default: default.to_owned(),
        kind,
        help: help.to_owned(),
    };
    let gates = AwsFeatureGates::default().to_string();
    vec![
        option("cluster-name", "CLUSTER_NAME", Text, "", "Name of the cluster. Required."),
        option(
            "cluster-endpoint",
            "CLUSTER_ENDPOINT",
            Text,
            "",
            "URL of the API server for new nodes. Empty asks EKS.",
        ),
        option(
            "cluster-ca-bundle",
            "CLUSTER_CA_BUNDLE",
            Text,
            "",
            "CA bundle of the cluster for new nodes, in base64. Empty takes that of the client.",
        ),
        option(
            "isolated-vpc",
            "ISOLATED_VPC",
            Bool,
            "false",
            "Makes no calls to services without a VPC endpoint, such as pricing and IAM.",
        ),
        option(
            "eks-control-plane",
            "EKS_CONTROL_PLANE",
            Bool,
            "false",
            "Reads the Kubernetes version from EKS.",
        ),
        option(
            "vm-memory-overhead-percent",
            "VM_MEMORY_OVERHEAD_PERCENT",
            Text,
            "0.075",
            "Part of the memory of an instance that the hypervisor keeps.",
        ),
        option(
            "interruption-queue",
            "INTERRUPTION_QUEUE",
            Text,
            "",
            "Name of the SQS queue with interruptions. Empty disables them.",
        ),
        option(
            "reserved-enis",
            "RESERVED_ENIS",
            COUNT,
            "0",
            "Network interfaces of each node that pods cannot use.",
        ),
        option(
            "disable-dry-run",
            "DISABLE_DRY_RUN",
            Bool,
            "false",
            "Validates EC2NodeClasses without dry runs.",
        ),
        option(
            "enable-zonal-shift",
            "ENABLE_ZONAL_SHIFT",
            Bool,
            "false",
            "Launches nothing in zones with an ARC zonal shift.",
        ),
        option(
            "ami-refresh-interval",
            "AMI_REFRESH_INTERVAL",
            Duration,
            "1m",
            "How long found images are kept; at least 1m.",
        ),
        option(
            "subnet-refresh-interval",
            "SUBNET_REFRESH_INTERVAL",
            Duration,
            "1m",
            "How long found subnets are kept; at least 1m.",
        ),
        option(
            "security-group-refresh-interval",
            "SECURITY_GROUP_REFRESH_INTERVAL",
            Duration,
            "1m",
            "How long found security groups are kept; at least 1m.",
        ),
        option(
            "aws-feature-gates",
            "AWS_FEATURE_GATES",
            Text,
            &gates,
            "Gates of the AWS provider as name=bool, separated by commas.",
        ),
    ]
}
