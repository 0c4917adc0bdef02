//! Normalisation of label keys and values (spec 10 §10.1).

use std::collections::BTreeMap;

/// The deprecated label keys of Kubernetes, each with its stable replacement.
const KUBERNETES_KEY_ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Other names for label keys and values. Everything that becomes a requirement passes through it,
/// so the algebra compares stable names only.
///
/// The default holds Kubernetes' own five old keys; a provider adds its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aliases {
    keys: BTreeMap<String, String>,
    /// By stable key: written value to stable value.
    values: BTreeMap<String, BTreeMap<String, String>>,
}

impl Default for Aliases {
    fn default() -> Self {
        KUBERNETES_KEY_ALIASES
            .into_iter()
            .fold(Self::none(), |aliases, (alias, key)| aliases.with_key(alias, key))
    }
}

impl Aliases {
    /// Returns no aliases: labels count as written, as the scheduler compares them.
    pub fn none() -> Self {
        Self { keys: BTreeMap::new(), values: BTreeMap::new() }
    }

    /// Also reads `alias` as `key`.
    #[must_use]
    pub fn with_key(mut self, alias: &str, key: &str) -> Self {
        self.keys.insert(alias.to_owned(), key.to_owned());
        self
    }

    /// Also reads the value `alias` of the stable key `key` as `value`.
    #[must_use]
    pub fn with_value(mut self, key: &str, alias: &str, value: &str) -> Self {
        self.values.entry(key.to_owned()).or_default().insert(alias.to_owned(), value.to_owned());
        self
    }

    /// Returns the stable key for a key or its alias.
    pub fn normalize_key<'a>(&'a self, key: &'a str) -> &'a str {
        self.keys.get(key).map_or(key, String::as_str)
    }

    /// Returns the stable value for a value of a stable key.
    pub fn normalize_value(&self, key: &str, value: &str) -> String {
        self.values.get(key).and_then(|values| values.get(value)).map_or(value, |v| v).to_owned()
    }
}
