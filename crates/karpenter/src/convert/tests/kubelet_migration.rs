//! Tests of the move of kubelet settings from pools to classes (spec 10 §16.3.4).

use super::*;

fn pool(name: &str, kubelet: Value) -> Value {
    with_name(beta_pool(json!({ "kubelet": kubelet }), json!({})), name)
}

#[test]
fn kubelet_settings_move_to_the_node_class() {
    let options = Options::default();
    let class = || beta_class(json!({}));
    let own = |max_pods: u32| {
        let mut class = outputs(&convert_objects(&[class()], &Options::default()))[0].clone();
        class["spec"]["kubelet"] = json!({ "maxPods": max_pods });
        class
    };
    #[rustfmt::skip]
    let cases = [
        ("10/LG-11", vec![class(), pool("b", json!({ "maxPods": 20 })), pool("a", json!({ "maxPods": 10 }))], r#"
            objects = EC2NodeClass/c EC2NodeClass/c-b NodePool/b NodePool/a
            EC2NodeClass/c spec.kubelet = {"maxPods": 10}
            EC2NodeClass/c-b spec.kubelet = {"maxPods": 20}
            NodePool/a spec.template.spec.nodeClassRef.name = "c"
            NodePool/b spec.template.spec.nodeClassRef.name = "c-b"
            W10
        "#),
        ("one group, whatever the order of its keys", vec![class(), pool("a", json!({ "maxPods": 1, "cpuCFSQuota": true })), pool("b", json!({ "cpuCFSQuota": true, "maxPods": 1 }))], r#"
            objects = EC2NodeClass/c NodePool/a NodePool/b
            EC2NodeClass/c spec.kubelet = {"maxPods": 1, "cpuCFSQuota": true}
        "#),
        ("the group without settings keeps the class", vec![class(), pool("a", json!({ "maxPods": 1 })), pool("z", Value::Null)], r#"
            objects = EC2NodeClass/c EC2NodeClass/c-a NodePool/a NodePool/z
            EC2NodeClass/c spec.kubelet = null
            NodePool/z spec.template.spec.nodeClassRef.name = "c"
        "#),
        ("a bad block is its own pool's fault", vec![class(), pool("bad", json!({ "maxPods": -5 })), pool("good", json!({ "maxPods": 9 })), pool("z", Value::Null)], "
            objects = EC2NodeClass/c EC2NodeClass/c-good NodePool/good NodePool/z
            E99
        "),
        ("an empty block is none", vec![class(), pool("a", json!({})), pool("b", Value::Null)], "
            objects = EC2NodeClass/c NodePool/a NodePool/b
            EC2NodeClass/c spec.kubelet = null
        "),
        ("a copy is named after the first pool of its group", vec![class(), pool("a", Value::Null), pool("d", json!({ "maxPods": 1 })), pool("b", json!({ "maxPods": 1 }))], r#"
            objects = EC2NodeClass/c EC2NodeClass/c-b NodePool/a NodePool/d NodePool/b
            NodePool/d spec.template.spec.nodeClassRef.name = "c-b"
        "#),
        ("what the class has of its own stays", vec![own(5), pool("a", json!({ "maxPods": 1 })), pool("b", json!({ "maxPods": 5 })), pool("z", Value::Null)], r#"
            objects = EC2NodeClass/c EC2NodeClass/c-a NodePool/a NodePool/b NodePool/z
            EC2NodeClass/c spec.kubelet = {"maxPods": 5}
            EC2NodeClass/c-a spec.kubelet = {"maxPods": 1}
            NodePool/b spec.template.spec.nodeClassRef.name = "c"
        "#),
        ("reserved quantities become texts", vec![class(), pool("a", json!({ "systemReserved": { "cpu": 1, "memory": "1Gi" }, "evictionSoft": { "memory.available": "5%" }, "evictionSoftGracePeriod": { "memory.available": "1m" } }))], r#"
            EC2NodeClass/c spec.kubelet = {"systemReserved": {"cpu": "1", "memory": "1Gi"}, "evictionSoft": {"memory.available": "5%"}, "evictionSoftGracePeriod": {"memory.available": "1m"}}
        "#),
        ("a copy whose name is taken", vec![class(), with_name(beta_class(json!({ "role": "other" })), "c-b"), pool("a", Value::Null), pool("b", json!({ "maxPods": 1 }))], "
            objects = EC2NodeClass/c EC2NodeClass/c-b NodePool/a
            E04 NodePool/b spec.template.spec.kubelet: EC2NodeClass c-b already exists with different content
        "),
        ("a class that was refused cannot take anything", vec![beta_class(json!({ "role": null })), pool("a", json!({ "maxPods": 1 }))], "
            objects = NodePool/a
            W11 NodePool/a spec.template.spec.kubelet: add this kubelet block to EC2NodeClass c
        "),
    ];
    for (id, inputs, expected) in cases {
        check(id, &options, &inputs, expected);
    }
}

#[test]
fn the_webhook_annotation_is_used_if_the_class_has_no_settings() {
    let converted =
        convert_objects(&[beta_class(json!({})), pool("a", Value::Null)], &Options::default());
    let [class, pool] = outputs(&converted)[..] else { panic!("two objects") };
    let mut pool = pool.clone();
    pool["metadata"]["annotations"] =
        json!({ "compatibility.karpenter.sh/v1beta1-kubelet-conversion": r#"{"maxPods":3}"# });
    let expected = r#"
        EC2NodeClass/c spec.kubelet = {"maxPods": 3}
        NodePool/a metadata.annotations = null
        W31
    "#;
    check("W31", &Options::default(), &[class.clone(), pool.clone()], expected);

    pool["metadata"]["annotations"] =
        json!({ "compatibility.karpenter.sh/v1beta1-kubelet-conversion": "not JSON" });
    let expected = "E00 NodePool/a metadata.annotations[compatibility.karpenter.sh/v1beta1-kubelet-conversion]: expected a JSON object, found \"not JSON\"";
    check("E00", &Options::default(), &[pool], expected);
}

#[test]
fn kubelet_blocks_to_add_manually_are_valid_yaml() {
    let pools = [pool("a", json!({ "maxPods": 1 })), pool("b", json!({ "maxPods": 2 }))];
    let conversion = convert_objects(&pools, &Options::default());
    let blocks: Vec<_> = conversion
        .results
        .iter()
        .flat_map(|result| &result.outputs[0].notes)
        .filter(|finding| finding.note.code() == "W11")
        .map(|finding| format!("{finding}\n{}", finding.note.yaml_block()))
        .collect();
    insta::assert_snapshot!(blocks.join("\n"), @r"
    W11 NodePool/a spec.template.spec.kubelet: add this kubelet block to EC2NodeClass c
    spec:
      kubelet:
        maxPods: 1

    W11 NodePool/b spec.template.spec.kubelet: add this kubelet block to EC2NodeClass c-b
    # a copy of c, which the pool must refer to
    spec:
      kubelet:
        maxPods: 2
    ");
}

#[test]
fn pools_and_classes_that_share_settings_are_linked() {
    let conversion = convert_objects(
        &[pool("a", json!({ "maxPods": 1 })), beta_class(json!({}))],
        &Options::default(),
    );
    assert_eq!(conversion.linked_inputs, [(0, 1)]);
    let conversion =
        convert_objects(&[pool("a", Value::Null), beta_class(json!({}))], &Options::default());
    assert_eq!(conversion.linked_inputs, []);
}
