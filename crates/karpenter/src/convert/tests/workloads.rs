//! Tests of old keys in Pod templates (spec 10 §16.8).

use super::*;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn workloads() -> Options {
    Options { workloads: true, ..Options::default() }
}

fn pod(metadata: Value, spec: Value) -> Value {
    let metadata = with_fields(json!({ "name": "w" }), metadata);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

fn terms(terms: Value) -> Value {
    json!({ "affinity": { "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": terms } } } })
}

/// Returns the converted spec of a Pod, with the findings.
fn converted_spec(spec: Value) -> (Value, Vec<String>) {
    let conversion = convert_objects(&[pod(json!({}), spec)], &workloads());
    (outputs(&conversion)[0]["spec"].clone(), findings(&conversion))
}

#[test]
fn old_node_labels_are_renamed() {
    let expression = |key: &str| json!({ "key": key, "operator": "DoesNotExist" });
    let old = expression("karpenter.sh/provisioner-name");
    let new = expression("karpenter.sh/nodepool");
    let preferred = |preference: &Value| json!({ "affinity": { "nodeAffinity": { PREFERRED: [{ "weight": 1, "preference": { "matchExpressions": [preference] } }] } } });
    let spread = |key: &str| json!({ "topologySpreadConstraints": [{ "topologyKey": key }] });
    let together = |key: &str| {
        json!({ "affinity": {
            "podAffinity": { REQUIRED: [{ "topologyKey": key }] },
            "podAntiAffinity": { PREFERRED: [{ "weight": 1, "podAffinityTerm": { "topologyKey": key } }] },
        }})
    };
    #[rustfmt::skip]
    let cases = [
        ("10/LG-18", terms(json!([{ "matchExpressions": [old] }])), terms(json!([{ "matchExpressions": [new] }]))),
        ("preference", preferred(&old), preferred(&new)),
        ("selector", json!({ "nodeSelector": { "karpenter.sh/provisioner-name": "x", "a": "b" } }), json!({ "nodeSelector": { "karpenter.sh/nodepool": "x", "a": "b" } })),
        ("spread", spread("karpenter.sh/provisioner-name"), spread("karpenter.sh/nodepool")),
        ("pod affinity", together("karpenter.sh/provisioner-name"), together("karpenter.sh/nodepool")),
        ("toleration", json!({ "tolerations": [{ "key": "karpenter.sh/disruption", "operator": "Equal", "value": "disrupting" }] }),
            json!({ "tolerations": [{ "key": "karpenter.sh/disrupted", "operator": "Equal" }] })),
        ("others", json!({ "tolerations": [{ "operator": "Exists" }], "nodeSelector": { "a": "b" } }), json!({ "tolerations": [{ "operator": "Exists" }], "nodeSelector": { "a": "b" } })),
    ];
    for (id, from, to) in cases {
        assert_eq!(converted_spec(from).0, to, "{id}");
    }
}

#[test]
fn removed_labels_are_dropped_from_workloads() {
    let gone =
        json!({ "key": "karpenter.k8s.aws/instance-pods", "operator": "Gt", "values": ["1"] });
    let other = json!({ "key": "a", "operator": "Exists" });
    let (spec, messages) = converted_spec(terms(json!([{ "matchExpressions": [gone, other] }])));
    assert_eq!(spec, terms(json!([{ "matchExpressions": [other] }])));
    assert_eq!(messages.len(), 1);
    assert!(messages[0].starts_with("W04 Pod/w spec.affinity.nodeAffinity."), "{messages:?}");

    // An alternative that could match nothing any more is removed; the others stay.
    let (spec, _) = converted_spec(terms(
        json!([{ "matchExpressions": [gone] }, { "matchExpressions": [other] }]),
    ));
    assert_eq!(spec, terms(json!([{ "matchExpressions": [other] }])));
    let (spec, _) = converted_spec(terms(json!([{ "matchExpressions": [gone] }])));
    assert_eq!(spec, json!({ "affinity": { "nodeAffinity": {} } }));

    let (spec, messages) =
        converted_spec(json!({ "nodeSelector": { "karpenter.k8s.aws/instance-ami-id": "ami-1" } }));
    assert_eq!(spec, json!({ "nodeSelector": {} }));
    assert_eq!(
        messages,
        [
            "W04 Pod/w spec.nodeSelector: label karpenter.k8s.aws/instance-ami-id no longer exists, dropped"
        ]
    );
}

#[test]
fn deprecated_labels_of_workloads_are_kept() {
    let spec = json!({ "nodeSelector": { "beta.kubernetes.io/arch": "amd64" } });
    let (same, messages) = converted_spec(spec.clone());
    assert_eq!(same, spec);
    assert_eq!(messages, ["W36 Pod/w spec.nodeSelector: deprecated label, translated at run time"]);
}

#[test]
fn old_annotations_are_renamed() {
    let annotated = |annotations: Value| pod(json!({ "annotations": annotations }), json!({}));
    let from = annotated(
        json!({ "karpenter.sh/do-not-evict": "true", "karpenter.sh/do-not-consolidate": "true", "a": "b" }),
    );
    let conversion = convert_objects(&[from], &workloads());
    assert_eq!(
        *outputs(&conversion)[0],
        annotated(json!({ "a": "b", "karpenter.sh/do-not-disrupt": "true" }))
    );
    let off = annotated(json!({ "karpenter.sh/do-not-evict": "false" }));
    assert_eq!(
        convert_objects(&[off], &workloads()).results[0].status,
        ConversionStatus::Unchanged
    );
}

#[test]
fn every_workload_kind_is_converted() {
    let template = |key: &str| json!({ "spec": { "nodeSelector": { key: "x" } } });
    let (old, new) = (template("karpenter.sh/provisioner-name"), template("karpenter.sh/nodepool"));
    let kinds = [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("batch/v1", "Job"),
    ];
    for (api_version, kind) in kinds {
        let from = object(api_version, kind, "w", json!({ "template": old }));
        let to = object(api_version, kind, "w", json!({ "template": new }));
        assert_eq!(
            outputs(&convert_objects(std::slice::from_ref(&from), &workloads())),
            [&to],
            "{kind}"
        );
        assert_eq!(
            convert_objects(&[from], &Options::default()).results[0].status,
            ConversionStatus::Skipped,
            "{kind}"
        );
    }
    let cron_job = |template: &Value| {
        let job = json!({ "spec": { "template": template } });
        object("batch/v1", "CronJob", "w", json!({ "jobTemplate": job }))
    };
    assert_eq!(outputs(&convert_objects(&[cron_job(&old)], &workloads())), [&cron_job(&new)]);
}

#[test]
fn workloads_of_an_unexpected_shape_are_left_alone() {
    for spec in [
        json!(null),
        json!(5),
        json!({ "template": [] }),
        json!({ "template": { "spec": { "affinity": { "nodeAffinity": "x" }, "tolerations": { "key": 1 }, "nodeSelector": [1] } } }),
    ] {
        let from = object("apps/v1", "Deployment", "w", spec);
        assert_eq!(
            convert_objects(&[from], &workloads()).results[0].status,
            ConversionStatus::Unchanged
        );
    }
}
