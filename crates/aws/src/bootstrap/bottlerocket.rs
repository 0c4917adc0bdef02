//! Bottlerocket: settings in TOML, merged over the user's (spec 50 §3.6).
//!
//! Tables and keys come out sorted; upstream's order differs and has no meaning.

use karpenter_api::grammar::format_duration;
use toml::{Table, Value};

use super::bottlerocket_settings::{
    BOOTSTRAP_COMMANDS, KUBERNETES, SettingType, check_setting_type, remove_unknown,
};
use super::{BootstrapError, BootstrapInput, UserData, line_number};

/// Table of the command that mounts instance storage. It sorts before the user's commands.
const MOUNT_COMMAND: &str = "000-mount-instance-storage";
/// Directories for versions that have no default ones.
const STORAGE_DIRECTORIES: [&str; 4] =
    ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"];

pub(super) fn render(input: &BootstrapInput<'_>) -> Result<UserData, BootstrapError> {
    let mut settings = user_settings(input.user_data.unwrap_or_default())?;
    let mut dropped_settings = Vec::new();

    let mut kubernetes = take_typed(&mut settings, "kubernetes", &KUBERNETES)?;
    remove_unknown(&mut kubernetes, &KUBERNETES, "settings.kubernetes", &mut dropped_settings);
    if let Value::Table(kubernetes) = &mut kubernetes {
        set_kubernetes(kubernetes, input);
    }
    settings.insert("kubernetes".to_owned(), kubernetes);

    let mut commands = take_typed(&mut settings, "bootstrap-commands", &BOOTSTRAP_COMMANDS)?;
    remove_unknown(&mut commands, &BOOTSTRAP_COMMANDS, "", &mut Vec::new()); // without a log
    if let Value::Table(commands) = &mut commands {
        if input.is_raid0() {
            commands.insert(MOUNT_COMMAND.to_owned(), mount_command(input));
        }
        if !commands.is_empty() {
            settings.insert("bootstrap-commands".to_owned(), Value::Table(commands.clone()));
        }
    }

    let root = Table::from_iter([("settings".to_owned(), Value::Table(settings))]);
    Ok(UserData { text: root.to_string(), dropped_settings })
}

/// Returns the table `settings` of the user's data; every other top-level key is dropped.
fn user_settings(text: &str) -> Result<Table, BootstrapError> {
    let mut root: Table = text.parse().map_err(|error| toml_error(text, &error))?;
    match root.remove("settings") {
        None => Ok(Table::new()),
        Some(Value::Table(settings)) => Ok(settings),
        Some(other) => Err(type_error("settings", "a table", &other)),
    }
}

/// Removes a table of known types; an absent one is empty.
fn take_typed(
    settings: &mut Table,
    key: &str,
    known: &SettingType,
) -> Result<Value, BootstrapError> {
    let value = settings.remove(key).unwrap_or_else(|| Value::Table(Table::new()));
    check_setting_type(&value, known, &format!("settings.{key}")).map_err(BootstrapError::Toml)?;
    Ok(value)
}

/// Sets the values that Karpenter decides; the labels are merged.
fn set_kubernetes(kubernetes: &mut Table, input: &BootstrapInput<'_>) {
    let mut set = |key: &str, value: Value| {
        kubernetes.insert(key.to_owned(), value);
    };
    set("cluster-name", input.cluster.name.into());
    set("api-server", input.cluster.endpoint.into());
    set("node-taints", node_taints(input));
    if let Some(count) = input.kubelet.max_pods() {
        set("max-pods", i64::from(count).into());
    }
    if let Some(dns) = input.kubelet.first_dns() {
        set("cluster-dns-ip", dns.into());
    }
    match input.cluster.ca_bundle {
        Some(ca) => set("cluster-certificate", ca.into()),
        None => {
            kubernetes.remove("cluster-certificate");
        }
    }
    if !input.labels.is_empty() {
        let labels = kubernetes.entry("node-labels").or_insert_with(|| Table::new().into());
        if let Value::Table(labels) = labels {
            labels.extend(input.labels.iter().map(text_entry));
        }
    }
    set_kubelet(kubernetes, input);
}

/// Overwrites the kubelet settings that the class has.
fn set_kubelet(kubernetes: &mut Table, input: &BootstrapInput<'_>) {
    let kubelet = input.kubelet.managed();
    let grace_periods = kubelet.eviction_soft_grace_period.iter();
    let grace_periods =
        grace_periods.map(|(signal, period)| (signal.clone(), format_duration(*period).into()));
    let tables = [
        ("system-reserved", kubelet.system_reserved.iter().map(text_entry).collect()),
        ("kube-reserved", kubelet.kube_reserved.iter().map(text_entry).collect()),
        ("eviction-hard", kubelet.eviction_hard.iter().map(text_entry).collect()),
        ("eviction-soft", kubelet.eviction_soft.iter().map(text_entry).collect()),
        ("eviction-soft-grace-period", grace_periods.collect::<Table>()),
    ];
    for (key, table) in tables.into_iter().filter(|(_, table)| !table.is_empty()) {
        kubernetes.insert(key.to_owned(), table.into());
    }
    // Bottlerocket's model has the thresholds as texts.
    let percent = |value: Option<i32>| value.map(|value| Value::from(value.to_string()));
    let values = [
        (
            "eviction-max-pod-grace-period",
            kubelet.eviction_max_pod_grace_period.map(|seconds| i64::from(seconds).into()),
        ),
        ("image-gc-high-threshold-percent", percent(kubelet.image_gc_high_threshold_percent)),
        ("image-gc-low-threshold-percent", percent(kubelet.image_gc_low_threshold_percent)),
        ("cpu-cfs-quota-enforced", kubelet.cpu_cfs_quota.map(Value::from)),
    ];
    for (key, value) in values {
        if let Some(value) = value {
            kubernetes.insert(key.to_owned(), value);
        }
    }
}

/// Taints by key, each as `value:Effect`.
fn node_taints(input: &BootstrapInput<'_>) -> Value {
    let mut taints = Table::new();
    for taint in input.taints {
        let text = format!("{}:{}", taint.value.as_deref().unwrap_or_default(), taint.effect);
        let effects = taints.entry(taint.key.as_str()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(effects) = effects {
            effects.push(text.into());
        }
    }
    taints.into()
}

fn mount_command(input: &BootstrapInput<'_>) -> Value {
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if !input.bottlerocket_default_bind {
        bind.extend(STORAGE_DIRECTORIES);
    }
    let command = Table::from_iter([
        (
            "commands".to_owned(),
            Value::from(vec![vec!["apiclient", "ephemeral-storage", "init"], bind]),
        ),
        ("mode".to_owned(), "always".into()),
        ("essential".to_owned(), true.into()),
    ]);
    command.into()
}

fn text_entry((key, value): (&String, &String)) -> (String, Value) {
    (key.clone(), Value::from(value.as_str()))
}

/// Describes a syntax error by its line, without the text of the line.
fn toml_error(text: &str, error: &toml::de::Error) -> BootstrapError {
    let start = error.span().map_or(0, |span| span.start);
    let line = line_number(text.get(..start).unwrap_or_default());
    let problem = error.message().lines().collect::<Vec<_>>().join(", ");
    BootstrapError::Toml(format!("in line {line}, {problem}; Bottlerocket user data must be TOML"))
}

fn type_error(path: &str, expected: &str, found: &Value) -> BootstrapError {
    BootstrapError::Toml(format!("{path}: expected {expected}, found {}", found.type_str()))
}
