//! Tests of plans with the EC2 instance types of the built-in tables.

use super::*;

const CLASS_REF: &str = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}";

const CLASS: &str = "\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
";

fn ec2_pool() -> String {
    POOL.replace("    spec:\n", &format!("    spec:\n      nodeClassRef: {CLASS_REF}\n"))
}

#[track_caller]
fn plan_text(text: &str, args: &[&str]) -> RunOutput {
    let args: Vec<_> = ["-f", "-"].iter().chain(args).copied().collect();
    plan(&scenarios(), &args, text)
}

fn notes(ran: &RunOutput) -> Vec<String> {
    serde_json::from_value(ran.json()["notes"].clone()).unwrap()
}

#[test]
fn aws_manifests_are_planned_offline() {
    let ran = plan(&scenarios(), &["-f", "aws", "--provider", "aws", "--region", "us-west-2"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "60/D2-47, 60/D4-25, 60/D4-26");
    insta::assert_snapshot!(ran.stdout, @r"
    LAUNCH 4 nodes
      NODEPOOL       NODES  CHEAPEST TYPE  ALTERNATIVES  ZONE      CAPACITY   PODS  CPU               MEMORY                    $/HOUR  $/MONTH
      ondemand-pool      1  m5a.xlarge              598  any of 4  on-demand     1  3 / 3.92 (76%)    12 GiB / 13.83 GiB (86%)  0.1720   125.56
      gpu                1  g4dn.xlarge              51  any of 3  on-demand     1  2 / 3.92 (51%)    8 GiB / 14.14 GiB (56%)   0.5260   383.98
      spot-pool          1  c7a.medium              599  any of 4  spot          2  0.2 / 0.94 (21%)  1 GiB / 1.42 GiB (70%)    0.0513    37.46
      graviton           1  c7g.medium               26  any of 4  on-demand     2  0.2 / 0.94 (21%)  1 GiB / 1.36 GiB (73%)    0.0363    26.50

    PENDING 1 pod
      default/m5-on-arm
        NodePools spot-pool, ondemand-pool: the pod asks for kubernetes.io/arch arm64; the pool has amd64
          -> change what it asks for, or the requirements of the pool
        NodePool graviton: nearest type c7g.medium: node.kubernetes.io/instance-type is c7g.medium, not m5.2xlarge
          -> change what the pod asks for, or the requirements of the pool
        NodePool gpu: the pod does not tolerate nvidia.com/gpu:NoSchedule
          -> add a toleration to the pod, or take the taint off the pool

    Planned for 4 pods that workloads would make: Deployment default/amd64 (2), Deployment default/arm64 (2)

    note: prices are estimates: on-demand prices of us-east-1 from a built-in table; spot is priced as on-demand
    note: EC2NodeClass default without status: assuming a subnet in every zone of us-west-2, the AMIs of the AMI family, and no capacity reservation

    6 pods placed (6 on 4 new nodes), 1 pending; new nodes cost from $0.7856 an hour, $573.50 a month
    ");
}

#[test]
fn the_region_selects_aws_for_node_pools_with_an_ec2_node_class() {
    let environment = [("AWS_REGION", "us-west-2")];
    let flags =
        plan(&scenarios(), &["-f", "aws", "--provider", "aws", "--region", "us-west-2"], "");
    let region_alone = plan(&scenarios(), &["-f", "aws", "--region", "us-west-2"], "");
    let of_environment = plan_with(&scenarios(), &["-f", "aws"], "", &environment);
    assert_eq!(region_alone.stdout, flags.stdout);
    assert_eq!(of_environment.stdout, flags.stdout);
    // Other NodePools are planned with KWOK's types, whatever region the environment has.
    let kwok = plan_with(&scenarios(), &["-f", "shop"], "", &environment);
    assert_eq!(kwok.stdout, plan(&scenarios(), &["-f", "shop"], "").stdout);
    let kwok = plan_with(&scenarios(), &["-f", "shop"], "", &[("AWS_REGION", "mars-1")]);
    assert_eq!(kwok.code, 0, "{kwok:?}");
}

#[test]
fn notes_name_the_source_of_prices_and_zones() {
    let text = format!("{}---\n{POD}---\n{CLASS}", ec2_pool());
    let ran = plan_text(&text, &["--region", "eu-west-1", "-o", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!(notes(&ran).join("\n"), @r"
    prices are estimates: on-demand prices of us-east-1 from a built-in table; spot is priced as on-demand
    EC2NodeClass default without status: assuming a subnet in every zone of eu-west-1, the AMIs of the AMI family, and no capacity reservation
    ");
}

#[test]
fn a_missing_node_class_is_assumed_with_a_note() {
    let text = format!("{}---\n{POD}", ec2_pool());
    let ran = plan_text(&text, &["--region", "us-west-2", "-o", "json"]);
    assert_eq!((ran.code, ran.json()["pods"].as_u64()), (0, Some(1)), "{ran:?}");
    insta::assert_snapshot!(notes(&ran)[1], @"EC2NodeClass default not in the input: assuming AL2023 with default settings and a subnet in every zone of us-west-2");
    let other = CLASS.replace("name: default", "name: other");
    let ran = plan_text(&format!("{text}---\n{other}"), &["--region", "us-west-2"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("EC2NodeClass default is not in the input"), "{}", ran.stdout);
    assert!(ran.stdout.contains("-> add it, or use one that is: other"), "{}", ran.stdout);
}

#[test]
fn the_subnets_of_a_status_limit_the_zones() {
    let status = |zone: &str| {
        format!("{CLASS}status:\n  subnets: [{{id: subnet-1, zone: {zone}, zoneID: az1}}]\n")
    };
    let text = |zone: &str| format!("{}---\n{POD}---\n{}", ec2_pool(), status(zone));
    let ran = plan_text(&text("us-west-2b"), &["--region", "us-west-2", "-o", "json"]);
    assert_eq!(ran.json()["nodeClaims"][0]["zones"], serde_json::json!(["us-west-2b"]));
    assert_eq!(notes(&ran).len(), 1, "the status is not completed");
    let ran = plan_text(&text("eu-west-1a"), &["--region", "us-west-2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    insta::assert_snapshot!(ran.stderr, @r"
    error: NodePools with EC2NodeClass: the subnets of default are in eu-west-1a, not in region us-west-2
       fix: name the region of the cluster (--region)
    ");
}

#[test]
fn wrong_regions_are_usage_errors() {
    let unset = plan(&scenarios(), &["-f", "aws", "--provider", "aws"], "");
    let unknown = plan(&scenarios(), &["-f", "aws", "--region", "mars-1"], "");
    let kwok =
        plan(&scenarios(), &["-f", "aws", "--provider", "kwok", "--region", "us-west-2"], "");
    for ran in [&unset, &unknown, &kwok] {
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    }
    insta::assert_snapshot!([unset.stderr, unknown.stderr, kwok.stderr].join(""), @r#"
    error: --provider aws needs a region
       fix: add --region REGION, or set AWS_REGION, to one of ap-south-1, eu-west-1, us-east-1, us-east-2, us-west-2; --provider kwok needs none
      more: karpenter plan --help
    error: region "mars-1" has no table of instance types
       fix: use one of ap-south-1, eu-west-1, us-east-1, us-east-2, us-west-2 (--region)
      more: karpenter plan --help
    error: KWOK has no regions
       fix: leave --region out, or use --provider aws
      more: karpenter plan --help
    "#);
    let environment = [("AWS_REGION", "mars-1")];
    let ran = plan_with(&scenarios(), &["-f", "aws"], "", &environment);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.contains("region \"mars-1\" has no table"), "{}", ran.stderr);
}

#[test]
fn a_wrong_kubelet_configuration_leaves_out_the_node_pool() {
    let class = CLASS.replace("spec:\n", "spec:\n  kubelet: {podsPerCore: many}\n");
    let ran =
        plan_text(&format!("{}---\n{POD}---\n{class}", ec2_pool()), &["--region", "us-west-2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    let error = "error: NodePools with EC2NodeClass: default: parsing spec.kubelet, ";
    assert!(ran.stderr.starts_with(error), "{}", ran.stderr);
    assert!(ran.stderr.contains("fix: correct spec.kubelet: kubectl explain"), "{}", ran.stderr);
}

#[test]
fn underused_ec2_nodes_are_consolidated_offline() {
    let mut text = std::fs::read_to_string(scenarios().join("consolidate.yaml")).unwrap();
    for (kwok, ec2) in [
        ("{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}", CLASS_REF),
        ("c-16x-amd64-linux", "c5.4xlarge"),
        ("m-8x-amd64-linux", "r5.2xlarge"),
        ("s-4x-amd64-linux", "m5.xlarge"),
        ("c-8x-amd64-linux", "c5.2xlarge"),
        ("c-4x-amd64-linux", "c5.xlarge"),
        ("test-zone-", "us-west-2"),
    ] {
        assert!(text.contains(kwok), "{kwok}");
        text = text.replace(kwok, ec2);
    }
    let ran =
        plan_text(&format!("{text}---\n{CLASS}"), &["--consolidate", "--region", "us-west-2"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!(ran.stdout, @r#"
    REMOVE 4 nodes in 4 steps
      STEP  WHY            NODES   PODS  REPLACED BY                                            SAVES $/HOUR  $/MONTH
         1  empty          node-3     0  -                                                            0.1700   124.10
         2  underutilized  node-4     1  -                                                            0.5040   367.92
         3  underutilized  node-5     1  general: t3a.xlarge or 58 more, on-demand, us-west-2d        0.1896   138.41
         4  underutilized  node-6     1  general: t3a.xlarge or 1 more, on-demand, us-west-2c         0.0196    14.31

    STAY 3 nodes
      node-7: Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation
      node-1: Pdb prevents pod evictions
        blocked by PodDisruptionBudget shop/web, Pod shop/web-1
      node-2: Pod has "karpenter.sh/do-not-disrupt" annotation
        blocked by Pod batch/report

    note: prices are estimates: on-demand prices of us-east-1 from a built-in table; spot is priced as on-demand
    note: EC2NodeClass default without status: assuming a subnet in every zone of us-west-2, the AMIs of the AMI family, and no capacity reservation

    4 of 7 nodes would go, 2 would come; they cost $2.3960 an hour, $1749.08 a month; this saves $0.8832 an hour, $644.74 a month (37%)
    "#);
}
