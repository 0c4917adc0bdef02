//! Parses the twelve kubelet settings that Karpenter itself uses (spec 10 §6.6).

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Map, Value};

use crate::grammar::{Amount, parse_duration};

/// Keys of the settings that every image family but Custom applies.
pub const MANAGED_KEYS: [&str; 12] = [
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];

/// The kubelet settings that Karpenter uses. Absent maps and lists are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedSettings {
    /// Addresses of the cluster's DNS servers.
    pub cluster_dns: Vec<String>,
    /// Most pods on a node.
    pub max_pods: Option<MaxPods>,
    /// Most pods for each core.
    pub pods_per_core: Option<i32>,
    /// What the system keeps for itself, as quantities or expressions.
    pub system_reserved: BTreeMap<String, String>,
    /// What the kubelet keeps for itself, as quantities or expressions.
    pub kube_reserved: BTreeMap<String, String>,
    /// Thresholds by signal at which pods are evicted at once.
    pub eviction_hard: BTreeMap<String, String>,
    /// Thresholds by signal at which pods are evicted after a grace period.
    pub eviction_soft: BTreeMap<String, String>,
    /// Those grace periods.
    pub eviction_soft_grace_period: BTreeMap<String, SignedDuration>,
    /// Longest grace period in seconds of a pod that is evicted softly.
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Disk usage above which images are removed.
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Disk usage down to which images are removed.
    pub image_gc_low_threshold_percent: Option<i32>,
    /// Whether CPU limits are enforced.
    pub cpu_cfs_quota: Option<bool>,
}

/// Most pods on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaxPods {
    /// That many.
    Count(i32),
    /// What the expression gives for the instance type.
    Expression(String),
}

/// A setting has the wrong type.
/// Configurations that passed [`check_structure`](super::check_structure) never get here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.kubelet.{0} is not of its type")]
pub struct ManagedSettingError(&'static str);

impl ManagedSettings {
    /// Parses the settings; `null` counts as absent.
    pub fn parse(config: &Map<String, Value>) -> Result<Self, ManagedSettingError> {
        let read = SettingReader(config);
        Ok(Self {
            cluster_dns: read.get("clusterDNS", texts)?.unwrap_or_default(),
            max_pods: read.get("maxPods", max_pods)?,
            pods_per_core: read.get("podsPerCore", int32)?,
            system_reserved: read.get("systemReserved", text_map)?.unwrap_or_default(),
            kube_reserved: read.get("kubeReserved", text_map)?.unwrap_or_default(),
            eviction_hard: read.get("evictionHard", text_map)?.unwrap_or_default(),
            eviction_soft: read.get("evictionSoft", text_map)?.unwrap_or_default(),
            eviction_soft_grace_period: read
                .get("evictionSoftGracePeriod", durations)?
                .unwrap_or_default(),
            eviction_max_pod_grace_period: read.get("evictionMaxPodGracePeriod", int32)?,
            image_gc_high_threshold_percent: read.get("imageGCHighThresholdPercent", int32)?,
            image_gc_low_threshold_percent: read.get("imageGCLowThresholdPercent", int32)?,
            cpu_cfs_quota: read.get("cpuCFSQuota", Value::as_bool)?,
        })
    }

    /// Whether anything here has to be evaluated for each instance type.
    pub fn has_expressions(&self) -> bool {
        matches!(self.max_pods, Some(MaxPods::Expression(_))) || self.has_reserved_expressions()
    }

    /// Whether a reservation has to be evaluated for each instance type.
    pub fn has_reserved_expressions(&self) -> bool {
        self.kube_reserved.values().chain(self.system_reserved.values()).any(|v| is_expression(v))
    }
}

/// Whether the value of a reservation is an expression: whatever is not a quantity.
pub fn is_expression(reservation: &str) -> bool {
    reservation.parse::<Amount>().is_err()
}

struct SettingReader<'a>(&'a Map<String, Value>);

impl SettingReader<'_> {
    fn get<T>(
        &self,
        key: &'static str,
        decode: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ManagedSettingError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => decode(value).map(Some).ok_or(ManagedSettingError(key)),
        }
    }
}

/// A map of strings, if it is one. A `null` inside is the empty string, as in Go.
pub(super) fn text_map(value: &Value) -> Option<BTreeMap<String, String>> {
    value.as_object()?.iter().map(|(key, value)| Some((key.clone(), text(value)?))).collect()
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(text).collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn durations(value: &Value) -> Option<BTreeMap<String, SignedDuration>> {
    text_map(value)?
        .into_iter()
        .map(|(key, text)| Some((key, parse_duration(&text).ok()?)))
        .collect()
}

fn int32(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| number.try_into().ok())
}

fn max_pods(value: &Value) -> Option<MaxPods> {
    match value {
        Value::String(expression) => Some(MaxPods::Expression(expression.clone())),
        _ => int32(value).map(MaxPods::Count),
    }
}
