//! The Bottlerocket settings that Karpenter knows, with their types (spec 50 §3.6).

use toml::Value;

/// The type of a setting.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettingType {
    /// A string.
    Text,
    /// A 64-bit integer.
    Integer,
    /// An integer from 0 to 2³²-1.
    Unsigned,
    /// `true` or `false`.
    Boolean,
    /// A list.
    List(&'static SettingType),
    /// A table with any keys.
    Map(&'static SettingType),
    /// A table with these keys.
    Struct(&'static [(&'static str, SettingType)]),
}

use SettingType::{Boolean, Integer, List, Map, Struct, Text, Unsigned};

const TEXTS: SettingType = List(&Text);
const TEXT_MAP: SettingType = Map(&Text);

/// `settings.bootstrap-commands`.
pub(super) const BOOTSTRAP_COMMANDS: SettingType =
    Map(&Struct(&[("commands", List(&TEXTS)), ("mode", Text), ("essential", Boolean)]));

/// `settings.kubernetes`.
pub(super) const KUBERNETES: SettingType = Struct(&[
    ("api-server", Text),
    ("cloud-provider", Text),
    ("cluster-certificate", Text),
    ("cluster-name", Text),
    ("cluster-dns-ip", Text),
    (
        "credential-providers",
        Map(&Struct(&[
            ("enabled", Boolean),
            ("cache-duration", Text),
            ("image-patterns", TEXTS),
            ("environment", TEXT_MAP),
        ])),
    ),
    ("node-labels", TEXT_MAP),
    ("node-taints", Map(&TEXTS)),
    ("max-pods", Integer),
    ("static-pods", Map(&Struct(&[("enabled", Boolean), ("manifest", Text)]))),
    ("eviction-hard", TEXT_MAP),
    ("eviction-soft", TEXT_MAP),
    ("eviction-soft-grace-period", TEXT_MAP),
    ("eviction-max-pod-grace-period", Integer),
    ("kube-reserved", TEXT_MAP),
    ("system-reserved", TEXT_MAP),
    ("allowed-unsafe-sysctls", TEXTS),
    ("server-tls-bootstrap", Boolean),
    ("registry-qps", Integer),
    ("registry-burst", Integer),
    ("event-qps", Integer),
    ("event-burst", Integer),
    ("kube-api-qps", Integer),
    ("kube-api-burst", Integer),
    ("container-log-max-size", Text),
    ("container-log-max-files", Integer),
    ("cpu-manager-policy", Text),
    ("cpu-manager-policy-options", TEXTS),
    ("cpu-manager-reconcile-period", Text),
    ("memory-manager-policy", Text),
    (
        "memory-manager-reserved-memory",
        Map(&Struct(&[
            ("enabled", Boolean),
            ("memory", Text),
            ("hugepages-2Mi", Text),
            ("hugepages-1Gi", Text),
        ])),
    ),
    ("topology-manager-scope", Text),
    ("topology-manager-policy", Text),
    (
        "topology-manager-policy-options",
        Struct(&[("prefer-closest-numa-nodes", Boolean), ("max-allowable-numa-nodes", Integer)]),
    ),
    ("image-gc-high-threshold-percent", Text),
    ("image-gc-low-threshold-percent", Text),
    ("ids-per-pod", Integer),
    ("cpu-cfs-quota-enforced", Boolean),
    ("shutdown-grace-period", Text),
    ("shutdown-grace-period-for-critical-pods", Text),
    ("cluster-domain", Text),
    ("seccomp-default", Boolean),
    ("pod-pids-limit", Integer),
    ("device-ownership-from-security-context", Boolean),
    ("single-process-oom-kill", Boolean),
    ("container-log-max-workers", Integer),
    ("container-log-monitor-interval", Text),
    ("hostname-override-source", Text),
    ("log-level", Unsigned),
]);

impl SettingType {
    fn name(self) -> &'static str {
        match self {
            Text => "a string",
            Integer => "an integer",
            Unsigned => "an integer from 0 to 4294967295",
            Boolean => "true or false",
            List(_) => "an array",
            Map(_) | Struct(_) => "a table",
        }
    }
}

/// Checks the types of all known keys; the error names the path and both types.
pub(super) fn check_setting_type(
    value: &Value,
    expected: &SettingType,
    path: &str,
) -> Result<(), String> {
    match (expected, value) {
        (Text, Value::String(_)) | (Integer, Value::Integer(_)) | (Boolean, Value::Boolean(_)) => {
            Ok(())
        }
        (Unsigned, Value::Integer(number)) if u32::try_from(*number).is_ok() => Ok(()),
        (List(of), Value::Array(items)) => {
            items.iter().enumerate().try_for_each(|(index, item)| {
                check_setting_type(item, of, &format!("{path}[{index}]"))
            })
        }
        (Map(of), Value::Table(table)) => table
            .iter()
            .try_for_each(|(key, value)| check_setting_type(value, of, &format!("{path}.{key}"))),
        (Struct(fields), Value::Table(table)) => {
            fields.iter().try_for_each(|(key, expected)| match table.get(*key) {
                Some(value) => check_setting_type(value, expected, &format!("{path}.{key}")),
                None => Ok(()),
            })
        }
        _ => Err(format!("{path}: expected {}, found {}", expected.name(), value.type_str())),
    }
}

/// Removes unknown keys at any depth and collects their paths, sorted.
pub(super) fn remove_unknown(
    value: &mut Value,
    known: &SettingType,
    path: &str,
    removed: &mut Vec<String>,
) {
    match (known, value) {
        (Map(of), Value::Table(table)) => {
            for (key, value) in table.iter_mut() {
                remove_unknown(value, of, &format!("{path}.{key}"), removed);
            }
        }
        (Struct(fields), Value::Table(table)) => {
            let keys: Vec<_> = table.keys().cloned().collect();
            for key in keys {
                let path = format!("{path}.{key}");
                let field = fields.iter().find(|(name, _)| *name == key);
                if let (Some((_, of)), Some(value)) = (field, table.get_mut(&key)) {
                    remove_unknown(value, of, &path, removed);
                } else {
                    table.remove(&key);
                    removed.push(path);
                }
            }
        }
        _ => {}
    }
}
