//! Tests of the messages and rejection counts of unschedulable pods.

use super::*;

#[test]
fn messages_are_those_of_kube_scheduler() {
    let taint = json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } });
    let small = json!({ "status": { "allocatable": { "cpu": "500m" } } });
    let full = on(
        "full",
        pod(
            "big",
            "x",
            json!({
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": "3500m" } } }],
            }),
        ),
    );
    let gpu = json!({
        "containers": [{ "name": "c", "resources": { "requests": { "x.io/gpu": "1" } } }],
    });
    let never = json!({ "preemptionPolicy": "Never" });
    let two = [node("a", "1", taint.clone()), node("b", "1", taint.clone())];
    let three = [two[0].clone(), two[1].clone(), node("small", "1", small)];
    let mixed = [node("full", "1", json!({})), two[0].clone(), two[1].clone()];
    #[rustfmt::skip]
    let cases = [
        ("nothing there", &[][..], json!({}),
         "no nodes available to schedule pods"),
        ("a pod that cannot come by room", &three, json!({}),
         "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
          no new claims to deallocate, preemption: 0/3 nodes are available: \
          3 Preemption is not helpful for scheduling."),
        ("one that others stand in the way of", &mixed, json!({}),
         "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
          no new claims to deallocate, preemption: 0/3 nodes are available: \
          1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."),
        ("one that waits for its turn", &mixed, never,
         "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
          no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."),
        ("devices by name", &mixed[..1], gpu,
         "0/1 nodes are available: 1 Insufficient x.io/gpu. \
          no new claims to deallocate, preemption: 0/1 nodes are available: \
          1 Preemption is not helpful for scheduling."),
        ("a claim that is not there", &mixed,
         json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] }),
         r#"0/3 nodes are available: persistentvolumeclaim "data" not found. not found"#),
    ];
    for (case, nodes, spec, expected) in cases {
        let bound: &[WirePod] = if nodes.iter().any(|n| n.metadata.name.as_deref() == Some("full"))
        {
            std::slice::from_ref(&full)
        } else {
            &[]
        };
        assert_eq!(placed(&mut cache_with(nodes, bound), &pod("p", "p", spec)), expected, "{case}");
    }
}

#[test]
fn rejection_counts_are_sorted_as_texts() {
    let mut nodes = Vec::new();
    for n in 0..12 {
        let more = if n < 10 {
            json!({ "spec": { "unschedulable": true } })
        } else {
            json!({ "status": { "allocatable": { "cpu": "0" } } })
        };
        nodes.push(node(&format!("n{n}"), "1", more));
    }
    let text = reasons(&mut cache_with(&nodes, &[]), &pod("p", "p", json!({})));
    assert_eq!(text, "10 node(s) were unschedulable, 2 Insufficient cpu");
}

#[test]
fn a_node_reports_all_reasons_of_the_first_failing_filter() {
    let none = json!({ "status": { "allocatable": { "cpu": "0", "memory": "0", "pods": "0" } } });
    let spec = json!({
        "containers": [{ "name": "c", "resources": { "requests": {
            "cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "x.io/gpu": "1", "a.io/b": "1",
        } } }],
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule",
        }],
    });
    assert_eq!(
        reasons(&mut cache_with(&[node("a", "1", none)], &[]), &pod("p", "p", spec)),
        "1 Insufficient a.io/b, 1 Insufficient cpu, 1 Insufficient ephemeral-storage, \
         1 Insufficient memory, 1 Insufficient x.io/gpu, 1 Too many pods"
    );
}
