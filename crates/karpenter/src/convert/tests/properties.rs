//! Tests with random input: no panic, and the output is v1 and converts to itself.

use proptest::collection::{hash_map, vec};
use proptest::prelude::*;

use super::*;

/// Values of any shape.
fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| Value::from(if float.is_finite() { float } else { 0.5 })),
        prop::sample::select(vec![
            "",
            "a",
            "a,b",
            "Custom",
            "Ubuntu",
            "AL2",
            "Never",
            "0s",
            "WhenEmpty",
            "true",
            "x/y"
        ])
        .prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            hash_map(field_name(), inner, 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// Names that the converter looks for, at any place.
fn field_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "amiFamily",
        "amiSelector",
        "amiSelectorTerms",
        "annotations",
        "apiVersion",
        "aws-ids",
        "aws::name",
        "aws::owners",
        "blockDeviceMappings",
        "budgets",
        "consolidateAfter",
        "consolidation",
        "consolidationPolicy",
        "disruption",
        "ebs",
        "effect",
        "enabled",
        "expireAfter",
        "finalizers",
        "id",
        "instanceProfile",
        "key",
        "kind",
        "kubelet",
        "kubeletConfiguration",
        "labels",
        "limits",
        "maxPods",
        "metadata",
        "metadataOptions",
        "name",
        "nodeClassRef",
        "provider",
        "providerRef",
        "requirements",
        "resources",
        "role",
        "securityGroupSelector",
        "securityGroupSelectorTerms",
        "spec",
        "startupTaints",
        "subnetSelector",
        "subnetSelectorTerms",
        "systemReserved",
        "tags",
        "taints",
        "template",
        "ttlSecondsAfterEmpty",
        "ttlSecondsUntilExpired",
        "values",
        "volumeSize",
        "weight",
        "karpenter.sh/provisioner-name",
        "nodeSelector",
        "affinity",
        "tolerations",
    ])
    .prop_map(ToOwned::to_owned)
}

/// An object of a kind that is known, which has some good fields and some of any shape.
fn any_object() -> impl Strategy<Value = Value> {
    let good = prop::sample::select(vec![
        provisioner(json!({ "kubeletConfiguration": { "maxPods": 3 } })),
        provisioner(
            json!({ "providerRef": null, "provider": node_template(json!({}))["spec"].clone() }),
        ),
        node_template(json!({})),
        beta_pool(json!({ "kubelet": { "maxPods": 4 } }), json!({})),
        beta_class(json!({})),
        object("karpenter.sh/v1", "NodePool", "p", json!({})),
        object("karpenter.k8s.aws/v1", "EC2NodeClass", "c", json!({})),
        object("apps/v1", "Deployment", "d", json!({ "template": { "spec": {} } })),
        object("karpenter.sh/v1beta1", "NodeClaim", "n", json!({})),
    ]);
    let fields = hash_map(field_name(), any_value(), 0..4);
    let names = prop::sample::select(vec!["a", "b", "c", "p", "c-p"]);
    let spec = prop::option::weighted(0.1, any_value());
    (good, fields, names, any::<bool>(), spec).prop_map(|(mut object, fields, name, deep, spec)| {
        object["metadata"]["name"] = name.into();
        if let Some(spec) = spec {
            object["spec"] = spec;
        }
        let spec = if deep { object.pointer_mut("/spec/template/spec") } else { None };
        let place = match spec {
            Some(spec) => spec,
            None => &mut object["spec"],
        };
        if let Some(place) = place.as_object_mut() {
            place.extend(fields);
        }
        object
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn converting_converted_objects_again_changes_nothing(
        objects in vec(any_object(), 0..4),
        ignore_defaults in any::<bool>(),
        private_subnets in any::<bool>(),
    ) {
        let options = Options { ignore_defaults, private_subnets, role: None, workloads: true };
        let conversion = convert_objects(&objects, &options);
        prop_assert_eq!(conversion.results.len(), objects.len());
        let written: Vec<_> = outputs(&conversion).into_iter().cloned().collect();
        let second = convert_objects(&written, &options);
        prop_assert_eq!(outputs(&second), written.iter().collect::<Vec<_>>());
    }

    #[test]
    fn converting_any_value_does_not_panic(value in any_value(), name in field_name()) {
        for (api_version, kind) in [
            ("karpenter.sh/v1alpha5", "Provisioner"),
            ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
            ("karpenter.sh/v1beta1", "NodePool"),
            ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
            ("karpenter.sh/v1", "NodePool"),
            ("batch/v1", "CronJob"),
        ] {
            let mut object = json!({ "apiVersion": api_version, "kind": kind });
            object["spec"] = value.clone();
            object["metadata"] = value.clone();
            object[&name] = value.clone();
            convert_objects(&[object], &Options { workloads: true, ..Options::default() });
        }
    }
}
