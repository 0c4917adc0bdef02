//! What the running provider knows about labels and resources (spec 10 §10.1, §10.2).

use std::collections::{BTreeMap, BTreeSet};

use crate::{labels, resources};

/// The keys, values and domains that validation and scheduling treat specially. Two builds differ
/// in this value and in nothing else.
#[derive(Clone, Debug)]
pub struct ProviderRules {
    well_known_labels: BTreeSet<&'static str>,
    well_known_values: BTreeMap<&'static str, &'static [&'static str]>,
    well_known_resources: BTreeSet<&'static str>,
    restricted_domains: BTreeSet<&'static str>,
    aliases: BTreeMap<&'static str, &'static str>,
}

impl ProviderRules {
    /// Returns core's rules with the label domain and the well-known labels of a provider.
    pub fn new(domain: &'static str, well_known: impl IntoIterator<Item = &'static str>) -> Self {
        let mut rules = Self::core();
        rules.well_known_labels.extend(well_known);
        rules.restricted_domains.insert(domain);
        rules
    }

    /// The AWS provider.
    pub fn aws() -> Self {
        let mut provider = Self::new(labels::aws::GROUP, labels::aws::WELL_KNOWN);
        provider.well_known_values.insert(labels::aws::INSTANCE_TENANCY, &labels::aws::TENANCIES);
        provider.well_known_resources.extend(resources::AWS_WELL_KNOWN);
        provider.aliases.extend(labels::aws::ALIASES);
        provider
    }

    /// The KWOK provider.
    pub fn kwok() -> Self {
        Self::new(labels::kwok::GROUP, labels::kwok::WELL_KNOWN)
    }

    fn core() -> Self {
        Self {
            well_known_labels: labels::WELL_KNOWN.into(),
            well_known_values: [(labels::CAPACITY_TYPE, &labels::CAPACITY_TYPES[..])].into(),
            well_known_resources: resources::WELL_KNOWN.into(),
            restricted_domains: [labels::GROUP].into(),
            aliases: labels::ALIASES.into(),
        }
    }

    /// Keys that the provider's instance types and offerings have values for, sorted.
    pub fn well_known_labels(&self) -> impl Iterator<Item = &'static str> {
        self.well_known_labels.iter().copied()
    }

    /// Whether the provider has values for the label.
    pub fn is_well_known_label(&self, key: &str) -> bool {
        self.well_known_labels.contains(key)
    }

    /// The only values that the label can have, sorted, if they are fixed.
    pub fn well_known_values(&self, key: &str) -> Option<&'static [&'static str]> {
        self.well_known_values.get(key).copied()
    }

    /// Whether the provider reports the resource for its instance types by itself.
    pub fn is_well_known_resource(&self, name: &str) -> bool {
        self.well_known_resources.contains(name)
    }

    /// Domains whose labels users may not use, well-known ones apart, sorted.
    pub fn restricted_domains(&self) -> impl Iterator<Item = &'static str> {
        self.restricted_domains.iter().copied()
    }

    /// Old spellings of label keys and the keys that they stand for.
    pub fn aliases(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.aliases.iter().map(|(old, key)| (*old, *key))
    }

    /// The key that an old spelling stands for, or the key itself.
    pub fn normalize<'a>(&self, key: &'a str) -> &'a str {
        self.aliases.get(key).copied().unwrap_or(key)
    }

    /// Why users may not use the label, if they may not.
    ///
    /// Unlike the CEL rule of the schema (spec 10 §1.6) this wants a dot before a restricted
    /// domain and applies to keys with a slash only.
    pub fn restricted_label(&self, key: &str) -> Option<String> {
        if self.is_well_known_label(key) {
            return None;
        }
        let domain = labels::domain(key);
        let in_domain = |restricted: &&str| {
            domain
                .strip_suffix(restricted)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if !self.restricted_domains.iter().any(in_domain) && !labels::RESTRICTED.contains(&key) {
            return None;
        }
        let well_known = join(self.well_known_labels());
        let domains = join(self.restricted_domains());
        Some(format!(
            "using label {key} is not allowed as it might interfere with the internal provisioning \
             logic; specify a well known label: [{well_known}], or a custom label that does not use \
             a restricted domain: [{domains}]"
        ))
    }
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restricted_domains_need_a_dot_boundary() {
        let aws = ProviderRules::aws();
        #[rustfmt::skip]
        let cases = [
            // key                           restricted
            ("karpenter.sh/unknown",          true),
            ("sub.karpenter.sh/unknown",      true),
            ("notkarpenter.sh/x",             false), // only the schema refuses it
            ("karpenter.sh",                  false), // no slash, no domain
            ("karpenter.sh/nodepool",         false), // well known
            ("karpenter.k8s.aws/foo",         true),
            (labels::aws::EC2_NODE_CLASS,     true),
            (labels::aws::INSTANCE_CPU,       false),
            ("karpenter.kwok.sh/foo",         false), // another provider's domain
            (labels::HOSTNAME,                true),
            ("kubernetes.io/test",            false),
            ("example.com/a",                 false),
        ];
        for (key, restricted) in cases {
            assert_eq!(aws.restricted_label(key).is_some(), restricted, "{key}");
        }
        assert!(ProviderRules::kwok().restricted_label("karpenter.kwok.sh/foo").is_some());
        assert!(ProviderRules::kwok().restricted_label("karpenter.k8s.aws/foo").is_none());
    }

    #[test]
    fn a_restricted_label_error_lists_the_allowed_labels() {
        assert_eq!(
            ProviderRules::kwok().restricted_label("kubernetes.io/hostname").unwrap(),
            "using label kubernetes.io/hostname is not allowed as it might interfere with the \
             internal provisioning logic; specify a well known label: \
             [karpenter.kwok.sh/instance-cpu karpenter.kwok.sh/instance-family \
             karpenter.kwok.sh/instance-memory karpenter.kwok.sh/instance-size \
             karpenter.sh/capacity-type karpenter.sh/nodepool kubernetes.io/arch kubernetes.io/os \
             node.kubernetes.io/instance-type node.kubernetes.io/windows-build \
             topology.kubernetes.io/region topology.kubernetes.io/zone], or a custom label that \
             does not use a restricted domain: [karpenter.kwok.sh karpenter.sh]"
        );
    }

    #[test]
    fn aliases_stand_for_stable_keys() {
        let ebs_zone = "topology.ebs.csi.aws.com/zone";
        assert_eq!(ProviderRules::aws().normalize(ebs_zone), labels::ZONE);
        assert_eq!(ProviderRules::kwok().normalize(ebs_zone), ebs_zone);
        assert_eq!(ProviderRules::kwok().normalize("beta.kubernetes.io/os"), labels::OS);
    }
}
