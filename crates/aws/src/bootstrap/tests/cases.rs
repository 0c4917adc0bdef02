//! The cases of spec 50 §3, "bootstrap".

use serde_json::json;

use super::*;

const LINUX_AND_WINDOWS: [AmiFamily; 4] =
    [AmiFamily::Al2, AmiFamily::Al2023, AmiFamily::Bottlerocket, AmiFamily::Windows2022];

const SCRIPT: &str = "#!/bin/bash\necho \"Running custom user data script\"\n";

/// Asserts that a text has these parts in this order.
#[track_caller]
fn assert_in_order(text: &str, parts: &[&str], id: &str) {
    let mut rest = text;
    for part in parts {
        let (_, after) =
            rest.split_once(part).unwrap_or_else(|| panic!("{id}: no {part:?} in order in {text}"));
        rest = after;
    }
}

#[test]
fn al2_flags_are_in_order() {
    let mut example = Example::of(AmiFamily::Al2).with_kubelet(json!({ "maxPods": 110 }));
    example.resolved.kube_dns = Some("10.0.100.10".parse().unwrap());
    example.is_raid0 = true;
    #[rustfmt::skip]
    let parts = [
        "/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://api.demo' --b64-cluster-ca 'Q0EK' \\\n",
        "--dns-cluster-ip '10.0.100.10' \\\n",
        "--use-max-pods false \\\n",
        "--kubelet-extra-args '--node-labels=\"", "\" --register-with-taints=\"", "\" --max-pods=110' \\\n",
        "--local-disks raid0\n--//--\n",
    ];
    assert_in_order(&example.text(), &parts, "50/B1");
}

#[test]
fn kubelet_flags_are_in_order_and_sorted() {
    let kubelet = json!({
        "cpuCFSQuota": false, "imageGCLowThresholdPercent": 50, "imageGCHighThresholdPercent": 60,
        "evictionMaxPodGracePeriod": 90,
        "evictionSoftGracePeriod": { "nodefs.available": "90s", "memory.available": "3m" },
        "evictionSoft": { "nodefs.available": "10%", "memory.available": "1Gi" },
        "evictionHard": { "memory.available": "5%" },
        "kubeReserved": { "memory": "1Gi", "cpu": "100m" }, "systemReserved": { "pid": "100" },
        "podsPerCore": 4,
    });
    let want = "--max-pods=58 --pods-per-core=4 --system-reserved=\"pid=100\" \
                --kube-reserved=\"cpu=100m,memory=1Gi\" --eviction-hard=\"memory.available<5%\" \
                --eviction-soft=\"memory.available<1Gi,nodefs.available<10%\" \
                --eviction-soft-grace-period=\"memory.available=3m0s,nodefs.available=1m30s\" \
                --eviction-max-pod-grace-period=90 --image-gc-high-threshold=60 \
                --image-gc-low-threshold=50 --cpu-cfs-quota=false'";
    for family in [AmiFamily::Al2, AmiFamily::Windows2022] {
        let text = Example::of(family).with_kubelet(kubelet.clone()).text();
        assert!(text.contains(want), "50/B1: {text}");
    }
}

#[test]
fn al2_merges_archives_and_scripts_to_the_same_result() {
    let archive = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BOUNDARY\"\n\n--BOUNDARY\n\
         Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n{SCRIPT}\n--BOUNDARY--"
    );
    let content_type_first = archive.replace(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BOUNDARY\"",
        "Content-Type: multipart/mixed; boundary=\"BOUNDARY\"\nMIME-Version: 1.0",
    );
    assert_ne!(archive, content_type_first);
    let script = Example::of(AmiFamily::Al2).with_user_data(SCRIPT).text();
    let header = "--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n";
    let (second, closing) = (format!("\n{header}#!/bin/bash -xe\n"), "\n--//--\n");
    assert_in_order(&script, &[header, SCRIPT, &second, closing], "50/B2");
    for user_data in [&archive, &content_type_first, &archive.replace('\n', "\r\n")] {
        let merged = Example::of(AmiFamily::Al2).with_user_data(user_data).text();
        assert_eq!(merged, script, "50/B2: {user_data:?}");
    }
}

#[test]
fn al2_nodes_use_ipv6_if_kube_dns_does() {
    let mut example = Example::of(AmiFamily::Al2);
    example.resolved.kube_dns = Some("fd00:ec2::a".parse().unwrap());
    let parts = ["'Q0EK' \\\n--ip-family ipv6 \\\n--dns-cluster-ip 'fd00:ec2::a' \\\n"];
    assert_in_order(&example.text(), &parts, "50/B3");
    let odd = Example::of(AmiFamily::Al2).with_kubelet(json!({ "clusterDNS": ["resolver"] }));
    assert_in_order(&odd.text(), &["--ip-family ipv6", "'resolver'"], "50/B3: not an address");
    let none = Example { resolved: ResolvedKubelet::default(), ..Example::of(AmiFamily::Al2) };
    let text = none.text();
    assert!(!text.contains("--ip-family") && !text.contains("--dns-cluster-ip"), "50/B3");
}

#[test]
fn the_users_dns_replaces_kube_dns() {
    for family in LINUX_AND_WINDOWS {
        let text = Example::of(family).with_kubelet(json!({ "clusterDNS": ["10.9.9.9"] })).text();
        assert!(text.contains("10.9.9.9"), "50/B4: {family:?}");
        assert!(!text.contains("172.20.0.10"), "50/B4: {family:?}");
    }
}

#[test]
fn labels_that_the_api_server_refuses_are_left_out() {
    #[rustfmt::skip]
    let cases = [
        ("50/B5", "kubernetes.io/x",                              false),
        ("50/B5", "foo.k8s.io/y",                                 false),
        ("50/B5", "node-restriction.kubernetes.io/z",             false),
        ("50/B5", "a.node-restriction.kubernetes.io/z",           false),
        ("50/B6", "karpenter.k8s.aws/ec2nodeclass",               true),
        ("50/B5", "mykubernetes.io/x",                            true),
        ("50/B5", "kubernetes.io",                                true), // no domain
        ("50/B5", "plain",                                        true),
    ];
    for (id, key, want) in cases {
        for family in AmiFamily::ALL {
            let found = node_labels(&labels(&[(key, "v")]), "spot", family);
            assert_eq!(found.contains_key(key), want, "{id}: {key} on {family:?}");
            assert_eq!(found["karpenter.sh/capacity-type"], "spot");
        }
    }
}

#[test]
fn only_custom_nodes_lack_the_label_against_taint_sync() {
    for family in AmiFamily::ALL {
        let found = node_labels(&BTreeMap::new(), "spot", family);
        let has_label = found.contains_key("karpenter.sh/do-not-sync-taints");
        assert_eq!(has_label, family != AmiFamily::Custom, "50/B22: {family:?}");
    }
}

#[test]
fn taints_and_startup_taints_are_registered() {
    let mut example = Example::of(AmiFamily::Al2023);
    example.startup_taints = vec![taint("start", "", "NoExecute")];
    let want = json!([
        { "effect": "NoSchedule", "key": "a", "value": "b" },
        { "effect": "NoExecute", "key": "start" },
        { "effect": "NoExecute", "key": "karpenter.sh/unregistered" },
    ]);
    let config = &example.node_config()["spec"]["kubelet"]["config"];
    assert_eq!(config["registerWithTaints"], want, "50/B7");

    let own = taint("karpenter.sh/unregistered", "mine", "NoExecute");
    assert_eq!(node_taints(std::slice::from_ref(&own), &[]), [own], "50/B7: key and effect count");
    let other = taint("karpenter.sh/unregistered", "", "NoSchedule");
    assert_eq!(node_taints(&[], &[other]).len(), 2, "50/B7: another effect");
}

#[test]
fn only_al2023_passes_other_kubelet_settings_on() {
    let kubelet = json!({
        "topologyManagerPolicy": "best-effort",
        "logging": { "verbosity": 2 },
        "evictionSoftGracePeriod": { "memory.available": "1m" },
    });
    let example = Example::of(AmiFamily::Al2023).with_kubelet(kubelet.clone());
    let config = &example.node_config()["spec"]["kubelet"]["config"];
    assert_eq!(config["topologyManagerPolicy"], "best-effort", "50/B8");
    assert_eq!(config["logging"]["verbosity"], 2, "50/B8");
    assert_eq!(config["evictionSoftGracePeriod"]["memory.available"], "1m", "55/UP-W9");
    let text = Example::of(AmiFamily::Al2).with_kubelet(kubelet).text();
    assert!(!text.contains("topology") && !text.contains("verbosity"), "50/B9: {text}");
}

#[test]
fn max_pods_is_always_an_integer() {
    let max_pods =
        |example: Example| example.node_config()["spec"]["kubelet"]["config"]["maxPods"].clone();
    let al2023 = || Example::of(AmiFamily::Al2023);
    assert_eq!(max_pods(al2023()), 58, "50/B10");
    assert_eq!(max_pods(al2023().with_kubelet(json!({ "maxPods": "vcpus * 10" }))), 58, "50/B11");
    assert_eq!(max_pods(al2023().with_kubelet(json!({ "maxPods": null }))), 58, "50/B10");
    assert_eq!(max_pods(al2023().with_kubelet(json!({ "maxPods": 7 }))), 7, "50/B10");
}

#[test]
fn resolved_reservations_replace_expressions() {
    let mut example = Example::of(AmiFamily::Al2023).with_kubelet(
        json!({ "kubeReserved": { "cpu": "vcpus * 10m" }, "systemReserved": { "cpu": "1" } }),
    );
    example.resolved.kube_reserved = labels(&[("cpu", "80m")]);
    let config = example.node_config()["spec"]["kubelet"]["config"].clone();
    assert_eq!(config["kubeReserved"], json!({ "cpu": "80m" }), "50/B11");
    assert_eq!(config["systemReserved"], json!({ "cpu": "1" }), "50/B11: nothing resolved");
    example.family = AmiFamily::Al2;
    assert_in_order(
        &example.text(),
        &["--system-reserved=\"cpu=1\"", "--kube-reserved=\"cpu=80m\""],
        "50/B11",
    );
}

#[test]
fn al2023_puts_the_users_entries_first() {
    let node_config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";
    let shell = "text/x-shellscript; charset=\"us-ascii\"";
    let archive = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\
         Content-Type: application/node.eks.aws\n\n{node_config}\n--B\n\
         Content-Type: {shell}\n\n{SCRIPT}\n--B--\n"
    );
    let node = "application/node.eks.aws";
    #[rustfmt::skip]
    let cases = [
        ("50/B12", node_config,                     vec![(node, node_config)]),
        ("50/B12", SCRIPT,                          vec![(shell, SCRIPT)]),
        ("50/B12", &archive,                        vec![(node, node_config), (shell, SCRIPT)]),
        ("50/B24", "#cloud-config\npackages: [jq]", vec![(node, "#cloud-config\npackages: [jq]")]),
    ];
    for (id, user_data, want) in cases {
        let text = Example::of(AmiFamily::Al2023).with_user_data(user_data).text();
        let parts = mime::parse(&text).unwrap();
        let (last, first) = parts.split_last().unwrap();
        assert!(last.body.starts_with("# Karpenter Generated NodeConfig\n"), "{id}");
        let found: Vec<_> =
            first.iter().map(|part| (part.headers[0].1.as_str(), part.body.as_str())).collect();
        assert_eq!(found, want, "{id}: {user_data:?}");
    }
}

/// Upstream's own golden input ends so, and the AWS documentation has such archives.
#[test]
fn an_archive_may_end_at_a_boundary_without_dashes() {
    let archive = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
                   Content-Type: text/x-shellscript\n\necho one\n--//";
    for user_data in [archive.to_owned(), format!("{archive}\n"), format!("{archive}\r\n\r\n")] {
        let text = Example::of(AmiFamily::Al2023).with_user_data(&user_data).text();
        let parts = mime::parse(&text).unwrap();
        assert_eq!(parts.len(), 2, "50/B12: {user_data:?}");
        assert_eq!(parts[0].body, "echo one", "50/B12");
    }
}

#[test]
fn al2023_needs_the_service_cidr() {
    for cidr in [None, Some(String::new())] {
        let error = Example { cidr, ..Example::of(AmiFamily::Al2023) }.render().unwrap_err();
        assert_eq!(error.to_string(), "resolving cluster CIDR", "50/B13");
        let cloud = karpenter_operator::cloud::CloudError::from(error);
        assert!(cloud.is(karpenter_operator::cloud::CloudErrorClass::NodeClassNotReady), "50/B13");
    }
    let without = |family| Example { cidr: None, ..Example::of(family) };
    assert!(without(AmiFamily::Al2).render().is_ok(), "50/B13: only AL2023");
}

#[test]
fn raid0_is_applied_by_each_family_in_its_own_way() {
    let raid0 = |family| Example { is_raid0: true, ..Example::of(family) };
    let al2 = raid0(AmiFamily::Al2).text();
    assert!(al2.contains("' \\\n--local-disks raid0\n--//--"), "50/B14");
    let node_config = raid0(AmiFamily::Al2023).node_config();
    let storage = &node_config["spec"]["instance"]["localStorage"];
    assert_eq!(*storage, json!({ "strategy": "RAID0" }), "50/B14");
    let commands = &raid0(AmiFamily::Bottlerocket).settings()["bootstrap-commands"];
    assert!(commands.get("000-mount-instance-storage").is_some(), "50/B14");
    let windows = AmiFamily::Windows2022;
    assert_eq!(raid0(windows).text(), Example::of(windows).text(), "50/B14: ignored");
}

#[test]
fn windows_runs_the_users_script_first() {
    let text = Example::of(AmiFamily::Windows2022).with_user_data("Write-Host \"hi\"").text();
    let parts = [
        "<powershell>\nWrite-Host \"hi\"\n[string]$EKSBootstrapScriptFile = ",
        "\n& $EKSBootstrapScriptFile -EKSClusterName 'demo'",
        "\n</powershell>",
    ];
    assert_in_order(&text, &parts, "50/B20");
}

#[test]
fn custom_user_data_is_used_as_it_is() {
    for user_data in ["special user data", "", "MIME-Version: 1.0\r\nbroken\0", "a = ["] {
        let text = Example::of(AmiFamily::Custom).with_user_data(user_data).text();
        assert_eq!(text, user_data, "50/B21");
    }
    assert_eq!(Example::of(AmiFamily::Custom).text(), "", "50/B21: nothing is merged");
}

#[test]
fn base64_parts_keep_their_body() {
    let archive = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\
                   content-type: text/cloud-config\nContent-Transfer-Encoding: base64\n\n\
                   I2Nsb3VkLWNvbmZpZw==\n--B--\n";
    let part = |family| {
        let text = Example::of(family).with_user_data(archive).text();
        mime::parse(&text).unwrap().swap_remove(0)
    };
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let content_type = header("Content-Type", "text/cloud-config");
    let al2 = part(AmiFamily::Al2);
    assert_eq!(
        al2.headers,
        [header("Content-Transfer-Encoding", "base64"), content_type.clone()],
        "50/B24"
    );
    let al2023 = part(AmiFamily::Al2023);
    assert_eq!(al2023.headers, [content_type], "50/B24");
    assert_eq!(al2.body, "I2Nsb3VkLWNvbmZpZw==", "50/B24");
    assert_eq!(al2023.body, al2.body, "50/B24");
}

#[test]
fn quoted_printable_parts_are_decoded() {
    let archive = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\
                   Content-Type: text/x-shellscript\n\
                   Content-Transfer-Encoding: Quoted-Printable\n\nFOO=3Dbar\nlong=\nline\n--B--\n";
    for family in [AmiFamily::Al2, AmiFamily::Al2023] {
        let text = Example::of(family).with_user_data(archive).text();
        let part = mime::parse(&text).unwrap().swap_remove(0);
        assert_eq!(part.body, "FOO=bar\nlongline", "50 §3.4: {family:?}");
        assert_eq!(part.headers.len(), 1, "50 §3.4: {family:?}");
    }
}
