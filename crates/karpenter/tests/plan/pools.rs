//! Tests of NodePools that cannot be planned with, and of types for them.

use super::*;

/// A pool of a name, with requirements in YAML.
fn pool(name: &str, requirements: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\n\
         spec: {{template: {{spec: {{requirements: [{requirements}]}}}}}}\n---\n"
    )
}

/// Returns a pool of another provider.
fn foreign_pool(name: &str, class: &str) -> String {
    pool(name, "").replace("requirements: []", &format!("requirements: [], nodeClassRef: {class}"))
}

const EC2_NODE_CLASS_REF: &str = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}";

#[track_caller]
fn plan_text(text: &str, args: &[&str]) -> RunOutput {
    let args: Vec<_> = ["-f", "-"].iter().chain(args).copied().collect();
    plan(&scenarios(), &args, text)
}

#[test]
fn a_node_pool_of_another_provider_does_not_stop_the_others() {
    let ran =
        plan_text(&format!("{}{POOL}---\n{POD}", foreign_pool("ec2", EC2_NODE_CLASS_REF)), &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    assert!(ran.stdout.contains("1 pod placed"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains(
            "NodePool ec2: EC2NodeClass: the region is not known; left out (stdin:1)\n    -> name \
             the region (--region us-west-2, or AWS_REGION); or plan with the built-in types of \
             KWOK (--provider kwok)"
        ),
        "{}",
        ran.stdout
    );
}

#[test]
fn kwok_prices_of_other_node_pools_get_a_note() {
    let text = format!("{}{POD}", foreign_pool("ec2", EC2_NODE_CLASS_REF));
    let note = "note: types and prices are KWOK's, which are invented; NodePools with EC2NodeClass";
    let ran = plan_text(&text, &["--provider", "kwok"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains(note), "{}", ran.stdout);
    let own = plan_text(&format!("{POOL}---\n{POD}"), &["--provider", "kwok"]);
    assert!(!own.stdout.contains("note:"), "{}", own.stdout);
    let json = plan_text(&text, &["--provider", "kwok", "-o", "json"]).json();
    assert!(json["notes"][0].as_str().unwrap().starts_with("types and prices are KWOK's"));
}

#[test]
fn a_node_pool_without_instance_types_reports_the_requirement() {
    let family = "{key: karpenter.kwok.sh/instance-family, operator: In, values: [c]}";
    for (requirements, problem, fix) in [
        (
            "{key: topology.kubernetes.io/zone, operator: In, values: [mars]}".to_owned(),
            "no instance type has topology.kubernetes.io/zone mars",
            "use what there is: test-zone-a, test-zone-b, test-zone-c, test-zone-d",
        ),
        (
            "{key: karpenter.kwok.sh/instance-family, operator: Exists, minValues: 9}".to_owned(),
            "its types do not meet minValues: karpenter.kwok.sh/instance-family has 3 of 9 values",
            "lower minValues, loosen the pool, or use --min-values-policy BestEffort",
        ),
        (
            format!(
                "{family}, {{key: node.kubernetes.io/instance-type, operator: In, values: [m-1x-amd64-linux]}}"
            ),
            "no instance type has node.kubernetes.io/instance-type m-1x-amd64-linux beside its other requirements",
            "loosen node.kubernetes.io/instance-type or another requirement of the pool",
        ),
    ] {
        let text = format!("{POOL}---\n{}{POD}", pool("odd", &requirements));
        let ran = plan_text(&text, &[]);
        assert_eq!(ran.code, 1, "left out of the plan: {ran:?}");
        let message = format!("NodePool odd: {problem}; left out (stdin:10)\n    -> {fix}\n");
        assert!(ran.stdout.contains(&message), "{message}\n{}", ran.stdout);
        let json = plan_text(&text, &["-o", "json"]).json();
        assert_eq!(json["unusableNodePools"], serde_json::json!(["odd"]));
    }
}

#[test]
fn invalid_node_pools_set_the_exit_code_and_waiting_ones_do_not() {
    let broken =
        POOL.replace("name: pool", "name: broken").replace("operator: In", "operator: Near");
    let claim = "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: new}\nspec: \
                 {requirements: [], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}\n";
    let fixed = POOL.replace("spec:\n  template", "spec:\n  replicas: 2\n  template");
    let fixed = fixed.replace("name: pool", "name: static");
    for (other, code) in [(broken.as_str(), 1), (claim, 0), (&fixed, 0)] {
        let ran = plan_text(&format!("{POOL}---\n{POD}---\n{other}"), &[]);
        assert!(ran.stdout.contains("TO LOOK AT 1 object"), "{ran:?}");
        assert_eq!(ran.code, code, "{other}: {ran:?}");
    }
}

#[test]
fn invalid_instance_types_are_reported_with_location_and_fix() {
    let tiny = |name: &str, price: &str| {
        format!(
            r#"{{"name": "{name}", "architecture": "amd64", "operatingSystems": ["linux"],
                "resources": {{"cpu": "4", "memory": "8Gi"}}, "offerings": [{{"Price": {price},
                "Requirements": [{{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["lab"]}}]}}]}}"#
        )
    };
    for (types, message) in [
        ("[]".to_owned(), "error: instance types: the list is empty"),
        (format!("[{}]", tiny("", "1")), "where: types.json  [0].name"),
        (format!("[{}]", tiny("a", "-1")), "where: types.json  [0] (a).offerings[0].Price"),
        (format!("[{}]", tiny("a", "1e999")), "instance types are not JSON"),
        (format!("[{}, {}]", tiny("a", "1"), tiny("a", "2")), "the name is taken by [0]"),
        (format!("[{}]", tiny("a", "\"1\"")), "where: types.json  [0] (a).offerings[0].Price"),
    ] {
        let folder = folder(&[("types.json", &types), ("all.yaml", POD)]);
        let args = ["-f", "all.yaml", "--instance-types", "types.json"];
        let ran = plan(folder.path(), &args, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
        assert!(
            ran.stderr.contains(message) && ran.stderr.contains("\n   fix: "),
            "{message}: {ran:?}"
        );
        assert_eq!(ran.stderr.matches("error:").count(), 1, "{ran:?}");
    }
}

#[test]
fn a_node_pool_with_a_missing_node_class_is_reported() {
    let class = "---\napiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: large}\n";
    let ran = plan_text(&format!("{POOL}---\n{POD}{class}"), &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let message = "NodePool pool: spec.template.spec.nodeClassRef: KWOKNodeClass default is not in the input \
                (stdin:1)\n    -> add it, or use one that is: large\n";
    assert!(ran.stdout.contains(message), "{}", ran.stdout);
    let ran = plan_text(&format!("{POOL}---\n{POD}{}", class.replace("large", "default")), &[]);
    assert!(!ran.stdout.contains("TO LOOK AT"), "{}", ran.stdout);
}

#[test]
fn pending_pods_show_the_invalid_field_of_their_node_pool() {
    let explain = "write it as its API has it: kubectl explain nodepool";
    for (fields, field, problem, line) in [
        ("weight: 101", "spec.weight", "must be 1 to 100, is 101", 5),
        ("limits: {a: 1, cpu: -5}", "spec.limits[cpu]", "must not be negative", 5),
        (
            "disruption:\n    consolidateAfter: 99999999999h",
            "spec.disruption.consolidateAfter",
            "invalid value: time: invalid duration \"99999999999h\" in consolidateAfter",
            6,
        ),
        (
            "disruption:\n    budgets:\n    - {nodes: '1'}\n    - {nodes: '-5'}",
            "spec.disruption.budgets[1]",
            "nodes must be a number of nodes, or a percentage from 0% to 100%, is \"-5\"",
            8,
        ),
    ] {
        let pool = POOL.replace("spec:\n  template", &format!("spec:\n  {fields}\n  template"));
        let ran = plan_text(&format!("{pool}---\n{POD}"), &[]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let shown: Vec<_> = ran.stdout.lines().collect();
        let path = field.split('[').next().unwrap();
        assert_eq!(shown[..2], ["PENDING 1 pod", "  default/pod"], "{}", ran.stdout);
        let message = format!("NodePool pool: {field}: {problem}");
        assert!(shown[2].starts_with(&format!("    {message}")), "{}", ran.stdout);
        assert_eq!(shown[3], format!("      -> {explain}.{path}"), "{}", ran.stdout);
        assert_eq!(shown[5], "TO LOOK AT 1 object", "{}", ran.stdout);
        assert!(shown[6].starts_with(&format!("  {message}")), "{}", ran.stdout);
        assert!(shown[6].ends_with(&format!("; left out (stdin:{line})")), "{}", ran.stdout);
        assert_eq!(shown[7], format!("    -> {explain}.{path}"), "{}", ran.stdout);
    }
}

#[test]
fn pending_pods_show_why_each_node_pool_is_left_out() {
    let zone = pool("odd", "{key: topology.kubernetes.io/zone, operator: In, values: [mars]}");
    let old = pool("old", "").replace("karpenter.sh/v1", "karpenter.sh/v1beta1");
    let still = pool("still", "").replace("spec: {template", "spec: {replicas: 2, template");
    let ran = plan_text(&format!("{zone}{old}{still}{POD}"), &[]);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(ran.stdout.split("\n\n").next().unwrap(), @r"
    PENDING 1 pod
      default/pod
        NodePool old: apiVersion: karpenter.sh/v1beta1 is a former version of NodePool
          -> bring it to v1 first: karpenter convert
        NodePool still: static: its replicas are kept whatever pods ask for
        NodePool odd: no instance type has topology.kubernetes.io/zone mars
          -> use what there is: test-zone-a, test-zone-b, test-zone-c, test-zone-d
    ");
}
