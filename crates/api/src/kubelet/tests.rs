//! Tests of the checks of `spec.kubelet`, and of the managed settings.

use serde_json::json;

use super::*;

fn config(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(config) => config,
        other => panic!("not an object: {other}"),
    }
}

fn structure(value: Value) -> Result<(), String> {
    check_structure(&config(value)).map_err(|invalid| {
        assert_eq!(invalid.reason, "InvalidKubeletConfiguration");
        invalid.message
    })
}

#[test]
fn kubelet_configurations_pass() {
    for value in [
        json!({}),
        json!({"maxPods": 110, "podsPerCore": 10, "cpuCFSQuota": false, "clusterDNS": ["10.0.0.10", "10.0.0.11"]}),
        json!({"kubeReserved": {"cpu": "200m", "memory": "100Mi"}, "systemReserved": {"ephemeral-storage": "1Gi", "pid": "1000"}}),
        json!({"evictionHard": {"memory.available": "5%", "nodefs.available": "500Mi", "pid.available": "0.5%"}}),
        json!({"evictionSoft": {"memory.available": "10%"}, "evictionSoftGracePeriod": {"memory.available": "1m"}}),
        json!({"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 60}),
        json!({"maxPods": 0, "podsPerCore": 0, "evictionMaxPodGracePeriod": 0}),
        json!({"serializeImagePulls": false, "registryPullQPS": 5, "syncFrequency": "1m", "featureGates": {"A": true}}),
        json!({"logging": {"format": "json", "flushFrequency": "5s", "verbosity": 2, "options": {"json": {"infoBufferSize": "100Mi", "splitStream": true}}}}),
        json!({"logging": {"flushFrequency": 5_000_000_000u64}, "reservedMemory": [{"numaNode": 0, "limits": {"memory": 5}}]}),
        json!({"maxPods": "vcpus * 10", "kubeReserved": {"memory": "memory_mib * 0.1"}, "systemReserved": {"cpu": "vcpus * 10m"}}),
        json!({"maxPods": null, "clusterDNS": null, "logging": null, "cpuCFSQuotaPeriod": null}),
    ] {
        assert_eq!(structure(value.clone()), Ok(()), "{value}");
    }
}

/// Messages on the right were printed by upstream's decoder (sigs.k8s.io/json on k8s.io/kubelet
/// v0.36.3).
#[test]
fn keys_and_types_are_checked_at_every_depth() {
    #[rustfmt::skip]
    let cases = [
        ("10/EC-21", json!({"foo": 1, "bar": 2}), r#"unknown field "bar"; spec.kubelet: unknown field "foo""#),
        ("10/EC-21", json!({"maxPods": true}), "json: cannot unmarshal bool into Go struct field KubeletConfiguration.maxPods of type int32"),
        ("10/EC-21", json!({"podsPerCore": "ten"}), "json: cannot unmarshal string into Go struct field KubeletConfiguration.podsPerCore of type int32"),
        ("", json!({"MaxPods": 3}), r#"unknown field "MaxPods""#),
        ("", json!({"logging": {"foo": 1, "verbosity": 1}}), r#"unknown field "logging.foo""#),
        ("", json!({"logging": {"options": {"json": {"infoBufferSize": "1Ki", "z": 1}}}}), r#"unknown field "logging.options.json.z""#),
        ("", json!({"logging": {"vmodule": [{"x": 1}, {"y": 1}]}}), r#"unknown field "logging.vmodule[0].x"; spec.kubelet: unknown field "logging.vmodule[1].y""#),
        ("", json!({"podPidsLimit": 1.5}), "json: cannot unmarshal number 1.5 into Go struct field KubeletConfiguration.podPidsLimit of type int64"),
        ("", json!({"port": 99_999_999_999u64}), "json: cannot unmarshal number 99999999999 into Go struct field KubeletConfiguration.port of type int32"),
        ("", json!({"logging": {"verbosity": -1}}), "json: cannot unmarshal number -1 into Go struct field LoggingConfiguration.logging.verbosity of type v1.VerbosityLevel"),
        ("", json!({"logging": {"vmodule": [{"filePattern": 1}]}}), "json: cannot unmarshal number into Go struct field VModuleItem.logging.vmodule.filePattern of type string"),
        ("", json!({"logging": {"options": {"text": {"splitStream": "x"}}}}), "json: cannot unmarshal string into Go struct field TextOptions.logging.options.text.OutputRoutingOptions.splitStream of type bool"),
        ("", json!({"logging": {"options": {"text": {"infoBufferSize": "x"}}}}), "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("", json!({"logging": {"flushFrequency": 1.5}}), r#"invalid duration "1.5": json: cannot unmarshal number 1.5 into Go value of type time.Duration"#),
        ("", json!({"logging": {"flushFrequency": {}}}), r#"invalid duration "{}": json: cannot unmarshal object into Go value of type time.Duration"#),
        ("", json!({"syncFrequency": "x"}), r#"time: invalid duration "x""#),
        ("", json!({"syncFrequency": null}), r#"time: invalid duration """#),
        ("", json!({"syncFrequency": 5}), "json: cannot unmarshal number into Go struct field KubeletConfiguration.syncFrequency of type string"),
        ("", json!({"clusterDNS": "x"}), "json: cannot unmarshal string into Go struct field KubeletConfiguration.clusterDNS of type []string"),
        ("", json!({"clusterDNS": [1]}), "json: cannot unmarshal number into Go struct field KubeletConfiguration.clusterDNS of type string"),
        ("", json!({"evictionHard": []}), "json: cannot unmarshal array into Go struct field KubeletConfiguration.evictionHard of type map[string]string"),
        ("", json!({"kubeReserved": {"cpu": 1}}), "json: cannot unmarshal number into Go struct field KubeletConfiguration.kubeReserved of type string"),
        ("", json!({"authentication": "x"}), "json: cannot unmarshal string into Go struct field KubeletConfiguration.authentication of type v1beta1.KubeletAuthentication"),
        ("", json!({"authentication": {"x509": {"clientCAFile": 1}}}), "json: cannot unmarshal number into Go struct field KubeletX509Authentication.authentication.x509.clientCAFile of type string"),
        ("", json!({"authorization": {"mode": 1}}), "json: cannot unmarshal number into Go struct field KubeletAuthorization.authorization.mode of type v1beta1.KubeletAuthorizationMode"),
        ("", json!({"apiVersion": 1, "kind": 2}), "json: cannot unmarshal number into Go struct field KubeletConfiguration.TypeMeta.apiVersion of type string"),
        ("", json!({"reservedMemory": {}}), "json: cannot unmarshal object into Go struct field KubeletConfiguration.reservedMemory of type []v1beta1.MemoryReservation"),
        // The first type error is the only message, and a text that does not parse beats it.
        ("", json!({"maxOpenFiles": true, "address": 1, "foo": 1}), "json: cannot unmarshal number into Go struct field KubeletConfiguration.address of type string"),
        ("", json!({"syncFrequency": "y", "address": 1}), r#"time: invalid duration "y""#),
    ];
    for (id, value, message) in cases {
        let expected = Err(format!("spec.kubelet: {message}"));
        assert_eq!(structure(value.clone()), expected, "{id}: {value}");
    }
}

#[test]
fn an_invalid_document_returns_a_short_message() {
    let junk = (0..1000).map(|n| (format!("k{n}"), json!(1))).collect();
    let message = check_structure(&junk).unwrap_err().message;
    assert_eq!(message.split("; ").count(), 100);
}

#[test]
fn kubelet_settings_are_checked_for_consistency() {
    #[rustfmt::skip]
    let cases = [
        (json!({"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]}),
            "spec.kubelet.registerWithTaints: can't be set, Karpenter sets it from the NodeClaim's taints so the node registers unschedulable until it's ready"),
        (json!({"evictionMinimumReclaim": {"notASignal": "500Mi"}}),
            r#"spec.kubelet.evictionMinimumReclaim: "notASignal" isn't a valid eviction signal, must be one of memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available"#),
        (json!({"evictionHard": {"memory.available": "lots"}}),
            r#"spec.kubelet.evictionHard[memory.available]: "lots" must be a percentage or a resource quantity"#),
        (json!({"evictionHard": {"memory.available": "101%"}}),
            r#"spec.kubelet.evictionHard[memory.available]: "101%" must be a percentage or a resource quantity"#),
        (json!({"evictionHard": {"memory.available": ""}}),
            r#"spec.kubelet.evictionHard[memory.available]: "" must be a percentage or a resource quantity"#),
        (json!({"evictionHard": {"memory.available": "-1Gi"}}),
            r#"spec.kubelet.evictionHard[memory.available]: "-1Gi" can't be a negative resource quantity"#),
        (json!({"evictionSoft": {"memory.available": "1%"}, "evictionSoftGracePeriod": {"memory.available": "soon"}}),
            r#"spec.kubelet.evictionSoftGracePeriod[memory.available]: "soon" must be a duration"#),
        (json!({"evictionSoft": {"memory.available": "1%"}, "evictionSoftGracePeriod": {"memory.available": "-1m"}}),
            r#"spec.kubelet.evictionSoftGracePeriod[memory.available]: "-1m" can't be a negative duration"#),
        (json!({"evictionSoft": {"memory.available": "1%"}}),
            "spec.kubelet.evictionSoft[memory.available]: has no matching evictionSoftGracePeriod"),
        (json!({"evictionSoftGracePeriod": {"memory.available": "1m"}}),
            "spec.kubelet.evictionSoftGracePeriod[memory.available]: has no matching evictionSoft"),
        (json!({"systemReserved": {"gpu": "1"}}),
            r#"spec.kubelet.systemReserved: "gpu" isn't a reservable resource, must be one of cpu, memory, ephemeral-storage, pid"#),
        (json!({"kubeReserved": {"cpu": "-1"}}),
            r#"spec.kubelet.kubeReserved[cpu]: "-1" can't be a negative resource quantity"#),
        (json!({"imageGCLowThresholdPercent": 101}), "spec.kubelet.imageGCLowThresholdPercent: 101 must be between 0 and 100"),
        (json!({"evictionMaxPodGracePeriod": -1}), "spec.kubelet.evictionMaxPodGracePeriod: -1 can't be negative"),
        (json!({"maxPods": -1}), "spec.kubelet.maxPods: -1 can't be negative"),
        (json!({"imageGCHighThresholdPercent": 70, "imageGCLowThresholdPercent": 70}),
            "spec.kubelet: imageGCHighThresholdPercent (70) must be greater than imageGCLowThresholdPercent (70)"),
    ];
    for (value, message) in cases {
        assert_eq!(structure(value.clone()), Err(message.to_owned()), "{value}");
    }
}

#[test]
fn all_kubelet_errors_are_reported_at_once() {
    let message = structure(json!({
        "podsPerCore": -1,
        "kubeReserved": {"gpu": "1", "cpu": "-1"},
        "evictionHard": {"notASignal": "5%"},
    }))
    .unwrap_err();
    let fields: Vec<_> = message.split("; ").map(|m| m.split(':').next().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "spec.kubelet.evictionHard",
            "spec.kubelet.kubeReserved[cpu]",
            "spec.kubelet.kubeReserved",
            "spec.kubelet.podsPerCore",
        ],
        "10/EC-32"
    );
}

#[test]
fn kubelet_expressions_need_their_feature_gate() {
    let disabled = Err(InvalidKubelet {
        reason: "KubeletExpressionsDisabled",
        message:
            "spec.kubelet contains a CEL expression, but the NodeClassCEL feature gate is disabled"
                .to_owned(),
    });
    #[rustfmt::skip]
    let cases = [
        (json!({"maxPods": "vcpus * 10"}), true), // 10/EC-31
        (json!({"maxPods": "10"}), true), // a string is an expression whatever it says
        (json!({"kubeReserved": {"memory": "memory_mib * 0.1"}}), true),
        (json!({"systemReserved": {"cpu": "vcpus"}}), true),
        (json!({"systemReserved": {"cpu": ""}}), true),
        (json!({"systemReserved": {"cpu": " 1"}}), true),
        (json!({"maxPods": 10, "kubeReserved": {"cpu": "100m"}}), false),
        (json!({"kubeReserved": {"cpu": "m"}}), false), // a quantity: zero
        (json!({"maxPods": null}), false),
        (json!({}), false),
    ];
    for (value, has) in cases {
        let config = config(value.clone());
        assert_eq!(has_expressions(&config), has, "10/EC-31: {value}");
        let off = if has { disabled.clone() } else { Ok(()) };
        assert_eq!(check_expressions(&config, false), off, "10/EC-31: {value}");
        assert_eq!(check_expressions(&config, true), Ok(()), "10/EC-31: {value}");
    }
}

#[test]
fn ami_families_reject_settings_they_would_drop() {
    let serialize = json!({"serializeImagePulls": false});
    let servers = json!({"clusterDNS": ["10.0.0.10", "10.0.0.11"]});
    let pods_per_core = json!({"podsPerCore": 2});
    let both =
        json!({"registryPullQPS": 1, "podsPerCore": 2, "address": "::", "clusterDNS": ["a", "b"]});
    let unapplied = |family: &str, fields: &str| {
        format!(
            "spec.kubelet has fields not applied by the {family} AMI family that would be silently dropped: {fields}"
        )
    };
    let several = |family: &str| {
        format!(
            "spec.kubelet.clusterDNS: the {family} AMI family doesn't accept multiple entries, only one, but 2 were set"
        )
    };
    #[rustfmt::skip]
    let cases = [
        ("10/EC-33", &serialize,     "AL2",          Some(unapplied("AL2", "serializeImagePulls"))),
        ("10/EC-33", &serialize,     "AL2023",       None),
        ("10/EC-33", &serialize,     "Custom",       None),
        ("10/EC-34", &servers,       "Bottlerocket", Some(several("Bottlerocket"))),
        ("",         &servers,       "AL2023",       None),
        ("",         &pods_per_core, "Bottlerocket", Some(unapplied("Bottlerocket", "podsPerCore"))),
        ("",         &pods_per_core, "Windows2022",  None),
        ("",         &both,          "Bottlerocket", Some(format!("{}; {}",
            unapplied("Bottlerocket", "address, podsPerCore, registryPullQPS"), several("Bottlerocket")))),
        ("",         &json!({}),     "AL2",          None),
    ];
    for (id, value, family, message) in cases {
        let expected = message.map_or(Ok(()), |message| {
            Err(InvalidKubelet { reason: "UnsupportedKubeletConfiguration", message })
        });
        assert_eq!(
            check_family(&config(value.clone()), family),
            expected,
            "{id}: {value} on {family}"
        );
    }
}

#[test]
fn managed_settings_are_read_in_their_types() {
    let managed = ManagedSettings::parse(&config(json!({
        "clusterDNS": ["10.0.0.10"],
        "maxPods": 110,
        "podsPerCore": null,
        "kubeReserved": {"cpu": "100m", "memory": null},
        "evictionSoftGracePeriod": {"memory.available": "1m30s"},
        "cpuCFSQuota": false,
        "logging": {"format": "json"},
    })))
    .unwrap();
    let grace = jiff::SignedDuration::from_secs(90);
    let expected = ManagedSettings {
        cluster_dns: vec!["10.0.0.10".to_owned()],
        max_pods: Some(MaxPods::Count(110)),
        kube_reserved: [("cpu", "100m"), ("memory", "")].map(|(k, v)| (k.into(), v.into())).into(),
        eviction_soft_grace_period: [("memory.available".to_owned(), grace)].into(),
        cpu_cfs_quota: Some(false),
        ..ManagedSettings::default()
    };
    assert_eq!(managed, expected);
}

/// Readers of the managed settings rely on step 1 to reject invalid values.
#[test]
fn unparsable_managed_settings_fail_the_structural_check() {
    let unreadable = [
        ("clusterDNS", json!("10.0.0.10")),
        ("maxPods", json!(true)),
        ("podsPerCore", json!("10")),
        ("systemReserved", json!({"cpu": 1})),
        ("kubeReserved", json!({"cpu": 1})),
        ("evictionHard", json!({"memory.available": 5})),
        ("evictionSoft", json!({"memory.available": 5})),
        ("evictionSoftGracePeriod", json!({"memory.available": "5x"})),
        ("evictionMaxPodGracePeriod", json!("30")),
        ("imageGCHighThresholdPercent", json!("80")),
        ("imageGCLowThresholdPercent", json!(1.5)),
        ("cpuCFSQuota", json!("true")),
    ];
    assert_eq!(unreadable.clone().map(|(key, _)| key), MANAGED_KEYS);
    for (key, value) in unreadable {
        let config = config(json!({key: value}));
        assert_eq!(
            ManagedSettings::parse(&config).unwrap_err().to_string(),
            format!("spec.kubelet.{key} is not of its type")
        );
        assert!(check_structure(&config).is_err(), "{key}");
    }
}
