//! Tests of every rule and every code of spec 10 §16, row by row.
#![allow(clippy::needless_pass_by_value, reason = "rows read better without references")]

mod codes;
mod kubelet_migration;
mod properties;
mod workloads;

use serde_json::{Map, Value, json};

use super::*;

/// A Provisioner `p` that refers to the class `c`, unless `spec` differs.
fn provisioner(spec: Value) -> Value {
    let spec = with_fields(json!({ "providerRef": { "name": "c" }, "requirements": [] }), spec);
    object("karpenter.sh/v1alpha5", "Provisioner", "p", spec)
}

/// An AWSNodeTemplate `c` that lacks nothing.
fn node_template(spec: Value) -> Value {
    let tag = json!({ "discovery": "x" });
    let base = json!({ "subnetSelector": tag, "securityGroupSelector": tag, "instanceProfile": "profile" });
    object("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "c", with_fields(base, spec))
}

/// A v1beta1 NodePool `p` of the class `c`; `spec` is that of its template.
fn beta_pool(template: Value, disruption: Value) -> Value {
    let template =
        with_fields(json!({ "nodeClassRef": { "name": "c" }, "requirements": [] }), template);
    let spec = json!({ "template": { "spec": template }, "disruption": disruption });
    object("karpenter.sh/v1beta1", "NodePool", "p", spec)
}

/// A v1beta1 EC2NodeClass `c` that lacks nothing.
fn beta_class(spec: Value) -> Value {
    let terms = json!([{ "tags": { "discovery": "x" } }]);
    let base = json!({
        "amiFamily": "Bottlerocket",
        "role": "role",
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
    });
    object("karpenter.k8s.aws/v1beta1", "EC2NodeClass", "c", with_fields(base, spec))
}

fn object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name }, "spec": spec })
}

fn with_name(mut object: Value, name: &str) -> Value {
    object["metadata"]["name"] = name.into();
    object
}

/// Returns `base` with the fields of `changes`; null removes a field.
fn with_fields(base: Value, changes: Value) -> Value {
    let (Value::Object(mut base), Value::Object(changes)) = (base, changes) else {
        panic!("not a mapping")
    };
    base.extend(changes);
    base.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
}

fn convert_objects(inputs: &[Value], options: &Options) -> Conversion {
    convert(&inputs.iter().collect::<Vec<_>>(), options)
}

fn outputs(conversion: &Conversion) -> Vec<&Value> {
    let outputs = conversion.results.iter().flat_map(|result| &result.outputs);
    outputs.map(|output| &output.object).collect()
}

fn findings(conversion: &Conversion) -> Vec<String> {
    let results = conversion.results.iter();
    results
        .flat_map(|result| {
            let notes = result.outputs.iter().flat_map(|output| &output.notes);
            result.findings.iter().chain(notes).map(ToString::to_string)
        })
        .collect()
}

/// Checks a conversion against lines of three kinds: `objects = Kind/name …` names all that is
/// written, `Kind/name path = json` one field, everything else begins one of the findings.
///
/// Whatever is written has to be v1 and to stay the same when it is converted again.
#[track_caller]
fn check(id: &str, options: &Options, inputs: &[Value], expected: &str) -> Conversion {
    let conversion = convert_objects(inputs, options);
    let objects = outputs(&conversion);
    let messages = findings(&conversion);
    let name =
        |object: &Value| format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]));
    for line in expected.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_once(" = ") {
            Some(("objects", names)) => {
                let got: Vec<_> = objects.iter().map(|object| name(object)).collect();
                let got = if got.is_empty() { "none".to_owned() } else { got.join(" ") };
                assert_eq!(got, names, "{id}: {messages:#?}");
            }
            Some((field, value)) => {
                let (object, path) = field.split_once(' ').expect("Kind/name path");
                let found = objects.iter().find(|candidate| name(candidate) == object);
                let found = found.unwrap_or_else(|| panic!("{id}: no {object}: {messages:#?}"));
                let value: Value = serde_json::from_str(value).expect("JSON");
                assert_eq!(value_at(found, path), value, "{id}: {field}");
            }
            None => {
                let found = messages.iter().any(|finding| finding.starts_with(line));
                assert!(found, "{id}: {line:?} is not said: {messages:#?}");
            }
        }
    }
    let mut again = options.clone();
    again.workloads = true;
    let written: Vec<_> = objects.iter().map(|object| (*object).clone()).collect();
    let second = convert_objects(&written, &again);
    assert_eq!(outputs(&second), objects, "10/LG-19 {id}: {:#?}", findings(&second));
    conversion
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the value at a path like `a.b.0`, or null.
fn value_at(object: &Value, path: &str) -> Value {
    let pointer = format!("/{}", path.replace('/', "~1").replace('.', "/"));
    object.pointer(&pointer).cloned().unwrap_or_default()
}

#[test]
fn provisioners_become_node_pools() {
    let defaults = Options::default();
    let ignore_defaults = Options { ignore_defaults: true, ..Options::default() };
    let requirement = |key: &str, operator: &str| json!({ "key": key, "operator": operator });
    #[rustfmt::skip]
    let cases = [
        ("10/LG-1", &defaults, json!({
            "requirements": [
                { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
                { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] },
                { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["m"] },
            ],
            "ttlSecondsUntilExpired": 2_592_000, "ttlSecondsAfterEmpty": 30,
            "consolidation": { "enabled": false }, "limits": { "resources": { "cpu": 1000 } },
        }), r#"
            NodePool/p spec.template.spec.expireAfter = "720h"
            NodePool/p spec.disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}
            NodePool/p spec.limits = {"cpu": 1000}
            NodePool/p spec.template.spec.requirements.3 = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
            NodePool/p spec.template.spec.requirements.4 = null
            NodePool/p spec.template.spec.nodeClassRef = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}
        "#),
        ("10/LG-2", &defaults, json!({ "requirements": null }), r#"
            NodePool/p spec.template.spec.requirements.0 = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
            NodePool/p spec.template.spec.requirements.1 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
            NodePool/p spec.template.spec.requirements.2 = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
            NodePool/p spec.template.spec.requirements.3 = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}
            NodePool/p spec.template.spec.requirements.4 = {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]}
            NodePool/p spec.template.spec.requirements.5 = null
        "#),
        ("10/LG-2 --ignore-defaults", &ignore_defaults, json!({ "requirements": null }), "
            NodePool/p spec.template.spec.requirements = []
        "),
        ("10/LG-3", &defaults, json!({ "requirements": [
            requirement("beta.kubernetes.io/arch", "Exists"),
            requirement("karpenter.k8s.aws/instance-category", "Exists"),
        ]}), r#"
            NodePool/p spec.template.spec.requirements.2.key = "kubernetes.io/os"
            NodePool/p spec.template.spec.requirements.3.key = "karpenter.sh/capacity-type"
            NodePool/p spec.template.spec.requirements.4 = null
        "#),
        ("10/LG-17", &defaults, json!({}), r#"
            NodePool/p spec.disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
            NodePool/p spec.template.spec.expireAfter = "Never"
            W07
        "#),
        ("consolidation on", &defaults, json!({ "consolidation": { "enabled": true } }), r#"
            NodePool/p spec.disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
        "#),
        ("a label does not count as a requirement", &defaults, json!({ "labels": { "kubernetes.io/os": "linux" } }), r#"
            NodePool/p spec.template.spec.requirements.0.key = "kubernetes.io/os"
        "#),
        ("90 minutes", &defaults, json!({ "ttlSecondsUntilExpired": 5400, "ttlSecondsAfterEmpty": 0 }), r#"
            NodePool/p spec.template.spec.expireAfter = "90m"
            NodePool/p spec.disruption.consolidateAfter = "0s"
        "#),
        ("45 seconds", &defaults, json!({ "ttlSecondsUntilExpired": 45 }), r#"
            NodePool/p spec.template.spec.expireAfter = "45s"
        "#),
        ("annotations are renamed or dropped", &defaults, json!({ "annotations": {
            "karpenter.sh/do-not-evict": "true", "karpenter.sh/provisioner-hash": "1", "mine": "x",
        }}), r#"
            NodePool/p spec.template.metadata.annotations = {"karpenter.sh/do-not-disrupt": "true", "mine": "x"}
        "#),
        ("weight and fractions", &defaults, json!({ "weight": 7, "limits": { "resources": { "cpu": 1.5 } } }), r#"
            NodePool/p spec.weight = 7
            NodePool/p spec.limits.cpu = "1.5"
        "#),
    ];
    for (id, options, spec, expected) in cases {
        check(id, options, &[provisioner(spec)], &format!("objects = NodePool/p\n{expected}"));
    }
}

#[test]
fn aws_node_templates_become_node_classes() {
    let options = Options::default();
    let role = Options { role: Some("r".to_owned()), ..Options::default() };
    #[rustfmt::skip]
    let cases = [
        ("10/LG-5", &options, json!({ "amiSelector": { "aws-ids": "ami-1, ami-2" } }), r#"
            EC2NodeClass/c spec.amiSelectorTerms = [{"id": "ami-1"}, {"id": "ami-2"}]
            EC2NodeClass/c spec.amiFamily = "AL2"
        "#),
        ("10/LG-6", &options, json!({ "amiSelector": { "aws::name": "n1,n2", "aws::owners": "123456789,amazon" } }), r#"
            EC2NodeClass/c spec.amiSelectorTerms.0 = {"owner": "123456789", "name": "n1"}
            EC2NodeClass/c spec.amiSelectorTerms.1 = {"owner": "123456789", "name": "n2"}
            EC2NodeClass/c spec.amiSelectorTerms.2 = {"owner": "amazon", "name": "n1"}
            EC2NodeClass/c spec.amiSelectorTerms.3 = {"owner": "amazon", "name": "n2"}
            EC2NodeClass/c spec.amiSelectorTerms.4 = null
        "#),
        ("tags alone look at self and amazon", &options, json!({ "amiSelector": { "env": "x" } }), r#"
            EC2NodeClass/c spec.amiSelectorTerms = [{"owner": "self", "tags": {"env": "x"}}, {"owner": "amazon", "tags": {"env": "x"}}]
        "#),
        ("a name has its own default owners", &options, json!({ "amiSelector": { "aws::name": "n", "env": "x" } }), r#"
            EC2NodeClass/c spec.amiSelectorTerms = [{"name": "n", "tags": {"env": "x"}}]
        "#),
        ("10/LG-8", &options, json!({ "subnetSelector": { "b": "z", "a": "x,y" } }), r#"
            EC2NodeClass/c spec.subnetSelectorTerms = [{"tags": {"a": "x", "b": "z"}}, {"tags": {"a": "y", "b": "z"}}]
        "#),
        ("values first, earlier combinations second", &options, json!({ "subnetSelector": { "a": "x,y", "b": "z,w" } }), r#"
            EC2NodeClass/c spec.subnetSelectorTerms.1.tags = {"a": "y", "b": "z"}
            EC2NodeClass/c spec.subnetSelectorTerms.2.tags = {"a": "x", "b": "w"}
        "#),
        ("the tag Name is not a group name", &options, json!({ "securityGroupSelector": { "Name": "*nodes" } }), r#"
            EC2NodeClass/c spec.securityGroupSelectorTerms = [{"tags": {"Name": "*nodes"}}]
        "#),
        ("every family has its alias", &options, json!({ "amiFamily": "Windows2022" }), r#"
            EC2NodeClass/c spec.amiSelectorTerms = [{"alias": "windows2022@latest"}]
            EC2NodeClass/c spec.amiFamily = null
        "#),
        ("--role takes the place of a profile", &role, json!({}), r#"
            EC2NodeClass/c spec.role = "r"
            EC2NodeClass/c spec.instanceProfile = null
        "#),
        ("--role takes the place of the placeholder", &role, json!({ "instanceProfile": null }), r#"
            EC2NodeClass/c spec.role = "r"
        "#),
        ("metadata options absent", &options, json!({}), r#"
            EC2NodeClass/c spec.metadataOptions = {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2, "httpTokens": "required"}
            W26
        "#),
        ("metadata options in part", &options, json!({ "metadataOptions": { "httpTokens": "required" } }), r#"
            EC2NodeClass/c spec.metadataOptions = {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required"}
        "#),
        ("metadata options without tokens", &options, json!({ "metadataOptions": { "httpPutResponseHopLimit": 3 } }), r#"
            EC2NodeClass/c spec.metadataOptions.httpTokens = "optional"
            EC2NodeClass/c spec.metadataOptions.httpPutResponseHopLimit = 3
            W26
        "#),
        ("the rest is copied", &options, json!({
            "userData": "x\n", "context": "c", "detailedMonitoring": true,
            "blockDeviceMappings": [{ "ebs": { "volumeSize": "20Gi", "iops": 3000 } }],
        }), r#"
            EC2NodeClass/c spec.userData = "x\n"
            EC2NodeClass/c spec.context = "c"
            EC2NodeClass/c spec.detailedMonitoring = true
            EC2NodeClass/c spec.blockDeviceMappings = [{"ebs": {"volumeSize": "20Gi", "iops": 3000}}]
        "#),
    ];
    for (id, options, spec, expected) in cases {
        check(
            id,
            options,
            &[node_template(spec)],
            &format!("objects = EC2NodeClass/c\n{expected}"),
        );
    }
}

#[test]
fn v1beta1_objects_become_v1() {
    let options = Options::default();
    let mut bottlerocket = beta_class(json!({}));
    bottlerocket["metadata"]["annotations"] =
        json!({ "compatibility.karpenter.k8s.aws/v1-alias-version": "1.10.0" });
    let terms = json!([{ "name": "own-*", "owner": "123456789012" }]);
    let devices = json!([{ "deviceName": "/dev/x", "ebs": { "volumeSize": "9Gi" } }]);
    let ubuntu = beta_class(
        json!({ "amiFamily": "Ubuntu", "amiSelectorTerms": terms, "blockDeviceMappings": devices }),
    );
    #[rustfmt::skip]
    let cases = [
        ("10/LG-12", beta_pool(json!({}), Value::Null), r#"
            NodePool/p spec.disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
            NodePool/p spec.template.spec.expireAfter = "720h"
        "#),
        ("10/LG-13", beta_pool(json!({}), json!({})), r#"
            NodePool/p spec.template.spec.nodeClassRef = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}
        "#),
        ("WhenEmpty, texts verbatim", beta_pool(json!({}), json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "1h30m", "expireAfter": "90m" })), r#"
            NodePool/p spec.disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1h30m"}
            NodePool/p spec.template.spec.expireAfter = "90m"
        "#),
        ("budgets", beta_pool(json!({}), json!({ "budgets": [{ "nodes": "5", "schedule": "@daily", "duration": "10m" }] })), r#"
            NodePool/p spec.disruption.budgets = [{"nodes": "5", "schedule": "@daily", "duration": "10m"}]
        "#),
        ("empty budgets stay empty", beta_pool(json!({}), json!({ "budgets": [] })), "
            NodePool/p spec.disruption.budgets = []
        "),
        ("minValues and labels of Kubernetes", beta_pool(json!({ "requirements": [
            { "key": "kubernetes.io/mine", "operator": "In", "values": ["a", "b"], "minValues": 2 },
        ]}), json!({})), "
            NodePool/p spec.template.spec.requirements.0.minValues = 2
        "),
        ("10/LG-14", bottlerocket, r#"
            EC2NodeClass/c spec.amiSelectorTerms = [{"alias": "bottlerocket@1.10.0"}]
            EC2NodeClass/c metadata.annotations = null
        "#),
        ("10/LG-15", ubuntu, r#"
            EC2NodeClass/c spec.amiFamily = "AL2"
            EC2NodeClass/c spec.amiSelectorTerms = [{"name": "own-*", "owner": "123456789012"}]
            EC2NodeClass/c spec.blockDeviceMappings = [{"deviceName": "/dev/x", "ebs": {"volumeSize": "9Gi"}}]
            W22
        "#),
        ("Ubuntu's root device", beta_class(json!({ "amiFamily": "Ubuntu", "amiSelectorTerms": terms })), r#"
            EC2NodeClass/c spec.blockDeviceMappings = [{"deviceName": "/dev/sda1", "rootVolume": true, "ebs": {"encrypted": true, "volumeType": "gp3", "volumeSize": "20Gi"}}]
        "#),
        ("10/LG-16", beta_class(json!({})), "
            EC2NodeClass/c spec.metadataOptions.httpPutResponseHopLimit = 2
            W26
        "),
        ("family and terms are kept together", beta_class(json!({ "amiFamily": "AL2", "amiSelectorTerms": terms })), r#"
            EC2NodeClass/c spec.amiFamily = "AL2"
        "#),
        ("no family is Custom", beta_class(json!({ "amiFamily": null, "amiSelectorTerms": terms })), r#"
            EC2NodeClass/c spec.amiFamily = "Custom"
        "#),
        ("the rest is copied", beta_class(json!({
            "associatePublicIPAddress": false, "instanceStorePolicy": "RAID0", "context": "c", "detailedMonitoring": true, "userData": "x",
        })), r#"
            EC2NodeClass/c spec.associatePublicIPAddress = false
            EC2NodeClass/c spec.instanceStorePolicy = "RAID0"
            EC2NodeClass/c spec.userData = "x"
        "#),
    ];
    for (id, input, expected) in cases {
        check(id, &options, &[input], expected);
    }
}

#[test]
fn inline_providers_become_node_classes_of_the_same_name() {
    let provider = node_template(json!({}))["spec"].clone();
    let inline = provisioner(json!({ "providerRef": null, "provider": provider.clone() }));
    let options = Options::default();
    check(
        "10/LG-4",
        &options,
        std::slice::from_ref(&inline),
        r#"
        objects = NodePool/p EC2NodeClass/p
        NodePool/p spec.template.spec.nodeClassRef.name = "p"
        EC2NodeClass/p spec.amiSelectorTerms = [{"alias": "al2@latest"}]
        EC2NodeClass/p spec.instanceProfile = "profile"
        "#,
    );
    let same = with_name(node_template(json!({})), "p");
    let expected = "objects = NodePool/p EC2NodeClass/p";
    check("a class that says the same is enough", &options, &[inline, same], expected);
}

#[test]
fn one_invalid_object_does_not_stop_the_others() {
    let options = Options::default();
    let bad = with_name(node_template(json!({ "launchTemplate": "mine" })), "bad");
    check(
        "10/LG-9",
        &options,
        &[bad, node_template(json!({}))],
        "objects = EC2NodeClass/c\nE10 AWSNodeTemplate/bad spec.launchTemplate",
    );
    let foreign = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } });
    check(
        "10/LG-10",
        &options,
        &[foreign, provisioner(json!({}))],
        "objects = NodePool/p\nW01 Secret/s: skipped kind Secret",
    );
    let ids = json!({ "aws::ids": "ami-1", "aws::name": "n", "aws::owners": "self", "env": "x" });
    check(
        "10/LG-7",
        &options,
        &[node_template(json!({ "amiSelector": ids }))],
        "objects = none\nE12 AWSNodeTemplate/c spec.amiSelector",
    );
}

#[test]
fn conversion_keeps_the_metadata_of_the_user_only() {
    let mut pool = beta_pool(json!({}), json!({}));
    pool["metadata"] = json!({
        "name": "p", "uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": null,
        "managedFields": [], "ownerReferences": [], "namespace": "x",
        "labels": { "team": "a", "karpenter.sh/provisioner-name": "p" },
        "annotations": { "note": "b", "karpenter.sh/stored-version-migrated": "true", "kubectl.kubernetes.io/last-applied-configuration": "{}" },
        "finalizers": ["karpenter.sh/termination", "example.com/mine"],
    });
    pool["status"] = json!({ "resources": {} });
    let conversion = check("metadata", &Options::default(), &[pool], "objects = NodePool/p");
    let written = outputs(&conversion)[0];
    let expected = json!({
        "name": "p", "labels": { "team": "a" }, "annotations": { "note": "b" }, "finalizers": ["example.com/mine"],
    });
    assert_eq!(written["metadata"], expected);
    assert_eq!(written.get("status"), None);
}

#[test]
fn v1_objects_pass_through() {
    let mut pool =
        outputs(&convert_objects(&[beta_pool(json!({}), json!({}))], &Options::default()))[0]
            .clone();
    let conversion = convert_objects(&[pool.clone()], &Options::default());
    assert_eq!(conversion.results[0].status, ConversionStatus::Unchanged);
    assert_eq!(findings(&conversion), [""; 0]);

    pool["status"] = json!({ "nodes": 1 });
    let conversion = convert_objects(&[pool], &Options::default());
    assert_eq!(conversion.results[0].status, ConversionStatus::Changed);
}

/// Returns the manifests that documentation and end-to-end tests use, too.
fn legacy_manifests() -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/legacy");
    let manifests = crate::manifest::read(
        &[crate::manifest::Input::Path(folder.into())],
        &crate::manifest::InputLimits::MANIFESTS,
    );
    assert!(manifests.problems.is_empty(), "{:?}", manifests.problems);
    manifests.objects.into_iter().map(|object| object.value).collect()
}

#[test]
fn converted_objects_are_valid_in_v1() {
    let conversion = check("10/LG-19", &Options::default(), &legacy_manifests(), "");
    let written = outputs(&conversion);
    assert_eq!(written.len(), 17);
    for object in written {
        assert_eq!(validate::v1_violations(object), [], "10/LG-19 {object:#}");
    }
}

#[test]
fn the_manifests_of_the_terraform_pattern_keep_their_meaning() {
    let conversion = convert_objects(&legacy_manifests(), &Options::default());
    let find = |kind: &str| {
        let is_it =
            |object: &&&Value| object["kind"] == kind && object["metadata"]["name"] == "default";
        (*outputs(&conversion).iter().find(is_it).expect("it is written")).clone()
    };
    let class = find("EC2NodeClass");
    assert_eq!(
        class["spec"]["tags"],
        json!({ "karpenter.sh/discovery": "my-cluster" }),
        "60/D0-20"
    );
    assert_eq!(class["spec"]["amiSelectorTerms"], json!([{ "alias": "al2@latest" }]), "60/D0-20");
    let pool = find("NodePool");
    let input = legacy_manifests()
        .into_iter()
        .find(|object| object["kind"] == "NodePool" && object["metadata"]["name"] == "default");
    let requirements = "/spec/template/spec/requirements";
    assert_eq!(pool.pointer(requirements), input.unwrap().pointer(requirements), "60/D0-21");
    assert_eq!(pool["spec"]["disruption"]["consolidateAfter"], "30s", "60/D0-21");
}
