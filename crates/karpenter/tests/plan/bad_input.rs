//! Tests of invalid input: a clear error or a marked object and a plan for the rest, no panic.

use super::*;

/// Plans a text and asserts a normal exit code without a panic.
#[track_caller]
fn plan_text(text: &str) -> RunOutput {
    let ran = plan(&scenarios(), &["-f", "-"], text);
    assert!(ran.code == 0 || ran.code == 1, "{ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    ran
}

#[test]
fn an_invalid_object_is_reported_and_the_rest_is_planned() {
    let broken = POD.replace("name: pod", "name: broken").replace("- name: c", "- 7");
    let broken = broken.split("    resources").next().unwrap().to_owned();
    let ran = plan_text(&format!("{POOL}---\n{broken}---\n{POD}"));
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    insta::assert_snapshot!(ran.stdout, @r#"
    LAUNCH 1 node
      NODEPOOL  NODES  CHEAPEST TYPE     ALTERNATIVES  ZONE      CAPACITY   PODS  CPU            MEMORY                  $/HOUR  $/MONTH
      pool          1  c-2x-amd64-linux           131  any of 4  on-demand     1  1 / 1.9 (52%)  1 GiB / 3.99 GiB (25%)  0.0543    39.64

    TO LOOK AT 1 object
      Pod broken: spec.containers[0]: invalid type: integer `7`, expected Container; left out (stdin:15)
        -> write it as its API has it: kubectl explain

    1 pod placed (1 on 1 new node), 0 pending; new nodes cost from $0.0543 an hour, $39.64 a month
    "#);
}

#[test]
fn an_invalid_document_is_reported_and_the_rest_is_planned() {
    let ran = plan_text(&format!("{POOL}---\na: [\n---\n{POD}"));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.starts_with("error: not valid YAML"), "{}", ran.stderr);
    assert!(ran.stdout.contains("1 pod placed"), "{}", ran.stdout);
}

#[test]
fn unknown_kinds_are_reported_once() {
    let rocket =
        |n: usize| format!("apiVersion: example.com/v1\nkind: Rocket\nmetadata: {{name: r{n}}}\n");
    let ran = plan_text(&format!("{POOL}---\n{}---\n{}---\n{POD}", rocket(1), rocket(2)));
    assert_eq!(ran.code, 0);
    assert_eq!(ran.stderr, "warning: example.com/v1 Rocket: unknown kind, 2 left out\n");
}

#[test]
fn the_first_of_two_objects_with_one_name_is_used() {
    let second = POD.replace("cpu: 1", "cpu: 9");
    let ran = plan_text(&format!("{POOL}---\n{POD}---\n{second}"));
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("1 pod placed"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("Pod pod: is given twice; the first one counts; left out (stdin:"),
        "{}",
        ran.stdout
    );
}

#[test]
fn old_api_versions_get_karpenter_convert_as_fix() {
    let old = POOL.replace("karpenter.sh/v1", "karpenter.sh/v1beta1");
    let ran = plan_text(&format!("{old}---\n{POD}"));
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("-> bring it to v1 first: karpenter convert"), "{}", ran.stdout);
}

#[test]
fn pods_stay_pending_without_node_pools() {
    let ran = plan_text(POD);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("no NodePool can launch anything"), "{}", ran.stdout);
}

#[test]
fn invalid_instance_types_are_reported_with_their_location() {
    for (text, message) in
        [("{", "instance types are not JSON"), ("[{\"name\": 7}]", "types.json  [0].name")]
    {
        let folder = folder(&[("types.json", text), ("all.yaml", POD)]);
        let args = ["-f", "all.yaml", "--instance-types", "types.json"];
        let ran = plan(folder.path(), &args, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
        assert!(
            ran.stderr.contains(message) && ran.stderr.contains("where: types.json"),
            "{ran:?}"
        );
    }
    let ran = plan(&scenarios(), &["-f", "pending.yaml", "--instance-types", "no.json"], "");
    assert!(ran.stderr.starts_with("error: cannot read instance types"), "{ran:?}");
}

#[test]
fn empty_input_is_an_error() {
    let ran = plan_text("");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with("error: no objects passed to plan\n"), "{}", ran.stderr);
}

#[test]
fn unreadable_input_gives_an_error_and_no_plan() {
    let folder = folder(&[("broken.yaml", "a: [\n")]);
    let args = ["-f", "missing.yaml", "-f", "broken.yaml"];
    for more in [&[][..], &["-o", "json"], &["--consolidate"], &["--consolidate", "-o", "yaml"]] {
        let ran = plan(folder.path(), &[&args[..], more].concat(), "");
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{more:?}: {ran:?}");
        let errors = ["cannot read file", "not valid YAML"];
        assert!(errors.iter().all(|error| ran.stderr.matches(error).count() == 1), "{ran:?}");
        let ran = plan(folder.path(), &[&args[..2], more].concat(), "");
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{more:?}: {ran:?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(ran.stderr, @r"
            error: cannot read file
             where: missing.yaml
             found: No such file or directory (os error 2)
               fix: name a file that can be read
            ");
        }
    }
}

#[test]
fn odd_quantities_and_references_do_not_break_the_plan() {
    let large = "x".repeat(1 << 20);
    let strange = [
        POD.replace("cpu: 1", "cpu: -1"),
        POD.replace("cpu: 1", "cpu: 1e30"),
        POD.replace("cpu: 1", "cpu: 99999999999999999999999999999999999999"),
        POD.replace("cpu: 1", "cpu: much"),
        POD.replace("{name: pod}", &format!("{{name: pod, labels: {{a: {large}}}}}")),
        POD.replace("spec:\n", "spec:\n  nodeName: nowhere\n"),
        POD.replace(
            "spec:\n",
            "spec:\n  volumes: [{name: v, persistentVolumeClaim: {claimName: no}}]\n",
        ),
        POD.replace("spec:\n", "spec:\n  priorityClassName: no\n  serviceAccountName: no\n"),
        POD.replace("spec:\n", "spec:\n  nodeSelector: {'': ''}\n"),
        POD.split("spec:").next().unwrap().to_owned(),
    ];
    let sound = POD.replace("name: pod", "name: sound");
    for text in strange {
        let ran = plan_text(&format!("{POOL}---\n{text}---\n{sound}"));
        let shown: String = ran.stdout.chars().take(2000).collect();
        assert!(ran.stdout.contains("placed"), "{shown}\n{}", ran.stderr);
    }
    for limits in ["{cpu: -5}", "{cpu: 1e99}", "{cpu: lots}", "7"] {
        let pool =
            POOL.replace("spec:\n  template", &format!("spec:\n  limits: {limits}\n  template"));
        let ran = plan_text(&format!("{pool}---\n{sound}"));
        assert!(ran.stdout.contains("pending"), "{limits}: {ran:?}");
    }
}
