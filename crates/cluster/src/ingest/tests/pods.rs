//! Tests of reading pods: requests, affinity, spread constraints, problems and shared specs.

use std::sync::Arc;

use karpenter_core::pod::{ControllerRef, OwnerKind, Phase, PodProblem};
use karpenter_core::scheduling::demand::{demand, is_provisionable};
use karpenter_core::selector::{Condition, Expression, LabelSelector, Selector};

use super::*;

const HOSTNAME_REFUSED: &str = "using label kubernetes.io/hostname is not allowed as it might \
     interfere with the internal provisioning logic; specify a well known label: \
     [karpenter.sh/capacity-type karpenter.sh/nodepool karpenter.test.sh/instance-cpu \
     karpenter.test.sh/instance-family karpenter.test.sh/instance-memory \
     karpenter.test.sh/instance-size kubernetes.io/arch kubernetes.io/os \
     node.kubernetes.io/instance-type node.kubernetes.io/windows-build \
     topology.kubernetes.io/region topology.kubernetes.io/zone], or a custom label that does not \
     use a restricted domain: [karpenter.sh karpenter.test.sh]";

fn required(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
    }}})
}

fn preferred(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": terms
    }}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[test]
fn node_requirements_that_karpenter_rejects_are_a_pod_problem() {
    let nodepool = "karpenter.sh/nodepool";
    #[rustfmt::skip]
    let cases = [
        ("20/B8",  required(json!([expression("kubernetes.io/hostname", "In", &["a"])])), Some(HOSTNAME_REFUSED.to_owned())),
        ("20/B9",  json!({"nodeSelector": {"karpenter.sh/foo": "a"}}), Some(HOSTNAME_REFUSED.replace("kubernetes.io/hostname", "karpenter.sh/foo"))),
        ("20/B10", json!({"nodeSelector": {"kubernetes.io/x": "a", "sub.k8s.io/x": "a"}}), None),
        ("20/B11", required(json!([expression(nodepool, "DoesNotExist", &[])])), Some("configured to not run on a Karpenter provisioned node (requirement=karpenter.sh/nodepool DoesNotExist)".to_owned())),
        ("20/Q15 contradictory", required(json!([{"matchExpressions": [
            {"key": nodepool, "operator": "In", "values": ["a"]}, {"key": nodepool, "operator": "In", "values": ["b"]}]}])), None),
        ("20/Q15 preferred", preferred(json!([{"weight": 1, "preference": expression(nodepool, "DoesNotExist", &[])}])), None),
        ("second term", required(json!([expression("a", "Exists", &[]), expression(nodepool, "DoesNotExist", &[])])), None),
        ("second term too", required(json!([expression("a", "Exists", &[]), expression("b", "In", &[])])), Some("key b with operator In must have a value defined".to_owned())),
        ("fields", required(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}])), Some("node selector term with matchFields is not supported".to_owned())),
        ("operator", required(json!([expression("a", "Near", &["x"])])), Some("key a has an unsupported operator Near not in [In NotIn Exists DoesNotExist Gt Lt Gte Lte]".to_owned())),
        ("bound", required(json!([expression("a", "Gt", &["x"])])), Some("key a with operator Gt must have a single positive integer value".to_owned())),
        ("label value", json!({"nodeSelector": {"a": "-"}}), Some("invalid value - for key a, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".to_owned())),
        ("preferred bound", preferred(json!([{"weight": 1, "preference": expression("a", "Lt", &["x"])}])), Some("key a with operator Lt must have a single integer value, got [x]".to_owned())),
        ("known values", json!({"nodeSelector": {"karpenter.sh/capacity-type": "free"}}), Some("no valid values found in [free] for karpenter.sh/capacity-type, expected one of: [on-demand reserved spot], got: [free]".to_owned())),
        ("old key", json!({"nodeSelector": {"beta.kubernetes.io/arch": "amd64"}}), None),
        ("several", json!({"nodeSelector": {"a b": "x"}, "affinity": required(json!([{"matchFields": []}]))["affinity"]}), Some("key a b is not a qualified name, name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'); node selector term with matchFields is not supported".to_owned())),
    ];
    for (case, spec, text) in cases {
        let is_opt_out = case == "20/B11";
        let expected = text.map(|text| PodProblem { text, is_opt_out });
        assert_eq!(read_spec(spec).problem, expected, "{case}");
    }
}

#[test]
fn node_affinity_terms_are_kept_apart_with_normalized_keys() {
    let mut spec = required(json!([
        {"matchExpressions": [
            {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["x", "y"]},
            {"key": "topology.kubernetes.io/zone", "operator": "Exists"}]},
        expression("cores", "Gt", &["3"]),
        {},
    ]));
    spec["nodeSelector"] = json!({"beta.kubernetes.io/os": "linux", "team": "a"});
    spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([
        {"weight": 1, "preference": expression("beta.kubernetes.io/arch", "NotIn", &["arm64"])},
        {"weight": 100, "preference": expression("disk", "DoesNotExist", &[])},
    ]);
    let pod = read_spec(spec);
    let texts: Vec<_> = pod.spec.node_affinity.iter().map(ToString::to_string).collect();
    assert_eq!(pod.spec.node_selector.to_string(), "kubernetes.io/os In [linux], team In [a]");
    assert_eq!(texts, ["topology.kubernetes.io/zone In [x y]", "cores Exists >=4", ""], "20/A23");
    let preferred: Vec<_> = pod
        .spec
        .preferred_node_affinity
        .iter()
        .map(|weighted| (weighted.weight, weighted.term.to_string()))
        .collect();
    let expected = [(1, "kubernetes.io/arch NotIn [arm64]"), (100, "disk DoesNotExist")];
    assert_eq!(preferred, expected.map(|(weight, text)| (weight, text.to_owned())));
}

#[test]
fn pods_that_the_scheduler_marked_unschedulable_are_provisionable() {
    let gave_up = |reason: &str| json!({"conditions": [{"type": "PodScheduled", "status": "True", "reason": reason}]});
    let owned = |version: &str, kind: &str| json!({"name": "p", "ownerReferences": [{"apiVersion": version, "kind": kind, "name": "o", "uid": "u"}]});
    let plain = json!({"name": "p"});
    let mut nominated = gave_up("Unschedulable");
    nominated["nominatedNodeName"] = json!("n");
    #[rustfmt::skip]
    let cases = [
        ("plain",            plain.clone(),                gave_up("Unschedulable"),              true),
        ("20/B5",            plain.clone(),                gave_up("MATCH_NODE_SELECTOR_FAILED"), false),
        ("20/B6",            plain,                        nominated,                             false),
        ("20/B7 daemon",     owned("apps/v1", "DaemonSet"), gave_up("Unschedulable"),             false),
        ("20/B7 mirror",     owned("v1", "Node"),          gave_up("Unschedulable"),              false),
        ("other daemons",    owned("x.io/v1", "DaemonSet"), gave_up("Unschedulable"),             true),
        ("stateful",         owned("apps/v1", "StatefulSet"), gave_up("Unschedulable"),           true),
    ];
    for (case, metadata, status, expected) in cases {
        let pod = read_pod(metadata, json!({"containers": []}), status);
        assert_eq!(is_provisionable(&pod), expected, "{case}");
    }
}

#[test]
fn pod_metadata_owner_and_volumes_are_read() {
    let pod = read_pod(
        json!({
            "name": "web-0", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"},
            "creationTimestamp": "2025-01-02T03:04:05Z", "deletionTimestamp": "2025-01-02T04:00:00Z",
            "annotations": {"karpenter.sh/do-not-disrupt": "1h"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "x"},
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": true},
            ],
        }),
        json!({"containers": [], "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        ]}),
        json!({"phase": "Running", "startTime": "2025-06-15T14:30:00Z"}),
    );
    assert_eq!((pod.full_name().as_str(), pod.uid.as_str()), ("shop/web-0", "u-1"));
    assert_eq!(pod.created.to_string(), "2025-01-02T03:04:05Z");
    assert!(pod.terminating && !pod.unschedulable && !pod.preempting && !pod.is_virtual);
    assert_eq!((pod.phase, pod.owner), (Phase::Running, OwnerKind::StatefulSet));
    let controller = ControllerRef {
        group: "apps".to_owned(),
        kind: "StatefulSet".to_owned(),
        name: "web".to_owned(),
        uid: "s".to_owned(),
    };
    assert_eq!(pod.controller, Some(controller));
    assert_eq!(pod.volume_claims, ["data-web-0", "web-0-scratch"]);
    assert!(pod.do_not_disrupt, "started 36 minutes before the snapshot");
}

#[test]
fn pod_requests_include_all_containers_and_the_resize_status() {
    let container = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}});
    let mut sidecar = container("proxy", "250m");
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "containers": [container("a", "4"), container("b", "500m")],
        "initContainers": [sidecar, container("setup", "2")],
        "overhead": {"cpu": "10m"},
    });
    let metadata = json!({"name": "p"});
    let pod = read_pod(metadata.clone(), spec.clone(), json!({}));
    let expected = r#"{"cpu":"4760m","memory":"192Mi","pods":"1"}"#;
    assert_eq!(pod.spec.requests.json(), expected);

    let status = |reason: &str| {
        json!({
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
            "containerStatuses": [{
                "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "resources": {"requests": {"cpu": "100m"}}, "allocatedResources": {"cpu": "3"},
            }],
        })
    };
    let cpu = |reason| {
        read_pod(metadata.clone(), spec.clone(), status(reason))
            .spec
            .requests
            .amount("cpu")
            .millis()
    };
    assert_eq!(cpu("Deferred"), 4_760, "20/A37");
    assert_eq!(cpu("Infeasible"), 3_760, "what cannot be had is not counted");
}

#[test]
fn a_pod_with_an_invalid_quantity_is_kept_with_a_problem() {
    let pod = read_spec(json!({"containers": [{"name": "a", "resources": {"requests": {
        "cpu": "lots", "memory": "-1Gi", "example.com/x": "1e99999999"
    }}}]}));
    assert_eq!(
        pod.problem.unwrap().text,
        "resources.requests[cpu]: quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; \
         resources.requests[memory]: must not be negative"
    );
    assert!(pod.spec.requests.get("cpu").is_none());
    assert!(pod.spec.requests.amount("memory").is_zero());
    assert!(pod.spec.requests.get("example.com/x").is_some());
}

#[test]
fn only_host_ports_of_regular_containers_count() {
    let ports = json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081},
        {"containerPort": 82, "hostPort": 8082, "hostIP": "10.0.0.1", "protocol": "UDP"}]);
    let pod = read_spec(json!({
        "containers": [{"name": "a", "ports": ports}],
        "initContainers": [{"name": "i", "ports": ports}],
    }));
    let found: Vec<_> =
        pod.spec.host_ports.iter().map(|p| (p.ip.as_str(), p.port, p.protocol.as_str())).collect();
    assert_eq!(found, [("0.0.0.0", 8081, "TCP"), ("10.0.0.1", 8082, "UDP")]);
}

#[test]
fn topology_spread_constraints_have_kubernetes_defaults() {
    let pod = read_spec(json!({"topologySpreadConstraints": [
        {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
        {"topologyKey": "host", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
         "labelSelector": {}, "matchLabelKeys": ["v"], "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
    ]}));
    let [any, all] = pod.spec.topology_spread.as_slice() else { panic!("two constraints") };
    assert!(!any.is_required && any.honors_node_affinity && !any.honors_node_taints);
    assert_eq!((any.max_skew, any.min_domains, &any.selector), (2, None, &Selector::Nothing));
    assert!(all.is_required && !all.honors_node_affinity && all.honors_node_taints);
    assert_eq!(all.selector, Selector::Matching(LabelSelector::default()), "empty selects all");
    assert_eq!(
        (all.min_domains, all.match_label_keys.as_slice()),
        (Some(3), &["v".to_owned()][..])
    );
}

#[test]
fn invalid_label_selectors_match_nothing() {
    let read = |selector: Value| {
        let pod = read_spec(json!({"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": selector}]
        }}}));
        pod.spec.pod_affinity[0].selector.clone()
    };
    let matching = |key: &str, condition| {
        let expressions = [Expression { key: key.to_owned(), condition }].into();
        Selector::Matching(LabelSelector { expressions, ..LabelSelector::default() })
    };
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    #[rustfmt::skip]
    let cases = [
        ("absent",       json!(null),                          Selector::Nothing),
        ("values",       expression("In", json!(["x"])),       matching("a", Condition::In(["x".to_owned()].into()))),
        ("exists",       expression("Exists", json!(null)),    matching("a", Condition::Exists)),
        ("no values",    expression("NotIn", json!([])),       Selector::Nothing),
        ("with values",  expression("Exists", json!(["x"])),   Selector::Nothing),
        ("operator",     expression("Gt", json!(["1"])),       Selector::Nothing),
        ("bad value",    expression("In", json!(["a b"])),     Selector::Nothing),
        ("bad key",      json!({"matchLabels": {"a b": "x"}}), Selector::Nothing),
        ("bad label",    json!({"matchLabels": {"a": "b c"}}), Selector::Nothing),
    ];
    for (case, selector, expected) in cases {
        assert_eq!(read(selector), expected, "{case}");
    }
}

#[test]
fn pods_with_resource_claims_request_devices() {
    let claims = json!([{"name": "gpu", "resourceClaimName": "mine"}, {"name": "net", "resourceClaimTemplateName": "t"},
        {"name": "none", "resourceClaimTemplateName": "t"}]);
    let pod = read_pod(
        json!({"name": "p"}),
        json!({"containers": [], "resourceClaims": claims}),
        json!({"resourceClaimStatuses": [{"name": "net", "resourceClaimName": "p-net-x"}, {"name": "none"}]}),
    );
    assert!(pod.spec.requests_dynamic_resources);
    let names: Vec<_> = pod.spec.resource_claims.iter().map(|claim| claim.name.as_str()).collect();
    assert_eq!(names, ["mine", "p-net-x"]);

    let by_container = json!([{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]);
    assert!(read_spec(json!({"initContainers": by_container})).spec.requests_dynamic_resources);
    assert!(!read_spec(json!({})).spec.requests_dynamic_resources);
}

#[test]
fn replicas_share_equal_specs_and_labels() {
    let replica = |name: &str, cpu: &str| {
        object(json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        }))
    };
    let pods = vec![replica("a", "1"), replica("b", "1000m"), replica("c", "2")];
    let found = snapshot(&Objects { pods, ..Objects::default() }, &settings()).snapshot.pods;
    assert!(Arc::ptr_eq(&found[0].spec, &found[1].spec), "equal amounts, written differently");
    assert!(!Arc::ptr_eq(&found[0].spec, &found[2].spec));
    assert!(Arc::ptr_eq(&found[0].labels, &found[2].labels));
}

#[test]
fn excluded_pods_are_reported() {
    let pod = |name: &str, node: &str| {
        object(
            json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"containers": [], "nodeName": node}}),
        )
    };
    let mut objects = Objects {
        pods: vec![pod("a", ""), pod("a", ""), pod("b", "gone"), pod("c", "here")],
        nodes: vec![object(json!({"metadata": {"name": "here"}}))],
        ..Objects::default()
    };
    objects.pods.push(object(json!({"metadata": {"name": "d", "namespace": "n"}})));
    objects.fill_defaults(&default_class());
    let ingested = snapshot(&objects, &settings());
    assert_eq!(
        diagnostics(&ingested),
        ["-!Pod n/a: another pod has the same name", "-Pod n/b: its node gone is not known"]
    );
    let names: Vec<_> = ingested.snapshot.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "d"]);
    let demand = demand(&ingested.snapshot);
    assert_eq!((demand.to_place.len(), demand.ignored.len()), (1, 1));
}

#[test]
fn invalid_required_node_affinity_of_bound_pods_is_reported() {
    let read = |operator: &str, values: Value, node: Option<&str>| {
        let term =
            json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        let mut spec = required(json!([term]));
        spec["containers"] = json!([]);
        spec["nodeName"] = json!(node);
        let objects = Objects {
            nodes: vec![object(json!({"metadata": {"name": "n"}}))],
            pods: vec![object(json!({"metadata": {"name": "p", "namespace": "x"}, "spec": spec}))],
            ..Objects::default()
        };
        let ingested = snapshot(&objects, &settings());
        let pods = diagnostics(&ingested).into_iter().filter(|mark| mark.contains("Pod "));
        (ingested.snapshot.pods[0].has_unparsed_constraints, pods.collect::<Vec<_>>())
    };
    assert_eq!(read("Gt", json!(["5"]), Some("n")), (false, vec![]));
    let near = "!Pod x/p: key a has an unsupported operator Near".to_owned();
    assert_eq!(read("Near", json!([]), Some("n")), (true, vec![near]));
    // Of those that wait it is the problem that keeps them waiting.
    assert_eq!(read("Near", json!([]), None), (true, vec![]));
    assert!(read("Gt", json!(["abc"]), Some("n")).0);
}

#[test]
fn pod_fields_that_the_api_server_rejects_are_a_problem() {
    let spread = |more: Value| {
        let mut constraint =
            json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
        constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"topologySpreadConstraints": [constraint]})
    };
    let port = |number: i64| json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": number}]}]});
    let toleration = |toleration: Value| json!({"tolerations": [toleration]});
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}});
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": selector}]}});
    #[rustfmt::skip]
    let cases = [
        (spread(json!({})),                             None),
        (spread(json!({"minDomains": 1})),              None),
        (spread(json!({"topologyKey": ""})),            Some("topologySpreadConstraints[0].topologyKey must not be empty")),
        (spread(json!({"maxSkew": -1})),                Some("topologySpreadConstraints[0].maxSkew must be 1 or more, is -1")),
        (spread(json!({"minDomains": 0})),              Some("topologySpreadConstraints[0].minDomains must be 1 or more, is 0")),
        (spread(json!({"whenUnsatisfiable": ""})),      Some("topologySpreadConstraints[0].whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway, is \"\"")),
        (port(0),                                       None),
        (port(65535),                                   None),
        (port(65536),                                   Some("container c: hostPort must be 1 to 65535, is 65536")),
        (port(-1),                                      Some("container c: hostPort must be 1 to 65535, is -1")),
        (toleration(json!({"key": "a", "operator": "Gt", "value": "1"})), None),
        (toleration(json!({"key": "a", "operator": "exists"})), Some("toleration of \"a\": operator must be Exists or Equal, is \"exists\"")),
        (toleration(json!({"operator": "Exists", "effect": "Never"})), Some("toleration of \"\": effect must be NoSchedule, PreferNoSchedule or NoExecute, is \"Never\"")),
        (json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": -1, "preference": {}}]}}}),
            Some("affinity: weight must be 1 to 100, is -1")),
        (json!({"affinity": affinity}),                 Some("affinity: topologyKey must not be empty")),
        (json!({"affinity": apart}),                    Some("affinity: key a: \"Near\" is not an operator")),
        (spread(json!({"labelSelector": selector})),    Some("topologySpreadConstraints[0].labelSelector: key a: \"Near\" is not an operator")),
    ];
    for (spec, expected) in cases {
        let pod = read_spec(spec.clone());
        assert_eq!(pod.has_unparsed_constraints, expected.is_some(), "{spec}");
        let problem = pod.problem.map(|problem| problem.text);
        assert_eq!(problem.as_deref(), expected, "{spec}");
    }
}

#[test]
fn evicted_pods_with_placement_constraints_are_constrained() {
    let pods = |kind: &str, term: &str, terms: Value| json!({"affinity": {kind: {term: terms}}});
    let spread = |when_unsatisfiable: &str| {
        json!({"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": when_unsatisfiable},
        ]})
    };
    let must = "requiredDuringSchedulingIgnoredDuringExecution";
    let term = json!([{"topologyKey": "kubernetes.io/hostname"}]);
    let rather = json!([{"weight": 1, "preference": expression("a", "Exists", &[])}]);
    let volume = |kind: &str, source: Value| json!({"volumes": [{"name": "v", kind: source}]});
    #[rustfmt::skip]
    let cases = [
        ("nothing",              json!({}),                                                          false),
        ("spread",               spread("DoNotSchedule"),                                            true),
        ("would rather spread",  spread("ScheduleAnyway"),                                           false),
        ("nodes",                required(json!([expression("a", "Exists", &[])])),                  true),
        ("would rather",         preferred(rather),                                                  false),
        ("selector",             json!({"nodeSelector": {"a": "b"}}),                                true),
        ("no selector",          json!({"nodeSelector": {}}),                                        false),
        ("near",                 pods("podAffinity", must, term.clone()),                            true),
        ("far",                  pods("podAntiAffinity", must, term),                                true),
        ("far from nobody",      pods("podAntiAffinity", must, json!([])),                           false),
        ("volume",               volume("persistentVolumeClaim", json!({"claimName": "c"})),         true),
        ("scratch",              volume("emptyDir", json!({})),                                      false),
        ("devices",              json!({"resourceClaims": [{"name": "g", "resourceClaimName": "g"}]}), true),
    ];
    for (case, mut spec, expected) in cases {
        spec["containers"] = json!([]);
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let pod: crate::wire::Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(
            crate::ingest::conversion::pod_to_evict(&pod).is_constrained,
            expected,
            "{case}"
        );
    }
}
