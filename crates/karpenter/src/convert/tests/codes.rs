//! Tests of each code of spec 10 §16.9, one row per code.

use std::collections::BTreeSet;

use super::*;

/// What a row converts, and the finding that it must give.
struct Row(Vec<Value>, Options, &'static str);

fn row(input: Value, finding: &'static str) -> Row {
    Row(vec![input], Options::default(), finding)
}

#[rustfmt::skip]
fn errors() -> Vec<Row> {
    let class_ref = |reference: Value| beta_pool(json!({ "nodeClassRef": reference }), json!({}));
    let provider = json!({ "subnetSelector": { "a": "b" }, "securityGroupSelector": { "a": "b" } });
    let commas = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31";
    let many = json!({ "a": commas, "b": commas, "c": commas, "d": commas, "e": commas, "f": commas });
    let size = |size: Value| json!({ "blockDeviceMappings": [{ "ebs": { "volumeSize": size } }] });
    vec![
        row(provisioner(json!({ "weight": "abc" })), "E00 Provisioner/p spec.weight: expected an integer, found \"abc\""),
        row(provisioner(json!({ "taints": "none" })), "E00 Provisioner/p spec.taints: expected a list, found \"none\""),
        row(provisioner(json!({ "labels": { "a": 1 } })), "E00 Provisioner/p spec.labels.a: expected a text, found 1"),
        row(provisioner(json!({ "requirements": ["x"] })), "E00 Provisioner/p spec.requirements[0]: expected a mapping, found \"x\""),
        row(provisioner(json!({ "ttlSecondsUntilExpired": i64::MAX })), "E00 Provisioner/p spec.ttlSecondsUntilExpired: expected at most 9223372036 seconds (292 years), found 9223372036854775807"),
        row(provisioner(json!({ "ttlSecondsAfterEmpty": 1e300 })), "E00 Provisioner/p spec.ttlSecondsAfterEmpty: expected an integer, found 1e+300"),
        Row(vec![object("karpenter.k8s.aws/v1", "EC2NodeClass", "c", json!("x")), beta_pool(json!({ "kubelet": { "maxPods": 1 } }), json!({}))], Options::default(),
            "E00 EC2NodeClass/c spec: expected a mapping, found \"x\""),
        row(json!({ "apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner" }), "E00 Provisioner/? metadata.name: expected a name, found nothing"),
        row(provisioner(json!({ "providerRef": null })), "E01 Provisioner/p spec: one of spec.provider, spec.providerRef (nodeClassRef) is required"),
        row(class_ref(Value::Null), "E01 NodePool/p spec.template.spec.nodeClassRef: one of spec.provider, spec.providerRef (nodeClassRef) is required"),
        row(provisioner(json!({ "provider": provider })), "E02 Provisioner/p spec: only one of spec.provider, spec.providerRef may be set"),
        row(provisioner(json!({ "providerRef": { "name": "c", "kind": "Other" } })), "E03 Provisioner/p spec.providerRef: unsupported node class reference karpenter.k8s.aws/Other"),
        row(class_ref(json!({ "name": "c", "apiVersion": "example.com/v1" })), "E03 NodePool/p spec.template.spec.nodeClassRef: unsupported node class reference example.com/EC2NodeClass"),
        Row(vec![provisioner(json!({ "providerRef": null, "provider": provider })), with_name(node_template(json!({})), "p")], Options::default(),
            "E04 Provisioner/p spec.provider: EC2NodeClass p already exists with different content"),
        Row(vec![provisioner(json!({})), beta_pool(json!({}), json!({}))], Options::default(),
            "E04 NodePool/p metadata.name: NodePool p already exists with different content"),
        row(provisioner(json!({ "labels": { "karpenter.sh/provisioner-name": "x" } })), "E05 Provisioner/p spec.labels[karpenter.sh/provisioner-name]: label karpenter.sh/provisioner-name is restricted; it is set from the NodePool name"),
        row(provisioner(json!({ "requirements": [{ "key": "karpenter.sh/provisioner-name", "operator": "Exists" }] })), "E05 Provisioner/p spec.requirements[0].key: label karpenter.sh/provisioner-name is restricted; it is set from the NodePool name"),
        row(provisioner(json!({ "startupTaints": [{ "key": "a" }] })), "E06 Provisioner/p spec.startupTaints[0].effect: taint effect is required"),
        row(provisioner(json!({ "ttlSecondsUntilExpired": -1 })), "E07 Provisioner/p spec.ttlSecondsUntilExpired: value cannot be negative"),
        row(provisioner(json!({ "ttlSecondsAfterEmpty": -1 })), "E07 Provisioner/p spec.ttlSecondsAfterEmpty: value cannot be negative"),
        row(provisioner(json!({ "ttlSecondsAfterEmpty": 1, "consolidation": { "enabled": true } })), "E08 Provisioner/p spec: ttlSecondsAfterEmpty and consolidation.enabled are mutually exclusive"),
        row(node_template(json!({ "launchTemplate": "x" })), "E10 AWSNodeTemplate/c spec.launchTemplate: cannot convert with \"spec.launchTemplate\""),
        row(node_template(json!({ "subnetSelector": null })), "E11 AWSNodeTemplate/c spec.subnetSelector: selector is required"),
        row(node_template(json!({ "securityGroupSelector": { "aws-ids": " , " } })), "E11 AWSNodeTemplate/c spec.securityGroupSelector: selector is required"),
        row(beta_class(json!({ "subnetSelectorTerms": [] })), "E11 EC2NodeClass/c spec.subnetSelectorTerms: selector is required"),
        row(node_template(json!({ "subnetSelector": { "aws-ids": "subnet-1", "a": "b" } })), "E12 AWSNodeTemplate/c spec.subnetSelector: id filter is mutually exclusive with other filters"),
        row(beta_class(json!({ "amiSelectorTerms": [{ "id": "ami-1", "name": "x" }] })), "E12 EC2NodeClass/c spec.amiSelectorTerms[0]: id filter is mutually exclusive with other filters"),
        row(node_template(json!({ "subnetSelector": many })), "E13 AWSNodeTemplate/c spec.subnetSelector: selector expands to more than 30 terms"),
        row(node_template(json!({ "securityGroupSelector": { "aws-ids": commas } })), "E13 AWSNodeTemplate/c spec.securityGroupSelector: selector expands to more than 30 terms"),
        row(node_template(json!({ "amiSelector": { "aws::name": commas } })), "E13 AWSNodeTemplate/c spec.amiSelector: selector expands to more than 30 terms"),
        row(beta_class(json!({ "subnetSelectorTerms": [{ "tags": many }] })), "E13 EC2NodeClass/c spec.subnetSelectorTerms[0].tags: selector expands to more than 30 terms"),
        row(node_template(json!({ "amiSelector": { "aws::owners": "self" } })), "E14 AWSNodeTemplate/c spec.amiSelector: owner needs a name or tags"),
        row(node_template(json!({ "amiFamily": "Custom" })), "E15 AWSNodeTemplate/c spec.amiFamily: amiFamily Custom needs AMI selectors"),
        row(beta_class(json!({ "amiFamily": null })), "E15 EC2NodeClass/c spec.amiFamily: amiFamily Custom needs AMI selectors"),
        row(node_template(json!({ "amiFamily": "Ubuntu" })), "E16 AWSNodeTemplate/c spec.amiFamily: amiFamily Ubuntu was removed; set AMI selectors"),
        row(beta_class(json!({ "amiFamily": "Ubuntu" })), "E16 EC2NodeClass/c spec.amiFamily: amiFamily Ubuntu was removed; set AMI selectors"),
        row(node_template(size(json!("1m"))), "E17 AWSNodeTemplate/c spec.blockDeviceMappings[0].ebs.volumeSize: invalid volumeSize"),
        row(node_template(size(json!(20))), "E17 AWSNodeTemplate/c spec.blockDeviceMappings[0].ebs.volumeSize: invalid volumeSize"),
        row(beta_class(json!({ "instanceProfile": "x" })), "E18 EC2NodeClass/c spec: exactly one of role, instanceProfile is required"),
        row(beta_class(json!({ "role": "" })), "E18 EC2NodeClass/c spec: exactly one of role, instanceProfile is required"),
        row(beta_pool(json!({}), json!({ "consolidationPolicy": "WhenEmpty" })), "E30 NodePool/p spec.disruption.consolidateAfter: consolidateAfter must be set with consolidationPolicy WhenEmpty"),
        row(provisioner(json!({ "weight": 101 })), "E99 NodePool/p spec.weight: v1 validation: Invalid value: 101: spec.weight in body should be less than or equal to 100"),
        row(beta_pool(json!({}), json!({ "expireAfter": "1hr" })), "E99 NodePool/p spec.template.spec.expireAfter: v1 validation: Invalid value: \"1hr\""),
        row(provisioner(json!({ "labels": { "karpenter.sh/mine": "x" } })), "E99 NodePool/p spec.template.metadata.labels: v1 validation: Invalid value: "),
        row(provisioner(json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "effect": "NoSchedule" }] })), "E99 NodePool/p spec: v1 validation: duplicate taint Key/Effect pair a=NoSchedule"),
        row(beta_pool(json!({}), json!({ "expireAfter": "9999999h" })), "E99 NodePool/p spec: v1 validation: invalid value: "),
        Row(vec![beta_class(json!({})), beta_pool(json!({ "kubelet": { "podsPerCore": 2 } }), json!({}))], Options::default(),
            "E99 EC2NodeClass/c spec.kubelet: v1 validation: spec.kubelet has fields not applied by the Bottlerocket AMI family"),
        Row(vec![beta_class(json!({})), beta_pool(json!({ "kubelet": { "maxPods": -1 } }), json!({}))], Options::default(),
            "E99 NodePool/p spec.template.spec.kubelet: v1 validation: spec.kubelet.maxPods: -1 can't be negative"),
        row(with_name(provisioner(json!({})), "Not_A_Name"), "E99 NodePool/Not_A_Name metadata.name: v1 validation: Invalid value: \"Not_A_Name\""),
    ]
}

#[rustfmt::skip]
fn warnings() -> Vec<Row> {
    let with_options = |input: Value, options: Options, finding| Row(vec![input], options, finding);
    let terms = json!([{ "name": "x" }]);
    let mut parked = object("karpenter.sh/v1", "NodePool", "p", json!({ "template": { "spec": {
        "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c" }, "requirements": [],
    }}}));
    parked["metadata"]["annotations"] = json!({ "compatibility.karpenter.sh/v1beta1-kubelet-conversion": "{}" });
    let taint = json!({ "key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule" });
    let gone = json!([{ "key": "karpenter.k8s.aws/instance-pods", "operator": "Gt", "values": ["10"] }]);
    let old_zone = json!([{ "key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"] }]);
    vec![
        row(provisioner(json!({ "ttlSecondsAfterEmtpy": 30 })), "W00 Provisioner/p spec.ttlSecondsAfterEmtpy: unknown field, dropped"),
        row(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } }), "W01 Node/n: skipped kind Node"),
        row(object("karpenter.sh/v1alpha5", "NodePool", "n", json!({})), "W01 NodePool/n: skipped kind NodePool of karpenter.sh/v1alpha5"),
        row(object("karpenter.sh/v1alpha5", "Machine", "m", json!({})), "W02 Machine/m: Machine objects are recreated by the controller, not converted"),
        row(object("karpenter.sh/v1", "NodeClaim", "m", json!({})), "W02 NodeClaim/m: NodeClaim objects are recreated by the controller, not converted"),
        row(provisioner(json!({})), "W03 Provisioner/p spec.requirements: added default requirement karpenter.k8s.aws/instance-category In [c, m, r]"),
        row(provisioner(json!({ "requirements": gone })), "W04 Provisioner/p spec.requirements[0].key: label karpenter.k8s.aws/instance-pods no longer exists, dropped"),
        row(provisioner(json!({ "kubeletConfiguration": { "containerRuntime": "dockerd" } })), "W05 Provisioner/p spec.kubeletConfiguration.containerRuntime: containerRuntime dockerd is not supported, dropped"),
        row(provisioner(json!({ "ttlSecondsUntilExpired": 60 })), "W06 Provisioner/p spec.ttlSecondsUntilExpired: expiration now drains immediately"),
        row(beta_pool(json!({}), json!({})), "W06 NodePool/p spec.disruption.expireAfter: expiration now drains immediately"),
        row(provisioner(json!({})), "W07 Provisioner/p spec: consolidation stays disabled (consolidateAfter: Never)"),
        row(provisioner(json!({})), "W08 Provisioner/p spec: default disruption budget of 10% now applies"),
        Row(vec![beta_class(json!({})), beta_pool(json!({}), json!({})), with_name(beta_pool(json!({ "kubelet": { "maxPods": 9 } }), json!({})), "q")], Options::default(),
            "W10 EC2NodeClass/c spec.kubelet: kubelet settings differ between pools; created EC2NodeClass c-q"),
        row(beta_pool(json!({ "kubelet": { "maxPods": 9 } }), json!({})), "W11 NodePool/p spec.template.spec.kubelet: add this kubelet block to EC2NodeClass c"),
        row(provisioner(json!({ "taints": [taint] })), "W12 Provisioner/p spec.taints[0].key: taint karpenter.sh/disruption is now karpenter.sh/disrupted"),
        row(node_template(json!({ "amiSelector": { "a": "b" } })), "W20 AWSNodeTemplate/c spec.amiSelector: AMI tags no longer add requirements"),
        row(node_template(json!({})), "W21 AWSNodeTemplate/c spec.amiFamily: AL2 is not available on Kubernetes 1.33+"),
        row(beta_class(json!({ "amiFamily": "AL2" })), "W21 EC2NodeClass/c spec.amiFamily: AL2 is not available on Kubernetes 1.33+"),
        row(node_template(json!({ "amiFamily": "Ubuntu", "amiSelector": { "aws-ids": "ami-1" } })), "W22 AWSNodeTemplate/c spec.amiFamily: Ubuntu converted to AL2 user data"),
        row(node_template(json!({ "instanceProfile": null })), "W23 AWSNodeTemplate/c spec.instanceProfile: set role (placeholder written)"),
        row(node_template(json!({ "tags": { "kubernetes.io/cluster/x": "owned" } })), "W24 AWSNodeTemplate/c spec.tags[kubernetes.io/cluster/x]: restricted tag kubernetes.io/cluster/x dropped"),
        row(beta_class(json!({ "tags": { "karpenter.sh/managed-by": "x" } })), "W24 EC2NodeClass/c spec.tags[karpenter.sh/managed-by]: restricted tag karpenter.sh/managed-by dropped"),
        row(node_template(json!({ "amiFamily": "Custom", "amiSelector": { "aws-ids": "ami-1" } })), "W25 AWSNodeTemplate/c spec.amiFamily: custom user data must register with karpenter.sh/unregistered:NoExecute"),
        row(beta_class(json!({ "amiFamily": "Custom", "amiSelectorTerms": terms })), "W25 EC2NodeClass/c spec.amiFamily: custom user data must register with karpenter.sh/unregistered:NoExecute"),
        row(node_template(json!({})), "W26 AWSNodeTemplate/c spec.metadataOptions: metadataOptions written out to keep previous values"),
        with_options(node_template(json!({})), Options { private_subnets: true, ..Options::default() }, "W27 AWSNodeTemplate/c spec: associatePublicIPAddress set to false"),
        row(beta_pool(json!({}), json!({ "consolidateAfter": "Never" })), "W30 NodePool/p spec.disruption.consolidateAfter: consolidateAfter Never kept"),
        row(parked, "W31 NodePool/p metadata.annotations[compatibility.karpenter.sh/v1beta1-kubelet-conversion]: compatibility annotation consumed"),
        row(beta_pool(json!({ "resources": { "requests": { "cpu": "1" } } }), json!({})), "W32 NodePool/p spec.template.spec.resources: template.spec.resources dropped"),
        row(beta_class(json!({})), "W33 EC2NodeClass/c spec.amiFamily: alias latest follows every AMI release"),
        row(beta_class(json!({ "subnetSelectorTerms": [{ "tags": { "a": "x,y" } }] })), "W34 EC2NodeClass/c spec.subnetSelectorTerms[0].tags: comma list split into terms"),
        row(beta_class(json!({ "amiFamily": "AL2023" })), "W35 EC2NodeClass/c spec.amiFamily: AL2023 behaviour changes"),
        row(provisioner(json!({ "requirements": old_zone })), "W36 Provisioner/p spec.requirements[0].key: deprecated label, translated at run time"),
    ]
}

#[test]
fn error_codes_are_reported_and_their_object_is_not_written() {
    for Row(inputs, options, finding) in errors() {
        let conversion = check(&finding[..3], &options, &inputs, finding);
        let failed =
            conversion.results.iter().filter(|result| result.status == ConversionStatus::Failed);
        assert_eq!(failed.map(|result| result.outputs.len()).collect::<Vec<_>>(), [0], "{finding}");
    }
}

#[test]
fn warning_codes_are_reported_and_all_objects_are_written() {
    for Row(inputs, options, finding) in warnings() {
        let conversion = check(&finding[..3], &options, &inputs, finding);
        assert!(
            conversion.results.iter().all(|result| result.status != ConversionStatus::Failed),
            "{finding}"
        );
    }
}

#[test]
fn every_finding_code_has_a_test_row() {
    #[rustfmt::skip]
    let codes = [
        "E00", "E01", "E02", "E03", "E04", "E05", "E06", "E07", "E08", "E10", "E11", "E12", "E13", "E14", "E15",
        "E16", "E17", "E18", "E30", "E99", "W00", "W01", "W02", "W03", "W04", "W05", "W06", "W07", "W08", "W10",
        "W11", "W12", "W20", "W21", "W22", "W23", "W24", "W25", "W26", "W27", "W30", "W31", "W32", "W33", "W34",
        "W35", "W36",
    ];
    let rows = errors().into_iter().chain(warnings());
    let tested: BTreeSet<_> = rows.map(|Row(.., finding)| &finding[..3]).collect();
    assert_eq!(tested.into_iter().collect::<Vec<_>>(), codes);
}

#[test]
fn a_large_selector_is_rejected_before_it_is_expanded() {
    let wide = vec!["x"; 1000].join(",");
    let keys = (0..1000).map(|key| (key.to_string(), Value::from(wide.clone())));
    let selector: Map<_, _> = keys.collect();
    let input = node_template(json!({ "subnetSelector": selector }));
    check("E13", &Options::default(), &[input], "objects = none\nE13");
}

/// Rows of the tables in the documentation: a code, then the text up to what varies.
#[test]
fn every_finding_code_is_documented_with_its_text() {
    const DOCUMENT: &str = include_str!("../../../../../docs/convert.md");
    let documented: Vec<(&str, Vec<&str>)> = DOCUMENT
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let code = cells.next().filter(|code| code.len() == 3)?;
            Some((code, cells.next()?.split('…').map(str::trim).collect()))
        })
        .collect();
    for Row(_, _, finding) in errors().into_iter().chain(warnings()) {
        let (code, text) = (&finding[..3], finding.split_once(": ").expect("a text").1);
        let found = documented.iter().find(|(documented, _)| *documented == code);
        let (_, parts) = found.unwrap_or_else(|| panic!("docs/convert.md lacks {code}"));
        for part in parts {
            assert!(text.contains(part), "docs/convert.md says {part:?} of {code}, not {text:?}");
        }
    }
}
