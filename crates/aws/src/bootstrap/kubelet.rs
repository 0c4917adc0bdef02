//! The kubelet settings of a node, after all values are known.

use std::collections::BTreeMap;
use std::net::IpAddr;

use karpenter_api::kubelet::{ManagedSettingError, ManagedSettings, MaxPods};
use serde_json::{Map, Value, json};

/// Values that depend on the instance types and the cluster (spec 50 §3.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedKubelet {
    /// Pod count of the instance-type group; stands in unless the class has an integer.
    pub max_pods: i32,
    /// Evaluated `kubeReserved`; an empty map leaves the class's.
    pub kube_reserved: BTreeMap<String, String>,
    /// Evaluated `systemReserved`; an empty map leaves the class's.
    pub system_reserved: BTreeMap<String, String>,
    /// Address of kube-dns; stands in unless the class has `clusterDNS`.
    pub kube_dns: Option<IpAddr>,
}

/// The kubelet settings of a node.
///
/// Invariant: both forms agree. Most families apply the managed settings; AL2023 passes the whole
/// configuration on.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeKubelet {
    managed: ManagedSettings,
    config: Map<String, Value>,
}

impl NodeKubelet {
    /// Returns the settings of `spec.kubelet` with the resolved values in place.
    pub fn resolve(
        config: Option<&Map<String, Value>>,
        resolved: &ResolvedKubelet,
    ) -> Result<Self, ManagedSettingError> {
        let mut config = config.cloned().unwrap_or_default();
        let mut managed = ManagedSettings::parse(&config)?;
        if !matches!(managed.max_pods, Some(MaxPods::Count(_))) {
            managed.max_pods = Some(MaxPods::Count(resolved.max_pods));
            config.insert("maxPods".to_owned(), resolved.max_pods.into());
        }
        if !resolved.kube_reserved.is_empty() {
            managed.kube_reserved.clone_from(&resolved.kube_reserved);
            config.insert("kubeReserved".to_owned(), json!(resolved.kube_reserved));
        }
        if !resolved.system_reserved.is_empty() {
            managed.system_reserved.clone_from(&resolved.system_reserved);
            config.insert("systemReserved".to_owned(), json!(resolved.system_reserved));
        }
        if let (true, Some(address)) = (managed.cluster_dns.is_empty(), resolved.kube_dns) {
            managed.cluster_dns = vec![address.to_string()];
            config.insert("clusterDNS".to_owned(), json!(managed.cluster_dns));
        }
        Ok(Self { managed, config })
    }

    /// Returns the settings that every family but Custom applies.
    pub fn managed(&self) -> &ManagedSettings {
        &self.managed
    }

    /// Returns the whole configuration, as AL2023 gets it.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// The most pods on a node.
    pub(super) fn max_pods(&self) -> Option<i32> {
        match self.managed.max_pods {
            Some(MaxPods::Count(count)) => Some(count),
            _ => None,
        }
    }

    /// The first address of the cluster's DNS; only AL2023 takes more than one.
    pub(super) fn first_dns(&self) -> Option<&str> {
        self.managed.cluster_dns.first().map(String::as_str)
    }
}
