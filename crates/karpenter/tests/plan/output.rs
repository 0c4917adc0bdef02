//! Tests of the output of `karpenter plan` for several kinds of input.

use super::*;
use serde_json::json;

#[test]
fn a_folder_of_manifests_is_planned() {
    let ran = plan(&scenarios(), &["-f", "shop"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(ran.stdout, @r#"
    LAUNCH 5 nodes
      NODEPOOL  NODES  CHEAPEST TYPE      ALTERNATIVES  ZONE         CAPACITY  PODS  CPU                MEMORY                       $/HOUR  $/MONTH
      batch         1  c-16x-amd64-linux            47  any of 4     spot         3  12.1 / 15.9 (76%)  12.12 GiB / 31.99 GiB (37%)  0.3041   221.96
      general       1  s-8x-amd64-linux              9  test-zone-a  spot         3  5.1 / 7.9 (64%)    17.12 GiB / 31.99 GiB (53%)  0.1641   119.76
      general       1  c-4x-amd64-linux             17  test-zone-b  spot         2  2.1 / 3.9 (53%)    2.12 GiB / 7.99 GiB (26%)    0.0760    55.49
      general       1  c-4x-amd64-linux             17  test-zone-c  spot         2  2.1 / 3.9 (53%)    2.12 GiB / 7.99 GiB (26%)    0.0760    55.49
      general       1  c-2x-amd64-linux             23  test-zone-d  spot         1  1.1 / 1.9 (57%)    1.12 GiB / 3.99 GiB (28%)    0.0380    27.74

    Planned for 11 pods that workloads would make: Deployment shop/web (6), StatefulSet shop/db (2), Job shop/report (3)

    11 pods placed (11 on 5 new nodes), 0 pending; new nodes cost from $0.6581 an hour, $480.44 a month
    "#);
}

#[test]
fn pending_pods_are_reported_with_the_nearest_instance_type() {
    let ran = plan(&scenarios(), &["-f", "pending.yaml"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    insta::assert_snapshot!(ran.stdout, @r#"
    LAUNCH 1 node
      NODEPOOL  NODES  CHEAPEST TYPE     ALTERNATIVES  ZONE      CAPACITY   PODS  CPU              MEMORY                    $/HOUR  $/MONTH
      general       1  c-1x-amd64-linux            47  any of 4  on-demand     1  0.5 / 0.9 (55%)  256 MiB / 1.99 GiB (12%)  0.0271    19.82

    PENDING 4 pods
      default/too-large
        NodePool gpu: the pod does not tolerate gpu:NoSchedule
          -> add a toleration to the pod, or take the taint off the pool
        NodePool general: nearest type c-16x-amd64-linux: karpenter.kwok.sh/instance-cpu is 16, not at most 8
          -> change what the pod asks for, or the requirements of the pool
      default/unknown-label
        NodePool gpu: the pod does not tolerate gpu:NoSchedule
          -> add a toleration to the pod, or take the taint off the pool
        NodePool general: the pod asks for label team, which the pool does not set
          -> add team to labels or requirements of the pool, or drop it
      default/wants-spot
        NodePool gpu: the pod does not tolerate gpu:NoSchedule
          -> add a toleration to the pod, or take the taint off the pool
        NodePool general: the pod asks for karpenter.sh/capacity-type spot; the pool has on-demand
          -> change what it asks for, or the requirements of the pool
      default/wrong-zone
        NodePool gpu: the pod does not tolerate gpu:NoSchedule
          -> add a toleration to the pod, or take the taint off the pool
        NodePool general: nearest type c-2x-amd64-linux: topology.kubernetes.io/zone is test-zone-a, test-zone-b, test-zone-c, test-zone-d, not mars-1
          -> change what the pod asks for, or the requirements of the pool

    NOT CONSIDERED 2 pods
      default/not-ours: configured to not run on a Karpenter provisioned node (requirement=karpenter.sh/nodepool DoesNotExist)
      default/no-volume: getting persistent volume claim, PersistentVolumeClaim "nowhere" not found (PersistentVolumeClaim=nowhere)
        -> add what is missing: kubectl get pvc,pv,storageclasses -A -o yaml

    1 pod placed (1 on 1 new node), 4 pending; new nodes cost from $0.0271 an hour, $19.82 a month
    "#);
}

#[test]
fn plan_json_and_yaml_are_equal() {
    let json = plan(&scenarios(), &["-f", "pending.yaml", "-o", "json"], "");
    let yaml = plan(&scenarios(), &["-f", "pending.yaml", "-o", "yaml"], "");
    assert_eq!((json.code, yaml.code), (1, 1));
    let mut json = json.json();
    let mut yaml: serde_json::Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
    for field in ["seconds", "setupSeconds"] {
        assert!(json[field].take().is_number());
        yaml[field].take();
    }
    assert_eq!(json, yaml);
    let claim = &json["nodeClaims"][0];
    assert_eq!(claim["pods"], json!(["default/fine"]));
    assert_eq!(claim["cheapestType"], "c-1x-amd64-linux");
    assert_eq!(json["pods"], 1);
    let months = json["monthlyPrice"].as_f64().unwrap() / json["totalPrice"].as_f64().unwrap();
    assert!((months - 730.0).abs() < 1e-6);
    let nearest = &json["explanations"][0]["nodePools"][1]["nearest"][0];
    assert_eq!(nearest["instanceType"], "c-16x-amd64-linux");
}

#[test]
fn stdin_lists_and_files_give_the_same_plan() {
    let list = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}, {}]}}",
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"},
            "spec": {"template": {"spec": {"requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}}),
    );
    let folder = folder(&[("a/pool.yaml", POOL), ("a/b/pod.yml", POD), ("list.json", &list)]);
    let texts: Vec<_> = [&["-f", "a"][..], &["-f", "a/pool.yaml", "a/b"], &["-f", "list.json"]]
        .iter()
        .map(|args| plan(folder.path(), args, ""))
        .chain([plan(folder.path(), &["-f", "-"], format!("{POOL}---\n{POD}"))])
        .map(|ran| {
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
            ran.stdout
        })
        .collect();
    assert!(texts[0].ends_with("1 pod placed (1 on 1 new node), 0 pending; new nodes cost from $0.0543 an hour, $39.64 a month\n"), "{}", texts[0]);
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:#?}");
}

#[test]
fn a_file_of_instance_types_replaces_the_built_in_ones() {
    let args = ["-f", "pending.yaml", "--instance-types", "types.json", "-o", "json"];
    let report = plan(&scenarios(), &args, "").json();
    assert_eq!(report["nodeClaims"][0]["instanceTypes"], json!(["tiny"]));
    assert_eq!(report["nodeClaims"][0]["zones"], json!(["lab"]));
}

#[test]
fn node_pools_of_another_cloud_need_an_explicit_provider() {
    let pool = POOL.replace(
        "    spec:\n",
        "    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}\n",
    );
    let text = format!("{pool}---\n{POD}");
    let ran = plan(&scenarios(), &["-f", "-"], &text);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    insta::assert_snapshot!(ran.stderr, @r"
    error: NodePools with EC2NodeClass: the region is not known
       fix: name the region (--region us-west-2, or AWS_REGION); or plan with the built-in types of KWOK (--provider kwok), or with your own (--instance-types FILE)
    ");
    let ran = plan(&scenarios(), &["-f", "-", "--provider", "kwok"], &text);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = plan(&scenarios(), &["-f", "-", "--provider", "aws", "--region", "us-east-2"], &text);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn node_overlays_change_prices_if_the_gate_is_on() {
    let overlay = "
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: free}
spec: {requirements: [], price: '0.5'}
";
    let text = format!("{POOL}---\n{POD}---{overlay}");
    let price = |args: &[&str]| {
        let all: Vec<_> = ["-f", "-", "-o", "json"].iter().chain(args).copied().collect();
        plan(&scenarios(), &all, &text).json()["totalPrice"].as_f64().unwrap()
    };
    assert!(price(&[]) < 0.1);
    assert!((price(&["--feature-gates", "NodeOverlay=true"]) - 0.5).abs() < 1e-9);
}

#[test]
fn capacity_buffers_add_pods_if_the_gate_is_on() {
    let buffer = "
apiVersion: v1
kind: PodTemplate
metadata: {name: unit}
template:
  spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare}
spec: {podTemplateRef: {name: unit}, replicas: 3}
";
    let text = format!("{POOL}---{buffer}");
    let pods = |args: &[&str]| {
        let all: Vec<_> = ["-f", "-", "-o", "json"].iter().chain(args).copied().collect();
        plan(&scenarios(), &all, &text).json()["pods"].clone()
    };
    assert_eq!(pods(&[]), 0);
    assert_eq!(pods(&["--feature-gates", "CapacityBuffer=true"]), 3);
}

#[test]
fn equal_input_gives_equal_output() {
    let run = || plan(&scenarios(), &["-f", "shop", "-f", "pending.yaml"], "").stdout;
    assert_eq!(run(), run());
}
