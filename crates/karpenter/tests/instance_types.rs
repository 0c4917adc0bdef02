//! Tests of `karpenter instance-types` from the outside: its output and its exit code.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "binary/mod.rs"]
mod binary;

use std::path::{Path, PathBuf};

use binary::{RunOutput, folder, run, subcommand};
use serde_json::{Value, json};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/plan")
}

/// Runs `karpenter instance-types` among the scenarios of plans, without a region.
#[track_caller]
fn instance_types(args: &[&str], stdin: &str) -> RunOutput {
    let mut command = subcommand("instance-types", &scenarios(), args);
    command.env_remove("AWS_REGION").env_remove("AWS_DEFAULT_REGION");
    run(command, stdin)
}

#[track_caller]
fn list(args: &[&str]) -> Vec<Value> {
    let ran = instance_types(&[args, &["-o", "json"]].concat(), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

fn names(types: &[Value]) -> Vec<&str> {
    types.iter().filter_map(|one| one["name"].as_str()).collect()
}

const US_WEST_2: &[&str] = &["--region", "us-west-2"];
const CHIPS: &str = "karpenter.k8s.aws/instance-family In [c7g,m7g]";

#[test]
fn requirements_filter_the_types_of_a_region() {
    let args = [US_WEST_2, &["--requirement", CHIPS, "--limit", "4"]].concat();
    let ran = instance_types(&args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(ran.stdout, @r"
    18 of 1345 instance types
      REQUIREMENT                                     REMOVES  LEAVES
      an available offering                                48    1297
      karpenter.k8s.aws/instance-family In [c7g m7g]     1279      18

      NAME        ARCH   CPU  ALLOCATABLE    MEMORY  ALLOCATABLE  PODS  GPU  ON-DEMAND $/HOUR  SPOT $/HOUR  ZONES
      c7g.medium  arm64    1         0.94  1.79 GiB     1.36 GiB     8    -            0.0363       0.0363  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      m7g.medium  arm64    1         0.94  3.64 GiB     3.21 GiB     8    -            0.0408       0.0408  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      c7g.large   arm64    2         1.93  3.64 GiB     2.98 GiB    29    -            0.0725       0.0725  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      m7g.large   arm64    2         1.93  7.34 GiB     6.68 GiB    29    -            0.0816       0.0816  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      and 14 more (--limit 0 shows all)

    note: prices are estimates: on-demand prices of us-east-1 from a built-in table; spot is priced as on-demand
    note: EC2NodeClass default not in the input: assuming AL2023 with default settings and a subnet in every zone of us-west-2
    ");
}

#[test]
fn node_pools_show_the_number_of_types_that_each_requirement_removes() {
    let ran = instance_types(&[US_WEST_2, &["-f", "aws", "--limit", "2"]].concat(), "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(ran.stdout, @r"
    NodePool spot-pool: 698 of 1345 instance types
      REQUIREMENT                                       REMOVES  LEAVES
      an available offering                                  48    1297
      karpenter.k8s.aws/instance-category In [c m r]        289    1008
      karpenter.k8s.aws/instance-generation Exists >=3        9     999
      karpenter.sh/capacity-type In [spot]                    0     999
      kubernetes.io/arch In [amd64]                         301     698

      NAME        ARCH   CPU  ALLOCATABLE    MEMORY  ALLOCATABLE  PODS  GPU  SPOT $/HOUR  ZONES
      c7a.medium  amd64    1         0.94  1.85 GiB     1.42 GiB     8    -       0.0513  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      c8a.medium  amd64    1         0.94  1.85 GiB     1.42 GiB     8    -       0.0539  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      and 696 more (--limit 0 shows all)

    NodePool ondemand-pool: 699 of 1345 instance types
      REQUIREMENT                                      REMOVES  LEAVES
      an available offering                                 48    1297
      karpenter.k8s.aws/instance-category In [c m r]       289    1008
      karpenter.k8s.aws/instance-memory Exists >=4048       20     988
      karpenter.sh/capacity-type In [on-demand]              0     988
      kubernetes.io/arch In [amd64]                        289     699

      NAME        ARCH   CPU  ALLOCATABLE   MEMORY  ALLOCATABLE  PODS  GPU  ON-DEMAND $/HOUR  ZONES
      m7a.medium  amd64    1         0.94  3.7 GiB     3.27 GiB     8    -            0.0580  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      m8a.medium  amd64    1         0.94  3.7 GiB     3.27 GiB     8    -            0.0609  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      and 697 more (--limit 0 shows all)

    NodePool graviton: 27 of 1345 instance types
      REQUIREMENT                                         REMOVES  LEAVES
      an available offering                                    48    1297
      karpenter.k8s.aws/instance-family In [c7g m7g r7g]     1270      27
      karpenter.sh/capacity-type In [on-demand]                 0      27
      kubernetes.io/arch In [arm64]                             0      27

      NAME        ARCH   CPU  ALLOCATABLE    MEMORY  ALLOCATABLE  PODS  GPU  ON-DEMAND $/HOUR  ZONES
      c7g.medium  arm64    1         0.94  1.79 GiB     1.36 GiB     8    -            0.0363  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      m7g.medium  arm64    1         0.94  3.64 GiB     3.21 GiB     8    -            0.0408  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      and 25 more (--limit 0 shows all)

    NodePool gpu: 58 of 1345 instance types
      REQUIREMENT                                              REMOVES  LEAVES
      an available offering                                         48    1297
      karpenter.k8s.aws/instance-gpu-manufacturer In [nvidia]     1239      58
      karpenter.sh/capacity-type In [on-demand]                      0      58

      NAME        ARCH   CPU  ALLOCATABLE    MEMORY  ALLOCATABLE  PODS  GPU  ON-DEMAND $/HOUR  ZONES
      g6f.large   amd64    2         1.93   7.4 GiB     6.84 GiB    20    -            0.2020  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      g6f.xlarge  amd64    4         3.92  14.8 GiB    13.83 GiB    58    -            0.2375  us-west-2a, us-west-2b, us-west-2c, us-west-2d
      and 56 more (--limit 0 shows all)

    note: prices are estimates: on-demand prices of us-east-1 from a built-in table; spot is priced as on-demand
    note: EC2NodeClass default without status: assuming a subnet in every zone of us-west-2, the AMIs of the AMI family, and no capacity reservation
    ");
}

#[test]
fn json_has_the_whole_instance_type() {
    let type_of = "node.kubernetes.io/instance-type In [m5.large]";
    let zone = "topology.kubernetes.io/zone In [us-west-2a]";
    let types = list(&[US_WEST_2, &["--requirement", type_of, "--requirement", zone]].concat());
    let [large] = types.as_slice() else { panic!("{types:?}") };
    assert_eq!(large["name"], "m5.large");
    assert_eq!(large["labels"]["kubernetes.io/arch"], "amd64");
    assert_eq!(large["labels"]["karpenter.sh/capacity-type"], json!(["on-demand", "spot"]));
    assert_eq!(
        (&large["capacity"]["cpu"], &large["capacity"]["pods"]),
        (&json!("2"), &json!("29"))
    );
    assert_eq!(large["allocatable"]["cpu"], "1930m");
    assert_eq!(large["overhead"]["cpu"], "70m");
    let offering = |capacity_type: &str| json!({"zone": "us-west-2a", "capacityType": capacity_type, "price": 0.096, "available": true});
    assert_eq!(large["offerings"], json!([offering("on-demand"), offering("spot")]));
    assert!(large.get("nodePool").is_none());
    let of_pools = list(&[US_WEST_2, &["-f", "aws", "--limit", "1"]].concat());
    let pools: Vec<_> = of_pools.iter().map(|one| one["nodePool"].as_str().unwrap()).collect();
    assert_eq!(pools.len(), 4, "{pools:?}");
}

#[test]
fn types_are_sorted_by_each_key() {
    let sorted = |key: &str| {
        let args = ["--requirement", CHIPS, "--sort", key, "--limit", "2"];
        let types = list(&[US_WEST_2, &args].concat());
        names(&types).join(" ")
    };
    assert_eq!(sorted("name"), "c7g.12xlarge c7g.16xlarge");
    assert_eq!(sorted("cpu"), "c7g.medium m7g.medium");
    assert_eq!(sorted("memory"), "c7g.medium c7g.large");
    assert_eq!(sorted("pods"), "c7g.medium m7g.medium");
    assert_eq!(sorted("price"), "c7g.medium m7g.medium");
    let gpus = list(&[US_WEST_2, &["--sort", "gpu", "--limit", "1"]].concat());
    assert_eq!(gpus[0]["capacity"]["nvidia.com/gpu"], "8");
}

#[test]
fn kwok_types_are_listed_without_a_region() {
    let types = list(&["--provider", "kwok"]);
    assert_eq!(types.len(), 144);
    let ran = instance_types(&["-f", "shop", "--limit", "1"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(ran.stdout.contains("NodePool general: "), "{}", ran.stdout);
    assert!(ran.stdout.contains("more (--limit 0 shows all)"), "{}", ran.stdout);
}

#[test]
fn a_node_pool_without_types_is_a_finding() {
    let none = "karpenter.k8s.aws/instance-family In [z99]";
    let ran = instance_types(&[US_WEST_2, &["--requirement", none]].concat(), "");
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    assert!(ran.stdout.starts_with("0 of 1345 instance types\n"), "{}", ran.stdout);
}

#[test]
fn wrong_usage_is_one_error_with_the_fix() {
    let requirement = |text: &'static str| [US_WEST_2, &["--requirement", text]].concat();
    let cases = [
        vec![],
        vec!["--region", "mars-1"],
        requirement("instance-family In [c7g]"),
        requirement("kubernetes.io/arch Near [arm64]"),
        requirement("kubernetes.io/arch"),
        requirement("karpenter.k8s.aws/instance-cpu Gt many"),
        [US_WEST_2, &["--sort", "size"]].concat(),
    ];
    let mut errors = String::new();
    for args in cases {
        let ran = instance_types(&args, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert_eq!(ran.stderr.matches("error:").count(), 1, "{args:?}: {}", ran.stderr);
        errors.push_str(&ran.stderr);
    }
    insta::assert_snapshot!(errors, @r#"
    error: --provider aws needs a region
       fix: add --region REGION, or set AWS_REGION, to one of ap-south-1, eu-west-1, us-east-1, us-east-2, us-west-2; --provider kwok needs none
      more: karpenter instance-types --help
    error: region "mars-1" has no table of instance types
       fix: use one of ap-south-1, eu-west-1, us-east-1, us-east-2, us-west-2 (--region)
      more: karpenter instance-types --help
    error: --requirement "instance-family In [c7g]": instance types have no label instance-family
       fix: use one of karpenter.k8s.aws/instance-family
      more: karpenter instance-types --help
    error: --requirement "kubernetes.io/arch Near [arm64]": Near is not an operator
       fix: use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte
      more: karpenter instance-types --help
    error: --requirement "kubernetes.io/arch": key or operator is missing
       fix: write KEY OPERATOR [VALUES], e.g. 'karpenter.k8s.aws/instance-family In [c7g,m7g]' or 'karpenter.k8s.aws/instance-cpu Gt 4'
      more: karpenter instance-types --help
    error: --requirement "karpenter.k8s.aws/instance-cpu Gt many": key karpenter.k8s.aws/instance-cpu with operator Gt must have a single positive integer value
       fix: write KEY OPERATOR [VALUES], e.g. 'karpenter.k8s.aws/instance-family In [c7g,m7g]' or 'karpenter.k8s.aws/instance-cpu Gt 4'
      more: karpenter instance-types --help
    error: invalid value 'size' for '--sort <KEY>'
      [possible values: price, cpu, memory, name, pods, gpu]

    For more information, try '--help'.
    "#);
}

#[test]
fn input_without_node_pools_is_an_error() {
    let class =
        "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: x}\n";
    let ran = instance_types(&["-f", "-"], class);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with("error: the input has no NodePool"), "{}", ran.stderr);
    let empty = folder(&[]);
    let path = empty.path().display().to_string();
    assert_eq!(instance_types(&["-f", &path], "").code, 1);
}

#[test]
fn help_has_examples() {
    let ran = instance_types(&["--help"], "");
    assert_eq!(ran.code, 0);
    assert!(
        ran.stdout.contains("Examples:\n  karpenter instance-types --region"),
        "{}",
        ran.stdout
    );
}
