//! The Bottlerocket cases of spec 50 §3.6.

use serde_json::json;
use toml::{Table, Value};

use super::Example;
use crate::ami_family::{AmiFamily, supports_default_bind};

fn bottlerocket() -> Example {
    Example::of(AmiFamily::Bottlerocket)
}

fn table(text: &str) -> Table {
    text.parse().unwrap()
}

#[test]
fn old_versions_bind_storage_to_explicit_directories() {
    let plain = vec!["apiclient", "ephemeral-storage", "bind"];
    let explicit =
        [&plain[..], &["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]]
            .concat();
    #[rustfmt::skip]
    let cases = [
        (Some("v1.45.0"), &explicit),
        (Some("v1.46.0"), &plain),
        (Some("latest"),  &plain),
        (None,            &explicit),
    ];
    for (version, bind) in cases {
        let mut example = bottlerocket();
        example.is_raid0 = true;
        example.default_bind = supports_default_bind(version);
        let command = &example.settings()["bootstrap-commands"]["000-mount-instance-storage"];
        let init = vec!["apiclient", "ephemeral-storage", "init"];
        assert_eq!(command["commands"], vec![init, bind.clone()].into(), "50/B15: {version:?}");
        assert_eq!(command["mode"], "always".into(), "50/B15");
        assert_eq!(command["essential"], true.into(), "50/B15");
    }
}

#[test]
fn the_users_bootstrap_commands_are_kept() {
    let mut example = bottlerocket().with_user_data(
        "[settings.bootstrap-commands.mine]\ncommands = [[\"apiclient\", \"get\"]]\n\
         mode = \"once\"\nessential = false\nunknown = 1\n",
    );
    let want = table("commands = [[\"apiclient\", \"get\"]]\nmode = \"once\"\nessential = false\n");
    assert_eq!(example.settings()["bootstrap-commands"]["mine"], Value::Table(want), "50/B16");
    example.is_raid0 = true;
    let settings = example.settings();
    let names: Vec<_> = settings["bootstrap-commands"].as_table().unwrap().keys().collect();
    assert_eq!(names, ["000-mount-instance-storage", "mine"], "50/B16");
}

#[test]
fn known_settings_are_merged_and_unknown_ones_dropped() {
    let example = bottlerocket().with_user_data(
        r#"
        other = "dropped"
        [settings.kubernetes]
        "unknown-setting" = "unknown"
        api-server = 'replaceme'
        cloud-provider = 'external'
        cluster-certificate = "replaceme"
        cluster-name = 'replaceme'
        max-pods = 9999999999
        [settings.kubernetes.eviction-hard]
        "memory.available" = "12%"
        [settings.kubernetes.labels]
        "replace" = "me"
        [settings.kubernetes.node-labels]
        "custom-node-label" = "custom"
        "team" = "should-be-overridden"
        [settings.kubernetes.node-taints]
        "replace" = ["me:Schedule"]
        [settings.kubernetes.static-pods.one]
        enabled = true
        typo = 1
        [settings.network]
        hostname = "test.local"
        hosts = [["10.0.0.0", ["test.example.com", "test1.example.com"]]]
        [settings.ntp]
        time-servers = ["169.254.169.123"]
        "#,
    );
    let want = table(
        r#"
        [kubernetes]
        api-server = "https://api.demo"
        cloud-provider = "external"
        cluster-certificate = "Q0EK"
        cluster-name = "demo"
        cluster-dns-ip = "172.20.0.10"
        max-pods = 58
        eviction-hard = { "memory.available" = "12%" }
        static-pods.one.enabled = true
        [kubernetes.node-labels]
        custom-node-label = "custom"
        "karpenter.sh/capacity-type" = "on-demand"
        "karpenter.sh/do-not-sync-taints" = "true"
        "karpenter.sh/nodepool" = "np"
        team = "x"
        [kubernetes.node-taints]
        a = ["b:NoSchedule"]
        "karpenter.sh/unregistered" = [":NoExecute"]
        [network]
        hostname = "test.local"
        hosts = [["10.0.0.0", ["test.example.com", "test1.example.com"]]]
        [ntp]
        time-servers = ["169.254.169.123"]
        "#,
    );
    assert_eq!(example.settings(), want, "50/B17, 50/B19");
    let dropped = [
        "settings.kubernetes.labels",
        "settings.kubernetes.static-pods.one.typo",
        "settings.kubernetes.unknown-setting",
    ];
    assert_eq!(example.render().unwrap().dropped_settings(), dropped, "50/B17: for the log");
}

#[test]
fn kubelet_settings_of_the_class_replace_those_of_the_user() {
    let user = "[settings.kubernetes.eviction-hard]\n\"memory.available\" = \"12%\"\n\
                [settings.kubernetes.eviction-soft]\n\"nodefs.available\" = \"9%\"\n";
    let example = bottlerocket().with_user_data(user).with_kubelet(json!({
        "evictionHard": { "nodefs.available": "5%" },
        "evictionSoftGracePeriod": { "nodefs.available": "90s" },
        "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "cpuCFSQuota": false,
        "kubeReserved": { "cpu": "1" },
        "podsPerCore": 4,
    }));
    let settings = example.settings();
    let kubernetes = settings["kubernetes"].as_table().unwrap();
    let want = table(
        r#"
        eviction-hard = { "nodefs.available" = "5%" }
        eviction-soft = { "nodefs.available" = "9%" }
        eviction-soft-grace-period = { "nodefs.available" = "1m30s" }
        eviction-max-pod-grace-period = 60
        image-gc-high-threshold-percent = "85"
        image-gc-low-threshold-percent = "80"
        cpu-cfs-quota-enforced = false
        kube-reserved = { cpu = "1" }
        "#,
    );
    for (key, value) in &want {
        assert_eq!(kubernetes[key], *value, "50/B19: {key}");
    }
    assert!(!example.text().contains("pods-per-core"), "50 §3.1: Bottlerocket has no such setting");
}

#[test]
fn taints_of_one_key_share_a_list() {
    let mut example = bottlerocket();
    example.taints = vec![super::taint("a", "b", "NoSchedule"), super::taint("a", "", "NoExecute")];
    let taints = &example.settings()["kubernetes"]["node-taints"];
    assert_eq!(taints["a"], vec!["b:NoSchedule", ":NoExecute"].into(), "50 §3.6");
}

#[test]
fn without_dns_the_users_stays() {
    let mut example =
        bottlerocket().with_user_data("[settings.kubernetes]\ncluster-dns-ip = \"1.2.3.4\"\n");
    example.resolved.kube_dns = None;
    example.ca_bundle = None;
    let settings = example.settings();
    assert_eq!(settings["kubernetes"]["cluster-dns-ip"], "1.2.3.4".into(), "50 §3.6");
    assert!(settings["kubernetes"].get("cluster-certificate").is_none());
}

#[test]
fn invalid_user_data_is_an_error_without_its_content() {
    #[rustfmt::skip]
    let cases = [
        ("#!/bin/bash\necho secret\n",                             "invalid UserData in line 2, "),
        ("settings = \"secret\"",                                  "invalid UserData settings: expected a table, found string"),
        ("[settings]\nkubernetes = [\"secret\"]",                  "invalid UserData settings.kubernetes: expected a table, found array"),
        ("[settings.kubernetes]\nmax-pods = \"secret\"",           "invalid UserData settings.kubernetes.max-pods: expected an integer, found string"),
        ("[settings.kubernetes]\nlog-level = -1",                  "invalid UserData settings.kubernetes.log-level: expected an integer from 0 to 4294967295, found integer"),
        ("[settings.kubernetes.node-labels]\nsecret = 1",          "invalid UserData settings.kubernetes.node-labels.secret: expected a string, found integer"),
        ("[settings.kubernetes]\nallowed-unsafe-sysctls = [1]",    "invalid UserData settings.kubernetes.allowed-unsafe-sysctls[0]: expected a string, found integer"),
        ("[settings.bootstrap-commands.x]\nmode = 1",              "invalid UserData settings.bootstrap-commands.x.mode: expected a string, found integer"),
        ("[settings.kubernetes]\na = 1\na = 2",                    "invalid UserData in line 3, "),
        ("[settings.kubernetes]\ncluster-name = \"a\0b\"",         "invalid UserData in line 2, "),
    ];
    for (user_data, want) in cases {
        let error = bottlerocket().with_user_data(user_data).render().unwrap_err().to_string();
        assert!(error.starts_with(want), "50/B18: {user_data:?}: {error}");
        let content = error.replace("node-labels.secret", "");
        assert!(!content.contains("secret") && !error.contains('\n'), "50/B18: {error}");
    }
}

#[test]
fn windows_line_ends_are_toml() {
    let text = "[settings.ntp]\r\ntime-servers = [\"1.1.1.1\"]\r\n";
    let settings = bottlerocket().with_user_data(text).settings();
    assert_eq!(settings["ntp"]["time-servers"], vec!["1.1.1.1"].into());
}
